/*
 * The timer heap: a binary heap with at most one entry per VI. A VI whose timer is stopped has no
 * entry.
 */
#include "vipd/engine/internal.h"

static void timer_put(struct eng *eng, uint32_t at, struct eng_timer timer)
{
    eng->timer[at] = timer;
    eng->vi[timer.vi]->heap_at = at + 1;
}

static void timer_up(struct eng *eng, uint32_t at)
{
    struct eng_timer timer = eng->timer[at];

    while (at > 0) {
        uint32_t parent = (at - 1) / 2;

        if (eng->timer[parent].at_ns <= timer.at_ns)
            break;
        timer_put(eng, at, eng->timer[parent]);
        at = parent;
    }
    timer_put(eng, at, timer);
}

static void timer_down(struct eng *eng, uint32_t at)
{
    struct eng_timer timer = eng->timer[at];

    for (;;) {
        uint32_t child = 2 * at + 1;

        if (child >= eng->timer_count)
            break;
        if (child + 1 < eng->timer_count && eng->timer[child + 1].at_ns < eng->timer[child].at_ns)
            child++;
        if (eng->timer[child].at_ns >= timer.at_ns)
            break;
        timer_put(eng, at, eng->timer[child]);
        at = child;
    }
    timer_put(eng, at, timer);
}

static void timer_stop(struct eng_vi *vi)
{
    struct eng *eng = vi->eng;
    uint32_t at = vi->heap_at - 1;

    vi->heap_at = 0;
    eng->timer_count--;
    if (at == eng->timer_count)
        return;
    timer_put(eng, at, eng->timer[eng->timer_count]);
    if (!VIP_MUTANT(HEAP_ORDER))
        timer_up(eng, at);
    timer_down(eng, at);
}

void eng_timer_set(struct eng_vi *vi, uint64_t at_ns)
{
    struct eng *eng = vi->eng;
    uint64_t old_ns;

    if (!vi->heap_at) {
        if (at_ns == ENG_NEVER)
            return;
        VIP_ASSERT(eng->timer_count < VIP_VI_MAX);
        timer_put(eng, eng->timer_count++, (struct eng_timer){.at_ns = at_ns, .vi = vi->index});
        timer_up(eng, vi->heap_at - 1);
        return;
    }
    if (at_ns == ENG_NEVER) {
        timer_stop(vi);
        return;
    }
    old_ns = eng->timer[vi->heap_at - 1].at_ns;
    eng->timer[vi->heap_at - 1].at_ns = at_ns;
    if (at_ns < old_ns)
        timer_up(eng, vi->heap_at - 1);
    else if (at_ns > old_ns)
        timer_down(eng, vi->heap_at - 1);
}

/*
 * Measures shared memory of one host. lat: two processes alternately write words in shared memory.
 * bw and rate: one process does one memcpy per message. The buffers are as large as those of
 * `vipperf bw` (tools/vipperf/floor_inside.h).
 */
#include "tools/vipperf/floor_inside.h"

#include <errno.h>
#include <sched.h>
#include <string.h>
#include <sys/mman.h>

/* Bytes of all messages under way, and their smallest number; the same as in `vipperf bw`. */
#define WINDOW_BYTES (8u << 20)
#define WINDOW_MIN   4u

/* A process yields after this many polls: the other process may need the processor. */
#define LOOKS_PER_YIELD 1000u

/* Each word has one writer and a cache line of its own. */
struct words {
    _Alignas(64) uint64_t ping;
    _Alignas(64) uint64_t pong;
};

static void relax(unsigned *looks)
{
    if (++*looks % LOOKS_PER_YIELD == 0) {
        sched_yield();
        return;
    }
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#endif
}

struct pinger {
    struct floor_run *run;
    struct words *words;
    uint64_t number;
};

static int round_trip(void *ctx)
{
    struct pinger *pinger = ctx;
    unsigned looks = 0;

    pinger->number++;
    __atomic_store_n(&pinger->words->ping, pinger->number, __ATOMIC_RELEASE);
    while (__atomic_load_n(&pinger->words->pong, __ATOMIC_ACQUIRE) != pinger->number)
        relax(&looks);
    return 0;
}

static int answerer(struct floor_run *run)
{
    struct words *words = run->relay;
    unsigned looks = 0;
    uint64_t seen = 0;

    while (floor_goes_on(run)) {
        uint64_t number = __atomic_load_n(&words->ping, __ATOMIC_ACQUIRE);

        if (number == seen) {
            relax(&looks);
            continue;
        }
        seen = number;
        __atomic_store_n(&words->pong, number, __ATOMIC_RELEASE);
    }
    return 0;
}

static int pinger(struct floor_run *run)
{
    struct pinger pinger = {run, run->relay, 0};

    return floor_ping(run, round_trip, &pinger);
}

/* Copy messages from one array of slots to another. The slots are used in order, in a circle. */
static int copier(struct floor_run *run)
{
    uint64_t slots = WINDOW_BYTES / run->size, sent = 0, total = 0;
    uint8_t *from, *to;

    if (slots < WINDOW_MIN)
        slots = WINDOW_MIN;
    from = run->relay;
    to = from + slots * run->size;
    memset(from, 1, slots * run->size);
    memset(to, 2, slots * run->size);
    for (; floor_send_more(run, sent); sent++) {
        uint64_t offset = sent % slots * run->size;

        memcpy(to + offset, from + offset, run->size);
        total += run->size;
        __atomic_store_n(&run->shared->rx_bytes, total, __ATOMIC_RELAXED);
        if (run->opts->iters > 0)
            __atomic_store_n(&run->shared->rx_last_ns, floor_now_ns(), __ATOMIC_RELAXED);
    }
    floor_take_stream(run, sent);
    floor_set_phase(run, FLOOR_STOP);
    return 0;
}

int floor_memory(struct floor_run *run)
{
    static const struct floor_member copying[] = {{copier, 0}};
    static const struct floor_member pinging[] = {{answerer, 1}, {pinger, 0}};
    bool lat = run->opts->what == FLOOR_LAT;
    uint64_t bytes = 2 * (WINDOW_BYTES + WINDOW_MIN * run->size);
    int rc;

    run->relay = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (run->relay == MAP_FAILED)
        return floor_failed(errno, "no shared memory");
    rc = lat ? floor_execute(run, pinging, 2) : floor_execute(run, copying, 1);
    munmap(run->relay, bytes);
    run->relay = NULL;
    return rc;
}

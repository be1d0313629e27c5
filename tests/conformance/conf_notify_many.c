/*
 * Specification 3.10, 3.12: the Notify calls on many queues, in many threads, and without any
 * completion.
 */
#include "calls.h"

#include <dirent.h>
#include <sched.h>
#include <unistd.h>

/* The Notify thread serves more queues than one futex call can wait for. */
static void many_vis_are_served_by_one_thread(void **state)
{
    enum { VIS = 300, EACH = 3 };
    static VIP_VI_HANDLE vis[VIS];
    unsigned seen[VIS] = {0};
    struct end end;

    (void)state;
    reset();
    conf_open(&end, 'A');
    for (unsigned v = 0; v < VIS; v++) {
        conf_vi(&end, VIP_SERVICE_RELIABLE_DELIVERY);
        vis[v] = end.vi;
        for (unsigned i = 0; i < EACH; i++) {
            char *at = end.buffer + (v * EACH + i) * 64;

            memset(at, 0, 64);
            CONF_OK(VipPostRecv(vis[v], (VIP_DESCRIPTOR *)(void *)at, end.handle));
            CONF_OK(VipRecvNotify(vis[v], number(v * EACH + i), on_desc));
        }
    }
    assert_int_equal(called(), 0);
    for (unsigned v = VIS; v > 0; v--)
        CONF_OK(VipDisconnect(vis[v - 1]));
    await_calls(VIS * EACH);
    for (unsigned n = 0; n < VIS * EACH; n++) {
        unsigned v = (unsigned)((uintptr_t)calls[n].context / EACH);

        assert_true(v < VIS);
        assert_ptr_equal(calls[n].vi, vis[v]);
        assert_ptr_equal(calls[n].context, number(v * EACH + seen[v]));
        assert_ptr_equal(calls[n].desc, end.buffer + (v * EACH + seen[v]) * 64);
        assert_true(pthread_equal(calls[n].thread, calls[0].thread));
        seen[v]++;
    }
    conf_close(&end);
}

/* Returns how many times all other threads of this process together have gone to sleep. */
static unsigned long sleeps_of_others(void)
{
    char path[300], line[256];
    unsigned long sum = 0, value;
    DIR *dir = opendir("/proc/self/task");
    struct dirent *entry;

    assert_non_null(dir);
    while ((entry = readdir(dir)) != NULL) {
        FILE *file;

        if (entry->d_name[0] == '.' || atol(entry->d_name) == (long)getpid())
            continue;
        snprintf(path, sizeof(path), "/proc/self/task/%s/status", entry->d_name);
        file = fopen(path, "r");
        if (file == NULL)
            continue;
        while (fgets(line, sizeof(line), file) != NULL)
            if (sscanf(line, "voluntary_ctxt_switches: %lu", &value) == 1)
                sum += value;
        fclose(file);
    }
    closedir(dir);
    return sum;
}

static void nothing_runs_while_nothing_happens(void **state)
{
    struct end a, b;
    unsigned long before;
    uint64_t started = 0, pause = 0;

    (void)state;
#ifdef __SANITIZE_THREAD__
    CONF_NOT_HERE("the thread sanitizer has a thread of its own that wakes now and then");
#endif
    pair(&a, &b, true);
    conf_post_recv(&b, conf_desc(&b, 0, 0, 64));
    CONF_OK(VipRecvNotify(b.vi, NULL, on_desc));
    CONF_OK(VipCQNotify(b.cq, NULL, on_entry));
    /* The loop ends when the other threads no longer wake. On a busy machine this may take a while.
     * If a thread woke regularly, the loop would run until its time limit. */
    do {
        assert_true(conf_pause(&started));
        before = sleeps_of_others();
        for (unsigned i = 0; i < 300; i++)
            conf_pause(&pause);
    } while (sleeps_of_others() != before);
    send_one(&a);
    await_calls(2);
    conf_close_pair(&a, &b);
}

/* ---- Done, Wait and Notify take from one queue at the same time ------------------------------ */

struct race {
    struct end *end;
    unsigned taken;            /* atomic; descriptors that any thread has taken */
    unsigned by_notify;        /* atomic; descriptors that a handler has taken */
    unsigned stop;             /* atomic */
    unsigned seen[CONF_DESCS]; /* atomic; for each descriptor: 1 if it is posted, 0 if not */
    unsigned wrong;            /* atomic */
};

/* A thread has taken a descriptor: check that it was posted once and taken once. Post it again. */
static void race_took(struct race *race, VIP_DESCRIPTOR *desc)
{
    size_t i = (size_t)((char *)desc - race->end->memory) / CONF_DESC_BYTES;

    if (i >= CONF_DESCS || __atomic_sub_fetch(&race->seen[i], 1, __ATOMIC_SEQ_CST) != 0)
        __atomic_add_fetch(&race->wrong, 1, __ATOMIC_SEQ_CST);
    __atomic_add_fetch(&race->seen[i], 1, __ATOMIC_SEQ_CST);
    desc->CS.Length = 64;
    if (VipPostRecv(race->end->vi, desc, race->end->handle) != VIP_SUCCESS)
        __atomic_add_fetch(&race->wrong, 1, __ATOMIC_SEQ_CST);
    __atomic_add_fetch(&race->taken, 1, __ATOMIC_SEQ_CST);
}

static void *run_done(void *arg)
{
    struct race *race = arg;
    VIP_DESCRIPTOR *desc;

    while (__atomic_load_n(&race->stop, __ATOMIC_SEQ_CST) == 0)
        if (VipRecvDone(race->end->vi, &desc) == VIP_SUCCESS)
            race_took(race, desc);
        else
            sched_yield();
    return NULL;
}

static void *run_wait(void *arg)
{
    struct race *race = arg;
    VIP_DESCRIPTOR *desc;

    while (__atomic_load_n(&race->stop, __ATOMIC_SEQ_CST) == 0)
        if (VipRecvWait(race->end->vi, 5, &desc) == VIP_SUCCESS)
            race_took(race, desc);
    return NULL;
}

static void race_notify(VIP_PVOID context, VIP_NIC_HANDLE nic, VIP_VI_HANDLE vi,
                        VIP_DESCRIPTOR *desc)
{
    struct race *race = context;

    (void)nic;
    race_took(race, desc);
    __atomic_add_fetch(&race->by_notify, 1, __ATOMIC_SEQ_CST);
    if (VipRecvNotify(vi, race, race_notify) != VIP_SUCCESS)
        __atomic_add_fetch(&race->wrong, 1, __ATOMIC_SEQ_CST);
}

static void done_wait_and_notify_share_a_queue(void **state)
{
    enum { N = 2000, POSTED = 48 };
    struct end a, b;
    struct race race = {.end = &b};
    pthread_t threads[2];
    uint64_t started = 0;

    (void)state;
    pair(&a, &b, false);
    for (unsigned i = 0; i < POSTED; i++) {
        race.seen[i] = 1;
        conf_post_recv(&b, conf_desc(&b, i, 0, 64));
    }
    for (unsigned i = 0; i < 4; i++)
        CONF_OK(VipRecvNotify(b.vi, &race, race_notify));
    pthread_create(&threads[0], NULL, run_done, &race);
    pthread_create(&threads[1], NULL, run_wait, &race);
    for (unsigned i = 0; i < N; i++) {
        while (i - __atomic_load_n(&race.taken, __ATOMIC_SEQ_CST) >= POSTED / 2)
            sched_yield();
        send_one(&a);
    }
    while (__atomic_load_n(&race.taken, __ATOMIC_SEQ_CST) < N)
        if (!conf_pause(&started))
            fail_msg("%u of %u messages were taken", race.taken, N);
    __atomic_store_n(&race.stop, 1, __ATOMIC_SEQ_CST);
    for (unsigned i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    assert_int_equal(__atomic_load_n(&race.taken, __ATOMIC_SEQ_CST), N);
    assert_int_equal(__atomic_load_n(&race.wrong, __ATOMIC_SEQ_CST), 0);
    print_message("of %u messages %u went to handlers\n", N,
                  __atomic_load_n(&race.by_notify, __ATOMIC_SEQ_CST));
    conf_close_pair(&a, &b);
}

static const struct conf_test tests[] = {
    CONF_T("3.10", CONF_FULL, many_vis_are_served_by_one_thread,
           "registrations on many VIs are all served"),
    CONF_T("3.10", CONF_FULL, nothing_runs_while_nothing_happens,
           "waiting registrations use no processor time"),
    CONF_T("3.12", CONF_FULL, done_wait_and_notify_share_a_queue,
           "Done, Wait and Notify on one queue in several threads lose and double nothing"),
};

CONF_MAIN(tests)

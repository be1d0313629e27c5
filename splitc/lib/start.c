/*
 * Start and end of a Split-C process. main joins the job, sets up memory and the NIC, and calls
 * splitc_main. After that the process waits for the end of all processes.
 */
#include "splitc/lib/rt.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "job/job.h"

/* A process that calls exit(0) waits at most this many seconds for the other processes to end. */
#define EXIT_GRACE_S 10

static pthread_t progress_thread;

/* The program's main function. It may have any return type; its value is ignored. */
extern int splitc_main(int argc, char **argv);

/* The progress thread: serves other processes while the program computes. */
static void *progress(void *unused)
{
    struct timespec pause = {0, 200000};

    (void)unused;
    for (;;) {
        rt_enter();
        if (rt.ended) {
            rt_leave();
            return NULL;
        }
        rt_poll();
        rt_accept();
        rt_leave();
        nanosleep(&pause, NULL);
    }
}

static bool wanted(const char *variable)
{
    const char *value = getenv(variable);

    return value && *value && strcmp(value, "0") != 0;
}

static void start_thread(void)
{
    if (!wanted("SPLITC_PROGRESS_THREAD") || sc_procs == 1)
        return;
    rt.threaded = true;
    if (pthread_create(&progress_thread, NULL, progress, NULL))
        rt_fatal("cannot start the progress thread: %s", strerror(errno));
}

/* Serve the other processes until all of them have reached this point, but for at most seconds_max
 * seconds (0: no limit). */
static void wait_for_all(int seconds_max)
{
    time_t end = time(NULL) + seconds_max;

    if (job_barrier_begin(rt.job))
        return;
    while (job_barrier_test(rt.job, 0) == 0) {
        rt_wait();
        if (seconds_max && time(NULL) > end)
            return;
    }
}

static void leave(void)
{
    rt_enter();
    /* A lost connection is now no error: a process that leaves the barrier first disconnects. */
    rt.leaving = true;
    if (sc_procs > 1) {
        for (int i = 0; i < sc_procs; i++)
            if (rt.peers[i]) {
                rt_rdma_drain(rt.peers[i]);
                rt_drain(rt.peers[i]);
            }
        wait_for_all(0);
    }
    rt.ended = true;
    rt_leave();
    if (rt.threaded)
        pthread_join(progress_thread, NULL);
    rt.threaded = false;
    rt_disconnect_all();
    job_finish(rt.job);
    rt.job = NULL;
}

/* Runs at the exit of the process. If the program has called exit(), end the whole job. */
static void at_exit(int code, void *unused)
{
    (void)unused;
    if (rt.ended || !rt.job)
        return;
    fflush(stdout);
    rt.leaving = true;
    if (code == 0 && sc_procs > 1) {
        /* When this process ends, its connections break and end the job: wait for the others. */
        wait_for_all(EXIT_GRACE_S);
    }
    rt.ended = true;
    if (sc_procs > 1 && code != 0) {
        char text[60];

        snprintf(text, sizeof(text), "it has called exit(%d)", code);
        (void)job_abort(rt.job, code, text);
    } else {
        job_finish(rt.job);
    }
}

static void ignore_error(VIP_PVOID context, VIP_ERROR_DESCRIPTOR *error)
{
    /* Ignore the error: if a connection breaks, its receive descriptors complete with an error. */
    (void)context;
    (void)error;
}

static void open_nic(void)
{
    const char *device = getenv("SPLITC_DEVICE");

    if (VipOpenNic(device ? device : "", &rt.nic) != VIP_SUCCESS)
        rt_fatal("cannot open the NIC: %s", VipxLastError());
    if (VipErrorCallback(rt.nic, NULL, ignore_error) != VIP_SUCCESS ||
        VipQueryNic(rt.nic, &rt.nic_attrs) != VIP_SUCCESS ||
        VipCreateCQ(rt.nic, (VIP_ULONG)(sc_procs - 1) * (2 * RT_RECEIVES + RT_NOTICES), &rt.cq) !=
            VIP_SUCCESS)
        rt_fatal("cannot set up the NIC: %s", VipxLastError());
    rt.rdma = rt_rdma_possible();
}

static void join(void)
{
    if (job_start(&rt.job))
        rt_fatal("cannot join the job: %s", job_error());
    sc_myproc = job_rank(rt.job);
    sc_procs = job_size(rt.job);
    for (sc_procs_log = 0; 1 << sc_procs_log < sc_procs; sc_procs_log++)
        ;
    if (1 << sc_procs_log != sc_procs)
        sc_procs_log = -1;
    rt.check = wanted("SPLITC_DEBUG");
    rt.peers = calloc((size_t)sc_procs, sizeof(struct rt_peer *));
    rt.addresses = calloc((size_t)sc_procs, sizeof(VIP_NET_ADDRESS *));
    if (!rt.peers || !rt.addresses)
        rt_fatal("out of memory");
    rt_heap_start();
    if (sc_procs > 1) {
        open_nic();
        rt_listen();
    }
    start_thread();
    if (on_exit(at_exit, NULL))
        rt_fatal("out of memory");
}

int main(int argc, char **argv)
{
    join();
    rt_heap_statics();
    splitc_main(argc, argv);
    fflush(stdout);
    leave();
    return 0;
}

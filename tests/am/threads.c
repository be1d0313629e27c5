/*
 * AM_PAR: threads make requests, poll and sleep on one bundle at the same time. Handlers of one
 * endpoint must not run at the same time; all requests must be answered; each sleeping thread must
 * wake for its event. In a job the threads of each process use the servers of all processes.
 *
 * usage: threads poll|block THREADS REQUESTS
 */
#include "tests/am/amtest.h"

#include <pthread.h>

#define THREADS_MAX 8
#define PROCS_MAX   8
#define PLACE_BYTES 4096

bool am_test_blocking;

enum { REQ = 1, REP, MED, LNG };

static eb_t bundle;
static ep_t client, server;
/* Each thread of each process has a place in every server's segment. */
static char segment[PROCS_MAX * THREADS_MAX * PLACE_BYTES];
static int me, procs, threads, requests;

/* Plain variables: an endpoint's handlers run one at a time, as the thread sanitizer checks. */
static int in_server, in_client, served, answered;
/* Atomic counts: answers that each thread has got; requests that this server has got. */
static int done[THREADS_MAX], served_all;

static void enter(int *inside)
{
    CHECK(*inside == 0);
    *inside = 1;
}

static void on_req(void *token, int thread)
{
    enter(&in_server);
    served++;
    OK(AM_Reply1(token, REP, thread));
    __atomic_add_fetch(&served_all, 1, __ATOMIC_RELEASE);
    in_server = 0;
}

static void on_rep(void *token, int thread)
{
    enter(&in_client);
    answered++;
    __atomic_add_fetch(&done[thread], 1, __ATOMIC_RELEASE);
    in_client = 0;
}

static void on_med(void *token, void *buf, size_t nbytes, int thread)
{
    enter(&in_server);
    served++;
    CHECK(pattern_good(buf, nbytes, (unsigned)thread));
    OK(AM_ReplyI1(token, LNG, buf, nbytes, thread));
    __atomic_add_fetch(&served_all, 1, __ATOMIC_RELEASE);
    in_server = 0;
}

static void on_lng(void *token, void *buf, size_t nbytes, int thread)
{
    enter(&in_client);
    answered++;
    CHECK(pattern_good(buf, nbytes, (unsigned)thread));
    __atomic_add_fetch(&done[thread], 1, __ATOMIC_RELEASE);
    in_client = 0;
}

static void on_xfer(void *token, void *buf, size_t nbytes, int thread)
{
    enter(&in_server);
    served++;
    CHECK(pattern_good(buf, nbytes, (unsigned)thread));
    OK(AM_Reply1(token, REP, thread));
    __atomic_add_fetch(&served_all, 1, __ATOMIC_RELEASE);
    in_server = 0;
}

static void *work(void *arg)
{
    int thread = (int)(intptr_t)arg;
    uintptr_t place = (uintptr_t)(me * THREADS_MAX + thread) * PLACE_BYTES;
    char source[3000];

    pattern_fill(source, sizeof(source), (unsigned)thread);
    for (int i = 0; i < requests; i++) {
        int to = (me + 1 + i) % procs;

        switch (i % 3) {
        case 0:
            OK(AM_Request1(client, to, REQ, thread));
            break;
        case 1:
            OK(AM_RequestI1(client, to, MED, source, sizeof(source), thread));
            break;
        case 2:
            OK(AM_RequestXfer1(client, to, place, LNG, source, sizeof(source), thread));
            break;
        }
        if (i % 4 == 3)
            WAIT_FOR(bundle, __atomic_load_n(&done[thread], __ATOMIC_ACQUIRE) == i + 1);
    }
    /* A server gets as many requests as a process sends. */
    WAIT_FOR(bundle, __atomic_load_n(&done[thread], __ATOMIC_ACQUIRE) == requests &&
                         __atomic_load_n(&served_all, __ATOMIC_ACQUIRE) == threads * requests);
    return NULL;
}

static void endpoints(void)
{
    en_t name, names[PROCS_MAX];

    OK(AM_AllocateBundle(AM_PAR, &bundle));
    OK(AM_AllocateEndpoint(bundle, &client, NULL));
    OK(AM_AllocateEndpoint(bundle, &server, &name));
    OK(AM_SetTag(client, AM_ALL));
    OK(AM_SetTag(server, 5));
    OK(AM_SetSeg(server, segment, sizeof(segment)));
    OK(AM_SetSeg(client, segment, sizeof(segment)));
    OK(AM_SetHandler(server, REQ, on_req));
    OK(AM_SetHandler(server, MED, on_med));
    OK(AM_SetHandler(server, LNG, on_xfer));
    OK(AM_SetHandler(client, REP, on_rep));
    OK(AM_SetHandler(client, LNG, on_lng));
    OK(AMX_SPMDAllGather(&name, names, sizeof(name)));
    for (int i = 0; i < procs; i++)
        OK(AM_Map(client, i, names[i], 5));
}

int main(int argc, char **argv)
{
    pthread_t id[THREADS_MAX];
    uint64_t job;
    eb_t spmd_bundle;
    ep_t spmd;

    OK(AMX_SPMDStartup(&argc, &argv, 0, &job, &spmd_bundle, &spmd));
    me = AMX_SPMDMyProc();
    procs = AMX_SPMDNumProcs();
    am_test_blocking = argc > 1 && strcmp(argv[1], "block") == 0;
    threads = argc > 2 ? atoi(argv[2]) : 4;
    requests = argc > 3 ? atoi(argv[3]) : 300;
    CHECK(threads >= 1 && threads <= THREADS_MAX && procs <= PROCS_MAX);
    endpoints();
    for (int i = 0; i < threads; i++)
        CHECK(pthread_create(&id[i], NULL, work, (void *)(intptr_t)i) == 0);
    for (int i = 0; i < threads; i++)
        pthread_join(id[i], NULL);
    CHECK(served == threads * requests && answered == threads * requests);
    if (me == 0) {
        am_test_passed("threads:any_thread_at_any_time");
        printf("threads: %d processes, %d threads each, %d requests each, %s: good\n", procs,
               threads, requests, am_test_blocking ? "blocking" : "polling");
    }
    fflush(stdout);
    OK(AMX_SPMDBarrier());
    AMX_SPMDExit(0);
}

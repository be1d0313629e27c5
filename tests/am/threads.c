/*
 * AM_PAR: threads that request, poll and sleep on one bundle at the same time. Handlers of one endpoint
 * never run at the same time; every request is answered; nobody sleeps through what it waits for.
 *
 * usage: threads poll|block THREADS REQUESTS
 */
#include "tests/am/amtest.h"

#include <pthread.h>

#define THREADS_MAX 8

bool am_test_blocking;

enum { REQ = 1, REP, MED, LNG };

static eb_t bundle;
static ep_t client, server;
static en_t server_name;
static char segment[THREADS_MAX * 4096];
static int requests;

/* Handlers of one endpoint are atomic: plain counters, which a thread sanitizer watches. */
static int in_server, in_client, served, answered;
static int done[THREADS_MAX]; /* atomic */

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
    in_server = 0;
}

static void *work(void *arg)
{
    int me = (int)(intptr_t)arg;
    char source[3000];

    pattern_fill(source, sizeof(source), (unsigned)me);
    for (int i = 0; i < requests; i++) {
        switch (i % 3) {
        case 0:
            OK(AM_Request1(client, 0, REQ, me));
            break;
        case 1:
            OK(AM_RequestI1(client, 0, MED, source, sizeof(source), me));
            break;
        case 2:
            OK(AM_RequestXfer1(client, 0, (uintptr_t)me * 4096, LNG, source, sizeof(source), me));
            break;
        }
        if (i % 4 == 3)
            WAIT_FOR(bundle, __atomic_load_n(&done[me], __ATOMIC_ACQUIRE) == i + 1);
    }
    WAIT_FOR(bundle, __atomic_load_n(&done[me], __ATOMIC_ACQUIRE) == requests);
    return NULL;
}

int main(int argc, char **argv)
{
    int threads = argc > 2 ? atoi(argv[2]) : 4;
    pthread_t id[THREADS_MAX];

    am_test_blocking = argc > 1 && strcmp(argv[1], "block") == 0;
    requests = argc > 3 ? atoi(argv[3]) : 300;
    CHECK(threads >= 1 && threads <= THREADS_MAX);
    OK(AM_Init());
    OK(AM_AllocateBundle(AM_PAR, &bundle));
    OK(AM_AllocateEndpoint(bundle, &client, NULL));
    OK(AM_AllocateEndpoint(bundle, &server, &server_name));
    OK(AM_SetTag(client, AM_ALL));
    OK(AM_SetTag(server, 5));
    OK(AM_SetSeg(server, segment, sizeof(segment)));
    OK(AM_SetHandler(server, REQ, on_req));
    OK(AM_SetHandler(server, MED, on_med));
    OK(AM_SetHandler(server, LNG, on_xfer));
    OK(AM_SetHandler(client, REP, on_rep));
    OK(AM_SetHandler(client, LNG, on_lng));
    OK(AM_Map(client, 0, server_name, 5));
    for (int i = 0; i < threads; i++)
        CHECK(pthread_create(&id[i], NULL, work, (void *)(intptr_t)i) == 0);
    for (int i = 0; i < threads; i++)
        pthread_join(id[i], NULL);
    CHECK(served == threads * requests && answered == threads * requests);
    OK(AM_Terminate());
    printf("threads: %d threads, %d requests each, %s: good\n", threads, requests,
           am_test_blocking ? "blocking" : "polling");
    return 0;
}

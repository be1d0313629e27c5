/*
 * A server and its clients (Mainwaring and Culler, "Design Challenges of Virtual Networks", figures
 * 6 and 7). It measures the answers per second that each client gets when all clients ask without
 * pause. It prints "name value" lines for bench/run am.
 *
 *   amrun -n CLIENTS+1 am_contend one|own SECONDS
 *   amrun -n CLIENTS+1 am_contend threads SECONDS
 *
 * Process 0 serves. `one`: one endpoint for all clients. `own`: one endpoint for each client, all
 * in one bundle that one thread serves. `threads`: an endpoint, a bundle and a thread for each
 * client. A process without work sleeps. VIPAM_CONNECTIONS of process 0 limits the number of
 * clients that are connected at the same time.
 */
#include "bench/am/measure.h"

#include <pthread.h>
#include <string.h>

enum { ASK = 1, ANSWER, QUIT };

#define CLIENTS_MAX 256

/* Requests that a client keeps under way: the number of its credits. */
#define WINDOW 8

static int me, clients;
static ep_t own;
static eb_t own_bundle;

/* A thread of the server and the bundle that it serves. */
struct service {
    pthread_t thread;
    eb_t bundle;
    int clients, quits; /* the thread ends when each of its clients has sent QUIT */
};
static struct service service[CLIENTS_MAX];
static int services;

static int answers;

static void on_ask(void *token)
{
    DO(AM_Reply0(token, ANSWER));
}

static void on_answer(void *token)
{
    (void)token;
    answers++;
}

static void on_quit(void *token, int which)
{
    service[which].quits++;
    DO(AM_Reply0(token, ANSWER));
}

/* What a client must know: the server's endpoint for this client, and its index in service[]. */
struct card {
    en_t name;
    int service;
};

static ep_t serving_endpoint(eb_t bundle, en_t *name)
{
    ep_t ep;

    DO(AM_AllocateEndpoint(bundle, &ep, name));
    DO(AM_SetTag(ep, AM_ALL));
    DO(AM_SetHandler(ep, ASK, on_ask));
    DO(AM_SetHandler(ep, QUIT, on_quit));
    return ep;
}

static void *serve(void *arg)
{
    struct service *s = arg;

    while (s->quits < s->clients)
        DO(AM_WaitSema(s->bundle));
    /* Free the bundle: otherwise it would keep connections that other bundles need. */
    DO(AM_FreeBundle(s->bundle));
    return NULL;
}

/* Make process 0's endpoints, and one card per client. */
static void set_up_server(const char *how, struct card *card)
{
    services = strcmp(how, "threads") == 0 ? clients : 1;
    for (int i = 0; i < services; i++) {
        DO(AM_AllocateBundle(AM_SEQ, &service[i].bundle));
        DO(AM_SetEventMask(service[i].bundle, AM_NOTEMPTY));
        service[i].clients = clients / services;
    }
    for (int i = 0; i < clients; i++) {
        card[i].service = i % services;
        if (i == 0 || strcmp(how, "one") != 0)
            (void)serving_endpoint(service[i % services].bundle, &card[i].name);
        else
            card[i].name = card[0].name;
    }
}

/* Send QUIT, the client's last request, and wait for its answer. */
static void quit(int which)
{
    int before = answers;

    DO(AM_Request1(own, clients + 1, QUIT, which));
    while (answers == before)
        DO(AM_WaitSema(own_bundle));
}

/* Keep WINDOW requests under way for `seconds`. Returns the number of answers in this time. */
static int ask_for(double seconds)
{
    double end = now_us() + 1e6 * seconds;
    int sent = answers, before = answers;

    while (now_us() < end) {
        while (sent - answers < WINDOW) {
            DO(AM_Request0(own, clients + 1, ASK));
            sent++;
        }
        DO(AM_WaitSema(own_bundle));
    }
    before = answers - before;
    while (answers < sent)
        DO(AM_WaitSema(own_bundle));
    return before;
}

static void report(const int *got, double seconds)
{
    double sum = 0, squares = 0, least = got[1], most = got[1];
    amvia_counts_t counts;

    for (int i = 1; i <= clients; i++) {
        sum += got[i];
        squares += (double)got[i] * got[i];
        least = got[i] < least ? got[i] : least;
        most = got[i] > most ? got[i] : most;
    }
    DO(amvia_GetCounts(&counts));
    printf("answers %.0f\njain %.4f\nleast %.0f\nmost %.0f\nconnects %llu\nlive_max %llu\n",
           sum / seconds, squares > 0 ? sum * sum / (clients * squares) : 0, least / seconds,
           most / seconds, (unsigned long long)counts.connects,
           (unsigned long long)counts.live_max);
}

int main(int argc, char **argv)
{
    const char *how = argc > 1 ? argv[1] : "";
    double seconds = argc > 2 ? atof(argv[2]) : 1;
    struct card card[CLIENTS_MAX], all[CLIENTS_MAX];
    int got = 0, every[CLIENTS_MAX + 1];
    uint64_t job;

    DO(AMX_SPMDStartup(&argc, &argv, 0, &job, &own_bundle, &own));
    me = AMX_SPMDMyProc();
    clients = AMX_SPMDNumProcs() - 1;
    if (clients < 1 || clients > CLIENTS_MAX || seconds <= 0 ||
        (strcmp(how, "one") != 0 && strcmp(how, "own") != 0 && strcmp(how, "threads") != 0))
        AMX_FatalErr("usage: amrun -n CLIENTS+1 am_contend one|own|threads SECONDS");
    DO(AM_SetEventMask(own_bundle, AM_NOTEMPTY));
    DO(AM_SetHandler(own, ANSWER, on_answer));
    memset(card, 0, sizeof(card));
    if (me == 0)
        set_up_server(how, card);
    memcpy(all, card, sizeof(card));
    DO(AMX_SPMDBroadcast(all, sizeof(struct card) * (size_t)clients, 0));
    if (me > 0)
        DO(AM_Map(own, clients + 1, all[me - 1].name, AM_ALL));
    for (int i = 0; me == 0 && i < services; i++)
        if (pthread_create(&service[i].thread, NULL, serve, &service[i]) != 0)
            AMX_FatalErr("no thread");
    DO(AMX_SPMDBarrier());
    if (me > 0) {
        (void)ask_for(seconds / 4); /* warm-up, in which all clients connect */
        got = ask_for(seconds);
        quit(all[me - 1].service);
    }
    for (int i = 0; me == 0 && i < services; i++)
        pthread_join(service[i].thread, NULL);
    DO(AMX_SPMDAllGather(&got, every, sizeof(got)));
    if (me == 0)
        report(every, seconds);
    fflush(stdout);
    DO(AMX_SPMDBarrier());
    return AMX_SPMDExit(0);
}

/*
 * Many endpoints in two processes. Each maps all others and sends requests to some. Only few
 * connections may exist, so they are often closed and made again. No request may be lost.
 *
 * usage: amrun -n 2 many poll|block ENDPOINTS [MESSAGES]       (ENDPOINTS: of one process)
 */
#include "tests/am/amtest.h"

bool am_test_blocking;

enum { REQ = 1, REP };

/* The data of an endpoint that the others need to map it. */
struct card {
    en_t name;
    tag_t tag;
};

static int me, procs, endpoints, replied;
static eb_t bundle;
static ep_t *ep;

static tag_t tag_of(int process, int i)
{
    return (tag_t)(process * 100000 + i + 10);
}

/* The request was sent to endpoint `to`, so the receiving endpoint must have the tag of `to`. */
static void on_req(void *token, int to, int from_process, int from)
{
    ep_t own;
    int rank;
    tag_t tag;

    OK(AM_GetDestEndpoint(token, &own));
    OK(AM_GetMsgTag(token, &tag));
    OK(AMX_GetSourceId(token, &rank));
    CHECK(own == ep[to] && tag == tag_of(me, to));
    CHECK(rank == from_process * endpoints + from);
    OK(AM_Reply1(token, REP, from));
}

static void on_rep(void *token, int from)
{
    ep_t own;

    OK(AM_GetDestEndpoint(token, &own));
    CHECK(own == ep[from]);
    replied++;
}

/* Gather all cards, in pieces that fit into an all-gather. */
static struct card *exchange_cards(struct card *mine)
{
    struct card *all = calloc((size_t)(procs * endpoints), sizeof(*all));
    struct card piece[100], *pieces = calloc((size_t)procs * 100, sizeof(*pieces));

    CHECK(all != NULL && pieces != NULL);
    for (int at = 0; at < endpoints; at += 100) {
        int n = endpoints - at < 100 ? endpoints - at : 100;

        memset(piece, 0, sizeof(piece));
        memcpy(piece, mine + at, (size_t)n * sizeof(*mine));
        OK(AMX_SPMDAllGather(piece, pieces, sizeof(piece)));
        for (int p = 0; p < procs; p++)
            memcpy(all + p * endpoints + at, pieces + p * 100, (size_t)n * sizeof(*all));
    }
    free(pieces);
    return all;
}

int main(int argc, char **argv)
{
    struct card *mine, *all;
    amvia_counts_t counts;
    unsigned state;
    uint64_t job;
    ep_t spmd;
    int messages;

    am_test_blocking = argc > 1 && strcmp(argv[1], "block") == 0;
    OK(AMX_SPMDStartup(&argc, &argv, 0, &job, &bundle, &spmd));
    me = AMX_SPMDMyProc();
    procs = AMX_SPMDNumProcs();
    endpoints = argc > 2 ? atoi(argv[2]) : 50;
    messages = argc > 3 ? atoi(argv[3]) : 4 * endpoints;
    ep = calloc((size_t)endpoints, sizeof(ep_t));
    mine = calloc((size_t)endpoints, sizeof(*mine));
    for (int i = 0; i < endpoints; i++) {
        OK(AM_AllocateEndpoint(bundle, &ep[i], &mine[i].name));
        mine[i].tag = tag_of(me, i);
        OK(AM_SetTag(ep[i], mine[i].tag));
        OK(AM_SetHandler(ep[i], REQ, on_req));
        OK(AM_SetHandler(ep[i], REP, on_rep));
    }
    all = exchange_cards(mine);
    for (int i = 0; i < endpoints; i++) {
        OK(AM_SetNumTranslations(ep[i], procs * endpoints));
        for (int k = 0; k < procs * endpoints; k++)
            OK(AM_Map(ep[i], k, all[k].name, all[k].tag));
    }
    OK(AMX_SPMDBarrier());
    state = (unsigned)me + 1;
    for (int i = 0; i < messages; i++) {
        int from, to;

        state = state * 1664525u + 1013904223u;
        from = (int)(state >> 8) % endpoints;
        state = state * 1664525u + 1013904223u;
        to = (int)(state >> 8) % (procs * endpoints);
        /* Two endpoints of this process must not connect: such a connection would count twice. */
        if (to / endpoints == me && all[to].name.number != mine[from].name.number)
            to = from + me * endpoints;
        OK(AM_Request3(ep[from], to, REQ, to % endpoints, me, from));
    }
    WAIT_FOR(bundle, replied == messages);
    OK(AMX_SPMDBarrier());
    OK(amvia_GetCounts(&counts));
    CHECK(counts.dropped == 0);
    printf(
        "many: process %d: %d endpoints that map %d, %d messages, %llu connections made, at most "
        "%llu at once, %llu closed for others\n",
        me, endpoints, procs * endpoints, messages, (unsigned long long)counts.connects,
        (unsigned long long)counts.live_max, (unsigned long long)counts.reclaimed);
    fflush(stdout);
    OK(AMX_SPMDBarrier());
    if (me == 0)
        am_test_passed("many:all_map_each_other");
    free(mine);
    free(all);
    free(ep);
    AMX_SPMDExit(0);
}

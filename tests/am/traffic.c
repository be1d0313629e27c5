/*
 * Every request and reply, with every number of arguments, in all three sizes, from each process to
 * each process. Then bulk data of exactly AM_MaxLong bytes, in one and in both directions.
 *
 * usage: traffic poll|block [ROUNDS]
 *        traffic poll|block until FILE   rounds until the file exists; process 0 prints the number
 *        traffic exit CODE | die     the last process ends the job in this way; the others wait
 */
#include "tests/am/amtest.h"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#define BIG    ((size_t)AM_MaxLong())
#define MEDIUM 3000

bool am_test_blocking;
static int me, procs, replies, requests;
static eb_t bundle;
static ep_t ep;
static char *segment, *source;

/* LONG_AT: offset of long message n from process p; requests have n = 0 to 16, replies 17 to 33. */
#define LONG_BYTES     2000
#define LONG_AT(p, n)  ((size_t)((p)*34 + (n)) * LONG_BYTES)
#define SEGMENT_BYTES  (LONG_AT(procs, 0) + 2 * (size_t)AM_MaxLong())
#define BULK_AT(which) (LONG_AT(procs, 0) + (which)*BIG)

#define VALUE(i) ((int)0xBABE7000 + (i))

/* For n = 0 to 16 arguments: Pn has the parameters, Cn checks them, Vn has the arguments. */
#define P0
#define P1  P0, int a1
#define P2  P1, int a2
#define P3  P2, int a3
#define P4  P3, int a4
#define P5  P4, int a5
#define P6  P5, int a6
#define P7  P6, int a7
#define P8  P7, int a8
#define P9  P8, int a9
#define P10 P9, int a10
#define P11 P10, int a11
#define P12 P11, int a12
#define P13 P12, int a13
#define P14 P13, int a14
#define P15 P14, int a15
#define P16 P15, int a16
#define C0  true
#define C1  C0 &&a1 == VALUE(1)
#define C2  C1 &&a2 == VALUE(2)
#define C3  C2 &&a3 == VALUE(3)
#define C4  C3 &&a4 == VALUE(4)
#define C5  C4 &&a5 == VALUE(5)
#define C6  C5 &&a6 == VALUE(6)
#define C7  C6 &&a7 == VALUE(7)
#define C8  C7 &&a8 == VALUE(8)
#define C9  C8 &&a9 == VALUE(9)
#define C10 C9 &&a10 == VALUE(10)
#define C11 C10 &&a11 == VALUE(11)
#define C12 C11 &&a12 == VALUE(12)
#define C13 C12 &&a13 == VALUE(13)
#define C14 C13 &&a14 == VALUE(14)
#define C15 C14 &&a15 == VALUE(15)
#define C16 C15 &&a16 == VALUE(16)
#define V0
#define V1  V0, VALUE(1)
#define V2  V1, VALUE(2)
#define V3  V2, VALUE(3)
#define V4  V3, VALUE(4)
#define V5  V4, VALUE(5)
#define V6  V5, VALUE(6)
#define V7  V6, VALUE(7)
#define V8  V7, VALUE(8)
#define V9  V8, VALUE(9)
#define V10 V9, VALUE(10)
#define V11 V10, VALUE(11)
#define V12 V11, VALUE(12)
#define V13 V12, VALUE(13)
#define V14 V13, VALUE(14)
#define V15 V14, VALUE(15)
#define V16 V15, VALUE(16)
/* CALL makes the preprocessor expand the argument lists before the macro f. */
#define CALL(f, args) f args
#define EACH(X)                                                                                    \
    X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11) X(12) X(13) X(14) X(15) X(16)

enum {
    SHORT_REQ = 10,
    SHORT_REP = 30,
    MEDIUM_REQ = 50,
    MEDIUM_REP = 70,
    LONG_REQ = 90,
    LONG_REP = 110,
    ASYNC_REQ = 130,
    GET_REP = 150,
    BULK_REQ = 170,
    BULK_REP,
    BOUNCE_REQ,
    BOUNCE_REP
};

static int source_of(void *token)
{
    int rank = -1;

    OK(AMX_GetSourceId(token, &rank));
    return rank;
}

#define HANDLERS(n)                                                                                \
    static void short_req_##n(void *token P##n)                                                    \
    {                                                                                              \
        CHECK(C##n);                                                                               \
        requests++;                                                                                \
        OK(CALL(AM_Reply##n, (token, SHORT_REP + n V##n)));                                        \
    }                                                                                              \
    static void short_rep_##n(void *token P##n)                                                    \
    {                                                                                              \
        CHECK(C##n);                                                                               \
        replies++;                                                                                 \
    }                                                                                              \
    static void medium_req_##n(void *token, void *buf, size_t nbytes P##n)                         \
    {                                                                                              \
        CHECK(C##n &&nbytes == MEDIUM + n && ((uintptr_t)buf & 7) == 0);                           \
        CHECK(pattern_good(buf, nbytes, (unsigned)source_of(token) + n));                          \
        requests++;                                                                                \
        pattern_fill(buf, nbytes, (unsigned)me + 50 + n);                                          \
        OK(CALL(AM_ReplyI##n, (token, MEDIUM_REP + n, buf, nbytes V##n)));                         \
        memset(buf, 0, nbytes); /* the reply has a copy */                                         \
    }                                                                                              \
    static void medium_rep_##n(void *token, void *buf, int nbytes P##n)                            \
    {                                                                                              \
        CHECK(C##n &&nbytes == MEDIUM + n);                                                        \
        CHECK(pattern_good(buf, (size_t)nbytes, (unsigned)source_of(token) + 50 + n));             \
        replies++;                                                                                 \
    }                                                                                              \
    static void long_req_##n(void *token, void *buf, size_t nbytes P##n)                           \
    {                                                                                              \
        unsigned from = (unsigned)source_of(token);                                                \
                                                                                                   \
        CHECK(C##n &&nbytes == LONG_BYTES - n && buf == segment + LONG_AT(from, n));               \
        CHECK(pattern_good(buf, nbytes, from + n));                                                \
        requests++;                                                                                \
        pattern_fill(buf, nbytes, (unsigned)me + 90 + n);                                          \
        OK(CALL(AM_ReplyXfer##n, (token, LONG_AT(me, 17 + n), LONG_REP + n, buf, nbytes V##n)));   \
        memset(buf, 0, nbytes);                                                                    \
    }                                                                                              \
    static void long_rep_##n(void *token, void *buf, int nbytes P##n)                              \
    {                                                                                              \
        int from = source_of(token);                                                               \
                                                                                                   \
        CHECK(C##n &&nbytes == LONG_BYTES - n && buf == segment + LONG_AT(from, 17 + n));          \
        CHECK(pattern_good(buf, (size_t)nbytes, (unsigned)from + 90 + n));                         \
        replies++;                                                                                 \
    }                                                                                              \
    static void async_req_##n(void *token, void *buf, size_t nbytes P##n)                          \
    {                                                                                              \
        unsigned from = (unsigned)source_of(token);                                                \
                                                                                                   \
        CHECK(C##n &&nbytes == LONG_BYTES - n && pattern_good(buf, nbytes, from + 200 + n));       \
        requests++;                                                                                \
        OK(CALL(AM_Reply##n, (token, SHORT_REP + n V##n)));                                        \
    }                                                                                              \
    static void get_rep_##n(void *token, void *buf, size_t nbytes P##n)                            \
    {                                                                                              \
        CHECK(C##n &&nbytes == 100 + n && buf == segment + BULK_AT(1));                            \
        CHECK(pattern_good(buf, nbytes, (unsigned)source_of(token) + 77));                         \
        replies++;                                                                                 \
    }
EACH(HANDLERS)

#define REGISTER(n)                                                                                \
    OK(AM_SetHandler(ep, SHORT_REQ + n, short_req_##n));                                           \
    OK(AM_SetHandler(ep, SHORT_REP + n, short_rep_##n));                                           \
    OK(AM_SetHandler(ep, MEDIUM_REQ + n, medium_req_##n));                                         \
    OK(AM_SetHandler(ep, MEDIUM_REP + n, medium_rep_##n));                                         \
    OK(AM_SetHandler(ep, LONG_REQ + n, long_req_##n));                                             \
    OK(AM_SetHandler(ep, LONG_REP + n, long_rep_##n));                                             \
    OK(AM_SetHandler(ep, ASYNC_REQ + n, async_req_##n));                                           \
    OK(AM_SetHandler(ep, GET_REP + n, get_rep_##n));

/* Overwrites the source after each call, because a call that is not asynchronous has copied it. */
#define SEND(n)                                                                                    \
    OK(CALL(AM_Request##n, (ep, to, SHORT_REQ + n V##n)));                                         \
    pattern_fill(source, MEDIUM + n, (unsigned)me + n);                                            \
    OK(CALL(AM_RequestI##n, (ep, to, MEDIUM_REQ + n, source, MEDIUM + n V##n)));                   \
    pattern_fill(source, LONG_BYTES, (unsigned)me + n);                                            \
    OK(CALL(AM_RequestXfer##n,                                                                     \
            (ep, to, LONG_AT(me, n), LONG_REQ + n, source, LONG_BYTES - n V##n)));                 \
    memset(source, 0xEE, MEDIUM + n);

/* An asynchronous call fails while all credits are used. Its source must stay until the reply. */
#define SEND_ASYNC(n)                                                                              \
    pattern_fill(source, LONG_BYTES, (unsigned)me + 200 + n);                                      \
    while ((rc = CALL(AM_RequestXferAsync##n, (ep, to, LONG_AT(me, n), ASYNC_REQ + n, source,      \
                                               LONG_BYTES - n V##n))) == AM_ERR_IN_USE)            \
        OK(AM_Poll(bundle));                                                                       \
    OK(rc);                                                                                        \
    sent++;                                                                                        \
    WAIT_FOR(bundle, replies == sent);
#define SEND_GET(n)                                                                                \
    OK(CALL(AM_GetXfer##n, (ep, to, BULK_AT(0), GET_REP + n, BULK_AT(1), 100 + n V##n)));          \
    sent++;                                                                                        \
    WAIT_FOR(bundle, replies == sent);

#define SEND_GET_ASYNC(n)                                                                          \
    while ((rc = CALL(AM_GetXferAsync##n, (ep, to, BULK_AT(0), GET_REP + n, BULK_AT(1),            \
                                           100 + n V##n))) == AM_ERR_IN_USE)                       \
        OK(AM_Poll(bundle));                                                                       \
    OK(rc);                                                                                        \
    sent++;                                                                                        \
    WAIT_FOR(bundle, replies == sent);

static void everything_to(int to)
{
    int sent = 0, rc;

    replies = 0;
    EACH(SEND)
    WAIT_FOR(bundle, replies == 3 * 17);
    replies = 0;
    EACH(SEND_ASYNC)
    EACH(SEND_GET)
    EACH(SEND_GET_ASYNC)
}

/* ---- bulk ------------------------------------------------------------------------------------ */

static int bulk_seed(int from, int i)
{
    return from * 10 + i + 1;
}

static void bulk_req(void *token, void *buf, size_t nbytes, int seed)
{
    CHECK(nbytes == BIG && buf == segment + BULK_AT(0));
    CHECK(pattern_good(buf, nbytes, (unsigned)seed));
    requests++;
    OK(AM_Reply1(token, BULK_REP, seed));
}

static void bulk_rep(void *token, int seed)
{
    replies++;
}

static void bulk_to(int to, int count)
{
    replies = 0;
    for (int i = 0; i < count; i++) {
        pattern_fill(source, BIG, (unsigned)bulk_seed(me, i));
        OK(AM_RequestXfer1(ep, to, BULK_AT(0), BULK_REQ, source, BIG, bulk_seed(me, i)));
        memset(source, 0xEE, BIG);
    }
    WAIT_FOR(bundle, replies == count);
}

/* Send the bytes back from the segment, into which the request has written them. */
static void bounce_req(void *token, void *buf, size_t nbytes, int seed)
{
    CHECK(nbytes == BIG && pattern_good(buf, nbytes, (unsigned)seed));
    requests++;
    pattern_fill(buf, nbytes, (unsigned)seed + 1);
    OK(AM_ReplyXfer1(token, BULK_AT(1), BOUNCE_REP, buf, nbytes, seed + 1));
}

static void bounce_rep(void *token, void *buf, int nbytes, int seed)
{
    CHECK((size_t)nbytes == BIG && buf == segment + BULK_AT(1));
    CHECK(pattern_good(buf, BIG, (unsigned)seed));
    replies++;
}

static void bounce_to(int to, int count)
{
    for (int i = 0; i < count; i++) {
        pattern_fill(source, BIG, (unsigned)(me + i));
        replies = 0;
        OK(AM_RequestXfer1(ep, to, BULK_AT(0), BOUNCE_REQ, source, BIG, me + i));
        WAIT_FOR(bundle, replies == 1);
    }
}

static void bulk(void)
{
    int right = (me + 1) % procs;

    OK(AM_SetHandler(ep, BULK_REQ, bulk_req));
    OK(AM_SetHandler(ep, BULK_REP, bulk_rep));
    OK(AM_SetHandler(ep, BOUNCE_REQ, bounce_req));
    OK(AM_SetHandler(ep, BOUNCE_REP, bounce_rep));
    OK(AMX_SPMDBarrier());
    if (me % 2 == 0)
        bulk_to(right, 3);
    OK(AMX_SPMDBarrier());
    bulk_to(right, 5); /* now all processes send, so data goes in both directions */
    OK(AMX_SPMDBarrier());
    if (me % 2 == 0 && right % 2 == (procs > 1))
        bounce_to(right, 3);
    OK(AMX_SPMDBarrier());
}

/* Tests the collective calls. */
static void together(char **argv)
{
    int *all = calloc((size_t)procs, sizeof(int)), mine = me * 3 + 1;
    char *many = malloc(10000);

    CHECK(all != NULL && many != NULL);
    CHECK(AMX_SPMDStartup(NULL, NULL, 0, NULL, &bundle, &ep) == AM_ERR_RESOURCE); /* once only */
    CHECK(AMX_SPMDIsWorker(argv) != 0);
    CHECK(AMX_SPMDgetenvMaster("PATH") == getenv("PATH"));
    OK(AMX_SPMDAllGather(&mine, all, sizeof(mine)));
    for (int i = 0; i < procs; i++)
        CHECK(all[i] == i * 3 + 1);
    CHECK(AMX_SPMDAllGather(&mine, NULL, sizeof(mine)) == AM_ERR_BAD_ARG);
    CHECK(AMX_SPMDBroadcast(many, 1, procs) == AM_ERR_BAD_ARG);
    for (int root = 0; root < procs; root++) {
        pattern_fill(many, 10000, (unsigned)(me == root ? root : 77));
        OK(AMX_SPMDBroadcast(many, 10000, root));
        CHECK(pattern_good(many, 10000, (unsigned)root));
    }
    free(all);
    free(many);
}

/* AMX_SPMDExit calls on_exit_call, then ends the job, then calls end_process. */
static void on_exit_call(int code)
{
    printf("traffic: exit callback: %d\n", code);
}

static void end_process(int code)
{
    printf("traffic: the process's end: %d\n", code);
    fflush(stdout);
    _exit(code);
}

/* One process ends this many seconds after the others, as on a busy machine. */
#define LATE_S 5

/* For launch.sh: end the job with a code or by a signal, or end one process late. */
static void end_badly(int argc, char **argv)
{
    if (argc < 2 || (strcmp(argv[1], "exit") != 0 && strcmp(argv[1], "die") != 0 &&
                     strcmp(argv[1], "late") != 0))
        return;
    OK(AMX_SPMDBarrier());
    if (strcmp(argv[1], "late") == 0) {
        if (me == procs - 1) {
            sleep(LATE_S);
            printf("traffic: the last one comes to its end\n");
        }
        AMX_SPMDExit(0);
    }
    if (me == procs - 1 && argc > 2) {
        OK(AMX_SPMDSetExitCallback(on_exit_call));
        AMX_SPMDkillmyprocess = end_process;
        AMX_SPMDExit(atoi(argv[2]));
    }
    if (me == procs - 1)
        raise(SIGKILL);
    for (;;)
        OK(AM_Poll(bundle));
}

/* True if this is the last round. Process 0 decides: it makes a file that all processes find after
 * the barrier. (All processes of the test are on one machine.) */
static bool last_round(const char *file, int round)
{
    char decision[300];

    snprintf(decision, sizeof(decision), "%s.%d", file, round);
    if (me == 0) {
        printf("at %d\n", round);
        fflush(stdout);
        if (access(file, F_OK) == 0)
            CHECK(close(creat(decision, 0600)) == 0);
    }
    OK(AMX_SPMDBarrier());
    return access(decision, F_OK) == 0;
}

int main(int argc, char **argv)
{
    const char *until = argc > 3 && strcmp(argv[2], "until") == 0 ? argv[3] : NULL;
    int rounds = argc > 2 && until == NULL ? atoi(argv[2]) : 1;
    amvia_counts_t counts;
    uint64_t job;

    am_test_blocking = argc > 1 && strcmp(argv[1], "block") == 0;
    CHECK(AMX_SPMDStartup(&argc, &argv, -1, &job, &bundle, &ep) == AM_ERR_BAD_ARG);
    OK(AMX_SPMDStartup(&argc, &argv, 0, &job, &bundle, &ep));
    me = AMX_SPMDMyProc();
    procs = AMX_SPMDNumProcs();
    end_badly(argc, argv);
    EACH(REGISTER)
    segment = malloc(SEGMENT_BYTES);
    source = malloc(BIG);
    CHECK(segment != NULL && source != NULL);
    memset(segment, 0, SEGMENT_BYTES);
    OK(AM_SetSeg(ep, segment, SEGMENT_BYTES));
    pattern_fill(segment + BULK_AT(0), 200, (unsigned)me + 77);
    OK(AMX_SPMDBarrier());
    for (int round = 0; round < rounds; round++) {
        for (int i = 0; i < procs; i++)
            everything_to((me + i) % procs);
        if (until != NULL && !last_round(until, round))
            rounds++;
    }
    WAIT_FOR(bundle, requests == rounds * procs * 17 * 4);
    OK(AMX_SPMDBarrier());
    bulk();
    together(argv);
    OK(amvia_GetCounts(&counts));
    /* Most bulk data for other processes must have been written straight into their segments. */
    CHECK(procs == 1 || me % 2 == 1 || counts.longs_direct >= 4);
    CHECK(counts.dropped == 0);
    if (me == 0) {
        am_test_passed(procs == 1 ? "traffic:alone" : "traffic:everybody_to_everybody");
        printf("traffic: %d processes, %d rounds, %s: good (%llu connections, %llu long messages "
               "written straight, %llu copied, %llu of %llu sources found registered)\n",
               procs, rounds, am_test_blocking ? "blocking" : "polling",
               (unsigned long long)counts.connects, (unsigned long long)counts.longs_direct,
               (unsigned long long)counts.longs_copied, (unsigned long long)counts.regions_found,
               (unsigned long long)(counts.regions_found + counts.regions_new));
    }
    fflush(stdout);
    OK(AMX_SPMDBarrier());
    AMX_SPMDExit(0);
}

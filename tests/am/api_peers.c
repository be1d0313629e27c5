/*
 * Messages that come back from a second process, which is also am_api. The second process has the
 * other protocol variant, or no free descriptors, or is killed, or may have only one connection.
 * The second process prints its endpoint's name, and ends when its input ends.
 */
#include "tests/am/api.h"

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

struct child {
    pid_t pid;
    int to, from;
};

/* Start a child and map its endpoint at index 9. It accepts every tag, but not if "late tag". */
static struct child child_start(const char *mode)
{
    struct child c;
    en_t name;
    int in[2], out[2];

    CHECK(pipe2(in, O_CLOEXEC) == 0 && pipe2(out, O_CLOEXEC) == 0);
    c.pid = fork();
    CHECK(c.pid >= 0);
    if (c.pid == 0) {
        dup2(in[0], 0);
        dup2(out[1], 1);
        execl("/proc/self/exe", "am_api", "child", mode, (char *)NULL);
        _exit(127);
    }
    close(in[0]);
    close(out[1]);
    c.to = in[1];
    c.from = out[0];
    CHECK(read(c.from, &name, sizeof(name)) == sizeof(name));
    OK(AM_Map(a, 9, name, AM_ALL));
    return c;
}

/* Close the child's input and wait for its end; its status must be `status`. */
static void child_end(const struct child *c, int status)
{
    int got;

    close(c->to);
    CHECK(waitpid(c->pid, &got, 0) == c->pid && got == status);
    close(c->from);
}

/* Number of endpoints that send to the child's endpoint without knowing its tag. */
#define STRANGERS 6

static int took;

static void take(void *token, int arg)
{
    (void)token;
    (void)arg;
    took++;
}

/* What a child in mode "tally" reports: most connections at one time, and requests received. */
struct tally {
    int live_max, took;
};

int peer(const char *mode)
{
    struct pollfd parent = {.fd = 0, .events = POLLIN};
    struct rlimit before;
    int fd[64], fds = 0;

    OK(AM_Init());
    OK(AM_AllocateBundle(AM_SEQ, &bundle));
    OK(AM_AllocateEndpoint(bundle, &b, &name_b));
    if (strcmp(mode, "late tag") != 0)
        OK(AM_SetTag(b, AM_ALL));
    OK(AM_SetSeg(b, seg_b, sizeof(seg_b)));
    OK(AM_SetHandler(b, REQ, take));
    OK(AM_SetHandler(b, BULK, take)); /* registered, but never called */
    CHECK(getrlimit(RLIMIT_NOFILE, &before) == 0);
    if (strcmp(mode, "poor") == 0)
        fds = use_up_descriptors(fd, 64);
    CHECK(write(1, &name_b, sizeof(name_b)) == sizeof(name_b));
    if (strcmp(mode, "late tag") == 0) {
        char go;

        /* Until the parent has written, the parent's calls find an endpoint without a tag. */
        CHECK(read(0, &go, 1) == 1);
        OK(AM_SetTag(b, TAG_B));
    }
    while (poll(&parent, 1, strcmp(mode, "deaf") == 0 ? -1 : 1) == 0)
        OK(AM_Poll(bundle));
    if (strcmp(mode, "tally") == 0) {
        struct tally tally;
        amvia_counts_t counts;

        WAIT_FOR(bundle, took == STRANGERS);
        tally.took = took;
        OK(amvia_GetCounts(&counts));
        tally.live_max = (int)counts.live_max;
        CHECK(write(1, &tally, sizeof(tally)) == sizeof(tally));
    }
    /* Free the descriptors, because sanitizers need descriptors when the process ends. */
    CHECK(setrlimit(RLIMIT_NOFILE, &before) == 0);
    while (fds > 0)
        close(fd[--fds]);
    return 0;
}

/* A process of the other protocol variant must refuse our call. */
void another_variant_is_refused(void)
{
    const char *ours = getenv("VIPAM_VARIANT");
    bool older = ours != NULL && strcmp(ours, "1") == 0;
    struct child c;

    set_up();
    setenv("VIPAM_VARIANT", older ? "3" : "1", 1);
    c = child_start("other variant");
    OK(AM_Request1(a, 9, REQ, 1));
    COMES_BACK(EBADARGS, AM_REQUEST_M);
    OK(AM_RequestXfer1(a, 9, 0, BULK, "x", 1, 1));
    COMES_BACK(EBADARGS, AM_REQUEST_XFER_M);
    child_end(&c, 0);
    setenv("VIPAM_VARIANT", older ? "1" : "3", 1);
    exchange();
    tear_down();
}

/* A connection needs memory files. So without free descriptors neither side can connect. */
void no_resources_here_or_there(void)
{
    struct rlimit before;
    struct child c;
    int fd[64], fds;

    set_up();
    c = child_start("poor");
    OK(AM_Request1(a, 9, REQ, 1));
    COMES_BACK(ECONGESTION, AM_REQUEST_M);
    child_end(&c, 0);
    CHECK(getrlimit(RLIMIT_NOFILE, &before) == 0);
    fds = use_up_descriptors(fd, 64);
    OK(AM_RequestI1(a, 0, BULK, "x", 1, 1));
    COMES_BACK(ECONGESTION, AM_REQUEST_IM);
    while (fds > 0)
        close(fd[--fds]);
    CHECK(setrlimit(RLIMIT_NOFILE, &before) == 0);
    exchange();
    tear_down();
}

/* Bit n: request n has come back from the killed process. */
static unsigned back;

static void on_dead(int status, op_t opcode, void *token)
{
    amvia_returned_t what;

    OK(amvia_GetReturned(token, &what));
    am_test_returned(status, opcode, what.reason);
    CHECK(status == EUNREACHABLE && what.dest == 9 && what.numargs == 1);
    CHECK((back & 1u << what.arg[0]) == 0);
    back |= 1u << what.arg[0];
    returned++;
}

/* All credits are in use when the peer dies. Each request, also a later one, comes back once. */
void a_killed_peer_returns_each_once(void)
{
    struct child c;
    int sent = 0, rc;

    set_up();
    OK(AM_SetHandler(a, 0, on_dead));
    back = 0;
    c = child_start("deaf");
    OK(AM_Request1(a, 9, REQ, sent++));
    OK(AM_RequestI1(a, 9, BULK, seg_b, 5000, sent++));
    OK(AM_RequestXfer1(a, 9, 0, BULK, seg_b, sizeof(seg_b), sent++));
    OK(AM_GetXfer1(a, 9, 0, BULK, 0, 0, sent++));
    while ((rc = AM_RequestXferAsync1(a, 9, 0, BULK, seg_b, 10, sent)) == AM_OK)
        sent++;
    CHECK(rc == AM_ERR_IN_USE && sent == 8);
    CHECK(AM_GetXferAsync1(a, 9, 0, BULK, 0, 0, sent) == AM_ERR_IN_USE);
    kill(c.pid, SIGKILL);
    WAIT_FOR(bundle, returned == 8);
    CHECK(back == 0xFF);
    for (int i = 0; i < 3; i++) {
        OK(AM_Request1(a, 9, REQ, sent++));
        WAIT_FOR(bundle, returned == sent);
    }
    child_end(&c, SIGKILL);
    CHECK(replied == 0 && back == 0x7FF);
    tear_down();
}

static double seconds(clockid_t clock)
{
    struct timespec now;

    CHECK(clock_gettime(clock, &now) == 0);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static long sleeps(void)
{
    struct rusage usage;

    CHECK(getrusage(RUSAGE_THREAD, &usage) == 0);
    return usage.ru_nvcsw;
}

/* The child may have one connection, and keeps each connection for at least one second. */
void waiting_for_room_uses_no_processor(void)
{
    double begin, used;
    struct child c;
    en_t name;
    long slept;

    set_up();
    setenv("VIPAM_CONNECTIONS", "1", 1);
    setenv("VIPAM_RESIDENCE_MS", "1000", 1);
    c = child_start("small");
    unsetenv("VIPAM_CONNECTIONS");
    unsetenv("VIPAM_RESIDENCE_MS");
    OK(AM_Request1(a, 9, REQ, 1));
    OK(AM_GetTranslationName(a, 9, &name));
    OK(AM_Map(b, 9, name, AM_ALL));
    begin = seconds(CLOCK_MONOTONIC);
    used = seconds(CLOCK_THREAD_CPUTIME_ID);
    slept = sleeps();
    OK(AM_Request1(b, 9, REQ, 1));
    begin = seconds(CLOCK_MONOTONIC) - begin;
    used = seconds(CLOCK_THREAD_CPUTIME_ID) - used;
    CHECK(begin > 0.5); /* the call has waited */
    CHECK(4 * used < begin);
    CHECK((double)(sleeps() - slept) < 1500 * begin); /* AM looks for room once per ms */
    CHECK(returned == 0);
    child_end(&c, 0);
    tear_down();
}

/* Callers without the endpoint's tag (the endpoint has AM_ALL) get only half the connections. */
void strangers_get_half_of_the_room(void)
{
    struct tally tally;
    struct child c;
    en_t name;

    set_up();
    setenv("VIPAM_CONNECTIONS", "4", 1);
    setenv("VIPAM_RESIDENCE_MS", "0", 1);
    c = child_start("tally");
    unsetenv("VIPAM_CONNECTIONS");
    unsetenv("VIPAM_RESIDENCE_MS");
    OK(AM_GetTranslationName(a, 9, &name));
    for (int i = 0; i < STRANGERS; i++) {
        ep_t ep;

        OK(AM_AllocateEndpoint(bundle, &ep, NULL));
        OK(AM_SetTag(ep, TAG_A));
        OK(AM_Map(ep, 0, name, AM_ALL));
        OK(AM_Request1(ep, 0, REQ, i));
    }
    CHECK(returned == 0);
    close(c.to);
    c.to = dup(c.from);
    CHECK(read(c.from, &tally, sizeof(tally)) == sizeof(tally));
    CHECK(tally.live_max == 2 && tally.took == STRANGERS);
    child_end(&c, 0);
    tear_down();
}

static void *let_go(void *child)
{
    const struct child *c = child;

    usleep(300000); /* AM_Request1 should begin before the child sets the tag */
    CHECK(write(c->to, "x", 1) == 1);
    return NULL;
}

/* A request to an endpoint without a tag waits until the endpoint's program first polls. */
void tags_set_after_the_call(void)
{
    pthread_t thread;
    struct child c;

    set_up();
    c = child_start("late tag");
    OK(AMX_SetTranslationTag(a, 9, TAG_B));
    CHECK(pthread_create(&thread, NULL, let_go, &c) == 0);
    OK(AM_Request1(a, 9, REQ, 1));
    CHECK(pthread_join(thread, NULL) == 0 && returned == 0);
    /* If that program sets a tag that the sender does not have, the request comes back. */
    OK(AM_UnMap(a, 9));
    child_end(&c, 0);
    c = child_start("late tag");
    OK(AMX_SetTranslationTag(a, 9, 4711));
    CHECK(pthread_create(&thread, NULL, let_go, &c) == 0);
    OK(AM_Request1(a, 9, REQ, 1));
    COMES_BACK(EBADTAG, AM_REQUEST_M);
    CHECK(pthread_join(thread, NULL) == 0);
    child_end(&c, 0);
    tear_down();
}

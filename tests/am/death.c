/*
 * Three processes send each other messages of all sizes without pause. At a random time one process
 * is killed. Each request of the other two must be answered or come back, exactly once; requests to
 * the dead process come back with EUNREACHABLE. The victim is on host B of two_vipd.sh.
 *
 * usage: death poll|block [ROUNDS [SEED]]
 */
#include "tests/am/amtest.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

bool am_test_blocking;

enum { REQ = 1, REP, BIG };
#define PROCESSES 3
#define VICTIM    2
#define SEGMENT   300000

/* A process's counts: requests sent, requests answered, requests that came back. */
struct account {
    int sent, replied, returned;
};

static eb_t bundle;
static ep_t ep;
static en_t own_name;
static char segment[SEGMENT], source[SEGMENT];
static struct account account;
static int victim_returned;
static unsigned seed;

static unsigned draw(unsigned below)
{
    seed = seed * 1103515245u + 12345u;
    return (seed >> 8) % below;
}

static void on_return(int status, op_t opcode, void *token)
{
    amvia_returned_t what;

    OK(amvia_GetReturned(token, &what));
    am_test_returned(status, opcode, what.reason);
    CHECK(status == EUNREACHABLE);
    CHECK(what.dest == VICTIM);
    account.returned++;
    victim_returned++;
}

static void on_req(void *token)
{
    OK(AM_Reply0(token, REP));
}

static void on_big(void *token, void *buf, size_t nbytes)
{
    if (nbytes % 3 == 0)
        OK(AM_ReplyXfer0(token, 0, BIG + 1, buf, nbytes));
    else
        OK(AM_ReplyI0(token, BIG + 1, buf, nbytes < 5000 ? nbytes : 5000));
}

static void on_rep(void *token)
{
    account.replied++;
}

static void on_big_rep(void *token, void *buf, size_t nbytes)
{
    account.replied++;
}

static void begin(void)
{
    OK(AM_AllocateBundle(AM_SEQ, &bundle));
    OK(AM_AllocateEndpoint(bundle, &ep, &own_name));
    OK(AM_SetTag(ep, AM_ALL));
    OK(AM_SetSeg(ep, segment, sizeof(segment)));
    OK(AM_SetHandler(ep, 0, on_return));
    OK(AM_SetHandler(ep, REQ, on_req));
    OK(AM_SetHandler(ep, REP, on_rep));
    OK(AM_SetHandler(ep, BIG, on_big));
    OK(AM_SetHandler(ep, BIG + 1, on_big_rep));
    memset(&account, 0, sizeof(account));
    victim_returned = 0;
}

static void send_one(int to)
{
    account.sent++;
    switch (draw(4)) {
    case 0:
        OK(AM_RequestI0(ep, to, BIG, source, draw(60000)));
        break;
    case 1:
        OK(AM_RequestXfer0(ep, to, 0, BIG, source, draw(SEGMENT)));
        break;
    default:
        OK(AM_Request0(ep, to, REQ));
        break;
    }
}

static bool readable(int fd)
{
    struct pollfd wait = {.fd = fd, .events = POLLIN};

    return poll(&wait, 1, 0) > 0;
}

static void all_of(int fd, void *at, size_t n, bool writing)
{
    for (size_t done = 0; done < n;) {
        ssize_t k = writing ? write(fd, (char *)at + done, n - done)
                            : read(fd, (char *)at + done, n - done);

        CHECK(k > 0);
        done += (size_t)k;
    }
}

static void map_all(en_t *names)
{
    for (int i = 0; i < PROCESSES; i++)
        OK(AM_Map(ep, i, names[i], AM_ALL));
}

/* A child: send requests to the other processes until the parent writes; then report the counts. */
static int child(int me)
{
    en_t names[PROCESSES];
    char end;

    OK(AM_Init());
    begin();
    all_of(1, &own_name, sizeof(own_name), true);
    all_of(0, names, sizeof(names), false);
    map_all(names);
    while (!readable(0))
        send_one((me + 1 + (int)draw(PROCESSES - 1)) % PROCESSES);
    WAIT_FOR(bundle, account.replied + account.returned == account.sent);
    all_of(1, &account, sizeof(account), true);
    /* Answer the parent's requests until it closes the input. */
    do
        OK(AM_Poll(bundle));
    while (!readable(0) || read(0, &end, 1) != 0);
    OK(AM_Terminate());
    return 0;
}

struct child {
    pid_t pid;
    int to, from;
};

static struct child start(char **argv, int rank)
{
    struct child c;
    int in[2], out[2];
    char number[12], draw_text[16];

    CHECK(pipe2(in, O_CLOEXEC) == 0 && pipe2(out, O_CLOEXEC) == 0);
    snprintf(number, sizeof(number), "%d", rank);
    snprintf(draw_text, sizeof(draw_text), "%u", draw(1u << 20));
    c.pid = fork();
    CHECK(c.pid >= 0);
    if (c.pid == 0) {
        const char *other_host = getenv("VIPD_RUNTIME_DIR_B");

        if (rank == VICTIM && other_host != NULL)
            setenv("VIPD_RUNTIME_DIR", other_host, 1);
        dup2(in[0], 0);
        dup2(out[1], 1);
        execl(argv[0], argv[0], argv[1], "child", number, draw_text, (char *)NULL);
        _exit(127);
    }
    close(in[0]);
    close(out[1]);
    c.to = in[1];
    c.from = out[0];
    return c;
}

static void check_account(const char *who, const struct account *a)
{
    if (a->sent != a->replied + a->returned)
        AMX_FatalErr("%s: %d sent, %d replied, %d returned", who, a->sent, a->replied, a->returned);
}

static void round_of(char **argv)
{
    struct child c[PROCESSES] = {{0}};
    en_t names[PROCESSES];
    struct account theirs;
    unsigned before = draw(400);
    int status;

    begin();
    names[0] = own_name;
    for (int i = 1; i < PROCESSES; i++)
        c[i] = start(argv, i);
    for (int i = 1; i < PROCESSES; i++)
        all_of(c[i].from, &names[i], sizeof(names[i]), false);
    for (int i = 1; i < PROCESSES; i++)
        all_of(c[i].to, names, sizeof(names), true);
    map_all(names);
    for (unsigned i = 0; i < before; i++)
        send_one(1 + (int)draw(PROCESSES - 1));
    kill(c[VICTIM].pid, SIGKILL);
    CHECK(waitpid(c[VICTIM].pid, &status, 0) == c[VICTIM].pid);
    /* Send to the dead victim until at least three requests have come back. */
    for (int i = 0; i < 3 || victim_returned < 3; i++)
        send_one(VICTIM);
    send_one(1);
    all_of(c[1].to, "x", 1, true);
    WAIT_FOR(bundle, account.replied + account.returned == account.sent);
    while (!readable(c[1].from)) /* answer the other child's last requests */
        OK(AM_Poll(bundle));
    all_of(c[1].from, &theirs, sizeof(theirs), false);
    check_account("parent", &account);
    check_account("child", &theirs);
    for (int i = 1; i < PROCESSES; i++) {
        close(c[i].to);
        close(c[i].from);
    }
    CHECK(waitpid(c[1].pid, &status, 0) == c[1].pid && WIFEXITED(status) &&
          WEXITSTATUS(status) == 0);
    OK(AM_FreeBundle(bundle));
}

int main(int argc, char **argv)
{
    int rounds = argc > 2 ? atoi(argv[2]) : 5;

    am_test_blocking = argc > 1 && strcmp(argv[1], "block") == 0;
    if (argc > 4 && strcmp(argv[2], "child") == 0) {
        seed = (unsigned)atoi(argv[4]);
        return child(atoi(argv[3]));
    }
    seed = (unsigned)strtoul(argc > 3             ? argv[3]
                             : getenv("VIP_SEED") ? getenv("VIP_SEED")
                                                  : "1",
                             NULL, 0);
    printf("death: seed %u\n", seed);
    fflush(stdout);
    OK(AM_Init());
    for (int i = 0; i < rounds; i++)
        round_of(argv);
    OK(AM_Terminate());
    am_test_passed("death:every_request_is_accounted_for");
    printf("death: %d processes killed, all requests accounted for (%s)\n", rounds,
           am_test_blocking ? "blocking" : "polling");
    return 0;
}

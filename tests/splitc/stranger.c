/*
 * For strangers.sh: a VIPL program that calls processes of a Split-C job (asks for connections).
 * It is no process of the job, or it is one and lies about itself. All calls must be rejected.
 *
 *   stranger PID FIRST LAST PROCS NUMBER...
 *       Calls each discriminator NUMBER as each of PROCS processes. Some calls have the number of a
 *       job that amrun PID began between the seconds FIRST and LAST. Other calls come from an
 *       address of the largest length, without a proof or with a proof by a wrong key.
 *   stranger member DONE
 *       Joins the job as its last process, so it has the keys. It calls process 0 as process 1 from
 *       another address, then as itself on VIs of a level that process 0 cannot accept. Then it
 *       makes the file DONE and ends with the other processes.
 */
#include <fcntl.h>
#include <stdint.h>
#include <unistd.h>

#include "job/job.h"
#include "splitc/lib/hello.h"
#include "splitc/lib/rt.h"
#include "tests/lib/stranger.h"

/* The number of a job: FNV-1a of the launcher's name, as in job_number(). */
static uint64_t number_of(const char *pid, long second)
{
    uint64_t hash = 14695981039346656037u;
    char name[64];

    snprintf(name, sizeof(name), "amrun-%s-%ld", pid, second);
    for (const char *c = name; *c != '\0'; c++)
        hash = (hash ^ (unsigned char)*c) * 1099511628211u;
    return hash;
}

/* Call with data that every user can know: the number of the job, and a rank. */
static void call_by_number(union address *to, int rank, uint64_t job)
{
    struct {
        uint64_t job;
        int32_t rank, bulk;
    } said = {.job = job, .rank = rank};
    union address from = {.room = {0}};
    char how[100];

    set_own(&from, "x", 1);
    for (int i = 0; i < 2; i++) {
        snprintf(how, sizeof(how), "as process %d by the job's number, %s", rank, levels[i].name);
        rejected(how, call(levels[i].level, &from, to, &said, sizeof(said)));
    }
}

static void call_by_false_proof(union address *to, int rank)
{
    struct rt_hello said = {.rank = rank};
    unsigned char name[128] = {1};
    union address from = {.room = {0}};
    struct job_key key;
    char how[100];

    if (job_key_draw(&key) != 0)
        exit(2);
    /* The longest possible discriminator: the called process must have room for it. */
    set_own(&from, name, sizeof(name));
    for (int form = 0; form < 4; form++) {
        snprintf(how, sizeof(how), "as process %d by a false proof, form %d", rank, form);
        said.bulk = form % 2;
        if (form >= 2)
            said.proof = job_prove(&key, JOB_CALLS, &said, sizeof(said));
        rejected(how, call(levels[0].level, &from, to, &said, sizeof(said)));
    }
}

static int be_a_stranger(int argc, char **argv)
{
    long first = atol(argv[2]), last = atol(argv[3]);
    int procs = atoi(argv[4]);

    open_nic();
    like_theirs.MaxTransferSize = RT_MESSAGE_BYTES;
    for (int i = 5; i < argc; i++) {
        /* NUMBER is from vipctl, which shows the bytes in the order of memory. So swap them. */
        uint64_t number = __builtin_bswap64(strtoull(argv[i], NULL, 16));
        union address to;

        set_own(&to, &number, sizeof(number));
        for (int rank = -1; rank <= procs; rank++)
            call_by_false_proof(&to, rank);
        for (long second = first; second <= last; second++)
            for (int rank = 0; rank < procs; rank++)
                call_by_number(&to, rank, number_of(argv[1], second));
    }
    printf("stranger: uid %d: %d of %d calls were not rejected\n", (int)getuid(), taken, calls);
    return taken != 0;
}

/* A hello with the proof that process 0 expects from `rank`. */
static struct rt_hello good_hello(const struct rt_card *cards, int rank, int bulk)
{
    struct rt_claim claim = rt_claim_of(cards, rank, 0, bulk);

    return (struct rt_hello){.rank = rank,
                             .bulk = bulk,
                             .proof = job_prove(&cards[0].key, JOB_CALLS, &claim, sizeof(claim))};
}

static int be_a_member(const char *done)
{
    struct rt_card mine = {.host_len = 0}, *cards;
    struct rt_hello hello;
    union address to, own, other;
    struct job *job;
    int me, fd;

    if (job_start(&job) != 0 || (me = job_rank(job)) < 2)
        exit(2);
    open_nic();
    like_theirs.MaxTransferSize = RT_MESSAGE_BYTES;
    cards = calloc((size_t)job_size(job), sizeof(*cards));
    mine.host_len = nic_attrs.NicAddressLen;
    memcpy(mine.host, nic_attrs.LocalNicAddress, mine.host_len);
    mine.number = 0x5eed;
    if (job_key_draw(&mine.key) != 0 || job_allgather(job, &mine, cards, sizeof(mine)) != 0)
        exit(2);
    set_address(&to, cards[0].host, cards[0].host_len, &cards[0].number, 8);
    set_address(&own, mine.host, mine.host_len, &mine.number, 8);
    set_address(&other, mine.host, mine.host_len, &cards[1].number, 8);
    hello = good_hello(cards, 1, 0);
    rejected("as process 1 from another discriminator",
             call(levels[0].level, &own, &to, &hello, sizeof(hello)));
    if (memcmp(mine.host, cards[1].host, mine.host_len) != 0)
        rejected("as process 1 from another host",
                 call(levels[0].level, &other, &to, &hello, sizeof(hello)));
    hello = good_hello(cards, me, 0);
    rejected("as itself, Unreliable", call(levels[1].level, &own, &to, &hello, sizeof(hello)));
    rejected("as itself, Reliable Reception",
             call(levels[2].level, &own, &to, &hello, sizeof(hello)));
    hello.proof.bytes[15] ^= 1;
    rejected("as itself, one bit wrong", call(levels[0].level, &own, &to, &hello, sizeof(hello)));
    printf("stranger: process %d: %d of %d calls were not rejected\n", me, taken, calls);
    fd = open(done, O_CREAT | O_WRONLY, 0666);
    if (fd < 0 || job_barrier(job) != 0)
        exit(2);
    job_finish(job);
    free(cards);
    return taken != 0;
}

int main(int argc, char **argv)
{
    setvbuf(stdout, NULL, _IOLBF, 0);
    if (argc == 3 && strcmp(argv[1], "member") == 0)
        return be_a_member(argv[2]);
    if (argc < 6) {
        fprintf(stderr, "usage: stranger PID FIRST LAST PROCS NUMBER... | stranger member DONE\n");
        return 2;
    }
    return be_a_stranger(argc, argv);
}

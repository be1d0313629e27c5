/*
 * A hostile program makes vipd allocate memory, or takes away memory that vipd uses. Another user's
 * program must still work.
 *
 * usage: memory holes | unread | left | grow | segments | tables | missing
 * holes: tries to punch holes into memory that it shares with vipd. (vipd would wait for them.)
 * unread: asks for three memory files and reads no reply. vipd must still be able to send files.
 * left: makes vipd fill one file after another, deregisters each file and keeps it.
 * grow: does as left does, then registers a file with holes. Filling it would exceed the limit.
 * segments: opens and ends one session after another and keeps each session's vipd-writes segment.
 * tables: does as segments does, but keeps the tables of receives, to which it writes nothing.
 * missing: cuts its files short while vipd uses them. vipd must run with unsealed.c.
 * Exit status 0: vipd refused the request or ended the session, and the other program's connection
 * still works. If root starts this program, the two run as two other users, else as the caller.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <linux/sockios.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "hostile/raw.h"
#include "proto/status.h"

#define EVIL_UID   60001
#define VICTIM_UID 60002

#define MIB   (1ul << 20)
#define TRIPS 50u

#define CHECK(cond)                                                                                \
    do {                                                                                           \
        if (!(cond)) {                                                                             \
            printf("%s:%d: does not hold: %s\n", __FILE__, __LINE__, #cond);                       \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)

/* One session with two VIs that are connected to each other, and 1 MiB of memory to send from. */
struct pair {
    struct raw raw;
    int a, b;
};

static void pair_open(struct pair *pair)
{
    CHECK(raw_open(&pair->raw) == 0);
    pair->a = raw_vi(&pair->raw, VIP_LVL_DELIVERY, -1);
    pair->b = raw_vi(&pair->raw, VIP_LVL_DELIVERY, -1);
    CHECK(pair->a >= 0 && pair->b >= 0);
    CHECK(raw_connect(&pair->raw, pair->a, &pair->raw, pair->b) == 0);
    CHECK(raw_region(&pair->raw, 0, VIP__MEM_KIND__MEM_SHARED, MIB) == 0);
    memset(pair->raw.region[0].at, 1, MIB);
}

static void post_write(struct pair *pair, uint64_t offset, uint32_t bytes)
{
    const struct raw_region *from = &pair->raw.region[0], *to = &pair->raw.region[1];
    struct vip_shm_seg segs[2] = {{.addr = to->addr + offset, .handle = to->handle},
                                  {.addr = from->addr, .handle = from->handle, .len = bytes}};

    raw_post(&pair->raw, pair->a, VIP_SQ_SEND, VIP_CTL_OP_RDMAWRITE, segs, 2);
    raw_ring(&pair->raw);
}

/* RDMA Write from region 0 to region 1. False if it fails or the session ends first. */
static bool write_to(struct pair *pair, uint64_t offset, uint32_t bytes)
{
    struct vip_comp comp;

    post_write(pair, offset, bytes);
    while (!raw_reap(&pair->raw, pair->a, VIP_Q_SEND, &comp)) {
        if (raw_ended(&pair->raw))
            return false;
        usleep(500);
    }
    return (comp.status & VIP_ST_ERROR_MASK) == 0;
}

/* ---- the other program --------------------------------------------------------------------- */

static void trips(struct pair *pair, uint8_t first)
{
    for (unsigned i = 0; i < TRIPS; i++) {
        memset(pair->raw.region[0].at, (int)(first + i), 64);
        CHECK(write_to(pair, 64 * i, 64));
        CHECK(pair->raw.region[1].at[64 * i + 63] == (uint8_t)(first + i));
    }
}

static void victim(int ready, int go)
{
    struct pair pair;
    char byte = 0;

    pair_open(&pair);
    CHECK(raw_region(&pair.raw, 1, VIP__MEM_KIND__MEM_SHARED, MIB) == 0);
    trips(&pair, 1);
    CHECK(write(ready, &byte, 1) == 1 && read(go, &byte, 1) == 1);
    trips(&pair, 101);
    CHECK(!raw_ended(&pair.raw));
}

/* ---- memory that vipd allocates ------------------------------------------------------------- */

#define FILE_BYTES (16 * MIB)

/* Register a file without any pages as region 1. True if vipd accepted it. */
static bool hole(struct pair *pair, uint64_t bytes)
{
    return raw_region(&pair->raw, 1, VIP__MEM_KIND__MEM_SHARED, bytes) == 0;
}

/* Make vipd write to all of region 1. True if the session has not ended. */
static bool fill(struct pair *pair)
{
    for (uint64_t at = 0; at < pair->raw.region[1].bytes; at += MIB)
        if (!write_to(pair, at, MIB))
            return false;
    return true;
}

/* Make vipd fill a file, deregister the file, and return its descriptor. */
static int fill_and_keep(struct pair *pair)
{
    int fd;

    if (!hole(pair, FILE_BYTES))
        return -1;
    CHECK(fill(pair));
    CHECK(raw_deregister(&pair->raw, 1) == 0);
    munmap(pair->raw.region[1].at, FILE_BYTES);
    pair->raw.region[1].at = MAP_FAILED;
    fd = pair->raw.region[1].fd;
    pair->raw.region[1].fd = -1;
    return fd;
}

static void left(void)
{
    struct pair pair;
    int fd[3], full = raw_memfd(2 * FILE_BYTES, true);

    pair_open(&pair);
    for (unsigned i = 0; i < 3; i++)
        CHECK((fd[i] = fill_and_keep(&pair)) >= 0);
    /* vipd counts 49 MiB for this user, 48 of them deregistered. 32 MiB more exceed the limit. */
    CHECK(full >= 0);
    for (uint64_t at = 0; at < 2 * FILE_BYTES; at += 4096)
        CHECK(pwrite(full, "x", 1, (off_t)at) == 1);
    CHECK(raw_region_of(&pair.raw, 1, VIP__MEM_KIND__MEM_SHARED, MIB, dup(full)) < 0);
    CHECK(!raw_ended(&pair.raw));
    for (unsigned i = 0; i < 3; i++)
        close(fd[i]);
    CHECK(raw_region_of(&pair.raw, 1, VIP__MEM_KIND__MEM_SHARED, MIB, full) == 0);
    CHECK(write_to(&pair, 0, MIB));
}

static void grow(void)
{
    struct pair pair;

    pair_open(&pair);
    for (unsigned i = 0; i < 3; i++)
        CHECK(fill_and_keep(&pair) >= 0);
    CHECK(hole(&pair, 2 * FILE_BYTES));
    /* vipd ends the session when it fills the file, or when it checks the memory next. */
    while (fill(&pair))
        continue;
    CHECK(raw_ended(&pair.raw));
}

/* ---- memory that is taken away --------------------------------------------------------------- */

/* True if root may make files immutable here. Then vipd protects the memory files that it makes. */
static bool can_protect;

static bool make_immutable(int fd)
{
    int flags = FS_IMMUTABLE_FL;

    return ioctl(fd, FS_IOC_SETFLAGS, &flags) == 0;
}

static void find_out(void)
{
    int fd = memfd_create("probe", MFD_CLOEXEC);

    CHECK(fd >= 0);
    can_protect = make_immutable(fd);
    close(fd);
}

static void refused(int fd, uint8_t *at)
{
    int none = 0;

    errno = 0;
    CHECK(fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, MIB) < 0 && errno == EPERM);
    CHECK(madvise(at, MIB, MADV_REMOVE) < 0 && errno == EPERM);
    CHECK(ftruncate(fd, 0) < 0 && errno == EPERM);
    CHECK(ioctl(fd, FS_IOC_SETFLAGS, &none) < 0);
}

static void holes(void)
{
    struct pair pair;
    struct raw other;
    int fd, ours;

    pair_open(&pair);
    fd = raw_memory(MIB);
    CHECK((fd >= 0) == can_protect);
    raw_own_memory = true;
    ours = raw_memfd(MIB, true);
    CHECK(ours >= 0);
    if (!can_protect) {
        printf("holes: vipd cannot protect memory files here: it takes those of programs\n");
        CHECK(raw_region_of(&pair.raw, 1, VIP__MEM_KIND__MEM_SHARED, MIB, ours) == 0);
        CHECK(write_to(&pair, 0, MIB));
        return;
    }
    CHECK(raw_region_of(&pair.raw, 1, VIP__MEM_KIND__MEM_SHARED, MIB, fd) == 0);
    refused(fd, pair.raw.region[1].at);
    CHECK(write_to(&pair, 0, MIB));
    CHECK(pair.raw.region[1].at[MIB - 1] == 1);
    CHECK(pwrite(fd, "x", 1, 0) == 1 && pair.raw.region[1].at[0] == 'x');
    refused(fd, pair.raw.region[1].at);
    refused(pair.raw.arena, pair.raw.region[1].at);
    CHECK(raw_region_of(&pair.raw, 2, VIP__MEM_KIND__MEM_SHARED, MIB, ours) < 0);
    CHECK(!raw_ended(&pair.raw));
    CHECK(raw_open(&other) < 0); /* refused, because the program has made the arena itself */
}

static void unread(void)
{
    char path[108];
    int sock, waiting, fd[4];

    CHECK(vip_control_socket_path(path, sizeof(path)) == 0);
    sock = vip_control_connect(path);
    CHECK(sock >= 0);
    for (unsigned i = 0; i < 3; i++)
        CHECK(raw_memory_ask(sock, MIB) == 0);
    /* Wait until vipd has read the last request; then it has answered the earlier requests. */
    do {
        CHECK(usleep(1000) == 0 && ioctl(sock, SIOCOUTQ, &waiting) == 0);
    } while (waiting > 0);
    for (unsigned i = 0; i < 3; i++)
        fd[i] = raw_memory_take(sock);
    CHECK((fd[0] >= 0) == can_protect);
    CHECK(fd[1] < 0);
    CHECK(raw_memory_ask(sock, MIB) == 0);
    fd[3] = raw_memory_take(sock);
    CHECK((fd[3] >= 0) == can_protect);
}

/* ---- memory that is missing ------------------------------------------------------------------ */

static void wait_for_end(struct pair *pair)
{
    struct vip_comp comp;

    while (!raw_ended(&pair->raw))
        usleep(1000);
    CHECK(!raw_reap(&pair->raw, pair->a, VIP_Q_SEND, &comp) ||
          (comp.status & VIP_ST_ERROR_MASK) != 0);
}

/* Open a session, make 2,000 VIs, end the session, and return the descriptor of a file to which
 * vipd has given pages. The file is vipd's segment with about 1.3 MB (128 + 512 bytes per VI), or
 * with `table` the table of receives with about 8 MiB, which vipd reads when a VI disconnects. */
static int open_and_keep(bool table)
{
    struct raw raw;
    int fd = -1;

    if (raw_open(&raw) < 0)
        return -1;
    if (table)
        CHECK((fd = raw_table(&raw)) >= 0);
    for (unsigned i = 0; i < 2000; i++) {
        raw.vi_count = 0;
        if (raw_vi(&raw, VIP_LVL_DELIVERY, -1) < 0)
            break;
        if (table)
            (void)raw_disconnect(&raw, 0); /* vipd then looks for receives in the table */
    }
    if (!table)
        fd = dup(raw.vipd_fd);
    raw_close(&raw);
    return fd;
}

static void keep_all(bool table)
{
    int kept[80];
    unsigned count = 0;

    while (count < 80 && (kept[count] = open_and_keep(table)) >= 0)
        count++;
    printf("%u files were kept, then no NIC was opened\n", count);
    CHECK(count >= 4 && count < 80);
    while (count)
        close(kept[--count]);
    CHECK((kept[0] = open_and_keep(table)) >= 0);
}

static void segments(void)
{
    keep_all(false);
}

static void tables(void)
{
    keep_all(true);
}

static void missing(void)
{
    raw_unsealed = true;
    for (unsigned way = 0; way < 4; way++) {
        struct pair pair;
        uint64_t one = 1;

        pair_open(&pair);
        CHECK(raw_region(&pair.raw, 1, VIP__MEM_KIND__MEM_SHARED, MIB) == 0);
        CHECK(write_to(&pair, 0, 1000));
        if (way == 0) { /* way: 0 cuts the target, 1 the source, 2 and 3 a segment */
            CHECK(ftruncate(pair.raw.region[1].fd, 0) == 0);
            post_write(&pair, 4096, 4096);
            wait_for_end(&pair);
        } else if (way == 1) {
            CHECK(ftruncate(pair.raw.region[0].fd, 4096) == 0);
            post_write(&pair, 0, 3 * 4096);
            wait_for_end(&pair);
        } else {
            CHECK(ftruncate(way == 2 ? pair.raw.app_fd : pair.raw.vipd_fd, 0) == 0);
            while (!raw_ended(&pair.raw)) {
                CHECK(write(pair.raw.doorbell, &one, sizeof(one)) == sizeof(one));
                usleep(1000);
            }
        }
        printf("way %u: the session was ended\n", way);
        raw_close(&pair.raw);
    }
}

/* ---- both ------------------------------------------------------------------------------------ */

static pid_t start(void (*program)(int, int), uid_t uid, int a, int b)
{
    pid_t pid;

    fflush(stdout);
    pid = fork();
    CHECK(pid >= 0);
    if (pid > 0)
        return pid;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (geteuid() == 0)
        CHECK(setresgid(uid, uid, uid) == 0 && setresuid(uid, uid, uid) == 0);
    program(a, b);
    exit(0);
}

static const struct {
    const char *name;
    void (*run)(void);
} modes[] = {{"holes", holes},       {"unread", unread}, {"left", left},      {"grow", grow},
             {"segments", segments}, {"tables", tables}, {"missing", missing}};
static void (*mode)(void);

static void evil(int a, int b)
{
    (void)a;
    (void)b;
    mode();
}

static bool ended_well(pid_t pid)
{
    int status;

    return waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

int main(int argc, char **argv)
{
    const char *name = argc == 2 ? argv[1] : "";
    int ready[2], go[2];
    pid_t other, first;
    char byte = 0;
    bool good;

    for (unsigned i = 0; i < sizeof(modes) / sizeof(modes[0]); i++)
        if (!strcmp(name, modes[i].name))
            mode = modes[i].run;
    if (!mode) {
        fprintf(stderr, "usage: memory holes | unread | left | grow | segments | missing\n");
        return 2;
    }
    if (geteuid() != 0)
        printf("not root: both programs are of one user\n");
    find_out();
    CHECK(pipe(ready) == 0 && pipe(go) == 0);
    other = start(victim, VICTIM_UID, ready[1], go[0]);
    close(ready[1]);
    CHECK(read(ready[0], &byte, 1) == 1);
    first = start(evil, EVIL_UID, -1, -1);
    good = ended_well(first);
    CHECK(write(go[1], &byte, 1) == 1);
    if (!ended_well(other)) {
        printf("the connection of the other program did not last\n");
        good = false;
    }
    return good ? 0 : 1;
}

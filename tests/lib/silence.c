/*
 * A client with much memory or many VIs dies while another connection is in use
 * (tests/system/silence.sh). The client dies at vipd A ($VIPD_RUNTIME_DIR_A). The connection is
 * between vipd A and vipd B ($VIPD_RUNTIME_DIR_B).
 *
 *   silence gate DIR    with tests/lib/slow_unmap.c, vipd A cannot unmap the client's memory before
 *                       DIR/go exists. Meanwhile messages must pass for 3 s, without a loss
 *   silence dump        a core dump must not contain the segments and rings shared with vipd A
 *   silence death MIB   by hand: print the longest round trip while a client with MIB MiB dies
 *   silence stop PID    stop vipd A, which has this PID, for 1 s while a connection exists
 *   silence cpu PID MIB VIS MS   a client with MIB MiB of memory and VIS VIs dies. This may cost
 *                       the main thread of vipd A, which has this PID, MS ms of processor time
 */
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <vipl.h>
#include <vipl_ext.h>

#define ROUND_MS   20000 /* limit for one round trip; it takes longer only if vipd hangs */
#define GATE_S     3     /* seconds of messages while vipd unmaps; longer than peer_dead (1 s) */
#define DEATH_S    8     /* run time of the mode `death`, in seconds */
#define BYTES      64
#define SESSION_MB 32u

/* An address with room for a discriminator. */
union address {
    VIP_NET_ADDRESS net;
    unsigned char bytes[4 + 24 + 128];
};

struct end {
    VIP_NIC_HANDLE nic;
    VIP_NIC_ATTRIBUTES attributes;
    VIP_VI_HANDLE vi;
    VIP_MEM_HANDLE handle;
    struct memory {
        VIP_DESCRIPTOR send, receive;
        char out[BYTES], in[BYTES];
    } * memory;
};

static void fail(const char *what)
{
    printf("FAILED: %s: %s\n", what, VipxLastError());
    exit(1);
}

static void must(VIP_RETURN code, const char *what)
{
    if (code != VIP_SUCCESS)
        fail(what);
}

static VIP_NIC_HANDLE open_nic(const char *dir_variable)
{
    VIP_NIC_HANDLE nic;

    setenv("VIPD_RUNTIME_DIR", getenv(dir_variable), 1);
    must(VipOpenNic("vip0", &nic), "VipOpenNic");
    return nic;
}

static VIP_VI_HANDLE make_vi(VIP_NIC_HANDLE nic)
{
    VIP_VI_ATTRIBUTES attributes = {.ReliabilityLevel = VIP_SERVICE_RELIABLE_DELIVERY,
                                    .MaxTransferSize = 4096};
    VIP_VI_HANDLE vi;

    must(VipCreateVi(nic, &attributes, NULL, NULL, &vi), "VipCreateVi");
    return vi;
}

/* ---- the client that dies ---------------------------------------------------------------- */

/* In the child: make memory and VIs, write a byte to `ready`, and wait for the SIGKILL. */
static void client(int ready, unsigned mib, unsigned vis)
{
    VIP_NIC_HANDLE nic = open_nic("VIPD_RUNTIME_DIR_A");
    VIP_MEM_HANDLE handle;
    VIP_PVOID memory;

    must(VipxAllocMem((VIP_ULONG)mib << 20, &memory), "VipxAllocMem");
    memset(memory, 1, (size_t)mib << 20);
    must(VipRegisterMem(nic, memory, (VIP_ULONG)mib << 20, NULL, &handle), "VipRegisterMem");
    for (unsigned i = 0; i < vis; i++)
        (void)make_vi(nic);
    if (write(ready, "", 1) != 1)
        exit(1);
    for (;;)
        pause();
}

static pid_t client_start(unsigned mib, unsigned vis)
{
    int ready[2];
    char byte;
    pid_t pid = -1;

    if (pipe(ready) < 0 || (pid = fork()) < 0)
        fail("fork");
    if (pid == 0) {
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL); /* the child must not outlive a failed test */
        close(ready[0]);
        client(ready[1], mib, vis);
    }
    close(ready[1]);
    if (read(ready[0], &byte, 1) != 1)
        fail("the client did not come up");
    close(ready[0]);
    return pid;
}

static void client_kill(pid_t pid)
{
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
}

/* ---- messages to and fro ----------------------------------------------------------------- */

static void fill(union address *address, const VIP_NIC_ATTRIBUTES *nic)
{
    static const uint32_t number = 7;

    memset(address, 0, sizeof(*address));
    address->net.HostAddressLen = nic->NicAddressLen;
    memcpy(address->net.HostAddress, nic->LocalNicAddress, nic->NicAddressLen);
    address->net.DiscriminatorLen = sizeof(number);
    memcpy(address->net.HostAddress + nic->NicAddressLen, &number, sizeof(number));
}

static void end_open(struct end *end, const char *dir_variable)
{
    end->nic = open_nic(dir_variable);
    must(VipQueryNic(end->nic, &end->attributes), "VipQueryNic");
    end->vi = make_vi(end->nic);
    end->memory = aligned_alloc(4096, 4096);
    if (!end->memory)
        fail("memory");
    memset(end->memory, 0, 4096);
    must(VipRegisterMem(end->nic, end->memory, 4096, NULL, &end->handle), "VipRegisterMem");
}

static void connect_ends(struct end end[2])
{
    union address address[2];
    VIP_VI_ATTRIBUTES remote;

    fill(&address[0], &end[0].attributes);
    fill(&address[1], &end[1].attributes);
    for (unsigned e = 0; e < 2; e++)
        must(VipConnectPeerRequest(end[e].vi, &address[e].net, &address[!e].net, ROUND_MS),
             "VipConnectPeerRequest");
    for (unsigned e = 0; e < 2; e++)
        must(VipConnectPeerWait(end[e].vi, &remote), "VipConnectPeerWait");
}

static void describe(const struct end *end, VIP_DESCRIPTOR *desc, void *bytes)
{
    memset(desc, 0, sizeof(*desc));
    desc->CS.SegCount = 1;
    desc->CS.Length = BYTES;
    desc->DS[0].Local.Data.Address = bytes;
    desc->DS[0].Local.Handle = end->handle;
    desc->DS[0].Local.Length = BYTES;
}

static void one_way(struct end *from, struct end *to)
{
    VIP_DESCRIPTOR *done;

    describe(to, &to->memory->receive, to->memory->in);
    must(VipPostRecv(to->vi, &to->memory->receive, to->handle), "VipPostRecv");
    describe(from, &from->memory->send, from->memory->out);
    must(VipPostSend(from->vi, &from->memory->send, from->handle), "VipPostSend");
    must(VipRecvWait(to->vi, ROUND_MS, &done), "a message does not arrive");
    must(VipSendWait(from->vi, ROUND_MS, &done), "a message is not acknowledged");
    if (!(done->CS.Status & VIP_STATUS_DONE) || (done->CS.Status & VIP_STATUS_ERROR_MASK))
        fail("a message failed");
}

static void rounds(struct end end[2], unsigned count)
{
    while (count--) {
        one_way(&end[0], &end[1]);
        one_way(&end[1], &end[0]);
    }
}

static uint64_t now_ns(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (uint64_t)ts.tv_sec * 1000000000ull + (uint64_t)ts.tv_nsec;
}

static bool file_comes(const char *dir, const char *name)
{
    char path[512];

    snprintf(path, sizeof(path), "%s/%s", dir, name);
    for (unsigned i = 0; i < 6000; i++) {
        if (access(path, F_OK) == 0)
            return true;
        usleep(10000);
    }
    return false;
}

static int gate(const char *dir)
{
    struct end end[2];
    uint64_t until_ns;
    unsigned count = 0;
    char path[512];
    pid_t pid = client_start(SESSION_MB, 8);

    end_open(&end[0], "VIPD_RUNTIME_DIR_A");
    end_open(&end[1], "VIPD_RUNTIME_DIR_B");
    connect_ends(end);
    rounds(end, 100);
    client_kill(pid);
    if (!file_comes(dir, "begun"))
        fail("vipd does not unmap the memory of a dead client");
    until_ns = now_ns() + GATE_S * 1000000000ull;
    do {
        rounds(end, 100);
        count += 100;
    } while (now_ns() < until_ns);
    printf("%u rounds while vipd was freeing memory\n", count);
    snprintf(path, sizeof(path), "%s/go", dir);
    close(open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
    rounds(end, 100);
    return 0;
}

/* The mode `death`: print the longest round trip while a client with much memory dies. */
static int death(unsigned mib)
{
    struct end end[2];
    uint64_t longest_ns = 0, start_ns = 0, began_ns;
    pid_t pid = client_start(mib, 8);

    end_open(&end[0], "VIPD_RUNTIME_DIR_A");
    end_open(&end[1], "VIPD_RUNTIME_DIR_B");
    connect_ends(end);
    rounds(end, 100);
    client_kill(pid);
    began_ns = start_ns = now_ns();
    while (start_ns < began_ns + DEATH_S * 1000000000ull) {
        uint64_t took_ns;

        rounds(end, 1);
        took_ns = now_ns() - start_ns;
        if (took_ns > longest_ns)
            longest_ns = took_ns;
        start_ns += took_ns;
    }
    printf("longest round after the death of a client with %u MiB: %.0f ms\n", mib,
           (double)longest_ns / 1e6);
    return 0;
}

/* ---- processor time ---------------------------------------------------------------------- */

/* The number of lines of /proc/PID/maps that contain `word`. */
static unsigned maps_with(const char *pid, const char *word)
{
    char path[64], line[512];
    unsigned count = 0;
    FILE *file;

    snprintf(path, sizeof(path), "/proc/%s/maps", pid);
    file = fopen(path, "r");
    if (!file)
        fail("vipd is gone");
    while (fgets(line, sizeof(line), file))
        count += strstr(line, word) != NULL;
    fclose(file);
    return count;
}

static uint64_t main_thread_ns(const char *pid)
{
    char path[128];
    unsigned long long ns = 0;
    FILE *file;

    snprintf(path, sizeof(path), "/proc/%s/task/%s/schedstat", pid, pid);
    file = fopen(path, "r");
    if (!file || fscanf(file, "%llu", &ns) != 1)
        fail("the processor time of vipd cannot be read");
    fclose(file);
    return ns;
}

static int cpu(const char *vipd_pid, unsigned mib, unsigned vis, double limit_ms)
{
    pid_t pid = client_start(mib, vis);
    uint64_t before_ns;
    double took_ms;

    before_ns = main_thread_ns(vipd_pid);
    client_kill(pid);
    for (unsigned i = 0; maps_with(vipd_pid, "vipd-writes") > 0; i++) {
        if (i == 6000)
            fail("vipd keeps the memory of a dead client");
        usleep(10000);
    }
    took_ms = (double)(main_thread_ns(vipd_pid) - before_ns) / 1e6;
    printf("%u MiB, %u VIs: %.1f ms of the thread that moves messages, at most %.0f\n", mib, vis,
           took_ms, limit_ms);
    return took_ms > limit_ms;
}

/* ---- a stopped vipd ---------------------------------------------------------------------- */

/* vipd's timers expire while vipd is stopped. Even so, vipd must not break the connection. */
static int stop(pid_t vipd)
{
    struct end end[2];

    end_open(&end[0], "VIPD_RUNTIME_DIR_A");
    end_open(&end[1], "VIPD_RUNTIME_DIR_B");
    connect_ends(end);
    rounds(end, 10);
    kill(vipd, SIGSTOP);
    sleep(1);
    kill(vipd, SIGCONT);
    rounds(end, 10);
    return 0;
}

/* ---- core dumps -------------------------------------------------------------------------- */

/* Returns the number of mappings whose file name contains `word`. *ret_kept: how many of these a
 * core dump would contain. */
static unsigned dumped(const char *word, unsigned *ret_kept)
{
    char line[1024], *end;
    unsigned count = 0;
    bool within = false;
    FILE *file = fopen("/proc/self/smaps", "r");

    *ret_kept = 0;
    while (file && fgets(line, sizeof(line), file)) {
        (void)strtoul(line, &end, 16);
        if (end != line && *end == '-') { /* a mapping's first line begins with its addresses */
            within = strstr(line, word) != NULL;
            count += within;
        } else if (within && strncmp(line, "VmFlags:", 8) == 0) {
            *ret_kept += strstr(line, " dd") == NULL;
        }
    }
    if (file)
        fclose(file);
    return count;
}

static int dump(void)
{
    static const char *const segments[] = {"memfd:vipl-app", "memfd:vipd-writes",
                                           "memfd:vipl-receives", "memfd:via-ring"};
    struct end end[2];
    unsigned kept;
    int bad = 0;

    end_open(&end[0], "VIPD_RUNTIME_DIR_A");
    end_open(&end[1], "VIPD_RUNTIME_DIR_A");
    connect_ends(end);
    rounds(end, 10);
    for (unsigned i = 0; i < sizeof(segments) / sizeof(segments[0]); i++) {
        unsigned count = dumped(segments[i], &kept);

        printf("%s: %u mappings, %u of them in a core dump\n", segments[i], count, kept);
        bad |= count == 0 || kept > 0;
    }
    return bad;
}

int main(int argc, char **argv)
{
    setvbuf(stdout, NULL, _IOLBF, 0);
    if (argc == 3 && strcmp(argv[1], "gate") == 0)
        return gate(argv[2]);
    if (argc == 6 && strcmp(argv[1], "cpu") == 0)
        return cpu(argv[2], (unsigned)atoi(argv[3]), (unsigned)atoi(argv[4]), atof(argv[5]));
    if (argc == 3 && strcmp(argv[1], "death") == 0)
        return death((unsigned)atoi(argv[2]));
    if (argc == 2 && strcmp(argv[1], "dump") == 0)
        return dump();
    if (argc == 3 && strcmp(argv[1], "stop") == 0)
        return stop((pid_t)atoi(argv[2]));
    fputs("usage: silence gate DIR | death MIB | dump | stop PID | cpu PID MIB VIS MS\n", stderr);
    return 2;
}

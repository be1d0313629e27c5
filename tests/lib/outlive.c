/*
 * A vipd is killed and started again (tests/system/outlive.sh). All messages must arrive, once and
 * in order. The server sends every message back; the client checks it.
 *
 *   outlive server [WORD...]              accept one connection; end when the client disconnects
 *   outlive client HOST STOP [WORD...]    until the file STOP exists. Each line has a message
 *                                         number and the longest gap since the last line (ms)
 *
 * Words: rr: Reliable Reception, not Reliable Delivery (client); heap: memory of malloc; staged:
 * memory that libvipl stages (doc/memory.md); poll: poll the queues; cq: wait on a CQ; cqfd: wait on
 * a CQ's descriptor; notify: wait for handlers; small: messages of at most 200 bytes; write: messages
 * are RDMA Writes with immediate data; read: read each fifth answer again by RDMA Read (client);
 * fork: make a child with every hundredth message.
 */
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include <vipl.h>
#include <vipl_ext.h>

#include "outlive_wait.h"

#define SLOTS     16u
#define BYTES     9000u
#define WAIT_MS   60000 /* time limit for one message; it expires only if the connection is lost */
#define CHILD_US  300000
#define TELL      100u /* number of messages between two lines of output */
#define DISC_TEXT "outlive"

union address {
    VIP_NET_ADDRESS net;
    unsigned char bytes[4 + 24 + 128];
};

struct slot {
    VIP_DESCRIPTOR send __attribute__((aligned(64))), receive __attribute__((aligned(64)));
    VIP_DESCRIPTOR read __attribute__((aligned(64)));
    unsigned char out[BYTES], in[BYTES], again[BYTES];
};

/* The first message of each end: it tells the peer the place of this end's slots. */
struct hello {
    uint64_t slots;
    VIP_MEM_HANDLE handle;
};

struct words {
    VIP_RELIABILITY_LEVEL level;
    enum wait_way way;
    bool heap, staged, write, read, fork;
};

struct end {
    VIP_NIC_HANDLE nic;
    VIP_NIC_ATTRIBUTES attributes;
    VIP_VI_HANDLE vi;
    struct waiter waiter;
    VIP_MEM_HANDLE handle;
    struct slot *slots;
    struct hello peer;
    unsigned sent, returned;                /* numbers of send descriptors: posted, completed */
    const VIP_DESCRIPTOR *order[2 * SLOTS]; /* send descriptors, by number modulo 2 * SLOTS */
    unsigned come, taken;                   /* messages: received; given out by next_receive */
    VIP_DESCRIPTOR *received[SLOTS]; /* completed receive descriptors, by number modulo SLOTS */
    bool over;                       /* descriptors were flushed: the connection has ended */
};

static bool is_server, is_small;

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

/* When the client calls VipDisconnect, the server gets VIP_ERROR_CONN_LOST. */
static void on_error(VIP_PVOID context, VIP_ERROR_DESCRIPTOR *error)
{
    const bool *server_end = context;

    if (*server_end && error->ErrorCode == VIP_ERROR_CONN_LOST)
        return;
    printf("FAILED: asynchronous error %d\n", (int)error->ErrorCode);
    fflush(stdout);
}

static void *slots_memory(const struct words *words)
{
    size_t bytes = SLOTS * sizeof(struct slot);
    VIP_PVOID base;

    if (words->heap) {
        base = aligned_alloc(64, bytes);
        if (base == NULL)
            fail("aligned_alloc");
    } else if (words->staged) {
        base = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        if (base == MAP_FAILED)
            fail("mmap");
    } else {
        must(VipxAllocMem(bytes, &base), "VipxAllocMem");
    }
    memset(base, 0, bytes);
    return base;
}

static void open_end(struct end *end, const struct words *words)
{
    VIP_VI_ATTRIBUTES vi = {.ReliabilityLevel = words->level,
                            .MaxTransferSize = BYTES,
                            .EnableRdmaWrite = VIP_TRUE,
                            .EnableRdmaRead = VIP_TRUE};
    VIP_PROTECTION_HANDLE ptag;
    VIP_MEM_ATTRIBUTES memory = {.EnableRdmaWrite = VIP_TRUE, .EnableRdmaRead = VIP_TRUE};

    must(VipOpenNic("vip0", &end->nic), "VipOpenNic");
    must(VipQueryNic(end->nic, &end->attributes), "VipQueryNic");
    must(VipErrorCallback(end->nic, &is_server, on_error), "VipErrorCallback");
    must(VipCreatePtag(end->nic, &ptag), "VipCreatePtag");
    vi.Ptag = memory.Ptag = ptag;
    end->slots = slots_memory(words);
    must(VipRegisterMem(end->nic, end->slots, SLOTS * sizeof(*end->slots), &memory, &end->handle),
         "VipRegisterMem");
    end->waiter.way = words->way;
    must(waiter_begin(&end->waiter, end->nic, 4 * SLOTS), "waiting for completions");
    must(VipCreateVi(end->nic, &vi, end->waiter.cq, end->waiter.cq, &end->vi), "VipCreateVi");
    end->waiter.vi = end->vi;
}

static void discriminator(VIP_NET_ADDRESS *address)
{
    address->DiscriminatorLen = sizeof(DISC_TEXT);
    memcpy(address->HostAddress + address->HostAddressLen, DISC_TEXT, sizeof(DISC_TEXT));
}

static void post_receive(struct end *end, unsigned number)
{
    struct slot *slot = &end->slots[number % SLOTS];
    VIP_DESCRIPTOR *desc = &slot->receive;

    memset(desc, 0, sizeof(*desc));
    desc->CS.Length = BYTES;
    desc->CS.SegCount = 1;
    desc->CS.Control = VIP_CONTROL_OP_SENDRECV;
    desc->DS[0].Local.Data.Address = slot->in;
    desc->DS[0].Local.Handle = end->handle;
    desc->DS[0].Local.Length = BYTES;
    must(VipPostRecv(end->vi, desc, end->handle), "VipPostRecv");
    must(waiter_posted(&end->waiter, true), "VipRecvNotify");
}

/* Post a send or RDMA of `local`. RDMA uses the peer's slot with the same place as `remote`. */
static void post(struct end *end, VIP_DESCRIPTOR *desc, VIP_UINT16 control, unsigned char *local,
                 const unsigned char *remote, unsigned number, uint32_t length)
{
    unsigned segment = remote != NULL;

    memset(desc, 0, sizeof(*desc));
    desc->CS.Length = length;
    desc->CS.SegCount = (VIP_UINT16)(segment + 1);
    desc->CS.Control = control;
    desc->CS.ImmediateData = number;
    if (remote != NULL) {
        desc->DS[0].Remote.Data.AddressBits =
            end->peer.slots + (uint64_t)(remote - (unsigned char *)end->slots);
        desc->DS[0].Remote.Handle = end->peer.handle;
    }
    desc->DS[segment].Local.Data.Address = local;
    desc->DS[segment].Local.Handle = end->handle;
    desc->DS[segment].Local.Length = length;
    must(VipPostSend(end->vi, desc, end->handle), "VipPostSend");
    must(waiter_posted(&end->waiter, false), "VipSendNotify");
    end->order[end->sent++ % (2 * SLOTS)] = desc;
}

static void post_message(struct end *end, unsigned number, uint32_t length, bool write)
{
    struct slot *slot = &end->slots[number % SLOTS];

    if (write)
        post(end, &slot->send, VIP_CONTROL_OP_RDMAWRITE | VIP_CONTROL_IMMEDIATE, slot->out,
             slot->in, number, length);
    else
        post(end, &slot->send, VIP_CONTROL_OP_SENDRECV | VIP_CONTROL_IMMEDIATE, slot->out, NULL,
             number, length);
}

static void hello_put(struct end *end)
{
    struct hello hello = {.slots = (uintptr_t)end->slots, .handle = end->handle};

    memcpy(end->slots[0].out, &hello, sizeof(hello));
}

static void hello_get(struct end *end)
{
    memcpy(&end->peer, end->slots[0].in, sizeof(end->peer));
}

static void take_send(struct end *end, const VIP_DESCRIPTOR *desc)
{
    if (desc != end->order[end->returned % (2 * SLOTS)])
        fail("a send completed out of order");
    end->returned++;
}

/* Wait for a completion and record it. With WAIT_QUEUES and WAIT_POLL, is_recv selects the queue. Otherwise a
 * completion of either queue may come. */
static void take_one(struct end *end, bool is_recv)
{
    struct completion completion;
    const VIP_DESCRIPTOR *desc;

    must(waiter_next(&end->waiter, is_recv, WAIT_MS, &completion), "waiting for a completion");
    desc = completion.desc;
    if ((desc->CS.Status & VIP_STATUS_DESC_FLUSHED_ERROR) != 0 && is_server)
        end->over = true;
    else if ((desc->CS.Status & VIP_STATUS_ERROR_MASK) != 0)
        fail("a descriptor has completed with an error");
    else if (completion.is_recv)
        end->received[end->come++ % SLOTS] = completion.desc;
    else
        take_send(end, desc);
}

/* Wait for the next message; meanwhile handle completed sends. NULL: the peer has disconnected. */
static VIP_DESCRIPTOR *next_receive(struct end *end)
{
    VIP_DESCRIPTOR *desc = NULL;

    while (end->waiter.way <= WAIT_POLL && VipSendDone(end->vi, &desc) == VIP_SUCCESS)
        take_send(end, desc);
    while (end->come == end->taken && !end->over)
        take_one(end, true);
    return end->come == end->taken ? NULL : end->received[end->taken++ % SLOTS];
}

/* Wait until at most `left` posted sends are not completed. The other slots are then free. */
static void drain_sends(struct end *end, unsigned left)
{
    while (end->sent - end->returned > left && !end->over)
        take_one(end, false);
}

/* The handles of the child of a fork are invalid: no call may change what the parent has. */
static void call_as_child(const struct end *end)
{
    VIP_DESCRIPTOR *desc;

    if (VipRecvDone(end->vi, &desc) == VIP_SUCCESS || VipSendDone(end->vi, &desc) == VIP_SUCCESS ||
        VipDisconnect(end->vi) == VIP_SUCCESS || VipCloseNic(end->nic) == VIP_SUCCESS) {
        printf("FAILED: a call of a child\n");
        fflush(stdout);
    }
}

/* Make a child with every TELL-th message. A child ends at once, or calls the library, or lives on
 * for a while; it may live longer than this process. */
static void fork_sometimes(const struct end *end, unsigned number)
{
    pid_t pid;

    if (number % TELL != TELL - 1)
        return;
    fflush(stdout);
    pid = fork();
    if (pid < 0)
        fail("fork");
    if (pid > 0)
        return;
    if (number / TELL % 3 == 1)
        call_as_child(end);
    else if (number / TELL % 3 == 2)
        usleep(CHILD_US);
    _exit(0);
}

/* Length of a message and of its answer. The first message is a struct hello. */
static uint32_t length_of(unsigned number)
{
    if (number == 0)
        return sizeof(struct hello);
    return number % 7 == 0 && !is_small ? 1 + number * 397u % BYTES : 1 + number * 31u % 200;
}

/* ---- server ------------------------------------------------------------------------------ */

static int server(const struct words *words)
{
    static struct end end; /* handlers may still run while the program exits */
    union address local = {0}, remote = {0};
    VIP_VI_ATTRIBUTES attributes;
    VIP_CONN_HANDLE request;
    VIP_DESCRIPTOR *desc;

    open_end(&end, words);
    local.net.HostAddressLen = end.attributes.NicAddressLen;
    memcpy(local.net.HostAddress, end.attributes.LocalNicAddress, end.attributes.NicAddressLen);
    discriminator(&local.net);
    for (unsigned i = 0; i < SLOTS; i++)
        post_receive(&end, i);
    printf("ready\n");
    fflush(stdout);
    must(VipConnectWait(end.nic, &local.net, VIP_INFINITE, &remote.net, &attributes, &request),
         "VipConnectWait");
    if (attributes.ReliabilityLevel != VIP_SERVICE_RELIABLE_DELIVERY) {
        VIP_VI_ATTRIBUTES own = {.ReliabilityLevel = attributes.ReliabilityLevel,
                                 .MaxTransferSize = BYTES,
                                 .EnableRdmaWrite = VIP_TRUE,
                                 .EnableRdmaRead = VIP_TRUE};
        VIP_MEM_ATTRIBUTES memory;

        must(VipQueryMem(end.nic, end.slots, end.handle, &memory), "VipQueryMem");
        own.Ptag = memory.Ptag;
        must(VipSetViAttributes(end.vi, &own), "VipSetViAttributes");
    }
    must(VipConnectAccept(request, end.vi), "VipConnectAccept");
    for (unsigned number = 0; (desc = next_receive(&end)) != NULL; number++) {
        struct slot *slot = &end.slots[number % SLOTS];
        uint32_t length = length_of(number);

        if (desc != &slot->receive || desc->CS.ImmediateData != number) {
            printf("FAILED: message %u where %u must be\n", desc->CS.ImmediateData, number);
            return 1;
        }
        if (words->fork)
            fork_sometimes(&end, number);
        drain_sends(&end, SLOTS - 1);
        memcpy(slot->out, slot->in, length);
        if (number == 0) {
            hello_get(&end);
            hello_put(&end);
        }
        post_receive(&end, number);
        post_message(&end, number, length, words->write && number > 0);
    }
    must(VipDisconnect(end.vi), "VipDisconnect");
    printf("done\n");
    return 0;
}

/* ---- client ------------------------------------------------------------------------------ */

static unsigned char byte_of(unsigned number, uint32_t at)
{
    return (unsigned char)(number * 7 + at * 13 + (at >> 8));
}

static void send_next(struct end *end, unsigned number, bool write)
{
    struct slot *slot = &end->slots[number % SLOTS];
    uint32_t length = length_of(number);

    drain_sends(end, SLOTS - 1);
    for (uint32_t i = 0; i < length; i++)
        slot->out[i] = byte_of(number, i);
    if (number == 0)
        hello_put(end);
    post_receive(end, number);
    post_message(end, number, length, write && number > 0);
}

static bool holds(const unsigned char *bytes, unsigned number)
{
    bool good = true;

    for (uint32_t i = 0; good && i < length_of(number); i++)
        good = bytes[i] == byte_of(number, i);
    return good;
}

/* Read the answer to message `number` again, by RDMA Read from the server's send buffer. */
static void read_again(struct end *end, unsigned number)
{
    struct slot *slot = &end->slots[number % SLOTS];

    memset(slot->again, 0, BYTES);
    post(end, &slot->read, VIP_CONTROL_OP_RDMAREAD, slot->again, slot->out, 0, length_of(number));
    drain_sends(end, 0);
    if (holds(slot->again, number))
        return;
    printf("FAILED: what RDMA Read has read is not message %u\n", number);
    exit(1);
}

static void check(struct end *end, const VIP_DESCRIPTOR *desc, unsigned number)
{
    const struct slot *slot = &end->slots[number % SLOTS];

    if (number == 0)
        hello_get(end);
    if (desc == &slot->receive && desc->CS.ImmediateData == number &&
        (number == 0 || holds(slot->in, number)))
        return;
    printf("FAILED: what came back is not message %u but %u, %u bytes\n", number,
           desc->CS.ImmediateData, desc->CS.Length);
    exit(1);
}

static uint64_t now_us(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000u + (uint64_t)now.tv_nsec / 1000;
}

static int client(const char *host, const char *stop, const struct words *words)
{
    static struct end end; /* handlers may still run while the program exits */
    union address local = {0}, remote = {0};
    VIP_VI_ATTRIBUTES attributes;
    uint64_t last_us, gap_us = 0;
    unsigned sent = 0, number = 0;
    VIP_RETURN rc;

    open_end(&end, words);
    local.net.HostAddressLen = end.attributes.NicAddressLen;
    memcpy(local.net.HostAddress, end.attributes.LocalNicAddress, end.attributes.NicAddressLen);
    must(VipNSInit(end.nic, NULL), "VipNSInit");
    must(VipNSGetHostByName(end.nic, (char *)host, &remote.net, 0), "VipNSGetHostByName");
    discriminator(&remote.net);
    /* The server is ready, but perhaps does not wait yet. */
    while ((rc = VipConnectRequest(end.vi, &local.net, &remote.net, VIP_INFINITE, &attributes)) ==
           VIP_NO_MATCH)
        usleep(1000);
    must(rc, "VipConnectRequest");
    send_next(&end, sent++, false);
    last_us = now_us();
    for (bool stopping = false; number != sent; number++) {
        VIP_DESCRIPTOR *desc = next_receive(&end);

        if (now_us() - last_us > gap_us)
            gap_us = now_us() - last_us;
        last_us = now_us();
        check(&end, desc, number);
        if (words->fork)
            fork_sometimes(&end, number);
        if (words->read && number % 5 == 4)
            read_again(&end, number);
        if (number % TELL == 0) {
            stopping = stopping || access(stop, F_OK) == 0;
            printf("at %u gap %.1f\n", number, (double)gap_us / 1000);
            fflush(stdout);
            gap_us = 0;
        }
        while (!stopping && sent - number <= SLOTS)
            send_next(&end, sent++, words->write);
    }
    drain_sends(&end, 0);
    must(VipDisconnect(end.vi), "VipDisconnect");
    printf("done: %u messages\n", number);
    return 0;
}

int main(int argc, char **argv)
{
    static const char *const way_names[] = {
        [WAIT_POLL] = "poll", [WAIT_CQ] = "cq", [WAIT_CQ_FD] = "cqfd", [WAIT_NOTIFY] = "notify"};
    struct words words = {.level = VIP_SERVICE_RELIABLE_DELIVERY};

    is_server = argc > 1 && strcmp(argv[1], "server") == 0;
    for (int i = is_server ? 2 : 4; i < argc; i++) {
        words.heap = words.heap || strcmp(argv[i], "heap") == 0;
        words.staged = words.staged || strcmp(argv[i], "staged") == 0;
        words.write = words.write || strcmp(argv[i], "write") == 0;
        words.read = words.read || strcmp(argv[i], "read") == 0;
        words.fork = words.fork || strcmp(argv[i], "fork") == 0;
        is_small = is_small || strcmp(argv[i], "small") == 0;
        for (unsigned way = 0; way < sizeof(way_names) / sizeof(way_names[0]); way++)
            if (way_names[way] != NULL && strcmp(argv[i], way_names[way]) == 0)
                words.way = way;
        if (strcmp(argv[i], "rr") == 0)
            words.level = VIP_SERVICE_RELIABLE_RECEPTION;
    }
    (void)signal(SIGCHLD, SIG_IGN); /* children leave no zombies */
    if (is_server)
        return server(&words);
    if (argc > 3 && strcmp(argv[1], "client") == 0)
        return client(argv[2], argv[3], &words);
    printf("usage: outlive server [WORD...] | outlive client HOST STOP [WORD...]; words: rr "
           "heap staged poll cq cqfd notify small write read fork\n");
    return 2;
}

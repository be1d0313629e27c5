/*
 * Messages that must all arrive, once and in order, while a vipd is killed and started again
 * (tests/system/outlive.sh). The server sends every message back; the client checks what comes.
 *
 *   outlive server [cq]                   one connection, until it ends in order
 *   outlive client ADDRESS STOP [LEVEL] [heap] [cq]
 *                                         until the file STOP exists; prints how far it is.
 *                                         LEVEL: rd (default) or rr; heap: memory of malloc; cq: waits on a CQ
 */
#include <arpa/inet.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <vipl.h>
#include <vipl_ext.h>

#define SLOTS     16u
#define BYTES     9000u
#define WAIT_MS   60000 /* limit for one message; only a connection that is lost takes longer */
#define TELL      100u  /* messages between two lines of output */
#define DISC_TEXT "outlive"

union address {
    VIP_NET_ADDRESS net;
    unsigned char bytes[4 + 24 + 128];
};

struct slot {
    VIP_DESCRIPTOR send __attribute__((aligned(64))), receive __attribute__((aligned(64)));
    unsigned char out[BYTES], in[BYTES];
};

struct end {
    VIP_NIC_HANDLE nic;
    VIP_NIC_ATTRIBUTES attributes;
    VIP_VI_HANDLE vi;
    VIP_CQ_HANDLE cq; /* NULL: waits on the queues */
    VIP_MEM_HANDLE handle;
    struct slot *slots;
    unsigned sent, returned; /* sends posted, and completed */
};

static bool is_server;

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

/* The server learns of the client's VipDisconnect by VIP_ERROR_CONN_LOST. */
static void on_error(VIP_PVOID context, VIP_ERROR_DESCRIPTOR *error)
{
    const bool *server_end = context;

    if (*server_end && error->ErrorCode == VIP_ERROR_CONN_LOST)
        return;
    printf("FAILED: asynchronous error %d\n", (int)error->ErrorCode);
    fflush(stdout);
}

static void open_end(struct end *end, VIP_RELIABILITY_LEVEL level, bool heap, bool cq)
{
    VIP_VI_ATTRIBUTES vi = {.ReliabilityLevel = level, .MaxTransferSize = BYTES};
    VIP_PROTECTION_HANDLE ptag;
    VIP_MEM_ATTRIBUTES memory = {0};
    VIP_PVOID base;

    must(VipOpenNic("vip0", &end->nic), "VipOpenNic");
    must(VipQueryNic(end->nic, &end->attributes), "VipQueryNic");
    must(VipErrorCallback(end->nic, &is_server, on_error), "VipErrorCallback");
    must(VipCreatePtag(end->nic, &ptag), "VipCreatePtag");
    vi.Ptag = memory.Ptag = ptag;
    if (heap) {
        base = aligned_alloc(64, SLOTS * sizeof(*end->slots));
        if (base == NULL)
            fail("aligned_alloc");
    } else {
        must(VipxAllocMem(SLOTS * sizeof(*end->slots), &base), "VipxAllocMem");
    }
    memset(base, 0, SLOTS * sizeof(*end->slots));
    end->slots = base;
    must(VipRegisterMem(end->nic, base, SLOTS * sizeof(*end->slots), &memory, &end->handle),
         "VipRegisterMem");
    if (cq)
        must(VipCreateCQ(end->nic, 4 * SLOTS, &end->cq), "VipCreateCQ");
    must(VipCreateVi(end->nic, &vi, end->cq, end->cq, &end->vi), "VipCreateVi");
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
}

static void post_send(struct end *end, unsigned number, uint32_t length)
{
    struct slot *slot = &end->slots[number % SLOTS];
    VIP_DESCRIPTOR *desc = &slot->send;

    memset(desc, 0, sizeof(*desc));
    desc->CS.Length = length;
    desc->CS.SegCount = 1;
    desc->CS.Control = VIP_CONTROL_OP_SENDRECV | VIP_CONTROL_IMMEDIATE;
    desc->CS.ImmediateData = number;
    desc->DS[0].Local.Data.Address = slot->out;
    desc->DS[0].Local.Handle = end->handle;
    desc->DS[0].Local.Length = length;
    must(VipPostSend(end->vi, desc, end->handle), "VipPostSend");
    end->sent++;
}

static void take_send(struct end *end, VIP_DESCRIPTOR *desc)
{
    if (desc != &end->slots[end->returned % SLOTS].send)
        fail("a send completed out of order");
    end->returned++;
}

/* Wait for the next receive, and take completed sends meanwhile. NULL: the peer has disconnected. */
static VIP_DESCRIPTOR *next_receive(struct end *end)
{
    VIP_DESCRIPTOR *desc = NULL;
    VIP_BOOLEAN is_recv;
    VIP_VI_HANDLE vi;
    VIP_RETURN code;

    if (end->cq == NULL) {
        while (VipSendDone(end->vi, &desc) == VIP_SUCCESS)
            take_send(end, desc);
        code = VipRecvWait(end->vi, WAIT_MS, &desc);
    } else {
        for (;;) {
            must(VipCQWait(end->cq, WAIT_MS, &vi, &is_recv), "VipCQWait");
            code = is_recv ? VipRecvDone(end->vi, &desc) : VipSendDone(end->vi, &desc);
            if (is_recv || code != VIP_SUCCESS)
                break;
            take_send(end, desc);
        }
    }
    if (code == VIP_DESCRIPTOR_ERROR && (desc->CS.Status & VIP_STATUS_DESC_FLUSHED_ERROR) != 0)
        return NULL;
    must(code, "a receive");
    return desc;
}

/* All sends must have completed before their slots are used again. */
static void drain_sends(struct end *end, unsigned left)
{
    VIP_DESCRIPTOR *desc = NULL;
    VIP_BOOLEAN is_recv;
    VIP_VI_HANDLE vi;

    while (end->sent - end->returned > left) {
        if (end->cq != NULL) {
            must(VipCQWait(end->cq, WAIT_MS, &vi, &is_recv), "VipCQWait for a send");
            if (is_recv)
                fail("a receive where a send must be");
            must(VipSendDone(end->vi, &desc), "VipSendDone");
        } else {
            must(VipSendWait(end->vi, WAIT_MS, &desc), "VipSendWait");
        }
        take_send(end, desc);
    }
}

/* ---- server ------------------------------------------------------------------------------ */

static int server(bool cq)
{
    struct end end = {0};
    union address local = {0}, remote = {0};
    VIP_VI_ATTRIBUTES attributes;
    VIP_CONN_HANDLE request;
    VIP_DESCRIPTOR *desc;

    open_end(&end, VIP_SERVICE_RELIABLE_DELIVERY, false, cq);
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
                                 .MaxTransferSize = BYTES};
        VIP_MEM_ATTRIBUTES memory;

        must(VipQueryMem(end.nic, end.slots, end.handle, &memory), "VipQueryMem");
        own.Ptag = memory.Ptag;
        must(VipSetViAttributes(end.vi, &own), "VipSetViAttributes");
    }
    must(VipConnectAccept(request, end.vi), "VipConnectAccept");
    for (unsigned number = 0; (desc = next_receive(&end)) != NULL; number++) {
        struct slot *slot = &end.slots[number % SLOTS];
        uint32_t length = desc->CS.Length;

        if (desc != &slot->receive || desc->CS.ImmediateData != number) {
            printf("FAILED: message %u where %u must be\n", desc->CS.ImmediateData, number);
            return 1;
        }
        drain_sends(&end, SLOTS - 1);
        memcpy(slot->out, slot->in, length);
        post_receive(&end, number);
        post_send(&end, number, length);
    }
    must(VipDisconnect(end.vi), "VipDisconnect");
    printf("done\n");
    return 0;
}

/* ---- client ------------------------------------------------------------------------------ */

static uint32_t length_of(unsigned number)
{
    return number % 7 == 0 ? 1 + number * 397u % BYTES : 1 + number * 31u % 200;
}

static unsigned char byte_of(unsigned number, uint32_t at)
{
    return (unsigned char)(number * 7 + at * 13 + (at >> 8));
}

static void send_next(struct end *end, unsigned number)
{
    struct slot *slot = &end->slots[number % SLOTS];
    uint32_t length = length_of(number);

    drain_sends(end, SLOTS - 1);
    for (uint32_t i = 0; i < length; i++)
        slot->out[i] = byte_of(number, i);
    post_receive(end, number);
    post_send(end, number, length);
}

static void check(const struct end *end, const VIP_DESCRIPTOR *desc, unsigned number)
{
    const struct slot *slot = &end->slots[number % SLOTS];
    bool good = desc == &slot->receive && desc->CS.ImmediateData == number &&
                desc->CS.Length == length_of(number);

    for (uint32_t i = 0; good && i < desc->CS.Length; i++)
        good = slot->in[i] == byte_of(number, i);
    if (good)
        return;
    printf("FAILED: what came back is not message %u but %u, %u bytes\n", number,
           desc->CS.ImmediateData, desc->CS.Length);
    exit(1);
}

static int client(const char *host, const char *stop, VIP_RELIABILITY_LEVEL level, bool heap,
                  bool cq)
{
    struct end end = {0};
    union address local = {0}, remote = {0};
    VIP_VI_ATTRIBUTES attributes;
    unsigned sent = 0, number = 0;
    struct in_addr address;

    open_end(&end, level, heap, cq);
    local.net.HostAddressLen = end.attributes.NicAddressLen;
    memcpy(local.net.HostAddress, end.attributes.LocalNicAddress, end.attributes.NicAddressLen);
    remote.net.HostAddressLen = end.attributes.NicAddressLen;
    memcpy(remote.net.HostAddress, end.attributes.LocalNicAddress, end.attributes.NicAddressLen);
    if (inet_pton(AF_INET, host, &address) != 1)
        fail("the address");
    memcpy(remote.net.HostAddress, &address, sizeof(address)); /* the port is the same */
    discriminator(&remote.net);
    must(VipConnectRequest(end.vi, &local.net, &remote.net, VIP_INFINITE, &attributes),
         "VipConnectRequest");
    while (sent < SLOTS)
        send_next(&end, sent++);
    for (bool stopping = false; number != sent; number++) {
        VIP_DESCRIPTOR *desc = next_receive(&end);

        if (desc == NULL)
            fail("the connection has ended");
        check(&end, desc, number);
        if (number % TELL == 0) {
            stopping = stopping || access(stop, F_OK) == 0;
            printf("at %u\n", number);
            fflush(stdout);
        }
        if (!stopping)
            send_next(&end, sent++);
    }
    drain_sends(&end, 0);
    must(VipDisconnect(end.vi), "VipDisconnect");
    printf("done: %u messages\n", number);
    return 0;
}

int main(int argc, char **argv)
{
    VIP_RELIABILITY_LEVEL level = VIP_SERVICE_RELIABLE_DELIVERY;
    bool heap = false, cq = false;

    is_server = argc > 1 && strcmp(argv[1], "server") == 0;
    for (int i = is_server ? 2 : 4; i < argc; i++) {
        heap = heap || strcmp(argv[i], "heap") == 0;
        cq = cq || strcmp(argv[i], "cq") == 0;
        if (strcmp(argv[i], "rr") == 0)
            level = VIP_SERVICE_RELIABLE_RECEPTION;
    }
    if (is_server)
        return server(cq);
    if (argc > 3 && strcmp(argv[1], "client") == 0)
        return client(argv[2], argv[3], level, heap, cq);
    printf("usage: outlive server [cq] | outlive client ADDRESS STOP [rd|rr] [heap] [cq]\n");
    return 2;
}

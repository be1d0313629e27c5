/*
 * Three pairs of connected VIs in one program. A vipd with lower limits replaces their vipd
 * (tests/system/refused.sh). Each pair has a protection tag and a region; pairs 1 and 2 have a CQ.
 *
 *   refused GO    print "ready", wait for the file GO, and send a message in each pair; then print
 *                 how many pairs were good, and how many errors came
 *
 * Then it destroys all objects. Each of these calls must succeed, even for an object that the
 * second vipd has refused.
 */
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <vipl.h>
#include <vipl_ext.h>

#define PAIRS   3u
#define WAIT_MS 120000u
#define LOOK_US 5000u

union address {
    VIP_NET_ADDRESS net;
    unsigned char bytes[64];
};

/* VI 0 sends to VI 1. */
struct pair {
    VIP_DESCRIPTOR desc[2] __attribute__((aligned(64)));
    VIP_PROTECTION_HANDLE ptag;
    VIP_MEM_HANDLE handle;
    VIP_CQ_HANDLE cq;
    VIP_VI_HANDLE vi[2];
};

static VIP_NIC_HANDLE nic;
static VIP_NIC_ATTRIBUTES attributes;
static struct pair *pairs;
static unsigned lost, refused; /* atomic; numbers of errors: lost connection, refused object */

static void must(VIP_RETURN code, const char *what)
{
    if (code == VIP_SUCCESS)
        return;
    printf("FAILED: %s: %s\n", what, VipxLastError());
    exit(1);
}

static void on_error(VIP_PVOID context, VIP_ERROR_DESCRIPTOR *error)
{
    (void)context;
    printf("error: %s\n", VipxLastError());
    if (error->ErrorCode == VIP_ERROR_CONN_LOST)
        __atomic_add_fetch(&lost, 1, __ATOMIC_SEQ_CST);
    else if (error->ErrorCode == VIP_ERROR_COMP_PROT && error->ResourceCode == VIP_RESOURCE_NIC)
        __atomic_add_fetch(&refused, 1, __ATOMIC_SEQ_CST);
    else if (error->ErrorCode == VIP_ERROR_CATASTROPHIC)
        printf("FAILED: the NIC handle is lost\n");
}

static void address_of(union address *address, unsigned pair)
{
    memset(address, 0, sizeof(*address));
    address->net.HostAddressLen = attributes.NicAddressLen;
    memcpy(address->net.HostAddress, attributes.LocalNicAddress, attributes.NicAddressLen);
    address->net.DiscriminatorLen = 1;
    address->net.HostAddress[attributes.NicAddressLen] = (unsigned char)('a' + pair);
}

static void *serve(void *arg)
{
    struct pair *pair = arg;
    union address local, remote = {0};
    VIP_VI_ATTRIBUTES remote_attrs;
    VIP_CONN_HANDLE request;

    address_of(&local, (unsigned)(pair - pairs));
    must(VipConnectWait(nic, &local.net, WAIT_MS, &remote.net, &remote_attrs, &request),
         "VipConnectWait");
    must(VipConnectAccept(request, pair->vi[1]), "VipConnectAccept");
    return NULL;
}

/* Post a descriptor whose buffer is 8 bytes of the descriptor itself. */
static void post(struct pair *pair, unsigned end)
{
    VIP_DESCRIPTOR *desc = &pair->desc[end];

    memset(desc, 0, sizeof(*desc));
    desc->CS.Control = VIP_CONTROL_OP_SENDRECV;
    desc->CS.SegCount = 1;
    desc->CS.Length = 8;
    desc->DS[0].Local.Data.Address = &pair->desc[end].CS;
    desc->DS[0].Local.Handle = pair->handle;
    desc->DS[0].Local.Length = 8;
    must(end == 0 ? VipPostSend(pair->vi[0], desc, pair->handle)
                  : VipPostRecv(pair->vi[1], desc, pair->handle),
         "a post");
}

static void begin(struct pair *pair)
{
    VIP_VI_ATTRIBUTES vi = {.ReliabilityLevel = VIP_SERVICE_RELIABLE_DELIVERY,
                            .MaxTransferSize = 64};
    VIP_MEM_ATTRIBUTES memory = {0};
    union address local, remote;
    pthread_t server;

    must(VipCreatePtag(nic, &pair->ptag), "VipCreatePtag");
    vi.Ptag = memory.Ptag = pair->ptag;
    must(VipRegisterMem(nic, pair, sizeof(*pair), &memory, &pair->handle), "VipRegisterMem");
    if (pair != pairs)
        must(VipCreateCQ(nic, 16, &pair->cq), "VipCreateCQ");
    for (unsigned end = 0; end < 2; end++)
        must(VipCreateVi(nic, &vi, pair->cq, pair->cq, &pair->vi[end]), "VipCreateVi");
    if (pthread_create(&server, NULL, serve, pair) != 0)
        exit(1);
    address_of(&remote, (unsigned)(pair - pairs));
    address_of(&local, PAIRS);
    must(VipConnectRequest(pair->vi[0], &local.net, &remote.net, WAIT_MS, &vi),
         "VipConnectRequest");
    pthread_join(server, NULL);
}

/* Wait until this end's descriptor has completed. true: it has completed without an error. */
static bool done(struct pair *pair, unsigned end)
{
    VIP_DESCRIPTOR *desc;
    VIP_RETURN rc;

    for (unsigned n = 0; n < WAIT_MS * 1000 / LOOK_US; n++) {
        rc = end == 0 ? VipSendDone(pair->vi[0], &desc) : VipRecvDone(pair->vi[1], &desc);
        if (rc != VIP_NOT_DONE)
            return rc == VIP_SUCCESS && desc == &pair->desc[end];
        usleep(LOOK_US);
    }
    printf("FAILED: a descriptor does not complete\n");
    exit(1);
}

static void end(struct pair *pair)
{
    VIP_BOOLEAN recv;
    VIP_VI_HANDLE vi;
    unsigned entries = 0;

    while (pair->cq && VipCQDone(pair->cq, &vi, &recv) == VIP_SUCCESS)
        entries++;
    if (pair->cq && entries != 2)
        printf("FAILED: %u entries of a CQ\n", entries);
    for (unsigned i = 0; i < 2; i++) {
        must(VipDisconnect(pair->vi[i]), "VipDisconnect");
        must(VipDestroyVi(pair->vi[i]), "VipDestroyVi");
    }
    if (pair->cq)
        must(VipDestroyCQ(pair->cq), "VipDestroyCQ");
    must(VipDeregisterMem(nic, pair, pair->handle), "VipDeregisterMem");
    must(VipDestroyPtag(nic, pair->ptag), "VipDestroyPtag");
}

int main(int argc, char **argv)
{
    VIP_PVOID memory;
    unsigned good = 0;

    if (argc != 2)
        return 2;
    must(VipOpenNic("vip0", &nic), "VipOpenNic");
    must(VipQueryNic(nic, &attributes), "VipQueryNic");
    must(VipErrorCallback(nic, NULL, on_error), "VipErrorCallback");
    must(VipxAllocMem(PAIRS * sizeof(*pairs), &memory), "VipxAllocMem");
    pairs = memory;
    memset(memory, 0, PAIRS * sizeof(*pairs));
    for (unsigned i = 0; i < PAIRS; i++) {
        begin(&pairs[i]);
        post(&pairs[i], 1);
    }
    printf("ready\n");
    fflush(stdout);
    while (access(argv[1], F_OK) != 0)
        usleep(LOOK_US);
    for (unsigned i = 0; i < PAIRS; i++)
        post(&pairs[i], 0);
    for (unsigned i = 0; i < PAIRS; i++) {
        bool sent = done(&pairs[i], 0), received = done(&pairs[i], 1);

        good += sent && received;
        if (sent != received)
            printf("FAILED: pair %u is half good\n", i);
    }
    /* A pair that is not good has lost its connection: wait until both of its VIs report this. */
    for (unsigned n = 0; n < WAIT_MS * 1000 / LOOK_US; n++) {
        if (__atomic_load_n(&lost, __ATOMIC_SEQ_CST) >= 2 * (PAIRS - good))
            break;
        usleep(LOOK_US);
    }
    printf("good %u lost %u refused %u\n", good, __atomic_load_n(&lost, __ATOMIC_SEQ_CST),
           __atomic_load_n(&refused, __ATOMIC_SEQ_CST));
    for (unsigned i = 0; i < PAIRS; i++)
        end(&pairs[i]);
    must(VipCloseNic(nic), "VipCloseNic");
    return 0;
}

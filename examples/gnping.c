/*
 * Ping-pong with the names of members in Giganet's header (Control and Data; VIPL095 is not
 * defined). It measures the latency of each size, polls with VipRecvDone, and checks the contents.
 *
 *   gnping [-d DEVICE]         the side that answers
 *   gnping [-d DEVICE] SERVER  the side that measures
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sched.h>
#include <sys/time.h>
#include <vipl.h>

#ifdef VIPL095
#error "this program uses the other spelling"
#endif

#define DEVICE    "nic0"
#define ADDR_SIZE 160 /* an address that VIPL returns has 156 bytes at most */
#define MAX_SIZE  16384
#define ROUNDS    200

static int sizes[] = {0, 1, 64, 1024, 4096, MAX_SIZE};
#define SIZES ((int)(sizeof(sizes) / sizeof(sizes[0])))

static VIP_NIC_HANDLE nic;
static VIP_NIC_ATTRIBUTES nic_attrs;
static VIP_VI_HANDLE vi;
static VIP_MEM_HANDLE mem;

/* The two receive descriptors are used in turn; each is posted again before the next send. */
static VIP_DESCRIPTOR *send_desc, *recv_desc[2];
static char *send_data, *recv_data[2];

static void check(VIP_RETURN ret, const char *what)
{
    if (ret == VIP_SUCCESS)
        return;
    fprintf(stderr, "gnping: %s: error %d\n", what, (int)ret);
    exit(1);
}

static void set_up(char *device)
{
    VIP_VI_ATTRIBUTES attrs;
    VIP_MEM_ATTRIBUTES mem_attrs;
    VIP_PROTECTION_HANDLE ptag;
    VIP_ULONG bytes = 3 * (sizeof(VIP_DESCRIPTOR) + MAX_SIZE);
    char *block;

    check(VipOpenNic(device, &nic), "VipOpenNic");
    check(VipQueryNic(nic, &nic_attrs), "VipQueryNic");
    check(VipCreatePtag(nic, &ptag), "VipCreatePtag");

    memset(&attrs, 0, sizeof(attrs));
    attrs.ReliabilityLevel = VIP_SERVICE_RELIABLE_DELIVERY;
    attrs.MaxTransferSize = MAX_SIZE;
    attrs.Ptag = ptag;
    check(VipCreateVi(nic, &attrs, NULL, NULL, &vi), "VipCreateVi");

    block = (char *)valloc(bytes);
    mem_attrs.Ptag = ptag;
    mem_attrs.EnableRdmaWrite = VIP_FALSE;
    mem_attrs.EnableRdmaRead = VIP_FALSE;
    check(VipRegisterMem(nic, block, bytes, &mem_attrs, &mem), "VipRegisterMem");
    send_desc = (VIP_DESCRIPTOR *)block;
    recv_desc[0] = send_desc + 1;
    recv_desc[1] = send_desc + 2;
    send_data = (char *)(send_desc + 3);
    recv_data[0] = send_data + MAX_SIZE;
    recv_data[1] = recv_data[0] + MAX_SIZE;
}

static void fill_desc(VIP_DESCRIPTOR *d, char *data, int size)
{
    memset(d, 0, sizeof(*d));
    d->Control.Control = VIP_CONTROL_OP_SENDRECV;
    d->Control.Length = size;
    d->Control.SegCount = 1;
    d->Data[0].Data.Address = data;
    d->Data[0].Handle = mem;
    d->Data[0].Length = size;
}

static void post_recv(int which)
{
    memset(recv_data[which], 0, MAX_SIZE);
    fill_desc(recv_desc[which], recv_data[which], MAX_SIZE);
    check(VipPostRecv(vi, recv_desc[which], mem), "VipPostRecv");
}

static void put_disc(VIP_NET_ADDRESS *addr)
{
    int disc = 4711; /* both sides know this number */

    addr->DiscriminatorLen = sizeof(disc);
    memcpy(addr->HostAddress + addr->HostAddressLen, &disc, sizeof(disc));
}

static void meet(char *server)
{
    VIP_NET_ADDRESS *local = (VIP_NET_ADDRESS *)calloc(1, ADDR_SIZE);
    VIP_NET_ADDRESS *remote = (VIP_NET_ADDRESS *)calloc(1, ADDR_SIZE);
    VIP_VI_ATTRIBUTES attrs;
    VIP_CONN_HANDLE conn;
    VIP_RETURN ret;

    local->HostAddressLen = nic_attrs.NicAddressLen;
    memcpy(local->HostAddress, nic_attrs.LocalNicAddress, nic_attrs.NicAddressLen);
    put_disc(local);
    if (server != NULL) {
        check(VipNSInit(nic, NULL), "VipNSInit");
        check(VipNSGetHostByName(nic, server, remote, 0), "VipNSGetHostByName");
        put_disc(remote);
        do {
            ret = VipConnectRequest(vi, local, remote, 10000, &attrs);
            if (ret == VIP_NO_MATCH)
                usleep(1000);
        } while (ret == VIP_NO_MATCH);
        check(ret, "VipConnectRequest");
        check(VipNSShutdown(nic), "VipNSShutdown");
    } else {
        do
            ret = VipConnectWait(nic, local, VIP_INFINITE, remote, &attrs, &conn);
        while (ret == VIP_TIMEOUT);
        check(ret, "VipConnectWait");
        check(VipConnectAccept(conn, vi), "VipConnectAccept");
    }
    free(local);
    free(remote);
}

/* Byte i of message number n. */
static char pattern(int n, int i)
{
    return (char)(n * 7 + i + i / 256);
}

static void send_one(int n, int size)
{
    VIP_DESCRIPTOR *d;
    VIP_RETURN ret;
    int i;

    for (i = 0; i < size; i++)
        send_data[i] = pattern(n, i);
    fill_desc(send_desc, send_data, size);
    send_desc->Control.Control |= VIP_CONTROL_IMMEDIATE;
    send_desc->Control.ImmediateData = n;
    check(VipPostSend(vi, send_desc, mem), "VipPostSend");
    while ((ret = VipSendDone(vi, &d)) == VIP_NOT_DONE)
        sched_yield();
    check(ret, "VipSendDone");
}

static void receive_one(int n, int size)
{
    VIP_DESCRIPTOR *d;
    VIP_RETURN ret;
    char *data = recv_data[n % 2];
    int i;

    while ((ret = VipRecvDone(vi, &d)) == VIP_NOT_DONE)
        sched_yield();
    check(ret, "VipRecvDone");
    if (d != recv_desc[n % 2] || (int)d->Control.Length != size ||
        !(d->Control.Status & VIP_STATUS_IMMEDIATE) || (int)d->Control.ImmediateData != n) {
        fprintf(stderr, "gnping: message %d is not what it should be\n", n);
        exit(1);
    }
    for (i = 0; i < size; i++) {
        if (data[i] != pattern(n, i)) {
            fprintf(stderr, "gnping: message %d differs at byte %d\n", n, i);
            exit(1);
        }
    }
}

int main(int argc, char **argv)
{
    struct timeval t0, t1;
    char *device = DEVICE, *server = NULL;
    VIP_DESCRIPTOR *d;
    int rounds = ROUNDS, n = 0, s, r;

    if (argc > 2 && strcmp(argv[1], "-d") == 0) {
        device = argv[2];
        argc -= 2;
        argv += 2;
    }
    if (argc > 1)
        server = argv[1];
    set_up(device);
    post_recv(0);
    post_recv(1);
    meet(server);
    for (s = 0; s < SIZES; s++) {
        gettimeofday(&t0, NULL);
        for (r = 0; r < rounds; r++, n++) {
            if (server != NULL)
                send_one(n, sizes[s]);
            receive_one(n, sizes[s]);
            post_recv(n % 2);
            if (server == NULL)
                send_one(n, sizes[s]);
        }
        gettimeofday(&t1, NULL);
        if (server != NULL)
            printf("%6d bytes %10.1f us\n", sizes[s],
                   ((t1.tv_sec - t0.tv_sec) * 1e6 + (t1.tv_usec - t0.tv_usec)) / 2 / rounds);
    }
    check(VipDisconnect(vi), "VipDisconnect");
    do
        VipRecvDone(vi, &d); /* take back the receive descriptors that got no message */
    while (d != NULL);
    check(VipDestroyVi(vi), "VipDestroyVi");
    check(VipDeregisterMem(nic, send_desc, mem), "VipDeregisterMem");
    check(VipCloseNic(nic), "VipCloseNic");
    printf("gnping: %d messages each way, good\n", n);
    return 0;
}

/*
 * A VIPL program for the scripts that kill processes. It connects, waits for the end of the
 * connection, and prints every code and state that it sees, one per line. The scripts compare.
 *
 *   vipstate serve NAME LEVEL RECEIVES     accept one connection, print its codes and states
 *   vipstate watch NAME LEVEL HOST SENDS   connect, send SENDS messages of 64 bytes, then watch
 *   vipstate block NAME LEVEL 0            sleep in VipCQWait on an empty CQ for ever
 *
 * LEVEL is ud, rd or rr. serve and watch exit after the end of the connection.
 */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <vipl.h>
#include <vipl_ext.h>

#define BUFFERS    16
#define SIZE       64
#define DESC_BYTES 64

static unsigned char *memory;
static VIP_MEM_HANDLE memory_handle;
static VIP_NIC_HANDLE nic;
static VIP_VI_HANDLE vi;
static int vi_errors; /* atomic; number of error callbacks for the VI */

static void must(VIP_RETURN code, const char *what)
{
    if (code != VIP_SUCCESS) {
        printf("failed %s code %d: %s\n", what, (int)code, VipxLastError());
        exit(1);
    }
}

static void on_error(VIP_PVOID context, VIP_ERROR_DESCRIPTOR *error)
{
    (void)context;
    printf("callback resource %d error %d vi %d\n", (int)error->ResourceCode, (int)error->ErrorCode,
           error->ViHandle == vi && vi != NULL);
    if (error->ResourceCode == VIP_RESOURCE_VI)
        __atomic_add_fetch(&vi_errors, 1, __ATOMIC_RELEASE);
}

static VIP_DESCRIPTOR *descriptor(int index)
{
    return (VIP_DESCRIPTOR *)(void *)(memory + index * DESC_BYTES);
}

static void fill(VIP_DESCRIPTOR *desc, int index)
{
    memset(desc, 0, sizeof(*desc));
    desc->CS.SegCount = 1;
    desc->CS.Length = SIZE;
    desc->DS[0].Local.Data.Address = memory + 2 * BUFFERS * DESC_BYTES + index * SIZE;
    desc->DS[0].Local.Handle = memory_handle;
    desc->DS[0].Local.Length = SIZE;
}

static void make_vi(const char *level)
{
    VIP_VI_ATTRIBUTES attributes;
    VIP_MEM_ATTRIBUTES mem_attributes;
    VIP_PROTECTION_HANDLE ptag;
    size_t bytes = 2 * BUFFERS * (DESC_BYTES + SIZE);

    must(VipOpenNic("vip0", &nic), "VipOpenNic");
    must(VipErrorCallback(nic, NULL, on_error), "VipErrorCallback");
    must(VipNSInit(nic, NULL), "VipNSInit");
    must(VipCreatePtag(nic, &ptag), "VipCreatePtag");
    memory = aligned_alloc(4096, (bytes + 4095) & ~(size_t)4095);
    memset(&mem_attributes, 0, sizeof(mem_attributes));
    mem_attributes.Ptag = ptag;
    must(VipRegisterMem(nic, memory, bytes, &mem_attributes, &memory_handle), "VipRegisterMem");
    memset(&attributes, 0, sizeof(attributes));
    attributes.ReliabilityLevel = !strcmp(level, "ud")   ? VIP_SERVICE_UNRELIABLE
                                  : !strcmp(level, "rd") ? VIP_SERVICE_RELIABLE_DELIVERY
                                                         : VIP_SERVICE_RELIABLE_RECEPTION;
    attributes.MaxTransferSize = 32768;
    attributes.Ptag = ptag;
    must(VipCreateVi(nic, &attributes, NULL, NULL, &vi), "VipCreateVi");
}

static void address(VIP_NET_ADDRESS *to, const char *host, const char *name)
{
    if (host)
        must(VipNSGetHostByName(nic, (VIP_CHAR *)host, to, 0), "VipNSGetHostByName");
    else
        to->HostAddressLen = 0;
    to->DiscriminatorLen = (VIP_UINT16)strlen(name);
    memcpy(to->HostAddress + to->HostAddressLen, name, strlen(name));
}

static void post_receives(int count)
{
    for (int i = 0; i < count; i++) {
        fill(descriptor(i), i);
        must(VipPostRecv(vi, descriptor(i), memory_handle), "VipPostRecv");
    }
}

static void serve(const char *name)
{
    unsigned char local[64], remote[256];
    VIP_VI_ATTRIBUTES attributes;
    VIP_CONN_HANDLE connection;

    address((VIP_NET_ADDRESS *)(void *)local, NULL, name);
    printf("waiting\n");
    must(VipConnectWait(nic, (VIP_NET_ADDRESS *)(void *)local, VIP_INFINITE,
                        (VIP_NET_ADDRESS *)(void *)remote, &attributes, &connection),
         "VipConnectWait");
    must(VipConnectAccept(connection, vi), "VipConnectAccept");
}

static void request(const char *name, const char *host)
{
    unsigned char local[256], remote[256];
    VIP_VI_ATTRIBUTES attributes;
    VIP_RETURN code = VIP_NO_MATCH;

    address((VIP_NET_ADDRESS *)(void *)local, NULL, name);
    address((VIP_NET_ADDRESS *)(void *)remote, host, name);
    for (int tries = 0; tries < 200 && code == VIP_NO_MATCH; tries++) {
        code = VipConnectRequest(vi, (VIP_NET_ADDRESS *)(void *)local,
                                 (VIP_NET_ADDRESS *)(void *)remote, 10000, &attributes);
        if (code == VIP_NO_MATCH)
            usleep(50000);
    }
    must(code, "VipConnectRequest");
}

/* Take all completed descriptors from one queue; print how many are good, flushed and bad. */
static void drain(const char *queue, VIP_RETURN (*done)(VIP_VI_HANDLE, VIP_DESCRIPTOR **))
{
    VIP_DESCRIPTOR *desc;
    VIP_RETURN code;
    int good = 0, flushed = 0, bad = 0;
    unsigned status = 0;

    while ((code = done(vi, &desc)) != VIP_NOT_DONE && desc != NULL) {
        if (code == VIP_SUCCESS)
            good++;
        else if (desc->CS.Status & VIP_STATUS_DESC_FLUSHED_ERROR)
            flushed++;
        else {
            bad++;
            status = desc->CS.Status;
        }
    }
    printf("%s good %d flushed %d bad %d status 0x%x last %d\n", queue, good, flushed, bad,
           status & VIP_STATUS_ERROR_MASK, (int)code);
}

static int block(void)
{
    VIP_CQ_HANDLE cq;
    VIP_VI_HANDLE which;
    VIP_BOOLEAN recv_queue;

    must(VipCreateCQ(nic, 16, &cq), "VipCreateCQ");
    printf("blocked\n");
    printf("woke %d\n", (int)VipCQWait(cq, VIP_INFINITE, &which, &recv_queue));
    return 1;
}

int main(int argc, char **argv)
{
    VIP_VI_STATE state = VIP_STATE_CONNECTED;
    VIP_VI_ATTRIBUTES attributes;
    VIP_BOOLEAN send_empty, recv_empty;
    int sends = 0;

    if (argc < 5)
        return 2;
    setvbuf(stdout, NULL, _IOLBF, 0);
    make_vi(argv[3]);
    if (!strcmp(argv[1], "block"))
        return block();
    if (!strcmp(argv[1], "serve")) {
        post_receives(atoi(argv[4]));
        serve(argv[2]);
    } else {
        post_receives(4);
        request(argv[2], argv[4]);
        sends = argc > 5 ? atoi(argv[5]) : 0;
    }
    printf("connected\n");
    for (int i = 0; i < sends; i++) {
        fill(descriptor(BUFFERS + i), BUFFERS + i);
        must(VipPostSend(vi, descriptor(BUFFERS + i), memory_handle), "VipPostSend");
    }
    while (state == VIP_STATE_CONNECTED) {
        usleep(2000);
        must(VipQueryVi(vi, &state, &attributes, &send_empty, &recv_empty), "VipQueryVi");
    }
    printf("state %d\n", (int)state);
    /* Error callbacks run in another thread. Wait up to 5 s for the first, then 0.1 s for more. */
    for (int i = 0; i < 5000 && !__atomic_load_n(&vi_errors, __ATOMIC_ACQUIRE); i++)
        usleep(1000);
    usleep(100000);
    drain("send", VipSendDone);
    drain("recv", VipRecvDone);
    must(VipDisconnect(vi), "VipDisconnect");
    must(VipQueryVi(vi, &state, &attributes, &send_empty, &recv_empty), "VipQueryVi");
    printf("state %d\n", (int)state);
    printf("destroy %d\n", (int)VipDestroyVi(vi));
    vi = NULL;
    VipDeregisterMem(nic, memory, memory_handle);
    printf("close %d\n", (int)VipCloseNic(nic));
    return 0;
}

/*
 * VIPL in one page: "hello" waits for a greeting, "hello HOST" sends one.
 *   cc hello.c -lvipl -lpthread && ./a.out & ./a.out 127.0.0.2
 */
#include <stdio.h>
#include <string.h>
#include <vipl.h>
#include <vipl_ext.h>

#define CHECK(call) if ((call) != VIP_SUCCESS) return printf("%s: %s\n", #call, VipxLastError()), 1

static struct { VIP_DESCRIPTOR desc; char text[64]; } memory __attribute__((aligned(64)));

int main(int argc, char **argv)
{
    VIP_VI_ATTRIBUTES attrs = {VIP_SERVICE_RELIABLE_DELIVERY, 4096, 0, 0, 0, 0}, peer;
    union { VIP_NET_ADDRESS net; char room[160]; } local = {{0}}, remote = {{0}}; /* 156 at most */
    VIP_NIC_HANDLE nic;
    VIP_VI_HANDLE vi;
    VIP_MEM_HANDLE handle;
    VIP_CONN_HANDLE request;
    VIP_DESCRIPTOR *done = &memory.desc;

    CHECK(VipOpenNic("vip0", &nic));
    CHECK(VipRegisterMem(nic, &memory, sizeof(memory), NULL, &handle));
    CHECK(VipCreateVi(nic, &attrs, NULL, NULL, &vi));
    memory.desc.CS.SegCount = 1;                            /* one data segment: the text */
    memory.desc.CS.Length = sizeof(memory.text);
    memory.desc.DS[0].Local.Data.Address = memory.text;
    memory.desc.DS[0].Local.Handle = handle;
    memory.desc.DS[0].Local.Length = sizeof(memory.text);
    local.net.DiscriminatorLen = remote.net.DiscriminatorLen = 5;
    if (argc < 2) {                                         /* server: receive one message */
        memcpy(local.net.HostAddress, "hello", 5);          /* a local host part is not needed */
        CHECK(VipPostRecv(vi, done, handle));
        CHECK(VipConnectWait(nic, &local.net, VIP_INFINITE, &remote.net, &peer, &request));
        CHECK(VipConnectAccept(request, vi));
        CHECK(VipRecvWait(vi, 10000, &done));
        printf("%s\n", memory.text);
    } else {                                                /* client: send one */
        snprintf(memory.text, sizeof(memory.text), "Hello, VI world!");
        CHECK(VipNSInit(nic, NULL));
        CHECK(VipNSGetHostByName(nic, argv[1], &remote.net, 0));
        memcpy(remote.net.HostAddress + remote.net.HostAddressLen, "hello", 5);
        CHECK(VipConnectRequest(vi, &local.net, &remote.net, 5000, &peer));
        CHECK(VipPostSend(vi, done, handle));
        CHECK(VipSendWait(vi, 5000, &done));
    }
    CHECK(VipDisconnect(vi));
    CHECK(VipDestroyVi(vi));
    CHECK(VipCloseNic(nic));
    return 0;
}

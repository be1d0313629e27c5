/*
 * Programs of several users that want the same discriminator; for tests/system/owner.sh.
 * usage: owner listen NAME     listen, print "ready"; print the user of each request and reject it
 *        owner try NAME        wait, connect peer-to-peer and listen; print each result and reason
 *        owner connect HOST NAME   connect and print the result
 *        owner hold NAME       listen, print "ready", and never answer
 *        owner fill HOST NAME COUNT   start COUNT requests without time limit; print "filled"; stay
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <vipl.h>
#include <vipl_ext.h>

union address {
    VIP_NET_ADDRESS net;
    char room[256];
};

static VIP_NIC_HANDLE nic;

static void must(const char *what, VIP_RETURN rc)
{
    if (rc == VIP_SUCCESS)
        return;
    printf("%s: %d: %s\n", what, (int)rc, VipxLastError());
    exit(1);
}

static void name(union address *address, const char *text)
{
    size_t len = strlen(text);

    address->net.DiscriminatorLen = (VIP_UINT16)len;
    memcpy(address->net.HostAddress + address->net.HostAddressLen, text, len);
}

static VIP_VI_HANDLE new_vi(void)
{
    VIP_VI_ATTRIBUTES attrs = {VIP_SERVICE_RELIABLE_DELIVERY, 4096, 0, 0, 0, 0};
    VIP_VI_HANDLE vi;

    must("VipCreateVi", VipCreateVi(nic, &attrs, NULL, NULL, &vi));
    return vi;
}

static void host(union address *address, char *text)
{
    must("VipNSInit", VipNSInit(nic, NULL));
    must("VipNSGetHostByName", VipNSGetHostByName(nic, text, &address->net, 0));
}

static void serve(union address *local)
{
    VIPX_LISTENER listener;
    VIP_CONN_HANDLE request;

    must("VipxListen", VipxListen(nic, &local->net, 8, &listener));
    printf("ready\n");
    for (;;) {
        VIP_UINT32 uid;
        VIP_RETURN rc;

        must("VipxListenWait", VipxListenWait(listener, VIP_INFINITE, NULL, NULL, NULL, &request));
        rc = VipxConnectUser(request, &uid);
        if (rc == VIP_SUCCESS)
            printf("user %u\n", uid);
        else
            printf("user unknown: %d\n", (int)rc);
        must("VipConnectReject", VipConnectReject(request));
    }
}

static void hold(union address *local)
{
    VIPX_LISTENER listener;

    must("VipxListen", VipxListen(nic, &local->net, 1024, &listener));
    printf("ready\n");
    for (;;)
        pause();
}

static void said(const char *what, VIP_RETURN rc)
{
    printf("%s %d %s\n", what, (int)rc, rc == VIP_SUCCESS ? "" : VipxLastError());
}

static void try_all(union address *local, char *text)
{
    union address remote = {{0}};
    VIP_VI_ATTRIBUTES attrs;
    VIPX_LISTENER listener;
    VIP_CONN_HANDLE request;
    VIP_VI_HANDLE vi = new_vi();
    char localhost[] = "127.0.0.1";

    said("wait", VipConnectWait(nic, &local->net, 0, &remote.net, &attrs, &request));
    memset(&remote, 0, sizeof(remote));
    host(&remote, localhost);
    name(&remote, text);
    said("peer", VipxConnectStart(vi, &local->net, &remote.net, 100, VIPX_CONNECT_PEER, NULL));
    said("listen", VipxListen(nic, &local->net, 8, &listener));
}

static void fill(union address *local, union address *remote, int count)
{
    for (int i = 0; i < count; i++)
        must("VipxConnectStart",
             VipxConnectStart(new_vi(), &local->net, &remote->net, VIP_INFINITE, 0, NULL));
    printf("filled\n");
    for (;;)
        pause();
}

int main(int argc, char **argv)
{
    union address local = {{0}}, remote = {{0}};
    VIP_VI_ATTRIBUTES attrs;

    setvbuf(stdout, NULL, _IOLBF, 0);
    if (argc < 3)
        return 2;
    must("VipOpenNic", VipOpenNic("vip0", &nic));
    if (strcmp(argv[1], "connect") == 0) {
        host(&remote, argv[2]);
        name(&remote, argv[3]);
        said("connect", VipConnectRequest(new_vi(), &local.net, &remote.net, 20000, &attrs));
        return 0;
    }
    if (strcmp(argv[1], "fill") == 0) {
        host(&remote, argv[2]);
        name(&remote, argv[3]);
        fill(&local, &remote, atoi(argv[4]));
    }
    name(&local, argv[2]);
    if (strcmp(argv[1], "listen") == 0)
        serve(&local);
    if (strcmp(argv[1], "hold") == 0)
        hold(&local);
    else
        try_all(&local, argv[2]);
    return 0;
}

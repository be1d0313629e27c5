/*
 * A VIPL program for the tests of vipctl: makes many VIs, connects them in pairs, and keeps
 * them until its standard input ends.
 *
 *   manyvis PAIRS     prints "ready" when all pairs are connected
 *
 * One NIC handle has VIP_VI_MAX VIs at most, so the program opens as many handles as necessary.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <vipl.h>
#include <vipl_ext.h>

#define PAIRS_PER_NIC 1700 /* these pairs have 3400 VIs; a NIC handle allows 4096 */
#define CONNECT_MS    60000

/* An address with room for a number as its discriminator. */
union address {
    VIP_NET_ADDRESS net;
    unsigned char bytes[4 + 24 + 128];
};

static void must(VIP_RETURN code, const char *what)
{
    if (code != VIP_SUCCESS) {
        printf("failed %s code %d: %s\n", what, (int)code, VipxLastError());
        exit(1);
    }
}

static VIP_VI_HANDLE make_vi(VIP_NIC_HANDLE nic)
{
    VIP_VI_ATTRIBUTES attributes;
    VIP_VI_HANDLE vi;

    memset(&attributes, 0, sizeof(attributes));
    attributes.ReliabilityLevel = VIP_SERVICE_RELIABLE_DELIVERY;
    attributes.MaxTransferSize = 4096;
    must(VipCreateVi(nic, &attributes, NULL, NULL, &vi), "VipCreateVi");
    return vi;
}

static void fill(union address *address, const VIP_NIC_ATTRIBUTES *nic, uint32_t number)
{
    memset(address, 0, sizeof(*address));
    address->net.HostAddressLen = nic->NicAddressLen;
    memcpy(address->net.HostAddress, nic->LocalNicAddress, nic->NicAddressLen);
    address->net.DiscriminatorLen = sizeof(number);
    memcpy(address->net.HostAddress + nic->NicAddressLen, &number, sizeof(number));
}

int main(int argc, char **argv)
{
    uint32_t pairs = argc == 2 ? (uint32_t)strtoul(argv[1], NULL, 10) : 0;
    VIP_NIC_ATTRIBUTES attributes;
    VIP_NIC_HANDLE nic = NULL;
    char rest[64];

    if (pairs == 0) {
        fputs("usage: manyvis PAIRS\n", stderr);
        return 2;
    }
    for (uint32_t i = 0; i < pairs; i++) {
        VIP_VI_HANDLE vi[2];
        union address end[2];

        if (i % PAIRS_PER_NIC == 0) {
            must(VipOpenNic("vip0", &nic), "VipOpenNic");
            must(VipQueryNic(nic, &attributes), "VipQueryNic");
        }
        for (unsigned e = 0; e < 2; e++) {
            vi[e] = make_vi(nic);
            fill(&end[e], &attributes, 2 * i + e);
        }
        for (unsigned e = 0; e < 2; e++)
            must(VipConnectPeerRequest(vi[e], &end[e].net, &end[!e].net, CONNECT_MS),
                 "VipConnectPeerRequest");
        for (unsigned e = 0; e < 2; e++) {
            VIP_VI_ATTRIBUTES remote;

            must(VipConnectPeerWait(vi[e], &remote), "VipConnectPeerWait");
        }
    }
    puts("ready");
    fflush(stdout);
    while (read(STDIN_FILENO, rest, sizeof(rest)) > 0)
        ;
    return 0;
}

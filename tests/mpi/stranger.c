/*
 * For strangers.sh: a VIPL program that asks tag-matching endpoints of the provider `via` for
 * connections. It pretends to be such an endpoint, but has no keys. All requests must be rejected.
 * usage: mpi_stranger PORT...
 *        mpi_stranger wait FIRST LAST    wait at the discriminators of these ports until input ends
 */
#include <arpa/inet.h>
#include <stdint.h>
#include <unistd.h>

#include "tests/lib/stranger.h"

/* Private data of a connection request: struct via_hello, then struct via_channel_hello (ofi/). */
struct said {
    uint8_t version, user_bytes;
    uint16_t posted;
    uint32_t handle;
    uint64_t control;
    uint16_t channel_version, recvs, port, unused;
    uint32_t ring_bytes, ring_handle;
    uint64_t ring;
    unsigned char proof[16];
};

static void set_port(union address *to, uint16_t port)
{
    unsigned char discriminator[6] = {'o', 'f', 'i', 0};

    port = htons(port);
    memcpy(discriminator + 4, &port, sizeof(port));
    set_own(to, discriminator, sizeof(discriminator));
}

static void call_as(uint16_t called, uint16_t port)
{
    static const char *const forms[] = {"without proof, version 1", "without proof",
                                        "with a false proof"};
    struct said said = {.version = 1,
                        .posted = 128,
                        .handle = 1,
                        .control = 4096,
                        .recvs = 128,
                        .port = htons(port),
                        .ring_bytes = 131072,
                        .ring_handle = 1,
                        .ring = 4096};
    union address to = {.room = {0}}, from = {.room = {0}};
    char how[100];

    set_port(&to, called);
    set_port(&from, port);
    for (int form = 0; form < 3; form++) {
        said.channel_version = form == 0 ? 1 : 2;
        said.user_bytes = form == 0 ? 24 : 40;
        memset(said.proof, form == 2 ? 0x5a : 0, sizeof(said.proof));
        snprintf(how, sizeof(how), "port %u as port %u %s", called, port, forms[form]);
        rejected(how,
                 call(VIP_SERVICE_RELIABLE_RECEPTION, &from, &to, &said, 16u + said.user_bytes));
    }
}

static int wait_at(int first, int last)
{
    for (int port = first; port <= last; port++) {
        union address at = {.room = {0}};
        VIPX_LISTENER listener;

        set_port(&at, (uint16_t)port);
        CHECK(VipxListen(nic, &at.net, 1, &listener));
    }
    printf("waiting\n");
    while (getchar() != EOF)
        continue;
    return 0;
}

int main(int argc, char **argv)
{
    setvbuf(stdout, NULL, _IOLBF, 0);
    open_nic();
    if (argc == 4 && strcmp(argv[1], "wait") == 0)
        return wait_at(atoi(argv[2]), atoi(argv[3]));
    like_theirs.MaxTransferSize = nic_attrs.MaxTransferSize;
    like_theirs.EnableRdmaWrite = like_theirs.EnableRdmaRead = VIP_TRUE;
    for (int i = 1; i < argc; i++)
        for (int k = 1; k < argc; k++)
            call_as((uint16_t)atoi(argv[i]), (uint16_t)atoi(argv[k]));
    for (int i = 1; i < argc; i++)
        call_as((uint16_t)atoi(argv[i]), 1);
    printf("stranger: uid %d: %d of %d calls were not rejected\n", (int)getuid(), taken, calls);
    return taken != 0;
}

/*
 * For strangers.sh: a VIPL program calls the endpoints of a job of Active Messages. It pretends to
 * be a process of the job, but has no key and no tag of the job. All calls must be rejected.
 * usage: am_stranger NUMBER...           the discriminators of the processes
 *        am_stranger --flood NUMBER...   makes such calls without end, 256 at a time
 */
#include <stdint.h>
#include <unistd.h>

#include "am/am.h"
#include "am/internal.h"
#include "tests/lib/stranger.h"

/* The private data of a call in version 1 of AM's wire protocol. */
struct old_call {
    uint32_t magic;
    uint8_t version, lane, lanes, reserved;
    uint32_t serial, number;
    uint16_t depth;
    uint8_t name[32];
    uint16_t answer_depth;
    uint32_t landing_mem;
    uint64_t landing;
};

static en_t name_of(uint64_t process)
{
    en_t name;

    memset(&name, 0, sizeof(name));
    name.process = process;
    name.number = 1;
    name.host_bytes = nic_attrs.NicAddressLen;
    memcpy(name.host, nic_attrs.LocalNicAddress, name.host_bytes);
    return name;
}

static void call_as(uint64_t called, uint64_t process)
{
    static const char *const forms[] = {"without proof", "by a false key", "by the tag AM_ALL",
                                        "by the tag AM_NONE"};
    en_t caller = name_of(process), to_name = name_of(called);
    struct old_call old = {.magic = AM_WIRE_MAGIC,
                           .version = 1,
                           .lanes = 1,
                           .serial = 1,
                           .number = 1,
                           .depth = 8,
                           .answer_depth = 128,
                           .landing = 4096};
    struct am_call said = {.magic = AM_WIRE_MAGIC,
                           .version = AM_WIRE_VERSION,
                           .lanes = 1,
                           .serial = 1,
                           .number = 1,
                           .caller_number = 1,
                           .depth = 8,
                           .answer_depth = 128,
                           .landing = 4096};
    union address to = {.room = {0}}, from = {.room = {0}};
    struct job_key key;
    char how[120];

    if (job_key_draw(&key) != 0)
        exit(2);
    set_own(&to, &called, sizeof(called));
    set_own(&from, &process, sizeof(process));
    memcpy(old.name, &caller, sizeof(old.name));
    snprintf(how, sizeof(how), "%llx as %llx, version 1", (unsigned long long)called,
             (unsigned long long)process);
    rejected(how, call(VIP_SERVICE_RELIABLE_DELIVERY, &from, &to, &old, sizeof(old)));
    for (int form = 0; form < 4; form++) {
        memset(&said.proof, 0, sizeof(said.proof));
        if (form > 0)
            am_call_prove(form == 1 ? &key : NULL, form == 2 ? AM_ALL : AM_NONE, &caller, &to_name,
                          &said);
        snprintf(how, sizeof(how), "%llx as %llx, %s", (unsigned long long)called,
                 (unsigned long long)process, forms[form]);
        rejected(how, call(VIP_SERVICE_RELIABLE_DELIVERY, &from, &to, &said, sizeof(said)));
    }
}

/* Call without end, with 256 calls at the same time, and ignore the answers. */
static void flood(const uint64_t *number, int count)
{
    enum { VIS = 256 };
    static VIP_VI_HANDLE vi[VIS];
    VIPX_PRIVATE_DATA data = {.Length = sizeof(struct am_call)};
    union address to = {.room = {0}}, from = {.room = {0}};

    for (int i = 0; i < VIS; i++)
        CHECK(VipCreateVi(nic, &like_theirs, NULL, NULL, &vi[i]));
    for (unsigned k = 0;; k++) {
        int i = (int)(k % VIS);

        if (k >= VIS && VipxConnectFinish(vi[i], NULL, NULL) == VIP_NOT_DONE)
            continue;
        set_own(&to, &number[1 + (k / VIS) % (unsigned)(count - 1)], sizeof(*number));
        set_own(&from, &number[0], sizeof(*number));
        (void)VipxConnectStart(vi[i], &from.net, &to.net, VIP_INFINITE, 0, &data);
        if (k == VIS)
            printf("stranger: calls\n");
    }
}

int main(int argc, char **argv)
{
    uint64_t number[64] = {0x1234};
    bool floods = argc > 1 && strcmp(argv[1], "--flood") == 0;
    int count = 1;

    setvbuf(stdout, NULL, _IOLBF, 0);
    open_nic();
    like_theirs.MaxTransferSize = AM_LONG_MAX;
    like_theirs.EnableRdmaWrite = VIP_TRUE;
    like_theirs.ReliabilityLevel = VIP_SERVICE_RELIABLE_DELIVERY;
    for (int i = 1 + floods; i < argc && count < 64; i++)
        number[count++] = __builtin_bswap64(strtoull(argv[i], NULL, 16));
    if (floods)
        flood(number, count);
    for (int i = 1; i < count; i++)
        for (int k = 0; k < count; k++)
            call_as(number[i], number[k]);
    printf("stranger: uid %d: %d of %d calls were not rejected\n", (int)getuid(), taken, calls);
    return taken != 0;
}

/* Connections and notes; see meet.h. */
#include "tools/vipperf/meet.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <vipl_ext.h>

/* Enough bytes for an address with the longest host part and discriminator of any VIPL library. */
#define ADDRESS_BYTES 512

/* Number of receive descriptors for notes; at most two notes are under way at a time. */
#define NOTE_SLOTS 4

/* Nanoseconds between two attempts to connect. */
#define RETRY_NS 20000000

/* Time limit of one attempt to connect, in ms; long enough to detect a host without an answer. */
#define ATTEMPT_MS 5000

/* A VIP_NET_ADDRESS with space for host part and discriminator. */
union address {
    VIP_NET_ADDRESS net;
    uint8_t raw[ADDRESS_BYTES];
};

/* Write the host part (unless host is NULL) and, directly after it, the discriminator. */
static void set_address(union address *address, const uint8_t *host, size_t host_len,
                        const char *disc)
{
    size_t disc_len = strlen(disc);
    size_t off = offsetof(VIP_NET_ADDRESS, HostAddress);

    address->net.HostAddressLen = (VIP_UINT16)host_len;
    address->net.DiscriminatorLen = (VIP_UINT16)disc_len;
    if (host)
        memmove(address->raw + off, host, host_len);
    memcpy(address->raw + off + host_len, disc, disc_len);
}

static int resolve(struct end *end, const char *host, const char *disc, union address *ret)
{
    char name[256];
    VIP_RETURN rc;

    memset(ret, 0, sizeof(*ret));
    snprintf(name, sizeof(name), "%s", host);
    rc = VipNSGetHostByName(end->nic->handle, name, &ret->net, 0);
    if (rc != VIP_SUCCESS) {
        snprintf(end->why, sizeof(end->why), "cannot find host %s: %s: %s", host, end_rc_name(rc),
                 VipxLastError());
        return -1;
    }
    set_address(ret, NULL, ret->net.HostAddressLen, disc);
    return 0;
}

static int connect_failed(struct end *end, VIP_RETURN rc, const char *host)
{
    switch (rc) {
    case VIP_NO_MATCH:
        snprintf(end->why, sizeof(end->why),
                 "no vipperf serve on %s (start it there with: vipperf serve)", host);
        return -1;
    case VIP_TIMEOUT:
    case VIP_NOT_REACHABLE:
        snprintf(end->why, sizeof(end->why), "no vipd answers on %s (%s)", host, end_rc_name(rc));
        return -1;
    default:
        return end_failed(end, "VipConnectRequest", rc);
    }
}

int meet_connect(struct end *end, const char *host, const char *disc)
{
    const struct timespec nap = {.tv_nsec = RETRY_NS};
    uint64_t now_ns, deadline_ns = 0;
    union address local = {0}, remote;
    VIP_VI_ATTRIBUTES attrs;
    VIP_RETURN rc;

    set_address(&local, end->nic->attrs.LocalNicAddress, end->nic->attrs.NicAddressLen,
                "vipperf-client");
    if (resolve(end, host, disc, &remote) < 0)
        return -1;
    for (;;) {
        rc = VipConnectRequest(end->vi, &local.net, &remote.net, ATTEMPT_MS, &attrs);
        if (rc == VIP_SUCCESS)
            return 0;
        now_ns = end_now_ns();
        /* The time limit counts from the first answer: a vipd that is starting answers late. */
        if (deadline_ns == 0)
            deadline_ns = now_ns + MEET_PATIENCE_MS * 1000000ull;
        if (rc != VIP_NO_MATCH || now_ns >= deadline_ns)
            return connect_failed(end, rc, host);
        nanosleep(&nap, NULL);
    }
}

int meet_wait(const struct end_nic *nic, const char *disc, VIP_ULONG timeout_ms,
              VIP_CONN_HANDLE *ret, char *why, size_t why_bytes)
{
    union address local = {0}, remote = {0};
    VIP_VI_ATTRIBUTES attrs;
    VIP_RETURN rc;

    set_address(&local, nic->attrs.LocalNicAddress, nic->attrs.NicAddressLen, disc);
    rc = VipConnectWait(nic->handle, &local.net, timeout_ms, &remote.net, &attrs, ret);
    if (rc == VIP_SUCCESS)
        return 1;
    if (rc == VIP_TIMEOUT)
        return 0;
    snprintf(why, why_bytes, "VipConnectWait: %s: %s", end_rc_name(rc), VipxLastError());
    return -1;
}

/* Make an end for another idle VI; do not connect it yet. Returns NULL with why on failure. */
static struct end *make_idle(struct meet_idle *idle, const struct end_nic *nic, uint64_t count,
                             char *why, size_t why_bytes)
{
    static const struct end_args args = {.level = PLAN_RD,
                                         .wait = PLAN_BLOCK,
                                         .mtu_bytes = 64,
                                         .sends = 1,
                                         .recvs = 1,
                                         .slot_bytes = 64,
                                         .out_slots = 1,
                                         .in_slots = 1};
    struct end *end;

    if (!idle->ends)
        idle->ends = calloc(count, sizeof(*idle->ends));
    if (!idle->ends) {
        snprintf(why, why_bytes, "no memory for %llu idle VIs", (unsigned long long)count);
        return NULL;
    }
    end = &idle->ends[idle->count++];
    if (end_make(end, nic, &args) == 0 && end_post_recv(end, 0, true) == 0)
        return end;
    snprintf(why, why_bytes, "idle VI %llu: %.400s", (unsigned long long)idle->count, end->why);
    return NULL;
}

int meet_idle_connect(struct meet_idle *idle, const struct end_nic *nic, uint64_t count,
                      const char *host, const char *disc, char *why, size_t why_bytes)
{
    while (idle->count < count) {
        struct end *end = make_idle(idle, nic, count, why, why_bytes);

        if (!end)
            return -1;
        if (meet_connect(end, host, disc) < 0) {
            snprintf(why, why_bytes, "%.500s", end->why);
            return -1;
        }
    }
    return 0;
}

int meet_idle_accept(struct meet_idle *idle, const struct end_nic *nic, uint64_t count,
                     const char *disc, char *why, size_t why_bytes)
{
    while (idle->count < count) {
        struct end *end = make_idle(idle, nic, count, why, why_bytes);
        VIP_CONN_HANDLE request = NULL;
        VIP_RETURN rc;
        int r;

        if (!end)
            return -1;
        r = meet_wait(nic, disc, MEET_DATA_MS, &request, why, why_bytes);
        if (r == 0)
            snprintf(why, why_bytes, "the client did not connect its idle VIs");
        if (r <= 0)
            return -1;
        rc = VipConnectAccept(request, end->vi);
        if (rc != VIP_SUCCESS) {
            (void)VipConnectReject(request);
            (void)end_failed(end, "VipConnectAccept", rc);
            snprintf(why, why_bytes, "%.500s", end->why);
            return -1;
        }
    }
    return 0;
}

void meet_idle_free(struct meet_idle *idle)
{
    for (uint64_t i = 0; i < idle->count; i++)
        end_free(&idle->ends[i]);
    free(idle->ends);
    *idle = (struct meet_idle){0};
}

int meet_make_control(struct end *end, const struct end_nic *nic)
{
    const struct end_args args = {.level = PLAN_RD,
                                  .wait = PLAN_BLOCK,
                                  .mtu_bytes = NOTE_BYTES_MAX,
                                  .sends = NOTE_SLOTS,
                                  .recvs = NOTE_SLOTS,
                                  .slot_bytes = NOTE_BYTES_MAX,
                                  .out_slots = NOTE_SLOTS,
                                  .in_slots = NOTE_SLOTS};

    if (end_make(end, nic, &args) < 0)
        return -1;
    for (unsigned i = 0; i < NOTE_SLOTS; i++)
        if (end_post_recv(end, i, true) < 0)
            return -1;
    return 0;
}

int note_send(struct end *end, const struct note *note)
{
    struct end_message message = {.len_bytes = (uint32_t)note->len_bytes};
    uint8_t *slot;
    int r = end_drain(end, NOTE_SLOTS - 1, END_PATIENCE_MS);

    if (r <= 0) {
        if (r == 0)
            snprintf(end->why, sizeof(end->why), "the other side takes no message for %d s",
                     END_PATIENCE_MS / 1000);
        return -1;
    }
    slot = end_out(end, end->sends_posted);
    memcpy(slot, note->text, note->len_bytes);
    message.bytes = slot;
    return end_post_send(end, &message);
}

int note_recv(struct end *end, unsigned timeout_ms, struct note *ret)
{
    struct end_arrival arrival;
    int r = end_recv(end, timeout_ms, &arrival);

    if (r <= 0)
        return r;
    if (arrival.len_bytes >= sizeof(ret->text)) {
        snprintf(end->why, sizeof(end->why), "a note of %u bytes is too long", arrival.len_bytes);
        return -1;
    }
    memcpy(ret->text, arrival.bytes, arrival.len_bytes);
    ret->text[arrival.len_bytes] = '\0';
    ret->len_bytes = arrival.len_bytes;
    return end_post_recv(end, arrival.index, true) < 0 ? -1 : 1;
}

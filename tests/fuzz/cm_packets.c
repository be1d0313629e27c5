/*
 * Fuzz: three connection managers connect, refuse and close, while the input repeats, changes and
 * mixes their messages. The world of tests/unit/cm_world.h is the oracle: each attempt ends once,
 * each report about a connection comes while the connection lives, and all memory is freed. In half
 * of the runs each new client must return a cookie, as with vipd. In these runs a message from an
 * address that no host has must not allocate memory.
 */
#include "fuzz/fuzz.h"

#include <sys/uio.h>

#define FLIGHT_MAX 1024
#define THINGS_MAX 128
#define STEPS_MAX  120 /* limited, because the world's arrays have a fixed size */

/* The world's own memory is static. A sanitizer keeps freed memory for a while, so each input would
 * need new pages, and making them would take most of the time. The managers allocate as usual. */
static _Alignas(64) uint8_t kept[4][2 << 20];
#define WORLD_MEMORY(slot, bytes) kept_memory(slot, bytes)
#define WORLD_MEMORY_FREE(memory) ((void)(memory))
static inline void *kept_memory(unsigned slot, size_t bytes)
{
    FUZZ_CHECK(slot < 4 && bytes <= sizeof(kept[slot]));
    return kept[slot];
}

#include "tests/unit/cm_world_run.h"
#include "vipd/engine/cm_outlive.h"

#define SEEN 64u

/* A ring buffer with the newest SEEN messages that were sent. */
static struct seen {
    unsigned from, to;
    size_t len_bytes;
    uint8_t bytes[VIP_WIRE_CM_BYTES_MAX];
} seen[SEEN];
static unsigned seen_count, lose_mask;

static const char *const discs[] = {"", "a", "bb", "svc"};

static bool watch(struct world *w, unsigned from, unsigned to, const struct vip_cm *msg)
{
    struct seen *at = &seen[seen_count++ % SEEN];

    at->from = from;
    at->to = to;
    /* Encode the message with its real epochs, as on the link. */
    at->len_bytes = vip_wire_put_cm(at->bytes, w->hosts[from].epoch, w->hosts[to].epoch, msg);
    return !(lose_mask >> (msg->type % 16) & 1);
}

static void reseal(uint8_t *bytes, size_t len_bytes)
{
    struct iovec iov = {.iov_base = bytes, .iov_len = len_bytes};

    if (len_bytes >= VIP_WIRE_HEADER_BYTES)
        vip_wire_seal(&iov, 1);
}

/* Deliver a changed copy of a message in `seen`, from any host or address to any host. */
static void forge(struct world *w, struct fuzz_in *in)
{
    uint8_t packet[VIP_WIRE_CM_BYTES_MAX];
    struct seen *base = &seen[fuzz_8(in) % SEEN], *other = &seen[fuzz_8(in) % SEEN];
    uint8_t how = fuzz_8(in);
    unsigned to = how & 1 ? base->to : how % HOSTS_MAX, changes = how >> 4 & 7;
    struct cm_host from = w->hosts[how & 2 ? base->from : (how >> 2) % HOSTS_MAX].addr;
    size_t len_bytes = base->len_bytes;
    long allocs;

    if (!len_bytes || !w->hosts[to].cm)
        return;
    memcpy(packet, base->bytes, sizeof(packet));
    while (changes--) {
        uint8_t where = fuzz_8(in), what = fuzz_8(in);
        size_t at = where;

        if (where >= 192) {
            /* Replace a number of this message by a number of another message. */
            at = 8 + (where & 15) * 8u;
            memcpy(packet + at, other->bytes + 8 + (what & 15) * 8u, 8);
        } else if (where == 191) {
            len_bytes = what + 64u < len_bytes ? what + 64u : len_bytes;
        } else if (where == 190) {
            from.bytes[what % 6] ^= what;
        } else if (at < len_bytes) {
            packet[at] = what;
        }
    }
    reseal(packet, len_bytes);
    allocs = w->hosts[to].allocs;
    cm_rx(w->hosts[to].cm, &from, packet, len_bytes, w->now_ns);
    FUZZ_CHECK(!w->verify_all || host_at(w, &from) >= 0 || w->hosts[to].allocs <= allocs);
    host_settle(&w->hosts[to]);
}

static void unknown_conn(struct world *w, unsigned host, struct fuzz_in *in)
{
    uint8_t how = fuzz_8(in);
    struct vip_header hdr = {.kind = VIP_PKT_DATA,
                             .conn_id = fuzz_number(in),
                             .src_epoch = w->hosts[how % HOSTS_MAX].epoch,
                             .dst_epoch = w->hosts[host].epoch,
                             .packet_number = 1};

    cm_unknown_conn(w->hosts[host].cm, &w->hosts[how % HOSTS_MAX].addr, &hdr, w->now_ns);
    host_settle(&w->hosts[host]);
}

static void answer(struct world *w, unsigned index, uint8_t how)
{
    struct host *host = &w->hosts[index];

    for (unsigned i = 0; i < host->incoming_count; i++) {
        struct incoming *incoming = &host->incoming[i];

        if (incoming->answered || (how & 2 && i + 1 < host->incoming_count))
            continue;
        if (how & 1) {
            host_accept(w, index, i);
        } else {
            incoming->answered = true;
            (void)cm_pending_attrs(host->cm, incoming->handle);
            cm_reject(host->cm, incoming->handle, VIP_RC_REJECT, NULL, w->now_ns);
        }
        host_settle(host);
        return;
    }
}

/* Let a host end one of its attempts, waits or connections. */
static void give_up(struct world *w, unsigned index, struct fuzz_in *in)
{
    struct host *host = &w->hosts[index];
    uint8_t how = fuzz_8(in), which = fuzz_8(in);

    switch (how % 4) {
    case 0:
        if (host->request_count) {
            struct attempt *attempt = &host->requests[which % host->request_count];

            if (cm_request_cancel(host->cm, which % host->request_count, w->now_ns))
                attempt->given_up = true;
        }
        break;
    case 1:
        cm_unwait(host->cm, which, w->now_ns);
        break;
    default:
        if (host->conn_count && host->conns[which % host->conn_count].alive)
            host_close(w, index, &host->conns[which % host->conn_count]);
    }
    host_settle(host);
}

#ifdef FUZZ_REBIND
#define REBORN_MAX 16

/* The vipd of this host is killed and starts again. It binds anew those connections that it can. */
static void rebirth(struct world *w, unsigned index, uint8_t how)
{
    struct host *host = &w->hosts[index];
    struct conn past[REBORN_MAX];
    unsigned count = 0;

    for (unsigned i = 0; i < host->conn_count && count < REBORN_MAX; i++)
        if (host->conns[i].alive && (host->conns[i].info.features & VIP_FEATURE_REBIND))
            past[count++] = host->conns[i];
    host_kill(w, index);
    host_start(w, index);
    for (unsigned i = 0; i < count; i++) {
        struct cm_rebind_args args = {.user = host->request_count++,
                                      .local_id = (uint64_t)(index + 1) << 32 | ++host->id_counter,
                                      .remote = w->hosts[how % HOSTS_MAX].addr,
                                      .secret = past[i].info.secret,
                                      .asked = past[i].info.asked,
                                      .features = past[i].info.features,
                                      .counts = past[i].counts,
                                      .timeout_ns = (uint64_t)how * 40 * MS};

        host->requests[args.user] =
            (struct attempt){.used = true, .rc = VIP_RC_NOT_DONE, .local_id = args.local_id};
        if (cm_rebind(host->cm, &args, w->now_ns) < 0)
            host->requests[args.user] = (struct attempt){.given_up = true};
    }
}

/* One end of a connection offers or agrees to bind it anew, or gets another data id. */
static void lend(struct world *w, unsigned index, uint8_t how)
{
    struct host *host = &w->hosts[index];
    struct conn *conn = host->conn_count ? &host->conns[how % host->conn_count] : NULL;
    struct cm_loan_terms ours = {.number = 1 + (how & 3u),
                                 .data_id = 1 + how,
                                 .out = how & 4,
                                 .host = host->addr,
                                 .packet_bytes = 1000,
                                 .window_bytes = 1000};

    if (!conn)
        return;
    ours.host.bytes[5]++;
    if (how & 8)
        (void)cm_loan_offer(host->cm, conn->local_id, &ours, w->now_ns);
    else
        (void)cm_loan_agree(host->cm, conn->local_id, 1, &ours, w->now_ns);
    cm_loan_data_id(host->cm, conn->local_id, how & 16 ? conn->remote_id : 1u + how);
}
#endif

static void step(struct world *w, struct fuzz_in *in, uint64_t *wait)
{
    uint8_t what = fuzz_8(in), how = fuzz_8(in);
    unsigned index = what % HOSTS_MAX, other = (index + 1 + (how & 1)) % HOSTS_MAX;
    struct host *host = &w->hosts[index];

    if (!host->cm) {
        host_start(w, index);
        return;
    }
    switch (what / HOSTS_MAX % 16) {
    case 0:
    case 1:
        if (cm_wait(host->cm, (*wait)++ & 255, 1, how >> 5 & 1,
                    (const uint8_t *)discs[how >> 1 & 3], (uint8_t)strlen(discs[how >> 1 & 3]),
                    w->now_ns) == 0)
            host_settle(host);
        break;
    case 2:
    case 3:
        if (host->fail_after < 0)
            host_request(w, index, other, discs[how >> 1 & 3],
                         how & 128 ? FOR_EVER : (uint64_t)(how >> 3) * 10 * MS);
        break;
    case 4:
    case 5:
        answer(w, index, how);
        break;
    case 6:
        give_up(w, index, in);
        break;
    case 7:
        if (how == 255) {
            host_kill(w, index);
            break;
        }
        host->eager = how & 1;
        host->fail_after = how & 2 ? how >> 5 : -1;
        break;
    case 8:
        lose_mask = how & 1 ? fuzz_16(in) : 0;
        w->loss_percent = how & 2 ? how >> 2 : 0;
        w->dup_percent = how & 4 ? 20 : 0;
        break;
    case 9:
        unknown_conn(w, index, in);
        break;
    case 10:
        world_run(w, (uint64_t)how * MS / 8);
        break;
    case 11:
        world_run(w, (uint64_t)how * 20 * MS);
        break;
    case 12:
        w->uid = how >> 5 & 1;
        if (host->fail_after < 0)
            host_peer(w, index, other, discs[how >> 1 & 3], discs[how >> 3 & 3],
                      how & 128 ? FOR_EVER : 500 * MS);
        break;
#ifdef FUZZ_REBIND
    case 13:
        rebirth(w, index, how);
        break;
    case 14:
        host->refuse_counts = how & 1;
        if (how & 2)
            lend(w, index, how >> 2);
        break;
#endif
    default:
        forge(w, in);
    }
}

void fuzz_one(const uint8_t *bytes, size_t len)
{
    struct fuzz_in in = {bytes, bytes + len};
    uint8_t seed = fuzz_8(&in);
    struct world *w = world_new_asking(HOSTS_MAX, 1 + seed, seed & 1);
    uint64_t wait = 0;

#ifdef FUZZ_REBIND
    w->outlive_ns = 10 * S;
    for (unsigned i = 0; i < HOSTS_MAX; i++)
        host_feature(w, i,
                     seed >> i & 2 ? VIP_FEATURES | VIP_FEATURE_REBIND | VIP_FEATURE_LOAN
                                   : VIP_FEATURES);
#endif
    memset(seen, 0, sizeof(seen));
    seen_count = lose_mask = 0;
    w->filter = watch;
    for (unsigned i = 0; i < STEPS_MAX && fuzz_more(&in); i++)
        step(w, &in, &wait);
    world_free(w);
}

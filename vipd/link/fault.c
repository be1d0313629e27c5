/*
 * The fault decorator: a link that loses, duplicates, reorders, delays and damages sent packets
 * (vipd/link/link.h). Every decision comes from a seeded generator; time comes from the caller.
 *
 * Owns: the inner link, copies of delayed packets. Received packets pass unchanged: only the
 * sender's decorator plants faults. Called from the engine's thread.
 *
 * The decorator is always built in, and the configuration switches it on. So tests use the product
 * itself.
 */
#include "vipd/link/link.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "proto/assert.h"

/* Limits of the delayed packets: when they reach a limit, the link is full. */
#define DELAYED_PACKETS_MAX 16384u
#define DELAYED_BYTES_MAX   (64u << 20)

/* Delay of a reordered packet: MIN plus a random time below SPAN; other packets overtake it. */
#define REORDER_MIN_NS  20000u
#define REORDER_SPAN_NS 480000u

/* Time until the next attempt when the inner link was full. */
#define RETRY_NS 50000u

struct delayed {
    uint64_t due_ns;
    uint64_t number; /* order of sending among packets due at the same time */
    struct link_addr to;
    uint32_t len;
    uint8_t bytes[];
};

struct fault {
    struct link link;
    struct link *inner;
    struct link_faults faults;
    uint64_t random;       /* state of the random number generator */
    uint64_t number;       /* number of the next delayed packet */
    struct delayed **heap; /* binary heap; the first packet has the smallest (due_ns, number) */
    uint32_t heap_count, heap_room;
    uint64_t heap_bytes;
    uint64_t retry_ns;       /* not 0: the inner link was full; try again at this time */
    struct link_stats stats; /* fault counters only */
};

static const struct link_class fault_class;

/* ---- decisions ------------------------------------------------------------------------- */

/* The 64-bit mixing generator known as splitmix64: one addition, three xor-shifts. */
static uint64_t draw(struct fault *fault)
{
    uint64_t x = fault->random += 0x9e3779b97f4a7c15u;

    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

static bool happens(struct fault *fault, double probability)
{
    /* The left side is below 1.0 (a double holds 53 bits exactly): probability 1.0 always hits. */
    return (double)(draw(fault) >> 11) * 0x1p-53 < probability;
}

/* The faults that hit one packet. */
struct fate {
    bool lost, doubled, corrupt;
    uint64_t delay_ns[2]; /* delays of the packet and its duplicate */
};

/* This function draws equally many values for each packet, so one setting does not change decisions
 * for other faults. But a damaged packet changes them: keep_copy draws one more value. */
static struct fate decide(struct fault *fault)
{
    const struct link_faults *faults = &fault->faults;
    struct fate fate = {0};
    bool reordered;
    uint64_t held;

    fate.lost = happens(fault, faults->loss) || faults->blackhole;
    fate.doubled = happens(fault, faults->dup);
    fate.corrupt = happens(fault, faults->corrupt);
    reordered = happens(fault, faults->reorder);
    held = REORDER_MIN_NS + draw(fault) % REORDER_SPAN_NS;
    for (unsigned i = 0; i < 2; i++) {
        uint64_t jitter = draw(fault);

        fate.delay_ns[i] = faults->delay_ns;
        if (faults->jitter_ns > 0)
            fate.delay_ns[i] += jitter % (faults->jitter_ns + 1);
    }
    if (reordered && !fate.lost) {
        fate.delay_ns[0] += held;
        fault->stats.fault_reordered++;
    }
    return fate;
}

/* ---- delayed packets ------------------------------------------------------------------- */

static bool earlier(const struct delayed *a, const struct delayed *b)
{
    return a->due_ns != b->due_ns ? a->due_ns < b->due_ns : a->number < b->number;
}

/* Add a packet to the heap. false: no memory. */
static bool heap_push(struct fault *fault, struct delayed *packet)
{
    uint32_t i;

    if (fault->heap_count == fault->heap_room) {
        uint32_t room = fault->heap_room ? 2 * fault->heap_room : 64;
        struct delayed **heap = realloc(fault->heap, room * sizeof(struct delayed *));

        if (!heap)
            return false;
        fault->heap = heap;
        fault->heap_room = room;
    }
    for (i = fault->heap_count++; i > 0; i = (i - 1) / 2) {
        struct delayed *parent = fault->heap[(i - 1) / 2];

        if (earlier(parent, packet))
            break;
        fault->heap[i] = parent;
    }
    fault->heap[i] = packet;
    fault->heap_bytes += packet->len;
    return true;
}

static void heap_pop(struct fault *fault)
{
    struct delayed *last;
    uint32_t i = 0;

    VIP_ASSERT(fault->heap_count > 0 && fault->heap_bytes >= fault->heap[0]->len);
    fault->heap_bytes -= fault->heap[0]->len;
    free(fault->heap[0]);
    last = fault->heap[--fault->heap_count];
    for (;;) {
        uint32_t child = 2 * i + 1;

        if (child >= fault->heap_count)
            break;
        if (child + 1 < fault->heap_count && earlier(fault->heap[child + 1], fault->heap[child]))
            child++;
        if (!earlier(fault->heap[child], last))
            break;
        fault->heap[i] = fault->heap[child];
        i = child;
    }
    fault->heap[i] = last;
}

/* Keep a copy until due_ns, damaged if `corrupt`. false: no memory, so the packet is lost. */
static bool keep_copy(struct fault *fault, const struct link_tx *packet, uint64_t due_ns,
                      bool corrupt)
{
    struct delayed *copy = malloc(sizeof(*copy) + packet->bytes);
    uint32_t at = 0;

    if (!copy)
        return false;
    copy->due_ns = due_ns;
    copy->number = fault->number++;
    copy->to = *packet->to;
    copy->len = packet->bytes;
    for (unsigned i = 0; i < packet->iov_count; i++) {
        size_t len = packet->iov[i].iov_len;

        VIP_ASSERT(len <= packet->bytes - at);
        if (len > 0)
            memcpy(copy->bytes + at, packet->iov[i].iov_base, len);
        at += (uint32_t)len;
    }
    VIP_ASSERT(at == packet->bytes);
    if (corrupt && copy->len > 0) {
        uint64_t bit = draw(fault) % (8ull * copy->len);

        copy->bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
    }
    if (!heap_push(fault, copy)) {
        free(copy);
        return false;
    }
    return true;
}

/* Send packets that are due. Packets due at the same time leave in the order in which they came. */
static void flush(struct fault *fault, uint64_t now_ns)
{
    if (fault->retry_ns > now_ns)
        return;
    fault->retry_ns = 0;
    while (fault->heap_count > 0 && fault->heap[0]->due_ns <= now_ns) {
        const struct delayed *first = fault->heap[0];
        struct iovec iov = {(void *)(uintptr_t)first->bytes, first->len};
        struct link_tx packet = {&first->to, &iov, 1, first->len};

        if (fault->inner->class->send(fault->inner, &packet, 1, now_ns) == 0) {
            fault->retry_ns = now_ns + RETRY_NS;
            return;
        }
        heap_pop(fault);
    }
}

/* ---- class ----------------------------------------------------------------------------- */

/* Copy the state of the inner link if it has changed. */
static void follow(struct fault *fault)
{
    if (fault->link.changes == fault->inner->changes)
        return;
    fault->link = *fault->inner;
    fault->link.class = &fault_class;
}

/* Apply the decisions in `fate` to a packet. */
static void suffer(struct fault *fault, const struct link_tx *packet, const struct fate *fate,
                   uint64_t now_ns)
{
    unsigned copies = fate->doubled ? 2 : 1;

    if (fate->lost) {
        fault->stats.fault_lost++;
        return;
    }
    if (fate->doubled)
        fault->stats.fault_duplicated++;
    if (fate->corrupt)
        fault->stats.fault_corrupted++;
    for (unsigned i = 0; i < copies; i++) {
        if (fate->delay_ns[i] > 0)
            fault->stats.fault_delayed++;
        /* Only the first copy is damaged; the duplicate stays whole. */
        if (!keep_copy(fault, packet, now_ns + fate->delay_ns[i], fate->corrupt && i == 0))
            fault->stats.fault_lost++;
    }
}

/* Send packets without a fault to the inner link, in one call. Keep copies of the packets that the
 * inner link does not take: if the caller sent these packets again, faults could hit them. */
static void pass(struct fault *fault, const struct link_tx *packets, unsigned count,
                 uint64_t now_ns)
{
    unsigned n = 0;

    /* A due packet may wait because the inner link was full. No packet may overtake it. */
    if (count > 0 && (fault->heap_count == 0 || fault->heap[0]->due_ns > now_ns))
        n = fault->inner->class->send(fault->inner, packets, count, now_ns);
    for (; n < count; n++)
        if (!keep_copy(fault, &packets[n], now_ns, false))
            fault->stats.fault_lost++;
}

static unsigned fault_send(struct link *link, const struct link_tx *packets, unsigned count,
                           uint64_t now_ns)
{
    struct fault *fault = (struct fault *)link;
    unsigned i, passing = 0; /* number of unsent packets without a fault directly before i */
    uint64_t reserved = 0;   /* bytes of the `passing` packets, in case they must all wait */

    follow(fault);
    flush(fault, now_ns);
    for (i = 0; i < count; i++) {
        uint32_t bytes = packets[i].bytes;
        struct fate fate;

        /* Stop if packet and duplicate would have no room once all packets before them wait. */
        if (fault->heap_count + passing + 2 > DELAYED_PACKETS_MAX ||
            fault->heap_bytes + reserved + 2ull * bytes > DELAYED_BYTES_MAX)
            break;
        fate = decide(fault);
        if (!fate.lost && !fate.doubled && !fate.corrupt && fate.delay_ns[0] == 0) {
            passing++;
            reserved += bytes;
            continue;
        }
        pass(fault, &packets[i - passing], passing, now_ns);
        passing = 0;
        reserved = 0;
        suffer(fault, &packets[i], &fate, now_ns);
    }
    pass(fault, &packets[i - passing], passing, now_ns);
    flush(fault, now_ns);
    return i;
}

static unsigned fault_recv(struct link *link, struct link_rx *packets, unsigned count,
                           uint64_t now_ns)
{
    struct fault *fault = (struct fault *)link;
    unsigned n;

    flush(fault, now_ns);
    n = fault->inner->class->recv(fault->inner, packets, count, now_ns);
    link->behind = fault->inner->behind;
    follow(fault);
    return n;
}

static void fault_release(struct link *link, void *buffer)
{
    struct fault *fault = (struct fault *)link;

    fault->inner->class->release(fault->inner, buffer);
}

static int fault_fd(const struct link *link)
{
    const struct fault *fault = (const struct fault *)link;

    return fault->inner->class->fd(fault->inner);
}

static uint64_t fault_deadline(const struct link *link)
{
    const struct fault *fault = (const struct fault *)link;
    uint64_t inner = fault->inner->class->deadline(fault->inner);
    uint64_t own = UINT64_MAX;

    if (fault->heap_count > 0)
        own = fault->heap[0]->due_ns > fault->retry_ns ? fault->heap[0]->due_ns : fault->retry_ns;
    return own < inner ? own : inner;
}

static void fault_stats(const struct link *link, struct link_stats *ret)
{
    const struct fault *fault = (const struct fault *)link;

    fault->inner->class->stats(fault->inner, ret);
#define VIP_STAT_OF_LINK(member, name) ret->member += fault->stats.member;
#include "proto/stats.def"
}

/* Faults do not apply to questions and answers among hosts. */
static int fault_find(struct link *link, const char *name, uint64_t now_ns, struct link_addr *ret)
{
    struct fault *fault = (struct fault *)link;

    return fault->inner->class->find ? fault->inner->class->find(fault->inner, name, now_ns, ret)
                                     : -EOPNOTSUPP;
}

static int fault_name_of(struct link *link, const struct link_addr *host, uint64_t now_ns,
                         char ret[LINK_NAME_BYTES])
{
    struct link *inner = ((struct fault *)link)->inner;

    return inner->class->name_of ? inner->class->name_of(inner, host, now_ns, ret) : -EOPNOTSUPP;
}

static uint32_t fault_known(const struct link *link, uint32_t from, uint64_t now_ns,
                            link_visit_fn *visit, void *ctx)
{
    const struct link *inner = ((const struct fault *)link)->inner;

    return inner->class->known ? inner->class->known(inner, from, now_ns, visit, ctx) : UINT32_MAX;
}

static void fault_see_path(const struct link *link, const struct link_addr *host,
                           struct link_path_view *ret)
{
    link_see_path(((const struct fault *)link)->inner, host, ret);
}

static void fault_visit_paths(const struct link *link, link_path_fn *visit, void *ctx)
{
    const struct link *inner = ((const struct fault *)link)->inner;

    if (inner->class->visit_paths)
        inner->class->visit_paths(inner, visit, ctx);
}

static void fault_remember_path(struct link *link, const struct link_addr *host, unsigned path,
                                const struct link_addr *addr)
{
    struct link *inner = ((struct fault *)link)->inner;

    if (inner->class->remember_path)
        inner->class->remember_path(inner, host, path, addr);
}

static void fault_close(struct link *link)
{
    struct fault *fault = (struct fault *)link;

    while (fault->heap_count > 0)
        heap_pop(fault);
    free(fault->heap);
    fault->inner->class->close(fault->inner);
    free(fault);
}

static const struct link_class fault_class = {
    .name = "fault",
    .send = fault_send,
    .recv = fault_recv,
    .release = fault_release,
    .fd = fault_fd,
    .deadline = fault_deadline,
    .stats = fault_stats,
    .find = fault_find,
    .name_of = fault_name_of,
    .known = fault_known,
    .see_path = fault_see_path,
    .visit_paths = fault_visit_paths,
    .remember_path = fault_remember_path,
    .close = fault_close,
};

int link_fault_wrap(struct link *inner, const struct link_faults *faults, struct link **ret)
{
    struct fault *fault = calloc(1, sizeof(*fault));

    if (!fault)
        return -ENOMEM;
    fault->link = *inner;
    fault->link.class = &fault_class;
    fault->inner = inner;
    fault->faults = *faults;
    fault->random = faults->seed;
    *ret = &fault->link;
    return 0;
}

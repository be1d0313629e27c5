/*
 * The direct path between two programs of one host. Small messages go through a direct ring
 * ("ring") and not through vipd. Messages by the ring and through vipd use the same receive
 * descriptors. So these are in a table that libvipl and vipd can read (doc/shm-abi.md, 7 and 8).
 *
 * Owns: the layout, the rule of one load per word, the order of stores, the checks of what the
 * other program wrote. Does not own: when libvipl may use the ring (libvipl/direct.c); vipd's use
 * of receive descriptors, and the end of a ring (vipd/nic/direct.c).
 *
 * Table (one memfd per session, written by libvipl only): receive descriptor k of a VI, counted
 * from the VI's creation, is in slot k modulo 1024. The slot has the form of a submission slot,
 * with the stamp k + 1 and the VI's generation. libvipl does not signal a new descriptor; vipd
 * reads the table when a message needs a receive descriptor.
 *
 * Ring (one memfd per pair of VIs, written by both programs): way[i] has the messages from end i to
 * the other end. Each program keeps its positions in private memory and never reads its own words.
 */
#ifndef VIP_PROTO_DIRECT_H
#define VIP_PROTO_DIRECT_H

#include "proto/ring.h"

/* ---- table of receive descriptors ------------------------------------------------------- */

/* First cache line of the table of one VI. */
struct vip_recv_head {
    uint32_t posted; /* number of receive descriptors posted since the VI's creation */
    uint32_t pad0;
    /* Counters for vipctl. They are not in the ring, because the peer can write to the ring. */
    uint64_t taken;      /* messages that this end has read from the VI's ring */
    uint64_t bytes;      /* bytes of the messages that this end has read */
    uint64_t sent;       /* messages that this end has sent by the ring */
    uint64_t sent_bytes; /* bytes of the messages that this end has sent */
    uint8_t pad1[24];
};
_Static_assert(sizeof(struct vip_recv_head) == 64, "ABI");

#define VIP_RECV_SLOTS_OFF 64u
#define VIP_RECV_CONTS_OFF (VIP_RECV_SLOTS_OFF + VIP_DESC_PER_QUEUE_MAX * 64u)
#define VIP_RECV_STRIDE    ((VIP_RECV_CONTS_OFF + VIP_SQ_SLOTS * 64u + 4095u) & ~4095u)
#define VIP_RECV_BYTES     ((uint64_t)VIP_VI_MAX * VIP_RECV_STRIDE)

static inline struct vip_recv_head *vip_recv_head(void *base, uint16_t vi)
{
    return (struct vip_recv_head *)(void *)((char *)base + (uint64_t)vi * VIP_RECV_STRIDE);
}

static inline struct vip_sq_slot *vip_recv_slot(void *base, uint16_t vi, uint32_t k)
{
    return (struct vip_sq_slot *)(void *)((char *)vip_recv_head(base, vi) + VIP_RECV_SLOTS_OFF) +
           (k & (VIP_DESC_PER_QUEUE_MAX - 1));
}

/* A ring of slots for the further segments of long receive descriptors. `imm` in the slot of a
 * descriptor is the position of its first slot in this ring. */
static inline struct vip_sq_slot *vip_recv_conts(void *base, uint16_t vi)
{
    return (struct vip_sq_slot *)(void *)((char *)vip_recv_head(base, vi) + VIP_RECV_CONTS_OFF);
}

/* libvipl: write receive descriptor k. Number k - 1024, in the same slot, must have completed. */
static inline void vip_recv_write(void *base, uint16_t vi, uint32_t k,
                                  const struct vip_sq_slot *slot)
{
    vip_slot_write(vip_recv_slot(base, vi, k), k + 1, slot);
    vip_store32_release(&vip_recv_head(base, vi)->posted, k + 1); /* [table TELL] */
}

/* vipd: copy receive descriptor k of VI generation `gen` to *ret. False: it is not posted. */
static inline bool vip_recv_read(void *base, uint16_t vi, uint32_t gen, uint32_t k,
                                 struct vip_sq_slot *ret)
{
    return vip_slot_read(vip_recv_slot(base, vi, k), k + 1, ret) && ret->vi_gen == gen;
}

/* ---- ring ------------------------------------------------------------------------------- */

#define VIP_DIRECT_BYTES_MAX 4096u /* longest message; vipd is faster for longer ones (one copy) */
#define VIP_DIRECT_SLOTS     1024u /* limit of messages under way; each uses a posted descriptor */
#define VIP_DIRECT_LINES     1024u /* cache lines for messages that do not fit in their slots */
#define VIP_DIRECT_INLINE    48u   /* bytes of the longest message that fits in its slot */
#define VIP_DIRECT_IMMEDIATE 1u    /* flag: all 64 bits of imm are valid */

/* One message. */
struct vip_direct_slot {
    uint32_t stamp; /* number of the message + 1, stored last */
    uint16_t len;   /* bytes, 0..VIP_DIRECT_BYTES_MAX */
    uint8_t flags;
    uint8_t reserved0;
    uint64_t imm;
    union {
        uint8_t bytes[VIP_DIRECT_INLINE]; /* if len <= VIP_DIRECT_INLINE */
        uint32_t line;                    /* if longer: first line of its bytes in way.data */
    };
};
_Static_assert(sizeof(struct vip_direct_slot) == 64, "ABI");
_Static_assert(offsetof(struct vip_direct_slot, bytes) == 16, "ABI");

/* The messages of one direction. */
struct vip_direct_way {
    /* Written by the sender, read by vipd. */
    uint64_t sent; /* number of messages sent */
    uint8_t pad1[56];
    /* Written by the receiver. */
    uint32_t taken; /* number of messages read; their slots and lines are free again */
    uint8_t pad2[60];
    uint32_t asleep; /* not 0: the receiver does not poll; send through vipd, which wakes it */
    uint8_t pad3[60];
    uint8_t pad4[4096 - 192];
    /* The receiver writes element n modulo 1024 for message n. Upper half: n + 1 if a receive
     * descriptor is posted and message n may use it. Lower half: bytes of room in the
     * descriptor. */
    uint64_t lend[VIP_DESC_PER_QUEUE_MAX];
    /* Written by the sender. */
    struct vip_direct_slot slot[VIP_DIRECT_SLOTS];
    uint8_t data[VIP_DIRECT_LINES][64];
};
_Static_assert(offsetof(struct vip_direct_way, lend) == 4096, "ABI");
_Static_assert(sizeof(struct vip_direct_way) % 4096 == 0, "ABI");

struct vip_direct {
    struct vip_direct_way way[2];
};

#define VIP_DIRECT_MASK (VIP_DIRECT_SLOTS - 1)

/* The sender's private state of a way. */
struct vip_direct_out {
    struct vip_direct_way *way;
    uint64_t sent;   /* number of messages written */
    uint32_t freed;  /* number of messages that the receiver has read: last value of way.taken */
    uint32_t line;   /* next free line, modulo 2^32 */
    uint32_t oldest; /* oldest line in use, modulo 2^32 */
    uint64_t bytes;  /* sum of the bytes of all messages written */
    uint32_t line_behind[VIP_DIRECT_SLOTS]; /* per slot: value of `line` after its message */
};

/* Load the number of messages that the receiver has read. Ignore an impossible number. */
static inline void vip_direct_look_freed(struct vip_direct_out *out)
{
    uint32_t taken = vip_load32_acquire(&out->way->taken);

    if (taken - out->freed > (uint32_t)out->sent - out->freed || taken == out->freed)
        return;
    out->freed = taken;
    out->oldest = out->line_behind[(taken - 1) & VIP_DIRECT_MASK];
}

/* Number of lines that a message of len bytes needs from `line` on. A message does not wrap around,
 * so it may skip the last lines, which also count. *ret_first: first line of the message. */
static inline uint32_t vip_direct_lines(uint32_t line, uint32_t len, uint32_t *ret_first)
{
    uint32_t lines = len > VIP_DIRECT_INLINE ? (len + 63) / 64 : 0;
    uint32_t at = line % VIP_DIRECT_LINES;
    uint32_t skip = at + lines > VIP_DIRECT_LINES ? VIP_DIRECT_LINES - at : 0;

    *ret_first = line + skip;
    return skip + lines;
}

static inline bool vip_direct_fits(const struct vip_direct_out *out, uint32_t len)
{
    uint32_t first;

    return (uint32_t)out->sent - out->freed < VIP_DIRECT_SLOTS &&
           out->line - out->oldest + vip_direct_lines(out->line, len, &first) <= VIP_DIRECT_LINES;
}

/* sender: is there room for one more message of len bytes? */
static inline bool vip_direct_room(struct vip_direct_out *out, uint32_t len)
{
    if (vip_direct_fits(out, len))
        return true;
    vip_direct_look_freed(out);
    return vip_direct_fits(out, len);
}

/* sender: the place for the bytes of the next message; the caller must check the room before. */
static inline uint8_t *vip_direct_place(struct vip_direct_out *out, uint32_t len)
{
    struct vip_direct_slot *slot = &out->way->slot[out->sent & VIP_DIRECT_MASK];
    uint32_t first;

    if (len <= VIP_DIRECT_INLINE)
        return slot->bytes;
    (void)vip_direct_lines(out->line, len, &first);
    return out->way->data[first % VIP_DIRECT_LINES];
}

/* sender: send the next message; its bytes must be in place. */
static inline void vip_direct_send(struct vip_direct_out *out, uint32_t len, uint8_t flags,
                                   uint64_t imm)
{
    struct vip_direct_slot *slot = &out->way->slot[out->sent & VIP_DIRECT_MASK];
    uint32_t first, lines = vip_direct_lines(out->line, len, &first);

    slot->len = (uint16_t)len;
    slot->flags = flags;
    slot->imm = imm;
    if (len > VIP_DIRECT_INLINE)
        slot->line = first % VIP_DIRECT_LINES;
    out->line += lines;
    out->line_behind[out->sent & VIP_DIRECT_MASK] = out->line;
    out->bytes += len;
    vip_store32_release(&slot->stamp, (uint32_t)++out->sent); /* [pair STAMP] */
    /* Store way.sent after the stamp: from way.sent on, vipd looks for further stamped messages. */
    __atomic_store_n(&out->way->sent, out->sent, __ATOMIC_RELEASE);
}

/* receiver, vipd: has message n been written? */
static inline bool vip_direct_there(const struct vip_direct_way *way, uint32_t n)
{
    /* [pair READ] [order NEXT] */
    return vip_load32_acquire(&way->slot[n & VIP_DIRECT_MASK].stamp) == n + 1;
}

/*
 * receiver: read message n; vip_direct_there must be true. *ret is a private copy of its slot.
 * Returns the bytes of the message: in *ret, or in the ring, where the peer may still change them.
 * NULL: the slot is malformed; no libvipl writes such a slot.
 */
static inline const uint8_t *vip_direct_read(const struct vip_direct_way *way, uint32_t n,
                                             struct vip_direct_slot *ret)
{
    const struct vip_direct_slot *from = &way->slot[n & VIP_DIRECT_MASK];
    const uint64_t *words = (const uint64_t *)(const void *)from;
    uint64_t copy[8];

    for (unsigned i = 0; i < 8; i++)
        copy[i] = vip_load64(&words[i]);
    memcpy(ret, copy, sizeof(*ret));
    if (ret->len > VIP_DIRECT_BYTES_MAX || (ret->flags & ~VIP_DIRECT_IMMEDIATE))
        return NULL;
    if (ret->len <= VIP_DIRECT_INLINE)
        return ret->bytes;
    if (ret->line >= VIP_DIRECT_LINES || ret->line + (ret->len + 63u) / 64 > VIP_DIRECT_LINES)
        return NULL;
    return way->data[ret->line];
}

/* receiver: allow message n, because a receive descriptor with `room` bytes is posted for it. */
static inline void vip_direct_lend(struct vip_direct_way *way, uint32_t n, uint32_t room)
{
    __atomic_store_n(&way->lend[n & (VIP_DESC_PER_QUEUE_MAX - 1)], (uint64_t)(n + 1) << 32 | room,
                     __ATOMIC_RELEASE);
}

/* sender: is a receive descriptor with room for len bytes posted for message n? */
static inline bool vip_direct_lent(const struct vip_direct_way *way, uint32_t n, uint32_t len)
{
    uint64_t lend = __atomic_load_n(&way->lend[n & (VIP_DESC_PER_QUEUE_MAX - 1)], __ATOMIC_ACQUIRE);

    return lend >> 32 == n + 1 && (uint32_t)lend >= len;
}

#endif

/*
 * Writer and reader of the three shared rings (proto/shm.h): submission, completion, CQ entries.
 *
 * Owns: stamps, masking, the rule of one load per word, the order of stores. The functions are
 * inline, because each post and each poll calls them. Does not own: sleeping and waking
 * (libvipl/sleep.c, vipd/client/), the meaning of an entry.
 *
 * Writer and reader keep their positions in private memory. Neither trusts the other: a reader
 * copies the whole slot to private memory and checks the copy.
 */
#ifndef VIP_PROTO_RING_H
#define VIP_PROTO_RING_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "proto/fence.h"
#include "proto/fetch.h"
#include "proto/shm.h"
#include "proto/store.h"

/* Load a word that the other process may change at any time, with exactly one load. */
static inline uint32_t vip_load32(const uint32_t *foreign)
{
    vip_fetch_note(foreign, sizeof(*foreign));
    return __atomic_load_n(foreign, __ATOMIC_RELAXED);
}

static inline uint32_t vip_load32_acquire(const uint32_t *foreign)
{
    vip_fetch_note(foreign, sizeof(*foreign));
    return __atomic_load_n(foreign, __ATOMIC_ACQUIRE);
}

static inline uint64_t vip_load64(const uint64_t *foreign)
{
    vip_fetch_note(foreign, sizeof(*foreign));
    return __atomic_load_n(foreign, __ATOMIC_RELAXED);
}

static inline uint64_t vip_load64_acquire(const uint64_t *foreign)
{
    vip_fetch_note(foreign, sizeof(*foreign));
    return __atomic_load_n(foreign, __ATOMIC_ACQUIRE);
}

/* vipd: load a word of vipd's segment that an earlier life of vipd may have written. */
static inline uint32_t vip_load32_own(const uint32_t *own)
{
    return __atomic_load_n(own, __ATOMIC_ACQUIRE);
}

/* Store a word that the other process reads; all earlier stores are visible before it. */
static inline void vip_store32_release(uint32_t *own, uint32_t value)
{
    __atomic_store_n(own, value, __ATOMIC_RELEASE);
    vip_store_note();
}

/* Write a submission slot: first its contents, last `stamp`. The caller must hold the session's
 * post lock and check that the slot is free. slot->stamp is ignored. */
static inline void vip_slot_write(struct vip_sq_slot *to, uint32_t stamp,
                                  const struct vip_sq_slot *slot)
{
    memcpy((char *)to + 4, (const char *)slot + 4, sizeof(*slot) - 4);
    vip_store32_release(&to->stamp, stamp); /* [doorbell STAMP] [order POST] */
}

static inline void vip_sq_write(struct vip_sq_slot *ring, uint32_t position,
                                const struct vip_sq_slot *slot)
{
    vip_slot_write(&ring[position & (VIP_SQ_SLOTS - 1)], position + 1, slot);
}

/* Copy a slot that the other process writes, if it has this stamp. Outcomes: true, and *ret is a
 * private copy, with every word loaded once; false if the stamp differs. */
static inline bool vip_slot_read(const struct vip_sq_slot *from, uint32_t stamp,
                                 struct vip_sq_slot *ret)
{
    const uint64_t *words = (const uint64_t *)(const void *)from;
    uint64_t *copy = (uint64_t *)(void *)ret;
    uint32_t *head = (uint32_t *)(void *)ret;

    _Static_assert(sizeof(*ret) == 8 * sizeof(*copy) && _Alignof(struct vip_sq_slot) == 8,
                   "the whole slot");
    if (vip_load32_acquire(&from->stamp) != stamp) /* [doorbell READ] [order COUNT] */
        return false;
    head[0] = stamp;
    head[1] = vip_load32(&from->stamp + 1);
#pragma GCC unroll 7
    for (unsigned i = 1; i < 8; i++)
        copy[i] = vip_load64(&words[i]);
    return true;
}

/* vip_slot_read for the slot at `position` of a submission ring. */
static inline bool vip_sq_read(const struct vip_sq_slot *ring, uint32_t position,
                               struct vip_sq_slot *ret)
{
    return vip_slot_read(&ring[position & (VIP_SQ_SLOTS - 1)], position + 1, ret);
}

/* vipd: write the completion at `position` without its stamp; libvipl does not see it yet. */
static inline void vip_comp_fill(struct vip_comp *to, uint32_t position,
                                 const struct vip_comp *comp)
{
    to->status = comp->status;
    to->length = comp->length;
    to->direct = comp->direct;
    to->imm = comp->imm;
    to->number = position;
    vip_store_note();
}

/* vipd: make the completion visible; returns the new number of completions, for the futex word. */
static inline uint32_t vip_comp_stamp(struct vip_comp *to, uint32_t position)
{
    vip_store32_release(&to->stamp, position + 1); /* [completion STAMP] */
    return position + 1;
}

/* Make the word that names a ring at this offset of the segment. slots: a power of two. */
static inline struct vip_comp_at vip_comp_at(uint32_t since, uint64_t offset, uint32_t slots)
{
    return (struct vip_comp_at){.since = since,
                                .where = (uint32_t)(offset / VIP_COMP_UNIT) << 4 |
                                         (uint32_t)__builtin_ctz(slots)};
}

/* vipd: tell libvipl that all later completions are in another ring. */
static inline void vip_comp_at_write(struct vip_comp_at *own, struct vip_comp_at value)
{
    uint64_t word;

    memcpy(&word, &value, sizeof(word));
    __atomic_store_n((uint64_t *)(void *)own, word, __ATOMIC_RELEASE); /* [rings AT] */
    vip_store_note();
}

static inline struct vip_comp_at vip_comp_at_read(const struct vip_comp_at *from)
{
    /* [rings RING] */
    uint64_t word = __atomic_load_n((const uint64_t *)(const void *)from, __ATOMIC_ACQUIRE);
    struct vip_comp_at ret;

    memcpy(&ret, &word, sizeof(ret));
    return ret;
}

/* vipd: commit one operation. */
static inline void vip_commit_write(struct vip_commit *own, struct vip_commit value)
{
    uint64_t word;

    memcpy(&word, &value, sizeof(word));
    __atomic_store_n((uint64_t *)(void *)own, word, __ATOMIC_RELEASE);
    vip_store_note();
}

static inline struct vip_commit vip_commit_read(const struct vip_commit *from)
{
    uint64_t word = __atomic_load_n((const uint64_t *)(const void *)from, __ATOMIC_ACQUIRE);
    struct vip_commit ret;

    memcpy(&ret, &word, sizeof(ret));
    return ret;
}

/* libvipl: read the completion at `position` of a ring with mask + 1 slots. False: vipd has not
 * written it yet. */
static inline bool vip_comp_read(const struct vip_comp *ring, uint32_t mask, uint32_t position,
                                 struct vip_comp *ret)
{
    const struct vip_comp *from = &ring[position & mask];

    if (vip_load32_acquire(&from->stamp) != position + 1) /* [completion READ] */
        return false;
    ret->stamp = position + 1;
    ret->status = vip_load32(&from->status);
    ret->length = vip_load32(&from->length);
    ret->direct = vip_load32(&from->direct);
    ret->imm = vip_load64(&from->imm);
    ret->number = vip_load32(&from->number);
    return true;
}

/* vipd: append an entry to a CQ ring. The caller must check the room (position - cons < slots). */
static inline uint32_t vip_cq_write(struct vip_cqe *ring, uint32_t position, uint16_t vi,
                                    uint8_t queue, uint8_t gen)
{
    struct vip_cqe *to = &ring[position & (VIP_CQ_RING_SLOTS - 1)];
    struct vip_cqe entry = {.stamp = position + 1, .vi = vi, .queue = queue, .gen = gen};
    uint64_t word;

    memcpy(&word, &entry, sizeof(word));
    __atomic_store_n((uint64_t *)(void *)to, word, __ATOMIC_RELEASE); /* [cq ENTRY] */
    vip_store_note();
    return position + 1;
}

/* libvipl: read the CQ entry at `position`. False: vipd has not written it yet. */
static inline bool vip_cq_read(const struct vip_cqe *ring, uint32_t position, struct vip_cqe *ret)
{
    const struct vip_cqe *from = &ring[position & (VIP_CQ_RING_SLOTS - 1)];
    /* [cq READ] */
    uint64_t word = __atomic_load_n((const uint64_t *)(const void *)from, __ATOMIC_ACQUIRE);

    memcpy(ret, &word, sizeof(*ret));
    return ret->stamp == position + 1;
}

/* Addresses of the parts of the two segments. `base`: address of the segment in this process. */
static inline struct vip_sq_slot *vip_app_sq(void *base)
{
    return (struct vip_sq_slot *)(void *)((char *)base + VIP_APP_SQ_OFF);
}

static inline struct vip_app_vi *vip_app_vi(void *base, uint16_t vi)
{
    return (struct vip_app_vi *)(void *)((char *)base + VIP_APP_VI_OFF) + vi;
}

static inline struct vip_app_cq *vip_app_cq(void *base, uint32_t cq)
{
    return (struct vip_app_cq *)(void *)((char *)base + VIP_APP_CQ_OFF) + cq;
}

static inline struct vip_vipd_cq *vip_vipd_cq(void *base, uint32_t cq)
{
    return (struct vip_vipd_cq *)(void *)((char *)base + VIP_VIPD_CQ_OFF +
                                          (uint64_t)cq * VIP_VIPD_CQ_STRIDE);
}

static inline struct vip_cqe *vip_vipd_cq_ring(void *base, uint32_t cq)
{
    return (struct vip_cqe *)(void *)(vip_vipd_cq(base, cq) + 1);
}

static inline struct vip_vipd_vi *vip_vipd_vi(void *base, uint16_t vi)
{
    return (struct vip_vipd_vi *)(void *)((char *)base + VIP_VIPD_VI_OFF) + vi;
}

/* Offset of the short ring of a work queue; next function: offset of the long ring. */
static inline uint64_t vip_comp_short_off(uint16_t vi, unsigned queue)
{
    return VIP_VIPD_SHORT_OFF + (2u * vi + queue) * (uint64_t)VIP_COMP_UNIT;
}

static inline uint64_t vip_comp_long_off(uint16_t vi, unsigned queue)
{
    return VIP_VIPD_LONG_OFF + (2u * vi + queue) * (uint64_t)VIP_COMP_RING_BYTES;
}

static inline struct vip_comp *vip_comp_ring(void *base, uint64_t offset)
{
    return (struct vip_comp *)(void *)((char *)base + offset);
}

#endif

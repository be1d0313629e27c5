/*
 * VipPostSend, VipPostRecv (spec 2.6, 3.3, 3.4), VipxPostSendImm64, VipxPostWriteMessage: copy the
 * descriptor into the submission ring, or use the session's table of receives and the VI's ring
 * (direct.h).
 *
 * This file checks the place of the descriptor (alignment, its own region) and the number of
 * outstanding descriptors. vipd checks the contents of the descriptor when it processes the
 * descriptor; the descriptor's status shows the result. Usually a post makes no system call while
 * vipd is awake. Only keeps() allocates memory.
 */
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "libvipl/cq_fd.h"
#include "libvipl/direct.h"
#include "libvipl/error.h"
#include "libvipl/lent.h"
#include "libvipl/callback.h"
#include "libvipl/session.h"
#include "libvipl/slot.h"
#include "libvipl/sq.h"
#include "libvipl/vipl_ext.h"
#include "proto/wire.h"

/* Outcome of one try to post. */
enum outcome {
    POSTED,
    BAD_VI,     /* the VI was destroyed meanwhile */
    BAD_REGION, /* the descriptor is not in the region of the given handle */
    OVERRUN,    /* too many descriptors outstanding */
    RING_FULL,  /* there is room when vipd has taken slots out of the ring */
    /* The outcomes below occur only in a session with a table of receives. */
    TABLED,   /* the receive is in the table, not in the submission ring */
    NO_CONTS, /* the receive is in the table without its segments (no room), and will fail */
    SENT,     /* the send is in the ring to the peer */
    LENT,     /* the send is in the table of sends of a VI on loan */
    WAIT,     /* wait for earlier sends, then try to send by the ring */
};

/*
 * Make the first slot of a descriptor, and write its other segments and its message into the
 * submission ring, which has room for all these slots.
 */
static inline struct vip_sq_slot submission(struct vipl__session *session,
                                            const struct vipl__vi *vi, const VIP_DESCRIPTOR *desc,
                                            enum vip_queue which, unsigned seg_count,
                                            const struct vipl__extra *extra)
{
    if (seg_count > VIP_SQ_INLINE_SEGS)
        vipl__slot_segs(vip_app_sq(session->app_base), session->sq_position + 1, vi, desc,
                        seg_count, extra);
    if (extra->message_bytes > 0)
        vipl__slot_message(vip_app_sq(session->app_base), vi, extra,
                           session->sq_position + VIP_SQ_SLOTS_FOR(seg_count));
    return vipl__slot_first(vi, desc, which, seg_count, extra);
}

/*
 * Make the first slot of a receive for the table (proto/direct.h), and write its continuation
 * slots. False: the table has no room for the continuation slots. The receive then still has its
 * place in the queue, but it will fail.
 */
static bool table_slot(struct vipl__vi *vi, const VIP_DESCRIPTOR *desc, unsigned seg_count,
                       const struct vipl__extra *extra, struct vip_sq_slot *ret)
{
    struct vipl__queue *queue = &vi->queue[VIP_Q_RECV];
    uint32_t conts = VIP_SQ_SLOTS_FOR(seg_count) - 1;

    *ret = vipl__slot_first(vi, desc, VIP_Q_RECV, seg_count, extra);
    if (__builtin_expect(conts == 0, 1))
        return true;
    if (__atomic_load_n(&queue->conts_used, __ATOMIC_ACQUIRE) + conts > VIP_SQ_SLOTS) {
        ret->control |= VIP_CONTROL_RESERVED;
        ret->seg_count = 0;
        return false;
    }
    ret->imm = queue->conts;
    vipl__slot_segs(vip_recv_conts(vi->session->recv_base, vi->index), queue->conts, vi, desc,
                    seg_count, extra);
    queue->conts += conts;
    __atomic_add_fetch(&queue->conts_used, conts, __ATOMIC_RELAXED);
    return true;
}

/* At a post, clear the fields that the library writes: Status, Next and NextHandle (spec 3.3). */
static inline void clear(VIP_DESCRIPTOR *desc)
{
    desc->CS.Status = 0;
    desc->CS.Next.AddressBits = 0;
    desc->CS.NextHandle = 0;
}

/*
 * Put the descriptor on its queue. Call this before vipd or the peer can see the post: a thread
 * that gets the completion must find the descriptor on the queue.
 */
static inline void enqueue(const struct vipl__session *session, struct vipl__queue *queue,
                           uint32_t posted, VIP_DESCRIPTOR *desc, VIP_MEM_HANDLE region,
                           uint8_t how)
{
    queue->how[posted & (VIP_DESC_PER_QUEUE_MAX - 1)] = how;
    queue->fifo[posted & (VIP_DESC_PER_QUEUE_MAX - 1)] = desc;
    queue->origin[posted & (VIP_DESC_PER_QUEUE_MAX - 1)] = (struct vipl__origin){
        .region_epoch = __atomic_load_n(&session->region_epoch, __ATOMIC_RELAXED),
        .region = region};
    __atomic_store_n(&queue->posted, posted + 1, __ATOMIC_RELEASE);
}

/* Keep the data in `extra` for a next vipd, because the descriptor does not contain this data.
 * Returns the value for queue->how. Under post_lock. */
static __attribute__((noinline)) uint8_t keep(struct vipl__queue *queue, uint32_t posted,
                                              const struct vipl__extra *extra)
{
    uint32_t slot = posted & (VIP_DESC_PER_QUEUE_MAX - 1);

    if (extra->bad_seg >= 0)
        return extra->flags | VIPL__HOW_BAD;
    if ((extra->flags & VIP_SQF_IMM64) != 0 && queue->imm != NULL)
        queue->imm[slot] = extra->imm;
    if ((extra->flags & VIP_SQF_MSG) != 0 && queue->message != NULL) {
        queue->message[slot].len = (uint16_t)extra->message_bytes;
        memcpy(queue->message[slot].bytes, extra->message, extra->message_bytes);
    }
    return extra->flags;
}

/* Allocate the memory that keep() writes, once per queue; it is never freed. False: no memory. */
static __attribute__((cold, noinline)) bool keeps(struct vipl__queue *queue, uint8_t flags)
{
    void *mine, *none = NULL;
    void **at = (flags & VIP_SQF_MSG) != 0 ? (void **)&queue->message : (void **)&queue->imm;

    if (__atomic_load_n(at, __ATOMIC_ACQUIRE) != NULL)
        return true;
    mine = calloc(VIP_DESC_PER_QUEUE_MAX,
                  (flags & VIP_SQF_MSG) != 0 ? sizeof(*queue->message) : sizeof(*queue->imm));
    if (mine != NULL &&
        !__atomic_compare_exchange_n(at, &none, mine, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST))
        free(mine); /* another thread has stored its memory first */
    return mine != NULL;
}

/*
 * Put the descriptor on its queue. Also put it into the submission ring, unless vipd is gone or has
 * refused the VI.
 */
static inline enum outcome post_by_vipd(struct vipl__vi *vi, VIP_DESCRIPTOR *desc,
                                        VIP_MEM_HANDLE region, enum vip_queue which,
                                        const struct vipl__extra *extra, uint32_t posted)
{
    struct vipl__session *session = vi->session;
    bool gone = vipl__in_trouble(session) && (vipl__is_gone(session) || vipl__vi_is_dead(vi));
    unsigned seg_count = vipl__slot_segments(desc);
    uint32_t slots = VIP_SQ_SLOTS_FOR(seg_count) + VIP_SQ_SLOTS_FOR_MSG(extra->message_bytes);
    struct vip_sq_slot slot;

    if (!gone && !vipl__sq_has_room(session, slots))
        return RING_FULL;
    clear(desc);
    if (!gone)
        slot = submission(session, vi, desc, which, seg_count, extra);
    enqueue(session, &vi->queue[which], posted, desc, region,
            __builtin_expect(extra == &vipl__no_extra, 1) ? 0
                                                          : keep(&vi->queue[which], posted, extra));
    if (!gone) {
        vip_sq_write(vip_app_sq(session->app_base), session->sq_position, &slot);
        session->sq_position += slots;
    }
    return POSTED;
}

/* ---- sessions with a table of receives (direct.h) ------------------------------------------- */

/* Put a receive into the table and on its queue; vipd reads the table when it needs a receive. */
static enum outcome post_to_table(struct vipl__vi *vi, VIP_DESCRIPTOR *desc, VIP_MEM_HANDLE region,
                                  const struct vipl__extra *extra, uint32_t posted)
{
    struct vipl__session *session = vi->session;
    struct vip_sq_slot slot;
    bool room;

    clear(desc);
    room = table_slot(vi, desc, vipl__slot_segments(desc), extra, &slot);
    enqueue(session, &vi->queue[VIP_Q_RECV], posted, desc, region,
            __builtin_expect(extra == &vipl__no_extra, 1)
                ? 0
                : keep(&vi->queue[VIP_Q_RECV], posted, extra));
    vip_recv_write(session->recv_base, vi->index, posted, &slot);
    vipl__direct_lend(vi, posted);
    return room ? TABLED : NO_CONTS;
}

/* ---- VIs on loan (lent.h) ------------------------------------------------------------------- */

/* Put a send on its queue and into the table of sends. The program's engine takes it from there;
 * vipd does, when it takes the loan back. */
static __attribute__((noinline)) enum outcome
post_on_loan(struct vipl__vi *vi, VIP_DESCRIPTOR *desc, VIP_MEM_HANDLE region,
             const struct vipl__extra *extra, uint32_t posted)
{
    struct vipl__queue *queue = &vi->queue[VIP_Q_SEND];

    if (!vipl__lent_room(vipl__lent_of(vi), desc, extra))
        return RING_FULL;
    clear(desc);
    vipl__direct_passed(vi, desc->CS.Control & VIP_CONTROL_OP_MASK);
    enqueue(vi->session, queue, posted, desc, region,
            __builtin_expect(extra == &vipl__no_extra, 1) ? 0 : keep(queue, posted, extra));
    vipl__lent_write(vipl__lent_of(vi), posted, desc, extra);
    return LENT;
}

/* ---- VIs with a ring (direct.h) -------------------------------------------------------------- */

/* May this send go by the ring? */
static enum vipl__way way_of(struct vipl__vi *vi, const VIP_DESCRIPTOR *desc,
                             const struct vipl__extra *extra, bool waited,
                             struct vipl__direct_message *ret)
{
    bool imm64 = (extra->flags & VIP_SQF_IMM64) != 0;
    bool has_imm = imm64 || (desc->CS.Control & VIP_CONTROL_IMMEDIATE) != 0;

    if (extra->bad_seg >= 0 || extra->message_bytes > 0)
        return VIPL__WAY_NO;
    ret->flags = has_imm ? VIP_DIRECT_IMMEDIATE : 0;
    ret->imm = imm64 ? extra->imm : desc->CS.ImmediateData;
    return vipl__direct_post(vi, desc, ret, waited);
}

/*
 * Post a send on a VI that has a ring. True: *ret is the outcome; false: the send must go through
 * vipd. The function is not inlined, so that a post on another VI needs less code.
 */
static __attribute__((noinline)) bool send_by_ring(struct vipl__vi *vi, VIP_DESCRIPTOR *desc,
                                                   VIP_MEM_HANDLE region,
                                                   const struct vipl__extra *extra, uint32_t posted,
                                                   bool waited, enum outcome *ret)
{
    struct vipl__queue *queue = &vi->queue[VIP_Q_SEND];
    struct vipl__direct_message message;

    switch (way_of(vi, desc, extra, waited, &message)) {
    case VIPL__WAY_LATER:
        *ret = WAIT;
        return true;
    case VIPL__WAY_YES:
        clear(desc);
        enqueue(vi->session, queue, posted, desc, region, VIPL__HOW_RING);
        vipl__direct_commit(vi, &message);
        *ret = SENT;
        return true;
    case VIPL__WAY_NO:
        break;
    }
    return false;
}

/* ---- both --------------------------------------------------------------------------------- */

static enum outcome try_post(struct vipl__vi *vi, uint64_t handle, VIP_DESCRIPTOR *desc,
                             VIP_MEM_HANDLE region, enum vip_queue which,
                             const struct vipl__extra *extra, bool waited)
{
    struct vipl__session *session = vi->session;
    struct vipl__queue *queue = &vi->queue[which];
    bool tabled, send = which == VIP_Q_SEND;
    enum outcome outcome;
    uint32_t posted;
    unsigned op;

    if (!vipl__vi_is(vi, handle))
        return BAD_VI;
    if (!vipl__slot_in_region(session, vi, desc, region))
        return BAD_REGION;
    posted = __atomic_load_n(&queue->posted, __ATOMIC_RELAXED);
    if (posted - __atomic_load_n(&queue->reaped, __ATOMIC_ACQUIRE) >= session->desc_max)
        return OVERRUN;
    tabled = session->direct;
    if (tabled && !send && !vipl__vi_is_dead(vi))
        return post_to_table(vi, desc, region, extra, posted);
    if (tabled && send && __builtin_expect(vipl__lent_of(vi) != NULL, 0)) {
        if (vipl__lent_out(vipl__lent_of(vi)))
            return post_on_loan(vi, desc, region, extra, posted);
        if (!vipl__lent_ask_first(vipl__lent_of(vi)))
            return RING_FULL;
    }
    if (tabled && send && vipl__direct_of(vi) != NULL &&
        send_by_ring(vi, desc, region, extra, posted, waited, &outcome))
        return outcome;
    op = desc->CS.Control & VIP_CONTROL_OP_MASK; /* after the post, others may reuse desc */
    outcome = post_by_vipd(vi, desc, region, which, extra, posted);
    if (send && outcome == POSTED)
        vipl__direct_passed(vi, op);
    return outcome;
}

/*
 * If `in`, check that the bytes of a staged segment can be written. Otherwise copy the bytes out
 * for vipd. False if the bytes are not accessible. A receive segment may be longer than its region:
 * only its bytes in the region count.
 */
static bool stage_segment(struct vipl__session *session, const VIP_DATA_SEGMENT *seg, bool in,
                          bool recv)
{
    const struct vipl__region *region;
    uintptr_t addr = (uintptr_t)seg->Data.AddressBits;
    size_t bytes = seg->Length;

    vipl__spin_lock(&session->post_lock);
    region = vipl__region_find(&session->regions, seg->Handle);
    vipl__spin_unlock(&session->post_lock);
    if (region == NULL || region->mem.kind != VIPL__MEM_STAGED)
        return true;
    if (recv && bytes > vipl__region_rest(region, addr))
        bytes = vipl__region_rest(region, addr);
    if (bytes == 0 || !vipl__region_holds(region, addr, bytes))
        return true;
    return in ? vipl__mem_stage_takes(addr, bytes) : vipl__mem_stage_out(&region->mem, addr, bytes);
}

/*
 * Copy data in staged regions out before vipd sees the post. vipd finds all errors of segments
 * except one: memory that the program has made inaccessible since its registration. Returns the
 * number of a segment with such memory; -1 = none.
 */
static int stage(struct vipl__session *session, const VIP_DESCRIPTOR *desc, enum vip_queue which)
{
    const VIP_DATA_SEGMENT *segs = &desc->DS[0].Local;
    unsigned op = desc->CS.Control & VIP_CONTROL_OP_MASK;
    unsigned count = vipl__slot_segments(desc);
    bool in = which == VIP_Q_RECV || op == VIP_CONTROL_OP_RDMAREAD;
    int bad_seg = -1;

    pthread_mutex_lock(&session->region_lock);
    for (unsigned i = op == VIP_CONTROL_OP_SENDRECV ? 0 : 1; i < count; i++)
        if (!stage_segment(session, &segs[i], in, which == VIP_Q_RECV))
            bad_seg = (int)i;
    pthread_mutex_unlock(&session->region_lock);
    return bad_seg;
}

/* Call stage() if the descriptor lies in its region and so is readable. Otherwise return -1. */
static int stage_if_readable(struct vipl__vi *vi, const VIP_DESCRIPTOR *desc, VIP_MEM_HANDLE region,
                             enum vip_queue which)
{
    bool readable;

    vipl__spin_lock(&vi->session->post_lock);
    readable = vipl__slot_in_region(vi->session, vi, desc, region);
    vipl__spin_unlock(&vi->session->post_lock);
    return readable ? stage(vi->session, desc, which) : -1;
}

/*
 * Report an error that no descriptor's Status can show: send the asynchronous error
 * VIP_ERROR_POST_DESC or VIP_ERROR_VI_OVERRUN.
 */
static VIP_RETURN fault(VIP_VI_HANDLE handle, const char *call, VIP_DESCRIPTOR *desc,
                        VIP_ERROR_CODE code, VIP_ULONG opcode, const char *why)
{
    struct vipl__vi *vi = vipl__vi_enter(handle, call);

    if (vi == NULL)
        return VIP_INVALID_PARAMETER;
    vipl__async_error(vi->session,
                      code == VIP_ERROR_VI_OVERRUN ? VIP_RESOURCE_VI : VIP_RESOURCE_DESCRIPTOR,
                      code, vi, desc, opcode, why);
    vipl__leave(vi->session);
    vipl__outcome(VIP_SUCCESS, why);
    return VIP_SUCCESS;
}

static VIP_RETURN ring_full(const char *call)
{
    return vipl__fail(
        VIP_ERROR_RESOURCE,
        "%s: vipd has taken nothing from the submission ring (%d slots) for a second; "
        "is it stopped or overloaded?",
        call, VIP_SQ_SLOTS);
}

/* A post after vipd's death, or on a refused VI, completes as flushed at once. vipd cannot signal
 * this completion, so the library does. */
static void posted_to_the_dead(VIP_VI_HANDLE handle, enum vip_queue which, const char *call)
{
    struct vipl__vi *vi = vipl__vi_enter(handle, call);
    struct vipl__cq *cq;

    if (vi == NULL)
        return;
    cq = __atomic_load_n(&vi->queue[which].cq, __ATOMIC_RELAXED);
    if (cq != NULL)
        vipl__cq_fd_flushed(cq);
    vipl__notify_poke(vi->session);
    vipl__leave(vi->session);
}

/*
 * Is the VI connected to a peer without VIP_FEATURE_IMM64_MSG? Without a connection the feature
 * does not matter, because the descriptor is flushed.
 */
static bool peer_lacks(const struct vipl__vi *vi)
{
    const struct vip_vipd_vi *block = vip_vipd_vi((void *)vi->session->vipd, vi->index);

    return vip_load32_acquire(&block->state) == VIP_VIST_CONNECTED && /* [state LOOK] */
           (vip_load32(&block->features) & VIP_FEATURE_IMM64_MSG) == 0;
}

/*
 * In Error state a posted receive must be flushed at once. vipd looks into the table only when a
 * message needs a receive, so ask vipd to flush. The state is loaded after a full barrier. Either
 * this load sees the Error state, or vipd sees the receive: vipd looks again after it has published
 * the state (vipd/engine/state.c).
 */
static __attribute__((noinline)) void tell_tabled(struct vipl__vi *vi)
{
    if (__builtin_expect(vipl__vi_state(vi) == VIP_VIST_ERROR, 0))
        vipl__ask(vi, VIP_ASK_FLUSH);
}

static VIP_RETURN post(VIP_VI_HANDLE vi_handle, VIP_DESCRIPTOR *desc, VIP_MEM_HANDLE region,
                       enum vip_queue which, const struct vipl__extra *extra, const char *call)
{
    struct vipl__vi *vi = vipl__vi_find(vi_handle);
    struct vipl__extra staged;
    uint64_t deadline_ns = 0;
    enum outcome outcome;
    bool waited = false;

    if (vi == NULL)
        return vipl__bad_vi(call, vi_handle);
    if (desc == NULL)
        return vipl__fail(VIP_INVALID_PARAMETER, "%s: DescriptorPtr is NULL", call);
    if (__builtin_expect(extra->flags != 0, 0) && vi->session->outlive_ns > 0 &&
        !keeps(&vi->queue[which], extra->flags))
        return vipl__fail(VIP_ERROR_RESOURCE, "%s: out of memory", call);
    if (__builtin_expect(extra->flags != 0, 0) && peer_lacks(vi))
        return vipl__fail(VIP_ERROR_NOT_SUPPORTED,
                          "%s: the vipd at the other end of the connection does not know it; it "
                          "would have to be as new as this one",
                          call);
    if (((uintptr_t)desc & (VIP_DESCRIPTOR_ALIGNMENT - 1)) != 0)
        return fault(vi_handle, call, desc, VIP_ERROR_POST_DESC, 0,
                     "a posted descriptor does not start on a 64-byte boundary");
    if (__builtin_expect(__atomic_load_n(&vi->session->staged, __ATOMIC_ACQUIRE) != 0, 0)) {
        staged = *extra;
        staged.bad_seg = stage_if_readable(vi, desc, region, which);
        extra = &staged;
    }
    for (;;) {
        vipl__spin_lock(&vi->session->post_lock);
        outcome = try_post(vi, (uint64_t)(uintptr_t)vi_handle, desc, region, which, extra, waited);
        /* [doorbell POST] [pair SENT] [table TABLED] */
        vipl__spin_unlock_full(&vi->session->post_lock);
        if (outcome == POSTED || outcome == RING_FULL)
            vipl__ring_bell(vi->session);
        if (__builtin_expect(outcome == WAIT, 0)) {
            vipl__direct_wait(vi);
            waited = true;
            continue;
        }
        if (outcome != RING_FULL)
            break;
        if (deadline_ns == 0)
            deadline_ns = vipl__now_ns() + VIPL__SQ_FULL_NS;
        else if (vipl__now_ns() >= deadline_ns)
            return ring_full(call);
        sched_yield();
    }
    switch (outcome) {
    case BAD_VI:
        return vipl__bad_vi(call, vi_handle);
    case BAD_REGION:
        return fault(vi_handle, call, desc, VIP_ERROR_POST_DESC, 0,
                     "a posted descriptor does not lie in the registered region whose handle was "
                     "given, or that region has another protection tag than the VI");
    case OVERRUN:
        return fault(vi_handle, call, desc, VIP_ERROR_VI_OVERRUN,
                     desc->CS.Control & VIP_CONTROL_OP_MASK,
                     "more descriptors posted on a queue than "
                     "VIP_NIC_ATTRIBUTES.MaxDescriptorsPerQueue; this one was dropped");
    case NO_CONTS:
        tell_tabled(vi);
        return fault(vi_handle, call, desc, VIP_ERROR_VI_OVERRUN,
                     desc->CS.Control & VIP_CONTROL_OP_MASK,
                     "no room left for the segments of long receives of this VI");
    case SENT:
        vipl__direct_sent(vi);
        break;
    case LENT:
        vipl__lent_posted(vipl__lent_of(vi));
        break;
    case TABLED:
        tell_tabled(vi);
        /* fall through */
    case POSTED:
        if (__builtin_expect(vipl__vi_is_dead(vi), 0))
            posted_to_the_dead(vi_handle, which, call);
        break;
    case WAIT:
    case RING_FULL:
        break;
    }
    return VIP_SUCCESS;
}

bool vipl__post_again(struct vipl__vi *vi, enum vip_queue which, uint32_t count)
{
    struct vipl__session *session = vi->session;
    const VIP_DESCRIPTOR *desc = vi->queue[which].fifo[count & (VIP_DESC_PER_QUEUE_MAX - 1)];
    struct vip_sq_slot slot;
    struct vipl__extra extra;
    bool there = vipl__slot_again(vi, which, count, &extra, &slot);
    unsigned seg_count = there ? vipl__slot_segments(desc) : 0;
    uint32_t slots = 1;

    if (there)
        slots = VIP_SQ_SLOTS_FOR(seg_count) + VIP_SQ_SLOTS_FOR_MSG(extra.message_bytes);
    if (!vipl__sq_has_room(session, slots))
        return false;
    if (there)
        slot = submission(session, vi, desc, which, seg_count, &extra);
    vip_sq_write(vip_app_sq(session->app_base), session->sq_position, &slot);
    session->sq_position += slots;
    return true;
}

VIP_RETURN VipPostSend(VIP_VI_HANDLE ViHandle, VIP_DESCRIPTOR *DescriptorPtr,
                       VIP_MEM_HANDLE MemoryHandle)
{
    return post(ViHandle, DescriptorPtr, MemoryHandle, VIP_Q_SEND, &vipl__no_extra, "VipPostSend");
}

VIP_RETURN VipPostRecv(VIP_VI_HANDLE ViHandle, VIP_DESCRIPTOR *DescriptorPtr,
                       VIP_MEM_HANDLE MemoryHandle)
{
    return post(ViHandle, DescriptorPtr, MemoryHandle, VIP_Q_RECV, &vipl__no_extra, "VipPostRecv");
}

VIP_RETURN VipxPostSendImm64(VIP_VI_HANDLE ViHandle, VIP_DESCRIPTOR *DescriptorPtr,
                             VIP_MEM_HANDLE MemoryHandle, VIP_UINT64 Immediate)
{
    struct vipl__extra extra = {.bad_seg = -1, .flags = VIP_SQF_IMM64, .imm = Immediate};

    return post(ViHandle, DescriptorPtr, MemoryHandle, VIP_Q_SEND, &extra, "VipxPostSendImm64");
}

VIP_RETURN VipxPostWriteMessage(VIP_VI_HANDLE ViHandle, VIP_DESCRIPTOR *DescriptorPtr,
                                VIP_MEM_HANDLE MemoryHandle, VIP_PVOID Message, VIP_ULONG Bytes)
{
    struct vipl__extra extra = {.bad_seg = -1, .flags = VIP_SQF_MSG, .message = Message};

    if (Message == NULL || Bytes == 0 || Bytes > VIPX_MESSAGE_MAX)
        return vipl__fail(VIP_INVALID_PARAMETER,
                          "VipxPostWriteMessage: Message is NULL, or Bytes is %lu, not 1 to %d",
                          (unsigned long)Bytes, VIPX_MESSAGE_MAX);
    extra.message_bytes = (uint32_t)Bytes;
    return post(ViHandle, DescriptorPtr, MemoryHandle, VIP_Q_SEND, &extra, "VipxPostWriteMessage");
}

/*
 * VipSendDone, VipRecvDone, VipSendWait, VipRecvWait (spec 2.6): return the oldest descriptor of a
 * queue to the program if it has completed. vipd never touches a descriptor. This file writes the
 * status when the descriptor is returned or, with VIPL_STATUS_IN_MEMORY, as soon as it completes.
 */
#include "libvipl/direct.h"
#include "libvipl/error.h"
#include "libvipl/lent.h"
#include "libvipl/callback.h"
#include "libvipl/take.h"
#include "libvipl/vipl_ext.h"
#include "libvipl/sleep.h"
#include "libvipl/sq.h"

/* Set the text of VipxLastError for a descriptor with an error. The text is that of the first bit
 * in the table that `status` has. */
static __attribute__((cold, noinline)) VIP_RETURN status_text(uint32_t status)
{
    static const struct {
        uint32_t bit;
        const char *text;
    } texts[] = {
        {VIP_ST_FORMAT_ERROR, "the descriptor's format is wrong: reserved bits, operation, segment "
                              "count or a missing address segment (VIP_STATUS_FORMAT_ERROR)"},
        {VIP_ST_PROTECTION_ERROR, "a data segment is not inside a registered region with the VI's "
                                  "protection tag (VIP_STATUS_PROTECTION_ERROR)"},
        {VIP_ST_LENGTH_ERROR, "Length is not the sum of the segments, or above MaxTransferSize, or "
                              "the message did not fit (VIP_STATUS_LENGTH_ERROR)"},
        {VIP_ST_PARTIAL_ERROR, "the message broke off half way (VIP_STATUS_PARTIAL_ERROR)"},
        {VIP_ST_RDMA_PROT_ERROR, "the remote memory may not be accessed like that "
                                 "(VIP_STATUS_RDMA_PROT_ERROR)"},
        {VIP_ST_REMOTE_DESC_ERROR, "the receive descriptor of the other side was missing or faulty "
                                   "(VIP_STATUS_REMOTE_DESC_ERROR)"},
        {VIP_ST_TRANSPORT_ERROR, "the data could not be delivered (VIP_STATUS_TRANSPORT_ERROR)"},
        {VIP_ST_DESC_FLUSHED_ERROR, "there was no connection, or it ended before the descriptor's "
                                    "turn (VIP_STATUS_DESC_FLUSHED_ERROR)"},
    };

    for (unsigned i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
        if ((status & texts[i].bit) != 0)
            return vipl__outcome(VIP_DESCRIPTOR_ERROR, texts[i].text);
    return vipl__outcome(VIP_DESCRIPTOR_ERROR, "the descriptor completed with an unknown error");
}

/* The descriptor is flushed, because vipd is dead. Set the operation field as vipd would. */
static __attribute__((cold, noinline)) void flushed(const VIP_DESCRIPTOR *desc,
                                                    enum vip_queue which, struct vip_comp *ret)
{
    uint32_t op = VIP_ST_OP_RECEIVE;

    if (which == VIP_Q_SEND) {
        switch (desc->CS.Control & VIP_CONTROL_OP_MASK) {
        case VIP_CONTROL_OP_RDMAWRITE:
            op = VIP_ST_OP_RDMA_WRITE;
            break;
        case VIP_CONTROL_OP_RDMAREAD:
            op = VIP_ST_OP_RDMA_READ;
            break;
        default:
            op = VIP_ST_OP_SEND;
            break;
        }
    }
    *ret = (struct vip_comp){.status = VIP_ST_DONE | VIP_ST_DESC_FLUSHED_ERROR | op};
}

/* The operation of a descriptor, VIP_CONTROL_OP_*, from the status it completed with. */
static VIP_ULONG opcode_of(uint32_t status)
{
    switch (status & VIP_ST_OP_MASK) {
    case VIP_ST_OP_RDMA_WRITE:
        return VIP_CONTROL_OP_RDMAWRITE;
    case VIP_ST_OP_RDMA_READ:
        return VIP_CONTROL_OP_RDMAREAD;
    default:
        return VIP_CONTROL_OP_SENDRECV;
    }
}

/*
 * Copy the bytes of a message (also of one that an RDMA Write carried) or of an RDMA Read from
 * staging areas to the staged regions. The bytes of an RDMA Write were copied before by the
 * provider thread; region_lock makes that copy visible here. Returns false if a part of the
 * program's memory could not be written. `locked`: the caller holds region_lock and post_lock.
 */
static __attribute__((cold, noinline)) bool stage_in(struct vipl__session *session,
                                                     const VIP_DESCRIPTOR *desc,
                                                     const struct vip_comp *comp, bool locked)
{
    const VIP_DATA_SEGMENT *segs = &desc->DS[0].Local;
    uint32_t op = comp->status & VIP_ST_OP_MASK;
    bool read = op == VIP_ST_OP_RDMA_READ && (comp->status & VIP_ST_ERROR_MASK) == 0;
    bool message = (comp->status & VIP_ST_MESSAGE) != 0;
    uint32_t length = op == VIP_ST_OP_RECEIVE || read || message ? comp->length : 0;
    unsigned count = desc->CS.SegCount <= VIP_SEGS_PER_DESC_MAX + 1 ? desc->CS.SegCount : 0;
    bool good = true;

    if (!locked)
        pthread_mutex_lock(&session->region_lock);
    for (unsigned i = read ? 1 : 0; i < count && length > 0; i++) {
        const struct vipl__region *region;
        uintptr_t addr = (uintptr_t)segs[i].Data.AddressBits;
        uint32_t bytes = segs[i].Length < length ? segs[i].Length : length;

        if (!locked)
            vipl__spin_lock(&session->post_lock);
        region = vipl__region_find(&session->regions, segs[i].Handle);
        if (!locked)
            vipl__spin_unlock(&session->post_lock);
        if (region != NULL && region->mem.kind == VIPL__MEM_STAGED && bytes > 0 &&
            vipl__region_holds(region, addr, bytes) &&
            !vipl__mem_stage_in(&region->mem, addr, bytes))
            good = false;
        length -= bytes;
    }
    if (!locked)
        pthread_mutex_unlock(&session->region_lock);
    return good;
}

/*
 * Fill in the descriptor for the application. Write Status last, because programs may watch it in
 * memory. `locked` as for stage_in.
 */
static void fill(struct vipl__session *session, VIP_DESCRIPTOR *desc, enum vip_queue which,
                 struct vip_comp *comp, bool locked)
{
    if (__builtin_expect(__atomic_load_n(&session->staged, __ATOMIC_ACQUIRE) != 0, 0) &&
        !stage_in(session, desc, comp, locked))
        comp->status |= VIP_ST_PROTECTION_ERROR;
    if (which == VIP_Q_RECV) {
        desc->CS.Length = comp->length;
        if ((comp->status & VIP_ST_IMMEDIATE) != 0) {
            desc->CS.ImmediateData = (VIP_UINT32)comp->imm;
            /* Next belongs to the library: VipxGetImmediate64 reads imm's upper half there. */
            if (__builtin_expect(comp->imm >> 32 != 0, 0))
                desc->CS.Next.AddressBits = comp->imm >> 32;
        }
    }
    comp->status &= ~VIP_ST_MESSAGE;
    __atomic_store_n(&desc->CS.Status, comp->status, __ATOMIC_RELEASE);
}

/*
 * Report a program that has changed Next or NextHandle of a posted descriptor. These fields belong
 * to the library and are 0 (spec 3.4). The change does not harm the operation: vipd has a copy.
 */
static void check_next(uint64_t vi_handle, VIP_DESCRIPTOR *desc, uint32_t status)
{
    struct vipl__vi *vi;

    if (__builtin_expect(desc->CS.Next.AddressBits == 0 && desc->CS.NextHandle == 0, 1))
        return;
    vi = vipl__vi_enter((VIP_VI_HANDLE)(uintptr_t)vi_handle, "VipPostSend or VipPostRecv");
    if (vi == NULL)
        return;
    vipl__async_error(vi->session, VIP_RESOURCE_DESCRIPTOR, VIP_ERROR_POST_DESC, vi, desc,
                      opcode_of(status),
                      "Next or NextHandle of a descriptor was changed while it was posted");
    vipl__leave(vi->session);
}

/*
 * Does the descriptor still lie in its region, with the VI's tag? If not, the library must not
 * write it (spec 3.5): the memory may hold other data.
 */
static bool still_there(const struct vipl__vi *vi, const VIP_DESCRIPTOR *desc,
                        VIP_MEM_HANDLE handle)
{
    const struct vipl__region *region = vipl__region_find(&vi->session->regions, handle);

    return region != NULL && (region->ptag == vi->ptag || region->ptag == 0 || vi->ptag == 0) &&
           vipl__region_holds(region, (uintptr_t)desc, sizeof(VIP_CONTROL_SEGMENT));
}

static __attribute__((cold, noinline)) bool
may_complete(struct vipl__vi *vi, const VIP_DESCRIPTOR *desc, VIP_MEM_HANDLE handle)
{
    struct vipl__session *session = vi->session;
    bool may;

    vipl__spin_lock(&session->post_lock);
    may = still_there(vi, desc, handle);
    vipl__spin_unlock(&session->post_lock);
    return may;
}

/* Return the descriptor unchanged, and report the reason to the error handler. */
static __attribute__((cold, noinline)) VIP_RETURN
completion_denied(uint64_t vi_handle, enum vip_queue which, VIP_DESCRIPTOR *desc, uint32_t status)
{
    static const char why[] =
        "a descriptor completed whose region was deregistered, or has another protection tag, "
        "since "
        "it was posted; its status could not be written (VIP_ERROR_COMP_PROT)";
    struct vipl__vi *vi = vipl__vi_enter((VIP_VI_HANDLE)(uintptr_t)vi_handle, "a Done call");

    if (vi != NULL) {
        vipl__async_completion(vi, &vi->queue[which], desc, opcode_of(status), why);
        vipl__leave(vi->session);
    }
    return vipl__outcome(VIP_DESCRIPTOR_ERROR, why);
}

/* ---- programs that watch CS.Status in memory (spec 3.3; VIPL_STATUS_IN_MEMORY) --------------- */

/*
 * Fill in one descriptor, number `count` as `posted` counts; under region_lock, post_lock and
 * done_lock. Returns true if the descriptor has completed. The function leaves two kinds of
 * descriptors to the Done call, which reports the error: those that must not be written, and those
 * with a changed Next.
 */
static bool fill_one(struct vipl__vi *vi, enum vip_queue which, uint32_t count)
{
    struct vipl__queue *queue = &vi->queue[which];
    uint32_t slot = count & (VIP_DESC_PER_QUEUE_MAX - 1);
    uint32_t position = queue->position + (count - queue->reaped);
    VIP_DESCRIPTOR *desc = queue->fifo[slot];
    struct vip_comp comp;
    bool dead = vipl__vi_is_dead(vi), completed;

    completed = vip_comps_read(&queue->comps, queue->position, position, &comp);
    if (!completed && !dead)
        return false;
    if (!still_there(vi, desc, queue->origin[slot].region) || desc->CS.Next.AddressBits != 0 ||
        desc->CS.NextHandle != 0)
        return true;
    if (!completed)
        flushed(desc, which, &comp);
    fill(vi->session, desc, which, &comp, true);
    queue->ahead->status[slot] = comp.status;
    return true;
}

void vipl__fill_ahead(struct vipl__vi *vi)
{
    struct vipl__session *session = vi->session;

    for (unsigned q = 0; q < 2; q++) {
        struct vipl__queue *queue = &vi->queue[q];
        uint32_t posted;

        if (__atomic_load_n(&queue->posted, __ATOMIC_ACQUIRE) ==
            __atomic_load_n(&queue->reaped, __ATOMIC_ACQUIRE))
            continue;
        pthread_mutex_lock(&session->region_lock);
        vipl__spin_lock(&session->post_lock);
        vipl__spin_lock(&queue->done_lock);
        posted = __atomic_load_n(&queue->posted, __ATOMIC_RELAXED);
        if (queue->ahead != NULL && __atomic_load_n(&vi->handle, __ATOMIC_ACQUIRE) != 0) {
            if ((int32_t)(queue->ahead->next - queue->reaped) < 0)
                queue->ahead->next = queue->reaped;
            while (queue->ahead->next != posted &&
                   fill_one(vi, (enum vip_queue)q, queue->ahead->next))
                queue->ahead->next++;
        }
        vipl__spin_unlock(&queue->done_lock);
        vipl__spin_unlock(&session->post_lock);
        pthread_mutex_unlock(&session->region_lock);
    }
}

/* Take the status that vipl__fill_ahead wrote into the descriptor of that slot; 0 = none. */
static uint32_t take_ahead(struct vipl__queue *queue, uint32_t slot)
{
    uint32_t status = queue->ahead->status[slot];

    queue->ahead->status[slot] = 0;
    return status;
}

/*
 * Return a descriptor that was taken off its queue to the program. `completed`: *comp is its
 * completion; otherwise it completes as flushed.
 */
static inline VIP_RETURN hand_back(struct vipl__vi *vi, uint64_t handle, enum vip_queue which,
                                   VIP_DESCRIPTOR *desc, struct vipl__origin origin, bool completed,
                                   struct vip_comp *comp)
{
    if (__builtin_expect(origin.region_epoch !=
                             __atomic_load_n(&vi->session->region_epoch, __ATOMIC_ACQUIRE),
                         0) &&
        !may_complete(vi, desc, origin.region))
        return completion_denied(handle, which, desc, completed ? comp->status : 0);
    if (!completed)
        flushed(desc, which, comp);
    check_next(handle, desc, comp->status);
    fill(vi->session, desc, which, comp, false);
    if ((comp->status & VIP_ST_ERROR_MASK) != 0)
        return status_text(comp->status);
    return VIP_SUCCESS;
}

static VIP_RETURN nothing_posted(void)
{
    return vipl__outcome(VIP_DESCRIPTOR_ERROR, "no descriptor is posted on this queue");
}

/* ---- VIs with a ring (direct.h) -------------------------------------------------------------- */

/* Result of one look at the head of a queue. */
struct head {
    VIP_DESCRIPTOR *desc; /* NULL: nothing has completed */
    struct vipl__origin origin;
    struct vip_comp comp;
    bool completed; /* true: comp is the completion; false: desc is flushed */
    bool valid, empty;
    bool lock;      /* look again with post_lock held */
    bool ask_break; /* ask vipd to break the connection */
};

/* Get the completion of the descriptor at the head, number `reaped`. False: there is none yet. */
static bool next_completion(struct vipl__vi *vi, enum vip_queue which, uint32_t reaped, bool locked,
                            struct head *ret)
{
    struct vipl__queue *queue = &vi->queue[which];
    struct vipl__direct *direct = which == VIP_Q_RECV ? vipl__direct_of(vi) : NULL;
    struct vip_comp *comp = &ret->comp;

    if (which == VIP_Q_SEND &&
        (queue->how[reaped & (VIP_DESC_PER_QUEUE_MAX - 1)] & VIPL__HOW_RING) != 0) {
        *comp = (struct vip_comp){.status = VIP_ST_DONE | VIP_ST_OP_SEND};
        return true;
    }
    if (direct != NULL) {
        enum vipl__next next = vipl__direct_next(vi, direct, reaped, locked, comp, &ret->ask_break);

        ret->lock = next == VIPL__NEXT_LOCK;
        if (next != VIPL__NEXT_VIPD)
            return next == VIPL__NEXT_RING;
    } else if (!vip_comps_read(&queue->comps, queue->position, queue->position, comp)) {
        return false;
    }
    queue->position++;
    return true;
}

/* A receive descriptor leaves the table: free its continuation slots, if it has any. */
static inline void give_conts(struct vipl__vi *vi, enum vip_queue which, uint32_t reaped)
{
    struct vipl__queue *queue = &vi->queue[VIP_Q_RECV];
    const struct vip_sq_slot *slot;

    if (which != VIP_Q_RECV ||
        __builtin_expect(__atomic_load_n(&queue->conts_used, __ATOMIC_RELAXED) == 0, 1))
        return;
    slot = vip_recv_slot(vi->session->recv_base, vi->index, reaped);
    __atomic_sub_fetch(&queue->conts_used, VIP_SQ_SLOTS_FOR(slot->seg_count) - 1, __ATOMIC_RELEASE);
}

/* Look at the head of a queue once, under its done_lock, and also post_lock if `locked`. */
static void look(struct vipl__vi *vi, uint64_t handle, enum vip_queue which, bool locked,
                 struct head *ret)
{
    struct vipl__queue *queue = &vi->queue[which];
    uint32_t reaped = __atomic_load_n(&queue->reaped, __ATOMIC_RELAXED);
    uint32_t slot = reaped & (VIP_DESC_PER_QUEUE_MAX - 1);
    bool dead;

    ret->valid = vipl__vi_is(vi, handle);
    ret->empty = __atomic_load_n(&queue->posted, __ATOMIC_ACQUIRE) == reaped;
    ret->desc = NULL;
    ret->lock = ret->ask_break = false;
    if (!ret->valid || ret->empty)
        return;
    ret->origin = queue->origin[slot];
    /* Load this first: completions that vipd wrote before it died come before flushed ones. */
    dead = vipl__vi_is_dead(vi);
    ret->completed = next_completion(vi, which, reaped, locked, ret);
    if (ret->lock || (!ret->completed && !dead))
        return;
    ret->desc = queue->fifo[slot];
    if (!ret->completed)
        queue->position++;
    if (!ret->completed && which == VIP_Q_RECV)
        vipl__direct_flushed(vi);
    give_conts(vi, which, reaped);
    __atomic_store_n(&queue->reaped, reaped + 1, __ATOMIC_RELEASE);
}

/*
 * Take a descriptor of a VI with a ring. The call copies a ring message to memory of the program
 * under post_lock, which guards the regions.
 */
static __attribute__((noinline)) VIP_RETURN
take_direct(struct vipl__vi *vi, uint64_t handle, enum vip_queue which, VIP_DESCRIPTOR **ret_desc)
{
    const struct vipl__direct *direct = which == VIP_Q_RECV ? vipl__direct_of(vi) : NULL;
    struct vipl__queue *queue = &vi->queue[which];
    bool locked = direct != NULL && vipl__direct_hint(direct, vi);
    struct head head;

    do {
        if (locked)
            vipl__spin_lock(&vi->session->post_lock);
        vipl__spin_lock(&queue->done_lock);
        look(vi, handle, which, locked, &head);
        vipl__spin_unlock(&queue->done_lock);
        if (locked)
            vipl__spin_unlock(&vi->session->post_lock);
        locked = true;
    } while (head.lock);
    *ret_desc = head.desc;
    if (__builtin_expect(head.ask_break, 0))
        vipl__ask(vi, VIP_ASK_BREAK);
    if (!head.valid)
        return VIP_INVALID_PARAMETER;
    if (head.empty)
        return nothing_posted();
    return head.desc == NULL
               ? VIP_NOT_DONE
               : hand_back(vi, handle, which, head.desc, head.origin, head.completed, &head.comp);
}

/* ---- VIs that are or were on loan (lent.h) --------------------------------------------------- */

/* Take the descriptor at the head if it has completed on loan. Outcomes: VIP_NOT_DONE: it has not;
 * others as vipl__take_desc. */
static VIP_RETURN take_lent(struct vipl__vi *vi, uint64_t handle, enum vip_queue which,
                            VIP_DESCRIPTOR **ret_desc)
{
    struct vipl__queue *queue = &vi->queue[which];
    struct vipl__origin origin = {0};
    struct vip_comp comp;
    uint32_t reaped, slot;

    *ret_desc = NULL;
    vipl__spin_lock(&queue->done_lock);
    reaped = __atomic_load_n(&queue->reaped, __ATOMIC_RELAXED);
    slot = reaped & (VIP_DESC_PER_QUEUE_MAX - 1);
    if (vipl__vi_is(vi, handle) && __atomic_load_n(&queue->posted, __ATOMIC_ACQUIRE) != reaped &&
        vipl__lent_take(vi, which, reaped, &comp)) {
        *ret_desc = queue->fifo[slot];
        origin = queue->origin[slot];
        queue->position++;
        give_conts(vi, which, reaped);
        __atomic_store_n(&queue->reaped, reaped + 1, __ATOMIC_RELEASE);
    }
    vipl__spin_unlock(&queue->done_lock);
    return *ret_desc == NULL ? VIP_NOT_DONE
                             : hand_back(vi, handle, which, *ret_desc, origin, true, &comp);
}

/* ---- taking ---------------------------------------------------------------------------------- */

static __attribute__((noinline)) VIP_RETURN not_done(struct vipl__vi *vi)
{
    vipl__lent_idle(vi);
    return VIP_NOT_DONE;
}

/* Look once at the head of a queue; take the descriptor if vipd or a ring has completed it. */
static inline __attribute__((always_inline)) VIP_RETURN
take_now(struct vipl__vi *vi, uint64_t handle, enum vip_queue which, VIP_DESCRIPTOR **ret_desc)
{
    struct vipl__queue *queue = &vi->queue[which];
    VIP_DESCRIPTOR *desc = NULL;
    struct vipl__origin origin = {0};
    struct vip_comp comp;
    uint32_t reaped, ahead = 0;
    bool dead, empty, valid, completed = false;

    *ret_desc = NULL;
    vipl__spin_lock(&queue->done_lock);
    /* Check this under done_lock: a VI gets its ring under this lock. */
    if (vipl__direct_of(vi) != NULL) {
        vipl__spin_unlock(&queue->done_lock);
        return take_direct(vi, handle, which, ret_desc);
    }
    valid = vipl__vi_is(vi, handle);
    reaped = __atomic_load_n(&queue->reaped, __ATOMIC_RELAXED);
    empty = __atomic_load_n(&queue->posted, __ATOMIC_ACQUIRE) == reaped;
    if (valid && !empty) {
        /* Load this first: completions that vipd wrote before it died come before flushed ones. */
        dead = vipl__vi_is_dead(vi);
        completed = vip_comps_read(&queue->comps, queue->position, queue->position, &comp);
        if (completed || dead) {
            desc = queue->fifo[reaped & (VIP_DESC_PER_QUEUE_MAX - 1)];
            origin = queue->origin[reaped & (VIP_DESC_PER_QUEUE_MAX - 1)];
            if (__builtin_expect(queue->ahead != NULL, 0))
                ahead = take_ahead(queue, reaped & (VIP_DESC_PER_QUEUE_MAX - 1));
            queue->position++;
            give_conts(vi, which, reaped);
            __atomic_store_n(&queue->reaped, reaped + 1, __ATOMIC_RELEASE);
        }
    }
    vipl__spin_unlock(&queue->done_lock);

    if (!valid)
        return VIP_INVALID_PARAMETER;
    if (empty)
        return nothing_posted();
    if (desc == NULL)
        return not_done(vi);
    *ret_desc = desc;
    if (__builtin_expect(ahead != 0, 0))
        return (ahead & VIP_ST_ERROR_MASK) != 0 ? status_text(ahead) : VIP_SUCCESS;
    return hand_back(vi, handle, which, desc, origin, completed, &comp);
}

/* The VI is or was on loan: run its engine if there is nothing to take yet. */
static __attribute__((cold, noinline)) VIP_RETURN
take_on_loan(struct vipl__vi *vi, uint64_t handle, enum vip_queue which, VIP_DESCRIPTOR **ret_desc)
{
    VIP_RETURN rc = take_lent(vi, handle, which, ret_desc);

    if (rc == VIP_NOT_DONE) {
        vipl__lent_poll(vi);
        rc = take_lent(vi, handle, which, ret_desc);
    }
    return rc != VIP_NOT_DONE ? rc : take_now(vi, handle, which, ret_desc);
}

VIP_RETURN vipl__take_desc(struct vipl__vi *vi, uint64_t handle, enum vip_queue which,
                           VIP_DESCRIPTOR **ret_desc)
{
    return __builtin_expect(vipl__lent_of(vi) != NULL, 0)
               ? take_on_loan(vi, handle, which, ret_desc)
               : take_now(vi, handle, which, ret_desc);
}

static VIP_RETURN done(VIP_VI_HANDLE vi_handle, VIP_DESCRIPTOR **ret_desc, enum vip_queue which,
                       const char *call)
{
    struct vipl__vi *vi = vipl__vi_find(vi_handle);
    VIP_RETURN rc;

    if (ret_desc == NULL)
        return vipl__fail(VIP_INVALID_PARAMETER, "%s: DescriptorPtr is NULL", call);
    if (vi == NULL) {
        *ret_desc = NULL;
        return vipl__bad_vi(call, vi_handle);
    }
    rc = vipl__take_desc(vi, (uint64_t)(uintptr_t)vi_handle, which, ret_desc);
    vipl__polled(vi->session, rc);
    if (rc == VIP_SUCCESS)
        vipl__lent_took(vi);
    return rc == VIP_INVALID_PARAMETER ? vipl__bad_vi(call, vi_handle) : rc;
}

static VIP_RETURN attempt_send(struct vipl__sleeper *wait)
{
    return vipl__take_desc(wait->object, wait->handle, VIP_Q_SEND, wait->ret[0]);
}

static VIP_RETURN attempt_recv(struct vipl__sleeper *wait)
{
    return vipl__take_desc(wait->object, wait->handle, VIP_Q_RECV, wait->ret[0]);
}

static VIP_RETURN rest_send(struct vipl__sleeper *wait, uint64_t deadline_ns)
{
    return vipl__lent_rest(wait->object, VIP_Q_SEND, wait, deadline_ns);
}

static VIP_RETURN rest_recv(struct vipl__sleeper *wait, uint64_t deadline_ns)
{
    return vipl__lent_rest(wait->object, VIP_Q_RECV, wait, deadline_ns);
}

static bool can_rest(const struct vipl__sleeper *wait)
{
    return vipl__lent_can_rest(wait->object);
}

/* Publish in the ring whether a thread sleeps. If so, the sender uses vipd, not the ring. A VI for
 * which threads sleep in this way has no loan. */
static void receivers_changed(struct vipl__sleeper *wait)
{
    struct vipl__vi *vi = wait->object;

    vipl__direct_asleep_vi(wait->object);
    vipl__lent_sleep(vi->session, &vi->asks.sleeps);
}

static void senders_changed(struct vipl__sleeper *wait)
{
    struct vipl__vi *vi = wait->object;

    vipl__lent_sleep(vi->session, &vi->asks.sleeps);
}

static VIP_RETURN done_wait(VIP_VI_HANDLE vi_handle, VIP_ULONG timeout_ms,
                            VIP_DESCRIPTOR **ret_desc, enum vip_queue which, const char *call)
{
    struct vipl__sleeper wait = {
        .attempt = which == VIP_Q_SEND ? attempt_send : attempt_recv,
        .rest = which == VIP_Q_SEND ? rest_send : rest_recv,
        .can_rest = can_rest,
        .handle = (uint64_t)(uintptr_t)vi_handle,
        .ret = {ret_desc},
    };
    struct vipl__vi *vi;
    VIP_RETURN rc;

    if (ret_desc == NULL)
        return vipl__fail(VIP_INVALID_PARAMETER, "%s: DescriptorPtr is NULL", call);
    *ret_desc = NULL;
    vi = vipl__vi_enter(vi_handle, call);
    if (vi == NULL)
        return VIP_INVALID_PARAMETER;
    wait.object = vi;
    wait.prod = vi->queue[which].prod;
    wait.waiters = vi->queue[which].waiters;
    wait.spin_ns = &vi->queue[which].spin_ns;
    wait.sleepers_changed = which == VIP_Q_RECV ? receivers_changed : senders_changed;
    rc = vipl__sleep(vi->session, &wait, timeout_ms);
    vipl__leave(vi->session);
    return rc == VIP_INVALID_PARAMETER ? vipl__bad_vi(call, vi_handle) : rc;
}

VIP_RETURN VipSendDone(VIP_VI_HANDLE ViHandle, VIP_DESCRIPTOR **DescriptorPtr)
{
    return done(ViHandle, DescriptorPtr, VIP_Q_SEND, "VipSendDone");
}

VIP_RETURN VipRecvDone(VIP_VI_HANDLE ViHandle, VIP_DESCRIPTOR **DescriptorPtr)
{
    return done(ViHandle, DescriptorPtr, VIP_Q_RECV, "VipRecvDone");
}

VIP_RETURN VipSendWait(VIP_VI_HANDLE ViHandle, VIP_ULONG Timeout, VIP_DESCRIPTOR **DescriptorPtr)
{
    return done_wait(ViHandle, Timeout, DescriptorPtr, VIP_Q_SEND, "VipSendWait");
}

VIP_RETURN VipRecvWait(VIP_VI_HANDLE ViHandle, VIP_ULONG Timeout, VIP_DESCRIPTOR **DescriptorPtr)
{
    return done_wait(ViHandle, Timeout, DescriptorPtr, VIP_Q_RECV, "VipRecvWait");
}

VIP_RETURN VipxGetImmediate64(const VIP_DESCRIPTOR *Descriptor, VIP_UINT64 *Immediate)
{
    VIP_UINT32 status;

    if (Descriptor == NULL || Immediate == NULL)
        return vipl__fail(VIP_INVALID_PARAMETER,
                          "VipxGetImmediate64: Descriptor or Immediate is NULL");
    status = Descriptor->CS.Status;
    if ((status & VIP_STATUS_DONE) == 0 || (status & VIP_STATUS_IMMEDIATE) == 0)
        return vipl__fail(
            VIP_DESCRIPTOR_ERROR,
            "VipxGetImmediate64: the descriptor was not completed with immediate data");
    *Immediate = Descriptor->CS.Next.AddressBits << 32 | Descriptor->CS.ImmediateData;
    return VIP_SUCCESS;
}

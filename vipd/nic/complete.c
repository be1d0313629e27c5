/*
 * Completions: vipd writes them into the completion ring and into the CQ ring (or its backlog), and
 * wakes sleepers once per batch.
 *
 * Owns: completion and CQ positions, futex wakes, completions that wait for their packet to leave.
 * Does not own: the order of completions (engine), the list of a backlog (backlog.c).
 */
#include <linux/futex.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "proto/assert.h"
#include "proto/fence.h"
#include "proto/probe.h"
#include "proto/shm3.h"
#include "vipd/engine/mutant.h"
#include "vipd/nic/internal.h"

#define CQ_UNREAD_MAX (2ull * VIP_DESC_PER_QUEUE_MAX) /* most unread CQ entries of one queue */
#define BACKLOG_SERVE 256 /* most entries that one call moves out of a backlog */

static const struct vip_app_cq *app_cq(const struct nic_session *session, uint32_t number)
{
    return nic_layout_cq(session->layout, session->app_base, number);
}

/* Remember that the sleepers of this queue (or CQ, queue = 2) must be woken. */
static void wake_add(struct nic_session *session, bool *flag, uint16_t number, uint8_t queue)
{
    struct nic *nic = session->nic;

    if (*flag)
        return;
    if (nic->wake_count == NIC_WAKES_MAX)
        nic_wake_flush(nic);
    *flag = true;
    nic->wakes[nic->wake_count++] =
        (struct nic_wake){.session = session, .vi = number, .queue = queue};
}

/* Most sleepers that one call wakes. If a program has more, a sleeper that takes a completion wakes
 * other sleepers (libvipl/sleep.c), at the program's cost. */
#define WAKE_MOST 64

/* The futex is shared, because the sleeper is in another process. */
static void futex_wake(struct nic *nic, const uint32_t *word)
{
    nic->counts.wakes++;
    VIP_PROBE2(wake, nic->name, word);
    (void)syscall(SYS_futex, word, FUTEX_WAKE, WAKE_MOST, NULL, NULL, 0);
}

/* Wake the thread of the Notify calls, at most once per batch: all queues share its futex word. */
static void wake_notify(struct nic_session *session)
{
    struct nic *nic = session->nic;

    if (session->notified == nic->wake_batch)
        return;
    session->notified = nic->wake_batch;
    vip_store32_release(&session->head->notify, ++session->notify);
    futex_wake(nic, &session->head->notify);
}

static void wake_one(struct nic *nic, const struct nic_wake *wake)
{
    struct nic_session *session = wake->session;
    uint32_t *word, waiters;

    if (wake->queue == 2) {
        waiters = vip_load32(&app_cq(session, wake->vi)->waiters);
        word = &vip_vipd_cq(session->vipd_base, wake->vi)->prod;
    } else {
        waiters = vip_load32(
            nic_layout_waiters(session->layout, session->app_base, wake->vi, wake->queue));
        word = &session->vis[wake->vi].head->prod[wake->queue];
    }
    if (waiters & ~VIP_APP_WAITERS_NOTIFY)
        futex_wake(nic, word);
    if (waiters & VIP_APP_WAITERS_NOTIFY)
        wake_notify(session);
}

/*
 * If the application has armed the CQ since the last message, send a message, so that the socket of
 * VipxCQGetFd is readable. First store the word `signaled`: a thread that the message wakes must
 * find the new word, so that it arms the CQ again. Errors of send do not matter: a full socket is
 * readable already, and a closed one has no reader.
 */
static void cq_signal(struct nic_session *session, uint16_t number)
{
    struct nic_cq *cq = &session->cqs[number];
    uint32_t arm;

    vip_fetch_begin();
    arm = vip_load32(nic_layout_arm(session->layout, session->app_base, number));
    vip_fetch_end();
    if (arm == cq->signaled)
        return;
    cq->signaled = arm;
    session->nic->counts.cq_signals++;
    vip_store32_release(&vip_vipd_cq(session->vipd_base, number)->signaled, arm);
    (void)send(cq->sock, "", 1, MSG_DONTWAIT | MSG_NOSIGNAL);
}

enum vip_rc nic_cq_set_socket(struct nic_session *session, uint32_t number, int sock)
{
    struct nic_cq *cq = number < session->cq_high ? &session->cqs[number] : NULL;
    uint32_t arm, cons;

    if (!cq || !cq->used || cq->sock >= 0 || session->cq_socks == NIC_CQ_SOCKS_MAX) {
        close(sock);
        return !cq || !cq->used ? VIP_RC_INVALID_PARAMETER : VIP_RC_ERROR_RESOURCE;
    }
    session->cq_socks++;
    cq->sock = sock;
    /* The control request is a barrier: vipd sees what the program has read and armed before. */
    vip_fetch_begin();
    arm = vip_load32(nic_layout_arm(session->layout, session->app_base, number));
    cons = vip_load32(&app_cq(session, number)->cons);
    vip_fetch_end();
    cq->signaled = arm - 1;
    vip_store32_release(&vip_vipd_cq(session->vipd_base, number)->signaled, arm - 1);
    if (cq->position != cons)
        cq_signal(session, (uint16_t)number);
    return VIP_RC_SUCCESS;
}

/*
 * The sleeper publishes itself, executes a full barrier, then looks at the ring. vipd has written
 * the ring, executes a full barrier, then looks at the sleepers. So the sleeper sees the new entry,
 * or vipd sees the sleeper.
 */
void nic_wake_flush(struct nic *nic)
{
    nic_place_flush(nic);
    if (!nic->wake_count)
        return;
    nic->wake_batch++;
    vip_fence_sleep(); /* [completion FLUSH] [notify FLUSH] [cq_fd FLUSH] */
    for (unsigned i = 0; i < nic->wake_count; i++) {
        const struct nic_wake *wake = &nic->wakes[i];
        struct nic_session *session = wake->session;
        const struct vip_app_head *head = session->app_base;

        if (wake->queue == 2)
            session->cqs[wake->vi].wake = false;
        else
            session->vis[wake->vi].wake[wake->queue] = false;
        vip_fetch_begin();
        if (vip_load32(&head->sleepers))
            wake_one(nic, wake);
        vip_fetch_end();
        if (wake->queue == 2 && session->cqs[wake->vi].sock >= 0)
            cq_signal(session, wake->vi);
    }
    nic->wake_count = 0;
}

/* ---- completion queues ----------------------------------------------------------------- */

/* Is there room in the CQ ring? Load the program's `cons` only if the ring may be full. */
static bool cq_room(struct nic_session *session, uint32_t number)
{
    struct nic_cq *cq = &session->cqs[number];

    if (cq->position - cq->cons_seen < VIP_CQ_RING_SLOTS)
        return true;
    vip_fetch_begin();
    cq->cons_seen = vip_load32(&app_cq(session, number)->cons);
    vip_fetch_end();
    return cq->position - cq->cons_seen < VIP_CQ_RING_SLOTS;
}

static void cq_put(struct nic_session *session, uint32_t number, const struct nic_cqe *entry)
{
    struct nic_cq *cq = &session->cqs[number];

    cq->position = vip_cq_write(vip_vipd_cq_ring(session->vipd_base, number), cq->position,
                                entry->vi, entry->queue, (uint8_t)entry->generation);
    vip_store32_release(&vip_vipd_cq(session->vipd_base, number)->prod, cq->position + cq->pokes);
    session->nic->counts.cq_entries++;
    cq->overrun_told = false; /* there is room again */
    wake_add(session, &cq->wake, (uint16_t)number, 2);
}

/*
 * The ring is full: keep the entry in the backlog. A queue has at most VIP_DESC_PER_QUEUE_MAX
 * descriptors that are not reaped, and the backlog has room for twice that number per queue. So a
 * correct program never fills the backlog. A program that posts without reading its CQ, or that
 * reaches its memory limit (kept_bytes.c), gets an error and loses entries.
 */
static void cq_keep(struct nic_session *session, uint32_t number, const struct nic_cqe *entry)
{
    struct nic *nic = session->nic;
    struct nic_cq *cq = &session->cqs[number];
    uint64_t max = CQ_UNREAD_MAX * (cq->bound ? cq->bound : 1);
    bool first = !cq->backlog.live;

    if (cq->backlog.live >= max || !nic_backlog_add(session, &cq->backlog, entry)) {
        nic->counts.cq_lost++;
        if (!cq->overrun_told && !session->closing && nic_session_may_tell(session)) {
            cq->overrun_told = true;
            session->sink->error(session->ctx, VIP_RES_VI, VIP_EC_VI_OVERRUN, entry->vi,
                                 session->vis[entry->vi].generation, 0,
                                 "the completion queue is not read; an entry was lost");
        }
        return;
    }
    if (first) {
        nic_list_add_tail(&session->backlogs, &cq->in_backlogs);
        nic->backlog_cqs++;
        nic->backlog_wait_ns = NIC_BACKLOG_POLL_MIN_NS;
        nic->backlog_next_ns = nic->now_ns + nic->backlog_wait_ns;
    }
    nic->counts.cq_backlogged++;
}

static void cq_add(struct nic_session *session, uint32_t number, const struct nic_cqe *entry)
{
    VIP_ASSERT(session->cqs[number].used);
    if (!session->cqs[number].backlog.live && cq_room(session, number))
        cq_put(session, number, entry);
    else
        cq_keep(session, number, entry);
}

/* The backlog has no entry of a VI that exists: free the backlog. */
static void backlog_done(struct nic_session *session, struct nic_cq *cq)
{
    nic_list_del(&cq->in_backlogs);
    session->nic->backlog_cqs--;
    nic_backlog_free(session, &cq->backlog);
}

bool nic_backlog_serve(struct nic_session *session)
{
    struct nic_list *last = session->backlogs.prev, *item;
    unsigned looked = 0, moved = 0;

    if (last == &session->backlogs)
        return false;
    nic_share_switch(session->nic, session);
    do {
        struct nic_cq *cq;
        uint32_t number;

        item = session->backlogs.next;
        cq = NIC_ITEM(item, struct nic_cq, in_backlogs);
        number = (uint32_t)(cq - session->cqs);
        /* Move this CQ to the end of the list, so that the next call serves the other CQs first. */
        nic_list_del(item);
        nic_list_add_tail(&session->backlogs, item);
        looked++;
        for (; moved < BACKLOG_SERVE && cq->backlog.live && cq_room(session, number); moved++) {
            struct nic_cqe entry;

            if (nic_backlog_take(session, &cq->backlog, &entry))
                cq_put(session, number, &entry);
        }
        if (!cq->backlog.live)
            backlog_done(session, cq);
    } while (!moved && item != last);
    nic_share_worked(session->nic, (moved + looked) / 4);
    return moved > 0;
}

/* A VI is destroyed: its entries do not count any more. Other VIs' entries keep their order
 * (spec 3.8). */
void nic_cq_forget_vi(struct nic_session *session, struct nic_vi *vi, enum vip_queue queue)
{
    struct nic_cq *cq = &session->cqs[vi->cq[queue]];

    if (!cq->backlog.live)
        return;
    nic_backlog_forget(&cq->backlog, vi, queue);
    if (!cq->backlog.live)
        backlog_done(session, cq);
}

void nic_cq_deinit(struct nic_session *session, struct nic_cq *cq)
{
    if (cq->wake) /* nic->wakes has this CQ's number, which a new CQ may get */
        nic_wake_flush(session->nic);
    if (cq->backlog.live)
        backlog_done(session, cq);
    if (cq->used && cq->sock >= 0) {
        close(cq->sock);
        cq->sock = -1;
        session->cq_socks--;
    }
    cq->used = false;
}

/* ---- work queues ----------------------------------------------------------------------- */

/* Does a descriptor that completes with this error end the connection? */
static bool ends_connection(const struct nic_vi *vi, uint32_t status)
{
    return vi->attrs.level != VIP_LVL_UNRELIABLE || (status & VIP_ST_DESC_FLUSHED_ERROR);
}

static void complete_now(const struct nic_deferred *done)
{
    struct nic_session *session = done->session;
    struct nic_vi *vi = &session->vis[done->vi];
    struct vip_comp comp = {.status = done->status,
                            .length = done->length,
                            .direct = done->queue == VIP_Q_RECV ? vi->ring_count : 0,
                            .imm = done->imm};
    unsigned queue = done->queue;
    uint32_t position = vi->position[queue];
    struct vip_comp *to;

    VIP_ASSERT(vi->used);
    to = vip_comps_slot(&vi->comps[queue], position);
    if (__builtin_expect(done->status & VIP_ST_ERROR_MASK, 0) && ends_connection(vi, done->status))
        vip_store32_release(&vi->head->ended, 1);
    vip_comp_fill(to, position, &comp);
    if (VIP_MUTANT(COMMIT_LATE))
        (void)vip_comp_stamp(to, position);
    if (queue == VIP_Q_RECV)
        vip_commit_write(&vi->head->commit,
                         (struct vip_commit){.done = eng_vi_done(session->eng, done->vi),
                                             .received = position + 1});
    vi->position[queue] = vip_comp_stamp(to, position);
    /* [completion PROD] [order PROD] */
    vip_store32_release(&vi->head->prod[queue],
                        vi->position[queue] + (queue == VIP_Q_RECV ? vi->pokes : 0));
    session->nic->counts.completions++;
    if (session->nic->see)
        nic_see_descriptor(session, VIP_CAPTURE_COMPLETED, done);
    VIP_PROBE5(complete, session->id, done->vi, queue, done->status, done->length);
    wake_add(session, &vi->wake[queue], done->vi, (uint8_t)queue);
    if (vi->cq[queue] >= 0) {
        struct nic_cqe entry = {
            .vi = done->vi, .queue = (uint8_t)queue, .generation = vi->generation};

        cq_add(session, (uint32_t)vi->cq[queue], &entry);
    }
}

/* Change the futex words and wake sleepers. The change keeps a thread awake that has looked at the
 * queue but does not sleep yet. The word of a send queue does not change: libvipl compares this
 * word with its posts, and no thread sleeps on this word. */
void nic_wake_also(struct nic_session *session, uint16_t number, enum vip_queue queue)
{
    struct nic_vi *vi = &session->vis[number];

    if (queue == VIP_Q_RECV)
        vip_store32_release(&vi->head->prod[queue], vi->position[queue] + ++vi->pokes);
    wake_add(session, &vi->wake[queue], number, (uint8_t)queue);
    if (vi->cq[queue] >= 0) {
        uint16_t cq_number = (uint16_t)vi->cq[queue];
        struct nic_cq *cq = &session->cqs[cq_number];

        vip_store32_release(&vip_vipd_cq(session->vipd_base, cq_number)->prod,
                            cq->position + ++cq->pokes);
        wake_add(session, &cq->wake, cq_number, 2);
    }
}

void nic_commit_begin(struct nic_session *session, uint16_t number)
{
    struct nic_vi *vi = &session->vis[number];

    nic_deferred_publish_of(session, number); /* publish sends flushed before this connection */
    vi->send_base = eng_vi_completed(session->eng, number) - vi->position[VIP_Q_SEND];
    vip_store32_release(&vi->head->send_base, vi->send_base);
    vip_commit_write(&vi->head->commit,
                     (struct vip_commit){.done = eng_vi_done(session->eng, number),
                                         .received = vi->position[VIP_Q_RECV]});
}

void nic_completed_elsewhere(struct nic_session *session, uint16_t number, uint32_t sends,
                             uint32_t receives)
{
    struct nic_vi *vi = &session->vis[number];

    vi->position[VIP_Q_SEND] += sends;
    vi->position[VIP_Q_RECV] += receives;
    vip_commit_write(&vi->head->commit,
                     (struct vip_commit){.done = eng_vi_done(session->eng, number),
                                         .received = vi->position[VIP_Q_RECV]});
    vip_store32_release(&vi->head->prod[VIP_Q_SEND], vi->position[VIP_Q_SEND]);
    vip_store32_release(&vi->head->prod[VIP_Q_RECV], vi->position[VIP_Q_RECV] + vi->pokes);
}

/* The positions of a new VI continue those of an earlier VI with the same number. */
void nic_comps_begin(struct nic_session *session, uint16_t number)
{
    struct nic_vi *vi = &session->vis[number];

    for (unsigned queue = 0; queue < 2 && !session->layout->long_only; queue++)
        vip_comps_begin(&vi->comps[queue], session->vipd_base, number, queue, vi->position[queue]);
}

/* Set up the rings of an ABI that has only long rings. Its sessions do not outlive vipd. */
static void comps_long_only(struct nic_vi *vi)
{
    for (unsigned queue = 0; queue < 2; queue++)
        vi->comps[queue] = (struct vip_comps_out){
            .ring = (struct vip_comp *)(void *)((char *)vi->head + VIP_VIPD3_VI_BYTES +
                                                queue * (uint64_t)VIP_COMP_RING_BYTES),
            .slots = VIP_DESC_PER_QUEUE_MAX};
}

/*
 * vipd may have been killed between any two stores. A receive's completion that was committed but
 * not stamped gets its stamp. A send's completion that was stamped but not counted is counted now.
 */
void nic_positions_read(struct nic_session *session, uint16_t number)
{
    struct nic_vi *vi = &session->vis[number];
    struct vip_vipd_vi *head = nic_layout_vi(session->layout, session->vipd_base, number);
    uint32_t received, sent;
    int32_t pokes;

    vi->head = head;
    if (session->layout->long_only) {
        comps_long_only(vi);
        return;
    }
    received = vip_load32_own(&head->commit.received);
    sent = vip_load32_own(&head->prod[VIP_Q_SEND]);
    pokes = (int32_t)(vip_load32_own(&head->prod[VIP_Q_RECV]) - received);
    vip_comps_resume(&vi->comps[VIP_Q_SEND], session->vipd_base, number, VIP_Q_SEND, sent);
    vip_comps_resume(&vi->comps[VIP_Q_RECV], session->vipd_base, number, VIP_Q_RECV, received);
    vi->position[VIP_Q_SEND] = vip_comps_shown(&vi->comps[VIP_Q_SEND], sent);
    vi->position[VIP_Q_RECV] = received;
    vip_comps_show(&vi->comps[VIP_Q_RECV], received - 1);
    vi->pokes = pokes > 0 ? (uint32_t)pokes : 0; /* `prod` must not decrease */
    vi->generation =
        vip_load32_own(&head->generation); /* CQ entries of an earlier VI have another one */
    vip_store32_release(&head->prod[VIP_Q_SEND], vi->position[VIP_Q_SEND]);
    vip_store32_release(&head->prod[VIP_Q_RECV], received + vi->pokes);
}

void nic_cq_position_read(struct nic_session *session, uint32_t number)
{
    const struct vip_cqe *ring = vip_vipd_cq_ring(session->vipd_base, number);
    struct nic_cq *cq = &session->cqs[number];
    uint32_t prod = vip_load32_own(&vip_vipd_cq(session->vipd_base, number)->prod), end;
    struct vip_cqe entry;
    int32_t pokes;

    vip_fetch_begin();
    cq->position = vip_load32(&app_cq(session, number)->cons);
    vip_fetch_end();
    cq->cons_seen = cq->position;
    end = cq->position + VIP_CQ_RING_SLOTS;
    while (cq->position != end && vip_cq_read(ring, cq->position, &entry))
        cq->position++;
    pokes = (int32_t)(prod - cq->position);
    cq->pokes = pokes > 0 ? (uint32_t)pokes : 0;
}

void nic_vi_entries_again(struct nic_session *session, uint16_t number, enum vip_queue queue,
                          uint32_t count)
{
    struct nic_vi *vi = &session->vis[number];
    struct nic_cqe entry = {.vi = number, .queue = (uint8_t)queue, .generation = vi->generation};

    if (count > CQ_UNREAD_MAX) /* a correct libvipl never asks for more */
        count = CQ_UNREAD_MAX;
    count += VIP_MUTANT(ENTRY_TWICE) && count;
    for (; vi->cq[queue] >= 0 && count > VIP_MUTANT(ENTRY_LOST); count--)
        cq_add(session, (uint32_t)vi->cq[queue], &entry);
}

uint32_t nic_vi_completions(const struct nic_session *session, uint16_t number,
                            enum vip_queue queue)
{
    return session->vis[number].position[queue];
}

void nic_deferred_publish(struct nic *nic)
{
    uint32_t count = nic->deferred_count;

    nic->deferred_count = 0;
    for (uint32_t i = 0; i < count; i++)
        complete_now(&nic->deferred[i]);
}

/*
 * A VI ends, or the whole session if vi < 0: publish its deferred completions, in order.
 * Completions of other VIs still wait for their packets.
 */
void nic_deferred_publish_of(struct nic_session *session, int32_t vi)
{
    struct nic *nic = session->nic;
    uint32_t kept = 0;

    for (uint32_t i = 0; i < nic->deferred_count; i++) {
        const struct nic_deferred done = nic->deferred[i];

        if (done.session == session && (vi < 0 || done.vi == vi))
            complete_now(&done);
        else
            nic->deferred[kept++] = done;
    }
    nic->deferred_count = kept;
}

static bool deferred_grow(struct nic *nic)
{
    uint32_t cap = nic->deferred_cap ? nic->deferred_cap * 2 : 256;
    struct nic_deferred *bigger = realloc(nic->deferred, cap * sizeof(*bigger));

    if (!bigger)
        return false;
    nic->deferred = bigger;
    nic->deferred_cap = cap;
    return true;
}

/*
 * eng_ops.complete. The engine completes an unreliable send soon after vipd pulls its packet. But
 * the link reads the program's buffer only when it takes the packet, and the program must not reuse
 * the buffer earlier. So while packets wait for a full link, completions of sends wait, too (FIFO).
 */
void nic_op_complete(void *ctx, uint16_t vi, enum vip_queue queue, uint32_t status, uint32_t length,
                     uint64_t imm)
{
    struct nic_session *session = ctx;
    struct nic *nic = session->nic;
    struct nic_deferred done = {.session = session,
                                .vi = vi,
                                .queue = (uint8_t)queue,
                                .status = status,
                                .length = length,
                                .imm = imm};

    if (session->closing)
        return;
    session->failed |= (status & VIP_ST_ERROR_MASK) != 0;
    if (queue != VIP_Q_SEND || (!nic->tx_retry_ns && !nic->deferred_count)) {
        complete_now(&done);
        return;
    }
    if (nic->deferred_count == nic->deferred_cap && !deferred_grow(nic)) {
        nic_deferred_publish(nic);
        complete_now(&done);
        return;
    }
    nic->deferred[nic->deferred_count++] = done;
}

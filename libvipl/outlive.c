/*
 * The next vipd (outlive.h).
 *
 * While vipd is away, a post puts its descriptor only on the library's queue. Done calls take
 * completions as always, and requests wait (call.c). No thread writes into the submission ring. The
 * provider thread waits until all threads have recorded the last vipd's replies (vipl__call_keep).
 * Then it tells the next vipd of the session's objects; no other thread changes these objects.
 */
#include "libvipl/outlive.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "libvipl/call.h"
#include "libvipl/connect.h"
#include "libvipl/cq_fd.h"
#include "libvipl/direct.h"
#include "libvipl/error.h"
#include "libvipl/lent.h"
#include "libvipl/listen.h"
#include "libvipl/mem.h"
#include "libvipl/refused.h"
#include "libvipl/sq.h"
#include "libvipl/vipl_ext.h"

/* Pause, in ns, between two attempts to reach the next vipd. While the next vipd answers that it
 * cannot take the session yet, the pause doubles up to LATER_MAX_NS. */
#define LOOK_AGAIN_NS 10000000
#define LATER_MAX_NS  160000000

/* In the error texts of requests this string stands in place of a VIPL function's name. */
static const char call[] = "going on with the next vipd";

enum next {
    NEXT_NONE,  /* there is no next vipd yet */
    NEXT_LATER, /* the next vipd cannot take the session yet; VipxLastError has its reason */
    NEXT_GOES,  /* the next vipd continues the session */
    NEXT_NOT,   /* the session cannot go on: search no further */
};

/* Mark as outdated what the library has told vipd of the session's objects. Under session->lock. */
static void tell_anew(struct vipl__session *session)
{
    session->tells++;
    pthread_cond_broadcast(&session->changed);
}

static void set_gone(struct vipl__session *session, enum vipl__vipd gone)
{
    pthread_mutex_lock(&session->lock);
    tell_anew(session);
    vipl__spin_lock(&session->post_lock);
    __atomic_store_n(&session->trouble, 1, __ATOMIC_SEQ_CST);
    __atomic_store_n(&session->gone, gone, __ATOMIC_SEQ_CST);
    vipl__spin_unlock(&session->post_lock);
    pthread_cond_broadcast(&session->changed); /* waiters now check their time limits (attempt.c) */
    pthread_mutex_unlock(&session->lock);
}

static struct vipl__vi *live_vi(struct vipl__session *session, unsigned index)
{
    struct vipl__vi *vi = __atomic_load_n(&session->vi[index], __ATOMIC_ACQUIRE);

    return vi != NULL && __atomic_load_n(&vi->handle, __ATOMIC_ACQUIRE) != 0 ? vi : NULL;
}

/* The live VI with this index; NULL if there is none, or vipd has refused the VI. */
static struct vipl__vi *known_vi(struct vipl__session *session, unsigned index)
{
    struct vipl__vi *vi = __atomic_load_n(&session->vi[index], __ATOMIC_ACQUIRE);

    /* Load `refused` before the handle: VipDestroyVi of a refused VI clears the handle first. */
    if (vi == NULL || __atomic_load_n(&vi->refused, __ATOMIC_SEQ_CST) != VIPL__TAKEN)
        return NULL;
    return live_vi(session, index);
}

static struct vipl__cq *live_cq(struct vipl__session *session, unsigned index)
{
    struct vipl__cq *cq = __atomic_load_n(&session->cq[index], __ATOMIC_ACQUIRE);

    return cq != NULL && __atomic_load_n(&cq->handle, __ATOMIC_ACQUIRE) != 0 ? cq : NULL;
}

/* The live CQ with this index; NULL if there is none, or vipd has refused the CQ. */
static struct vipl__cq *known_cq(struct vipl__session *session, unsigned index)
{
    struct vipl__cq *cq = __atomic_load_n(&session->cq[index], __ATOMIC_ACQUIRE);

    if (cq == NULL || __atomic_load_n(&cq->refused, __ATOMIC_SEQ_CST) != VIPL__TAKEN)
        return NULL;
    return live_cq(session, index);
}

/* ---- the connection ---------------------------------------------------------------------- */

/* Make file descriptor `at` refer to the file of *fd. The number `at` must stay the same, because
 * other threads may use it now. False: failed. */
static bool replace(int at, int *fd)
{
    if (dup3(*fd, at, O_CLOEXEC) < 0)
        return false;
    close(*fd);
    *fd = -1;
    return true;
}

/* The next vipd continues the session: put its sockets in place of the last vipd's sockets. */
static bool take_sockets(struct vipl__session *session, int *control, struct vip_fds *fds)
{
    bool mine;

    pthread_mutex_lock(&session->call_lock);
    pthread_mutex_lock(&session->lock);
    /* If VipCloseNic runs, it shuts the old sockets down: leave them in place. */
    mine = !vipl__closing(session) && replace(session->control_fd, control) &&
           replace(session->doorbell_fd, &fds->fd[1]) && replace(session->event_fd, &fds->fd[2]);
    pthread_mutex_unlock(&session->lock);
    pthread_mutex_unlock(&session->call_lock);
    return mine;
}

/*
 * Wait for the reply. The reply may take long: systemd can accept the connection before vipd runs.
 * False: the time is over, or VipCloseNic runs.
 */
static bool await_reply(const struct vipl__session *session, int control, uint64_t deadline_ns)
{
    struct pollfd look = {.fd = control, .events = POLLIN};

    while (!vipl__closing(session) && vipl__now_ns() < deadline_ns)
        if (poll(&look, 1, LOOK_AGAIN_NS / 1000000) > 0)
            return true;
    return false;
}

/* Has the other side closed the socket? */
static bool hung_up(int control)
{
    char byte;
    ssize_t n = recv(control, &byte, sizeof(byte), MSG_PEEK | MSG_DONTWAIT);

    return n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR);
}

/*
 * Receive the reply; NULL: there is none. While this process has no room for the reply's file
 * descriptors, leave the reply in the socket. A session can be claimed only once, so vipd would not
 * send another reply.
 */
static ProtobufCMessage *take_reply(const struct vipl__session *session, int control,
                                    uint64_t deadline_ns, struct vip_fds *ret_fds)
{
    struct timespec pause = {.tv_nsec = LOOK_AGAIN_NS};
    ProtobufCMessage *reply = NULL;
    char byte;

    while (await_reply(session, control, deadline_ns)) {
        int rc = vip_control_recv(control, &vip__reply__descriptor, MSG_PEEK | MSG_DONTWAIT, &reply,
                                  ret_fds);

        if (rc != -EMFILE) {
            (void)!recv(control, &byte, sizeof(byte), MSG_DONTWAIT); /* take it out */
            break;
        }
        nanosleep(&pause, NULL);
    }
    return reply;
}

/* Send the request to the next vipd. Returns its reply; NULL: there is none. */
static Vip__Reply *ask_next(const struct vipl__session *session, int control,
                            const Vip__Request *request, const int fds[3], uint64_t deadline_ns,
                            struct vip_fds *ret_fds)
{
    if (vip_control_send(control, &request->base, fds, 3, MSG_DONTWAIT) < 0)
        return NULL;
    return (Vip__Reply *)take_reply(session, control, deadline_ns, ret_fds);
}

/* Read the next vipd's answer to the claim; after a success the session has that vipd's sockets. */
static enum next judge(struct vipl__session *session, int *control, const Vip__Reply *reply,
                       struct vip_fds *fds)
{
    if (reply == NULL)
        return NEXT_NONE;
    if (reply->code == VIP_RC_SUCCESS && reply->open != NULL && fds->count == 3) {
        session->past_rings = reply->open->past_rings;
        __atomic_store_n(&session->loans_known, reply->open->loans != 0, __ATOMIC_SEQ_CST);
        return take_sockets(session, control, fds) ? NEXT_GOES : NEXT_NOT;
    }
    vipl__fail(VIP_ERROR_RESOURCE, "%s: %s", call,
               reply->reason == NULL ? "vipd's reply makes no sense" : reply->reason);
    /* The last vipd is still ending, or the next one accepts no program now. An older vipd hangs up
     * without setting `hangs_up`. */
    if ((reply->open != NULL && reply->open->again_ms > 0) || reply->hangs_up || hung_up(*control))
        return NEXT_LATER;
    return NEXT_NOT;
}

/* Ask the vipd at this socket to continue the session ("claim"). */
static enum next claim(struct vipl__session *session, int *control, uint64_t deadline_ns)
{
    Vip__Claim past = VIP__CLAIM__INIT;
    Vip__OpenRequest open = VIP__OPEN_REQUEST__INIT;
    Vip__Request request = VIP__REQUEST__INIT;
    struct vip_fds got = VIP_FDS_NONE;
    Vip__Reply *reply;
    int fds[3] = {session->app_fd, vipl__mem_arena_hold(), session->vipd_fd};
    enum next next;

    if (fds[1] < 0)
        return NEXT_NOT;
    vipl__spin_lock(&session->post_lock);
    past.has_sq_position = 1;
    past.sq_position = session->sq_taken = session->sq_position;
    vipl__spin_unlock(&session->post_lock);
    open.has_abi = 1;
    open.abi = VIP_SHM_ABI;
    open.device = session->device;
    open.program = program_invocation_short_name;
    open.library_version = (char *)VIP_VERSION;
    open.claim = &past;
    request.body_case = VIP__REQUEST__BODY_OPEN;
    request.open = &open;
    reply = ask_next(session, *control, &request, fds, deadline_ns, &got);
    next = judge(session, control, reply, &got);
    vip_fds_close(&got);
    vipl__reply_free(reply);
    vipl__mem_arena_put();
    return next;
}

/* ---- what there is ----------------------------------------------------------------------- */

/* Has vipd answered, with success or with a refusal of the object? False: vipd has gone, or
 * VipCloseNic runs. */
static bool answered(const struct vipl__session *session, VIP_RETURN rc)
{
    return rc == VIP_SUCCESS || !(hung_up(session->control_fd) || vipl__closing(session));
}

static bool tell_ptags(struct vipl__session *session)
{
    VIP_RETURN rc;

    for (uint32_t i = 0; i < session->ptag_count; i++) {
        Vip__PtagRequest ptag = VIP__PTAG_REQUEST__INIT;
        Vip__Request request = VIP__REQUEST__INIT;

        ptag.has_ptag = 1;
        ptag.ptag = session->ptags[i];
        request.body_case = VIP__REQUEST__BODY_CREATE_PTAG;
        request.create_ptag = &ptag;
        rc = vipl__call(session, call, &request, NULL, 0, NULL);
        if (!answered(session, rc))
            return false;
        if (rc != VIP_SUCCESS)
            vipl__refuse_ptag(session, session->ptags[i]);
    }
    return true;
}

static VIP_RETURN tell_region(struct vipl__session *session, const struct vipl__region *region)
{
    Vip__MemAttributes attributes = VIP__MEM_ATTRIBUTES__INIT;
    Vip__RegisterMemRequest mem = VIP__REGISTER_MEM_REQUEST__INIT;
    Vip__Request request = VIP__REQUEST__INIT;

    attributes.has_ptag = attributes.has_enable_rdma_write = attributes.has_enable_rdma_read = 1;
    attributes.ptag = region->ptag;
    attributes.enable_rdma_write = region->attrs.EnableRdmaWrite != 0;
    attributes.enable_rdma_read = region->attrs.EnableRdmaRead != 0;
    mem.has_address = mem.has_bytes = mem.has_kind = mem.has_offset = mem.has_handle = 1;
    mem.address = region->addr;
    mem.bytes = region->bytes;
    mem.attributes = &attributes;
    mem.kind = (Vip__MemKind)region->mem.kind;
    mem.offset = region->mem.offset;
    mem.handle = region->handle;
    request.body_case = VIP__REQUEST__BODY_REGISTER_MEM;
    request.register_mem = &mem;
    return vipl__call(session, call, &request, &region->mem.fd, region->mem.fd >= 0 ? 1 : 0, NULL);
}

/* This needs no lock: while vipd is away, no other thread changes the region table. */
static bool tell_regions(struct vipl__session *session)
{
    const struct vipl__regions *regions = &session->regions;
    VIP_RETURN rc;

    for (uint32_t i = 0; regions->slots != NULL && i <= regions->mask; i++) {
        struct vipl__region *region = regions->slots[i].region;

        if (region == NULL)
            continue;
        rc = tell_region(session, region);
        if (!answered(session, rc))
            return false;
        if (rc != VIP_SUCCESS)
            vipl__refuse_region(session, region);
        else
            region->refused = false;
    }
    return true;
}

static bool tell_cqs(struct vipl__session *session)
{
    VIP_RETURN rc;

    for (unsigned i = 0; i < VIP_CQ_MAX; i++) {
        struct vipl__cq *cq = known_cq(session, i);
        Vip__CqRequest body = VIP__CQ_REQUEST__INIT;
        Vip__Request request = VIP__REQUEST__INIT;

        if (cq == NULL)
            continue;
        body.has_cq = 1;
        body.cq = i;
        request.body_case = VIP__REQUEST__BODY_CREATE_CQ;
        request.create_cq = &body;
        rc = vipl__call(session, call, &request, &cq->fd[1], cq->fd[1] >= 0 ? 1 : 0, NULL);
        if (!answered(session, rc))
            return false;
        if (rc != VIP_SUCCESS)
            vipl__refuse_cq(cq);
    }
    return true;
}

/*
 * Position of the queue's first completion without a CQ entry. The earlier ones have entries: the
 * program has taken these, or they are in the CQ's ring. The next vipd writes the missing entries.
 */
static uint32_t entries_of(const struct vipl__vi *vi, enum vip_queue which)
{
    const struct vipl__queue *queue = &vi->queue[which];
    const struct vipl__direct *direct = vipl__direct_of(vi);
    struct vipl__cq *cq = queue->cq;
    uint32_t entries = queue->first;
    struct vip_cqe entry;

    if (cq == NULL)
        return entries;
    vipl__spin_lock(&cq->done_lock);
    entries += queue->reported;
    if (which == VIP_Q_SEND)
        entries -= queue->direct_reported;
    else if (direct != NULL)
        entries -= __atomic_load_n(&direct->reported, __ATOMIC_RELAXED);
    entries += vipl__lent_entries(vi, which);
    for (uint32_t at = cq->position; vip_cq_read(cq->ring, at, &entry); at++)
        entries +=
            entry.vi == vi->index && entry.queue == which && entry.gen == (vi->generation & 0xFF);
    vipl__spin_unlock(&cq->done_lock);
    return entries;
}

/*
 * Fill in how the counts of receive descriptors, completions and ring messages differ (PastVi in
 * proto/control.proto). Meanwhile other threads may take completions and messages; this does not
 * change recv_base.
 */
static void fill_receives(struct vipl__vi *vi, bool ring, Vip__PastVi *past)
{
    const struct vipl__direct *direct = ring ? vi->direct : NULL;
    struct vipl__queue *recv = &vi->queue[VIP_Q_RECV];

    vipl__spin_lock(&recv->done_lock);
    past->has_recv_base = 1;
    past->recv_base = recv->reaped - recv->position - (ring ? direct->taken : 0);
    vipl__spin_unlock(&recv->done_lock);
    past->has_ring_half = past->has_ring_first = ring;
    if (!ring)
        return;
    past->ring_half = direct->half;
    past->ring_first = direct->first;
}

/* Fill in how far the program has come if it had a loan. */
static void fill_loan(struct vipl__vi *vi, Vip__PastVi *past)
{
    struct vipl__lent_past lent;

    vipl__lent_away(vi, &lent);
    past->has_loan = lent.number != 0;
    past->loan = lent.number;
    past->has_loan_done = past->has_loan_received = past->has_loan_completed = lent.used;
    past->loan_done = lent.at.done;
    past->loan_received = lent.at.received;
    past->loan_completed = lent.at.completed;
}

/* Tell vipd of a VI, with or without its ring. *ret_rebind: must its connection be bound anew? */
static VIP_RETURN tell_vi_as(struct vipl__session *session, struct vipl__vi *vi, bool ring,
                             bool *ret_rebind)
{
    struct vipl__cq *send_cq = vi->queue[VIP_Q_SEND].cq, *recv_cq = vi->queue[VIP_Q_RECV].cq;
    Vip__PastVi past = VIP__PAST_VI__INIT;
    Vip__ViAttributes attributes;
    Vip__CreateViRequest body = VIP__CREATE_VI_REQUEST__INIT;
    Vip__Request request = VIP__REQUEST__INIT;
    Vip__Reply *reply = NULL;
    VIP_RETURN rc;

    vipl__vi_attrs_put(&attributes, &vi->attrs, vi->ptag);
    past.has_vi = past.has_generation = 1;
    past.vi = vi->index;
    past.generation = vi->generation;
    past.has_idle = 1;
    pthread_mutex_lock(&session->lock);
    past.idle = vi->attempt == VIPL__ATTEMPT_CONNECT || vi->attempt == VIPL__ATTEMPT_ACCEPT;
    pthread_mutex_unlock(&session->lock);
    past.has_ticket = vi->ticket_len > 0;
    past.ticket.data = vi->ticket;
    past.ticket.len = vi->ticket_len;
    fill_loan(vi, &past); /* first, because completions on loan count below */
    if (past.has_loan && !__atomic_load_n(&session->loans_known, __ATOMIC_SEQ_CST))
        return vipl__fail(VIP_ERROR_NOT_SUPPORTED,
                          "%s: the connection was on loan, and this vipd knows no loans", call);
    past.has_send_entries = past.has_recv_entries = 1;
    past.send_entries = entries_of(vi, VIP_Q_SEND);
    past.recv_entries = entries_of(vi, VIP_Q_RECV);
    fill_receives(vi, ring, &past);
    body.attributes = &attributes;
    body.has_send_cq = send_cq != NULL;
    body.send_cq = send_cq != NULL ? send_cq->index : 0;
    body.has_recv_cq = recv_cq != NULL;
    body.recv_cq = recv_cq != NULL ? recv_cq->index : 0;
    body.past = &past;
    request.body_case = VIP__REQUEST__BODY_CREATE_VI;
    request.create_vi = &body;
    rc = vipl__call(session, call, &request, ring ? &vi->direct->fd : NULL, ring ? 1 : 0, &reply);
    if (rc != VIP_SUCCESS)
        return rc;
    vipl__lent_told(vi);
    *ret_rebind = reply->create_vi != NULL && reply->create_vi->rebind;
    vipl__reply_free(reply);
    return VIP_SUCCESS;
}

/*
 * Tell vipd of a VI, with its ring if vipd accepts the ring. Otherwise first stop all threads from
 * taking ring messages, because each message that they take would change recv_base.
 */
static VIP_RETURN tell_vi(struct vipl__session *session, struct vipl__vi *vi, bool *ret_rebind)
{
    VIP_RETURN rc = VIP_ERROR_NOT_SUPPORTED;

    if (vipl__direct_goes_on(vi))
        rc = tell_vi_as(session, vi, true, ret_rebind);
    if (rc != VIP_ERROR_NOT_SUPPORTED)
        return rc;
    vipl__direct_over(vi);
    return tell_vi_as(session, vi, false, ret_rebind);
}

static VIP_RETURN tell_rebind(struct vipl__session *session, unsigned index)
{
    Vip__ViRequest body = VIP__VI_REQUEST__INIT;
    Vip__Request request = VIP__REQUEST__INIT;

    body.has_vi = 1;
    body.vi = index;
    request.body_case = VIP__REQUEST__BODY_REBIND;
    request.rebind = &body;
    return vipl__call(session, call, &request, NULL, 0, NULL);
}

/* ---- posting again ----------------------------------------------------------------------- */

/* Post to vipd the descriptors of a queue that are not in the new submission ring yet. Under
 * post_lock. False: the ring is full. */
static bool post_rest(struct vipl__vi *vi, enum vip_queue which)
{
    struct vipl__queue *queue = &vi->queue[which];
    uint32_t posted = __atomic_load_n(&queue->posted, __ATOMIC_RELAXED);

    if (which == VIP_Q_RECV && vi->session->direct)
        queue->again = posted; /* nothing to post: vipd reads the table of receives */
    for (; queue->again != posted; queue->again++) {
        uint8_t how = queue->how[queue->again & (VIP_DESC_PER_QUEUE_MAX - 1)];

        if ((how & (VIPL__HOW_RING | VIPL__HOW_LOAN)) == 0 &&
            !vipl__post_again(vi, which, queue->again))
            return false;
    }
    return true;
}

/* Call post_rest for all queues, under post_lock. False: the submission ring is full. */
static bool post_round(struct vipl__session *session)
{
    for (unsigned i = 0; i < VIP_VI_MAX; i++) {
        struct vipl__vi *vi = known_vi(session, i);

        if (vi != NULL && !(post_rest(vi, VIP_Q_RECV) && post_rest(vi, VIP_Q_SEND)))
            return false;
    }
    return true;
}

/*
 * Post again all descriptors that have not completed. If `then` is true, new descriptors go to vipd
 * from then on. False: the ring is full, and vipd has taken nothing for VIPL__SQ_FULL_NS.
 */
static bool post_all(struct vipl__session *session, bool then)
{
    uint64_t deadline_ns = vipl__now_ns() + VIPL__SQ_FULL_NS;
    uint32_t taken = session->sq_taken;
    bool done;

    for (;;) {
        pthread_mutex_lock(&session->lock);
        vipl__spin_lock(&session->post_lock);
        done = post_round(session);
        if (done && then) {
            __atomic_add_fetch(&session->lives, 1, __ATOMIC_SEQ_CST);
            __atomic_store_n(&session->gone, VIPL__THERE, __ATOMIC_SEQ_CST);
            if (__atomic_load_n(&session->refused, __ATOMIC_SEQ_CST) == 0)
                __atomic_store_n(&session->trouble, 0, __ATOMIC_SEQ_CST);
            pthread_cond_broadcast(&session->changed);
        }
        vipl__spin_unlock_full(&session->post_lock);
        pthread_mutex_unlock(&session->lock);
        vipl__ring_bell(session);
        if (session->sq_taken != taken)
            deadline_ns = vipl__now_ns() + VIPL__SQ_FULL_NS;
        taken = session->sq_taken;
        if (done || vipl__closing(session) || vipl__now_ns() >= deadline_ns)
            return done;
        sched_yield();
    }
}

/* ---- all of it --------------------------------------------------------------------------- */

/* Tell vipd of the VIs, post their descriptors again, and bind their connections anew. */
static bool tell_vis(struct vipl__session *session)
{
    bool *rebind = calloc(VIP_VI_MAX, sizeof(*rebind)), good = rebind != NULL;
    VIP_RETURN rc;

    for (unsigned i = 0; i < VIP_VI_MAX && good; i++) {
        struct vipl__vi *vi = known_vi(session, i);

        if (vi == NULL)
            continue;
        rc = tell_vi(session, vi, &rebind[i]);
        good = answered(session, rc);
        if (good && rc != VIP_SUCCESS)
            vipl__refuse_vi(vi);
        for (unsigned q = 0; q < 2; q++) {
            vipl__spin_lock(&vi->queue[q].done_lock);
            vi->queue[q].again = vipl__first_undone(&vi->queue[q]);
            vipl__spin_unlock(&vi->queue[q].done_lock);
        }
    }
    good = good && post_all(session, false);
    for (unsigned i = 0; i < VIP_VI_MAX && good; i++)
        good = !rebind[i] || tell_rebind(session, i) == VIP_SUCCESS;
    free(rebind);
    return good;
}

static bool tell_listeners(struct vipl__session *session)
{
    VIP_RETURN rc;

    for (unsigned i = 0; i < VIPL__LISTENERS_MAX; i++) {
        rc = vipl__listener_again(session, i);
        if (!answered(session, rc))
            return false;
        if (rc != VIP_SUCCESS)
            vipl__refuse_listener(session);
    }
    return true;
}

static bool tell_all(struct vipl__session *session)
{
    bool good;

    pthread_mutex_lock(&session->lock);
    tell_anew(session);
    vipl__requests_forget(session);
    pthread_mutex_unlock(&session->lock);
    good = vipl__direct_again(session) == VIP_SUCCESS && tell_ptags(session) &&
           tell_regions(session) && tell_cqs(session) && tell_vis(session) &&
           tell_listeners(session) && post_all(session, true);
    if (good)
        return true;
    pthread_mutex_lock(&session->lock);
    tell_anew(session);
    pthread_mutex_unlock(&session->lock);
    return false;
}

/* Find the next vipd and go on with it. */
static enum next look(struct vipl__session *session, uint64_t deadline_ns)
{
    int control = vip_control_connect(session->socket_path);
    enum next next;

    if (control < 0)
        return NEXT_NONE;
    next = claim(session, &control, deadline_ns);
    if (control >= 0)
        close(control);
    if (next != NEXT_GOES || tell_all(session))
        return next;
    return hung_up(session->control_fd) ? NEXT_NONE : NEXT_NOT; /* has this vipd ended, too? */
}

/* Wait until all threads have recorded the replies of the last vipd (vipl__call_keep). */
static void await_kept(struct vipl__session *session)
{
    struct timespec pause = {.tv_nsec = 100000};

    pthread_mutex_lock(&session->call_lock); /* then `kept` counts all replies that were read */
    pthread_mutex_unlock(&session->call_lock);
    while (__atomic_load_n(&session->kept, __ATOMIC_SEQ_CST) != 0 && !vipl__closing(session))
        nanosleep(&pause, NULL);
}

/* The last vipd may have ended before it finished its work. Repeat its signals to CQs' file
 * descriptors, the requests to connect, and the requests to wake threads for ring messages. */
static void wake(struct vipl__session *session)
{
    for (unsigned i = 0; i < VIP_CQ_MAX; i++)
        if (live_cq(session, i) != NULL)
            vipl__cq_fd_flushed(session->cq[i]);
    for (unsigned i = 0; i < VIP_VI_MAX; i++)
        if (live_vi(session, i) != NULL) {
            vipl__connect_again(session->vi[i]);
            vipl__direct_resume(session->vi[i]);
        }
}

/* The text of a failed request without its prefix `call`: only the reason. */
static const char *without_call(const char *text)
{
    size_t len = sizeof(call) - 1;

    return strncmp(text, call, len) == 0 && text[len] == ':' ? text + len + 2 : text;
}

bool vipl__outlive(struct vipl__session *session, char *ret_refusal, size_t refusal_bytes)
{
    uint64_t deadline_ns = vipl__now_ns() + session->outlive_ns;
    enum next next = NEXT_NONE;
    long pause_ns = LOOK_AGAIN_NS;

    if (session->outlive_ns == 0 || vipl__closing(session) ||
        __atomic_load_n(&session->broken, __ATOMIC_SEQ_CST) != 0 ||
        vip_load32_acquire(&session->vipd->closed) != 0)
        return false;
    set_gone(session, VIPL__AWAY);
    await_kept(session);
    while (next < NEXT_GOES && !vipl__closing(session) && vipl__now_ns() < deadline_ns) {
        next = look(session, deadline_ns);
        if (next == NEXT_LATER || next == NEXT_NOT)
            snprintf(ret_refusal, refusal_bytes, "%s", without_call(VipxLastError()));
        if (next < NEXT_GOES)
            nanosleep(&(struct timespec){.tv_nsec = pause_ns}, NULL);
        if (next != NEXT_LATER)
            pause_ns = LOOK_AGAIN_NS;
        else if (pause_ns < LATER_MAX_NS)
            pause_ns *= 2;
    }
    if (next != NEXT_GOES)
        return false;
    ret_refusal[0] = '\0';
    wake(session);
    return true;
}

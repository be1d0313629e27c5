/* Loans of a session (lent.h). */
#include "libvipl/lent.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <semaphore.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include "libvipl/call.h"
#include "libvipl/callback.h"
#include "libvipl/direct.h"
#include "libvipl/slot.h"
#include "libvipl/sq.h"
#include "proto/fence.h"

/* Two looks that are further apart than this, in ns, are a pause: the program does not poll. */
#define PAUSE_NS 2000000u
/* A program must poll for this time, in ns, without a pause before the library asks for a loan. */
#define STEADY_NS 1000000u
/* The library asks again after this time, in ns, at the earliest. */
#define ASK_AGAIN_NS   100000000u
#define EAGER_AGAIN_NS 1000000u
/* A probe is sent this often at most, with this time, in ns, between two of them. */
#define PROBES   3u
#define PROBE_NS 20000000u

/* The parts of a session (proto/loan.h). */
struct vipl__loans {
    struct vip_loan_part *parts;
    int fd;
    struct vipl__lent *of[VIP_LOANS_MAX]; /* who has the part; under session->lock; NULL: nobody */
    bool told;                            /* vipd has the file; only the thread uses this */
    bool started;                         /* there is a thread; under session->lock */
    pthread_t thread;
    sem_t work;              /* the thread has work */
    pthread_mutex_t regions; /* held while the region table changes, and by a loan that begins */
    struct vipl__loan *locked[VIP_LOANS_MAX]; /* under `regions`: the loans that are kept out */
    struct vipl__vi *asks;                    /* atomic; the VI that asks for a loan; NULL: none */
};

static const struct vip_vipd_vi *head_of(const struct vipl__lent *lent)
{
    return vip_vipd_vi((void *)lent->vi->session->vipd, lent->vi->index);
}

static enum vipl__lent_state state_of(const struct vipl__lent *lent)
{
    return (enum vipl__lent_state)__atomic_load_n(&lent->state, __ATOMIC_ACQUIRE);
}

/* Change the state, if it is `from`. */
static bool state_change(struct vipl__lent *lent, enum vipl__lent_state from,
                         enum vipl__lent_state to)
{
    uint32_t expected = from;

    return __atomic_compare_exchange_n(&lent->state, &expected, to, false, __ATOMIC_SEQ_CST,
                                       __ATOMIC_SEQ_CST);
}

/* ---- completions ------------------------------------------------------------------------- */

/* A send leaves the table: free its continuation slots. */
static void conts_free(struct vipl__lent *lent, uint32_t number)
{
    const struct vip_sq_slot *slot =
        &lent->part->slot[(number + lent->op_base) & (VIP_DESC_PER_QUEUE_MAX - 1)];
    uint32_t slots = VIP_SQ_SLOTS_FOR(slot->seg_count) - 1;
    struct vip_sq_msg part;

    if ((slot->flags & VIP_SQF_MSG) != 0) {
        uint32_t at = lent->part->conts_at[(number + lent->op_base) & (VIP_DESC_PER_QUEUE_MAX - 1)];

        memcpy(&part, &lent->part->conts[(at + slots) & (VIP_SQ_SLOTS - 1)], sizeof(part));
        slots += VIP_SQ_SLOTS_FOR_MSG(part.len);
    }
    if (slots > 0)
        __atomic_sub_fetch(&lent->conts_used, slots, __ATOMIC_RELEASE);
}

/* vipl__loan_host.complete */
static void on_complete(void *ctx, enum vip_queue which, uint32_t status, uint32_t length,
                        uint64_t imm)
{
    struct vipl__lent *lent = ctx;
    struct vipl__lent_queue *of = &lent->queue[which];
    uint32_t number = of->next++, slot = number & (VIP_DESC_PER_QUEUE_MAX - 1);
    uint8_t *how = &lent->vi->queue[which].how[slot];

    of->comp[slot] = (struct vip_comp){.status = status, .length = length, .imm = imm};
    if (which == VIP_Q_SEND)
        conts_free(lent, number);
    __atomic_store_n(how, (uint8_t)(*how | VIPL__HOW_LOAN), __ATOMIC_RELEASE);
    __atomic_store_n(&of->done, of->done + 1, __ATOMIC_RELEASE);
}

static void on_bell(void *ctx)
{
    const struct vipl__lent *lent = ctx;

    vipl__doorbell(lent->vi->session);
}

/* ---- the thread of the session's loans ---------------------------------------------------- */

/*
 * Requests to vipd can wait for vipd, and polls must not. So polls leave requests about loans to
 * this thread, which the session has as soon as one of its connections can be on loan.
 */

static void work(struct vipl__loans *loans)
{
    (void)sem_post(&loans->work);
}

/* End the loan here; the thread tells vipd. The state is BEGINS. */
static void give_back(struct vipl__lent *lent)
{
    vipl__loan_end(lent->loan);
    __atomic_store_n(&lent->state, VIPL__LENT_BACK, __ATOMIC_SEQ_CST);
    work(lent->vi->session->loans);
}

/* Tell vipd that the loan is given back, and whether the engine has broken the connection. */
static void back_send(struct vipl__lent *lent)
{
    Vip__LoanEndRequest end = VIP__LOAN_END_REQUEST__INIT;
    Vip__Request request = VIP__REQUEST__INIT;

    end.has_vi = 1;
    end.vi = lent->vi->index;
    if (__atomic_load_n(&lent->breaks, __ATOMIC_ACQUIRE) != 0) {
        end.has_reason = end.has_op_status = end.has_failed_op = end.has_ops_done = 1;
        end.reason = lent->broken.reason;
        end.op_status = lent->broken.op_status;
        end.failed_op = lent->broken.failed_op;
        end.ops_done = lent->broken.ops_done;
    }
    request.body_case = VIP__REQUEST__BODY_LOAN_END;
    request.loan_end = &end;
    /* Whatever the outcome: vipd takes the loan back by itself when data waits. */
    (void)vipl__call(lent->vi->session, "giving a loan back", &request, NULL, 0, NULL);
    (void)state_change(lent, VIPL__LENT_BACK, VIPL__LENT_NONE);
}

/* Take the events of the engine. If it has broken the connection, vipd ends it. */
static void events_take(struct vipl__lent *lent)
{
    struct vipl__vi *vi = lent->vi;
    struct eng_event event;
    bool breaks = false;

    while (vipl__loan_event(lent->loan, &event)) {
        if (event.kind == ENG_EVENT_BROKEN) {
            lent->broken = event;
            breaks = true;
        } else if (event.kind == ENG_EVENT_ERROR && event.code != VIP_EC_CONN_LOST) {
            vipl__async_error(vi->session, VIP_RESOURCE_VI, (VIP_ERROR_CODE)event.code, vi, NULL,
                              event.opcode, event.why);
        }
    }
    if (!breaks || !state_change(lent, VIPL__LENT_LIVE, VIPL__LENT_BEGINS))
        return;
    __atomic_store_n(&lent->breaks, 1, __ATOMIC_RELEASE);
    give_back(lent);
}

/* The loan is over; vipd has ended it. */
static void over(struct vipl__lent *lent)
{
    if (!state_change(lent, VIPL__LENT_LIVE, VIPL__LENT_BEGINS))
        return;
    vipl__loan_end(lent->loan);
    __atomic_store_n(&lent->state, VIPL__LENT_NONE, __ATOMIC_SEQ_CST);
}

/* Does a thread sleep, or wait by other means than polls, for completions of this VI? */
static bool waited_for(const struct vipl__vi *vi)
{
    for (unsigned q = 0; q < 2; q++) {
        const struct vipl__queue *queue = &vi->queue[q];
        const struct vipl__cq *cq = __atomic_load_n(&queue->cq, __ATOMIC_RELAXED);

        if (__atomic_load_n(queue->waiters, __ATOMIC_SEQ_CST) != 0 ||
            (cq != NULL && (__atomic_load_n(&cq->app->waiters, __ATOMIC_SEQ_CST) != 0 ||
                            __atomic_load_n(&cq->fd[0], __ATOMIC_RELAXED) >= 0)))
            return true;
    }
    return false;
}

/* ---- the table of sends ------------------------------------------------------------------ */

/* Number of slots in `conts` that a send needs. */
static uint32_t conts_for(const VIP_DESCRIPTOR *desc, const struct vipl__extra *extra)
{
    return VIP_SQ_SLOTS_FOR(vipl__slot_segments(desc)) - 1 +
           VIP_SQ_SLOTS_FOR_MSG(extra->message_bytes);
}

bool vipl__lent_room(const struct vipl__lent *lent, const VIP_DESCRIPTOR *desc,
                     const struct vipl__extra *extra)
{
    return __atomic_load_n(&lent->conts_used, __ATOMIC_ACQUIRE) + conts_for(desc, extra) <=
           VIP_SQ_SLOTS;
}

void vipl__lent_write(struct vipl__lent *lent, uint32_t number, const VIP_DESCRIPTOR *desc,
                      const struct vipl__extra *extra)
{
    struct vip_loan_part *part = lent->part;
    unsigned seg_count = vipl__slot_segments(desc);
    uint32_t op = number + lent->op_base, conts = conts_for(desc, extra);
    struct vip_sq_slot slot;

    if (__builtin_expect(conts > 0, 0)) {
        part->conts_at[op & (VIP_DESC_PER_QUEUE_MAX - 1)] = lent->conts;
        vipl__slot_segs(part->conts, lent->conts, lent->vi, desc, seg_count, extra);
        vipl__slot_message(part->conts, lent->vi, extra,
                           lent->conts + VIP_SQ_SLOTS_FOR(seg_count) - 1);
        lent->conts += conts;
        __atomic_add_fetch(&lent->conts_used, conts, __ATOMIC_RELAXED);
    }
    slot = vipl__slot_first(lent->vi, desc, VIP_Q_SEND, seg_count, extra);
    vip_loan_send_write(part, op, &slot);
}

/* Write a send that was posted before the loan began. False: the table has no room for it, or the
 * library has not kept its data. */
static bool write_again(struct vipl__lent *lent, uint32_t number)
{
    const struct vipl__queue *queue = &lent->vi->queue[VIP_Q_SEND];
    uint32_t at = number & (VIP_DESC_PER_QUEUE_MAX - 1);
    struct vip_sq_slot slot;
    struct vipl__extra extra;

    if (((queue->how[at] & VIP_SQF_IMM64) != 0 && queue->imm == NULL) ||
        ((queue->how[at] & VIP_SQF_MSG) != 0 && queue->message == NULL))
        return false;
    if (!vipl__slot_again(lent->vi, VIP_Q_SEND, number, &extra, &slot)) {
        vip_loan_send_write(lent->part, number + lent->op_base, &slot);
        return true;
    }
    if (!vipl__lent_room(lent, queue->fifo[at], &extra))
        return false;
    vipl__lent_write(lent, number, queue->fifo[at], &extra);
    return true;
}

/* ---- the beginning ----------------------------------------------------------------------- */

/* Fill the table of sends, and find the numbers of the next descriptors. Under post_lock and both
 * done_locks. False: the table has no room for all sends, or vipd counts the receives otherwise. */
static bool fill_table(struct vipl__lent *lent)
{
    struct vipl__vi *vi = lent->vi;
    uint32_t first = vipl__first_undone(&vi->queue[VIP_Q_SEND]);

    lent->queue[VIP_Q_SEND].next = first;
    lent->queue[VIP_Q_RECV].next = vipl__first_undone(&vi->queue[VIP_Q_RECV]);
    if (lent->queue[VIP_Q_RECV].next != lent->terms.receive)
        return false;
    lent->op_base = lent->terms.checkpoint.completed - first;
    __atomic_store_n(&lent->done, lent->queue[VIP_Q_SEND].done, __ATOMIC_RELAXED);
    __atomic_store_n(&lent->prod, vip_load32_acquire(vi->queue[VIP_Q_SEND].prod), __ATOMIC_RELAXED);
    lent->conts = 0;
    __atomic_store_n(&lent->conts_used, 0, __ATOMIC_RELAXED);
    vip_store32_release(&lent->part->posted, lent->terms.checkpoint.completed);
    for (uint32_t at = first; at != vi->queue[VIP_Q_SEND].posted; at++)
        if (!write_again(lent, at))
            return false;
    return true;
}

/* From now on sends go into the table. False: the VI cannot use the loan. */
static bool take_sends(struct vipl__lent *lent)
{
    struct vipl__vi *vi = lent->vi;
    bool good;

    vipl__spin_lock(&vi->session->post_lock);
    vipl__spin_lock(&vi->queue[VIP_Q_SEND].done_lock);
    vipl__spin_lock(&vi->queue[VIP_Q_RECV].done_lock);
    good = __atomic_load_n(&vi->handle, __ATOMIC_ACQUIRE) != 0 && vipl__direct_of(vi) == NULL &&
           __atomic_load_n(&vi->session->staged, __ATOMIC_ACQUIRE) == 0 && fill_table(lent);
    lent->out = good;
    vipl__spin_unlock(&vi->queue[VIP_Q_RECV].done_lock);
    vipl__spin_unlock(&vi->queue[VIP_Q_SEND].done_lock);
    vipl__spin_unlock_full(&vi->session->post_lock);
    return good;
}

/* Begin the loan that vipd has offered, and now opened. The state is BEGINS. */
static bool begin(struct vipl__lent *lent, uint64_t now_ns)
{
    struct vipl__loans *loans = lent->vi->session->loans;

    lent->terms.checkpoint = head_of(lent)->loan.checkpoint;
    if (!take_sends(lent) || vipl__loan_begin(lent->loan, &lent->terms, now_ns) != 0)
        return false;
    /* Wait for a thread that changes the region table and did not find this loan. */
    pthread_mutex_lock(&loans->regions);
    __atomic_store_n(&lent->state, VIPL__LENT_LIVE, __ATOMIC_SEQ_CST);
    pthread_mutex_unlock(&loans->regions);
    /* A thread that falls asleep publishes this, and then gives back live loans. So either it finds
     * this loan live, or this thread finds it asleep. */
    return !waited_for(lent->vi) || !state_change(lent, VIPL__LENT_LIVE, VIPL__LENT_BEGINS);
}

void vipl__lent_turn(struct vipl__lent *lent)
{
    uint64_t now_ns = vipl__now_ns();

    if (state_of(lent) == VIPL__LENT_OFFERED) {
        /* vipd opens the loan just after it has sent the terms. */
        if (vip_load32_acquire(&head_of(lent)->loan.lent) != lent->terms.number ||
            !state_change(lent, VIPL__LENT_OFFERED, VIPL__LENT_BEGINS))
            return;
        if (!begin(lent, now_ns)) {
            give_back(lent);
            return;
        }
    }
    if (state_of(lent) != VIPL__LENT_LIVE)
        return;
    switch (vipl__loan_turn(lent->loan, now_ns)) {
    case VIPL__LOAN_OVER:
        over(lent);
        break;
    case VIPL__LOAN_EVENT:
        events_take(lent);
        break;
    case VIPL__LOAN_IDLE:
    case VIPL__LOAN_DID:
    case VIPL__LOAN_BUSY:
        break;
    }
}

void vipl__lent_poll_cq(struct vipl__cq *cq)
{
    unsigned count = __atomic_load_n(&cq->direct_count, __ATOMIC_ACQUIRE);

    if (__builtin_expect(count == 0, 1))
        return;
    /* The entry may be replaced meanwhile; VI objects are never freed. */
    vipl__lent_poll(__atomic_load_n(
        &cq->direct[__atomic_fetch_add(&cq->lent_turn, 1, __ATOMIC_RELAXED) % count].vi,
        __ATOMIC_RELAXED));
}

void vipl__lent_posted(struct vipl__lent *lent)
{
    /* Either this load sees that vipd has taken the loan back, or vipd sees the send. */
    if (vipl__lent_taken(lent))
        vipl__ask(lent->vi, VIP_ASK_SENDS);
    else
        vipl__lent_turn(lent);
}

/* ---- asking ------------------------------------------------------------------------------ */

/* Map the parts at their address, which stays reserved: a late call may still load words there. */
static bool parts_map(struct vipl__loans *loans, int fd)
{
    int flags = fd < 0 ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED;
    void *base = mmap(loans->parts, VIP_LOANS_BYTES, PROT_READ | PROT_WRITE,
                      flags | MAP_NORESERVE | (loans->parts == NULL ? 0 : MAP_FIXED), fd, 0);

    if (base == MAP_FAILED)
        return false;
    loans->parts = base;
    return true;
}

/* Make the file of the parts, and map it. False: no memory. */
static bool parts_make(struct vipl__loans *loans)
{
    loans->fd = memfd_create("vipl-loans", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    return loans->fd >= 0 && vipl__mem_file_grow(loans->fd, VIP_LOANS_BYTES) == 0 &&
           parts_map(loans, loans->fd) && vipl__shared_advise(loans->parts, VIP_LOANS_BYTES) == 0 &&
           fcntl(loans->fd, F_ADD_SEALS,
                 F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_FUTURE_WRITE | F_SEAL_SEAL) == 0;
}

/* The session's parts, with a file for vipd; NULL: no memory. Under session->lock. */
static struct vipl__loans *loans_of(struct vipl__session *session)
{
    struct vipl__loans *loans = session->loans;

    if (loans == NULL) {
        loans = calloc(1, sizeof(*loans));
        if (loans == NULL)
            return NULL;
        loans->fd = -1;
        pthread_mutex_init(&loans->regions, NULL);
        __atomic_store_n(&session->loans, loans, __ATOMIC_RELEASE);
    }
    if (loans->fd < 0 && !parts_make(loans)) {
        vipl__fd_close(&loans->fd);
        return NULL;
    }
    return loans;
}

/* Each connection begins with words that are zero. */
static void part_begin(struct vip_loan_part *part)
{
    memset(&part->owner, 0, sizeof(part->owner));
    vip_store32_release(&part->posted, 0);
}

/* Give the VI a part, if it has none and there is a free one. Under session->lock. */
static bool part_take(struct vipl__loans *loans, struct vipl__lent *lent)
{
    for (unsigned i = 0; i < VIP_LOANS_MAX && lent->part == NULL; i++)
        if (loans->of[i] == NULL) {
            part_begin(&loans->parts[i]);
            loans->of[i] = lent;
            lent->number = i;
            lent->part = &loans->parts[i];
        }
    return lent->part != NULL;
}

/* Make the object that runs the engine. False: no memory. */
static bool runtime_make(struct vipl__lent *lent)
{
    const struct vipl__session *session = lent->vi->session;
    struct vipl__loan_host host = {.regions = &session->regions,
                                   .recv_base = session->recv_base,
                                   .complete = on_complete,
                                   .bell = on_bell,
                                   .ctx = lent};

    return lent->loan != NULL || vipl__loan_new(&host, &lent->loan) == 0;
}

/* From a VIPL address to a socket's address. False: it is none of IPv4. */
static bool address_get(struct sockaddr_in *ret, const uint8_t *host, size_t len)
{
    if (len != sizeof(ret->sin_addr) + sizeof(ret->sin_port))
        return false;
    memcpy(&ret->sin_addr, host, sizeof(ret->sin_addr));
    memcpy(&ret->sin_port, host + sizeof(ret->sin_addr), sizeof(ret->sin_port));
    return true;
}

/* Make the VI's socket, if it has none: bound to this NIC's address. Connect it to the peer's NIC.
 * Under session->lock. */
static bool sock_ready(struct vipl__lent *lent)
{
    struct sockaddr_in self = {.sin_family = AF_INET}, peer = {.sin_family = AF_INET};
    const struct vipl__session *session = lent->vi->session;
    const struct vipl__asks *asks = &lent->vi->asks;

    if (!address_get(&peer, asks->host, asks->host_len))
        return false;
    memcpy(&self.sin_addr, session->address, sizeof(self.sin_addr));
    if (lent->sock < 0) {
        int sock = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

        if (sock < 0)
            return false;
        if (bind(sock, (struct sockaddr *)&self, sizeof(self)) != 0) {
            close(sock);
            return false;
        }
        lent->sock = sock;
    }
    return connect(lent->sock, (struct sockaddr *)&peer, sizeof(peer)) == 0;
}

/* Make what a loan of this VI needs. NULL: it cannot have one. Under session->lock. */
static struct vipl__lent *prepare(struct vipl__vi *vi)
{
    struct vipl__session *session = vi->session;
    struct vipl__loans *loans = loans_of(session);
    struct vipl__lent *lent = vi->asks.made;

    if (loans == NULL || !session->direct || session->watched)
        return NULL;
    if (lent == NULL) {
        lent = calloc(1, sizeof(*lent));
        if (lent == NULL)
            return NULL;
        lent->vi = vi;
        lent->sock = -1;
        __atomic_store_n(&vi->asks.made, lent, __ATOMIC_RELEASE);
    }
    if (state_of(lent) != VIPL__LENT_NONE || !part_take(loans, lent))
        return NULL;
    return sock_ready(lent) && runtime_make(lent) &&
                   vipl__cq_list_add(vi->queue[VIP_Q_SEND].cq, vi, VIPL__CQ_LOAN + VIP_Q_SEND) &&
                   vipl__cq_list_add(vi->queue[VIP_Q_RECV].cq, vi, VIPL__CQ_LOAN + VIP_Q_RECV)
               ? lent
               : NULL;
}

/* Keep vipd's probe, which vipl__lent_ask sends. */
static void probe_keep(struct vipl__lent *lent, const Vip__LoanReply *reply)
{
    if (reply == NULL || reply->probe.len > sizeof(lent->probe))
        return;
    if (reply->probe.len > 0)
        memcpy(lent->probe, reply->probe.data, reply->probe.len);
    lent->probe_next_ns = 0;
    lent->probes = PROBES;
    __atomic_store_n(&lent->probe_len, (uint16_t)reply->probe.len, __ATOMIC_RELEASE);
}

/* Send the request. The first one of a session has also the file of the parts. */
static void request_send(struct vipl__session *session, struct vipl__lent *lent)
{
    Vip__LoanRequest ask = VIP__LOAN_REQUEST__INIT;
    Vip__Request request = VIP__REQUEST__INIT;
    int fds[2] = {lent->sock, session->loans->fd};
    bool first = !session->loans->told;
    Vip__Reply *reply = NULL;

    ask.has_vi = ask.has_part = ask.has_steady_ns = 1;
    ask.steady_ns = lent->vi->asks.polled_ns - lent->vi->asks.steady_ns;
    ask.vi = lent->vi->index;
    ask.part = lent->number;
    request.body_case = VIP__REQUEST__BODY_LOAN;
    request.loan = &ask;
    if (vipl__call(session, "asking for a loan", &request, fds, first ? 2 : 1, &reply) !=
        VIP_SUCCESS)
        return;
    session->loans->told = true;
    __atomic_store_n(&lent->pending_ns, vipl__now_ns() + ASK_AGAIN_NS, __ATOMIC_RELEASE);
    probe_keep(lent, reply->loan);
    vipl__reply_free(reply);
}

static void ask_send(struct vipl__vi *vi)
{
    struct vipl__lent *lent;

    pthread_mutex_lock(&vi->session->lock);
    lent = prepare(vi);
    pthread_mutex_unlock(&vi->session->lock);
    if (lent != NULL)
        request_send(vi->session, lent);
}

static void *run(void *arg)
{
    struct vipl__session *session = arg;
    struct vipl__loans *loans = session->loans;

    for (;;) {
        struct vipl__vi *vi;

        while (sem_wait(&loans->work) != 0)
            continue;
        if (__atomic_load_n(&session->closing, __ATOMIC_SEQ_CST) != 0)
            return NULL;
        for (unsigned i = 0; i < VIP_LOANS_MAX; i++) {
            struct vipl__lent *lent = __atomic_load_n(&loans->of[i], __ATOMIC_ACQUIRE);

            if (lent != NULL && state_of(lent) == VIPL__LENT_BACK)
                back_send(lent);
        }
        vi = __atomic_load_n(&loans->asks, __ATOMIC_ACQUIRE);
        if (vi == NULL)
            continue;
        ask_send(vi);
        __atomic_store_n(&loans->asks, NULL, __ATOMIC_RELEASE);
    }
}

/* Start the thread. Outcomes: true; false: no memory. Under session->lock. */
static bool start(struct vipl__session *session, struct vipl__loans *loans)
{
    sigset_t all, before;

    if (loans->started)
        return true;
    if (sem_init(&loans->work, 0, 0) != 0)
        return false;
    /* The new thread blocks all signals: only the application's own threads handle them. */
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    loans->started = pthread_create(&loans->thread, NULL, run, session) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return loans->started;
}

/* While vipd tries to lend, show it that the program still polls, and send the probe. */
static void beat(struct vipl__lent *lent, uint64_t now_ns)
{
    struct vip_loan_part *part =
        lent == NULL ? NULL : __atomic_load_n(&lent->part, __ATOMIC_RELAXED);

    if (part == NULL || state_of(lent) != VIPL__LENT_NONE ||
        now_ns >= __atomic_load_n(&lent->pending_ns, __ATOMIC_ACQUIRE))
        return;
    __atomic_add_fetch(&part->owner.beat, 1, __ATOMIC_RELAXED);
    if (__atomic_load_n(&lent->probe_len, __ATOMIC_ACQUIRE) == 0 || now_ns < lent->probe_next_ns)
        return;
    lent->probe_next_ns = now_ns + PROBE_NS;
    (void)send(lent->sock, lent->probe, lent->probe_len, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (--lent->probes == 0)
        __atomic_store_n(&lent->probe_len, 0, __ATOMIC_RELAXED);
}

/* Is it time to ask? Under asks->busy. */
static bool ask_due(struct vipl__vi *vi, uint64_t now_ns)
{
    const struct vipl__lent *lent = vipl__lent_of(vi);
    struct vipl__asks *asks = &vi->asks;
    const struct vipl__lent *made = __atomic_load_n(&asks->made, __ATOMIC_ACQUIRE);
    bool eager = vi->session->loans_eager;

    if (now_ns - asks->polled_ns > PAUSE_NS)
        asks->steady_ns = now_ns;
    asks->polled_ns = now_ns;
    if ((now_ns - asks->steady_ns < STEADY_NS && !eager) || now_ns < asks->next_ns ||
        waited_for(vi) || (lent != NULL && state_of(lent) != VIPL__LENT_NONE) ||
        vipl__is_gone(vi->session) ||
        (made != NULL && now_ns < __atomic_load_n(&made->pending_ns, __ATOMIC_ACQUIRE)))
        return false;
    asks->next_ns = now_ns + (eager ? EAGER_AGAIN_NS : ASK_AGAIN_NS);
    return true;
}

void vipl__lent_ask(struct vipl__vi *vi)
{
    uint64_t now_ns = vipl__now_ns();
    struct vipl__vi *none = NULL;

    if (__atomic_exchange_n(&vi->asks.busy, 1, __ATOMIC_ACQUIRE) != 0)
        return; /* another thread polls the same VI */
    beat(__atomic_load_n(&vi->asks.made, __ATOMIC_ACQUIRE), now_ns);
    if (ask_due(vi, now_ns) &&
        __atomic_compare_exchange_n(&vi->session->loans->asks, &none, vi, false, __ATOMIC_SEQ_CST,
                                    __ATOMIC_SEQ_CST))
        work(vi->session->loans);
    __atomic_store_n(&vi->asks.busy, 0, __ATOMIC_RELEASE);
}

/* ---- the session's other calls ----------------------------------------------------------- */

/* Take the state from LIVE or OFFERED to BEGINS. False: the VI has no loan. Waits for a thread that
 * begins or ends the loan now. */
static bool seize(struct vipl__lent *lent)
{
    for (;;) {
        enum vipl__lent_state state = state_of(lent);

        if (state == VIPL__LENT_NONE || state == VIPL__LENT_BACK)
            return false;
        if (state != VIPL__LENT_BEGINS && state_change(lent, state, VIPL__LENT_BEGINS))
            return true;
        sched_yield();
    }
}

void vipl__lent_stop(struct vipl__vi *vi)
{
    struct vipl__lent *lent = vipl__lent_of(vi);

    __atomic_store_n(&vi->asks.host_len, 0, __ATOMIC_RELAXED);
    if (lent == NULL || !seize(lent))
        return;
    vipl__loan_end(lent->loan);
    __atomic_store_n(&lent->state, VIPL__LENT_NONE, __ATOMIC_SEQ_CST);
}

bool vipl__lent_back(struct vipl__session *session, bool all)
{
    struct vipl__loans *loans = __atomic_load_n(&session->loans, __ATOMIC_ACQUIRE);
    bool any = false;

    for (unsigned i = 0; loans != NULL && i < VIP_LOANS_MAX; i++) {
        struct vipl__lent *lent = __atomic_load_n(&loans->of[i], __ATOMIC_ACQUIRE);

        if (lent == NULL || state_of(lent) == VIPL__LENT_NONE || !(all || waited_for(lent->vi)) ||
            !seize(lent))
            continue;
        give_back(lent);
        any = true;
    }
    return any;
}

void vipl__lent_connected(struct vipl__vi *vi, const uint8_t *host, size_t host_len)
{
    struct vipl__lent *lent = vi->asks.made;
    struct vipl__loans *loans;

    if (host_len > sizeof(vi->asks.host) || vi->session->loans_no)
        host_len = 0;
    loans = host_len == 0 ? NULL : loans_of(vi->session);
    if (loans == NULL || !start(vi->session, loans))
        host_len = 0;
    if (host_len > 0)
        memcpy(vi->asks.host, host, host_len);
    if (lent != NULL)
        __atomic_store_n(&lent->breaks, 0, __ATOMIC_RELEASE);
    if (lent != NULL && lent->part != NULL)
        part_begin(lent->part);
    __atomic_store_n(&vi->asks.host_len, (uint8_t)host_len, __ATOMIC_RELEASE);
}

/* The terms of vipd's event; false: they make no sense. */
static bool terms_get(struct vipl__lent *lent, const Vip__Lent *event)
{
    struct vipl__vi *vi = lent->vi;
    struct vipl__loan_terms *terms = &lent->terms;
    struct sockaddr_in peer = {.sin_family = AF_INET};

    if (event->number == 0 || !address_get(&peer, event->host.data, event->host.len) ||
        connect(lent->sock, (struct sockaddr *)&peer, sizeof(peer)) != 0 ||
        event->n_peer_reads > VIP_COUNTS_READS_MAX || event->packet_bytes < VIP_PACKET_BYTES_MIN ||
        event->packet_bytes > VIP_PACKET_BYTES_MAX)
        return false;
    *terms = (struct vipl__loan_terms){
        .number = event->number,
        .part = lent->part,
        .vipd = &head_of(lent)->loan,
        .sock = lent->sock,
        .vi = vi->index,
        .generation = vi->generation,
        .ptag = vi->ptag,
        .attrs = {.level = (uint16_t)vi->attrs.ReliabilityLevel,
                  .max_transfer_bytes = (uint32_t)vi->attrs.MaxTransferSize,
                  .enable_rdma_write = vi->attrs.EnableRdmaWrite != 0,
                  .enable_rdma_read = vi->attrs.EnableRdmaRead != 0},
        .engine = ENG_CONFIG_DEFAULT,
        .conn = {.local_id = event->local_id,
                 .remote_id = event->remote_id,
                 .local_epoch = event->local_epoch,
                 .remote_epoch = event->remote_epoch,
                 .packet_bytes = event->packet_bytes,
                 .window_bytes = event->window_bytes,
                 .features = event->features},
        .peer = {.done = event->peer_done, .reads = (uint32_t)event->n_peer_reads},
        .receive = event->receive,
    };
    for (size_t i = 0; i < event->n_peer_reads; i++)
        terms->peer.read[i] = event->peer_reads[i];
    terms->engine.rto_min_ns = event->rto_min_ns;
    terms->engine.rto_max_ns = event->rto_max_ns;
    terms->engine.rto_initial_ns = event->rto_initial_ns;
    terms->engine.ack_delay_ns = event->ack_delay_ns;
    terms->engine.conn_timeout_ns = event->conn_timeout_ns;
    terms->engine.ack_every_packets = event->ack_every_packets;
    terms->engine.congestion = event->congestion;
    return getrandom(&terms->engine.seed, sizeof(terms->engine.seed), 0) ==
           (ssize_t)sizeof(terms->engine.seed);
}

void vipl__lent_offer(struct vipl__vi *vi, const Vip__Lent *event)
{
    struct vipl__lent *lent = vi->asks.made;
    bool good;

    /* The loan before this one is over, even if no poll has noticed it yet. */
    if (lent == NULL || lent->part == NULL || state_of(lent) == VIPL__LENT_BACK)
        return;
    if (seize(lent))
        vipl__loan_end(lent->loan);
    else if (!state_change(lent, VIPL__LENT_NONE, VIPL__LENT_BEGINS))
        return;
    vipl__spin_lock(&vi->session->post_lock);
    lent->out = 0;
    good = terms_get(lent, event);
    vipl__spin_unlock(&vi->session->post_lock);
    if (!good) {
        __atomic_store_n(&lent->state, VIPL__LENT_NONE, __ATOMIC_SEQ_CST);
        return;
    }
    __atomic_store_n(&vi->lent, lent, __ATOMIC_RELEASE);
    __atomic_store_n(&lent->state, VIPL__LENT_OFFERED, __ATOMIC_SEQ_CST);
}

struct vipl__loans *vipl__lent_lock(struct vipl__session *session)
{
    struct vipl__loans *loans = __atomic_load_n(&session->loans, __ATOMIC_ACQUIRE);

    if (loans == NULL)
        return NULL;
    pthread_mutex_lock(&loans->regions);
    for (unsigned i = 0; i < VIP_LOANS_MAX; i++) {
        const struct vipl__lent *lent = __atomic_load_n(&loans->of[i], __ATOMIC_ACQUIRE);

        /* Objects of loans are never freed, so they can be unlocked even if the VI ends meanwhile. */
        loans->locked[i] = lent == NULL ? NULL : lent->loan;
        if (loans->locked[i] != NULL)
            vipl__loan_lock(loans->locked[i]);
    }
    return loans;
}

void vipl__lent_unlock(struct vipl__loans *loans)
{
    if (loans == NULL)
        return;
    for (unsigned i = 0; i < VIP_LOANS_MAX; i++)
        if (loans->locked[i] != NULL)
            vipl__loan_unlock(loans->locked[i]);
    pthread_mutex_unlock(&loans->regions);
}

void vipl__lent_reset(struct vipl__vi *vi)
{
    struct vipl__lent *lent = vi->asks.made;

    vi->asks.next_ns = 0;
    vipl__lent_stop(vi);
    if (lent == NULL)
        return;
    vipl__cq_list_remove(vi->queue[VIP_Q_SEND].cq, vi);
    vipl__cq_list_remove(vi->queue[VIP_Q_RECV].cq, vi);
    vipl__fd_close(&lent->sock);
    vipl__spin_lock(&vi->session->post_lock);
    lent->out = 0;
    vipl__spin_unlock(&vi->session->post_lock);
    if (lent->part != NULL)
        __atomic_store_n(&vi->session->loans->of[lent->number], NULL, __ATOMIC_RELEASE);
    lent->part = NULL;
    lent->pending_ns = 0;
    for (unsigned q = 0; q < 2; q++) {
        __atomic_store_n(&lent->queue[q].done, 0, __ATOMIC_RELAXED);
        lent->queue[q].taken = lent->queue[q].reported = 0;
    }
}

void vipl__lent_join(struct vipl__session *session)
{
    struct vipl__loans *loans = session->loans;

    if (loans == NULL || !loans->started)
        return;
    work(loans);
    pthread_join(loans->thread, NULL);
    (void)sem_destroy(&loans->work);
    loans->started = false;
    loans->asks = NULL;
}

void vipl__lent_close(struct vipl__session *session)
{
    for (unsigned i = 0; i < VIP_VI_MAX; i++)
        if (session->vi[i] != NULL)
            vipl__lent_reset(session->vi[i]);
    if (session->loans == NULL)
        return;
    if (session->loans->parts != NULL)
        (void)parts_map(session->loans, -1);
    vipl__fd_close(&session->loans->fd);
    session->loans->told = false;
}

/* Loans that run or end: engines, completions, the table of sends (lent.h). lent_ask.c has how a
 * loan comes about. */
#include "libvipl/lent_internal.h"

#include <sched.h>
#include <string.h>
#include <sys/eventfd.h>

#include "libvipl/call.h"
#include "libvipl/callback.h"
#include "libvipl/direct.h"
#include "libvipl/slot.h"
#include "libvipl/sq.h"

/* Longest time, in ns, between two requests for the same VI, if its loans end by sleep. */
#define AGAIN_MAX_NS 10000000000u

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

/* Make the object that runs the engine. False: no memory. */
bool vipl__lent_runtime(struct vipl__lent *lent)
{
    const struct vipl__session *session = lent->vi->session;
    struct vipl__loan_host host = {.regions = &session->regions,
                                   .recv_base = session->recv_base,
                                   .complete = on_complete,
                                   .bell = on_bell,
                                   .ctx = lent};

    struct vipl__loan *loan;

    if (lent->loan != NULL)
        return true;
    if (vipl__loan_new(&host, &loan) != 0)
        return false;
    __atomic_store_n(&lent->loan, loan, __ATOMIC_RELEASE); /* another thread may lock all loans */
    return true;
}

/* ---- giving back ------------------------------------------------------------------------- */

/* End the loan here; the thread of the session's loans tells vipd. The state is BEGINS. */
static void give_back(struct vipl__lent *lent)
{
    vipl__loan_end(lent->loan);
    vipl__lent_state_end(lent, VIPL__LENT_BACK);
    vipl__lent_work(lent->vi->session->loans);
}

/* Tell vipd that the loan is given back, and whether the engine `breaks` the connection. */
static void back_tell(const struct vipl__lent *lent, bool breaks)
{
    Vip__LoanEndRequest end = VIP__LOAN_END_REQUEST__INIT;
    Vip__Request request = VIP__REQUEST__INIT;

    end.has_vi = 1;
    end.vi = lent->vi->index;
    if (breaks) {
        end.has_reason = end.has_op_status = end.has_failed_op = end.has_ops_done = 1;
        end.reason = lent->broken.reason;
        end.op_status = lent->broken.op_status;
        end.failed_op = lent->broken.failed_op;
        end.ops_done = lent->broken.ops_done;
    }
    request.body_case = VIP__REQUEST__BODY_LOAN_END;
    request.loan_end = &end;
    /* If this call fails, vipd takes the loan back later: when data waits at the socket. */
    (void)vipl__call(lent->vi->session, "giving a loan back", &request, NULL, 0, NULL);
}

void vipl__lent_back_send(struct vipl__lent *lent)
{
    uint32_t breaks;

    do {
        breaks = __atomic_load_n(&lent->breaks, __ATOMIC_SEQ_CST);
        back_tell(lent, vipl__lent_broken(lent->vi));
        (void)vipl__lent_change(lent, VIPL__LENT_BACK, VIPL__LENT_NONE);
        /* A thread may have found meanwhile that the engine has broken the connection. */
    } while (__atomic_load_n(&lent->breaks, __ATOMIC_SEQ_CST) != breaks);
}

/* Take the events of the engine, which ran for connection `conn`. If it has broken the connection,
 * vipd ends it. */
static void events_take(struct vipl__lent *lent, uint32_t conn)
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
    if (!breaks)
        return;
    /* Another thread may have made the next connection since the stay. */
    __atomic_store_n(&lent->breaks, conn + 1, __ATOMIC_SEQ_CST);
    while (vipl__lent_broken(vi)) {
        if (vipl__lent_seize(lent)) {
            give_back(lent);
            return;
        }
        /* Another thread has ended the loan since the stay, and vipd does not know the break yet. */
        if (vipl__lent_change(lent, VIPL__LENT_NONE, VIPL__LENT_BACK) ||
            vipl__lent_state_of(lent) == VIPL__LENT_BACK) {
            vipl__lent_work(vi->session->loans);
            return;
        }
    }
}

/* The loan is over; vipd has ended it. */
static void over(struct vipl__lent *lent)
{
    if (!vipl__lent_change(lent, VIPL__LENT_LIVE, VIPL__LENT_BEGINS))
        return;
    vipl__loan_end(lent->loan);
    vipl__lent_state_end(lent, VIPL__LENT_NONE);
}

/* Does a thread sleep, or wait by other means than polls, for completions of this VI? */
bool vipl__lent_waited(const struct vipl__vi *vi)
{
    for (unsigned q = 0; q < 2; q++) {
        const struct vipl__queue *queue = &vi->queue[q];
        const struct vipl__cq *cq = __atomic_load_n(&queue->cq, __ATOMIC_RELAXED);

        if (__atomic_load_n(vipl__waiters_of(queue), __ATOMIC_SEQ_CST) != 0 ||
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

/* Has the library kept the data of a send that was posted before the loan began? If so, *conts is
 * the number of continuation slots that the send needs. */
static bool is_kept(struct vipl__vi *vi, uint32_t number, uint32_t *conts)
{
    const struct vipl__queue *queue = &vi->queue[VIP_Q_SEND];
    uint32_t at = number & (VIP_DESC_PER_QUEUE_MAX - 1);
    struct vip_sq_slot slot;
    struct vipl__extra extra;

    if (((queue->how[at] & VIP_SQF_IMM64) != 0 && queue->imm == NULL) ||
        ((queue->how[at] & VIP_SQF_MSG) != 0 && queue->message == NULL))
        return false;
    *conts = vipl__slot_again(vi, VIP_Q_SEND, number, &extra, &slot)
                 ? conts_for(queue->fifo[at], &extra)
                 : 0;
    return true;
}

/* Write a send that was posted before the loan began. */
static void write_again(struct vipl__lent *lent, uint32_t number)
{
    const struct vipl__queue *queue = &lent->vi->queue[VIP_Q_SEND];
    struct vip_sq_slot slot;
    struct vipl__extra extra;

    if (vipl__slot_again(lent->vi, VIP_Q_SEND, number, &extra, &slot))
        vipl__lent_write(lent, number, queue->fifo[number & (VIP_DESC_PER_QUEUE_MAX - 1)], &extra);
    else
        vip_loan_send_write(lent->part, number + lent->op_base, &slot);
}

/* ---- the beginning ----------------------------------------------------------------------- */

/* Has the table room for all sends from number `first` on? Under post_lock. */
static bool all_fit(struct vipl__vi *vi, uint32_t first)
{
    uint32_t conts, sum = 0;

    for (uint32_t at = first; at != vi->queue[VIP_Q_SEND].posted; at++) {
        if (!is_kept(vi, at, &conts))
            return false;
        sum += conts;
    }
    return sum <= VIP_SQ_SLOTS;
}

/* Can the VI use the loan? Under post_lock and both done_locks. */
static bool can_use(struct vipl__lent *lent)
{
    struct vipl__vi *vi = lent->vi;

    return __atomic_load_n(&vi->handle, __ATOMIC_ACQUIRE) != 0 && vipl__direct_of(vi) == NULL &&
           __atomic_load_n(&vi->session->staged, __ATOMIC_ACQUIRE) == 0 &&
           /* vipd counts the receives as the library does, or the terms are old. */
           vipl__first_undone(&vi->queue[VIP_Q_RECV]) == lent->terms.receive &&
           all_fit(vi, vipl__first_undone(&vi->queue[VIP_Q_SEND]));
}

/* In the first stay: fill the table of sends, and find the numbers of the next descriptors. Under
 * post_lock and both done_locks. */
static void fill_table(struct vipl__lent *lent)
{
    struct vipl__vi *vi = lent->vi;
    uint32_t first = vipl__first_undone(&vi->queue[VIP_Q_SEND]);

    lent->terms.checkpoint = vipl__lent_head(lent)->loan.checkpoint;
    lent->queue[VIP_Q_SEND].next = first;
    lent->queue[VIP_Q_RECV].next = lent->terms.receive;
    lent->op_base = lent->terms.checkpoint.completed - first;
    __atomic_store_n(&lent->done, lent->queue[VIP_Q_SEND].done, __ATOMIC_RELAXED);
    __atomic_store_n(&lent->prod, vip_load32_acquire(vi->queue[VIP_Q_SEND].prod), __ATOMIC_RELEASE);
    lent->conts = 0;
    __atomic_store_n(&lent->conts_used, 0, __ATOMIC_RELAXED);
    vip_store32_release(&lent->part->posted, lent->terms.checkpoint.completed);
    for (uint32_t at = first; at != vi->queue[VIP_Q_SEND].posted; at++)
        write_again(lent, at);
    lent->out = 1;
    lent->ask = 0; /* when vipd takes this loan back, it drops all sends that it had before */
}

/*
 * Enter the loan. From then on sends go into the table. False: the VI cannot use the loan, or vipd
 * has ended it. Before the stay begins, everything is decided and nothing is written: vipd may take
 * the loan back now, and then it reads the table.
 */
static bool take_sends(struct vipl__lent *lent)
{
    struct vipl__vi *vi = lent->vi;
    bool good;

    vipl__spin_lock(&vi->session->post_lock);
    vipl__spin_lock(&vi->queue[VIP_Q_SEND].done_lock);
    vipl__spin_lock(&vi->queue[VIP_Q_RECV].done_lock);
    good = can_use(lent) && vipl__loan_enter(lent->loan, &lent->terms);
    if (good)
        fill_table(lent);
    vipl__spin_unlock(&vi->queue[VIP_Q_RECV].done_lock);
    vipl__spin_unlock(&vi->queue[VIP_Q_SEND].done_lock);
    vipl__spin_unlock_full(&vi->session->post_lock);
    return good;
}

/* Begin the loan that vipd has offered, and now opened. The state is BEGINS. */
static bool begin(struct vipl__lent *lent, uint64_t now_ns)
{
    struct vipl__loans *loans = lent->vi->session->loans;
    bool good;

    /* vipl__loan_begin may complete sends. A thread that sleeps for vipd would not learn this, because
     * vipd does not wake it. A thread that falls asleep later waits until this function has ended,
     * and then looks. */
    if (vipl__lent_waited(lent->vi))
        return false;
    vipl__loan_lock(lent->loan);
    good = take_sends(lent) && vipl__loan_begin(lent->loan, &lent->terms, now_ns) == 0;
    vipl__loan_unlock(lent->loan);
    if (!good)
        return false;
    /* Wait for a thread that changes the region table and did not find this loan. */
    pthread_mutex_lock(&loans->regions);
    __atomic_store_n(&lent->state, VIPL__LENT_LIVE, __ATOMIC_SEQ_CST);
    pthread_mutex_unlock(&loans->regions);
    vipl__loan_asleep(lent->part,
                      __atomic_load_n(&lent->vi->session->rest.vi, __ATOMIC_RELAXED) == lent->vi);
    /* A thread that falls asleep publishes this, and then gives back live loans. So either it finds
     * this loan live, or this thread finds it asleep. */
    return !vipl__lent_waited(lent->vi) ||
           !vipl__lent_change(lent, VIPL__LENT_LIVE, VIPL__LENT_BEGINS);
}

/*
 * This thread was in a stay. Another thread may rest for completions of the same VI. The stay may
 * have completed a descriptor or left an earlier timer: then wake that thread. The end of the stay
 * was a full barrier: either this load finds the other thread, or that thread finds what the stay
 * has left.
 */
void vipl__lent_tell(const struct vipl__lent *lent)
{
    struct vipl__rest *rest = &lent->vi->session->rest;
    uint64_t timer_ns;
    unsigned which;

    if (__builtin_expect(__atomic_load_n(&rest->vi, __ATOMIC_ACQUIRE) != lent->vi, 1) ||
        __atomic_load_n(&rest->thread, __ATOMIC_RELAXED) == (uint64_t)pthread_self())
        return;
    which = __atomic_load_n(&rest->queue, __ATOMIC_RELAXED);
    timer_ns = vipl__lent_timer(lent);
    if (__atomic_load_n(&lent->queue[which].done, __ATOMIC_RELAXED) !=
            __atomic_load_n(&rest->done, __ATOMIC_RELAXED) ||
        timer_ns < __atomic_load_n(&rest->timer_ns, __ATOMIC_RELAXED))
        vipl__rest_wake(lent->vi->session);
}

/* For VIPL_LOAN=random, a mode for tests: true for one stay of sixteen. */
static bool by_chance(struct vipl__lent *lent)
{
    uint64_t random = __atomic_load_n(&lent->random, __ATOMIC_RELAXED) + lent->vi->index + 1;

    random = random * 6364136223846793005u + 1442695040888963407u;
    __atomic_store_n(&lent->random, random, __ATOMIC_RELAXED);
    return random >> 60 == 0;
}

/* Run the engine, because the program polls, or has `posted` a send. */
static void turn(struct vipl__lent *lent, bool posted)
{
    uint32_t conn = __atomic_load_n(&lent->conns, __ATOMIC_ACQUIRE);
    uint64_t now_ns = vipl__now_ns();

    if (vipl__lent_state_of(lent) == VIPL__LENT_OFFERED) {
        /* An earlier version of vipd opens the loan just after it has sent the terms. */
        if (vip_load32_acquire(&vipl__lent_head(lent)->loan.lent) !=
                __atomic_load_n(&lent->offered, __ATOMIC_RELAXED) ||
            !vipl__lent_change(lent, VIPL__LENT_OFFERED, VIPL__LENT_BEGINS))
            return;
        if (!begin(lent, now_ns)) {
            give_back(lent);
            return;
        }
    }
    if (vipl__lent_state_of(lent) != VIPL__LENT_LIVE)
        return;
    switch (posted ? vipl__loan_post(lent->loan, now_ns) : vipl__loan_turn(lent->loan, now_ns)) {
    case VIPL__LOAN_OVER:
        over(lent);
        break;
    case VIPL__LOAN_EVENT:
        events_take(lent, conn);
        break;
    case VIPL__LOAN_DID:
        if (__builtin_expect(lent->vi->session->loans_random, 0) && by_chance(lent) &&
            vipl__lent_change(lent, VIPL__LENT_LIVE, VIPL__LENT_BEGINS))
            give_back(lent);
        break;
    case VIPL__LOAN_IDLE:
    case VIPL__LOAN_BUSY:
        break;
    }
    vipl__lent_tell(lent);
}

void vipl__lent_turn(struct vipl__lent *lent)
{
    turn(lent, false);
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

bool vipl__lent_ask_first(struct vipl__lent *lent)
{
    if (lent->ask != 0 && !vipl__is_gone(lent->vi->session)) {
        if (!vipl__ask_locked(lent->vi, VIP_ASK_SENDS))
            return false;
        lent->ask = 0;
    }
    return true;
}

void vipl__lent_posted(struct vipl__lent *lent)
{
    /* Either this load sees that vipd has taken the loan back, or vipd sees the send. */
    if (vipl__lent_taken(lent))
        vipl__ask(lent->vi, VIP_ASK_SENDS);
    else if (!vipl__loan_may_wait(lent->loan, vip_load32(&lent->part->posted)))
        turn(lent, true);
}

/* ---- the session's other calls ----------------------------------------------------------- */

/* Take the state from LIVE or OFFERED to BEGINS. False: the VI has no loan. Waits for a thread that
 * begins or ends the loan now. */
bool vipl__lent_seize(struct vipl__lent *lent)
{
    for (;;) {
        enum vipl__lent_state state = vipl__lent_state_of(lent);

        if (state == VIPL__LENT_NONE || state == VIPL__LENT_BACK)
            return false;
        if (state != VIPL__LENT_BEGINS && vipl__lent_change(lent, state, VIPL__LENT_BEGINS))
            return true;
        sched_yield();
    }
}

void vipl__lent_stop(struct vipl__vi *vi)
{
    struct vipl__lent *lent = vipl__lent_of(vi);

    __atomic_store_n(&vi->asks.host_len, 0, __ATOMIC_SEQ_CST);
    if (lent == NULL || !vipl__lent_seize(lent))
        return;
    vipl__loan_end(lent->loan);
    vipl__lent_state_end(lent, VIPL__LENT_NONE);
}

bool vipl__lent_rest_ready(struct vipl__session *session)
{
    struct vipl__rest *rest = &session->rest;

    if (rest->fd < 0)
        __atomic_store_n(&rest->fd, eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK), __ATOMIC_RELEASE);
    return rest->fd >= 0;
}

bool vipl__lent_can_rest(const struct vipl__vi *vi)
{
    const struct vipl__lent *lent = vipl__lent_of(vi);
    const struct vipl__rest *rest = &vi->session->rest;
    enum vipl__lent_state state = lent == NULL ? VIPL__LENT_NONE : vipl__lent_state_of(lent);

    /* The terms of an offer that is no more valid stay until a poll, or the next offer. */
    return (state == VIPL__LENT_LIVE || (state == VIPL__LENT_OFFERED && !vipl__lent_revoked(lent) &&
                                         vip_load32(&vipl__lent_head(lent)->loan.lent) ==
                                             __atomic_load_n(&lent->offered, __ATOMIC_RELAXED))) &&
           __atomic_load_n(&lent->tells, __ATOMIC_RELAXED) &&
           __atomic_load_n(&rest->fd, __ATOMIC_RELAXED) >= 0 &&
           __atomic_load_n(&rest->busy, __ATOMIC_RELAXED) == 0;
}

/*
 * Must the loan of this VI end, because a thread sleeps for its completions until vipd wakes it? vipd
 * completes nothing while the loan is out. An offer may stay if the thread can rest: the provider
 * thread wakes it.
 */
static bool must_end(const struct vipl__lent *lent)
{
    const struct vipl__vi *vi = lent->vi;
    enum vipl__lent_state state = vipl__lent_state_of(lent);
    bool cqs = __atomic_load_n(&vi->queue[0].cq, __ATOMIC_RELAXED) != NULL ||
               __atomic_load_n(&vi->queue[1].cq, __ATOMIC_RELAXED) != NULL;

    return state != VIPL__LENT_NONE &&
           !(state == VIPL__LENT_OFFERED && !cqs && vipl__lent_can_rest(vi)) &&
           vipl__lent_waited(vi);
}

/* A thread that sleeps in another way has ended a loan: the next request comes later, so that the
 * connection does not move again and again. */
static void again_later(struct vipl__asks *asks)
{
    uint64_t again_ns = 2 * __atomic_load_n(&asks->again_ns, __ATOMIC_RELAXED);

    __atomic_store_n(&asks->again_ns, again_ns < AGAIN_MAX_NS ? again_ns : AGAIN_MAX_NS,
                     __ATOMIC_RELAXED);
}

bool vipl__lent_back(struct vipl__session *session, bool all)
{
    struct vipl__loans *loans = __atomic_load_n(&session->loans, __ATOMIC_ACQUIRE);
    bool any = false;

    for (unsigned i = 0; loans != NULL && i < VIP_LOANS_MAX; i++) {
        struct vipl__lent *lent = __atomic_load_n(&loans->of[i], __ATOMIC_ACQUIRE);

        if (lent == NULL || !(all || must_end(lent)) || !vipl__lent_seize(lent))
            continue;
        if (!all)
            again_later(&lent->vi->asks);
        give_back(lent);
        any = true;
    }
    return any;
}

struct vipl__loans *vipl__lent_lock(struct vipl__session *session)
{
    struct vipl__loans *loans = __atomic_load_n(&session->loans, __ATOMIC_ACQUIRE);

    if (loans == NULL)
        return NULL;
    pthread_mutex_lock(&loans->regions);
    for (unsigned i = 0; i < VIP_LOANS_MAX; i++) {
        const struct vipl__lent *lent = __atomic_load_n(&loans->of[i], __ATOMIC_ACQUIRE);

        /* These objects are never freed, so they can be unlocked even if the VI ends meanwhile. */
        loans->locked[i] = lent == NULL ? NULL : __atomic_load_n(&lent->loan, __ATOMIC_ACQUIRE);
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
    /* A thread that rests may have found the loan locked. Or vipl__loan_unlock made a stay, which has
     * completed a descriptor of that thread. */
    vipl__rest_wake(loans->session);
}

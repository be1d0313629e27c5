#include "vipd/engine/loan.h"

#include <errno.h>
#include <string.h>

#include "proto/assert.h"
#include "proto/limits.h"
#include "vipd/engine/mutant.h"

struct loan {
    struct loan_config config;
    struct vip_loan_vipd *own;
    const struct vip_loan_owner *owner;
    enum loan_state state;
    uint64_t deadline_ns;
    uint64_t began_ns; /* when the present state began */
    /* Numbers. */
    uint32_t number, peer; /* newest numbers of both ends */
    uint32_t crossed;      /* number of the peer's last request that crossed one of ours; 0: none */
    uint32_t asked;        /* TAKING_BACK: number of the peer's request that waits; 0: none */
    bool out;              /* the newest binding names the loan's address */
    bool keep;             /* TAKING_BACK: the socket is open, so that the answer can lend again */
    /* LENT. */
    uint32_t beat;          /* at the last look */
    uint64_t beat_ns;       /* when a look found a new beat */
    uint64_t lent_ns;       /* when the loan began */
    uint64_t lent_timer_ns; /* the owner's timer until its first stay ends; 0: none */
    bool watched;           /* data at the socket wakes vipd */
    bool asleep;            /* at the last look, the owner slept until a packet comes */
    uint64_t data_ns;       /* since then data waits for an owner that sleeps; 0: none waits */
    bool ending;            /* TAKING_BACK: the connection ends afterwards */
    uint64_t again_ns;      /* time until the next look, or the next repetition */
    /* Who gets it. */
    uint64_t patience_ns;
    uint64_t back_ns;                 /* when the last loan was revoked for the owner's absence */
    bool returns;                     /* the program has not polled since then */
    bool lost;                        /* the last loan was lost to data */
    uint64_t polled_ns;               /* last poll; 0: none since the last loan */
    uint64_t steady_ns;               /* since then the program polls without a pause */
    uint64_t blocked_ns;              /* no probe before this time */
    unsigned probes;                  /* ASKED: number of probes sent */
    uint64_t move_ns[LOAN_MOVES_MAX]; /* times of the last moves; a ring */
    unsigned moves;                   /* number of all moves */
    enum loan_back back;
    enum loan_end end;
};

size_t loan_bytes(void)
{
    return sizeof(struct loan);
}

const char *loan_state_name(enum loan_state state)
{
    static const char *const names[] = {"home",        "asked",       "moving out", "lent",
                                        "taking back", "moving home", "ended"};

    return names[state];
}

enum loan_state loan_state(const struct loan *loan)
{
    return loan->state;
}

uint32_t loan_number(const struct loan *loan)
{
    return loan->number;
}

uint32_t loan_peer(const struct loan *loan)
{
    return loan->peer;
}

bool loan_is_out(const struct loan *loan)
{
    return loan->out;
}

enum loan_back loan_why_back(const struct loan *loan)
{
    return loan->back;
}

enum loan_end loan_why_ended(const struct loan *loan)
{
    return loan->end;
}

bool loan_is_blocked(const struct loan *loan, uint64_t now_ns)
{
    return loan->blocked_ns > now_ns;
}

uint64_t loan_patience_ns(const struct loan *loan)
{
    return loan->asleep ? LOAN_PATIENCE_MAX_NS : loan->patience_ns;
}

uint64_t loan_deadline(const struct loan *loan)
{
    return loan->deadline_ns;
}

/* ---- states and numbers ---------------------------------------------------------------- */

static void state_set(struct loan *loan, enum loan_state state, uint64_t now_ns)
{
    /* The states that may follow each state, as bits. */
    static const uint8_t next[LOAN_STATES] = {
        [LOAN_HOME] = 1 << LOAN_ASKED | 1 << LOAN_ENDED,
        [LOAN_ASKED] = 1 << LOAN_HOME | 1 << LOAN_MOVING_OUT | 1 << LOAN_ENDED,
        [LOAN_MOVING_OUT] =
            1 << LOAN_HOME | 1 << LOAN_LENT | 1 << LOAN_MOVING_HOME | 1 << LOAN_ENDED,
        [LOAN_LENT] = 1 << LOAN_TAKING_BACK | 1 << LOAN_ENDED,
        [LOAN_TAKING_BACK] =
            1 << LOAN_HOME | 1 << LOAN_LENT | 1 << LOAN_MOVING_HOME | 1 << LOAN_ENDED,
        [LOAN_MOVING_HOME] = 1 << LOAN_HOME | 1 << LOAN_ENDED,
    };

    VIP_ASSERT(next[loan->state] >> state & 1);
    loan->state = state;
    loan->began_ns = now_ns;
    loan->deadline_ns = LOAN_NEVER;
}

/* Take the next number. The next life of vipd must not use it again, so it is stored first. */
static void number_take(struct loan *loan, bool out)
{
    loan->number = loan_number_next(loan->number);
    loan->out = out;
    loan_words_number(loan->own, loan->number, loan->peer);
}

static void peer_learn(struct loan *loan, uint32_t number)
{
    loan->peer = number;
    loan_words_number(loan->own, loan->number, loan->peer);
}

static uint32_t end(struct loan *loan, enum loan_end why)
{
    state_set(loan, LOAN_ENDED, loan->began_ns);
    loan->end = why;
    return LOAN_DO_END;
}

static uint64_t min64(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* ---- limits ---------------------------------------------------------------------------- */

static void move_count(struct loan *loan, uint64_t now_ns)
{
    loan->move_ns[loan->moves++ % LOAN_MOVES_MAX] = now_ns;
}

/* May the engine move out now, and later home again, within the limit of moves? */
static bool moves_allow(const struct loan *loan, uint64_t now_ns)
{
    unsigned known = loan->moves < LOAN_MOVES_MAX ? loan->moves : LOAN_MOVES_MAX, recent = 0;

    for (unsigned i = 0; i < known; i++)
        recent += now_ns - loan->move_ns[i] <= loan->config.moves_ns;
    return recent + 2 <= LOAN_MOVES_MAX || VIP_MUTANT(LOAN_MOVES);
}

/* Does the program poll without a pause? */
static bool polls_now(const struct loan *loan, uint64_t now_ns)
{
    return loan->polled_ns && now_ns - loan->polled_ns <= LOAN_PAUSE_NS;
}

static bool may_ask(const struct loan *loan, uint64_t now_ns)
{
    bool steady = !loan->lost || now_ns - loan->steady_ns >= LOAN_STEADY_NS;

    return now_ns >= loan->blocked_ns && (steady || VIP_MUTANT(LOAN_STEADY)) &&
           moves_allow(loan, now_ns);
}

static void poll_note(struct loan *loan, uint64_t steady_ns, uint64_t now_ns)
{
    uint64_t since_ns = now_ns - min64(steady_ns, now_ns);

    /* The program asks for its next loan long after it has come back. */
    if (loan->returns && since_ns <= loan->back_ns + LOAN_RETURN_NS) {
        loan->patience_ns *= 2;
        if (loan->patience_ns > LOAN_PATIENCE_MAX_NS && !VIP_MUTANT(LOAN_PATIENCE))
            loan->patience_ns = LOAN_PATIENCE_MAX_NS;
    }
    loan->returns = false;
    if (!polls_now(loan, now_ns) || since_ns < loan->steady_ns)
        loan->steady_ns = since_ns;
    loan->polled_ns = now_ns;
}

/* ---- moves ----------------------------------------------------------------------------- */

static void again_after(struct loan *loan, uint64_t first_ns, uint64_t now_ns)
{
    loan->again_ns = first_ns;
    loan->deadline_ns = now_ns + first_ns;
}

static void again_later(struct loan *loan, uint64_t longest_ns, uint64_t now_ns)
{
    loan->again_ns = min64(2 * loan->again_ns, longest_ns);
    loan->deadline_ns = now_ns + loan->again_ns;
}

/* Ask the peer to bind the connection anew. The engine is paused in vipd. */
static uint32_t peer_ask(struct loan *loan, bool out, uint64_t now_ns)
{
    number_take(loan, out);
    again_after(loan, LOAN_ASK_NS, now_ns);
    return LOAN_DO_OFFER;
}

/* The owner gets the loan with the newest number. */
static uint32_t lent_begin(struct loan *loan, uint64_t now_ns)
{
    struct loan_look look;

    state_set(loan, LOAN_LENT, now_ns);
    move_count(loan, now_ns);
    loan_words_look(loan->owner, &look);
    loan->beat = look.app_beat;
    loan->beat_ns = loan->lent_ns = now_ns;
    loan->lost = loan->returns = loan->watched = loan->asleep = false;
    loan->data_ns = 0;
    loan->deadline_ns = now_ns + loan->patience_ns;
    return LOAN_DO_LEND;
}

/* Answer the peer. The engine is paused in vipd. */
static uint32_t peer_answer(struct loan *loan, bool out, uint64_t now_ns)
{
    loan->asked = 0;
    number_take(loan, out);
    if (out)
        return LOAN_DO_ANSWER | lent_begin(loan, now_ns);
    if (loan->state != LOAN_HOME && loan->state != LOAN_ASKED)
        state_set(loan, LOAN_HOME, now_ns);
    return LOAN_DO_ANSWER | LOAN_DO_GO_ON;
}

/* ---- taking back ----------------------------------------------------------------------- */

/* The owner is outside, and stays there. */
static uint32_t taken_back(struct loan *loan, uint64_t now_ns)
{
    uint32_t actions = LOAN_DO_TAKE;
    bool again;

    if (loan->ending)
        return actions | (loan->keep ? LOAN_DO_SHUT : 0) | end(loan, LOAN_END_OVER);
    /* An owner that was not outside at once would let the peer wait again. */
    again = loan->keep && now_ns == loan->began_ns && moves_allow(loan, now_ns);
    if (loan->keep && !again)
        actions |= LOAN_DO_SHUT;
    if (loan->asked)
        return actions | peer_answer(loan, again, now_ns);
    state_set(loan, LOAN_MOVING_HOME, now_ns);
    return actions | peer_ask(loan, false, now_ns);
}

static uint32_t outside_wait(struct loan *loan, uint64_t now_ns)
{
    uint64_t end_ns = loan->began_ns + loan->config.conn_timeout_ns;

    if (loan_words_outside(loan->owner))
        return taken_back(loan, now_ns);
    if (now_ns >= end_ns)
        return (loan->keep ? LOAN_DO_SHUT : 0) | end(loan, LOAN_END_INSIDE);
    again_later(loan, LOAN_LOOK_MAX_NS, now_ns);
    loan->deadline_ns = min64(loan->deadline_ns, end_ns);
    return 0;
}

/* Revoke the loan. `keep`: leave the socket open. */
static uint32_t revoke(struct loan *loan, enum loan_back why, bool keep, uint64_t now_ns)
{
    uint32_t actions = (loan->watched ? LOAN_DO_UNWATCH : 0) | (keep ? 0 : LOAN_DO_SHUT);

    state_set(loan, LOAN_TAKING_BACK, now_ns);
    move_count(loan, now_ns);
    loan->watched = false;
    loan->keep = keep;
    loan->back = why;
    loan->again_ns = LOAN_LOOK_NS / 2;
    if (now_ns - loan->lent_ns >= LOAN_CALM_NS && loan->patience_ns > LOAN_PATIENCE_NS)
        loan->patience_ns /= 2;
    if (why == LOAN_BACK_DATA || why == LOAN_BACK_TIMER) {
        loan->back_ns = now_ns;
        loan->returns = true;
    }
    if (why == LOAN_BACK_DATA)
        loan->lost = true;
    if (why != LOAN_BACK_PEER)
        loan->polled_ns = 0;
    loan_words_revoke(loan->own);
    return actions | outside_wait(loan, now_ns);
}

/* ---- a loan under way ------------------------------------------------------------------ */

/* The owner may be late for its timer by this time, in ns. */
static uint64_t lateness_ns(const struct loan *loan)
{
    uint64_t late_ns = 2 * loan_patience_ns(loan);

    return late_ns > LOAN_TIMER_NS ? late_ns : LOAN_TIMER_NS;
}

/* What vipd publishes, so that an owner with an earlier timer rings the bell. The owner assumes that
 * vipd acts LOAN_TIMER_NS after a timer (loan_leave). */
static uint64_t published_ns(const struct loan *loan)
{
    uint64_t more_ns = 2 * (lateness_ns(loan) - LOAN_TIMER_NS);

    return loan->deadline_ns == LOAN_NEVER ? LOAN_NEVER : loan->deadline_ns - more_ns;
}

/* From when on the owner is late for its timer; LOAN_NEVER: it has no timer. */
static uint64_t timer_late_ns(const struct loan *loan, const struct loan_look *look)
{
    bool left = look->app_number == loan->number;
    uint64_t timer_ns = left ? look->app_timer_ns : loan->lent_timer_ns;

    if (timer_ns == 0 || timer_ns >= LOAN_NEVER - lateness_ns(loan) || VIP_MUTANT(LOAN_TIMER))
        return LOAN_NEVER;
    return timer_ns + lateness_ns(loan);
}

/* Must vipd take the loan back for the owner's timer? During a stay, the timer is the one that the
 * owner left before; it counts only if the stay is long. */
static bool timer_is_over(const struct loan *loan, const struct loan_look *look, uint64_t now_ns)
{
    return now_ns > timer_late_ns(loan, look) &&
           (!look->inside || now_ns - loan->beat_ns >= lateness_ns(loan));
}

/* When to look again for the owner's timer. */
static uint64_t timer_look_ns(const struct loan *loan, const struct loan_look *look,
                              uint64_t now_ns)
{
    uint64_t late_ns = timer_late_ns(loan, look);

    if (late_ns == LOAN_NEVER)
        return LOAN_NEVER;
    return late_ns >= now_ns ? late_ns + 1 : now_ns + lateness_ns(loan);
}

static void beat_learn(struct loan *loan, const struct loan_look *look, uint64_t now_ns)
{
    if (look->app_beat == loan->beat)
        return;
    loan->beat = look->app_beat;
    loan->beat_ns = now_ns;
    loan->data_ns = 0;
}

/*
 * Wait until the deadline, while the beat stands still. The owner may have come by since the last
 * look, with a timer that is due earlier; so vipd publishes the deadline and looks once more. True:
 * the owner is away.
 */
static bool away_wait(struct loan *loan, uint64_t now_ns)
{
    struct loan_look look;

    loan_words_sleep(loan->own, published_ns(loan));
    loan_words_look(loan->owner, &look);
    beat_learn(loan, &look, now_ns);
    if (!look.inside && loan->beat_ns != now_ns)
        return true;
    loan->deadline_ns = min64(loan->deadline_ns, now_ns + LOAN_PATIENCE_NS);
    loan_words_awake(loan->own, published_ns(loan));
    return loan->beat_ns != now_ns;
}

/*
 * Data waits, and the beat stands still. If the owner sleeps, the packet has woken it, too, and it
 * needs time to come. True: vipd waits for the owner; false: the owner is late.
 */
static bool waking_wait(struct loan *loan, uint64_t now_ns)
{
    if (loan->data_ns == 0 && loan->asleep)
        loan->data_ns = now_ns;
    if (loan->data_ns == 0 || now_ns - loan->data_ns >= loan_patience_ns(loan))
        return false;
    loan->deadline_ns = min64(loan->deadline_ns, loan->data_ns + loan_patience_ns(loan));
    loan_words_awake(loan->own, published_ns(loan));
    return true;
}

/* Look at the beat and the timer of the owner. `waits`: data waits at its socket. */
static uint32_t lent_judge(struct loan *loan, bool waits, uint64_t now_ns)
{
    struct loan_look look;
    uint32_t actions = 0;
    bool still;

    loan_words_look(loan->owner, &look);
    beat_learn(loan, &look, now_ns);
    loan->asleep = look.asleep && !VIP_MUTANT(LOAN_ASLEEP);
    if (timer_is_over(loan, &look, now_ns))
        return revoke(loan, LOAN_BACK_TIMER, false, now_ns);
    still = now_ns - loan->beat_ns >= loan_patience_ns(loan);
    waits = waits || loan->data_ns != 0 || VIP_MUTANT(LOAN_IDLE);
    loan->deadline_ns = timer_look_ns(loan, &look, now_ns);
    if (still && waits) {
        if (!waking_wait(loan, now_ns))
            return revoke(loan, LOAN_BACK_DATA, false, now_ns);
        still = false; /* one look per time, not one per packet */
    } else if (still) {
        still = away_wait(loan, now_ns);
    } else {
        /* A stay that is under way may leave a timer and find no reason to ring. */
        loan->deadline_ns = min64(loan->deadline_ns, now_ns + lateness_ns(loan));
        loan->deadline_ns = min64(loan->deadline_ns, loan->beat_ns + loan_patience_ns(loan));
        loan_words_awake(loan->own, published_ns(loan));
    }
    if (still != loan->watched)
        actions = still ? LOAN_DO_WATCH : LOAN_DO_UNWATCH;
    loan->watched = still;
    return actions;
}

uint32_t loan_rung(struct loan *loan, uint64_t now_ns)
{
    return loan->state == LOAN_LENT ? lent_judge(loan, false, now_ns) : 0;
}

uint32_t loan_owes(struct loan *loan, uint64_t now_ns)
{
    if (loan->state != LOAN_LENT)
        return 0;
    if (loan->lent_timer_ns == 0 || loan->lent_timer_ns > now_ns)
        loan->lent_timer_ns = now_ns; /* counts until the owner's first stay ends */
    return lent_judge(loan, false, now_ns);
}

uint32_t loan_data_waits(struct loan *loan, uint64_t now_ns)
{
    /* Without a watch, the owner has come by since, or the look at its beat is still due. */
    if (loan->state != LOAN_LENT || !loan->watched)
        return 0;
    return lent_judge(loan, true, now_ns);
}

/* ---- the program ----------------------------------------------------------------------- */

static uint32_t probe(struct loan *loan, uint64_t now_ns)
{
    loan->probes++;
    loan->deadline_ns = now_ns + LOAN_PROBE_NS;
    return LOAN_DO_PROBE;
}

uint32_t loan_polls(struct loan *loan, uint64_t steady_ns, uint64_t now_ns)
{
    poll_note(loan, steady_ns, now_ns);
    if (loan->state != LOAN_HOME || !may_ask(loan, now_ns))
        return 0;
    state_set(loan, LOAN_ASKED, now_ns);
    loan->probes = 0;
    return probe(loan, now_ns);
}

/* Stay at home, and close the program's socket. */
static uint32_t home_stay(struct loan *loan, uint64_t now_ns)
{
    state_set(loan, LOAN_HOME, now_ns);
    return LOAN_DO_SHUT;
}

/* As home_stay, because the path to the peer is blocked. */
static uint32_t home_blocked(struct loan *loan, uint64_t now_ns)
{
    loan->blocked_ns = now_ns + LOAN_BLOCKED_NS;
    return home_stay(loan, now_ns);
}

uint32_t loan_probed(struct loan *loan, uint64_t now_ns)
{
    if (loan->state != LOAN_ASKED)
        return 0;
    if (!polls_now(loan, now_ns) || !moves_allow(loan, now_ns))
        return home_stay(loan, now_ns);
    state_set(loan, LOAN_MOVING_OUT, now_ns);
    return LOAN_DO_PAUSE | peer_ask(loan, true, now_ns);
}

uint32_t loan_owner_gone(struct loan *loan, uint64_t now_ns)
{
    switch (loan->state) {
    case LOAN_ASKED:
        return home_stay(loan, now_ns);
    case LOAN_MOVING_OUT:
        state_set(loan, LOAN_MOVING_HOME, now_ns);
        return LOAN_DO_SHUT | peer_ask(loan, false, now_ns);
    case LOAN_LENT:
        return revoke(loan, LOAN_BACK_GONE, false, now_ns);
    case LOAN_TAKING_BACK:
        if (!loan->keep)
            break;
        loan->keep = false;
        return LOAN_DO_SHUT;
    case LOAN_HOME:
    case LOAN_MOVING_HOME:
    case LOAN_ENDED:
        break;
    }
    return 0;
}

/* Does the host have an open socket of the program? */
static bool has_socket(const struct loan *loan)
{
    return loan->state == LOAN_ASKED || loan->state == LOAN_MOVING_OUT ||
           loan->state == LOAN_LENT || (loan->state == LOAN_TAKING_BACK && loan->keep);
}

uint32_t loan_owner_died(struct loan *loan)
{
    uint32_t actions = has_socket(loan) ? LOAN_DO_SHUT : 0;

    if (loan->state == LOAN_ENDED)
        return 0;
    if (loan->watched)
        actions |= LOAN_DO_UNWATCH;
    loan_words_revoke(loan->own);
    return actions | end(loan, LOAN_END_DIED);
}

uint32_t loan_over(struct loan *loan, uint64_t now_ns)
{
    if (loan->state == LOAN_ENDED)
        return 0;
    loan->ending = true;
    if (loan->state == LOAN_LENT)
        return revoke(loan, LOAN_BACK_OVER, false, now_ns);
    if (loan->state == LOAN_TAKING_BACK)
        return 0;
    return (has_socket(loan) ? LOAN_DO_SHUT : 0) | end(loan, LOAN_END_OVER);
}

/* ---- the peer -------------------------------------------------------------------------- */

static bool is_moving(const struct loan *loan)
{
    return loan->state == LOAN_MOVING_OUT || loan->state == LOAN_MOVING_HOME;
}

/*
 * Requests of both ends have crossed, and the peer must answer ours. The peer may have bound itself
 * to our present number, and lost its answer by a restart; so it gets a request with a new number.
 */
static uint32_t crossing(struct loan *loan, uint32_t peer_number, uint64_t now_ns)
{
    if (loan->crossed == peer_number)
        return 0;
    loan->crossed = peer_number;
    return peer_ask(loan, loan->out, now_ns);
}

/* Do what a new request of the peer needs. The answer may come later. */
static uint32_t request_take(struct loan *loan, uint64_t now_ns)
{
    switch (loan->state) {
    case LOAN_HOME:
    case LOAN_ASKED:
        return LOAN_DO_PAUSE | peer_answer(loan, false, now_ns);
    case LOAN_MOVING_OUT:
        return peer_answer(loan, true, now_ns);
    case LOAN_MOVING_HOME:
        return peer_answer(loan, false, now_ns);
    case LOAN_LENT:
        return revoke(loan, LOAN_BACK_PEER, true, now_ns);
    case LOAN_TAKING_BACK:
    case LOAN_ENDED:
        break;
    }
    return 0;
}

enum loan_verdict loan_peer_asks(struct loan *loan, uint32_t peer_number, uint64_t now_ns,
                                 uint32_t *ret_do)
{
    *ret_do = 0;
    if (loan->state == LOAN_ENDED || peer_number == 0)
        return LOAN_STALE;
    if (peer_number == loan->asked)
        return LOAN_LATER;
    if (peer_number == loan->peer && !loan->asked)
        return LOAN_AGAIN;
    if (loan_before(peer_number, loan->peer) && !VIP_MUTANT(LOAN_OLD_NUMBER))
        return LOAN_STALE;
    if (is_moving(loan) && (loan->config.first || VIP_MUTANT(LOAN_CROSSING))) {
        *ret_do = loan->config.first ? crossing(loan, peer_number, now_ns) : 0;
        return LOAN_LATER;
    }
    peer_learn(loan, peer_number);
    loan->asked = peer_number;
    *ret_do = request_take(loan, now_ns);
    return LOAN_TAKEN;
}

uint32_t loan_peer_agreed(struct loan *loan, uint32_t number, uint32_t peer_number, bool to_loan,
                          uint64_t now_ns)
{
    if (!is_moving(loan) || number != loan->number || peer_number == 0)
        return 0;
    peer_learn(loan, peer_number);
    if (loan->state == LOAN_MOVING_OUT && to_loan)
        return lent_begin(loan, now_ns);
    loan->out = false;
    if (loan->state == LOAN_MOVING_OUT)
        return LOAN_DO_GO_ON | home_blocked(loan, now_ns);
    state_set(loan, LOAN_HOME, now_ns);
    return LOAN_DO_GO_ON;
}

/* ---- time ------------------------------------------------------------------------------ */

static uint32_t ask_again(struct loan *loan, uint64_t now_ns)
{
    uint64_t end_ns = loan->began_ns + loan->config.conn_timeout_ns;

    if (now_ns >= end_ns)
        return (has_socket(loan) ? LOAN_DO_SHUT : 0) | end(loan, LOAN_END_SILENT);
    again_later(loan, LOAN_ASK_MAX_NS, now_ns);
    loan->deadline_ns = min64(loan->deadline_ns, end_ns);
    return LOAN_DO_OFFER;
}

uint32_t loan_tick(struct loan *loan, uint64_t now_ns)
{
    if (now_ns < loan->deadline_ns)
        return 0;
    switch (loan->state) {
    case LOAN_ASKED:
        return loan->probes < LOAN_PROBES ? probe(loan, now_ns) : home_blocked(loan, now_ns);
    case LOAN_MOVING_OUT:
    case LOAN_MOVING_HOME:
        return ask_again(loan, now_ns);
    case LOAN_LENT:
        return lent_judge(loan, false, now_ns);
    case LOAN_TAKING_BACK:
        return outside_wait(loan, now_ns);
    case LOAN_HOME:
    case LOAN_ENDED:
        break;
    }
    return 0;
}

/* ---- parts of actions ------------------------------------------------------------------ */

/* Is `app` a possible progress from `from` on, if the program has posted up to `posted`? */
static bool progress_fits(uint32_t app, uint32_t from, uint32_t posted)
{
    return !loan_before(app, from) && posted - app <= VIP_DESC_PER_QUEUE_MAX;
}

int loan_take(const struct loan *loan, const struct loan_posted *posted,
              struct vip_loan_checkpoint *ret)
{
    const struct vip_loan_checkpoint *lent = &loan->own->checkpoint;
    struct vip_loan_checkpoint app;

    if (!loan_words_out(loan->own))
        return 1;
    if (!loan_words_checkpoint(loan->owner, loan->own->lent, &app)) {
        /* The owner never used this loan. */
        *ret = *lent;
        return 0;
    }
    if (loan_before(app.done, lent->done) ||
        !progress_fits(app.received, lent->received, posted->receives) ||
        !progress_fits(app.completed, lent->completed, posted->sends))
        return -EPROTO;
    *ret = app;
    return 0;
}

void loan_taken(struct loan *loan)
{
    loan_words_taken(loan->own);
}

void loan_lend(struct loan *loan, const struct vip_loan_checkpoint *checkpoint, uint64_t timer_ns)
{
    VIP_ASSERT(loan->state == LOAN_LENT);
    loan->lent_timer_ns = timer_ns;
    loan_words_lend(loan->own, loan->number, checkpoint, published_ns(loan));
}

/* ---- begin ----------------------------------------------------------------------------- */

struct loan *loan_init(void *memory, const struct loan_config *config, struct vip_loan_vipd *own,
                       const struct vip_loan_owner *owner)
{
    struct loan *loan = memory;

    memset(loan, 0, sizeof(*loan));
    loan->config = *config;
    loan->own = own;
    loan->owner = owner;
    loan->number = own->number;
    loan->peer = own->peer;
    loan->patience_ns = LOAN_PATIENCE_NS;
    loan->deadline_ns = LOAN_NEVER;
    return loan;
}

struct loan *loan_restore(void *memory, const struct loan_config *config, struct vip_loan_vipd *own,
                          const struct vip_loan_owner *owner, uint64_t now_ns, uint32_t *ret_do)
{
    struct loan *loan = loan_init(memory, config, own, owner);

    if (loan_words_out(own) && !(VIP_MUTANT(LOAN_LIFE) && own->revoked == own->lent)) {
        loan->state = LOAN_LENT;
        loan->lent_ns = now_ns;
        *ret_do = revoke(loan, LOAN_BACK_RESTART, false, now_ns);
        return loan;
    }
    loan->state = LOAN_MOVING_HOME;
    loan->began_ns = now_ns;
    *ret_do = LOAN_DO_TAKE | peer_ask(loan, false, now_ns);
    return loan;
}

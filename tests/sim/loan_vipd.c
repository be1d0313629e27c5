#include "tests/sim/loan_cast.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* ---- actions --------------------------------------------------------------------------- */

static void act(struct end *end, uint32_t actions);

/* Counts or checkpoints contradict each other. Only a program that scribbles may cause that. */
static void contradiction(struct end *end, const char *what)
{
    struct world *world = end->world;

    if (!world->end[0].program.scribbles && !world->end[1].program.scribbles)
        loan_fail(world, "end %u: %s", end->index, what);
    act(end, loan_over(end->vipd.loan, world->now_ns));
}

static void do_shut(struct end *end)
{
    /* The next life of vipd has no duplicate of an earlier socket. */
    if (!end->vipd.duplicate)
        return;
    end->vipd.duplicate = false;
    end->shut = true;
    inbox_clear(&end->queue);
    end->queue_ns = 0;
}

static void do_take(struct end *end)
{
    struct loan_posted posted = {.sends = end->world->start_op + end->sends_posted,
                                 .receives = end->recvs_posted};
    struct vip_loan_checkpoint checkpoint = end->home;

    judge_take(end);
    if (loan_take(end->vipd.loan, &posted, &checkpoint) < 0) {
        contradiction(end, "the checkpoint of the owner is refused");
        return;
    }
    end->place = PLACE_VIPD;
    end->home = checkpoint;
    seat_restore(&end->vipd.seat, &checkpoint);
    loan_taken(end->vipd.loan);
}

static uint32_t own_socket(const struct end *end)
{
    return loan_is_out(end->vipd.loan) ? end->socket : 0;
}

static void do_answer(struct end *end)
{
    const struct wire *request = &end->vipd.request;
    bool to_loan = request->from_socket && !end->world->refuses[end->index];

    end->vipd.next = (struct binding){.number = loan_number(end->vipd.loan),
                                      .peer = request->number,
                                      .socket = own_socket(end),
                                      .peer_socket = to_loan ? request->from_socket : 0};
    end->vipd.next_peer = request->counts;
    end->vipd.answer = (struct wire){.kind = WIRE_AGREE,
                                     .from_socket = own_socket(end),
                                     .number = loan_number(end->vipd.loan),
                                     .peer = request->number,
                                     .to_loan = to_loan,
                                     .counts = seat_counts(&end->vipd.seat)};
    wire_send(end, &end->vipd.answer, NULL, 0);
}

static void do_lend(struct end *end)
{
    struct world *world = end->world;
    struct vip_loan_checkpoint checkpoint = seat_checkpoint(&end->vipd.seat);
    bool owes = checkpoint.completed != world->start_op + end->sends_posted;

    end->terms = (struct terms){end->vipd.next, checkpoint, end->vipd.next_peer};
    end->vipd.seat.live = false;
    end->place = PLACE_OWNER;
    end->left_timer_ns = end->came_ns = 0;
    end->lost = false;
    /* Data may wait already, because the peer is bound before this end. */
    end->excused_ns = world->now_ns;
    world->result.loans++;
    judge_move(end, true);
    loan_lend(end->vipd.loan, &checkpoint, owes ? world->now_ns : 0);
}

static void do_offer(struct end *end)
{
    wire_send(end,
              &(struct wire){.kind = WIRE_OFFER,
                             .from_socket = own_socket(end),
                             .number = loan_number(end->vipd.loan),
                             .counts = seat_counts(&end->vipd.seat)},
              NULL, 0);
}

static void do_probe(struct end *end)
{
    if (!end->vipd.duplicate) {
        judge_probe(end);
        inbox_clear(&end->queue);
        end->queue_ns = 0;
        end->socket = ++end->world->last_socket;
        end->shut = false;
        end->vipd.duplicate = true;
    }
    if (!end->world->blocked[end->index])
        wire_send(end, &(struct wire){.kind = WIRE_PROBE, .from_socket = end->socket}, NULL, 0);
}

static void do_end(struct end *end)
{
    struct world *world = end->world;

    judge_end(end);
    if (!end->over)
        medium_close(world->medium, !end->index, 0, &(struct eng_close){.why = "over"},
                     world->now_ns);
    end->over = true;
    world->result.ends++;
}

static void act(struct end *end, uint32_t actions)
{
    if (actions & ~(uint32_t)(LOAN_DO_WATCH | LOAN_DO_UNWATCH))
        loan_trace(end->world, "%u %s number %" PRIu32 ": do %x", end->index,
                   loan_state_name(loan_state(end->vipd.loan)), loan_number(end->vipd.loan),
                   actions);
    if (actions & LOAN_DO_UNWATCH)
        end->vipd.watched = false;
    if (actions & LOAN_DO_WATCH)
        end->vipd.watched = true;
    if (actions & LOAN_DO_SHUT)
        do_shut(end);
    if (actions & LOAN_DO_TAKE)
        do_take(end);
    if (loan_state(end->vipd.loan) == LOAN_ENDED)
        actions &= LOAN_DO_END;
    if (actions & LOAN_DO_PAUSE)
        seat_pause(&end->vipd.seat);
    if (actions & LOAN_DO_ANSWER)
        do_answer(end);
    if (actions & LOAN_DO_GO_ON &&
        !seat_rebind(&end->vipd.seat, &end->vipd.next, &end->vipd.next_peer))
        contradiction(end, "the counts of the peer are refused");
    if (actions & LOAN_DO_LEND)
        do_lend(end);
    if (actions & LOAN_DO_OFFER)
        do_offer(end);
    if (actions & LOAN_DO_PROBE)
        do_probe(end);
    if (actions & LOAN_DO_END && !end->over)
        do_end(end);
}

/* Do the actions that follow from an input; `before`: the state before it. */
static void follow(struct end *end, enum loan_state before, uint32_t actions)
{
    enum loan_state state = loan_state(end->vipd.loan);

    if (before == LOAN_LENT && state != LOAN_ENDED &&
        (state != LOAN_LENT || actions & LOAN_DO_TAKE)) {
        loan_trace(end->world, "%u revoked for reason %u", end->index,
                   loan_why_back(end->vipd.loan));
        end->world->result.again += state == LOAN_LENT;
        judge_move(end, false);
    }
    act(end, actions);
}

/* ---- packets --------------------------------------------------------------------------- */

static void request_came(struct end *end, const struct wire *wire)
{
    enum loan_state before = loan_state(end->vipd.loan);
    struct wire kept = end->vipd.request;
    enum loan_verdict verdict;
    uint32_t actions;

    end->vipd.request = *wire;
    verdict = loan_peer_asks(end->vipd.loan, wire->number, end->world->now_ns, &actions);
    if (verdict != LOAN_TAKEN)
        end->vipd.request = kept;
    if (verdict == LOAN_TAKEN)
        end->vipd.answer.kind = 0;
    if (verdict == LOAN_AGAIN && end->vipd.answer.kind && end->vipd.answer.peer == wire->number)
        wire_send(end, &end->vipd.answer, NULL, 0);
    follow(end, before, actions);
}

static void answer_came(struct end *end, const struct wire *wire)
{
    enum loan_state before = loan_state(end->vipd.loan);
    bool out = loan_is_out(end->vipd.loan) && wire->to_loan;
    uint32_t actions = loan_peer_agreed(end->vipd.loan, wire->peer, wire->number, wire->to_loan,
                                        end->world->now_ns);

    if (!actions)
        return;
    end->vipd.next = (struct binding){.number = wire->peer,
                                      .peer = wire->number,
                                      .socket = out ? end->socket : 0,
                                      .peer_socket = wire->from_socket};
    end->vipd.next_peer = wire->counts;
    follow(end, before, actions);
}

static void packet_came(struct end *end, struct packet packet)
{
    struct wire wire;

    memcpy(&wire, packet.bytes, sizeof(wire));
    switch (wire.kind) {
    case WIRE_DATA:
        seat_receive(&end->vipd.seat, packet);
        return;
    case WIRE_OFFER:
        request_came(end, &wire);
        break;
    case WIRE_AGREE:
        answer_came(end, &wire);
        break;
    case WIRE_PROBE:
        wire_send(end, &(struct wire){.kind = WIRE_PROBED, .socket = wire.from_socket}, NULL, 0);
        break;
    case WIRE_PROBED:
        if (end->vipd.duplicate && wire.socket == end->socket)
            follow(end, loan_state(end->vipd.loan),
                   loan_probed(end->vipd.loan, end->world->now_ns));
        break;
    }
    free(packet.bytes);
}

/* ---- turns ----------------------------------------------------------------------------- */

static void program_looked_at(struct end *end)
{
    uint64_t now_ns = end->world->now_ns;
    enum loan_state before = loan_state(end->vipd.loan);

    if (!end->program.alive) {
        follow(end, before, loan_owner_died(end->vipd.loan));
        return;
    }
    if (end->program.gone) {
        end->program.gone = false;
        follow(end, before, loan_owner_gone(end->vipd.loan, now_ns));
    }
    if (end->vipd.polled) {
        end->vipd.polled = false;
        if (end->poll_ns == 0 || now_ns - end->poll_ns > LOAN_PAUSE_NS)
            end->run_ns = now_ns;
        end->poll_ns = now_ns;
        before = loan_state(end->vipd.loan);
        if (before != LOAN_LENT)
            follow(end, before, loan_polls(end->vipd.loan, 0, now_ns));
    }
}

static void loan_looked_at(struct end *end)
{
    enum loan_state before = loan_state(end->vipd.loan);

    if (end->vipd.watched && end->queue.count) {
        end->told_data = true;
        follow(end, before, loan_data_waits(end->vipd.loan, end->world->now_ns));
        end->told_data = false;
    }
    before = loan_state(end->vipd.loan);
    if (end->vipd.rung)
        follow(end, before, loan_rung(end->vipd.loan, end->world->now_ns));
    end->vipd.rung = false;
    before = loan_state(end->vipd.loan);
    if (loan_deadline(end->vipd.loan) <= end->world->now_ns)
        follow(end, before, loan_tick(end->vipd.loan, end->world->now_ns));
}

void vipd_turn(struct end *end)
{
    struct world *world = end->world;
    struct packet packet;

    if (!end->vipd.up || end->vipd.until_ns > world->now_ns)
        return;
    world->current = end;
    while (!end->over && inbox_pop(&end->vipd.inbox, &packet))
        packet_came(end, packet);
    if (!end->over && end->vipd.close_came)
        follow(end, loan_state(end->vipd.loan), loan_over(end->vipd.loan, world->now_ns));
    if (!end->over)
        program_looked_at(end);
    if (!end->over)
        loan_looked_at(end);
    if (!end->over && end->place == PLACE_VIPD) {
        seat_feed(&end->vipd.seat);
        seat_tick(&end->vipd.seat);
        while (seat_send(&end->vipd.seat))
            ;
    }
    world->current = NULL;
}

uint64_t vipd_deadline(const struct end *end)
{
    uint64_t timer_ns, at_ns;

    if (end->over)
        return ENG_NEVER;
    if (!end->vipd.up)
        return end->vipd.until_ns;
    at_ns = loan_deadline(end->vipd.loan);
    timer_ns = seat_timer_ns(&end->vipd.seat);
    if (timer_ns && timer_ns < at_ns)
        at_ns = timer_ns;
    return at_ns > end->vipd.until_ns ? at_ns : end->vipd.until_ns;
}

/* ---- lives ----------------------------------------------------------------------------- */

static struct loan_config config_of(const struct end *end)
{
    return (struct loan_config){
        .first = end->index == 0, .conn_timeout_ns = CONN_NS, .moves_ns = LOAN_MOVES_NS};
}

void vipd_begin(struct end *end)
{
    struct loan_config config = config_of(end);

    end->own.number = end->own.peer = end->world->start_number;
    end->vipd.up = true;
    end->shut = true;
    end->vipd.loan = loan_init(malloc(loan_bytes()), &config, &end->own, &end->words);
    seat_begin(&end->vipd.seat, end, false);
    seat_connect(&end->vipd.seat);
}

void vipd_free(struct end *end)
{
    seat_free(&end->vipd.seat);
    inbox_clear(&end->vipd.inbox);
    free(end->vipd.loan);
    end->vipd.loan = NULL;
}

void vipd_kill(struct end *end)
{
    loan_trace(end->world, "%u vipd is killed %s", end->index,
               loan_state_name(loan_state(end->vipd.loan)));
    vipd_free(end);
    end->vipd.up = end->vipd.watched = end->vipd.duplicate = end->vipd.polled = false;
    end->vipd.request.kind = end->vipd.answer.kind = 0;
    end->lost = false; /* the next life does not know it */
    end->world->result.restarts++;
}

void vipd_restart(struct end *end)
{
    struct loan_config config = config_of(end);
    uint32_t actions;

    end->vipd.up = true;
    end->world->current = end;
    seat_begin(&end->vipd.seat, end, false);
    end->vipd.loan = loan_restore(malloc(loan_bytes()), &config, &end->own, &end->words,
                                  end->world->now_ns, &actions);
    if (loan_why_back(end->vipd.loan) == LOAN_BACK_RESTART)
        judge_move(end, false);
    act(end, actions);
    end->world->current = NULL;
}

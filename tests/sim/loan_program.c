#include "tests/sim/loan_cast.h"

#include <stdlib.h>
#include <string.h>

/* What the program does for a while. */
enum mode {
    MODE_POLL,    /* polls, posts now and then */
    MODE_COMPUTE, /* does not call the library */
    MODE_TEASE,   /* computes until it has lost its loan, then polls again */
    MODE_FORK,    /* forks a few times in a row, and polls in between */
    MODE_BURST,   /* posts all it can, then computes */
    MODE_BLOCK,   /* computes, posts, then blocks elsewhere for long */
    MODE_SLEEP,   /* sleeps until packets come, as a call that waits */
    MODES,
};

/* ---- the coroutine --------------------------------------------------------------------- */

static void sleep_ns(struct end *end, uint64_t for_ns)
{
    end->program.wake_ns = end->world->now_ns + for_ns;
    swapcontext(&end->program.context, &end->world->main);
}

static void scribble(struct end *end)
{
    struct sim_rand *rand = &end->world->rand;
    uint32_t *word = (uint32_t *)&end->words;

    if (sim_below(rand, 200))
        return;
    word[sim_below(rand, sizeof(end->words) / sizeof(*word))] = sim_rand(rand)
                                                                << sim_below(rand, 9);
}

/* A step of the program: another side may run, or the program stalls here. */
void program_pause(struct end *end)
{
    struct world *world = end->world;
    struct sim_rand *rand = &world->rand;

    if (end->program.scribbles)
        scribble(end);
    if (sim_chance(rand, 60000))
        sleep_ns(end, 0);
    if (sim_chance(rand, 20000))
        sleep_ns(end, sim_below(rand, 2000));
    if (healed(world))
        return;
    if (sim_chance(rand, world->stall_ppm))
        sleep_ns(end, sim_below(rand, 1 << (10 + sim_below(rand, 13))));
    if (world->long_stalls && sim_chance(rand, 20)) {
        end->stalled_long |= end->words.inside != 0;
        sleep_ns(end, 2 * CONN_NS);
    }
}

static struct world *stepping;

/* loan_stay.c calls it at each access to a shared word. */
void loan_step(void)
{
    struct world *world = stepping;
    struct end *end;

    if (!world)
        return;
    if (world->running) {
        program_pause(world->running);
        return;
    }
    /* vipd makes a step: its program may make some before it. */
    end = world->current;
    if (end && sim_chance(&world->rand, 250000))
        program_run(end);
}

/* ---- the library ----------------------------------------------------------------------- */

/* Go on with the engine from the terms of loan `number`. */
static void take_up(struct end *end, uint32_t number)
{
    struct terms terms = end->terms;

    end->program.number = number;
    seat_restore(&end->program.seat, &terms.checkpoint);
    if (!seat_rebind(&end->program.seat, &terms.binding, &terms.peer) && !end->program.scribbles &&
        !peer_of(end)->program.scribbles)
        loan_fail(end->world, "end %u: the owner refuses the counts of the peer", end->index);
}

static void turn(struct end *end)
{
    struct seat *seat = &end->program.seat;
    struct packet packet;
    unsigned packets = 0;

    seat_feed(seat);
    while (end->queue.count && loan_packet(&end->program.owner)) {
        inbox_pop(&end->queue, &packet);
        seat_receive(seat, packet);
        packets++;
    }
    seat_tick(seat);
    while (loan_packet(&end->program.owner) && seat_send(seat)) {
        program_pause(end);
        packets++;
    }
    if (packets > LOAN_STAY_PACKETS)
        loan_fail(end->world, "end %u: a stay handled %u packets", end->index, packets);
    if (end->queue.count == 0)
        end->queue_ns = 0;
}

/* Stay in the loan, if the program has one. */
static void stay(struct end *end)
{
    struct world *world = end->world;
    uint32_t number = loan_offered(&end->program.owner);
    struct vip_loan_checkpoint checkpoint;

    if (number == 0 || number == end->program.refused)
        return;
    if (!loan_enter(&end->program.owner, number)) {
        end->program.refused = number;
        return;
    }
    world->result.stays++;
    end->inside = true;
    end->came_ns = world->now_ns;
    if (end->program.number != number)
        take_up(end, number);
    turn(end);
    checkpoint = seat_checkpoint(&end->program.seat);
    end->left_timer_ns = seat_timer_ns(&end->program.seat);
    if (loan_leave(&end->program.owner, end->left_timer_ns, &checkpoint))
        end->vipd.rung = true;
    end->inside = false;
    end->came_ns = world->now_ns;
}

static void call(struct end *end)
{
    stay(end);
    /* vipd sees the poll, and the bell after a post, when the engine runs there. */
    end->vipd.polled = true;
}

/* ---- the program ----------------------------------------------------------------------- */

static void poll_for(struct end *end, uint64_t for_ns)
{
    struct sim_rand *rand = &end->world->rand;
    uint64_t until_ns = end->world->now_ns + for_ns;
    uint32_t gap_ns = 5000u << sim_below(rand, 4);

    while (end->world->now_ns < until_ns) {
        if (sim_below(rand, 8) == 0)
            (void)program_posts(end);
        call(end);
        sleep_ns(end, 1000 + sim_below(rand, gap_ns));
    }
}

static uint64_t below_log(struct sim_rand *rand, uint64_t least_ns, unsigned doublings)
{
    return (least_ns << sim_below(rand, doublings)) + sim_below(rand, (uint32_t)least_ns);
}

static void tease(struct end *end)
{
    struct world *world = end->world;
    uint64_t until_ns = world->now_ns + 60 * MS;

    poll_for(end, 7 * MS);
    while (world->now_ns < until_ns && end->place == PLACE_OWNER)
        sleep_ns(end, 300 * US);
}

static void fork_often(struct end *end)
{
    for (unsigned n = 2 + sim_below(&end->world->rand, 8); n; n--) {
        poll_for(end, 4 * MS);
        end->program.gone = true;
        sleep_ns(end, 1000);
    }
}

static void burst(struct end *end)
{
    while (program_posts(end))
        ;
    call(end);
    sleep_ns(end, below_log(&end->world->rand, 20 * US, 10));
}

static void block(struct end *end)
{
    struct sim_rand *rand = &end->world->rand;

    sleep_ns(end, below_log(rand, 600 * US, 5));
    (void)program_posts(end);
    call(end);
    sleep_ns(end, below_log(rand, 2 * MS, 5));
}

/* Has the program something to wake for? */
static bool wakes(const struct end *end)
{
    return end->queue.count > 0 || (end->left_timer_ns && end->left_timer_ns <= end->world->now_ns);
}

static void sleep_on_loan(struct end *end)
{
    struct world *world = end->world;
    uint64_t until_ns = world->now_ns + below_log(&world->rand, 200 * US, 9);

    loan_words_asleep(&end->words, true);
    call(end);
    end->asleep_ns = world->now_ns;
    while (world->now_ns < until_ns && end->place == PLACE_OWNER) {
        sleep_ns(end, 1000 + sim_below(&world->rand, 30000));
        if (wakes(end))
            call(end);
    }
    end->asleep_ns = 0;
    end->slept_ns = world->now_ns;
    call(end);
    loan_words_asleep(&end->words, false);
}

static void do_something(struct end *end)
{
    struct sim_rand *rand = &end->world->rand;

    if (end->world->teases && sim_below(rand, 2)) {
        tease(end);
        return;
    }
    switch ((enum mode)sim_below(rand, MODES)) {
    case MODE_POLL:
    case MODES:
        poll_for(end, below_log(rand, 200 * US, 7));
        break;
    case MODE_COMPUTE:
        sleep_ns(end, below_log(rand, 20 * US, sim_below(rand, 4) ? 10 : 14));
        break;
    case MODE_TEASE:
        for (unsigned n = 1 + sim_below(rand, 4); n && !healed(end->world); n--)
            tease(end);
        break;
    case MODE_FORK:
        fork_often(end);
        break;
    case MODE_BURST:
        burst(end);
        break;
    case MODE_BLOCK:
        for (unsigned n = 1 + sim_below(rand, 4); n; n--)
            block(end);
        break;
    case MODE_SLEEP:
        sleep_on_loan(end);
        break;
    }
}

static struct end *starting;

static void program_main(void)
{
    struct end *end = starting;
    struct world *world = end->world;

    while (!healed(world)) {
        do_something(end);
        if (world->silence && sim_chance(&world->rand, 50000)) {
            (void)program_posts(end);
            call(end);
            end->program.silent = true;
            for (;;)
                sleep_ns(end, 1000000 * MS);
        }
    }
    for (;;)
        poll_for(end, MS);
}

void program_begin(struct end *end)
{
    end->program.alive = true;
    end->program.stack = malloc(STACK_BYTES);
    loan_owner_init(&end->program.owner, &end->words, &end->own);
    seat_begin(&end->program.seat, end, true);
    getcontext(&end->program.context);
    end->program.context.uc_stack.ss_sp = end->program.stack;
    end->program.context.uc_stack.ss_size = STACK_BYTES;
    makecontext(&end->program.context, program_main, 0);
    stepping = end->world;
}

void program_run(struct end *end)
{
    struct world *world = end->world;

    if (!end->program.alive || end->program.wake_ns > world->now_ns || world->running)
        return;
    world->running = end;
    starting = end;
    swapcontext(&world->main, &end->program.context);
    world->running = NULL;
}

void program_die(struct end *end)
{
    loan_trace(end->world, "%u the program dies%s", end->index, end->inside ? " inside" : "");
    end->program.alive = false;
    end->world->result.deaths++;
}

void program_free(struct end *end)
{
    seat_free(&end->program.seat);
    free(end->program.stack);
    stepping = NULL;
}

#include "tests/sim/loan_cast.h"

#include <stdlib.h>
#include <string.h>

/* After the faults, all that was posted must arrive within this time. */
#define HEAL_NS (5000 * MS)
/* Then the run goes on for this time, so that late writes show. */
#define AFTER_NS (30 * MS)
/* An end that has lost its connection runs for this time. */
#define OVER_NS (50 * MS)

/* ---- packets --------------------------------------------------------------------------- */

void inbox_push(struct inbox *inbox, struct packet packet, unsigned most)
{
    if (inbox->count == most) {
        free(packet.bytes);
        return;
    }
    inbox->at[(inbox->head + inbox->count++) % INBOX] = packet;
}

bool inbox_pop(struct inbox *inbox, struct packet *ret)
{
    if (!inbox->count)
        return false;
    *ret = inbox->at[inbox->head];
    inbox->head = (inbox->head + 1) % INBOX;
    inbox->count--;
    return true;
}

void inbox_clear(struct inbox *inbox)
{
    struct packet packet;

    while (inbox_pop(inbox, &packet))
        free(packet.bytes);
}

/* Keep a copy of a control message, which may arrive once more much later. */
static void copy_keep(struct world *world, unsigned to, const uint8_t *bytes, uint32_t len)
{
    unsigned at = world->copies++ % COPIES;

    free(world->copy[at].bytes);
    world->copy[at] = (struct packet){.bytes = malloc(len), .len = len};
    memcpy(world->copy[at].bytes, bytes, len);
    world->copy_to[at] = to;
}

static void medium_put(struct world *world, unsigned to, const uint8_t *bytes, uint32_t len)
{
    (void)medium_send(
        world->medium,
        &(struct medium_packet){
            .from = !to, .to = to, .conn_id = 1, .number = 1, .bytes = bytes, .len = len},
        world->now_ns);
}

void wire_send(struct end *from, const struct wire *wire, const uint8_t *data, uint32_t len)
{
    uint8_t bytes[sizeof(*wire) + PACKET_BYTES];
    uint32_t all = (uint32_t)sizeof(*wire) + len;

    memset(bytes, 0, sizeof(*wire));
    memcpy(bytes, wire, sizeof(*wire));
    if (len)
        memcpy(bytes + sizeof(*wire), data, len);
    else
        copy_keep(from->world, !from->index, bytes, all);
    medium_put(from->world, !from->index, bytes, all);
}

/* A packet comes to a socket of this end. */
static void deliver(struct end *end, struct packet packet)
{
    struct wire wire;

    memcpy(&wire, packet.bytes, sizeof(wire));
    if (wire.socket == 0 || (wire.kind == WIRE_PROBED && wire.socket == end->socket)) {
        inbox_push(&end->vipd.inbox, packet, end->vipd.up ? INBOX : 0);
    } else if (wire.socket == end->socket && !end->shut && wire.kind == WIRE_DATA) {
        if (!end->queue.count)
            end->queue_ns = end->world->now_ns;
        inbox_push(&end->queue, packet, SOCKET_QUEUE);
    } else {
        free(packet.bytes);
    }
}

static void arrivals(struct world *world)
{
    struct medium_arrival arrival;

    while (medium_take(world->medium, world->now_ns, &arrival)) {
        struct end *end = &world->end[arrival.host];

        if (arrival.kind == MEDIUM_CLOSE)
            end->vipd.close_came = true;
        else
            deliver(end, (struct packet){arrival.bytes, arrival.len});
    }
}

/* ---- faults ---------------------------------------------------------------------------- */

static void fault_vipd(struct world *world, struct end *end)
{
    uint64_t until_ns = world->now_ns + sim_below(&world->rand, 8 * MS);

    if (!end->vipd.up || end->over)
        return;
    if (world->restarts && sim_below(&world->rand, 3) == 0)
        vipd_kill(end);
    end->vipd.until_ns = end->excused_ns = until_ns;
}

static void fault_copy(struct world *world)
{
    unsigned kept = world->copies < COPIES ? world->copies : COPIES;
    unsigned at = kept ? sim_below(&world->rand, kept) : 0;

    if (kept)
        medium_put(world, world->copy_to[at], world->copy[at].bytes, world->copy[at].len);
}

/* A vipd that waits for an owner that is inside is killed. */
static void fault_waiting(struct world *world, struct end *end)
{
    if (!world->restarts || healed(world) || end->over || !end->vipd.up ||
        loan_state(end->vipd.loan) != LOAN_TAKING_BACK || !sim_chance(&world->rand, 30000))
        return;
    vipd_kill(end);
    end->vipd.until_ns = end->excused_ns = world->now_ns + sim_below(&world->rand, 100 * US);
}

static void fault(struct world *world)
{
    struct end *end = &world->end[sim_below(&world->rand, 2)];

    world->fault_ns = world->now_ns + 1 + sim_below(&world->rand, 10 * MS);
    switch (sim_below(&world->rand, 8)) {
    case 0:
    case 1:
        fault_vipd(world, end);
        break;
    case 2:
        if (world->deaths && sim_below(&world->rand, 20) == 0 && end->program.alive)
            program_die(end);
        break;
    case 3:
        if (world->scribbles && sim_below(&world->rand, 8) == 0 && !end->program.scribbles) {
            end->program.scribbles = true;
            world->result.scribbles++;
        }
        break;
    default:
        fault_copy(world);
        break;
    }
    if (healed(world))
        world->fault_ns = ENG_NEVER;
}

/* ---- time ------------------------------------------------------------------------------ */

static void heal(struct world *world)
{
    struct medium_link *link = medium_link(world->medium);

    link->loss = link->dup = link->reorder = 0;
}

static uint64_t program_ns(const struct end *end)
{
    return end->program.alive ? end->program.wake_ns : ENG_NEVER;
}

static uint64_t sooner(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static uint64_t next_ns(const struct world *world)
{
    uint64_t at_ns = sooner(medium_next_ns(world->medium), world->fault_ns);

    for (unsigned i = 0; i < 2; i++) {
        at_ns = sooner(at_ns, program_ns(&world->end[i]));
        at_ns = sooner(at_ns, vipd_deadline(&world->end[i]));
    }
    return at_ns;
}

/* Everything that is due acts, in a random order. */
static void act_all(struct world *world)
{
    unsigned first = sim_below(&world->rand, 4);

    arrivals(world);
    if (world->fault_ns <= world->now_ns)
        fault(world);
    for (unsigned i = 0; i < 4; i++) {
        unsigned actor = (first + i) % 4;
        struct end *end = &world->end[actor & 1];

        if (actor & 2) {
            program_run(end);
            continue;
        }
        if (!end->vipd.up && end->vipd.until_ns <= world->now_ns)
            vipd_restart(end);
        vipd_turn(end);
        fault_waiting(world, end);
    }
    judge_now(&world->end[0]);
    judge_now(&world->end[1]);
}

static bool over(const struct world *world)
{
    return world->end[0].over || world->end[1].over;
}

static bool arrived(struct world *world)
{
    return healed(world) && all_arrived(&world->end[0]) && all_arrived(&world->end[1]);
}

static void live(struct world *world)
{
    uint64_t end_ns = ENG_NEVER, last_ns = world->chaos_ns + HEAL_NS;

    while (world->now_ns < sooner(end_ns, last_ns)) {
        uint64_t at_ns;

        act_all(world);
        at_ns = next_ns(world);
        if (world->now_ns < world->chaos_ns && at_ns >= world->chaos_ns)
            heal(world);
        if (at_ns > world->now_ns)
            world->now_ns = sooner(at_ns, last_ns);
        world->closing = world->closing || arrived(world);
        if (end_ns == ENG_NEVER && over(world))
            end_ns = world->now_ns + OVER_NS;
        else if (end_ns == ENG_NEVER && world->closing)
            end_ns = world->now_ns + AFTER_NS;
    }
}

/* ---- a run ----------------------------------------------------------------------------- */

static struct medium_link random_link(struct sim_rand *rand)
{
    static const uint32_t losses[] = {0, 2000, 20000, 100000, 100000};
    static const uint32_t delays[] = {5000, 20000, 100000, 1000000};
    struct medium_link link = {.delay_ns = delays[sim_below(rand, 4)],
                               .loss = losses[sim_below(rand, 5)],
                               .dup = sim_below(rand, 3) ? 0 : 30000,
                               .reorder = sim_below(rand, 3) ? 0 : 30000};

    link.jitter_ns = sim_below(rand, 2) ? link.delay_ns / 2 : 0;
    link.reorder_ns = 1 + sim_below(rand, 1 << (10 + sim_below(rand, 15)));
    return link;
}

static void world_begin(struct world *world)
{
    struct sim_rand *rand = &world->rand;
    struct medium_link link = random_link(rand);

    world->now_ns = 10000 * MS;
    world->hash = 0xcbf29ce484222325ull;
    world->medium = medium_new(&link, 2, world->args.seed);
    world->chaos_ns = world->now_ns + 20 * MS + sim_below(rand, 250 * MS);
    world->teases = sim_below(rand, 16) == 0;
    if (world->teases)
        world->chaos_ns += 1500 * MS + sim_below(rand, 1500 * MS);
    world->fault_ns = world->now_ns + sim_below(rand, 20 * MS);
    world->start_op = sim_below(rand, 2) ? UINT32_MAX - sim_below(rand, 60) : 0;
    world->start_number = sim_below(rand, 2) ? UINT32_MAX - sim_below(rand, 6) : 1;
    world->messages = 20 + sim_below(rand, MESSAGES_MAX - 20);
    world->big = sim_below(rand, 4) == 0;
    if (sim_below(rand, 2))
        world->post_gap_ns = (world->chaos_ns - world->now_ns) / world->messages;
    world->stall_ppm = sim_below(rand, 3) ? 100u << sim_below(rand, 5) : 0;
    world->restarts = sim_below(rand, 3) == 0;
    world->long_stalls = sim_below(rand, 10) == 0;
    world->deaths = sim_below(rand, 4) == 0;
    world->silence = sim_below(rand, 4) == 0;
    world->scribbles = sim_below(rand, 12) == 0;
    for (unsigned i = 0; i < 2; i++) {
        struct end *end = &world->end[i];

        world->blocked[i] = sim_below(rand, 16) == 0;
        world->refuses[i] = sim_below(rand, 16) == 0;
        end->world = world;
        end->index = i;
    }
    for (unsigned i = 0; i < 2; i++)
        memory_begin(&world->end[i]);
    for (unsigned i = 0; i < 2; i++) {
        vipd_begin(&world->end[i]);
        program_begin(&world->end[i]);
    }
}

static void world_end(struct world *world)
{
    for (unsigned i = 0; i < 2; i++) {
        struct end *end = &world->end[i];

        program_free(end);
        if (end->vipd.up)
            vipd_free(end);
        inbox_clear(&end->queue);
        inbox_clear(&end->vipd.inbox);
    }
    for (unsigned i = 0; i < COPIES; i++)
        free(world->copy[i].bytes);
    medium_free(world->medium);
}

struct loan_run_result loan_run(const struct loan_run_args *args)
{
    struct world *world = calloc(1, sizeof(*world));
    struct loan_run_result result;

    world->args = *args;
    world->rand.state = args->seed * 0x9e3779b97f4a7c15ull + 3;
    world_begin(world);
    live(world);
    judge_final(&world->end[0]);
    judge_final(&world->end[1]);
    result = world->result;
    result.hash = world->hash;
    result.virtual_ns = world->now_ns - 10000 * MS;
    world_end(world);
    free(world);
    return result;
}

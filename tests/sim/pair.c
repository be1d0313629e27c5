#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "proto/ring.h"
#include "tests/sim/actor.h"
#include "vipd/engine/mutant.h"

/* Time limit, after the end of the faults, until both sides know that a connection is over. */
#define BOTH_KNOW_NS (12 * WORLD_S)

/* A vipd recognizes a repeated request for at least this time, also if its clock drifts. */
#define ANSWERED_NS (2800 * WORLD_MS)

/* A connection may break only after a silence (cuts, loss, stalled hosts) of at least this time.
 * The engine breaks a connection after 4 s without an answer; its clock may be 5 % fast. Up to 1 s
 * of the 4 s may pass before it repeats the missing packet. If packets are also lost at random,
 * repetitions may be lost, too; then a shorter silence is enough. */
#define SILENCE_NS       (2500 * WORLD_MS)
#define SILENCE_LOSSY_NS (1750 * WORLD_MS)

/* The longest wait of VipDisconnect during the faults ([reliability] linger). */
#define LINGER_NS WORLD_S

/* After 4 s without a packet from a peer, vipd ends their connections. vipd's clock may be fast. */
#define UNHEARD_NS  (3600 * WORLD_MS)
#define UNHEARD_WHY "the peer's vipd is silent"

/* ---- attempts -------------------------------------------------------------------------- */

struct attempt *attempt_find(struct play *play, uint64_t id)
{
    struct attempt *attempt = play->attempts;

    while (attempt && attempt->id != id)
        attempt = attempt->next;
    return attempt;
}

struct attempt *attempt_new(struct pair *pair)
{
    struct play *play = pair->play;
    unsigned a = pair->end[0].sess->host, b = pair->end[1].sess->host;
    struct attempt *attempt = calloc(1, sizeof(*attempt));

    attempt->id = ++play->next_attempt;
    attempt->pair = pair;
    attempt->next = play->attempts;
    play->attempts = attempt;
    attempt->began_ns = play_now(play);
    attempt->may_end = (play->plan.lossy && !play->healed) ||
                       play->leap_until_ns[a] > play_now(play) ||
                       play->leap_until_ns[b] > play_now(play);
    attempt->after_heal =
        play->healed && (play->plan.clean || play_now(play) >= play->heal_ns + PLAY_RECOVER_NS);
    flow_init(&attempt->flow[0], attempt, 0);
    flow_init(&attempt->flow[1], attempt, 1);
    return attempt;
}

/* True if the connection may end: after an event that may end it, or after a long silence. */
static bool may_end(const struct attempt *attempt)
{
    const struct play *play = attempt->pair->play;
    const struct world_net *net = &play->world.net;
    unsigned a = attempt->pair->end[0].sess->host, b = attempt->pair->end[1].sess->host;
    bool lossy = net->loss_ppm || net->burst_begin_ppm || net->every_nth || net->corrupt_ppm ||
                 net->bytes_per_s;
    uint64_t enough_ns = lossy ? SILENCE_LOSSY_NS : SILENCE_NS;

    return attempt->may_end ||
           (a != b && (world_silence_ns(&play->world, a, b, attempt->began_ns) >= enough_ns ||
                       world_silence_ns(&play->world, b, a, attempt->began_ns) >= enough_ns));
}

static void attempt_free(struct attempt *attempt)
{
    struct attempt **at = &attempt->pair->play->attempts;

    while (*at != attempt)
        at = &(*at)->next;
    *at = attempt->next;
    free(attempt);
}

void attempt_drop(struct attempt *attempt)
{
    if (!attempt->attached[0] && !attempt->attached[1] && !meet_expects(attempt))
        attempt_free(attempt);
}

void attempts_free(struct play *play)
{
    while (play->attempts)
        attempt_free(play->attempts);
}

void attempt_over(struct attempt *attempt, unsigned side)
{
    if (!attempt->over[0] && !attempt->over[1])
        attempt->over_ns = play_now(attempt->pair->play);
    attempt->over[side] = true;
    attempt->may_end = true;
}

void end_attach(struct end *end, struct attempt *attempt)
{
    end->attempt = attempt;
    end->losses = 0;
    end->leaving = false;
    end->past.connected = false;
    if (!attempt)
        return;
    attempt->attached[end->side] = true;
    attempt->flow[!end->side].recv_base = end->done[VIP_Q_RECV];
}

void end_detach(struct end *end)
{
    struct attempt *attempt = end->attempt;

    meet_abandon(end);
    if (!attempt)
        return;
    window_settle(end);
    attempt_over(attempt, end->side);
    attempt->flow[end->side].send_over = true;
    attempt->attached[end->side] = false;
    end->attempt = NULL;
    attempt_drop(attempt);
}

/* If one side has learned that a connection is over, the other side must learn it, too. */
void attempts_check(struct play *play)
{
    uint64_t since = play->heal_ns + play->world.net.dup_delay_ns;

    if (!play->healed)
        return;
    for (const struct attempt *attempt = play->attempts; attempt; attempt = attempt->next) {
        uint64_t at_ns = attempt->over_ns > since ? attempt->over_ns : since;

        for (unsigned side = 0; side < 2; side++)
            if (attempt->over[!side] && attempt->up[side] && !attempt->over[side] &&
                play_now(play) > at_ns + BOTH_KNOW_NS)
                play_fail(play, "pair %u: side %u believes in a connection that is over",
                          attempt->pair->number, side);
    }
}

/* ---- vipd's reports to a session ------------------------------------------------------- */

static struct event *event_new(struct sess *sess, enum event_kind kind)
{
    struct event *event = &sess->event[sess->event_count++];

    if (sess->event_count > EVENTS_MAX)
        play_fail(sess->play, "host %u session %u is told too much", sess->host, sess->index);
    *event = (struct event){.kind = kind};
    return event;
}

static struct end *end_find(struct sess *sess, uint16_t vi, uint32_t generation)
{
    struct play *play = sess->play;

    for (unsigned i = 0; i < play->plan.pairs; i++)
        for (unsigned side = 0; side < 2; side++) {
            struct end *end = &play->pair[i].end[side];

            if (end->exists && end->sess == sess && end->vi == vi && end->generation == generation)
                return end;
        }
    play_fail(play, "an event of a VI that is not there");
}

void sink_incoming(void *ctx, uint64_t wait_id, uint64_t handle, const struct vip_addr *remote,
                   const struct vip_cm_attrs *attrs, const struct vip_private *data)
{
    struct event *event;

    if (((struct sess *)ctx)->killed)
        return;
    event = event_new(ctx, EVENT_INCOMING);
    event->wait = wait_id;
    event->listener = listener_takes(ctx, wait_id);
    event->handle = handle;
    event->attrs = *attrs;
    if (remote->disc_len != sizeof(event->attempt))
        play_fail(((struct sess *)ctx)->play, "the client's discriminator has changed");
    memcpy(&event->attempt, remote->disc, sizeof(event->attempt));
    if (data->len != sizeof(event->attempt) ||
        memcmp(data->bytes, remote->disc, sizeof(event->attempt)) != 0)
        play_fail(((struct sess *)ctx)->play, "the client's private data has changed");
}

void sink_result(void *ctx, uint16_t vi, uint32_t generation, enum vip_rc rc,
                 const struct vip_cm_attrs *attrs, const struct vip_private *data, const char *why)
{
    struct sess *sess = ctx;
    struct end *end = end_find(sess, vi, generation);
    struct attempt *attempt = end->attempt;
    struct play *play = sess->play;
    struct event *event;

    (void)why;
    if (sess->killed)
        return;
    event = event_new(sess, EVENT_RESULT);
    event->vi = vi;
    event->generation = generation;
    event->code = rc;
    world_line(&play->world, LINE_RESULT, end->pair->number, attempt ? attempt->id : 0, end->side,
               rc, 0);
    if (end->pair->meets) {
        if (rc == VIP_RC_SUCCESS)
            meet_connected(end, data);
        else
            meet_abandon(end);
        return;
    }
    if (rc != VIP_RC_SUCCESS) {
        if (end->side == 1 && attempt && attempt->up[0] && !may_end(attempt))
            play_fail(play, "pair %u: the accept failed (%u), and the client is connected",
                      end->pair->number, rc);
        return;
    }
    if (!attempt)
        play_fail(play, "pair %u: connected to a client that gave up", end->pair->number);
    if (!attempt->accepted)
        play_fail(play, "pair %u: the client is connected, nobody accepted", end->pair->number);
    /* Exception: the client's vipd is killed after its CONFIRM, before its report to the client. */
    if (end->side == 1 && !attempt->up[0] && !(play->plan.kills && attempt->may_end))
        play_fail(play, "pair %u: the server is connected before the client", end->pair->number);
    if (attrs->level != end->pair->level || attrs->max_transfer_bytes != play->plan.size_max)
        play_fail(play, "pair %u: attributes of the other end", end->pair->number);
    if (end->side == 0 && (!data || data->len != 1 || data->bytes[0] != (uint8_t)attempt->id))
        play_fail(play, "pair %u: private data of the server", end->pair->number);
    attempt->up[end->side] = true;
    if (end->side == 1) {
        play->connections++;
        play->strangers = play->strangers || sess->host != end->pair->end[0].sess->host;
    }
}

/* True if nothing has arrived from the other host for UNHEARD_NS. */
static bool unheard(const struct end *end)
{
    const struct play *play = end->pair->play;
    unsigned other = end->pair->end[!end->side].sess->host;

    return play_now(play) >= play->world.view[end->sess->host][other].heard_ns + UNHEARD_NS;
}

static void lost(struct end *end, const char *why)
{
    struct attempt *attempt = end->attempt;
    struct play *play = end->pair->play;

    if (!attempt || !attempt->up[end->side] || end->losses++)
        play_fail(play, "pair %u: told of a lost connection twice, or without one",
                  end->pair->number);
    world_line(&play->world, LINE_LOSS_OF, end->pair->number, attempt->id, end->side, 0, 0);
    if (!may_end(attempt) || (!attempt->may_end && !strcmp(why, UNHEARD_WHY) && !unheard(end)))
        play_fail(play, "pair %u: side %u lost its connection without a cause: %s",
                  end->pair->number, end->side, why);
    if (end_vi_state(end) != VIP_VIST_ERROR)
        play_fail(play, "pair %u: connection lost, and the VI in state %u", end->pair->number,
                  end_vi_state(end));
    play->losses++;
    attempt_over(attempt, end->side);
}

void sink_error(void *ctx, enum vip_resource resource, enum vip_error_code code, uint16_t vi,
                uint32_t generation, uint32_t opcode, const char *why)
{
    struct sess *sess = ctx;
    struct end *end = end_find(sess, vi, generation);
    struct attempt *attempt = end->attempt;
    struct play *play = sess->play;
    bool reliable = end->pair->level != VIP_LVL_UNRELIABLE;
    struct event *event;

    if (sess->killed)
        return;
    event = event_new(sess, EVENT_ERROR);
    *event = (struct event){
        .kind = EVENT_ERROR, .vi = vi, .generation = generation, .code = code, .opcode = opcode};
    world_line(&play->world, LINE_ERROR, end->pair->number, end->side, code, 0, 0);
    if (resource != VIP_RES_VI || !attempt)
        play_fail(play, "pair %u: error %u out of nowhere: %s", end->pair->number, code, why);
    switch (code) {
    case VIP_EC_CONN_LOST:
        lost(end, why);
        return;
    case VIP_EC_RECVQ_EMPTY:
        if (!reliable)
            return;
        if (!attempt->flow[!end->side].starve)
            play_fail(play, "pair %u: a receive was posted and not found", end->pair->number);
        attempt->may_end = true;
        return;
    case VIP_EC_RDMAW_ABORT:
    case VIP_EC_RDMA_TRANSPORT:
        /* These errors follow from the loss of the connection, which vipd reports later. */
        if (reliable && !may_end(attempt))
            play_fail(play, "pair %u: error %u without a cause: %s", end->pair->number, code, why);
        return;
    case VIP_EC_RDMAW_PROT:
    case VIP_EC_RDMAR_PROT:
        if (reliable && !attempt->may_end)
            play_fail(play, "pair %u: error %u without a cause: %s", end->pair->number, code, why);
        return;
    default:
        play_fail(play, "pair %u: error %u: %s", end->pair->number, code, why);
    }
}

/* ---- actions of an application --------------------------------------------------------- */

struct vip_addr end_address(unsigned host, const void *disc, uint8_t len)
{
    struct link_addr addr = world_addr(host);
    struct vip_addr ret = {.host_len = addr.len, .disc_len = len};

    memcpy(ret.host, addr.bytes, addr.len);
    memcpy(ret.disc, disc, len);
    return ret;
}

/* Check that no descriptor is left on the queues of a VI that is in Error or is disconnected. */
static void flushed_check(struct end *end, const char *when)
{
    (void)end_judge(end);
    for (unsigned queue = 0; queue < 2; queue++)
        if (end->done[queue] != end->posted[queue])
            play_fail(end->pair->play, "pair %u: %u descriptors of queue %u not flushed %s",
                      end->pair->number, end->posted[queue] - end->done[queue], queue, when);
}

void end_disconnect(struct end *end)
{
    struct play *play = end->pair->play;

    world_line(&play->world, LINE_CLOSE, end->pair->number, end->attempt ? end->attempt->id : 0,
               end->side, 0, 0);
    (void)end_judge(end);
    if (end->attempt)
        end->attempt->may_end = true;
    if (nic_vi_disconnect(end->sess->nic, end->vi, sess_now(end->sess)) != VIP_RC_SUCCESS)
        play_fail(play, "nic_vi_disconnect");
    flushed_check(end, "by VipDisconnect");
    /* Make the copies that vipd asked for before it answered VipDisconnect. */
    (void)sess_place(end->sess, true);
    end_detach(end);
    if (end_vi_state(end) != VIP_VIST_IDLE)
        play_fail(play, "pair %u: not Idle after VipDisconnect", end->pair->number);
    end->state = END_IDLE;
    end->at_ns = play_now(play) + chance_below(&play->chance, 50 * WORLD_MS);
    play->world.host[end->sess->host].due = true;
}

/* If `mem` was deregistered during the last connection, register it again, with a new handle. */
static void mem_renew(struct end *end, struct mem *mem)
{
    if (mem->live)
        return;
    sess_judge_memory(end->sess);
    mem_register(end->sess, mem);
    memset(mem->bytes, BYTE_CANARY, mem->len);
    if (mem == &end->window)
        memset(end->shadow, BYTE_CANARY, mem->len);
}

static void end_renew(struct end *end)
{
    mem_renew(end, &end->recv);
    mem_renew(end, &end->window);
    mem_renew(end, &end->landing);
    mem_renew(end, &end->source);
    (void)recv_post_all(end);
}

bool pair_wanted(const struct pair *pair)
{
    return !pair->play->healed || pair->after_heal == 0;
}

static bool request(struct end *end)
{
    struct pair *pair = end->pair;
    struct play *play = pair->play;
    struct attempt *attempt = attempt_new(pair);
    struct nic_connect_args args = {
        .local = end_address(end->sess->host, &attempt->id, sizeof(attempt->id)),
        .remote = end_address(pair->end[1].sess->host, pair->disc, pair->disc_len),
        .timeout_ns = chance_between(&play->chance, 200 * WORLD_MS, 8 * WORLD_S),
        .data = {.len = sizeof(attempt->id)},
    };
    char why[128] = "";

    memcpy(args.data.bytes, &attempt->id, sizeof(attempt->id));
    if (chance_ppm(&play->chance, 200000))
        args.timeout_ns = UINT64_MAX;
    world_line(&play->world, LINE_REQUEST, pair->number, attempt->id, 0, 0, 0);
    end_attach(end, attempt);
    end->state = END_CONNECTING;
    end->at_ns = WORLD_NEVER;
    if (chance_ppm(&play->chance, play->plan.cancel_ppm))
        end->at_ns = play_now(play) + chance_below(&play->chance, 100 * WORLD_MS);
    if (nic_connect(end->sess->nic, end->vi, &args, sess_now(end->sess), why, sizeof(why)) !=
        VIP_RC_SUCCESS)
        play_fail(play, "nic_connect: %s", why);
    play->world.host[end->sess->host].due = true;
    return true;
}

static bool listen(struct end *end)
{
    struct pair *pair = end->pair;
    struct vip_addr local = end_address(end->sess->host, pair->disc, pair->disc_len);
    bool found;

    end->state = END_WAITING;
    end->at_ns = WORLD_NEVER;
    if (pair->listens) {
        listener_ready(end);
        return true;
    }
    if (nic_connect_wait(end->sess->nic, &local, false, sess_now(end->sess), &end->wait_id, &found,
                         NULL, 0) != VIP_RC_SUCCESS)
        play_fail(pair->play, "nic_connect_wait");
    pair->play->world.host[end->sess->host].due = true;
    return true;
}

/* Returns the attempt of an offered request; NULL: the client no longer waits for an answer. vipd
 * must not offer a request twice within ANSWERED_NS, because it recognizes repetitions. Later, or
 * in its next life, it may offer the request again. */
static struct attempt *offered_attempt(struct end *end)
{
    struct play *play = end->pair->play;
    struct attempt *attempt = attempt_find(play, end->remote_attempt);
    uint32_t life = play->world.host[end->sess->host].life, base;

    if (!attempt)
        return NULL;
    if (attempt->pair != end->pair ||
        (attempt->offered_life == life && play_now(play) < attempt->known_until_ns))
        play_fail(play, "pair %u: one request was offered twice", end->pair->number);
    if (attempt->up[0] || attempt->attached[1])
        return NULL;
    if (attempt->offered_life) {
        base = attempt->flow[1].recv_base;
        attempt->over[1] = false;
        memset(attempt->flow, 0, sizeof(attempt->flow));
        flow_init(&attempt->flow[0], attempt, 0);
        flow_init(&attempt->flow[1], attempt, 1);
        attempt->flow[1].recv_base = base;
    }
    attempt->offered_life = life;
    attempt->known_until_ns = play_now(play) + ANSWERED_NS;
    return attempt;
}

static bool answer(struct end *end)
{
    struct play *play = end->pair->play;
    struct attempt *attempt = offered_attempt(end);
    struct vip_private data = {.len = 1, .bytes = {(uint8_t)end->remote_attempt}};
    uint64_t now_ns = sess_now(end->sess);
    char why[128] = "";
    enum vip_rc rc;

    play->world.host[end->sess->host].due = true;
    end->state = END_IDLE;
    end->at_ns = play_now(play);
    if (end->pair->listens)
        listener_answered(end->sess, end->wait_id);
    if (chance_ppm(&play->chance, play->plan.reject_ppm)) {
        if (nic_reject(end->sess->nic, end->handle, NULL, now_ns) != VIP_RC_SUCCESS)
            play_fail(play, "nic_reject");
        return true;
    }
    /* Attach the end first: within one host nic_accept may report the result before it returns. */
    end_attach(end, attempt);
    if (attempt)
        attempt->accepted = true;
    rc = nic_accept(end->sess->nic, end->handle, end->vi, &data, now_ns, why, sizeof(why));
    world_line(&play->world, LINE_ACCEPT, end->pair->number, end->remote_attempt, rc, 0, 0);
    if (rc == VIP_RC_SUCCESS) {
        end->state = END_ACCEPTING;
        end->at_ns = WORLD_NEVER;
    } else if (rc == VIP_RC_TIMEOUT) {
        end_detach(end);
    } else {
        play_fail(play, "nic_accept: %u %s", rc, why);
    }
    return true;
}

/* ---- events ---------------------------------------------------------------------------- */

static void offered(struct end *end, const struct event *event)
{
    struct play *play = end->pair->play;

    end->handle = event->handle;
    end->wait_id = event->wait;
    end->remote_attempt = event->attempt;
    end->state = END_OFFERED;
    end->at_ns = play_now(play);
    if (chance_ppm(&play->chance, 200000))
        end->at_ns += chance_below(&play->chance, 300 * WORLD_MS);
}

static void on_incoming(struct sess *sess, const struct event *event)
{
    struct play *play = sess->play;
    struct end *end;

    if (event->listener) {
        end = listener_end(sess, event);
        if (end)
            offered(end, event);
        return;
    }
    for (unsigned i = 0; i < play->plan.pairs; i++) {
        end = &play->pair[i].end[1];
        if (!end->exists || end->sess != sess || end->state != END_WAITING || end->pair->listens ||
            end->wait_id != event->wait)
            continue;
        offered(end, event);
        return;
    }
    play_fail(play, "a request was offered to nobody who waits");
}

static void on_result(struct sess *sess, const struct event *event)
{
    struct end *end = end_find(sess, event->vi, event->generation);
    struct play *play = sess->play;

    if (end->state != END_CONNECTING && end->state != END_ACCEPTING) {
        /* This end has ended the attempt itself. Then only the result INVALID_STATE is allowed. */
        if (event->code != VIP_RC_INVALID_STATE)
            play_fail(play, "pair %u: result %u of nothing", end->pair->number, event->code);
        return;
    }
    if (event->code == VIP_RC_SUCCESS) {
        end->state = END_UP;
        end->hold_ns = 0;
        if (chance_ppm(&play->chance, 300000))
            end->hold_ns = chance_below(&play->chance, 3 * WORLD_S);
        end->at_ns = WORLD_NEVER;
        if (chance_ppm(&play->chance, play->plan.early_ppm))
            end->at_ns = play_now(play) + chance_below(&play->chance, 500 * WORLD_MS);
        return;
    }
    (void)end_judge(end);
    end_detach(end);
    if (end_vi_state(end) != VIP_VIST_IDLE)
        play_fail(play, "pair %u: not Idle after a failed attempt", end->pair->number);
    end->state = END_IDLE;
    end->at_ns = play_now(play) + chance_below(&play->chance, 200 * WORLD_MS);
}

static void on_error(struct sess *sess, const struct event *event)
{
    struct end *end = end_find(sess, event->vi, event->generation);

    if (event->code != VIP_EC_CONN_LOST || end->state != END_UP)
        return;
    end->state = END_LOST;
    end->at_ns = play_now(sess->play) + chance_below(&sess->play->chance, 50 * WORLD_MS);
}

/* ---- the turn of an application -------------------------------------------------------- */

/* True if this program calls VipDisconnect as soon as it has posted its last message. */
static bool hasty(const struct end *end)
{
    const struct attempt *attempt = end->attempt;
    const struct flow *flow = &attempt->flow[end->side];

    return end->pair->play->plan.hasty && flow->reliable && flow->posted == flow->total &&
           attempt->up[0] && attempt->up[1] &&
           (attempt->id * 2 + end->side) * 0x9e3779b97f4a7c15ull >> 62 == 0;
}

/* VipDisconnect waits until all sends have completed, as in libvipl. After the faults the wait has
 * no limit, because every posted message must arrive. */
static bool act_leaving(struct end *end)
{
    struct attempt *attempt = end->attempt;
    struct play *play = end->pair->play;
    const struct flow *flow = &attempt->flow[end->side];
    bool late = end->at_ns <= play_now(play);

    if (end->done[VIP_Q_SEND] != end->posted[VIP_Q_SEND] && !late && !VIP_MUTANT(LINGER))
        return false;
    if (flow->good == flow->posted) {
        end->pair->cycles++;
        end->pair->after_heal += attempt->after_heal;
    } else if (!late && !may_end(attempt)) {
        play_fail(play, "pair %u: %u messages were posted before VipDisconnect, %u have arrived",
                  end->pair->number, flow->posted, flow->good);
    }
    end_disconnect(end);
    return true;
}

static bool act_up(struct end *end)
{
    struct pair *pair = end->pair;
    struct play *play = pair->play;
    struct attempt *attempt = end->attempt;
    bool any, done;

    if (end->leaving)
        return act_leaving(end);
    done = flow_done(&attempt->flow[0]) && flow_done(&attempt->flow[1]);

    /* A peer-to-peer connection is not complete before both ends are connected. */
    done = done && (!pair->meets || (attempt->up[0] && attempt->up[1]));
    any = recv_post_all(end);
    any = flow_post(&attempt->flow[end->side]) || any;
    if (end->at_ns > play_now(play) && hasty(end)) {
        end->leaving = true;
        end->at_ns = attempt->after_heal ? WORLD_NEVER : play_now(play) + LINGER_NS;
        return true;
    }
    if (end->at_ns <= play_now(play) || (end->side == 0 && done && !end->hold_ns)) {
        if (done && end->side == 0) {
            pair->cycles++;
            pair->after_heal += attempt->after_heal;
        }
        end_disconnect(end);
        return true;
    }
    if (end->side == 0 && done && end->at_ns == WORLD_NEVER)
        end->at_ns = play_now(play) + end->hold_ns;
    return any;
}

static bool act_timed(struct end *end)
{
    switch (end->state) {
    case END_IDLE:
        /* Flush receive descriptors that name deregistered memory. */
        if (!end->recv.live)
            end_disconnect(end);
        end_renew(end);
        if (!pair_wanted(end->pair)) {
            end->at_ns = WORLD_NEVER;
            if (end->pair->listens && end->side == 1)
                listener_leave(end);
            return true;
        }
        if (end->pair->meets) {
            meet_request(end);
            return true;
        }
        return end->side == 0 ? request(end) : listen(end);
    case END_OFFERED:
        return answer(end);
    case END_CONNECTING:
        if (chance_below(&end->pair->play->chance, 2) ||
            nic_connect_cancel(end->sess->nic, end->vi, sess_now(end->sess)) != VIP_RC_SUCCESS) {
            end_disconnect(end);
            return true;
        }
        end_detach(end);
        end->state = END_IDLE;
        end->at_ns = play_now(end->pair->play) + 10 * WORLD_MS;
        return true;
    case END_LOST:
        if (vip_load32(&((struct vip_vipd_head *)end->sess->vipd)->sq_cons) ==
            end->sess->sq_position)
            flushed_check(end, "in Error");
        end->pair->cycles++;
        end_disconnect(end);
        return true;
    case END_WAITING:
    case END_ACCEPTING:
    case END_UP:
        break;
    }
    return false;
}

/* The run needs no more connections of this pair: cancel the server's wait for a request. */
static bool wait_cancel(struct end *end)
{
    bool found;

    if (end->pair->listens) {
        end->state = END_IDLE;
        end->at_ns = WORLD_NEVER;
        listener_leave(end);
        return true;
    }
    if (nic_connect_wait_cancel(end->sess->nic, end->wait_id, sess_now(end->sess), &found) !=
        VIP_RC_SUCCESS)
        play_fail(end->pair->play, "nic_connect_wait_cancel");
    if (found)
        return false;
    end->state = END_IDLE;
    end->at_ns = WORLD_NEVER;
    return true;
}

static bool end_act(struct end *end)
{
    bool any = end_judge(end);

    if (end->state == END_UP)
        any = act_up(end) || any;
    else if (end->state == END_WAITING && !pair_wanted(end->pair))
        any = wait_cancel(end) || any;
    else if (end->state == END_CONNECTING && end->pair->meets && !pair_wanted(end->pair))
        any = act_timed(end) || any; /* the other end sends no more requests */
    else if (end->at_ns <= play_now(end->pair->play))
        any = act_timed(end) || any;
    return any;
}

void sess_events(struct sess *sess)
{
    for (unsigned i = 0; i < sess->event_count; i++) {
        const struct event *event = &sess->event[i];

        switch (event->kind) {
        case EVENT_INCOMING:
            if (sess->nic)
                on_incoming(sess, event);
            break;
        case EVENT_RESULT:
            on_result(sess, event);
            break;
        case EVENT_ERROR:
            on_error(sess, event);
            break;
        }
    }
    sess->event_count = 0;
}

bool sess_act(struct sess *sess)
{
    struct play *play = sess->play;
    bool any = false;

    if (!sess->alive)
        return false;
    renew_record(sess);
    /* A thread of libvipl makes copies, even while the application is stalled. */
    any = sess_place(sess, false);
    if (sess->stalled_until_ns > play_now(play))
        return any;
    any = any || sess->event_count > 0;
    sess_events(sess);
    for (unsigned i = 0; i < play->plan.pairs; i++)
        for (unsigned side = 0; side < 2; side++) {
            struct end *end = &play->pair[i].end[side];

            if (end->sess == sess && end->exists)
                any = end_act(end) || any;
        }
    sess_judge_cq(sess);
    return any;
}

uint64_t sess_wants_ns(const struct sess *sess)
{
    struct play *play = sess->play;
    uint64_t at_ns, now_ns = play_now(play);

    if (!sess->alive)
        return WORLD_NEVER;
    at_ns = sess_place_ns(sess);
    for (unsigned i = 0; i < play->plan.pairs; i++)
        for (unsigned side = 0; side < 2; side++) {
            const struct end *end = &play->pair[i].end[side];
            uint64_t end_ns = end->at_ns;

            if (end->sess != sess || !end->exists)
                continue;
            if (end->state == END_UP && flow_wants_ns(&end->attempt->flow[side]) < end_ns)
                end_ns = flow_wants_ns(&end->attempt->flow[side]);
            at_ns = end_ns < at_ns ? end_ns : at_ns;
        }
    /* A stalled application acts again when its stall ends. Meanwhile libvipl makes copies. */
    if (sess->stalled_until_ns > now_ns)
        return sess_place_ns(sess) < sess->stalled_until_ns ? sess_place_ns(sess)
                                                            : sess->stalled_until_ns;
    return at_ns;
}

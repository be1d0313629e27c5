/*
 * A NIC: opening, closing, the turn, and falling asleep.
 *
 * Owns: struct nic, the order of a turn, deadlines. The host calls a NIC from one thread at a time.
 * Every step of a turn is bounded, so that control messages and other NICs get their time.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <unistd.h>

#include "proto/assert.h"
#include "proto/fence.h"
#include "vipd/link/kinds.h"
#include "vipd/nic/internal.h"
#include "vipd/nic/sock_find.h"
#include "vipd/nic/objects.h"

/* ---- life ------------------------------------------------------------------------------ */

static int cm_open(struct nic *nic, uint64_t now_ns)
{
    const struct link_kind_row *kind = link_kind_row(nic->link->kind);
    struct cm_config config = nic->config.cm;
    void *memory = aligned_alloc(64, (cm_bytes() + 63) & ~(size_t)63);

    if (!memory)
        return -ENOMEM;
    memset(memory, 0, cm_bytes());
    config.self = nic->self;
    config.source_bytes = kind->source_bytes;
    config.network_bytes = kind->network_bytes;
    config.port_bytes = kind->port_bytes;
    config.local.len = kind->local != 0;
    config.local.bytes[0] = kind->local;
    config.epoch = nic->config.epoch;
    config.features = nic_features(nic);
    config.seed = nic_random(nic);
    config.packet_bytes = nic->link->packet_bytes;
    config.window_bytes = nic->link->window_bytes;
    nic->cm = cm_init(memory, &config, &nic_cm_ops, nic, now_ns);
    return 0;
}

/* Copy the link's present address, and give its address and sizes to the connection manager. */
static void link_look(struct nic *nic)
{
    nic->link_changes = nic->link->changes;
    nic->self.len = nic->link->self.len;
    memcpy(nic->self.bytes, nic->link->self.bytes, sizeof(nic->self.bytes));
    if (nic->cm)
        cm_set_medium(nic->cm, &nic->self, nic->link->packet_bytes, nic->link->window_bytes);
}

/* Shortest time, in ns, between two looks at the sockets of loans. It is short beside the patience
 * with owners (LOAN_PATIENCE_NS). */
#define LOANS_LOOK_NS 20000u

#define TX_COPIES_BYTES ((size_t)NIC_TX_BATCH * NIC_TX_COPY_STRIDE)
_Static_assert(NIC_TX_COPY_STRIDE >= VIP_PACKET_BYTES_MAX, "a packet fits");

/* Free everything except the link. The nic may be only half built. */
static void nic_free(struct nic *nic)
{
    if (nic->cm)
        cm_deinit(nic->cm);
    free(nic->cm);
    nic_conns_deinit(nic);
    if (nic->loan_fd >= 0)
        close(nic->loan_fd);
    if (nic->sock_kernel >= 0)
        close(nic->sock_kernel);
    free(nic->held);
    free(nic->tx_pool);
    if (nic->tx_copies)
        munmap(nic->tx_copies, TX_COPIES_BYTES);
    free(nic->deferred);
    free(nic->loop_head);
    free(nic->session_slots);
    nic_users_deinit(nic);
    free(nic);
}

/* May this NIC lend connections? A loan's socket is a UDP socket over IPv4, and it must have the
 * same medium as the link: without other paths and planted faults. */
static bool may_lend(const struct nic *nic)
{
    return (nic->config.more & VIP_FEATURE_LOAN) && nic->link->kind == LINK_UDP &&
           strcmp(nic->link->class->name, "udp") == 0;
}

static int nic_memory(struct nic *nic)
{
    nic->tx_copies = nic_map(TX_COPIES_BYTES);
    nic->held = calloc(NIC_HELD_MAX, sizeof(*nic->held));
    nic->tx_pool = calloc(NIC_TX_BATCH, sizeof(*nic->tx_pool));
    nic->loop_head = calloc(1, VIP_PACKET_BYTES_MAX);
    if (!nic->held || !nic->tx_pool || !nic->tx_copies || !nic->loop_head)
        return -ENOMEM;
    for (uint32_t i = NIC_HELD_MAX; i-- > 0;) {
        nic->held[i].next_free = nic->held_free;
        nic->held_free = i + 1;
    }
    for (unsigned i = 0; i < NIC_TX_BATCH; i++) {
        nic->tx_pool[i].out.copy = nic->tx_copies + (size_t)i * NIC_TX_COPY_STRIDE;
        nic->tx[i] = &nic->tx_pool[i];
    }
    return 0;
}

int nic_open(const struct nic_config *config, struct link *link, uint64_t now_ns, struct nic **ret)
{
    struct nic *nic = calloc(1, sizeof(*nic));

    if (!nic)
        return -ENOMEM;
    VIP_ASSERT(config->vi_max && config->vi_max <= VIP_VI_MAX && config->cq_max <= VIP_CQ_MAX);
    nic->config = *config;
    snprintf(nic->name, sizeof(nic->name), "%s", config->name);
    nic->config.name = nic->name;
    nic->link = link;
    nic->now_ns = now_ns;
    nic->random_key = (struct siphash_key){config->seed, config->secret ^ ~config->epoch};
    /* A program may name a wait of an earlier life, so the waits of this life have other
     * numbers. */
    nic->next_wait = siphash(&nic->random_key, "waits", 5) / (2 * NIC_SESSIONS_MAX);
    link_look(nic);
    nic->loop_by_link =
        strcmp(link->class->name, "fault") == 0 && link_kind_row(link->kind)->sends_to_self;
    nic_list_init(&nic->sessions);
    nic_list_init(&nic->ring_list);
    nic_list_init(&nic->loans);
    nic->loan_fd = may_lend(nic) ? epoll_create1(EPOLL_CLOEXEC) : -1;
    nic->sock_kernel = nic->loan_fd >= 0 ? sock_find_open() : -1;
    nic_list_init(&nic->users);
    for (unsigned i = 0; i < NIC_PEER_BUCKETS; i++)
        nic_list_init(&nic->peers[i]);
    if (nic_memory(nic) < 0 || cm_open(nic, now_ns) < 0) {
        nic_free(nic);
        return -ENOMEM;
    }
    *ret = nic;
    return 0;
}

void nic_set_config(struct nic *nic, const struct nic_config *config)
{
    struct cm_config cm = config->cm;

    VIP_ASSERT(config->vi_max && config->vi_max <= VIP_VI_MAX && config->cq_max <= VIP_CQ_MAX);
    nic->config.engine = config->engine;
    nic->config.vi_max = config->vi_max;
    nic->config.cq_max = config->cq_max;
    nic->config.kept_bytes_user = config->kept_bytes_user;
    nic->config.loan_moves = config->loan_moves;
    nic->config.loan_moves_user = config->loan_moves_user;
    nic->config.latency = config->latency;
    nic->config.vi_latency = config->vi_latency;
    nic->config.direct = config->direct;
    nic->config.more = config->more;
    nic->config.linger_ns = config->linger_ns;
    for (struct nic_list *item = nic->sessions.next; item != &nic->sessions; item = item->next)
        nic_session_set_linger(NIC_ITEM(item, struct nic_session, link));
    cm.features = nic_features(nic);
    cm_set_config(nic->cm, &cm);
}

void nic_look_on(struct nic *nic, nic_see_fn *see, void *ctx)
{
    nic->see = see;
    nic->see_ctx = ctx;
    if (see)
        nic_loans_give_back(nic);
    nic_direct_watched(nic);
}

void nic_stopping(struct nic *nic)
{
    nic->stopping = true;
}

void nic_close(struct nic *nic, uint64_t now_ns)
{
    struct link *link = nic->link;

    VIP_ASSERT(nic_list_empty(&nic->sessions));
    VIP_ASSERT(nic->held_used == 0);
    nic->now_ns = now_ns;
    nic_rx_forget(nic);
    /* Each CLOSE was sent once, when its session ended; vipd does not wait for answers. */
    nic_free(nic);
    link->class->close(link);
}

/* ---- work and deadlines ------------------------------------------------------------------- */

static uint64_t earlier(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

uint64_t nic_deadline(const struct nic *nic)
{
    uint64_t deadline = cm_deadline(nic->cm);

    for (const struct nic_list *item = nic->sessions.next; item != &nic->sessions;
         item = item->next) {
        const struct nic_session *session = NIC_ITEM(item, struct nic_session, link);

        deadline = earlier(deadline, eng_deadline(session->eng));
        if (nic_session_throttled(session))
            deadline = earlier(deadline, nic_session_resumes_ns(session));
    }
    deadline = earlier(deadline, nic->link->class->deadline(nic->link));
    deadline = earlier(deadline, nic_loans_deadline(nic));
    if (nic->tx_retry_ns)
        deadline = earlier(deadline, nic->tx_retry_ns);
    if (nic->backlog_cqs)
        deadline = earlier(deadline, nic->backlog_next_ns);
    return deadline;
}

static bool has_work(const struct nic *nic)
{
    if (nic->cm_loop_count || nic->wake_count || nic->place.session || nic->rx_at < nic->rx_count ||
        nic->loans_over)
        return true;
    for (const struct nic_list *item = nic->sessions.next; item != &nic->sessions;
         item = item->next) {
        const struct nic_session *session = NIC_ITEM(item, struct nic_session, link);

        if ((session->tell_resumed || !nic_list_empty(&session->asks) ||
             nic_session_has_posts(session)) &&
            !nic_session_throttled(session))
            return true;
        /* While the link is full, no packet can be sent; nic_deadline has the time of the retry. */
        if (nic_placed_any(session) || eng_replay_waits(session->eng) || session->spares ||
            (!nic->tx_retry_ns && eng_tx_ready(session->eng)))
            return true;
    }
    return false;
}

/* Is there nothing to do? While programs compute, a polling vipd has many turns without work. */
static bool is_quiet(const struct nic *nic)
{
    return !nic->backlog_cqs && !has_work(nic) && nic_deadline(nic) > nic->now_ns;
}

/* ---- the turn -------------------------------------------------------------------------- */

/* If there are several sessions: slots that vipd takes from one session before the next session. */
#define POSTS_SHARED 16

/* If the session is due, take at most `most` slots of its ring. Returns the number of slots
 * taken. */
static unsigned session_posts(struct nic_session *session, unsigned most)
{
    unsigned taken;

    if (nic_session_throttled(session))
        return 0;
    if (session->tell_resumed) {
        session->tell_resumed = false;
        session->sink->resumed(session->ctx);
    }
    if (!nic_share_had_work(session) || !nic_share_due(session))
        return 0;
    nic_share_switch(session->nic, session);
    taken = nic_session_drain(session, most, true);
    nic_share_worked(session->nic, taken);
    return taken;
}

/* Take postings of all sessions, within a budget. The next turn begins where the budget ended.
 * So a turn stays short and each session gets its part, even if sessions refill their rings
 * without end. */
static bool sessions_drain(struct nic *nic)
{
    struct nic_list *item = nic->post_next ? nic->post_next : nic->sessions.next;
    struct nic_list *first = NULL;
    unsigned budget = NIC_POSTS_TURN;
    bool alone = nic->sessions.next == nic->sessions.prev;
    unsigned most = alone ? NIC_POSTS_SESSION : POSTS_SHARED;

    while (budget && !nic->meter.over) {
        if (item == &nic->sessions)
            item = item->next;
        if (item == &nic->sessions || item == first)
            break;
        if (!first)
            first = item;

        struct nic_session *session = NIC_ITEM(item, struct nic_session, link);
        unsigned taken = session_posts(session, budget < most ? budget : most);

        /* The last descriptor may have a few slots more than the budget had left. */
        budget -= taken < budget ? taken : budget;
        item = item->next;
    }
    nic->post_next = item;
    return budget < NIC_POSTS_TURN;
}

/*
 * Serve the sessions one after the other, each a little at a time, until no session has work left
 * or the turn's time is over. The next turn goes on with the next session. `serve` returns false if
 * the session had no work. Returns whether any session had work.
 */
static bool round_run(struct nic *nic, enum nic_round round, bool (*serve)(struct nic_session *))
{
    struct nic_list **next = &nic->round_next[round];
    bool did = false, more, whole;

    do {
        struct nic_list *item = *next;

        whole = !item || item == &nic->sessions;
        if (whole)
            item = nic->sessions.next;
        *next = NULL;
        more = false;
        for (; item != &nic->sessions; item = item->next) {
            if (nic->meter.over) {
                *next = item;
                break;
            }
            if (serve(NIC_ITEM(item, struct nic_session, link)))
                more = true;
        }
        did = did || more;
    } while (!nic->meter.over && (more || !whole));
    return did;
}

static bool timers_serve(struct nic_session *session)
{
    struct nic *nic = session->nic;
    unsigned steps;

    if (eng_deadline(session->eng) > nic->now_ns)
        return false;
    nic_share_switch(nic, session);
    steps = eng_tick(session->eng, nic->now_ns);
    nic_share_worked(nic, NIC_TICK_UNITS * steps);
    return true;
}

static bool timers_run(struct nic *nic)
{
    return round_run(nic, NIC_ROUND_TIMERS, timers_serve);
}

/* Placed packets of one session that vipd processes before it serves the next session. */
#define PLACED_SERVE 4

static bool placed_serve(struct nic_session *session)
{
    struct nic *nic = session->nic;
    unsigned n = 0;

    for (; n < PLACED_SERVE && !nic->meter.over && nic_placed_any(session); n++) {
        nic_share_switch(nic, session);
        nic_rx_resume(NIC_ITEM(session->parked.next, struct nic_held, link));
        nic_share_worked(nic, NIC_UNITS);
    }
    return n > 0;
}

static bool spares_serve(struct nic_session *session)
{
    struct nic *nic = session->nic;

    if (!session->spares)
        return false;
    nic_share_switch(nic, session);
    nic_share_worked(nic, nic_kept_spares_free(session, NIC_KEPT_SPARES));
    return true;
}

/* Free spare blocks, which CQ backlogs do not need any more. */
static bool spares_run(struct nic *nic)
{
    bool did;

    if (!nic->spares)
        return false;
    did = round_run(nic, NIC_ROUND_SPARES, spares_serve);
    nic->spares = nic->meter.over; /* if over, vipd has not looked at all sessions */
    return did;
}

/* Replay held packets of a session that its engine can process now. */
static bool replay_serve(struct nic_session *session)
{
    if (!eng_replay_waits(session->eng))
        return false;
    nic_share_switch(session->nic, session);
    nic_rx_replay(session);
    return true;
}

static bool backlogs_run(struct nic *nic)
{
    bool did;

    if (!nic->backlog_cqs ||
        (nic->now_ns < nic->backlog_look_ns && nic->now_ns < nic->backlog_next_ns))
        return false;
    did = round_run(nic, NIC_ROUND_BACKLOGS, nic_backlog_serve);
    /* A program that reads a CQ rings no bell. So a sleeping vipd looks at full CQ rings by a
     * timer, at growing intervals. */
    if (did)
        nic->backlog_wait_ns = NIC_BACKLOG_POLL_MIN_NS;
    else if (nic->now_ns >= nic->backlog_next_ns && nic->backlog_wait_ns < NIC_BACKLOG_POLL_MAX_NS)
        nic->backlog_wait_ns *= 2;
    if (did || nic->now_ns >= nic->backlog_next_ns)
        nic->backlog_next_ns = nic->now_ns + nic->backlog_wait_ns;
    nic->backlog_look_ns = nic->now_ns + (did || nic->meter.over ? 0 : NIC_BACKLOG_LOOK_NS);
    return did;
}

/* Serve the program's requests for this VI. This may take and complete 1,024 receive
 * descriptors. */
static void ask_serve(struct nic_session *session, struct nic_vi *vi)
{
    static const char why[] = "a message from a program of this host met a receive that it could "
                              "not go to, or broke the rules of the ring";
    struct nic *nic = session->nic;
    uint16_t number = (uint16_t)(vi - session->vis);
    bool breaks = vi->ask_break, flushes = vi->ask_flush, no_ring = vi->ask_no_ring;
    bool rebinds = vi->conn && vi->conn->state == NIC_CONN_REBINDING;

    nic_direct_asked(vi);
    if (no_ring)
        nic_direct_not_taken(session, number);
    vi->ask_break = breaks && rebinds; /* nic_direct_ask_again serves a kept request */
    if (breaks && !rebinds && nic_vi_sever(session, number, why, nic->now_ns) == VIP_RC_SUCCESS)
        nic->counts.ring_breaks++;
    if (flushes && vi->used && eng_vi_state(session->eng, number) == VIP_VIST_ERROR)
        nic_op_fetch_receives(session, number, true);
}

/* Serve the program's requests for one VI of a session, unless the session is throttled. */
static bool asks_serve(struct nic_session *session)
{
    struct nic *nic = session->nic;

    if (nic_list_empty(&session->asks))
        return false;
    nic->asks = true; /* the next turn looks at the requests again */
    if (nic_session_throttled(session))
        return false;
    nic_share_switch(nic, session);
    ask_serve(session, NIC_ITEM(session->asks.next, struct nic_vi, in_asks));
    nic_share_worked(nic, NIC_UNITS);
    return true;
}

static bool asks_run(struct nic *nic)
{
    bool did;

    if (!nic->asks)
        return false;
    nic->asks = false;
    did = round_run(nic, NIC_ROUND_ASKS, asks_serve);
    if (nic->meter.over)
        nic->asks = true; /* vipd has not looked at all sessions */
    return did;
}

/* Timers of loans, and connections that their loans have ended. */
static bool loans_run(struct nic *nic)
{
    bool did = nic_loans_run(nic);
    struct nic_conn *conn;

    while (!nic->meter.over && (conn = nic_loans_ended(nic)) != NULL) {
        nic_conn_loan_ended(conn);
        nic_share_worked(nic, NIC_UNITS);
        did = true;
    }
    return did;
}

/* Begin and end connections. Each step may cost much, so vipd reads the clock after each step. */
static bool connections_run(struct nic *nic)
{
    bool did = nic_cm_loop_run(nic);

    nic_share_switch(nic, NULL);
    cm_behind(nic->cm, nic->link->behind);
    while (!nic->meter.over && cm_tick(nic->cm, nic->now_ns)) {
        nic_share_worked(nic, NIC_UNITS);
        did = true;
    }
    if (!nic_list_empty(&nic->loans) || nic->loans_posted)
        did = loans_run(nic) || did;
    return did;
}

static bool transmit(struct nic *nic)
{
    if (!nic_tx_run(nic))
        return false;
    /* An unreliable send completes in the first tick after its packets have left: tick now. */
    (void)timers_run(nic);
    return true;
}

enum stage {
    STAGE_POSTS,
    STAGE_PLACED, /* parked packets whose bytes libvipl has placed */
    STAGE_PACKETS,
    STAGE_REPLAY, /* held packets that waited for a missing packet */
    STAGE_TIMERS,
    STAGE_ASKS, /* requests that programs make through their submission rings */
    STAGE_CONNECTIONS,
    STAGE_SEND,
    STAGE_BACKLOGS,
    STAGE_SPARES,
    STAGES
};

static bool stage_run(struct nic *nic, unsigned stage)
{
    bool did = false;

    switch (stage) {
    case STAGE_POSTS:
        return sessions_drain(nic);
    case STAGE_PLACED:
        return round_run(nic, NIC_ROUND_PLACED, placed_serve);
    case STAGE_PACKETS:
        did = nic->rx_at < nic->rx_count;
        nic_rx_process(nic);
        nic_wake_flush(nic);
        return did;
    case STAGE_REPLAY:
        return round_run(nic, NIC_ROUND_REPLAY, replay_serve);
    case STAGE_TIMERS:
        return timers_run(nic);
    case STAGE_ASKS:
        return asks_run(nic);
    case STAGE_CONNECTIONS:
        return connections_run(nic);
    case STAGE_SEND:
        return transmit(nic);
    case STAGE_BACKLOGS:
        return backlogs_run(nic);
    default:
        return spares_run(nic);
    }
}

/*
 * vipd takes packets from the link before it reads the submission rings, and processes the packets
 * afterwards. So if a receive descriptor was posted before a packet arrived, vipd sees the
 * descriptor first. If the turn's time is over, the next turn begins with the following stage, so
 * that no stage waits long.
 */
static bool stages_run(struct nic *nic)
{
    unsigned stage = nic->first_stage;
    bool did = false;

    nic->first_stage = STAGE_POSTS;
    for (unsigned i = 0; i < STAGES; i++) {
        unsigned next = stage + 1 < STAGES ? stage + 1 : STAGE_POSTS;

        did = stage_run(nic, stage) || did;
        if (nic->meter.over) {
            nic->first_stage = next;
            break;
        }
        stage = next;
    }
    return did;
}

bool nic_turn(struct nic *nic, uint64_t now_ns)
{
    bool did;

    nic->now_ns = now_ns;
    nic->counts.turns++;
    did = nic_rx_take(nic);
    /* Read the clock again: vipd may have lost the processor since the turn began. */
    if (did)
        cm_looked(nic->cm, nic->config.clock ? nic->config.clock() : now_ns);
    if (nic->link_changes != nic->link->changes)
        link_look(nic);
    /* The look is a system call, and turns are short. */
    if (nic->loans_heard > 0 && now_ns - nic->loans_looked_ns >= LOANS_LOOK_NS) {
        nic->loans_looked_ns = now_ns;
        did = nic_loans_look(nic) || did;
    }
    if (!did && is_quiet(nic))
        return false;
    nic_share_begin(nic);
    did = stages_run(nic) || did;
    while (nic_share_ahead(nic) && sessions_drain(nic)) {
        did = true;
        nic_share_worked(nic, POSTS_SHARED); /* for sessions_drain, which looks at all sessions */
        (void)transmit(nic);
    }
    if (nic_share_open(nic, did)) {
        did = sessions_drain(nic) || did;
        did = transmit(nic) || did;
    }
    nic_wake_flush(nic);
    nic_share_end(nic);
    return did || nic->meter.over;
}

/* ---- sleeping -------------------------------------------------------------------------- */

static void publish_asleep(struct nic *nic, bool asleep)
{
    nic->asleep = asleep;
    for (struct nic_list *item = nic->sessions.next; item != &nic->sessions; item = item->next) {
        struct nic_session *session = NIC_ITEM(item, struct nic_session, link);

        /* A timer polls a throttled session, so its program need not ring the bell. */
        vip_store32_release(&session->head->asleep, asleep && !nic_session_throttled(session));
    }
}

/* The program that posts stores its slot, executes a full barrier, then loads "asleep". vipd stores
 * "asleep", executes a full barrier, then loads the slot. So the program sees "asleep", or vipd
 * sees the slot. Packets need no such care: while they wait, the link's descriptor is readable. */
bool nic_try_sleep(struct nic *nic)
{
    publish_asleep(nic, true);
    vip_fence_sleep(); /* [doorbell SLEEP] */
    if (!has_work(nic))
        return true;
    publish_asleep(nic, false);
    return false;
}

void nic_awake(struct nic *nic)
{
    publish_asleep(nic, false);
}

int nic_fd(const struct nic *nic)
{
    return nic->link->class->fd(nic->link);
}

int nic_loan_fd(const struct nic *nic)
{
    return nic->loan_fd;
}

/*
 * A NIC: opening, closing, the turn, and falling asleep.
 *
 * Owns: struct nic, the order of a turn, deadlines. Called by the host from one thread at a time; every step
 * of a turn is bounded, so that control messages and other NICs get their time.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/assert.h"
#include "vipd/nic/internal.h"

/* Connection ids are made of these: others see some of them and must not know the next. */
uint64_t nic_random(struct nic *nic)
{
    nic->random++;
    return siphash(&nic->random_key, &nic->random, sizeof(nic->random));
}

/* ---- life ------------------------------------------------------------------------------ */

static int cm_open(struct nic *nic, uint64_t now_ns)
{
    struct cm_config config = nic->config.cm;
    void *memory = aligned_alloc(64, (cm_bytes() + 63) & ~(size_t)63);

    if (!memory)
        return -ENOMEM;
    memset(memory, 0, cm_bytes());
    config.self = nic->self;
    config.epoch = nic->config.epoch;
    config.seed = nic_random(nic);
    config.packet_bytes = nic->link->packet_bytes;
    config.window_bytes = nic->link->window_bytes;
    nic->cm = cm_init(memory, &config, &nic_cm_ops, nic, now_ns);
    return 0;
}

/* What the link says of itself now. */
static void link_look(struct nic *nic)
{
    nic->link_changes = nic->link->changes;
    nic->self.len = nic->link->self.len;
    memcpy(nic->self.bytes, nic->link->self.bytes, sizeof(nic->self.bytes));
    if (nic->cm)
        cm_set_medium(nic->cm, &nic->self, nic->link->packet_bytes, nic->link->window_bytes);
}

/* Legal on a half-built nic; leaves the link alone. */
static void nic_free(struct nic *nic)
{
    if (nic->cm)
        cm_deinit(nic->cm);
    free(nic->cm);
    nic_conns_deinit(nic);
    free(nic->held);
    free(nic->tx_pool);
    free(nic->deferred);
    free(nic->loop_head);
    free(nic->session_slots);
    free(nic);
}

static int nic_memory(struct nic *nic)
{
    nic->held = calloc(NIC_HELD_MAX, sizeof(*nic->held));
    nic->tx_pool = calloc(NIC_TX_BATCH, sizeof(*nic->tx_pool));
    nic->loop_head = calloc(1, VIP_PACKET_BYTES_MAX);
    if (!nic->held || !nic->tx_pool || !nic->loop_head)
        return -ENOMEM;
    for (uint32_t i = NIC_HELD_MAX; i-- > 0;) {
        nic->held[i].next_free = nic->held_free;
        nic->held_free = i + 1;
    }
    for (unsigned i = 0; i < NIC_TX_BATCH; i++)
        nic->tx[i] = &nic->tx_pool[i];
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
    nic->random_key = (struct siphash_key){config->seed, ~config->epoch};
    link_look(nic);
    /* A frame to one's own card does not come back. */
    nic->loop_by_link = strcmp(link->class->name, "fault") == 0 && link->kind != LINK_ETHER;
    nic_list_init(&nic->sessions);
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
    VIP_ASSERT(config->vi_max && config->vi_max <= VIP_VI_MAX && config->cq_max <= VIP_CQ_MAX);
    nic->config.engine = config->engine;
    nic->config.vi_max = config->vi_max;
    nic->config.cq_max = config->cq_max;
    nic->config.latency = config->latency;
    nic->config.vi_latency = config->vi_latency;
    nic->config.direct = config->direct;
    cm_set_times(nic->cm, &config->cm);
}

void nic_look_on(struct nic *nic, nic_see_fn *see, void *ctx)
{
    nic->see = see;
    nic->see_ctx = ctx;
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
    /* Every CLOSE has been sent once, when its session ended; nobody waits for answers. */
    nic_free(nic);
    link->class->close(link);
}

/* ---- the turn -------------------------------------------------------------------------- */

/* Postings of one session in its turn if there are other sessions: those wait meanwhile. */
#define POSTS_SHARED 16

/*
 * Postings of every session, beginning where the last turn's budget was used up: however many
 * sessions refill their rings without end, a turn stays short and each of them has its share.
 */
static bool sessions_drain(struct nic *nic)
{
    struct nic_list *item = nic->post_next ? nic->post_next : nic->sessions.next;
    struct nic_list *first = NULL;
    unsigned budget = NIC_POSTS_TURN;
    bool alone = nic->sessions.next == nic->sessions.prev;
    unsigned most = alone ? NIC_POSTS_SESSION : POSTS_SHARED;

    while (budget) {
        if (item == &nic->sessions)
            item = item->next;
        if (item == &nic->sessions || item == first)
            break;
        if (!first)
            first = item;

        struct nic_session *session = NIC_ITEM(item, struct nic_session, link);
        unsigned taken = 0;

        if (!nic_session_throttled(session)) {
            if (session->tell_resumed) {
                session->tell_resumed = false;
                session->sink->resumed(session->ctx);
            }
            taken = nic_session_drain(session, budget < most ? budget : most);
        }
        /* The last descriptor may take some slots more than were left. */
        budget -= taken < budget ? taken : budget;
        item = item->next;
    }
    nic->post_next = item;
    return budget < NIC_POSTS_TURN;
}

static bool timers_run(struct nic *nic)
{
    bool did = false;

    for (struct nic_list *item = nic->sessions.next; item != &nic->sessions; item = item->next) {
        struct nic_session *session = NIC_ITEM(item, struct nic_session, link);

        if (eng_deadline(session->eng) > nic->now_ns)
            continue;
        eng_tick(session->eng, nic->now_ns);
        nic_rx_replay(session);
        did = true;
    }
    if (cm_deadline(nic->cm) <= nic->now_ns) {
        cm_tick(nic->cm, nic->now_ns);
        did = true;
    }
    return did;
}

/*
 * Packets are taken from the link before the submission rings are read and processed after: a
 * receive that was posted before a packet arrived is then always seen first.
 */
bool nic_turn(struct nic *nic, uint64_t now_ns)
{
    unsigned packets;
    bool did;

    nic->now_ns = now_ns;
    nic->counts.turns++;
    packets = nic_rx_take(nic);
    if (nic->link_changes != nic->link->changes)
        link_look(nic);
    did = packets > 0;
    did = sessions_drain(nic) || did;
    nic_direct_run(nic);
    did = nic_cm_loop_run(nic) || did;
    nic_rx_process(nic, packets);
    nic_wake_flush(nic);
    did = timers_run(nic) || did;
    /* Unreliable sends complete at the tick after they left. */
    if (nic_tx_run(nic)) {
        (void)timers_run(nic);
        did = true;
    }
    did = nic_backlogs_run(nic) || did;
    nic_wake_flush(nic);
    return did;
}

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
    if (nic->tx_retry_ns)
        deadline = earlier(deadline, nic->tx_retry_ns);
    if (nic->backlog_cqs)
        deadline = earlier(deadline, nic->backlog_next_ns);
    return deadline;
}

/* ---- sleeping -------------------------------------------------------------------------- */

static void publish_asleep(struct nic *nic, bool asleep)
{
    nic->asleep = asleep;
    for (struct nic_list *item = nic->sessions.next; item != &nic->sessions; item = item->next) {
        struct nic_session *session = NIC_ITEM(item, struct nic_session, link);

        /* One that waits anyway need not ring. */
        vip_store32_release(&session->head->asleep, asleep && !nic_session_throttled(session));
    }
}

static bool has_work(const struct nic *nic)
{
    if (nic->cm_loop_count || nic->wake_count)
        return true;
    for (const struct nic_list *item = nic->sessions.next; item != &nic->sessions;
         item = item->next) {
        const struct nic_session *session = NIC_ITEM(item, struct nic_session, link);

        if (nic_session_has_posts(session) && !nic_session_throttled(session))
            return true;
        /* While the link is full nothing can be sent; the deadline says when to try again. */
        if (!nic->tx_retry_ns && eng_tx_ready(session->eng))
            return true;
    }
    return false;
}

/* The poster stores its slot, then a full barrier, then loads "asleep": one of both sees the other.
 * Packets need no second look: the descriptor of the link is readable as long as any wait. */
bool nic_try_sleep(struct nic *nic)
{
    publish_asleep(nic, true);
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
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

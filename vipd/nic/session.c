/*
 * Sessions: opening them, ending them, and the operations that an engine calls (eng_ops).
 *
 * Owns: struct nic_session. Does not own: its submission ring (sq.c), VIs and CQs (vi.c), waits
 * (wait.c).
 */
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "proto/assert.h"
#include "proto/fence.h"
#include "proto/probe.h"
#include "vipd/engine/mutant.h"
#include "vipd/nic/internal.h"

/* ---- operations of the engine ---------------------------------------------------------- */

static void op_event(void *ctx, const struct eng_event *event)
{
    struct nic_session *session = ctx;
    struct nic_vi *vi = &session->vis[event->vi];

    switch (event->kind) {
    case ENG_EVENT_STATE:
        /* If the session ends because vipd stops, the library must still see which VIs were
         * connected, because it reports their connections as lost. So do not publish the state. */
        if (session->closing)
            break;
        /* [state STATE] */
        vip_store32_release(&vi->head->state, event->state);
        /* Full barrier. Then the engine fetches receive descriptors again (proto/shm.h,
         * VIP_ASK_FLUSH). */
        vip_fence_sleep(); /* [table ERROR] */
        break;
    case ENG_EVENT_ERROR:
        if (event->code == VIP_EC_CONN_LOST) {
            nic_vi_lost(session, event->vi, event->why);
            break;
        }
        session->failed = true;
        if (!session->closing && nic_session_may_tell(session))
            session->sink->error(session->ctx, VIP_RES_VI, event->code, event->vi, vi->generation,
                                 event->opcode, event->why);
        break;
    case ENG_EVENT_BROKEN:
        if (vi->conn)
            nic_conn_broken(vi->conn, event);
        nic_vi_lost(session, event->vi, event->why);
        break;
    }
}

static void op_fetch_posts(void *ctx)
{
    nic_session_fetch(ctx);
}

static struct vip_shm_seg *op_segs_alloc(void *ctx, unsigned count)
{
    struct nic_session *session = ctx;
    struct vip_shm_seg *segs = nic_kept_alloc(session, count * sizeof(*segs));

    if (!segs)
        session->nic->counts.segs_refused++;
    return segs;
}

static void op_segs_free(void *ctx, struct vip_shm_seg *segs, unsigned count)
{
    nic_kept_free(ctx, segs, count * sizeof(*segs));
}

static const struct eng_ops session_eng_ops = {
    .check = nic_op_check,
    .place = nic_op_place,
    .complete = nic_op_complete,
    .event = op_event,
    .fetch_posts = op_fetch_posts,
    .fetch_receives = nic_op_fetch_receives,
    .segs_alloc = op_segs_alloc,
    .segs_free = op_segs_free,
};

/* ---- life ------------------------------------------------------------------------------ */

/* Take a place in nic->session_slots, by which a wait id leads to its session. 0 or -ENOMEM. */
static int slot_take(struct nic *nic, struct nic_session *session)
{
    uint32_t cap = nic->session_slots_cap;

    for (uint32_t i = 0; i < cap; i++)
        if (!nic->session_slots[i]) {
            nic->session_slots[i] = session;
            session->slot = i;
            return 0;
        }

    uint32_t bigger = cap ? cap * 2 : 16;
    struct nic_session **slots;

    if (bigger > NIC_SESSIONS_MAX)
        return -ENOMEM;
    slots = realloc(nic->session_slots, bigger * sizeof(*slots));
    if (!slots)
        return -ENOMEM;
    memset(slots + cap, 0, (bigger - cap) * sizeof(*slots));
    nic->session_slots = slots;
    nic->session_slots_cap = bigger;
    slots[cap] = session;
    session->slot = cap;
    return 0;
}

/* Round the time up to whole milliseconds, so that a short time does not become 0. */
void nic_session_set_linger(struct nic_session *session)
{
    vip_store32_release(&session->head->linger_ms,
                        (uint32_t)((session->nic->config.linger_ns + 999999) / 1000000));
}

static void head_init(struct nic_session *session)
{
    struct vip_vipd_head *head = session->head;

    head->abi = session->layout->abi;
    head->bytes = session->layout->vipd_bytes;
    head->epoch = session->nic->config.epoch;
    head->asleep = session->nic->asleep;
    head->sq_cons = session->sq_position;
    session->notify = head->notify; /* the next wake-up must change this word */
    nic_session_set_linger(session);
    vip_store32_release(&head->magic, VIP_SHM_VIPD_MAGIC);
}

static void session_memory_free(struct nic_session *session)
{
    registry_unmap(session->registry, session->eng, eng_bytes());
    registry_unmap(session->registry, session->vis, session->vi_max * sizeof(*session->vis));
    for (uint32_t i = 0; session->vi_blocks && i * NIC_VI_BLOCK < session->vi_max; i++)
        registry_unmap(session->registry, session->vi_blocks[i], NIC_VI_BLOCK * session->vi_bytes);
    free(session->vi_blocks);
    free(session->cqs);
    free(session->vi_free);
    free(session->waits);
    free(session);
}

/* Memory of one VI: the engine's part and its latency histograms, in whole pages. */
static size_t vi_bytes(const struct nic_session *session)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    size_t bytes = eng_vi_bytes() + (session->vi_latency ? sizeof(struct eng_latency) : 0);

    return (bytes + page - 1) & ~(page - 1);
}

static int session_memory(struct nic_session *session)
{
    const struct nic_config *config = &session->nic->config;

    session->vi_latency = config->latency && config->vi_latency;
    session->vi_bytes = vi_bytes(session);
    session->vi_max = config->vi_max;
    session->cq_max = config->cq_max;
    session->eng = nic_map(eng_bytes());
    session->vis = nic_map(config->vi_max * sizeof(*session->vis));
    session->cqs = calloc(config->cq_max ? config->cq_max : 1, sizeof(*session->cqs));
    session->vi_free = calloc(config->vi_max, sizeof(*session->vi_free));
    session->vi_blocks =
        calloc((config->vi_max + NIC_VI_BLOCK - 1) / NIC_VI_BLOCK, sizeof(*session->vi_blocks));
    return session->eng && session->vis && session->cqs && session->vi_free && session->vi_blocks
               ? 0
               : -ENOMEM;
}

int nic_session_new(struct nic *nic, const struct nic_session_args *args, uint64_t now_ns,
                    struct nic_session **ret)
{
    struct nic_session *session = calloc(1, sizeof(*session));
    struct eng_config config = nic->config.engine;

    nic->now_ns = now_ns;
    if (!session)
        return -ENOMEM;
    session->nic = nic;
    session->id = args->id;
    session->uid = args->uid;
    session->app_base = args->app_base;
    session->vipd_base = args->vipd_base;
    session->layout = args->layout;
    session->head = args->vipd_base;
    session->sq = vip_app_sq(args->app_base);
    session->sq_position = session->sq_watch = args->sq_position;
    session->registry = args->registry;
    session->sink = args->sink;
    session->ctx = args->ctx;
    nic_list_init(&session->backlogs);
    nic_list_init(&session->asks);
    nic_list_init(&session->held);
    nic_list_init(&session->parked);
    session->user = nic_user_join(nic, args->uid);
    if (!session->user || session_memory(session) < 0 || slot_take(nic, session) < 0) {
        if (session->user)
            nic_user_leave(session);
        session_memory_free(session);
        return -ENOMEM;
    }

    config.seed = nic_random(nic);
    config.latency = nic->config.latency ? &nic->latency : NULL;
    session->eng = eng_init(session->eng, &config, &session_eng_ops, session, now_ns);
    head_init(session);
    nic_list_add_tail(&nic->sessions, &session->link);
    *ret = session;
    return 0;
}

static void held_free_all(struct nic *nic, struct nic_list *list)
{
    while (!nic_list_empty(list))
        nic_held_free(nic, NIC_ITEM(list->next, struct nic_held, link));
}

/* First step when a session ends: publish the completions so far; later events are not reported. */
static void session_close(struct nic_session *session)
{
    nic_deferred_publish_of(session, -1);
    session->closing = true;
    session->broken = true;
    session->tell_resumed = false;
}

static void vi_end(struct nic_session *session, uint16_t number, enum vip_close_reason reason)
{
    struct nic_vi *vi = &session->vis[number];
    bool connected = vi->conn && vi->conn->state == NIC_CONN_ESTABLISHED;
    uint32_t ops_done = 0;

    if (vi->conn)
        (void)nic_loan_over(vi->conn, NULL, session->died);
    eng_vi_disconnect(session->eng, number, &ops_done);
    if (vi->conn)
        nic_conn_close(vi->conn, reason, connected, ops_done);
    nic_vi_drop(session, number);
}

/* Last step when a session ends: all its VIs are destroyed already. */
static void session_gone(struct nic_session *session)
{
    struct nic *nic = session->nic;

    nic_wake_flush(nic);
    cm_server_gone(nic->cm, session->id, nic->now_ns);
    for (uint32_t i = 0; i < session->cq_high; i++)
        nic_cq_deinit(session, &session->cqs[i]);
    VIP_ASSERT(!session->spares);
    held_free_all(nic, &session->held);
    held_free_all(nic, &session->parked);

    nic->session_slots[session->slot] = NULL;
    if (nic->tx_next == &session->link)
        nic->tx_next = session->link.next;
    if (nic->post_next == &session->link)
        nic->post_next = session->link.next;
    for (unsigned i = 0; i < NIC_ROUNDS; i++)
        if (nic->round_next[i] == &session->link)
            nic->round_next[i] = session->link.next;
    nic_list_del(&session->link);
    nic_user_leave(session);
    session_memory_free(session);
}

bool nic_session_end(struct nic_session *session, bool died, uint64_t now_ns, unsigned *ends)
{
    enum vip_close_reason reason = died ? VIP_CLOSE_DEATH : VIP_CLOSE_DISCONNECT;

    if (session->nic->stopping)
        reason = VIP_CLOSE_SHUTDOWN;
    session->nic->now_ns = now_ns;
    session->died = died;
    if (!session->closing)
        session_close(session);
    if (!nic_waiters_end(session, ends))
        return false;
    for (; session->vi_high > 0; session->vi_high--) {
        uint16_t number = (uint16_t)(session->vi_high - 1);

        if (!session->vis[number].used)
            continue;
        if (*ends == 0)
            return false;
        (*ends)--;
        vi_end(session, number, reason);
    }
    nic_tx_forget(session->nic, session);
    /* All VIs are destroyed, so the CQ backlogs are empty and their blocks are spare. */
    for (; session->spares; (*ends)--) {
        if (*ends == 0)
            return false;
        (void)nic_kept_spares_free(session, NIC_KEPT_SPARES);
    }
    if (!registry_empty(session->registry, ends))
        return false;
    session_gone(session);
    return true;
}

void nic_session_free(struct nic_session *session, bool died, uint64_t now_ns)
{
    unsigned all = UINT_MAX;

    VIP_ASSERT(nic_session_end(session, died, now_ns, &all));
}

/*
 * Sessions: opening and ending them, and taking descriptors from their submission ring.
 *
 * The contents of the ring are hostile: each slot is copied once, the copy is checked, and a loop
 * over slots has a budget. A malformed descriptor fails alone; a ring that no library of ours can
 * have written marks the session broken.
 *
 * Owns: struct nic_session, the submission position, segment memory of the engine.
 * Does not own: VIs and CQs (vi.c), waits (wait.c).
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

#define SEGS_MAX (VIP_SEGS_PER_DESC_MAX + 1) /* data segments and one address segment */

/* ---- operations of the engine ---------------------------------------------------------- */

/*
 * Limit of error reports to a program. A program, or its peer, can cause one error per message.
 * Each report costs vipd a system call and an entry in the history. So a program gets ERRORS_BURST
 * reports at once, then one per ERROR_NS (nanoseconds).
 */
#define ERROR_NS     1000000u
#define ERRORS_BURST 1024u

static bool may_tell(struct nic_session *session)
{
    struct nic *nic = session->nic;

    if (session->errors_ns < nic->now_ns)
        session->errors_ns = nic->now_ns;
    if (session->errors_ns - nic->now_ns >= (uint64_t)ERRORS_BURST * ERROR_NS) {
        nic->counts.errors_untold++;
        return false;
    }
    session->errors_ns += ERROR_NS;
    return true;
}

static void op_event(void *ctx, const struct eng_event *event)
{
    struct nic_session *session = ctx;
    struct nic_vi *vi = &session->vis[event->vi];

    switch (event->kind) {
    case ENG_EVENT_STATE:
        /* If the session ends because vipd stops, the library must still see which VIs were
         * connected: it reports their connections as lost. */
        if (session->closing)
            break;
        /* [state STATE] */
        vip_store32_release(&vip_vipd_vi(session->vipd_base, event->vi)->state, event->state);
        /* Barrier before the engine fetches receives once more (proto/shm.h, VIP_ASK_FLUSH). */
        vip_fence_sleep(); /* [table ERROR] */
        break;
    case ENG_EVENT_ERROR:
        if (event->code == VIP_EC_CONN_LOST) {
            nic_vi_lost(session, event->vi, event->why);
            break;
        }
        session->failed = true;
        if (!session->closing && may_tell(session))
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
    size_t bytes = count * sizeof(struct vip_shm_seg);
    uint64_t most = session->nic->config.segs_bytes_user;
    struct vip_shm_seg *segs = NULL;

    if (session->segs_bytes + bytes <= NIC_SEGS_BYTES &&
        (!most || session->user->segs_bytes + bytes <= most))
        segs = malloc(bytes);
    if (!segs) {
        session->nic->counts.segs_refused++;
        return NULL;
    }
    session->segs_bytes += bytes;
    session->user->segs_bytes += bytes;
    return segs;
}

static void op_segs_free(void *ctx, struct vip_shm_seg *segs, unsigned count)
{
    struct nic_session *session = ctx;
    size_t bytes = count * sizeof(*segs);

    VIP_ASSERT(session->segs_bytes >= bytes);
    session->segs_bytes -= bytes;
    session->user->segs_bytes -= bytes;
    free(segs);
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

/* ---- submission ring ------------------------------------------------------------------- */

static void ring_broken(struct nic_session *session)
{
    if (session->broken)
        return;
    session->broken = true;
    session->nic->counts.sessions_broken++;
    if (session->sink->broken)
        session->sink->broken(session->ctx);
}

/*
 * Copy the segments of the descriptor in `slot`, which starts at the current position. Outcomes:
 * 1 copied; 0 a continuation is not written yet (the poster is between two stores), try again when
 * its stamp is there; -1 a slot that must be a continuation is none.
 */
static int take_segs(struct nic_session *session, const struct vip_sq_slot *slot,
                     struct vip_shm_seg segs[SEGS_MAX])
{
    unsigned inline_segs =
        slot->seg_count < VIP_SQ_INLINE_SEGS ? slot->seg_count : VIP_SQ_INLINE_SEGS;
    unsigned got = inline_segs;

    memcpy(segs, slot->seg, inline_segs * sizeof(segs[0]));
    for (uint32_t at = session->sq_position + 1; got < slot->seg_count; at++) {
        struct vip_sq_slot copy;
        struct vip_sq_cont cont;
        unsigned count = slot->seg_count - got;

        if (!vip_sq_read(session->sq, at, &copy)) {
            session->sq_watch = at;
            return 0;
        }
        memcpy(&cont, &copy, sizeof(cont));
        if (cont.kind != VIP_SQ_CONT || cont.vi != slot->vi)
            return -1;
        if (count > VIP_SQ_CONT_SEGS)
            count = VIP_SQ_CONT_SEGS;
        memcpy(segs + got, cont.seg, count * sizeof(segs[0]));
        got += count;
    }
    return 1;
}

/*
 * Copy the message of the descriptor in `slot`; it follows the segments. Outcomes as take_segs, but
 * the length of the message in bytes instead of 1.
 */
static int take_message(struct nic_session *session, const struct vip_sq_slot *slot,
                        uint8_t message[VIP_MESSAGE_BYTES_MAX])
{
    uint32_t at = session->sq_position + VIP_SQ_SLOTS_FOR(slot->seg_count);
    unsigned got = 0, want = 1;

    for (; got < want; at++) {
        struct vip_sq_slot copy;
        struct vip_sq_msg part;
        unsigned count;

        if (!vip_sq_read(session->sq, at, &copy)) {
            session->sq_watch = at;
            return 0;
        }
        memcpy(&part, &copy, sizeof(part));
        if (part.kind != VIP_SQ_MSG || part.vi != slot->vi || part.len == 0 ||
            part.len > VIP_MESSAGE_BYTES_MAX || (got && part.len != want))
            return -1;
        want = part.len;
        count = want - got < VIP_SQ_MSG_BYTES ? want - got : VIP_SQ_MSG_BYTES;
        memcpy(message + got, part.bytes, count);
        got += count;
    }
    return (int)got;
}

void nic_session_fault(struct nic_session *session)
{
    bool was = nic_session_throttled(session);

    if (session->faults_ns < session->nic->now_ns)
        session->faults_ns = session->nic->now_ns;
    session->faults_ns += NIC_FAULT_NS;
    if (!was && nic_session_throttled(session))
        session->nic->counts.throttled++;
}

/* Does the VI of the posting exist? A posting to a destroyed VI is a race of the application. */
static bool post_vi_valid(struct nic_session *session, const struct vip_sq_slot *slot)
{
    const struct nic_vi *vi = nic_vi_get(session, slot->vi);

    if (!vi) {
        session->nic->counts.post_bad_vi++;
        nic_session_fault(session);
        return false;
    }
    if (vi->generation != slot->vi_gen) {
        session->nic->counts.post_bad_gen++;
        nic_session_fault(session);
        return false;
    }
    return true;
}

void nic_session_post(struct nic_session *session, const struct vip_sq_slot *slot,
                      const struct nic_post_parts *parts, uint16_t control)
{
    struct eng_post args = {
        .vi = slot->vi,
        .queue = slot->kind == VIP_SQ_SEND ? VIP_Q_SEND : VIP_Q_RECV,
        .control = control,
        .seg_count = parts->seg_count,
        .flags = slot->flags,
        .length = slot->length,
        .reserved = slot->reserved1,
        .imm = (slot->flags & VIP_SQF_IMM64) || VIP_MUTANT(IMM64_HALF) ? slot->imm
                                                                       : slot->imm & 0xffffffffu,
        .message_bytes = parts->message_bytes,
        .app_message = parts->message,
        .app_segs = parts->segs,
    };

    session->nic->counts.posts++;
    if (session->nic->see)
        nic_see_descriptor(
            session, VIP_CAPTURE_POSTED,
            &(struct nic_deferred){.vi = args.vi, .queue = args.queue, .length = args.length});
    VIP_PROBE4(post, session->id, args.vi, args.queue, args.length);
    session->failed = false;
    eng_post(session->eng, &args, session->nic->now_ns);
    if (session->failed)
        nic_session_fault(session);
}

/*
 * Take one descriptor at the current position, already copied to `slot`. Returns the number of its
 * slots; 0: it is not complete yet.
 */
static unsigned take_post(struct nic_session *session, const struct vip_sq_slot *slot)
{
    struct nic_counts *counts = &session->nic->counts;
    struct nic_post_parts parts;
    int taken, message = 0;

    parts.seg_count = 0;
    parts.message_bytes = 0;
    session->sq_skip_conts = false;
    if (slot->seg_count > SEGS_MAX) {
        /* Too many segments: it fails in its turn like every malformed descriptor. The number of
         * its continuations is unknown. */
        counts->post_bad_segs++;
        session->sq_skip_conts = true;
        if (post_vi_valid(session, slot))
            nic_session_post(session, slot, &parts, slot->control | VIP_CTL_RESERVED);
        return 1;
    }
    taken = take_segs(session, slot, parts.segs);
    if (taken > 0 && (slot->flags & VIP_SQF_MSG))
        taken = message = take_message(session, slot, parts.message);
    if (taken == 0)
        return 0;
    if (taken < 0) {
        counts->post_stray++;
        ring_broken(session);
        return 1;
    }
    parts.seg_count = slot->seg_count;
    parts.message_bytes = (uint32_t)message;
    if (post_vi_valid(session, slot))
        nic_session_post(session, slot, &parts, slot->control);
    return VIP_SQ_SLOTS_FOR(slot->seg_count) + VIP_SQ_SLOTS_FOR_MSG(parts.message_bytes);
}

/* Take a slot that begins no descriptor. */
static void take_stray(struct nic_session *session, const struct vip_sq_slot *slot)
{
    struct nic_counts *counts = &session->nic->counts;

    if (slot->kind != VIP_SQ_CONT && slot->kind != VIP_SQ_MSG) {
        counts->post_bad_kind++;
        session->sq_skip_conts = true;
        nic_session_fault(session);
    } else if (!session->sq_skip_conts) {
        counts->post_stray++;
        ring_broken(session);
    }
}

/* Allow one ring of slots from the present position: all that the ring holds now may be taken. */
static void fetch_begin(struct nic_session *session)
{
    session->fetch_turn = session->nic->counts.turns;
    session->fetch_end = session->sq_position + VIP_SQ_SLOTS;
}

unsigned nic_session_drain(struct nic_session *session, unsigned budget, bool cut)
{
    unsigned taken = 0;
    struct vip_sq_slot slot;

    /* eng_post may ask for further posts while we are giving it one. */
    if (session->draining || session->broken || !nic_session_has_posts(session))
        return 0;
    if (session->fetch_turn != session->nic->counts.turns)
        fetch_begin(session);
    /* The last descriptor may have ended behind fetch_end. */
    if ((int32_t)(session->fetch_end - session->sq_position) <= 0)
        return 0;
    if (budget > session->fetch_end - session->sq_position)
        budget = session->fetch_end - session->sq_position;
    session->draining = true;
    while (taken < budget && !session->broken && !(cut && session->nic->meter.over)) {
        unsigned slots = 1;

        vip_fetch_begin();
        /* The program may have removed the slot again: then vipd waits for it once more. */
        if (!vip_sq_read(session->sq, session->sq_position, &slot)) {
            session->sq_watch = session->sq_position;
            slots = 0;
        } else if (slot.kind == VIP_SQ_SEND || slot.kind == VIP_SQ_RECV) {
            slots = take_post(session, &slot);
        } else if (slot.kind == VIP_SQ_ASK) {
            if (post_vi_valid(session, &slot))
                nic_direct_ask(session, slot.vi, slot.flags);
        } else {
            take_stray(session, &slot);
        }
        vip_fetch_end();
        if (!slots)
            break;
        session->sq_position += slots;
        session->sq_watch = session->sq_position;
        taken += slots;
    }
    session->draining = false;
    session->slots += taken;
    if (taken)
        vip_store32_release(&session->head->sq_cons, session->sq_position); /* [doorbell CONS] */
    return taken;
}

void nic_session_fetch(struct nic_session *session)
{
    struct nic *nic = session->nic;
    struct nic_session *before;

    if (nic_session_throttled(session) || !nic_session_has_posts(session))
        return;
    before = nic_share_switch(nic, session);
    nic_share_worked(nic, nic_session_drain(session, VIP_SQ_SLOTS, false));
    nic_share_switch(nic, before);
}

void nic_session_enter(struct nic_session *session)
{
    fetch_begin(session);
    nic_session_drain(session, VIP_SQ_SLOTS, false);
}

uint64_t nic_session_slots(const struct nic_session *session)
{
    return session->slots;
}

/* One load: is the slot at sq_watch written? */
bool nic_session_has_posts(const struct nic_session *session)
{
    const struct vip_sq_slot *slot = &session->sq[session->sq_watch & (VIP_SQ_SLOTS - 1)];
    uint32_t stamp;

    vip_fetch_begin();
    stamp = vip_load32_acquire(&slot->stamp);
    vip_fetch_end();
    return !session->broken && stamp == session->sq_watch + 1;
}

bool nic_session_broken(const struct nic_session *session)
{
    return session->broken;
}

uint64_t nic_session_resumes_ns(const struct nic_session *session)
{
    const uint64_t burst_ns = (uint64_t)NIC_FAULT_BURST * NIC_FAULT_NS;

    return session->faults_ns > burst_ns ? session->faults_ns - burst_ns : 0;
}

bool nic_session_throttled(const struct nic_session *session)
{
    return nic_session_resumes_ns(session) > session->nic->now_ns;
}

void nic_session_tell_resumed(struct nic_session *session)
{
    session->tell_resumed = true;
}

/* ---- life ------------------------------------------------------------------------------ */

/* A free place in the table that turns wait ids into sessions. 0 or -ENOMEM. */
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

/* The time is rounded up to 1 ms, so that a short time does not become 0. */
void nic_session_set_linger(struct nic_session *session)
{
    vip_store32_release(&session->head->linger_ms,
                        (uint32_t)((session->nic->config.linger_ns + 999999) / 1000000));
}

static void head_init(struct nic_session *session)
{
    struct vip_vipd_head *head = session->head;

    head->abi = VIP_SHM_ABI;
    head->bytes = VIP_VIPD_BYTES;
    head->epoch = session->nic->config.epoch;
    head->asleep = session->nic->asleep;
    head->sq_cons = 0;
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
    session->head = args->vipd_base;
    session->sq = vip_app_sq(args->app_base);
    session->registry = args->registry;
    session->sink = args->sink;
    session->ctx = args->ctx;
    nic_list_init(&session->backlogs);
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

/* First step of the end: publish the completions so far; afterwards nothing is reported. */
static void session_close(struct nic_session *session)
{
    nic_deferred_publish_of(session, -1);
    nic_wake_flush(session->nic);
    session->closing = true;
    session->broken = true;
    session->tell_resumed = false;
}

static void vi_end(struct nic_session *session, uint16_t number, enum vip_close_reason reason)
{
    struct nic_vi *vi = &session->vis[number];
    bool connected = vi->conn && vi->conn->state == NIC_CONN_ESTABLISHED;
    uint32_t ops_done = 0;

    eng_vi_disconnect(session->eng, number, &ops_done);
    if (vi->conn)
        nic_conn_close(vi->conn, reason, connected, ops_done);
    nic_vi_drop(session, number);
}

/* Last step of the end: all VIs are gone. */
static void session_gone(struct nic_session *session)
{
    struct nic *nic = session->nic;

    nic_wake_flush(nic);
    cm_server_gone(nic->cm, session->id, nic->now_ns);
    nic_tx_forget(nic, session);
    for (uint32_t i = 0; i < session->cq_high; i++)
        nic_cq_deinit(session, &session->cqs[i]);
    held_free_all(nic, &session->held);
    held_free_all(nic, &session->parked);

    nic->session_slots[session->slot] = NULL;
    if (nic->tx_next == &session->link)
        nic->tx_next = session->link.next;
    if (nic->post_next == &session->link)
        nic->post_next = session->link.next;
    if (nic->timer_next == &session->link)
        nic->timer_next = session->link.next;
    if (nic->placed_next == &session->link)
        nic->placed_next = session->link.next;
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
    if (!session->closing)
        session_close(session);
    if (!nic_waits_end(session, ends))
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
    session_gone(session);
    return true;
}

void nic_session_free(struct nic_session *session, bool died, uint64_t now_ns)
{
    unsigned all = UINT_MAX;

    VIP_ASSERT(nic_session_end(session, died, now_ns, &all));
}

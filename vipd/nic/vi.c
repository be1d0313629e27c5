/*
 * VIs and completion queues of a session: creation, attributes, destruction.
 *
 * Owns: VI and CQ numbers, generations, the binding of queues to CQs, use counts of ptags.
 * Does not own: connections (connect.c), work queues (engine).
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "proto/assert.h"
#include "vipd/nic/internal.h"

void nic_vi_lost(struct nic_session *session, uint16_t number, const char *why)
{
    struct nic_vi *vi = &session->vis[number];

    if (vi->lost_told || session->closing)
        return;
    vi->lost_told = true;
    session->nic->counts.conns_lost++;
    session->sink->error(session->ctx, VIP_RES_VI, VIP_EC_CONN_LOST, number, vi->generation, 0,
                         why ? why : "the connection is lost");
}

static bool cq_exists(const struct nic_session *session, int32_t cq)
{
    return cq == -1 || (cq >= 0 && (uint32_t)cq < session->cq_high && session->cqs[cq].used);
}

static enum vip_rc check_args(const struct nic_session *session, const struct nic_vi_args *args,
                              const char **ret_why)
{
    uint16_t level = args->attrs.level;

    if (level != VIP_LVL_UNRELIABLE && level != VIP_LVL_DELIVERY && level != VIP_LVL_RECEPTION) {
        *ret_why = "the reliability level must be exactly one of the three";
        return VIP_RC_INVALID_RELIABILITY_LEVEL;
    }
    if (!args->attrs.max_transfer_bytes ||
        args->attrs.max_transfer_bytes > VIP_TRANSFER_BYTES_MAX) {
        *ret_why = "MaxTransferSize is 0 or above that of the NIC";
        return VIP_RC_INVALID_MTU;
    }
    if (!registry_ptag_valid(session->registry, args->ptag)) {
        *ret_why = "the protection tag does not exist";
        return VIP_RC_INVALID_PTAG;
    }
    return VIP_RC_SUCCESS;
}

static void attrs_take(struct nic_session *session, struct nic_vi *vi,
                       const struct nic_vi_args *args)
{
    vi->attrs = args->attrs;
    vi->qos = args->qos;
    vi->ptag = args->ptag;
    if (vi->ptag)
        registry_ptag_use(session->registry, vi->ptag, 1);
}

/* Begin to use the next VI number that this life of vipd has not used. */
static void number_begin(struct nic_session *session)
{
    uint16_t number = (uint16_t)session->vi_high++;

    nic_list_init(&session->vis[number].in_asks);
    nic_positions_read(session, number);
}

/* A free VI number, or -1. Prefer the number freed last, so that its pages are used again. */
static int32_t number_take(struct nic_session *session)
{
    if (session->vi_free_count)
        return session->vi_free[--session->vi_free_count];
    if (session->vi_high == session->vi_max)
        return -1;
    number_begin(session);
    return (int32_t)session->vi_high - 1;
}

static void cq_bind(struct nic_session *session, struct nic_vi *vi, unsigned queue, int32_t cq)
{
    vi->cq[queue] = cq;
    if (cq >= 0)
        session->cqs[cq].bound++;
}

/* The memory of a VI number; NULL: its block does not exist. */
static char *memory_of(const struct nic_session *session, uint16_t number)
{
    char *block = session->vi_blocks[number / NIC_VI_BLOCK];

    return block ? block + number % NIC_VI_BLOCK * session->vi_bytes : NULL;
}

/* Zeroed memory for a VI that does not exist yet; NULL on failure. */
static char *memory_take(struct nic_session *session, uint16_t number)
{
    void **block = &session->vi_blocks[number / NIC_VI_BLOCK];

    if (!*block)
        *block = nic_map(NIC_VI_BLOCK * session->vi_bytes);
    return memory_of(session, number);
}

/* Zero the memory for the next VI. When the session ends, vipd unmaps whole blocks instead. */
static void memory_give(struct nic_session *session, uint16_t number)
{
    char *memory = memory_of(session, number);

    if (!session->closing && madvise(memory, session->vi_bytes, MADV_DONTNEED) < 0)
        memset(memory, 0, session->vi_bytes);
}

struct eng_latency *nic_vi_latency(const struct nic_session *session, uint16_t number)
{
    if (!session->vi_latency || !session->vis[number].used)
        return NULL;
    return (struct eng_latency *)(memory_of(session, number) + eng_vi_bytes());
}

/* May a VI with these arguments be made? */
static enum vip_rc check_new(const struct nic_session *session, const struct nic_vi_args *args,
                             char *why, size_t why_bytes)
{
    const char *reason = "";
    enum vip_rc rc = check_args(session, args, &reason);

    if (rc != VIP_RC_SUCCESS) {
        snprintf(why, why_bytes, "%s", reason);
        return rc;
    }
    if (cq_exists(session, args->send_cq) && cq_exists(session, args->recv_cq))
        return VIP_RC_SUCCESS;
    snprintf(why, why_bytes, "a VI may only be bound to an existing CQ of its NIC handle");
    return VIP_RC_INVALID_PARAMETER;
}

/* Make the engine's part of a VI, which has no memory in use. */
static void engine_begin(struct nic_session *session, uint16_t number, void *memory)
{
    struct nic_vi *vi = &session->vis[number];

    eng_vi_create(session->eng, number, memory, &vi->attrs);
    eng_vi_commit_to(session->eng, number, &vi->head->commit.done);
    if (session->vi_latency)
        eng_vi_measure(session->eng, number, nic_vi_latency(session, number));
}

/* Make the VI with a number that was taken. ring: the `state` of nic_direct_reset. idle: publish
 * that the VI is Idle. Returns false if there is no memory; then the number is free again. */
static bool make(struct nic_session *session, uint16_t number, const struct nic_vi_args *args,
                 enum vip_ring_state ring, bool idle)
{
    struct nic_vi *vi = &session->vis[number];
    void *memory = memory_take(session, number);

    if (!memory) {
        session->vi_free[session->vi_free_count++] = number;
        return false;
    }
    vi->used = true;
    vi->lost_told = false;
    vi->generation++;
    vi->head->generation = vi->generation;
    vi->conn = NULL;
    attrs_take(session, vi, args);
    cq_bind(session, vi, VIP_Q_SEND, args->send_cq);
    cq_bind(session, vi, VIP_Q_RECV, args->recv_cq);
    session->vi_count++;
    nic_direct_reset(session, number, ring);
    if (idle)
        vip_store32_release(&vi->head->state, VIP_VIST_IDLE);
    engine_begin(session, number, memory);
    return true;
}

enum vip_rc nic_vi_create(struct nic_session *session, const struct nic_vi_args *args,
                          struct nic_vi_created *ret, char *why, size_t why_bytes)
{
    enum vip_rc rc;
    int32_t number;

    nic_begin(session, session->nic->now_ns);
    rc = check_new(session, args, why, why_bytes);
    if (rc != VIP_RC_SUCCESS)
        return rc;
    number = number_take(session);
    if (number < 0 || !make(session, (uint16_t)number, args, VIP_RING_NONE, true)) {
        snprintf(why, why_bytes,
                 number < 0 ? "this NIC handle has %u VIs, the most that it may have"
                            : "no memory for a VI beside %u others",
                 session->vi_count);
        return VIP_RC_ERROR_RESOURCE;
    }
    nic_comps_begin(session, (uint16_t)number);
    *ret = (struct nic_vi_created){.vi = (uint16_t)number,
                                   .generation = session->vis[number].generation,
                                   .send_position = session->vis[number].position[VIP_Q_SEND],
                                   .recv_position = session->vis[number].position[VIP_Q_RECV]};
    return VIP_RC_SUCCESS;
}

/* Take this number. false: it is in use, or too large. */
static bool number_claim(struct nic_session *session, uint16_t number)
{
    uint32_t at = 0;

    if (number >= session->vi_max)
        return false;
    while (session->vi_high <= number) {
        session->vi_free[session->vi_free_count++] = (uint16_t)session->vi_high;
        number_begin(session);
    }
    while (at < session->vi_free_count && session->vi_free[at] != number)
        at++;
    if (at == session->vi_free_count)
        return false;
    session->vi_free[at] = session->vi_free[--session->vi_free_count];
    return true;
}

enum vip_rc nic_vi_create_as(struct nic_session *session, const struct nic_vi_checkpoint *past,
                             bool ring, char *why, size_t why_bytes)
{
    enum vip_rc rc = check_new(session, &past->args, why, why_bytes);
    enum vip_ring_state state = ring ? VIP_RING_OPEN : VIP_RING_LOST;
    struct nic_vi *vi = &session->vis[past->vi];

    VIP_ASSERT(session->layout->outlives);
    if (rc != VIP_RC_SUCCESS)
        return rc;
    if (!number_claim(session, past->vi)) {
        snprintf(why, why_bytes, "VI number %u is in use, or above the limit of %u", past->vi,
                 session->vi_max);
        return VIP_RC_INVALID_PARAMETER;
    }
    vi->generation = past->generation - 1; /* make() adds 1 */
    if (vip_load32_own(&vi->head->ring) == VIP_RING_NONE)
        state = VIP_RING_NONE;
    /* Publish Idle only for a VI without a connection: if this vipd is killed, the next vipd needs
     * the published state. */
    if (make(session, past->vi, &past->args, state, !(past->connected || past->lost))) {
        vi->recv_next = vi->position[VIP_Q_RECV] + past->recv_base;
        vi->lost_told = past->lost_told;
        /* A thread may sleep although its completion is there: the earlier life did not wake it. */
        nic_wake_also(session, past->vi, VIP_Q_SEND);
        nic_wake_also(session, past->vi, VIP_Q_RECV);
        return VIP_RC_SUCCESS;
    }
    snprintf(why, why_bytes, "no memory for a VI beside %u others", session->vi_count);
    return VIP_RC_ERROR_RESOURCE;
}

/* Add the counters of a VI to those of the NIC before the VI is destroyed. */
static void stats_retire(struct nic_session *session, uint16_t number)
{
    struct eng_vi_stats *sum = &session->nic->retired, one;

    nic_vi_counts(session, number, &one);
    nic_stats_add(sum, &one);
    nic_past_free(&session->vis[number]);
}

void nic_vi_engine_again(struct nic_session *session, uint16_t number)
{
    void *memory = memory_of(session, number);

    nic_past_engine_ends(session, number);
    eng_vi_destroy(session->eng, number);
    nic_rx_orphans(session);
    memset(memory, 0, eng_vi_bytes());
    engine_begin(session, number, memory);
}

/* Destroy a VI in any state. Its connection must have ended. */
void nic_vi_drop(struct nic_session *session, uint16_t number)
{
    struct nic_vi *vi = &session->vis[number];

    VIP_ASSERT(vi->used && !vi->conn);
    nic_deferred_publish_of(session, number);
    nic_direct_drop(session, number);
    nic_sends_end(session, number);
    stats_retire(session, number);
    eng_vi_destroy(session->eng, number);
    nic_rx_orphans(session);
    memory_give(session, number);
    vi->used = false;
    if (vi->ptag)
        registry_ptag_use(session->registry, vi->ptag, -1);
    for (enum vip_queue queue = VIP_Q_SEND; queue <= VIP_Q_RECV; queue++) {
        if (vi->cq[queue] < 0)
            continue;
        nic_cq_forget_vi(session, vi, queue);
        session->cqs[vi->cq[queue]].bound--;
    }
    session->vi_free[session->vi_free_count++] = number;
    session->vi_count--;
}

enum vip_rc nic_vi_destroy(struct nic_session *session, uint32_t number, uint64_t now_ns)
{
    struct nic_vi *vi = nic_vi_get(session, number);
    struct eng_vi_stats stats;

    if (!vi)
        return VIP_RC_INVALID_PARAMETER;
    nic_begin(session, now_ns);
    if (vi->conn || eng_vi_state(session->eng, (uint16_t)number) != VIP_VIST_IDLE)
        return VIP_RC_INVALID_STATE;
    eng_vi_stats(session->eng, (uint16_t)number, &stats);
    if (stats.send_depth || stats.recv_depth)
        return VIP_RC_ERROR_RESOURCE;
    nic_vi_drop(session, (uint16_t)number);
    return VIP_RC_SUCCESS;
}

enum vip_rc nic_vi_set_attrs(struct nic_session *session, uint32_t number,
                             const struct nic_vi_args *args)
{
    struct nic_vi *vi = nic_vi_get(session, number);
    const char *reason = "";
    enum vip_rc rc;

    if (!vi)
        return VIP_RC_INVALID_PARAMETER;
    nic_begin(session, session->nic->now_ns);
    if (vi->conn || eng_vi_state(session->eng, (uint16_t)number) != VIP_VIST_IDLE)
        return VIP_RC_INVALID_STATE;
    rc = check_args(session, args, &reason);
    if (rc != VIP_RC_SUCCESS)
        return rc;
    if (vi->ptag)
        registry_ptag_use(session->registry, vi->ptag, -1);
    attrs_take(session, vi, args);
    eng_vi_set_attrs(session->eng, (uint16_t)number, &args->attrs);
    return VIP_RC_SUCCESS;
}

/* ---- completion queues ----------------------------------------------------------------- */

static bool entries_valid(uint64_t entries, char *why, size_t why_bytes)
{
    if (entries <= VIP_CQ_ENTRIES_MAX)
        return true;
    snprintf(why, why_bytes, "a CQ of %llu entries was asked for; MaxCQEntries is %u",
             (unsigned long long)entries, (unsigned)VIP_CQ_ENTRIES_MAX);
    return false;
}

static void cq_begin(struct nic_session *session, uint32_t number)
{
    struct nic_cq *cq = &session->cqs[number];

    for (; session->cq_high <= number; session->cq_high++)
        nic_cq_position_read(session, session->cq_high);
    cq->used = true;
    cq->sock = -1;
    cq->bound = 0;
    cq->overrun_told = false;
    nic_list_init(&cq->in_backlogs);
    session->cq_count++;
}

enum vip_rc nic_cq_create(struct nic_session *session, uint64_t entries, uint32_t *ret_cq,
                          uint32_t *ret_position, char *why, size_t why_bytes)
{
    uint32_t number = 0;

    if (!entries_valid(entries, why, why_bytes))
        return VIP_RC_ERROR_RESOURCE;
    while (number < session->cq_high && session->cqs[number].used)
        number++;
    if (number == session->cq_max) {
        snprintf(why, why_bytes, "this NIC handle has %u CQs, the most that it may have",
                 session->cq_count);
        return VIP_RC_ERROR_RESOURCE;
    }
    cq_begin(session, number);
    /* Skip the entries in the ring: they are of an earlier CQ with this number. */
    session->cqs[number].cons_seen = session->cqs[number].position;
    *ret_cq = number;
    *ret_position = session->cqs[number].position;
    return VIP_RC_SUCCESS;
}

enum vip_rc nic_cq_restore(struct nic_session *session, uint32_t cq)
{
    if (cq >= session->cq_max || session->cqs[cq].used)
        return VIP_RC_INVALID_PARAMETER;
    cq_begin(session, cq);
    return VIP_RC_SUCCESS;
}

enum vip_rc nic_cq_destroy(struct nic_session *session, uint32_t cq)
{
    if (cq >= session->cq_high || !session->cqs[cq].used)
        return VIP_RC_INVALID_PARAMETER;
    if (session->cqs[cq].bound)
        return VIP_RC_ERROR_RESOURCE;
    nic_cq_deinit(session, &session->cqs[cq]);
    session->cq_count--;
    return VIP_RC_SUCCESS;
}

/* The ring has one fixed size and further entries wait in vipd, so a resize never loses entries. */
enum vip_rc nic_cq_resize(struct nic_session *session, uint32_t cq, uint64_t entries)
{
    if (cq >= session->cq_high || !session->cqs[cq].used)
        return VIP_RC_INVALID_PARAMETER;
    return entries <= VIP_CQ_ENTRIES_MAX ? VIP_RC_SUCCESS : VIP_RC_ERROR_RESOURCE;
}

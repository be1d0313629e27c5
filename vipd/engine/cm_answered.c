/*
 * Answers that are remembered. If a repetition of a REQUEST was under way when the REQUEST was
 * answered, it must not count as a new request. The number of answers and their time are limited.
 * Called by the server side (cm_pending.c, cm_server.c) and for peer-to-peer requests (cm_match.c).
 */
#include "vipd/engine/cm_internal.h"

uint64_t cm_request_key(struct cm *cm, const struct cm_host *host, uint64_t epoch, uint64_t id)
{
    /* The peer chooses both numbers. With a keyed hash, the peer cannot make many keys equal. */
    uint64_t numbers[2] = {epoch, id};

    return cm_hash(cm, host->bytes, host->len, siphash(&cm->random_key, numbers, sizeof(numbers)));
}

static void answered_free(struct cm *cm, struct cm_answered *answered)
{
    TAILQ_REMOVE(&cm->answered_order, answered, order);
    TAILQ_REMOVE(&answered->source->answered, answered, of_source);
    if (answered->source->within)
        TAILQ_REMOVE(&answered->source->within->answered, answered, of_network);
    cm_node_del(&answered->by_key);
    cm_share_give(cm, CM_POOL_ANSWERED, answered->source, NULL);
    cm_holder_put(cm, answered->source);
    cm_free(cm, answered, sizeof(*answered));
}

void cm_fire_answered(struct cm *cm, struct cm_timer *timer, uint64_t now_ns)
{
    struct cm_answered *oldest;

    /* All answers are kept for the same time, so the oldest answer is forgotten first. */
    while ((oldest = TAILQ_FIRST(&cm->answered_order)) && oldest->until_ns <= now_ns)
        answered_free(cm, oldest);
    if (oldest)
        cm_timer_set(cm, timer, oldest->until_ns);
}

struct cm_answered *cm_answered_find(struct cm *cm, const struct cm_in *in)
{
    struct cm_node *node = cm_table_find(
        cm, &cm->answered, cm_request_key(cm, in->from, in->src_epoch, in->msg->request_id));

    for (; node; node = cm_table_again(node)) {
        struct cm_answered *answered = CM_OF(struct cm_answered, by_key, node);

        if (answered->epoch == in->src_epoch && answered->request_id == in->msg->request_id &&
            cm_host_equal(&answered->host, in->from))
            return answered;
    }
    return NULL;
}

void cm_answer_send(struct cm *cm, const struct cm_host *to, uint64_t epoch, uint64_t request_id,
                    enum cm_answer answer, uint32_t code, const struct vip_private *data)
{
    struct vip_cm msg = {.request_id = request_id, .code = code};

    if (answer == CM_ANSWER_NONE)
        return;
    if (data)
        msg.data = *data;
    msg.type = answer == CM_ANSWER_REJECT ? VIP_CM_REJECT : VIP_CM_NO_MATCH;
    cm_send(cm, to, epoch, &msg);
}

/*
 * Returns the answer to be forgotten, so that there is room for a new answer to this source. If the
 * source has CM_SMALL answers or more, it is the source's oldest answer. Else, if the part of the
 * source's network is full, it is the network's oldest answer. Else it is the oldest answer of all.
 */
static struct cm_answered *replaced(const struct cm *cm, const struct cm_holder *source)
{
    const struct cm_holder *network = source->within;

    if (source->has[CM_POOL_ANSWERED] >= CM_SMALL)
        return TAILQ_FIRST(&source->answered);
    if (network && !cm_share_part(CM_POOL_ANSWERED, network))
        return TAILQ_FIRST(&network->answered);
    return TAILQ_FIRST(&cm->answered_order);
}

static void make_room(struct cm *cm, const struct cm_holder *source)
{
    while (!cm_share_room(cm, CM_POOL_ANSWERED, source, NULL))
        answered_free(cm, replaced(cm, source));
}

/* Make a record of an answer. Returns NULL if there is no memory; then a repetition counts as a new
 * request. The record gets the caller's reference to source. source may be NULL (no memory). */
static struct cm_answered *answered_new(struct cm *cm, struct cm_holder *source,
                                        const struct cm_host *host, uint64_t epoch,
                                        uint64_t request_id, uint64_t now_ns)
{
    struct cm_answered *answered;

    if (!source)
        return NULL;
    make_room(cm, source);
    answered = cm_alloc(cm, sizeof(*answered));
    if (!answered) {
        cm_holder_put(cm, source);
        return NULL;
    }
    answered->source = source;
    cm_share_take(cm, CM_POOL_ANSWERED, source, NULL);
    TAILQ_INSERT_TAIL(&source->answered, answered, of_source);
    if (source->within)
        TAILQ_INSERT_TAIL(&source->within->answered, answered, of_network);
    answered->host = *host;
    answered->epoch = epoch;
    answered->request_id = request_id;
    answered->until_ns = cm_add_ns(now_ns, CM_ANSWERED_NS);
    TAILQ_INSERT_TAIL(&cm->answered_order, answered, order);
    cm_table_add(cm, &cm->answered, &answered->by_key, cm_request_key(cm, host, epoch, request_id));
    cm->answered_timer.kind = CM_TIMER_ANSWERED;
    if (!cm->answered_timer.armed && !VIP_MUTANT(ANSWERED_LEAK))
        cm_timer_set(cm, &cm->answered_timer, answered->until_ns);
    return answered;
}

void cm_answered_add(struct cm *cm, const struct cm_pending *pending, enum cm_answer answer,
                     uint32_t code, const struct vip_private *data, uint64_t now_ns)
{
    struct cm_answered *answered =
        answered_new(cm, cm_holder_ref(pending->source), &pending->peer->host, pending->peer->epoch,
                     pending->request.request_id, now_ns);

    if (!answered)
        return;
    answered->answer = answer;
    answered->code = code;
    if (data)
        answered->data = *data;
}

void cm_refuse(struct cm *cm, const struct cm_in *in, enum vip_rc code)
{
    struct cm_answered *answered = answered_new(cm, cm_source_get(cm, in), in->from, in->src_epoch,
                                                in->msg->request_id, in->now_ns);

    cm->stats.rejects++;
    if (answered) {
        answered->answer = CM_ANSWER_REJECT;
        answered->code = code;
    }
    cm_answer_send(cm, in->from, in->src_epoch, in->msg->request_id, CM_ANSWER_REJECT, code, NULL);
}

void cm_answered_deinit(struct cm *cm)
{
    while (!TAILQ_EMPTY(&cm->answered_order))
        answered_free(cm, TAILQ_FIRST(&cm->answered_order));
    cm_timer_clear(cm, &cm->answered_timer);
}

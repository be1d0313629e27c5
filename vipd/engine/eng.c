/*
 * Creation of engines and VIs, and the statistics.
 */
#include "vipd/engine/internal.h"

#include <string.h>

size_t eng_bytes(void)
{
    return sizeof(struct eng);
}

size_t eng_vi_bytes(void)
{
    return sizeof(struct eng_vi);
}

struct eng *eng_init(void *memory, const struct eng_config *config, const struct eng_ops *ops,
                     void *ctx, uint64_t now_ns)
{
    struct eng *eng = memory;

    (void)now_ns;
    VIP_ASSERT(config->rto_min_ns && config->rto_max_ns >= config->rto_min_ns);
    VIP_ASSERT(config->rto_initial_ns && config->conn_timeout_ns && config->ack_every_packets);
    VIP_ASSERT(config->turn_packets && config->turn_bytes);
    eng->config = *config;
    if (eng->config.held_packets_max > ENG_HELD_MAX)
        eng->config.held_packets_max = ENG_HELD_MAX;
    eng->ops = *ops;
    eng->ctx = ctx;
    eng->random = config->seed ? config->seed : 1;
    for (unsigned i = 0; i < ENG_LISTS; i++)
        eng->list[i].head = eng->list[i].tail = ENG_NONE;
    return eng;
}

void eng_vi_create(struct eng *eng, uint16_t vi, void *memory, const struct eng_vi_attrs *attrs)
{
    struct eng_vi *new = memory;

    VIP_ASSERT(vi < VIP_VI_MAX && !eng->vi[vi]);
    VIP_ASSERT((uintptr_t)memory % 64 == 0);
    eng->vi[vi] = new;
    new->eng = eng;
    new->index = vi;
    new->state = VIP_VIST_IDLE;
    new->rx.ack_ns = new->tx.timer_ns = new->tx.loss_ns = ENG_NEVER;
    new->done = &new->done_here;
    eng_held_init(new);
    eng_vi_set_attrs(eng, vi, attrs);
}

void eng_vi_measure(struct eng *eng, uint16_t vi, struct eng_latency *latency)
{
    VIP_ASSERT(eng->config.latency);
    eng_vi_get(eng, vi)->latency = latency;
}

void eng_vi_destroy(struct eng *eng, uint16_t vi)
{
    struct eng_vi *old = eng_vi_get(eng, vi);

    for (uint32_t i = old->sq.head; i != old->sq.tail; i++)
        eng_desc_release(old, eng_desc_at(old, VIP_Q_SEND, i));
    for (uint32_t i = old->rq.head; i != old->rq.tail; i++)
        eng_desc_release(old, eng_desc_at(old, VIP_Q_RECV, i));
    eng_held_drop(old);
    eng_held_orphan(old);
    for (unsigned i = 0; i < ENG_LISTS; i++)
        eng_list_del(old, (enum eng_list_id)i);
    eng_timer_set(old, ENG_NEVER);
    eng->vi[vi] = NULL;
}

void eng_vi_set_attrs(struct eng *eng, uint16_t vi, const struct eng_vi_attrs *attrs)
{
    struct eng_vi *of = eng_vi_get(eng, vi);

    VIP_ASSERT(of->state == VIP_VIST_IDLE);
    VIP_ASSERT(attrs->max_transfer_bytes <= VIP_TRANSFER_BYTES_MAX);
    of->attrs = *attrs;
    of->level = attrs->level;
    of->reliable = attrs->level != VIP_LVL_UNRELIABLE;
}

enum vip_vi_state eng_vi_state(const struct eng *eng, uint16_t vi)
{
    return (enum vip_vi_state)eng_vi_get(eng, vi)->state;
}

uint64_t eng_vi_under_way(const struct eng *eng, uint16_t vi)
{
    const struct eng_vi *of = eng_vi_get(eng, vi);

    return of->tx.number - of->tx.una;
}

void eng_vi_stats(const struct eng *eng, uint16_t vi, struct eng_vi_stats *ret)
{
    const struct eng_vi *of = eng_vi_get(eng, vi);

    *ret = of->stats;
    ret->srtt_ns = of->tx.srtt_ns;
    ret->rto_ns = of->state == VIP_VIST_CONNECTED ? eng_loss_rto(of) : 0;
    ret->cwnd_bytes = of->tx.cc.now.window_bytes;
    ret->packet_bytes = of->tx.packet_bytes;
    ret->inflight_bytes = of->tx.inflight;
    ret->send_depth = of->sq.tail - of->sq.head;
    ret->recv_depth = of->rq.tail - of->rq.head;
}

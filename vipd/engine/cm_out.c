/* The connection manager gets memory and sends messages here: these functions call its host. */
#include "vipd/engine/cm_internal.h"

void *cm_alloc(struct cm *cm, size_t bytes)
{
    void *memory = cm->ops.alloc(cm->ctx, bytes);

    if (!memory)
        cm->stats.refused_memory++;
    return memory;
}

void cm_free(struct cm *cm, void *memory, size_t bytes)
{
    cm->ops.free(cm->ctx, memory, bytes);
}

void cm_send(struct cm *cm, const struct cm_host *to, uint64_t dst_epoch, const struct vip_cm *msg)
{
    uint8_t packet[VIP_WIRE_CM_BYTES_MAX];
    size_t len_bytes = vip_wire_put_cm(packet, cm->config.epoch, dst_epoch, msg);

    cm->ops.send(cm->ctx, to, packet, len_bytes);
}

void cm_answer(struct cm *cm, const struct cm_in *in, const struct vip_cm *msg)
{
    cm_send(cm, in->from, in->src_epoch, msg);
}

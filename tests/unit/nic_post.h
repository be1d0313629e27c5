/*
 * Actions of the applications of nic_app.h: register memory, create VIs, post, read completions.
 */
#ifndef TESTS_UNIT_NIC_POST_H
#define TESTS_UNIT_NIC_POST_H

#include "unit/nic_app.h"

/* Registered memory of an application. `at` is its address, for the test and for vipd. */
struct rig_mem {
    uint8_t *at;   /* the application's bytes */
    uint8_t *half; /* staged memory: the "out" half, then the "in" half; NULL for other memory */
    uint64_t bytes;
    uint32_t handle;
};

RIG struct rig_mem rig_mem(struct rig_app *app, uint64_t bytes, enum registry_kind kind)
{
    uint64_t pages = (bytes + 4095) & ~4095ull;
    int fd = rig_memfd(kind == REGISTRY_STAGED ? 2 * pages : pages);
    struct rig_mem mem = {.bytes = bytes};
    uint8_t *map = mmap(NULL, kind == REGISTRY_STAGED ? 2 * pages : pages, PROT_READ | PROT_WRITE,
                        MAP_SHARED, fd, 0);
    struct registry_region region = {
        .bytes = bytes,
        .kind = kind,
        .attrs = {.enable_rdma_write = true, .enable_rdma_read = true}};
    char why[128];

    assert_true(map != MAP_FAILED);
    mem.at = kind == REGISTRY_STAGED ? calloc(1, pages) : map;
    mem.half = kind == REGISTRY_STAGED ? map : NULL;
    region.addr = (uintptr_t)mem.at;
    assert_int_equal(registry_add(app->registry, &region, fd, &mem.handle, why, sizeof(why)),
                     VIP_RC_SUCCESS);
    return mem;
}

RIG void rig_mem_free(struct rig_mem *mem)
{
    uint64_t pages = (mem->bytes + 4095) & ~4095ull;

    if (mem->half) {
        munmap(mem->half, 2 * pages);
        free(mem->at);
    } else {
        munmap(mem->at, pages);
    }
}

RIG struct vip_shm_seg rig_seg(const struct rig_mem *mem, uint64_t offset, uint32_t len)
{
    return (struct vip_shm_seg){
        .addr = (uintptr_t)mem->at + offset, .handle = mem->handle, .len = len};
}

RIG uint16_t rig_vi_cq(struct rig_app *app, uint16_t level, int32_t send_cq, int32_t recv_cq)
{
    struct nic_vi_args args = {.attrs = {.level = level,
                                         .max_transfer_bytes = VIP_TRANSFER_BYTES_MAX,
                                         .enable_rdma_write = true,
                                         .enable_rdma_read = true},
                               .send_cq = send_cq,
                               .recv_cq = recv_cq};
    struct nic_vi_created created;
    char why[128];

    assert_int_equal(nic_vi_create(app->session, &args, &created, why, sizeof(why)),
                     VIP_RC_SUCCESS);
    app->comp_position[created.vi][VIP_Q_SEND] = created.send_position;
    app->comp_position[created.vi][VIP_Q_RECV] = created.recv_position;
    app->vi_gen[created.vi] = created.generation;
    return created.vi;
}

RIG uint16_t rig_vi(struct rig_app *app, uint16_t level)
{
    return rig_vi_cq(app, level, -1, -1);
}

/* Post a descriptor. Its continuation slots come first, so vipd finds no incomplete descriptor. */
RIG void rig_post(struct rig_app *app, uint16_t vi, enum vip_queue queue, uint16_t control,
                  uint64_t imm, const struct vip_shm_seg *segs, uint16_t count)
{
    struct vip_sq_slot slot = {.vi = vi,
                               .kind = queue == VIP_Q_SEND ? VIP_SQ_SEND : VIP_SQ_RECV,
                               .control = control,
                               .seg_count = count,
                               .imm = imm,
                               .vi_gen = app->vi_gen[vi]};
    unsigned first = (control & VIP_CTL_OP_MASK) != VIP_CTL_OP_SENDRECV;
    const struct vip_vipd_head *head = app->vipd;
    uint32_t slots = VIP_SQ_SLOTS_FOR(count);

    assert_true(app->sq_position + slots - vip_load32(&head->sq_cons) <= VIP_SQ_SLOTS);
    for (unsigned i = first; i < count; i++)
        slot.length += segs[i].len;
    if (count)
        memcpy(slot.seg, segs, (count < 2 ? count : 2u) * sizeof(*segs));
    for (unsigned done = 2, at = 1; done < count; done += 3, at++) {
        struct vip_sq_cont cont = {.vi = vi, .kind = VIP_SQ_CONT};
        struct vip_sq_slot as_slot;

        memcpy(cont.seg, segs + done, (count - done < 3 ? count - done : 3u) * sizeof(*segs));
        memcpy(&as_slot, &cont, sizeof(cont));
        vip_sq_write(vip_app_sq(app->app), app->sq_position + at, &as_slot);
    }
    vip_sq_write(vip_app_sq(app->app), app->sq_position, &slot);
    app->sq_position += slots;
}

RIG void rig_post_send(struct rig_app *app, uint16_t vi, struct vip_shm_seg seg)
{
    rig_post(app, vi, VIP_Q_SEND, VIP_CTL_OP_SENDRECV, 0, &seg, 1);
}

RIG void rig_post_recv(struct rig_app *app, uint16_t vi, struct vip_shm_seg seg)
{
    rig_post(app, vi, VIP_Q_RECV, VIP_CTL_OP_SENDRECV, 0, &seg, 1);
}

RIG void rig_post_write(struct rig_app *app, uint16_t vi, struct vip_shm_seg from,
                        struct vip_shm_seg to, bool imm)
{
    struct vip_shm_seg segs[2] = {to, from};

    segs[0].len = 0;
    rig_post(app, vi, VIP_Q_SEND, VIP_CTL_OP_RDMAWRITE | (imm ? VIP_CTL_IMMEDIATE : 0), 4711, segs,
             2);
}

RIG bool rig_done(struct rig_app *app, uint16_t vi, enum vip_queue queue, struct vip_comp *ret)
{
    if (!rig_comp_read(app, vi, queue, app->comp_position[vi][queue], ret))
        return false;
    app->comp_position[vi][queue]++;
    return true;
}

RIG bool rig_cq_done(struct rig_app *app, uint32_t cq, struct vip_cqe *ret)
{
    if (!vip_cq_read(vip_vipd_cq_ring(app->vipd, cq), app->cq_position[cq], ret))
        return false;
    app->cq_position[cq]++;
    vip_store32_release(&rig_cq_words(app, cq)->cons, app->cq_position[cq]);
    return true;
}

RIG bool rig_event(struct rig_app *app, char kind, struct rig_event *ret)
{
    for (unsigned i = 0; i < app->event_count; i++) {
        struct rig_event *event = &app->event[(app->event_head + i) % RIG_EVENTS];

        if (event->kind != kind)
            continue;
        *ret = *event;
        for (; i > 0; i--)
            app->event[(app->event_head + i) % RIG_EVENTS] =
                app->event[(app->event_head + i - 1) % RIG_EVENTS];
        app->event_head++;
        app->event_count--;
        return true;
    }
    return false;
}

/* Handle a Place event as libvipl's helper thread does. */
RIG void rig_place(struct rig_app *app, struct rig_mem *mem, const struct rig_event *event)
{
    uint64_t pages = (mem->bytes + 4095) & ~4095ull;

    assert_int_equal(event->handle, mem->handle);
    assert_true(event->offset + event->bytes <= mem->bytes);
    memcpy(mem->at + event->offset, mem->half + pages + event->offset, event->bytes);
    assert_true(nic_placed(app->session, event->number, true, rig_now));
}

#endif

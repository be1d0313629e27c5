/*
 * For tests of vipd/engine/ (not of the connection manager): one engine without a host. The test
 * makes the peer's packets, so the peer may be hostile. The rig records the engine's output.
 */
#ifndef TESTS_UNIT_ENG_RIG_H
#define TESTS_UNIT_ENG_RIG_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "eng_all.h"
#include "vipd/engine/engine.h"

#define RIG_MEM    65536u
#define RIG_HANDLE 0x77u
#define RIG_RECORD 4096u
#define RIG_VI     3u

struct rig_done {
    enum vip_queue queue;
    uint32_t status, length;
    uint64_t imm;
};

struct rig {
    struct eng *eng;
    void *memory, *vi_memory;
    uint64_t now_ns;
    uint8_t mem[RIG_MEM];    /* the application's only region; its address is 0 */
    uint8_t packet[RIG_MEM]; /* payload of the packet that the test feeds */
    struct rig_done done[RIG_RECORD];
    unsigned dones;
    struct eng_event event[RIG_RECORD];
    unsigned events;
    unsigned fetches;
    bool deny;       /* true: the engine can access no memory */
    bool spoil;      /* true: the engine can access memory, but cannot place bytes there */
    uint64_t number; /* packet number of the next packet that the test feeds */
    struct eng_packet out;
    struct vip_packet decoded; /* the latest packet that the test pulled from the engine */
};

static bool rig_check(void *ctx, const struct eng_access *access)
{
    struct rig *rig = ctx;

    return !rig->deny && access->handle == RIG_HANDLE &&
           (!access->len || (access->addr <= RIG_MEM && access->len <= RIG_MEM - access->addr));
}

static bool rig_place(void *ctx, const struct eng_access *access, uint32_t payload_offset)
{
    struct rig *rig = ctx;

    if (!rig_check(ctx, access) || rig->spoil)
        return false;
    assert_true(payload_offset <= RIG_MEM && access->len <= RIG_MEM - payload_offset);
    memcpy(rig->mem + access->addr, rig->packet + payload_offset, access->len);
    return true;
}

static void rig_complete(void *ctx, uint16_t vi, enum vip_queue queue, uint32_t status,
                         uint32_t length, uint64_t imm)
{
    struct rig *rig = ctx;

    assert_int_equal(vi, RIG_VI);
    assert_true(status & VIP_ST_DONE);
    rig->done[rig->dones++ % RIG_RECORD] = (struct rig_done){queue, status, length, imm};
}

static void rig_event(void *ctx, const struct eng_event *event)
{
    struct rig *rig = ctx;

    rig->event[rig->events++ % RIG_RECORD] = *event;
}

static void rig_fetch(void *ctx)
{
    ((struct rig *)ctx)->fetches++;
}

static struct vip_shm_seg *rig_segs_alloc(void *ctx, unsigned count)
{
    return malloc(count * sizeof(struct vip_shm_seg));
}

static void rig_segs_free(void *ctx, struct vip_shm_seg *segs, unsigned count)
{
    free(segs);
}

static void *rig_zeroed(size_t bytes)
{
    void *memory = aligned_alloc(64, (bytes + 63) & ~(size_t)63);

    assert_non_null(memory);
    memset(memory, 0, bytes);
    return memory;
}

static inline void rig_connect(struct rig *rig, uint32_t packet_bytes, uint32_t window_bytes)
{
    struct eng_conn conn = {.local_id = 11,
                            .remote_id = 22,
                            .local_epoch = 33,
                            .remote_epoch = 44,
                            .packet_bytes = packet_bytes,
                            .window_bytes = window_bytes,
                            .path = 5};

    rig->number = 1;
    eng_vi_connect(rig->eng, RIG_VI, &conn, rig->now_ns);
}

static inline struct rig *rig_new_with(uint16_t level, const struct eng_config *config)
{
    static const struct eng_ops ops = {.check = rig_check,
                                       .place = rig_place,
                                       .complete = rig_complete,
                                       .event = rig_event,
                                       .fetch_posts = rig_fetch,
                                       .segs_alloc = rig_segs_alloc,
                                       .segs_free = rig_segs_free};
    struct eng_vi_attrs attrs = {.level = level,
                                 .max_transfer_bytes = VIP_TRANSFER_BYTES_MAX,
                                 .enable_rdma_write = true,
                                 .enable_rdma_read = true};
    struct rig *rig = calloc(1, sizeof(*rig));

    assert_non_null(rig);
    rig->now_ns = 1000000000;
    rig->memory = rig_zeroed(eng_bytes());
    rig->vi_memory = rig_zeroed(eng_vi_bytes());
    rig->eng = eng_init(rig->memory, config, &ops, rig, rig->now_ns);
    eng_vi_create(rig->eng, RIG_VI, rig->vi_memory, &attrs);
    return rig;
}

static inline struct rig *rig_new(uint16_t level)
{
    struct rig *rig = rig_new_with(level, &ENG_CONFIG_DEFAULT);

    rig_connect(rig, 1472, 1 << 20);
    return rig;
}

static inline void rig_free(struct rig *rig)
{
    uint32_t token;
    uint16_t vi;
    bool feed;

    if (rig->vi_memory)
        eng_vi_destroy(rig->eng, RIG_VI);
    while (eng_replay(rig->eng, &vi, &token, &feed))
        assert_false(feed);
    free(rig->vi_memory);
    free(rig->memory);
    free(rig);
}

/* ---- the application ------------------------------------------------------------------- */

static inline void rig_post(struct rig *rig, enum vip_queue queue, uint16_t control, uint64_t addr,
                            uint32_t len)
{
    struct vip_shm_seg segs[2] = {{.addr = 0x5000, .handle = 0x99},
                                  {.addr = addr, .handle = RIG_HANDLE, .len = len}};
    bool rdma = (control & VIP_CTL_OP_MASK) != VIP_CTL_OP_SENDRECV;
    struct eng_post post = {.vi = RIG_VI,
                            .queue = queue,
                            .control = control,
                            .seg_count = rdma ? 2 : 1,
                            .length = len,
                            .imm = 7,
                            .app_segs = rdma ? segs : segs + 1};

    eng_post(rig->eng, &post, rig->now_ns);
}

static inline void rig_recv(struct rig *rig, uint64_t addr, uint32_t len)
{
    rig_post(rig, VIP_Q_RECV, 0, addr, len);
}

static inline void rig_send(struct rig *rig, uint64_t addr, uint32_t len)
{
    rig_post(rig, VIP_Q_SEND, 0, addr, len);
}

#include "eng_rig_peer.h"

#endif

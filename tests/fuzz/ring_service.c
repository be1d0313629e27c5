/*
 * Fuzz: a NIC with a hostile session and the sessions of two victims. The hostile session writes
 * arbitrary slots into its submission ring and arbitrary values into its waiter words, and makes
 * control requests. Meanwhile the victims exchange messages. Only the hostile session may fail.
 */
#include "fuzz/fuzz.h"

#include "unit/nic_rig.h"

#define VIS      4u
#define REGION   65536u
#define MESSAGE  600u
#define STEP_MAX 200u

/* The hostile program. Its session has the callbacks on_... for events. */
static struct hostile {
    struct nic_session *session; /* NULL after vipd has ended it */
    struct registry *registry;
    uint8_t *app, *vipd;
    uint32_t position; /* position of the next slot in its ring */
    struct rig_mem mem;
    uint16_t vi[VIS];
    uint32_t gen[VIS];
    uint64_t handle, placed;
} h;

static struct rig_app *victim[2];
static struct rig_mem memory[2];
static uint16_t victim_vi[2];
static uint32_t sent;

/* ---- events of the hostile session ----------------------------------------------------------- */

static void on_incoming(void *ctx, uint64_t wait_id, uint64_t conn_handle,
                        const struct vip_addr *remote, const struct vip_cm_attrs *attrs,
                        const struct vip_private *data)
{
    h.handle = conn_handle;
}

static void on_result(void *ctx, uint16_t vi, uint32_t generation, enum vip_rc rc,
                      const struct vip_cm_attrs *attrs, const struct vip_private *data,
                      const char *why)
{
    FUZZ_CHECK(vi < RIG_VIS);
}

static void on_error(void *ctx, enum vip_resource resource, enum vip_error_code code, uint16_t vi,
                     uint32_t generation, uint32_t opcode, const char *why)
{
    FUZZ_CHECK(why);
}

static void on_place(void *ctx, uint64_t number, uint32_t handle, uint64_t offset, uint64_t bytes)
{
    FUZZ_CHECK(number > h.placed);
    h.placed = number;
}

static const struct nic_sink sink = {.incoming = on_incoming,
                                     .result = on_result,
                                     .error = on_error,
                                     .place = on_place,
                                     .fetch = on_place};

/* ---- set-up ---------------------------------------------------------------------------------- */

static void hostile_vi(unsigned i, uint16_t level, int32_t cq)
{
    struct nic_vi_args args = {.attrs = {.level = level,
                                         .max_transfer_bytes = 32768,
                                         .enable_rdma_write = true,
                                         .enable_rdma_read = level != VIP_LVL_UNRELIABLE},
                               .send_cq = cq,
                               .recv_cq = cq};
    struct nic_vi_created created;
    char why[256];

    FUZZ_CHECK(nic_vi_create(h.session, &args, &created, why, sizeof(why)) == VIP_RC_SUCCESS);
    h.vi[i] = created.vi;
    h.gen[i] = created.generation;
}

static void hostile_connect(unsigned a, unsigned b)
{
    struct nic_connect_args args = {
        .local = rig_vip_addr(0, "h"), .remote = rig_vip_addr(0, "h"), .timeout_ns = RIG_SECOND};
    char why[256];
    uint64_t wait;
    bool found;

    h.handle = 0;
    if (nic_connect_wait(h.session, &args.local, false, rig_now, &wait, &found, NULL, 0) !=
            VIP_RC_SUCCESS ||
        nic_connect(h.session, h.vi[a], &args, rig_now, why, sizeof(why)) != VIP_RC_SUCCESS)
        return;
    rig_steps(6);
    if (h.handle)
        nic_accept(h.session, h.handle, h.vi[b], NULL, rig_now, why, sizeof(why));
    rig_steps(6);
}

static void hostile_open(void)
{
    struct registry_limits limits = {.regions_max = 8, .bytes_max = 1 << 20, .ptags_max = 4};
    struct nic_session_args args = {.id = 9, .layout = nic_layout(VIP_SHM_ABI), .sink = &sink};
    struct rig_app as_app = {0};
    uint32_t cq, position;
    char why[256];

    h = (struct hostile){.app = rig_map(VIP_APP_BYTES), .vipd = rig_map(VIP_VIPD_BYTES)};
    FUZZ_CHECK(registry_new(&limits, rig_memfd(VIP_ARENA_BYTES), &h.registry) == 0);
    args.app_base = h.app;
    args.vipd_base = h.vipd;
    args.registry = h.registry;
    FUZZ_CHECK(nic_session_new(rig_nics[0], &args, rig_now, &h.session) == 0);
    as_app.registry = h.registry;
    h.mem = rig_mem(&as_app, REGION, REGISTRY_SHARED);
    FUZZ_CHECK(nic_cq_create(h.session, 64, &cq, &position, why, sizeof(why)) == VIP_RC_SUCCESS);
    hostile_vi(0, VIP_LVL_DELIVERY, -1);
    hostile_vi(1, VIP_LVL_DELIVERY, (int32_t)cq);
    hostile_vi(2, VIP_LVL_UNRELIABLE, (int32_t)cq);
    hostile_vi(3, VIP_LVL_UNRELIABLE, -1);
    hostile_connect(0, 1);
    hostile_connect(2, 3);
}

/* End the session, as vipd does when a session is broken or its program has ended. */
static void hostile_end(bool died)
{
    if (!h.session)
        return;
    nic_session_free(h.session, died, rig_now);
    registry_free(h.registry);
    rig_mem_free(&h.mem);
    h.session = NULL;
}

static void victims_open(void)
{
    for (unsigned i = 0; i < 2; i++) {
        victim[i] = rig_app(rig_nics[0]);
        memory[i] = rig_mem(victim[i], 65536, REGISTRY_SHARED);
        victim_vi[i] = rig_vi(victim[i], VIP_LVL_RECEPTION);
    }
    rig_connect(victim[0], victim_vi[0], 0, victim[1], victim_vi[1], 0);
    sent = 0;
}

/* Send a message from one victim to the other; it must arrive undamaged. */
static void victims_exchange(void)
{
    struct vip_comp comp;

    sent++;
    rig_fill(memory[0].at, MESSAGE, sent);
    memset(memory[1].at, 0, MESSAGE);
    rig_post_recv(victim[1], victim_vi[1], rig_seg(&memory[1], 0, MESSAGE));
    rig_post_send(victim[0], victim_vi[0], rig_seg(&memory[0], 0, MESSAGE));
    comp = rig_wait_done(victim[1], victim_vi[1], VIP_Q_RECV);
    FUZZ_CHECK(!(comp.status & VIP_ST_ERROR_MASK) && comp.length == MESSAGE);
    FUZZ_CHECK(memcmp(memory[0].at, memory[1].at, MESSAGE) == 0);
    comp = rig_wait_done(victim[0], victim_vi[0], VIP_Q_SEND);
    FUZZ_CHECK(!(comp.status & VIP_ST_ERROR_MASK));
}

/* ---- the script ------------------------------------------------------------------------------ */

static struct vip_shm_seg any_seg(struct fuzz_in *in)
{
    uint8_t how = fuzz_8(in);
    struct vip_shm_seg seg = {.addr = (uintptr_t)h.mem.at + (how & 15) * 4096u,
                              .handle = h.mem.handle,
                              .len = how & 16 ? 4096 : how >> 5};

    if (how >= 240) {
        seg.addr = how & 1 ? fuzz_number(in) : seg.addr + REGION;
        seg.handle = how & 2 ? (uint32_t)fuzz_number(in) : seg.handle;
        seg.len = how & 4 ? (uint32_t)fuzz_number(in) : seg.len;
    }
    return seg;
}

/* Write a slot as libvipl does, but with some wrong fields. */
static void write_slot(struct fuzz_in *in)
{
    uint8_t how = fuzz_8(in), what = fuzz_8(in);
    struct vip_sq_slot slot = {.vi = h.vi[what % VIS],
                               .kind = how & 1 ? VIP_SQ_RECV : VIP_SQ_SEND,
                               .control = what >> 2 & 15,
                               .seg_count = what >> 6,
                               .vi_gen = h.gen[what % VIS]};
    uint32_t at = h.position;
    unsigned skip = (slot.control & VIP_CTL_OP_MASK) != VIP_CTL_OP_SENDRECV;

    for (unsigned i = 0; i < VIP_SQ_INLINE_SEGS; i++) {
        slot.seg[i] = any_seg(in);
        if (i >= skip && i < slot.seg_count)
            slot.length += slot.seg[i].len;
    }
    if (skip)
        slot.seg[0].len = 0;
    if (how & 2)
        slot.kind = fuzz_8(in);
    if (how & 4)
        slot.seg_count = fuzz_16(in) % 300;
    if (how & 8)
        slot.vi = fuzz_16(in);
    if (how & 16)
        slot.length = (uint32_t)fuzz_number(in);
    if (how & 32)
        slot.reserved1 = fuzz_8(in);
    if (how & 128)
        slot.flags = how >> 1 & 3;
    if (how & 64)
        at += fuzz_8(in);
    vip_sq_write(vip_app_sq(h.app), at, &slot);
    if (!(how & 64))
        h.position++;
}

/* After the last slot, write continuation slots, or slots with the descriptor's message. */
static void write_conts(struct fuzz_in *in)
{
    unsigned count = fuzz_8(in) % 90;
    uint8_t how = fuzz_8(in);

    while (count--) {
        struct vip_sq_cont cont = {.vi = h.vi[how % VIS], .kind = VIP_SQ_CONT};
        struct vip_sq_slot slot;

        for (unsigned i = 0; i < VIP_SQ_CONT_SEGS; i++)
            cont.seg[i] = (struct vip_shm_seg){(uintptr_t)h.mem.at, h.mem.handle, how >> 4};
        memcpy(&slot, &cont, sizeof(slot));
        if (how >= 0xE0) {
            struct vip_sq_msg part = {
                .vi = cont.vi, .kind = VIP_SQ_MSG, .len = (uint16_t)(how == 0xFF ? 257 : how)};

            memcpy(&slot, &part, sizeof(slot));
        }
        vip_sq_write(vip_app_sq(h.app), h.position++, &slot);
    }
}

static void write_raw(struct fuzz_in *in)
{
    static const uint32_t places[] = {
        0, 64, VIP_APP_VI_OFF, VIP_APP_CQ_OFF, VIP_APP_CQ_OFF + 8, VIP_APP_SQ_OFF};
    uint8_t how = fuzz_8(in);
    uint32_t at =
        places[how % 6] + (how % 6 == 5 ? (h.position & (VIP_SQ_SLOTS - 1)) * 64u : 0) + fuzz_8(in);
    unsigned count = 1 + (how >> 3) % 32;

    if (at + count <= VIP_APP_BYTES)
        fuzz_bytes(in, h.app + at, count);
}

static void control(struct fuzz_in *in)
{
    uint8_t how = fuzz_8(in), arg = fuzz_8(in);
    struct nic_vi_args args = {.attrs = {.level = 1u << arg % 3, .max_transfer_bytes = 4096},
                               .send_cq = -1,
                               .recv_cq = arg >> 6 ? -1 : 0};
    struct nic_vi_created created;
    struct nic_session_view view;
    char why[256] = "";
    uint32_t cq, position;

    switch (how % 10) {
    case 0:
        nic_vi_disconnect(h.session, h.vi[arg % VIS], rig_now);
        break;
    case 1:
        nic_vi_destroy(h.session, arg % (VIS + 2), rig_now);
        break;
    case 2:
        if (nic_vi_create(h.session, &args, &created, why, sizeof(why)) == VIP_RC_SUCCESS) {
            h.vi[arg % VIS] = created.vi;
            h.gen[arg % VIS] = created.generation;
        }
        break;
    case 3:
        nic_cq_resize(h.session, arg & 1, fuzz_16(in));
        break;
    case 4:
        nic_cq_destroy(h.session, arg & 3);
        break;
    case 5:
        nic_cq_create(h.session, 1 + arg, &cq, &position, why, sizeof(why));
        break;
    case 6:
        if (!nic_placed(h.session, fuzz_number(in), true, rig_now))
            hostile_end(true);
        break;
    case 7:
        hostile_connect(arg % VIS, arg / VIS % VIS);
        break;
    case 8:
        nic_session_view(h.session, &view);
        nic_vi_set_attrs(h.session, h.vi[arg % VIS], &args);
        break;
    default:
        if (nic_try_sleep(rig_nics[0]))
            nic_awake(rig_nics[0]);
    }
}

static void step(struct fuzz_in *in)
{
    uint8_t what = fuzz_8(in);

    switch (what % 8) {
    case 0:
    case 1:
    case 2:
        for (unsigned i = 0; i <= what >> 6; i++)
            write_slot(in);
        break;
    case 3:
        write_conts(in);
        break;
    case 4:
        write_raw(in);
        break;
    case 5:
        control(in);
        break;
    case 6:
        rig_steps(1 + (what >> 3));
        break;
    default:
        if (what < 64)
            rig_pass((uint64_t)fuzz_8(in) * 1000000);
        else
            victims_exchange();
    }
    if (h.session && nic_session_broken(h.session))
        hostile_end(true);
}

void fuzz_one(const uint8_t *bytes, size_t len)
{
    struct fuzz_in in = {bytes, bytes + len};
    void *none = NULL;

    rig_reset();
    rig_now = 1000000000;
    rig_nic_class(0, fuzz_8(&in) & 1 ? &rig_fault_class : &rig_class);
    victims_open();
    hostile_open();
    for (unsigned i = 0; i < STEP_MAX && h.session && fuzz_more(&in); i++)
        step(&in);
    victims_exchange();
    hostile_end(false);
    victims_exchange();
    munmap(h.app, VIP_APP_BYTES);
    munmap(h.vipd, VIP_VIPD_BYTES);
    for (unsigned i = 0; i < 2; i++)
        rig_mem_free(&memory[i]);
    rig_teardown(&none);
}

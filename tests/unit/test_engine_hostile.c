/*
 * A seed makes random packets of a peer and random descriptors of an application. No packet that
 * passes the codec, and no descriptor, may break an assertion, reach memory outside a region, or
 * change the order of completions.
 */
#include "eng_rig.h"

static uint64_t seed_state;

static uint32_t chance(uint32_t limit)
{
    seed_state ^= seed_state >> 12;
    seed_state ^= seed_state << 25;
    seed_state ^= seed_state >> 27;
    return (uint32_t)((seed_state * 0x2545f4914f6cdd1dull) >> 33) % limit;
}

/* Most frames are near the values that the engine expects, so it accepts many of them. */
static struct vip_frame any_frame(uint32_t op)
{
    struct vip_frame frame = {.type = (uint8_t)(1 + chance(4))};

    frame.op = op + (chance(4) ? chance(3) : chance(3) - 2);
    if (chance(200) == 0)
        frame.op = chance(UINT32_MAX);
    frame.total = chance(3) ? chance(3000) : 0;
    if (frame.type != VIP_FRM_READ_REQ) {
        frame.offset = frame.total && chance(2) ? chance(frame.total) : 0;
        frame.length = frame.total ? 1 + chance(frame.total - frame.offset) : 0;
        if (chance(2))
            frame.length = frame.total - frame.offset;
        frame.payload = chance(1000);
    }
    if (frame.offset + frame.length == frame.total || frame.type == VIP_FRM_READ_REQ)
        frame.flags = VIP_FRMF_LAST;
    if (frame.flags && frame.type < VIP_FRM_READ_REQ && chance(2))
        frame.flags |= VIP_FRMF_IMMEDIATE;
    if (frame.type == VIP_FRM_WRITE || frame.type == VIP_FRM_READ_REQ) {
        frame.handle = chance(10) ? RIG_HANDLE : chance(1000);
        frame.remote_addr = chance(10) ? chance(RIG_MEM) : UINT64_MAX - chance(3000);
    }
    return frame;
}

static void any_packet(struct rig *rig, struct vip_packet *packet, uint32_t op)
{
    struct vip_frame frames[4];
    unsigned count = chance(5);

    for (unsigned i = 0; i < count; i++)
        frames[i] = any_frame(op + i);
    *packet = rig_packet(rig, count, frames);
    if (chance(5) == 0)
        packet->hdr.packet_number = chance(2) ? chance(3000) : rig->number + chance(3000);
    if (chance(50) == 0)
        packet->hdr.packet_number = ((uint64_t)chance(UINT32_MAX) << 32) + chance(UINT32_MAX);
    if (chance(3) == 0) {
        uint32_t at = 0;

        packet->hdr.flags |= VIP_PKTF_ACK;
        packet->hdr.ack_cumulative = chance(40);
        packet->hdr.ops_done = chance(10) ? chance(12) : chance(UINT32_MAX);
        packet->hdr.ts_echo = chance(UINT32_MAX);
        packet->hdr.ack_delay = chance(UINT32_MAX);
        packet->hdr.range_count = (uint16_t)chance(4);
        for (unsigned i = 0; i < packet->hdr.range_count; i++) {
            packet->ranges[i].start = at + 1 + chance(5);
            packet->ranges[i].end = packet->ranges[i].start + 1 + chance(5);
            at = packet->ranges[i].end;
        }
    }
}

static void any_post(struct rig *rig)
{
    struct vip_shm_seg segs[VIP_SEGS_PER_DESC_MAX + 1];
    struct eng_post post = {.vi = RIG_VI,
                            .queue = chance(2) ? VIP_Q_SEND : VIP_Q_RECV,
                            .control = chance(20) ? (uint16_t)chance(16) : (uint16_t)chance(65536),
                            .reserved = chance(50) == 0,
                            .imm = chance(UINT32_MAX),
                            .app_segs = segs};

    if (chance(2))
        post.control &= VIP_CTL_IMMEDIATE;
    post.seg_count = (uint16_t)(chance(10) ? chance(4) : chance(VIP_SEGS_PER_DESC_MAX + 2));
    for (unsigned i = 0; i < post.seg_count; i++) {
        segs[i].addr = chance(50) ? chance(RIG_MEM / 2) : UINT64_MAX - chance(100);
        segs[i].handle = chance(50) ? RIG_HANDLE : chance(1000);
        segs[i].len = chance(50) ? chance(2000) : chance(UINT32_MAX);
        if (i || (post.control & VIP_CTL_OP_MASK) == VIP_CTL_OP_SENDRECV)
            post.length += segs[i].len;
    }
    if (chance(50) == 0)
        post.length++;
    eng_post(rig->eng, &post, rig->now_ns);
}

#define TOKENS 600u
static struct vip_packet kept[TOKENS];
static bool kept_used[TOKENS];

static uint32_t token_free(void)
{
    for (uint32_t i = 1; i < TOKENS; i++)
        if (!kept_used[i])
            return i;
    fail_msg("tokens leak");
    return 0;
}

static void replay(struct rig *rig)
{
    uint32_t token;
    uint16_t vi;
    bool feed;

    while (eng_replay(rig->eng, &vi, &token, &feed)) {
        assert_true(kept_used[token]);
        kept_used[token] = false;
        if (feed)
            eng_rx_replay(rig->eng, vi, &kept[token], rig->now_ns);
    }
}

static void again(struct rig *rig)
{
    uint32_t ops_done;

    eng_vi_disconnect(rig->eng, RIG_VI, &ops_done);
    replay(rig);
    rig_connect(rig, 512 + chance(2000), 1000 + chance(100000));
}

static void one_life(uint64_t seed)
{
    static const uint16_t levels[] = {VIP_LVL_UNRELIABLE, VIP_LVL_DELIVERY, VIP_LVL_RECEPTION};
    struct rig *rig;
    uint32_t op = 0;

    seed_state = seed * 0x9e3779b97f4a7c15ull + 1;
    rig = rig_new_with(levels[chance(3)], &ENG_CONFIG_DEFAULT);
    rig_connect(rig, 512 + chance(2000), 1000 + chance(100000));
    for (unsigned i = 0; i < 400; i++) {
        uint32_t token;
        struct vip_packet packet;

        switch (chance(6)) {
        case 0:
        case 1:
            any_post(rig);
            break;
        case 2:
            rig->now_ns += chance(3000000);
            eng_tick(rig->eng, rig->now_ns);
            break;
        case 3:
            if (eng_tx_pull(rig->eng, &rig->out, rig->now_ns) && chance(30) == 0)
                eng_tx_failed(rig->eng, RIG_VI, rig->out.op, rig->now_ns);
            break;
        default:
            token = token_free();
            any_packet(rig, &packet, op);
            if (rig_feed_as(rig, token, &packet) == ENG_RX_HOLD) {
                kept[token] = packet;
                kept_used[token] = true;
            }
            op += chance(3) == 0;
        }
        rig->deny = chance(20) == 0;
        replay(rig);
        if (eng_vi_state(rig->eng, RIG_VI) == VIP_VIST_ERROR || chance(200) == 0) {
            again(rig);
            op = 0;
        }
    }
    eng_vi_destroy(rig->eng, RIG_VI);
    free(rig->vi_memory);
    rig->vi_memory = NULL;
    replay(rig);
    for (uint32_t i = 0; i < TOKENS; i++)
        assert_false(kept_used[i]);
    rig_free(rig);
}

static void lives(void **state)
{
    for (uint64_t seed = 0; seed < 1500; seed++)
        one_life(seed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(lives)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}

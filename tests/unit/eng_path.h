/*
 * A path to a peer, for tests with eng_rig.h. The path loses packets that are larger than a limit,
 * and packets that the test names. The peer checks the packets that arrive, and acknowledges them
 * with ranges as a receiver does.
 */
#ifndef TESTS_UNIT_ENG_PATH_H
#define TESTS_UNIT_ENG_PATH_H

#include "eng_rig.h"

#define PATH_NUMBERS 65536u /* largest packet number that the peer can record */
#define PATH_OPS     1024u
#define PATH_MESSAGE 60000u /* length of the longest message in bytes */
#define PATH_RTT_NS  1000000u

struct path {
    struct rig *rig;
    uint32_t hole_bytes;         /* larger packets are lost; 0: the path takes all sizes */
    uint64_t drop_from, drop_to; /* packets from drop_from to drop_to - 1 are lost, too */
    bool arrived[PATH_NUMBERS];  /* true: the packet with this number has arrived */
    uint64_t largest;            /* largest packet number that arrived */
    uint8_t *got[PATH_OPS];      /* for each operation: not 0 where a byte has arrived */
    uint32_t have[PATH_OPS];     /* for each operation: number of bytes that arrived */
    uint32_t total[PATH_OPS];    /* for each operation: its length, if known[] is set */
    bool known[PATH_OPS];
    uint32_t ops_done;
    bool news;           /* a packet has arrived since the last acknowledgement */
    uint64_t sent, lost; /* number of packets that the engine sent; number that were lost */
    uint32_t bytes_max;  /* size of the largest packet since the test set this to 0 */
};

static inline struct path *path_new(const struct eng_config *config, uint32_t packet_bytes)
{
    struct path *path = calloc(1, sizeof(*path));

    assert_non_null(path);
    path->rig = rig_new_with(VIP_LVL_DELIVERY, config);
    rig_connect(path->rig, packet_bytes, 1u << 30);
    return path;
}

static inline void path_free(struct path *path)
{
    for (unsigned i = 0; i < PATH_OPS; i++)
        free(path->got[i]);
    rig_free(path->rig);
    free(path);
}

static inline void path_frame(struct path *path, const struct vip_frame *frame)
{
    assert_true(frame->op < PATH_OPS && frame->total <= PATH_MESSAGE);
    assert_true(frame->offset + frame->length <= frame->total);
    if (!path->got[frame->op])
        path->got[frame->op] = calloc(1, PATH_MESSAGE);
    assert_true(!path->known[frame->op] || path->total[frame->op] == frame->total);
    path->known[frame->op] = true;
    path->total[frame->op] = frame->total;
    for (uint32_t i = frame->offset; i < frame->offset + frame->length; i++)
        path->have[frame->op] += !path->got[frame->op][i]++;
}

/* Pull all packets that the engine sends now. Returns their number. */
static inline unsigned path_take(struct path *path)
{
    unsigned count = 0;

    for (; rig_pull(path->rig); count++) {
        const struct vip_header *hdr = &path->rig->decoded.hdr;
        uint64_t number = hdr->packet_number;

        assert_true(number < PATH_NUMBERS);
        path->sent++;
        if (path->rig->out.bytes > path->bytes_max)
            path->bytes_max = path->rig->out.bytes;
        if ((path->hole_bytes && path->rig->out.bytes > path->hole_bytes) ||
            (number >= path->drop_from && number < path->drop_to)) {
            path->lost++;
            continue;
        }
        assert_false(path->arrived[number]);
        path->arrived[number] = path->news = true;
        if (number > path->largest)
            path->largest = number;
        for (unsigned i = 0; i < hdr->frame_count; i++)
            path_frame(path, &path->rig->decoded.frames[i]);
    }
    while (path->known[path->ops_done] && path->have[path->ops_done] == path->total[path->ops_done])
        path->ops_done++;
    return count;
}

/* Acknowledge the packets that have arrived. If there are too many ranges, send only the newest. */
static inline void path_answer(struct path *path)
{
    struct vip_range ranges[VIP_WIRE_RANGES_MAX];
    struct vip_packet ack;
    uint64_t base = 1;
    unsigned count = 0;

    path->news = false;
    while (path->arrived[base])
        base++;
    for (uint64_t n = path->largest; n > base && count < VIP_WIRE_RANGES_MAX; count++) {
        struct vip_range *range = &ranges[VIP_WIRE_RANGES_MAX - 1 - count];

        range->end = (uint32_t)(n + 1 - base);
        while (path->arrived[n])
            n--;
        range->start = (uint32_t)(n + 1 - base);
        while (n > base && !path->arrived[n])
            n--;
    }
    ack = rig_ack(path->rig, base, path->ops_done);
    ack.hdr.ts_echo = (uint32_t)((path->rig->now_ns - PATH_RTT_NS) >> VIP_WIRE_TICK_SHIFT);
    ack.hdr.range_count = (uint16_t)count;
    memcpy(ack.ranges, ranges + VIP_WIRE_RANGES_MAX - count, count * sizeof(ranges[0]));
    assert_int_equal(rig_feed_as(path->rig, 1, &ack), ENG_RX_DONE);
}

/* One round trip: the engine sends, timers run, the peer acknowledges the arrived packets. */
static inline void path_round(struct path *path)
{
    struct rig *rig = path->rig;
    uint64_t until_ns = rig->now_ns + PATH_RTT_NS;

    (void)path_take(path);
    while (eng_deadline(rig->eng) <= until_ns) {
        if (eng_deadline(rig->eng) > rig->now_ns)
            rig->now_ns = eng_deadline(rig->eng);
        eng_tick(rig->eng, rig->now_ns);
        (void)path_take(path);
    }
    rig->now_ns = until_ns;
    if (path->news)
        path_answer(path);
}

static inline struct eng_vi_stats path_stats(const struct path *path)
{
    struct eng_vi_stats stats;

    eng_vi_stats(path->rig->eng, RIG_VI, &stats);
    return stats;
}

#endif

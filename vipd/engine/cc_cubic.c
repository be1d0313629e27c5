/*
 * CUBIC (RFC 9438): after a loss the window returns along a cubic curve of time to its old size,
 * stays there for some time, and then grows further. Most traffic of the Internet uses CUBIC. It
 * treats each loss as congestion, so it is slow where packets are lost for other reasons.
 */
#include "vipd/engine/cc.h"

/* The curve, in packets: 0.4 * t^3 with t in s, or t^3 * CURVE_NUM / CURVE_DIV with t in ms. */
#define CURVE_NUM 4
#define CURVE_DIV 10000000000ull
/* Largest time on the curve, in ms: its cube fits in 64 bits. The window reaches its limit
 * earlier. */
#define CURVE_MS_MAX 1000000ull

/* Returns the largest x with x^3 <= v. */
static uint64_t cube_root(uint64_t v)
{
    uint64_t x = 0;

    for (uint64_t bit = 1ull << 20; bit; bit >>= 1) {
        uint64_t y = x + bit;

        if (y * y * y <= v)
            x = y;
    }
    return x;
}

static void cubic_start(struct eng_cc *cc)
{
    cc->now.cubic = (struct eng_cc_cubic){.threshold_bytes = UINT64_MAX};
}

static void curve_begin(struct eng_cc *cc, uint64_t now_ns)
{
    struct eng_cc_cubic *cubic = &cc->now.cubic;
    uint64_t window = cc->now.window_bytes, missing;

    if (cubic->top_bytes < window)
        cubic->top_bytes = window;
    missing = (cubic->top_bytes - window) / cc->packet_bytes;
    if (missing > UINT32_MAX / 2)
        missing = UINT32_MAX / 2;
    cubic->reach_ms = cube_root(missing * (CURVE_DIV / CURVE_NUM));
    cubic->begin_ns = now_ns;
    cubic->reno_bytes = window;
}

/* Value of the curve at now_ns, in bytes. */
static uint64_t curve(const struct eng_cc *cc, uint64_t now_ns)
{
    const struct eng_cc_cubic *cubic = &cc->now.cubic;
    uint64_t ms = (now_ns - cubic->begin_ns) / 1000000, apart, bytes;
    bool before = ms < cubic->reach_ms;

    apart = before ? cubic->reach_ms - ms : ms - cubic->reach_ms;
    if (apart > CURVE_MS_MAX)
        apart = CURVE_MS_MAX;
    bytes = apart * apart * apart / (CURVE_DIV / CURVE_NUM) * cc->packet_bytes;
    if (before)
        return bytes < cubic->top_bytes ? cubic->top_bytes - bytes : 0;
    return cubic->top_bytes + bytes;
}

static void cubic_acked(struct eng_cc *cc, const struct eng_cc_ack *ack)
{
    struct eng_cc_cubic *cubic = &cc->now.cubic;
    uint64_t window = cc->now.window_bytes, target;

    /* If the window was not used up, its size proves nothing about the path. */
    if (!ack->limited || window >= cc->limit_bytes)
        return;
    if (window < cubic->threshold_bytes) {
        eng_cc_set(cc, window + ack->bytes);
        return;
    }
    if (!cubic->begin_ns)
        curve_begin(cc, ack->now_ns);
    /* RFC 9438, 4.3: additive increase by 3 * (1 - 0.7) / (1 + 0.7) packets per round trip. */
    cubic->reno_bytes += ack->bytes * cc->packet_bytes * 9 / 17 / window;
    target = curve(cc, ack->now_ns);
    if (target > window + window / 2)
        target = window + window / 2;
    if (target > window)
        window += (target - window) * ack->bytes / window;
    eng_cc_set(cc, window > cubic->reno_bytes ? window : cubic->reno_bytes);
}

static void cubic_lost(struct eng_cc *cc, const struct eng_cc_loss *loss, bool first)
{
    struct eng_cc_cubic *cubic = &cc->now.cubic;
    uint64_t window = cc->now.window_bytes;

    (void)loss;
    if (!first)
        return;
    /* A loss below the old top shows that a new connection uses the path. A lower top leaves room
     * for that connection. */
    cubic->top_bytes = window < cubic->top_bytes ? window * 17 / 20 : window;
    cubic->begin_ns = 0;
    eng_cc_set(cc, window - window * 3 / 10);
    cubic->threshold_bytes = cc->now.window_bytes;
}

static void cubic_silence(struct eng_cc *cc)
{
    struct eng_cc_cubic *cubic = &cc->now.cubic;
    uint64_t half = cc->now.window_bytes / 2, floor = eng_cc_floor(cc);

    cubic->top_bytes = cc->now.window_bytes;
    cubic->threshold_bytes = half > floor ? half : floor;
    cubic->begin_ns = 0;
    eng_cc_set(cc, 0);
}

static bool cubic_searching(const struct eng_cc *cc)
{
    return cc->now.window_bytes < cc->now.cubic.threshold_bytes;
}

const struct eng_cc_class eng_cc_cubic = {.name = "cubic",
                                          .start = cubic_start,
                                          .acked = cubic_acked,
                                          .lost = cubic_lost,
                                          .silence = cubic_silence,
                                          .paced = true,
                                          .searching = cubic_searching};

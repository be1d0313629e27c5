/*
 * goodput: measures the speed of a VI on a link of 10 Gb/s and 50 us each way. The runs differ in
 * random loss (in both directions), packet size and congestion control. It also measures how two
 * VIs share the link, and the round trip of a ping of 64 bytes beside a bulk transfer. Time is
 * virtual, so the figures are exact and repeatable. The program fails if a figure of the default
 * congestion control is too low.
 *
 *   goodput [--congestion delay|cubic|fixed] [--seed N] [--ms DURATION]
 *
 * Goodput is the payload of completed messages, without headers, as a share of the link's rate.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/sim/goodput_world.h"

#define MS           1000000ull
#define LINK_BITS    10000000000ull
#define LINK_DELAY   50000ull
#define QUEUE_BYTES  262144u
#define WINDOW_BYTES (4u << 20)
#define MESSAGE      65536u
#define DEPTH        128u

static const char *const names[] = {"delay", "cubic", "fixed"};

static struct {
    enum eng_congestion congestion;
    uint64_t seed, run_ns;
    bool bad;
} args = {.congestion = ENG_CONGESTION_DELAY, .seed = 1, .run_ns = 400 * MS};

static struct gp *world(uint32_t packet_bytes, uint32_t loss_ppm, unsigned vis)
{
    struct gp_config config = {.seed = args.seed,
                               .link = {.bits_per_s = LINK_BITS,
                                        .delay_ns = LINK_DELAY,
                                        .queue_bytes = QUEUE_BYTES,
                                        .loss_ppm = loss_ppm},
                               .engine = ENG_CONFIG_DEFAULT,
                               .packet_bytes = packet_bytes,
                               .window_bytes = WINDOW_BYTES,
                               .receives = 512};

    config.engine.congestion = args.congestion;
    return gp_new(&config, vis);
}

/* Note a failed check. Only checks of the default congestion control count. */
static const char *judge(bool good)
{
    if (args.congestion != ENG_CONFIG_DEFAULT.congestion)
        return "";
    if (good)
        return "  ok";
    args.bad = true;
    return "  FAILED";
}

/* Returns a share of the link's rate, in units of 0.01 %. */
static unsigned share(uint64_t bytes, uint64_t ns)
{
    return (unsigned)(bytes * 8 * 10000 / (LINK_BITS / 1000000 * (ns / 1000)));
}

static void report(struct gp *gp, const char *what, unsigned goodput, const char *verdict)
{
    struct eng_vi_stats stats;

    gp_stats(gp, 0, &stats);
    printf("%-6s %-34s %3u.%02u %%  lost %" PRIu64 " spurious %" PRIu64 " timeouts %" PRIu64
           " queue %" PRIu64 " KiB drops %" PRIu64 " srtt %" PRIu64 " us window %" PRIu64
           " KiB%s\n",
           names[args.congestion], what, goodput / 100, goodput % 100, stats.lost, stats.spurious,
           stats.timeouts, gp_queue_max(gp) >> 10, gp_queue_drops(gp), stats.srtt_ns / 1000,
           stats.cwnd_bytes >> 10, verdict);
}

static void bulk(uint32_t packet_bytes, uint32_t loss_ppm, unsigned least)
{
    struct gp *gp = world(packet_bytes, loss_ppm, 1);
    char what[64];
    uint64_t before;
    unsigned goodput;

    gp_bulk(gp, 0, MESSAGE, DEPTH);
    gp_run(gp, args.run_ns / 10);
    before = gp_received(gp, 0);
    (void)gp_queue_max(gp);
    gp_run(gp, args.run_ns);
    goodput = share(gp_received(gp, 0) - before, args.run_ns);
    snprintf(what, sizeof(what), "bulk, MTU %u, loss %u.%u %%", packet_bytes, loss_ppm / 10000,
             loss_ppm / 1000 % 10);
    report(gp, what, goodput, judge(goodput >= least));
    gp_free(gp);
}

/* Two VIs send in bulk; the second one starts when the first one has filled the link. */
static void pair(uint32_t packet_bytes, uint32_t loss_ppm)
{
    struct gp *gp = world(packet_bytes, loss_ppm, 2);
    uint64_t before[2], got[2], all, less, more;
    char what[64];

    gp_bulk(gp, 0, MESSAGE, DEPTH);
    gp_run(gp, args.run_ns / 10);
    gp_bulk(gp, 1, MESSAGE, DEPTH);
    gp_run(gp, args.run_ns / 2);
    for (uint16_t i = 0; i < 2; i++)
        before[i] = gp_received(gp, i);
    (void)gp_queue_max(gp);
    gp_run(gp, args.run_ns);
    for (uint16_t i = 0; i < 2; i++)
        got[i] = gp_received(gp, i) - before[i];
    all = got[0] + got[1];
    less = got[0] < got[1] ? got[0] : got[1];
    more = all - less;
    snprintf(what, sizeof(what), "pair, MTU %u, loss %u.%u %%, %u:%u", packet_bytes,
             loss_ppm / 10000, loss_ppm / 1000 % 10, (unsigned)(got[0] * 100 / (all ? all : 1)),
             (unsigned)(got[1] * 100 / (all ? all : 1)));
    report(gp, what, share(all, args.run_ns), judge(more && less * 10 >= more * 9));
    gp_free(gp);
}

/* Some packets arrive 100 us late. Meanwhile about 80 packets overtake each of them. */
static void reordered(uint32_t packet_bytes, uint32_t late_ppm, unsigned least)
{
    struct gp *gp = world(packet_bytes, 0, 1);
    char what[64];
    uint64_t before;
    unsigned goodput;

    gp_link(gp)->late_ppm = late_ppm;
    gp_link(gp)->late_ns = 100000;
    gp_bulk(gp, 0, MESSAGE, DEPTH);
    gp_run(gp, args.run_ns / 10);
    before = gp_received(gp, 0);
    (void)gp_queue_max(gp);
    gp_run(gp, args.run_ns);
    goodput = share(gp_received(gp, 0) - before, args.run_ns);
    snprintf(what, sizeof(what), "bulk, MTU %u, late %u.%u %%", packet_bytes, late_ppm / 10000,
             late_ppm / 1000 % 10);
    report(gp, what, goodput, judge(goodput >= least));
    gp_free(gp);
}

/* A link of 1 Gb/s with a round trip of 20 ms; the goodput is a share of 1 Gb/s. */
static void far(uint32_t loss_ppm, unsigned least)
{
    struct gp *gp = world(1472, loss_ppm, 1);
    char what[64];
    uint64_t before;
    unsigned goodput;

    gp_link(gp)->bits_per_s = LINK_BITS / 10;
    gp_link(gp)->delay_ns = 10 * MS;
    gp_link(gp)->queue_bytes = 1u << 20;
    gp_bulk(gp, 0, MESSAGE, DEPTH);
    gp_run(gp, 5 * args.run_ns);
    before = gp_received(gp, 0);
    (void)gp_queue_max(gp);
    gp_run(gp, 5 * args.run_ns);
    goodput = 10 * share(gp_received(gp, 0) - before, 5 * args.run_ns);
    snprintf(what, sizeof(what), "far (20 ms, 1 Gb/s), loss %u.%u %%", loss_ppm / 10000,
             loss_ppm / 1000 % 10);
    report(gp, what, goodput, judge(goodput >= least));
    gp_free(gp);
}

/* For a while the path loses packets of more than 1472 bytes. Then it carries 9000 bytes again. */
static void black_hole(void)
{
    struct gp *gp = world(9000, 0, 1);
    struct eng_vi_stats stats;
    uint64_t before;
    unsigned goodput;

    gp_bulk(gp, 0, MESSAGE, DEPTH);
    gp_run(gp, 50 * MS);
    gp_link(gp)->mtu_bytes = 1472;
    gp_run(gp, 50 * MS);
    before = gp_received(gp, 0);
    gp_run(gp, 500 * MS);
    goodput = share(gp_received(gp, 0) - before, 500 * MS);
    gp_stats(gp, 0, &stats);
    report(gp, "black hole above 1472 of 9000", goodput,
           judge(goodput >= 8500 && stats.packet_bytes <= 1472));
    gp_link(gp)->mtu_bytes = 0;
    gp_run(gp, 2000 * MS);
    before = gp_received(gp, 0);
    gp_run(gp, 100 * MS);
    goodput = share(gp_received(gp, 0) - before, 100 * MS);
    gp_stats(gp, 0, &stats);
    report(gp, "  and after it", goodput, judge(goodput >= 9500 && stats.packet_bytes == 9000));
    gp_free(gp);
}

/* For 300 ms no packet arrives. */
static void blackout(void)
{
    struct gp *gp = world(1472, 0, 1);
    uint64_t before;
    unsigned goodput;

    gp_bulk(gp, 0, MESSAGE, DEPTH);
    gp_run(gp, 100 * MS);
    gp_link(gp)->cut = true;
    gp_run(gp, 300 * MS);
    gp_link(gp)->cut = false;
    gp_run(gp, 400 * MS);
    before = gp_received(gp, 0);
    gp_run(gp, 100 * MS);
    goodput = share(gp_received(gp, 0) - before, 100 * MS);
    report(gp, "400 ms after a cut of 300 ms", goodput, judge(goodput >= 8500));
    gp_free(gp);
}

static void ping(uint32_t packet_bytes, bool beside)
{
    struct gp *gp = world(packet_bytes, 0, 2);
    uint64_t before, late, count;
    uint64_t limit = 3 * 2 * LINK_DELAY + QUEUE_BYTES * 8ull * 1000 / (LINK_BITS / 1000000);
    char what[96];

    if (beside)
        gp_bulk(gp, 0, MESSAGE, DEPTH);
    gp_ping(gp, 1, 64);
    gp_run(gp, args.run_ns / 10);
    gp_pings(gp, 500, &late);
    (void)gp_queue_max(gp);
    before = gp_received(gp, 0);
    gp_run(gp, args.run_ns);
    count = gp_pings(gp, 990, &late);
    snprintf(what, sizeof(what), "ping 64 B, MTU %u%s", packet_bytes, beside ? ", bulk" : "");
    report(gp, what, share(gp_received(gp, 0) - before, args.run_ns),
           judge(late < limit && count > 100));
    printf("       %" PRIu64 " round trips, p99 %" PRIu64 ".%" PRIu64 " us, limit %" PRIu64 " us\n",
           count, late / 1000, late / 100 % 10, limit / 1000);
    gp_free(gp);
}

int main(int argc, char **argv)
{
    for (int i = 1; i + 1 < argc; i += 2) {
        if (!strcmp(argv[i], "--seed"))
            args.seed = strtoull(argv[i + 1], NULL, 0);
        else if (!strcmp(argv[i], "--ms"))
            args.run_ns = strtoull(argv[i + 1], NULL, 0) * MS;
        else if (!strcmp(argv[i], "--congestion"))
            for (unsigned k = 0; k < 3; k++)
                args.congestion =
                    strcmp(argv[i + 1], names[k]) ? args.congestion : (enum eng_congestion)k;
        else
            return 2;
    }
    for (unsigned i = 0; i < 2; i++) {
        uint32_t packet_bytes = i ? 9000 : 1472;

        bulk(packet_bytes, 0, 9000);
        bulk(packet_bytes, 1000, 9000);
        bulk(packet_bytes, 10000, 7500);
        bulk(packet_bytes, 50000, 4000);
        pair(packet_bytes, 0);
        pair(packet_bytes, 1000);
        pair(packet_bytes, 10000);
        ping(packet_bytes, false);
        ping(packet_bytes, true);
        reordered(packet_bytes, 10000, 8500);
    }
    far(0, 8000);
    far(1000, 7000);
    far(10000, 5000);
    black_hole();
    blackout();
    return args.bad;
}

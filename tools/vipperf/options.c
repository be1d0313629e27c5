/* Command line; see options.h. */
#include "tools/vipperf/options.h"
#include "tools/vipperf/pace.h"
#include "tools/vipperf/units.h"

#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DEFAULT_NIC         "vip0"
#define DEFAULT_ITERS       10000
#define DEFAULT_DURATION_MS 2000

/* Default sizes, in bytes: a small message for lat and rate, a large one for bw. */
#define DEFAULT_SIZE_SMALL 64
#define DEFAULT_SIZE_BW    (1024 * 1024)

/* By default a window has this many bytes, but at least MIN and at most MAX messages. */
#define WINDOW_BYTES    (8 * 1024 * 1024)
#define WINDOW_MIN      4
#define WINDOW_MAX_BW   64
#define WINDOW_MAX_RATE 256

/* Largest message in bytes, because a length has 32 bits. The NIC's own limit is checked later. */
#define SIZE_MAX_BYTES UINT32_MAX

enum {
    OPT_NIC = 256,
    OPT_SIZE,
    OPT_SIZES,
    OPT_ITERS,
    OPT_DURATION,
    OPT_BYTES,
    OPT_OP,
    OPT_RELIABILITY,
    OPT_WAIT,
    OPT_CQ,
    OPT_VERIFY,
    OPT_RANDOM,
    OPT_SEED,
    OPT_WINDOW,
    OPT_VIS,
    OPT_SEGMENTS,
    OPT_BUFFERS,
    OPT_REGISTER,
    OPT_BOTH_WAYS,
    OPT_EVERY,
    OPT_JSON,
    OPT_ONCE,
};

void options_help(void)
{
    puts(
        "vipperf - measure VIPL\n"
        "\n"
        "  vipperf serve [--nic NAME] [--once]   the other side; takes everything from the client\n"
        "  vipperf lat  HOST [options]           ping-pong, half round trips\n"
        "  vipperf bw   HOST [options]           bytes per second, one way\n"
        "  vipperf rate HOST [options]           messages per second, one way\n"
        "  vipperf cost [--nic NAME] [--iters N] [--json FILE]   calls beside the data path\n"
        "  vipperf floor ...                     without VIPL: sockets, memory; see floor --help\n"
        "  vipperf help | --version\n"
        "\n"
        "Options (N may end in K, M or G, powers of 1024; times in s or ms):\n"
        "  --nic NAME          NIC to open (vip0)\n"
        "  --size N            bytes of a message (lat, rate: 64; bw: 1M)\n"
        "  --sizes A:B         one measurement for each power of two from A to B\n"
        "  --random-sizes      sizes 0 to --size, evenly spread\n"
        "  --iters N           stop after N messages (lat: 10000)\n"
        "  --duration T        stop after T, e.g. 5s or 500ms (bw, rate: 2s)\n"
        "  --bytes N           stop after N bytes\n"
        "  --every T           lat: start one message per T, e.g. 1ms, and sleep in between\n"
        "  --op OP             send, write (RDMA Write), write-imm (with immediate data) or read\n"
        "                      (RDMA Read; a read is a round trip by itself, lat shows its half)\n"
        "  --reliability L     rd (Reliable Delivery), rr (Reliable Reception) or ud (Unreliable)\n"
        "  --wait HOW          adaptive (poll, then sleep), poll or block\n"
        "  --cq                completions through a completion queue\n"
        "  --window N          messages under way (bw, rate)\n"
        "  --vis N             connected VIs, all but one of them idle (1)\n"
        "  --both-ways         bw: the server sends as much as it can at the same time on the "
        "same\n"
        "                      VI; told is the sum of both directions (send, write, write-imm);\n"
        "                      --iters and --bytes count what the client sends\n"
        "  --segments N        gather each message from N places that are apart, and scatter what "
        "is\n"
        "                      received (send) or read into as many (1)\n"
        "  --buffers N         the messages take turns in N buffers, each on pages of its own; 1 "
        "is\n"
        "                      always the same one (as many as can be under way, side by side)\n"
        "  --register HOW      one registration for all these buffers together (one), or one for\n"
        "                      each (each; N at most 128)\n"
        "  --verify            check every byte, every length and the order\n"
        "  --seed N            of contents and random sizes (1)\n"
        "  --json FILE         write the results; - is standard output\n"
        "\n"
        "HOST is a name or an address. VIPD_RUNTIME_DIR chooses the vipd of this side.\n"
        "cpu s is the processor time of client and server, without that of the two vipd.\n"
        "Exit code: 0 ok, 1 failed (the last line says what), 2 wrong usage.");
}

static bool wrong(const char *option, const char *value, const char *wanted)
{
    fprintf(stderr, "vipperf: %s %s: %s; see vipperf help\n", option, value, wanted);
    return false;
}

static bool parse_choice(const char *text, const char *const *names, unsigned *ret)
{
    for (unsigned i = 0; names[i]; i++) {
        if (strcmp(names[i], text) == 0) {
            *ret = i;
            return true;
        }
    }
    return false;
}

/* Values of --register: one registration for all buffers, or one for each buffer. */
static const char *const register_names[] = {"one", "each", NULL};

/* Set an option whose value is one of several words. */
static bool set_choice(int option, const char *value, struct plan *plan)
{
    unsigned choice = 0;

    switch (option) {
    case OPT_OP:
        if (!parse_choice(value, plan_op_names, &choice))
            return wrong("--op", value, "is none of send, write, write-imm, read");
        plan->op = (enum plan_op)choice;
        return true;
    case OPT_REGISTER:
        if (!parse_choice(value, register_names, &choice))
            return wrong("--register", value, "is neither one nor each");
        plan->apart = choice == 1;
        return true;
    case OPT_RELIABILITY:
        if (!parse_choice(value, plan_level_names, &choice))
            return wrong("--reliability", value, "is none of ud, rd, rr");
        plan->level = (enum plan_level)choice;
        return true;
    default:
        if (!parse_choice(value, plan_wait_names, &choice))
            return wrong("--wait", value, "is none of adaptive, poll, block");
        plan->wait = (enum plan_wait)choice;
        return true;
    }
}

/* Set an option whose value is a number. */
static bool set_number(int option, const char *value, struct client_options *options)
{
    switch (option) {
    case OPT_SIZE:
        if (!units_number(value, SIZE_MAX_BYTES, &options->size_first))
            return wrong("--size", value, "is not a number of bytes");
        options->size_last = options->size_first;
        return true;
    case OPT_SIZES:
        if (!units_sizes(value, SIZE_MAX_BYTES, &options->size_first, &options->size_last))
            return wrong("--sizes", value, "is not FIRST:LAST with 0 < FIRST <= LAST");
        return true;
    case OPT_ITERS:
        if (!units_number(value, UINT64_MAX - 1, &options->plan.iters) || options->plan.iters == 0)
            return wrong("--iters", value, "is not a number of messages");
        return true;
    case OPT_DURATION:
        if (!units_duration(value, &options->plan.duration_ms))
            return wrong("--duration", value, "is not a time like 5s or 500ms");
        return true;
    case OPT_EVERY:
        if (!units_duration(value, &options->plan.every_ms) || options->plan.every_ms > PACE_MS_MAX)
            return wrong("--every", value, "is not a time from 1ms to 1s");
        return true;
    case OPT_BYTES:
        if (!units_number(value, UINT64_MAX - 1, &options->plan.total_bytes) ||
            options->plan.total_bytes == 0)
            return wrong("--bytes", value, "is not a number of bytes");
        return true;
    case OPT_SEED:
        if (!units_number(value, UINT64_MAX - 1, &options->plan.seed))
            return wrong("--seed", value, "is not a number");
        return true;
    case OPT_VIS:
        if (!units_number(value, UINT16_MAX, &options->plan.idle_vis) ||
            options->plan.idle_vis == 0)
            return wrong("--vis", value, "is not a number of VIs");
        options->plan.idle_vis--;
        return true;
    case OPT_SEGMENTS:
        if (!units_number(value, UINT16_MAX, &options->plan.segments) ||
            options->plan.segments == 0)
            return wrong("--segments", value, "is not a number of segments, 1 or more");
        return true;
    case OPT_BUFFERS:
        if (!units_number(value, PLAN_BUFFERS_MAX, &options->plan.buffers) ||
            options->plan.buffers == 0)
            return wrong("--buffers", value, "is not a number of buffers from 1 to 4096");
        return true;
    default:
        if (!units_number(value, UINT32_MAX, &options->window) || options->window == 0)
            return wrong("--window", value, "is not a number of messages");
        return true;
    }
}

static bool wrong_segments(const struct client_options *options)
{
    fprintf(stderr,
            "vipperf: --segments %" PRIu64 ": none is empty, so a message of %" PRIu64
            " bytes has at most %" PRIu64 "; see vipperf help\n",
            options->plan.segments, options->size_first, options->size_first);
    return false;
}

/* Refuse options that do not work with --buffers, and --register each without --buffers. */
static bool check_buffers(const struct client_options *options)
{
    const struct plan *plan = &options->plan;
    char number[24];

    snprintf(number, sizeof(number), "%" PRIu64, plan->buffers);
    if (plan->apart && plan->buffers == 0)
        return wrong("--register", "each", "needs --buffers");
    if (plan->apart && plan->buffers > PLAN_APART_MAX)
        return wrong("--register each --buffers", number, "is more than 128");
    if (plan->buffers == 0 || !plan->verify)
        return true;
    if (plan->level == PLAN_UD)
        return wrong("--buffers --reliability", "ud",
                     "cannot be combined with --verify: what comes late fills a buffer again");
    if (plan->both_ways)
        return wrong(
            "--buffers", number,
            "cannot be combined with --both-ways --verify: credits take turns in them, too");
    if (plan->test != PLAN_LAT && options->window > plan->buffers)
        return wrong("--buffers", number,
                     "is less than --window: --verify needs a buffer for each");
    return true;
}

/* Before the measurement starts, refuse combinations of options that cannot work. */
static bool check(const struct client_options *options)
{
    const struct plan *plan = &options->plan;

    if (plan->test == PLAN_LAT && plan->op == PLAN_WRITE && plan->wait == PLAN_BLOCK)
        return wrong("lat --op", "write",
                     "cannot be combined with --wait block: memory can only be polled");
    if (plan->test == PLAN_LAT && plan->op == PLAN_WRITE && plan->level == PLAN_UD)
        return wrong("lat --op", "write",
                     "needs a reliable level: a lost write is never noticed; use write-imm");
    if (plan->test == PLAN_LAT && plan->op == PLAN_WRITE && options->size_first == 0)
        return wrong("lat --op", "write", "needs at least 1 byte to look at");
    if (plan->verify && plan->op != PLAN_SEND && plan->level == PLAN_UD)
        return wrong("--verify --op", plan_op_names[plan->op],
                     "needs a reliable level: a lost write leaves the bytes of an older one");
    if (plan->op == PLAN_READ && plan->level == PLAN_UD)
        return wrong("--op", "read", "needs a reliable level");
    if (plan->op == PLAN_READ && plan->random_sizes)
        return wrong("--op", "read", "reads messages of one size only");
    if (plan->iters == UINT64_MAX && plan->duration_ms == UINT64_MAX && options->size_first == 0 &&
        plan->total_bytes != UINT64_MAX)
        return wrong("--bytes", "", "never ends with --size 0");
    if (plan->random_sizes && options->size_first != options->size_last)
        return wrong("--random-sizes", "", "goes with --size, not with --sizes");
    if (plan->every_ms > 0 && plan->test != PLAN_LAT)
        return wrong("--every", plan_test_names[plan->test], "goes with lat only");
    if (plan->both_ways && plan->test != PLAN_BW)
        return wrong("--both-ways", plan_test_names[plan->test], "goes with bw only");
    if (plan->both_ways && plan->op == PLAN_READ)
        return wrong(
            "--both-ways --op", "read",
            "has no second direction: the server of reads does nothing; use send or write");
    if (plan->segments > 1 && options->size_first > 0 && plan->segments > options->size_first)
        return wrong_segments(options);
    return check_buffers(options);
}

static void set_defaults(struct client_options *options)
{
    struct plan *plan = &options->plan;

    if (plan->iters != UINT64_MAX || plan->duration_ms != UINT64_MAX ||
        plan->total_bytes != UINT64_MAX)
        return;
    if (plan->test == PLAN_LAT)
        plan->iters = DEFAULT_ITERS;
    else
        plan->duration_ms = DEFAULT_DURATION_MS;
}

static const struct option client_table[] = {
    {"nic", required_argument, NULL, OPT_NIC},
    {"size", required_argument, NULL, OPT_SIZE},
    {"sizes", required_argument, NULL, OPT_SIZES},
    {"iters", required_argument, NULL, OPT_ITERS},
    {"duration", required_argument, NULL, OPT_DURATION},
    {"bytes", required_argument, NULL, OPT_BYTES},
    {"every", required_argument, NULL, OPT_EVERY},
    {"op", required_argument, NULL, OPT_OP},
    {"reliability", required_argument, NULL, OPT_RELIABILITY},
    {"wait", required_argument, NULL, OPT_WAIT},
    {"cq", no_argument, NULL, OPT_CQ},
    {"verify", no_argument, NULL, OPT_VERIFY},
    {"random-sizes", no_argument, NULL, OPT_RANDOM},
    {"seed", required_argument, NULL, OPT_SEED},
    {"window", required_argument, NULL, OPT_WINDOW},
    {"vis", required_argument, NULL, OPT_VIS},
    {"both-ways", no_argument, NULL, OPT_BOTH_WAYS},
    {"segments", required_argument, NULL, OPT_SEGMENTS},
    {"buffers", required_argument, NULL, OPT_BUFFERS},
    {"register", required_argument, NULL, OPT_REGISTER},
    {"json", required_argument, NULL, OPT_JSON},
    {0},
};

static bool set_client_option(int option, struct client_options *options)
{
    switch (option) {
    case OPT_NIC:
        options->nic = optarg;
        return true;
    case OPT_JSON:
        options->json = optarg;
        return true;
    case OPT_CQ:
        options->plan.cq = true;
        return true;
    case OPT_VERIFY:
        options->plan.verify = true;
        return true;
    case OPT_RANDOM:
        options->plan.random_sizes = true;
        return true;
    case OPT_BOTH_WAYS:
        options->plan.both_ways = true;
        return true;
    case OPT_OP:
    case OPT_RELIABILITY:
    case OPT_WAIT:
    case OPT_REGISTER:
        return set_choice(option, optarg, &options->plan);
    case OPT_SIZE:
    case OPT_SIZES:
    case OPT_ITERS:
    case OPT_DURATION:
    case OPT_BYTES:
    case OPT_EVERY:
    case OPT_SEED:
    case OPT_WINDOW:
    case OPT_VIS:
    case OPT_SEGMENTS:
    case OPT_BUFFERS:
        return set_number(option, optarg, options);
    default:
        fprintf(stderr, "See vipperf help\n");
        return false;
    }
}

bool options_client(enum plan_test test, int argc, char **argv, struct client_options *ret)
{
    uint64_t size = test == PLAN_BW ? DEFAULT_SIZE_BW : DEFAULT_SIZE_SMALL;
    int option;

    *ret = (struct client_options){.nic = DEFAULT_NIC,
                                   .size_first = size,
                                   .size_last = size,
                                   .plan = {.test = test,
                                            .level = PLAN_RD,
                                            .iters = UINT64_MAX,
                                            .duration_ms = UINT64_MAX,
                                            .total_bytes = UINT64_MAX,
                                            .segments = 1,
                                            .seed = 1}};
    while ((option = getopt_long(argc, argv, "", client_table, NULL)) != -1)
        if (!set_client_option(option, ret))
            return false;
    if (argc - optind != 1) {
        fprintf(stderr, "vipperf: %s needs one HOST; see vipperf help\n", plan_test_names[test]);
        return false;
    }
    ret->host = argv[optind];
    set_defaults(ret);
    return check(ret);
}

bool options_serve(int argc, char **argv, struct serve_options *ret)
{
    static const struct option table[] = {
        {"nic", required_argument, NULL, OPT_NIC},
        {"once", no_argument, NULL, OPT_ONCE},
        {0},
    };
    int option;

    *ret = (struct serve_options){.nic = DEFAULT_NIC};
    while ((option = getopt_long(argc, argv, "", table, NULL)) != -1) {
        if (option == OPT_NIC) {
            ret->nic = optarg;
        } else if (option == OPT_ONCE) {
            ret->once = true;
        } else {
            fprintf(stderr, "See vipperf help\n");
            return false;
        }
    }
    if (optind != argc) {
        fprintf(stderr, "vipperf: serve takes no \"%s\"; see vipperf help\n", argv[optind]);
        return false;
    }
    return true;
}

struct plan options_plan(const struct client_options *options, uint64_t size_bytes)
{
    struct plan plan = options->plan;
    uint64_t most = plan.test == PLAN_RATE ? WINDOW_MAX_RATE : WINDOW_MAX_BW;

    plan.size_bytes = size_bytes;
    plan.window = options->window;
    if (plan.window == 0) {
        plan.window = size_bytes > 0 ? WINDOW_BYTES / size_bytes : most;
        if (plan.window < WINDOW_MIN)
            plan.window = WINDOW_MIN;
        if (plan.window > most)
            plan.window = most;
        /* Until the receiver has checked a message, no other message may use its buffer. */
        if (plan.verify && plan.buffers > 0 && plan.window > plan.buffers)
            plan.window = plan.buffers;
    }
    return plan;
}

/*
 * `vipperf floor`: options, one run per message size, output (tools/vipperf/floor.h).
 *
 * Owns: the command line and the loop over sizes. Does not own: processes (floor_run.c), and the
 * floors (floor_udp.c, floor_gso.c, floor_tcp.c, floor_relay.c, floor_memory.c). Called by
 * vipperf's main.
 */
#include "tools/vipperf/floor.h"

#include <arpa/inet.h>
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "tools/vipperf/floor_inside.h"
#include "tools/vipperf/pace.h"
#include "tools/vipperf/units.h"

static const char *const kind_names[] = {[FLOOR_UDP] = "udp",
                                         [FLOOR_GSO] = "gso",
                                         [FLOOR_TCP] = "tcp",
                                         [FLOOR_RELAY] = "relay",
                                         [FLOOR_MEMORY] = "memory"};
#define KINDS_TEXT "udp, gso, tcp, relay or memory"
static const char *const what_names[] = {
    [FLOOR_LAT] = "lat", [FLOOR_BW] = "bw", [FLOOR_RATE] = "rate"};

/* Largest number of results, more than there are sizes 0, 1, 2, 4 .. FLOOR_SIZE_MAX. */
#define RESULTS_MAX 32

/* Largest message, in bytes, whose datagrams all fit the socket buffer of a privileged process. */
#define FLOOR_BURST_MAX (4u << 20)

/* Largest number of parameters in the JSON. */
#define PARAMS_MAX 16

static void usage(void)
{
    fputs("usage: vipperf floor udp|gso|tcp|relay|memory lat|bw|rate [options]\n"
          "What is the least that it costs here. udp, tcp: plain kernel sockets; gso: UDP with\n"
          "segmentation offload (bw and rate); relay: two applications, each with a forwarding\n"
          "process between it and UDP, without any protocol; memory: no kernel, a word that two\n"
          "processes hand to each other (lat), one memcpy (bw, rate).\n"
          "  --size N         bytes of a message (64; bw: 1M); N may end in K or M\n"
          "  --sizes A:B      all sizes from A to B, doubled each time\n"
          "  --iters N        messages to measure (lat: 10000)\n"
          "  --duration T     time to measure, e.g. 5s or 500ms (bw, rate: 1s)\n"
          "  --every T        lat: start one message per T, e.g. 1ms, and sleep in between\n"
          "  --both-ways      tcp bw: both sides send at the same time; told is the sum\n"
          "  --wait MODE      block: sleep in the kernel (default); poll or yield: look again and\n"
          "                   yield the processor in between\n"
          "  --address A,B    own addresses of the two sides (127.0.0.1,127.0.0.1)\n"
          "  --netns A,B      network namespaces of the two sides; needs root and --address\n"
          "  --json FILE      write the results as JSON, - for standard output\n",
          stdout);
}

static int misused(const char *sentence)
{
    fprintf(stderr, "vipperf: floor: %s; see vipperf floor --help\n", sentence);
    return 2;
}

static int wrong(const char *option, const char *value, const char *expected)
{
    fprintf(stderr, "vipperf: floor: %s %s: expected %s\n", option, value, expected);
    return 2;
}

/* Split the text "A,B" in place. */
static bool parse_pair(char *text, char **ret_a, char **ret_b)
{
    char *comma = strchr(text, ',');

    if (!comma || comma == text || !comma[1] || strchr(comma + 1, ','))
        return false;
    *comma = 0;
    *ret_a = text;
    *ret_b = comma + 1;
    return true;
}

static int parse_addresses(char *text, struct floor_opts *opts)
{
    char *part[2], copy[128];

    snprintf(copy, sizeof(copy), "%s", text);
    if (!parse_pair(text, &part[0], &part[1]))
        return wrong("--address", copy, "two IPv4 addresses, A,B");
    for (unsigned i = 0; i < 2; i++)
        if (inet_pton(AF_INET, part[i], &opts->address[i]) != 1)
            return wrong("--address", part[i], "an IPv4 address");
    return 0;
}

static int parse_netns(char *text, struct floor_opts *opts)
{
    char *part[2];

    /* A name is a file name in /run/netns, not a path. */
    if (!parse_pair(text, &part[0], &part[1]) || strchr(part[0], '/') || strchr(part[1], '/'))
        return wrong("--netns", text, "the names of two network namespaces, A,B");
    opts->netns[0] = part[0];
    opts->netns[1] = part[1];
    return 0;
}

static int parse_option(int option, char *value, struct floor_opts *opts)
{
    uint64_t duration_ms;

    switch (option) {
    case 's':
        if (!units_number(value, FLOOR_SIZE_MAX, &opts->size_min))
            return wrong("--size", value, "bytes, at most 16M");
        opts->size_max = opts->size_min;
        return 0;
    case 'S':
        return units_sizes(value, FLOOR_SIZE_MAX, &opts->size_min, &opts->size_max)
                   ? 0
                   : wrong("--sizes", value, "A:B, at most 16M");
    case 'i':
        return units_number(value, UINT64_MAX, &opts->iters) && opts->iters > 0
                   ? 0
                   : wrong("--iters", value, "a number > 0");
    case 'd':
        if (!units_duration(value, &duration_ms))
            return wrong("--duration", value, "a time like 5s or 500ms");
        opts->duration_s = (double)duration_ms / 1000;
        return 0;
    case 'e':
        return units_duration(value, &opts->every_ms) && opts->every_ms <= PACE_MS_MAX
                   ? 0
                   : wrong("--every", value, "a time from 1ms to 1s");
    case 'b':
        opts->both_ways = true;
        return 0;
    case 'w':
        opts->poll = strcmp(value, "poll") == 0 || strcmp(value, "yield") == 0;
        return opts->poll || strcmp(value, "block") == 0
                   ? 0
                   : wrong("--wait", value, "block, poll or yield");
    case 'a':
        return parse_addresses(value, opts);
    case 'n':
        return parse_netns(value, opts);
    case 'j':
        opts->json = value;
        return 0;
    }
    /* getopt has already printed a message with the option. */
    return misused("unknown option");
}

/* The index of the word in names; -1 if it is not there. */
static int index_of(const char *word, const char *const *names, int count)
{
    for (int i = 0; i < count; i++)
        if (strcmp(word, names[i]) == 0)
            return i;
    return -1;
}

/* Parse the command line. Outcomes: 0; 2: wrong usage, with a message; -1: the help was printed. */
static int parse(int argc, char **argv, struct floor_opts *opts)
{
    static const struct option options[] = {
        {"size", required_argument, NULL, 's'},  {"sizes", required_argument, NULL, 'S'},
        {"iters", required_argument, NULL, 'i'}, {"duration", required_argument, NULL, 'd'},
        {"every", required_argument, NULL, 'e'}, {"wait", required_argument, NULL, 'w'},
        {"json", required_argument, NULL, 'j'},  {"address", required_argument, NULL, 'a'},
        {"netns", required_argument, NULL, 'n'}, {"both-ways", no_argument, NULL, 'b'},
        {"help", no_argument, NULL, 'h'},        {0}};
    int option, rc, kind, what;
    bool sized = false;

    optind = 1;
    while ((option = getopt_long(argc, argv, "h", options, NULL)) >= 0) {
        if (option == 'h') {
            usage();
            return -1;
        }
        sized = sized || option == 's' || option == 'S';
        rc = parse_option(option, optarg, opts);
        if (rc != 0)
            return rc;
    }
    if (argc - optind != 2)
        return misused("expected " KINDS_TEXT ", and lat, bw or rate");
    kind = index_of(argv[optind], kind_names, FLOOR_KINDS);
    what = index_of(argv[optind + 1], what_names, 3);
    if (kind < 0 || what < 0)
        return misused("expected " KINDS_TEXT ", and lat, bw or rate");
    if (kind == FLOOR_GSO && what == FLOOR_LAT)
        return misused("gso joins many datagrams; the latency of one is that of udp");
    if (opts->both_ways && (kind != FLOOR_TCP || what != FLOOR_BW || opts->iters))
        return misused("--both-ways goes with tcp bw and --duration only");
    if (opts->every_ms > 0 && what != FLOOR_LAT)
        return misused("--every goes with lat only");
    opts->kind = (enum floor_kind)kind;
    opts->what = (enum floor_what)what;
    if (!sized)
        opts->size_min = opts->size_max = what == FLOOR_BW ? 1u << 20 : 64;
    if (opts->what != FLOOR_LAT && opts->size_min == 0)
        return wrong("--size", "0", "at least 1 byte for bw and rate");
    if (kind == FLOOR_TCP && opts->size_min == 0)
        return wrong("--size", "0", "at least 1 byte for tcp");
    if (kind != FLOOR_TCP && what == FLOOR_LAT && opts->size_max > FLOOR_BURST_MAX)
        return wrong("--size", "that large", "at most 4M for the latency of datagrams");
    if (opts->netns[0] && opts->address[0].s_addr == htonl(INADDR_LOOPBACK))
        return wrong("--netns", opts->netns[0], "--address A,B with it");
    if (!opts->iters && opts->duration_s == 0) {
        opts->iters = what == FLOOR_LAT ? 10000 : 0;
        opts->duration_s = what == FLOOR_LAT ? 0 : 1;
    }
    if (what == FLOOR_LAT && opts->iters > FLOOR_SAMPLES_MAX)
        return wrong("--iters", "that many", "at most 4000000 for lat");
    return 0;
}

/* ---- running --------------------------------------------------------------------------- */

static void take_result(const struct floor_run *run, struct perf_result *result)
{
    struct floor_shared *shared = run->shared;

    *result = (struct perf_result){
        .size_bytes = run->size,
        .messages = shared->messages,
        .elapsed_s = (double)shared->elapsed_ns / 1e9,
        .cpu_s = (double)shared->cpu_ns / 1e9,
        .both_ways = run->opts->both_ways,
        .messages_back = shared->messages_back,
    };
    perf_rates_of(result);
    if (run->opts->what == FLOOR_LAT) {
        result->has_latency = true;
        perf_latency_of(shared->samples, shared->sample_count, &result->latency);
    }
}

/* Measure one size in fresh shared memory. Outcomes: 0; 1 with a message. */
static int run_size(const struct floor_opts *opts, uint64_t size, struct perf_result *ret)
{
    struct floor_run run = {.opts = opts, .size = size};
    int rc = 1;

    run.shared = mmap(NULL, sizeof(*run.shared), PROT_READ | PROT_WRITE,
                      MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (run.shared == MAP_FAILED)
        return floor_failed(errno, "no shared memory");
    switch (opts->kind) {
    case FLOOR_UDP:
        rc = floor_udp(&run);
        break;
    case FLOOR_GSO:
        rc = floor_gso(&run);
        break;
    case FLOOR_TCP:
        rc = floor_tcp(&run);
        break;
    case FLOOR_RELAY:
        rc = floor_relay(&run);
        break;
    case FLOOR_MEMORY:
        rc = floor_memory(&run);
        break;
    }
    if (rc == 0 && run.shared->messages == 0)
        rc = floor_failed(0, "no message of %llu bytes arrived", (unsigned long long)size);
    if (rc == 0)
        take_result(&run, ret);
    munmap(run.shared, sizeof(*run.shared));
    return rc;
}

static size_t describe(const struct floor_opts *opts, struct perf_param *params)
{
    char a[INET_ADDRSTRLEN], b[INET_ADDRSTRLEN], text[64];
    struct utsname kernel;
    size_t n = 0;

    inet_ntop(AF_INET, &opts->address[0], a, sizeof(a));
    inet_ntop(AF_INET, &opts->address[1], b, sizeof(b));
    perf_param_text(&params[n++], "kind", kind_names[opts->kind]);
    perf_param_text(&params[n++], "what", what_names[opts->what]);
    perf_param_number(&params[n++], "size_min", (double)opts->size_min);
    perf_param_number(&params[n++], "size_max", (double)opts->size_max);
    perf_param_number(&params[n++], "iters", (double)opts->iters);
    perf_param_number(&params[n++], "duration_s", opts->duration_s);
    perf_param_number(&params[n++], "every_ms", (double)opts->every_ms);
    perf_param_number(&params[n++], "both_ways", opts->both_ways);
    perf_param_text(&params[n++], "wait", opts->poll ? "poll" : "block");
    snprintf(text, sizeof(text), "%s,%s", a, b);
    perf_param_text(&params[n++], "address", text);
    snprintf(text, sizeof(text), "%.30s,%.30s", opts->netns[0] ? opts->netns[0] : "",
             opts->netns[1] ? opts->netns[1] : "");
    perf_param_text(&params[n++], "netns", opts->netns[0] ? text : "");
    perf_param_number(&params[n++], "cpus", (double)sysconf(_SC_NPROCESSORS_ONLN));
    perf_param_text(&params[n++], "kernel", uname(&kernel) == 0 ? kernel.release : "");
    return n;
}

int floor_main(int argc, char **argv)
{
    struct floor_opts opts = {.address = {{htonl(INADDR_LOOPBACK)}, {htonl(INADDR_LOOPBACK)}}};
    static struct perf_result results[RESULTS_MAX];
    struct perf_param params[PARAMS_MAX];
    size_t count = 0, param_count;
    char command[32];
    FILE *table;
    int rc = parse(argc, argv, &opts);

    if (rc != 0)
        return rc < 0 ? 0 : rc;
    /* If the JSON goes to standard output, the table goes to stderr. */
    table = opts.json && strcmp(opts.json, "-") == 0 ? stderr : stdout;
    snprintf(command, sizeof(command), "floor %s %s", kind_names[opts.kind], what_names[opts.what]);
    fprintf(table, "%s, %s\n", command, opts.poll ? "poll" : "block");
    perf_print_heading(table, opts.what == FLOOR_LAT);
    for (uint64_t size = opts.size_min; size <= opts.size_max && count < RESULTS_MAX;
         size = size ? 2 * size : 1) {
        rc = run_size(&opts, size, &results[count]);
        if (rc != 0)
            return rc;
        perf_print_row(table, &results[count++]);
        fflush(table);
    }
    if (!opts.json)
        return 0;
    param_count = describe(&opts, params);
    rc = perf_json_write(opts.json, command, params, param_count, results, count);
    return rc < 0 ? floor_failed(-rc, "cannot write %s", opts.json) : 0;
}

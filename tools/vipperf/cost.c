/*
 * vipperf cost: measures VIPL calls that transfer no data, as in the VIBe benchmarks:
 * registering and releasing memory, creating and destroying VIs and completion queues. It also
 * measures VipRecvDone and VipCQDone without a completion. There is no peer. (`vipperf lat --vis`
 * measures the time to connect a VI.)
 *
 * Each call gets one line and one JSON result: the percentiles of its time, in ns.
 */
#include "tools/vipperf/cost.h"

#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <vipl_ext.h>

#include "tools/vipperf/end.h"
#include "tools/vipperf/result.h"
#include "tools/vipperf/units.h"

#define DEFAULT_ITERS 200
#define ITERS_MAX     100000u

/* Entries of each completion queue. */
#define CQ_ENTRIES 256

/* Calls of VipRecvDone or VipCQDone in one sample: one call is shorter than a read of the clock. */
#define CALLS_PER_SAMPLE 1000

/* The state of `vipperf cost`. */
struct cost {
    struct end_nic nic;
    VIP_PROTECTION_HANDLE ptag;
    uint64_t iters;
    uint64_t *sample_ns;
    FILE *table;
    struct cost_line {
        char name[48];
        struct perf_latency ns;
    } lines[32];
    size_t line_count;
    char why[WHY_BYTES];
};

static int failed(struct cost *cost, const char *call, VIP_RETURN rc)
{
    snprintf(cost->why, sizeof(cost->why), "%s: %s: %s", call, end_rc_name(rc), VipxLastError());
    return -1;
}

/* Compute, keep and print the percentiles of the samples. */
static void conclude(struct cost *cost, const char *name)
{
    struct cost_line *line = &cost->lines[cost->line_count++];

    snprintf(line->name, sizeof(line->name), "%s", name);
    perf_latency_of(cost->sample_ns, cost->iters, &line->ns);
    fprintf(cost->table, "%-32s %12" PRIu64 " %12" PRIu64 " %12" PRIu64 "\n", name, line->ns.p50,
            line->ns.p99, line->ns.max);
    fflush(cost->table);
}

/* ---- memory ------------------------------------------------------------------------------ */

/* The kinds of memory that are registered. */
enum memory_kind { MEMORY_FRESH, MEMORY_AGAIN, MEMORY_SHARED, MEMORY_KINDS };

static const char *const memory_names[MEMORY_KINDS] = {"fresh", "again", "VipxAllocMem"};

static uint8_t *memory_get(size_t bytes, enum memory_kind kind)
{
    VIP_PVOID memory;

    if (kind == MEMORY_SHARED)
        return VipxAllocMem(bytes, &memory) == VIP_SUCCESS ? memory : NULL;
    memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return memory == MAP_FAILED ? NULL : memory;
}

static void memory_put(uint8_t *memory, size_t bytes, enum memory_kind kind)
{
    if (kind == MEMORY_SHARED)
        (void)VipxFreeMem(memory);
    else
        (void)munmap(memory, bytes);
}

/* Measure VipRegisterMem and VipDeregisterMem. MEMORY_FRESH: each time with new memory. */
static int memory(struct cost *cost, size_t bytes, enum memory_kind kind)
{
    VIP_MEM_ATTRIBUTES attrs = {.Ptag = cost->ptag, .EnableRdmaWrite = VIP_TRUE};
    uint64_t *release_ns = calloc(cost->iters, sizeof(*release_ns));
    uint8_t *buffer = NULL;
    char name[48];
    int r = release_ns ? 0 : -1;

    if (r < 0)
        snprintf(cost->why, sizeof(cost->why), "out of memory");
    for (uint64_t i = 0; r == 0 && i < cost->iters; i++) {
        uint64_t start_ns, middle_ns;
        VIP_MEM_HANDLE handle;
        VIP_RETURN rc;

        if (!buffer) {
            buffer = memory_get(bytes, kind);
            if (!buffer) {
                snprintf(cost->why, sizeof(cost->why), "no memory for %zu bytes", bytes);
                r = -1;
                break;
            }
            memset(buffer, 1, bytes);
        }
        start_ns = end_now_ns();
        rc = VipRegisterMem(cost->nic.handle, buffer, bytes, &attrs, &handle);
        middle_ns = end_now_ns();
        if (rc != VIP_SUCCESS) {
            r = failed(cost, "VipRegisterMem", rc);
            break;
        }
        rc = VipDeregisterMem(cost->nic.handle, buffer, handle);
        release_ns[i] = end_now_ns() - middle_ns;
        cost->sample_ns[i] = middle_ns - start_ns;
        if (rc != VIP_SUCCESS)
            r = failed(cost, "VipDeregisterMem", rc);
        if (kind == MEMORY_FRESH) {
            memory_put(buffer, bytes, kind);
            buffer = NULL;
        }
    }
    if (buffer)
        memory_put(buffer, bytes, kind);
    if (r == 0) {
        snprintf(name, sizeof(name), "register %zu KiB, %s", bytes / 1024, memory_names[kind]);
        conclude(cost, name);
        memcpy(cost->sample_ns, release_ns, cost->iters * sizeof(*release_ns));
        snprintf(name, sizeof(name), "release %zu KiB, %s", bytes / 1024, memory_names[kind]);
        conclude(cost, name);
    }
    free(release_ns);
    return r;
}

/* ---- VIs and completion queues ------------------------------------------------------------ */

static int make_vi(struct cost *cost, VIP_VI_HANDLE *ret)
{
    VIP_VI_ATTRIBUTES attrs = {.ReliabilityLevel = VIP_SERVICE_RELIABLE_DELIVERY,
                               .MaxTransferSize = 65536,
                               .Ptag = cost->ptag,
                               .EnableRdmaWrite = VIP_TRUE};
    VIP_RETURN rc = VipCreateVi(cost->nic.handle, &attrs, NULL, NULL, ret);

    return rc == VIP_SUCCESS ? 0 : failed(cost, "VipCreateVi", rc);
}

static int make_cq(struct cost *cost, VIP_CQ_HANDLE *ret)
{
    VIP_RETURN rc = VipCreateCQ(cost->nic.handle, CQ_ENTRIES, ret);

    return rc == VIP_SUCCESS ? 0 : failed(cost, "VipCreateCQ", rc);
}

/* Create `iters` VIs or CQs, then destroy them. Prints a line for creating, one for destroying. */
static int objects(struct cost *cost, bool cqs)
{
    void **made = calloc(cost->iters, sizeof(*made));
    uint64_t count = 0;
    int r = made ? 0 : -1;

    if (r < 0)
        snprintf(cost->why, sizeof(cost->why), "out of memory");
    for (; r == 0 && count < cost->iters; count++) {
        uint64_t start_ns = end_now_ns();

        r = cqs ? make_cq(cost, &made[count]) : make_vi(cost, &made[count]);
        if (r < 0)
            break;
        cost->sample_ns[count] = end_now_ns() - start_ns;
    }
    if (r == 0)
        conclude(cost, cqs ? "create CQ" : "create VI");
    for (uint64_t i = 0; i < count; i++) {
        uint64_t start_ns = end_now_ns();
        VIP_RETURN rc = cqs ? VipDestroyCQ(made[i]) : VipDestroyVi(made[i]);

        cost->sample_ns[i] = end_now_ns() - start_ns;
        if (rc != VIP_SUCCESS)
            r = failed(cost, cqs ? "VipDestroyCQ" : "VipDestroyVi", rc);
    }
    if (r == 0)
        conclude(cost, cqs ? "destroy CQ" : "destroy VI");
    free(made);
    return r;
}

/* ---- calls that find no completion --------------------------------------------------------- */

static int polls(struct cost *cost)
{
    VIP_VI_HANDLE vi = NULL;
    VIP_CQ_HANDLE cq = NULL;
    int r = make_vi(cost, &vi);

    if (r == 0)
        r = make_cq(cost, &cq);
    for (uint64_t i = 0; r == 0 && i < cost->iters; i++) {
        uint64_t start_ns = end_now_ns();
        VIP_DESCRIPTOR *desc;

        for (unsigned n = 0; n < CALLS_PER_SAMPLE; n++)
            (void)VipRecvDone(vi, &desc);
        cost->sample_ns[i] = (end_now_ns() - start_ns) / CALLS_PER_SAMPLE;
    }
    if (r == 0)
        conclude(cost, "VipRecvDone, nothing there");
    for (uint64_t i = 0; r == 0 && i < cost->iters; i++) {
        uint64_t start_ns = end_now_ns();
        VIP_VI_HANDLE found;
        VIP_BOOLEAN recv;

        for (unsigned n = 0; n < CALLS_PER_SAMPLE; n++)
            (void)VipCQDone(cq, &found, &recv);
        cost->sample_ns[i] = (end_now_ns() - start_ns) / CALLS_PER_SAMPLE;
    }
    if (r == 0)
        conclude(cost, "VipCQDone, nothing there");
    if (cq)
        (void)VipDestroyCQ(cq);
    if (vi)
        (void)VipDestroyVi(vi);
    return r;
}

/* ---- the command --------------------------------------------------------------------------- */

static int write_json(struct cost *cost, const char *path)
{
    FILE *out = strcmp(path, "-") == 0 ? stdout : fopen(path, "w");
    bool bad;

    if (!out) {
        snprintf(cost->why, sizeof(cost->why), "cannot write %s", path);
        return -1;
    }
    fprintf(out, "{\n  \"tool\": \"vipperf\",\n  \"version\": \"%s\",\n  \"command\": \"cost\",\n",
            VIP_VERSION);
    fprintf(out, "  \"parameters\": {\"nic\": \"%s\", \"iters\": %" PRIu64 "},\n  \"results\": [",
            cost->nic.attrs.Name, cost->iters);
    for (size_t i = 0; i < cost->line_count; i++)
        fprintf(out,
                "%s\n    {\"call\": \"%s\", \"ns\": {\"p50\": %" PRIu64 ", \"p99\": %" PRIu64
                ", \"p999\": %" PRIu64 ", \"max\": %" PRIu64 "}}",
                i ? "," : "", cost->lines[i].name, cost->lines[i].ns.p50, cost->lines[i].ns.p99,
                cost->lines[i].ns.p999, cost->lines[i].ns.max);
    fputs("\n  ]\n}\n", out);
    bad = ferror(out) != 0;
    if (out != stdout)
        bad = fclose(out) != 0 || bad;
    if (bad)
        snprintf(cost->why, sizeof(cost->why), "cannot write %s", path);
    return bad ? -1 : 0;
}

static int measure(struct cost *cost)
{
    static const size_t sizes[] = {4096, 65536, 1048576};
    VIP_RETURN rc = VipCreatePtag(cost->nic.handle, &cost->ptag);
    int r = rc == VIP_SUCCESS ? 0 : failed(cost, "VipCreatePtag", rc);

    fprintf(cost->table, "%-32s %12s %12s %12s\n", "call", "median ns", "p99 ns", "max ns");
    for (unsigned i = 0; r == 0 && i < sizeof(sizes) / sizeof(*sizes); i++) {
        for (int kind = 0; r == 0 && kind < MEMORY_KINDS; kind++)
            r = memory(cost, sizes[i], (enum memory_kind)kind);
    }
    if (r == 0)
        r = objects(cost, false);
    if (r == 0)
        r = objects(cost, true);
    if (r == 0)
        r = polls(cost);
    if (cost->ptag)
        (void)VipDestroyPtag(cost->nic.handle, cost->ptag);
    return r;
}

static bool parse(int argc, char **argv, uint64_t *iters, const char **nic, const char **json)
{
    static const struct option table[] = {{"nic", required_argument, NULL, 'n'},
                                          {"iters", required_argument, NULL, 'i'},
                                          {"json", required_argument, NULL, 'j'},
                                          {0}};
    int option;

    while ((option = getopt_long(argc, argv, "", table, NULL)) != -1) {
        if (option == 'n') {
            *nic = optarg;
        } else if (option == 'j') {
            *json = optarg;
        } else if (option != 'i') {
            fprintf(stderr, "See vipperf help\n");
            return false;
        } else if (!units_number(optarg, ITERS_MAX, iters) || *iters == 0) {
            fprintf(stderr, "vipperf: --iters %s: is not a number from 1 to %u; see vipperf help\n",
                    optarg, ITERS_MAX);
            return false;
        }
    }
    if (optind == argc)
        return true;
    fprintf(stderr, "vipperf: cost takes no \"%s\"; see vipperf help\n", argv[optind]);
    return false;
}

int cost_main(int argc, char **argv)
{
    const char *nic = "vip0", *json = NULL;
    uint64_t iters = DEFAULT_ITERS;
    struct cost cost = {0};
    int r = -1;

    if (!parse(argc, argv, &iters, &nic, &json))
        return 2;
    cost.iters = iters;
    cost.table = json && strcmp(json, "-") == 0 ? stderr : stdout;
    cost.sample_ns = calloc(iters, sizeof(*cost.sample_ns));
    if (!cost.sample_ns) {
        snprintf(cost.why, sizeof(cost.why), "out of memory");
    } else if (end_nic_open(&cost.nic, nic, cost.why, sizeof(cost.why)) == 0) {
        if (iters > cost.nic.attrs.MaxVI || iters > cost.nic.attrs.MaxCQ)
            snprintf(cost.why, sizeof(cost.why),
                     "--iters %" PRIu64 " is more than the VIs (%lu) or CQs (%lu) of this NIC",
                     iters, cost.nic.attrs.MaxVI, cost.nic.attrs.MaxCQ);
        else
            r = measure(&cost);
        if (r == 0 && json)
            r = write_json(&cost, json);
        end_nic_close(&cost.nic);
    }
    free(cost.sample_ns);
    if (r < 0) {
        fflush(stdout);
        fprintf(stderr, "vipperf: FAILED: %s\n", cost.why);
    }
    return r < 0 ? 1 : 0;
}

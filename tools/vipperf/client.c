/* The client: exchanges notes with the server (see serve.c), and reports to the user. */
#include "tools/vipperf/client.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "tools/vipperf/meet.h"
#include "tools/vipperf/result.h"
#include "tools/vipperf/run.h"

/* Largest number of samples for the percentiles. Of more samples, a random choice is kept. */
#define SAMPLES_MAX (1u << 20)

/* Largest number of results, more than there are sizes 1, 2, 4 .. 2^32. */
#define RESULTS_MAX 40

/* The state of the program in the role of the client. */
struct client {
    const struct client_options *options;
    struct end_nic nic;
    struct end control;
    FILE *table; /* the table: stderr if the JSON goes to standard output */
    char server_build[64];
    uint64_t *sample_ns;
    uint64_t connect_ns; /* average time to connect an idle VI, at the last size */
    uint64_t lost;       /* lost messages of all sizes (Unreliable Delivery) */
    uint64_t sent;
    struct perf_result results[RESULTS_MAX];
    size_t result_count;
    char why[WHY_BYTES];
};

static double cpu_seconds(void)
{
    struct rusage usage;

    if (getrusage(RUSAGE_SELF, &usage) < 0)
        return 0;
    return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
           (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6;
}

static int say(struct client *client, const char *why)
{
    snprintf(client->why, sizeof(client->why), "%s", why);
    return -1;
}

/* Receive a note. Outcomes: 0; -1 with client->why. */
static int await_note(struct client *client, struct note *ret)
{
    int r = note_recv(&client->control, END_PATIENCE_MS, ret);

    if (r == 0)
        return say(client, "the server does not answer");
    return r < 0 ? say(client, client->control.why) : 0;
}

/* Send the plan and read the note "ready". Outcomes: 0 with run->remote and disc; -1. */
static int agree(struct client *client, struct run *run, char *disc, size_t disc_bytes)
{
    struct plan plan = *run->plan;
    struct note hello = {0}, ready;
    uint64_t protocol = 0;

    run_target(run->end, &plan.own);
    plan_put(&hello, &plan);
    if (note_send(&client->control, &hello) < 0)
        return say(client, client->control.why);
    if (await_note(client, &ready) < 0)
        return -1;
    (void)note_get(&ready, "build", client->server_build, sizeof(client->server_build));
    if (note_get(&ready, "refused", client->why, sizeof(client->why)))
        return -1;
    if (!note_get_number(&ready, "protocol", &protocol) || protocol != PLAN_PROTOCOL) {
        snprintf(client->why, sizeof(client->why),
                 "versions differ: the client is vipperf " VIP_VERSION
                 " (protocol %d), the server vipperf %s (protocol %" PRIu64 ")",
                 PLAN_PROTOCOL, client->server_build, protocol);
        return -1;
    }
    if (!note_get(&ready, "discriminator", disc, disc_bytes) || !target_get(&ready, &run->remote))
        return say(client, "the server's answer makes no sense");
    return 0;
}

static void count_lost(struct client *client, uint64_t sent, uint64_t received)
{
    client->sent += sent;
    client->lost += sent > received ? sent - received : 0;
}

/* Send the note "done" and read the server's result. Outcomes: 0; -1: the measurement failed. */
static int conclude(struct client *client, struct run *run, int outcome, double *ret_cpu_s)
{
    struct note done = {0}, result;
    char status[16] = "?", why[WHY_BYTES] = "it did not say why";
    uint64_t received = 0, sent = 0, cpu_ns = 0;

    /* Keep the reason of our failure. The server may fail too, with a reason that says less. */
    if (outcome != 0)
        (void)say(client, run->end->why);
    note_put(&done, "done", outcome == 0 ? "ok" : "failed");
    if (outcome != 0)
        (void)VipDisconnect(run->end->vi);
    if (note_send(&client->control, &done) < 0)
        return outcome != 0 ? -1 : say(client, client->control.why);
    if (outcome != 0 && note_recv(&client->control, MEET_PATIENCE_MS, &result) <= 0)
        return -1;
    if (outcome == 0 && await_note(client, &result) < 0)
        return -1;
    (void)note_get(&result, "status", status, sizeof(status));
    (void)note_get(&result, "why", why, sizeof(why));
    (void)note_get_number(&result, "received", &received);
    (void)note_get_number(&result, "sent", &sent);
    (void)note_get_number(&result, "cpu_ns", &cpu_ns);
    *ret_cpu_s = (double)cpu_ns / 1e9;
    if (strcmp(status, "corrupt") == 0)
        run->corrupt = true;
    if (run->corrupt && strcmp(status, "corrupt") == 0) {
        snprintf(client->why, sizeof(client->why), "verification at the server: %.400s", why);
        return -1;
    }
    if (outcome != 0)
        return -1;
    if (strcmp(status, "ok") != 0) {
        snprintf(client->why, sizeof(client->why), "the server failed: %.400s", why);
        return -1;
    }
    /* The server does not notice RDMA Reads: use the client's count. */
    if (run->plan->op == PLAN_READ)
        received = run->received;
    if (run->plan->level != PLAN_UD && received != run->sent) {
        snprintf(client->why, sizeof(client->why),
                 "%" PRIu64 " messages were sent but %" PRIu64 " arrived", run->sent, received);
        run->corrupt = true;
        return -1;
    }
    if (run->plan->both_ways && run->plan->level != PLAN_UD && sent != run->received) {
        snprintf(client->why, sizeof(client->why),
                 "the server sent %" PRIu64 " messages but %" PRIu64 " arrived", sent,
                 run->received);
        run->corrupt = true;
        return -1;
    }
    count_lost(client, run->sent, received);
    if (run->plan->both_ways)
        count_lost(client, sent, run->received);
    return 0;
}

static void fill_result(struct run *run, double cpu_s, int outcome, struct perf_result *ret)
{
    const struct plan *plan = run->plan;

    *ret = (struct perf_result){.size_bytes = plan->size_bytes,
                                .messages = run->measured,
                                .elapsed_s = (double)(run->stop_ns - run->start_ns) / 1e9,
                                .both_ways = plan->both_ways,
                                .messages_back = plan->both_ways ? run->received : 0,
                                .has_latency = plan->test == PLAN_LAT,
                                .cpu_s = cpu_s};
    perf_rates_of(ret);
    if (ret->elapsed_s > 0) /* use the real number of bytes: sizes may be random */
        ret->bytes_per_s = (double)run->measured_bytes / ret->elapsed_s;
    if (plan->test == PLAN_LAT)
        perf_latency_of(run->sample_ns, run->sample_count, &ret->latency);
    if (plan->verify)
        ret->verified = outcome == 0   ? PERF_VERIFIED
                        : run->corrupt ? PERF_CORRUPT
                                       : PERF_NOT_VERIFIED;
}

static int run_data(struct client *client, struct run *run, struct meet_idle *idle,
                    struct perf_result *ret)
{
    char disc[MEET_DISC_BYTES];
    double cpu_s, server_cpu_s = 0;
    uint64_t start_ns;
    int r;

    if (agree(client, run, disc, sizeof(disc)) < 0)
        return -1;
    start_ns = end_now_ns();
    if (meet_idle_connect(idle, &client->nic, run->plan->idle_vis, client->options->host, disc,
                          client->why, sizeof(client->why)) < 0)
        return -1;
    if (idle->count)
        client->connect_ns = (end_now_ns() - start_ns) / idle->count;
    if (meet_connect(run->end, client->options->host, disc) < 0)
        return say(client, run->end->why);
    cpu_s = cpu_seconds();
    r = run_client(run);
    cpu_s = cpu_seconds() - cpu_s;
    if (r < 0)
        run->stop_ns = end_now_ns(); /* the failure ends the measured time */
    r = conclude(client, run, r, &server_cpu_s) < 0 ? -1 : r;
    fill_result(run, cpu_s + server_cpu_s, r, ret);
    return r;
}

/* Measure one size. Outcomes: 0 and a result; -1 with client->why (and a result if corrupt). */
static int measure(struct client *client, uint64_t size_bytes)
{
    struct plan plan = options_plan(client->options, size_bytes);
    const VIP_NIC_ATTRIBUTES *attrs = &client->nic.attrs;
    struct end data;
    struct end_args args;
    struct run run = {.end = &data,
                      .control = &client->control,
                      .plan = &plan,
                      .sample_ns = client->sample_ns,
                      .sample_max = SAMPLES_MAX};
    struct meet_idle idle = {0};
    struct perf_result result;
    int r;

    if (size_bytes > attrs->MaxTransferSize) {
        snprintf(client->why, sizeof(client->why),
                 "messages of %" PRIu64 " bytes are larger than the NIC's MaxTransferSize of %lu "
                 "bytes",
                 size_bytes, attrs->MaxTransferSize);
        return -1;
    }
    if (plan.window > run_window_max(&plan, true, attrs->MaxDescriptorsPerQueue)) {
        snprintf(client->why, sizeof(client->why),
                 "a window of %" PRIu64 " messages is more than this NIC's queues allow: %" PRIu64,
                 plan.window, run_window_max(&plan, true, attrs->MaxDescriptorsPerQueue));
        return -1;
    }
    if (plan.segments > run_segments_max(&plan, attrs->MaxSegmentsPerDesc)) {
        snprintf(client->why, sizeof(client->why),
                 "--segments %" PRIu64 ": a descriptor of this NIC has room for %lu of a message",
                 plan.segments, run_segments_max(&plan, attrs->MaxSegmentsPerDesc));
        return -1;
    }
    run_end_args(&plan, true, &args);
    r = end_make(&data, &client->nic, &args);
    if (r == 0)
        r = run_post_receives(&run, true);
    if (r < 0) {
        (void)say(client, data.why);
    } else {
        r = run_data(client, &run, &idle, &result);
        if (r == 0 || run.corrupt)
            client->results[client->result_count++] = result;
    }
    end_free(&data);
    meet_idle_free(&idle);
    return r;
}

static int measure_all(struct client *client)
{
    const struct client_options *options = client->options;

    if (options->plan.both_ways)
        fputs("Both ways: messages, msg/s and MB/s are the sum of the two directions.\n",
              client->table);
    perf_print_heading(client->table, options->plan.test == PLAN_LAT);
    for (uint64_t size = options->size_first;;) {
        size_t before = client->result_count;
        int r = measure(client, size);

        if (client->result_count > before)
            perf_print_row(client->table, &client->results[before]);
        fflush(client->table);
        if (r < 0)
            return -1;
        if (size == options->size_last || size * 2 > options->size_last)
            return 0;
        size *= 2;
    }
}

static int write_json(struct client *client)
{
    const struct client_options *options = client->options;
    const struct plan *plan = &options->plan;
    struct perf_param params[28];
    size_t count = 0;
    char command[300];
    int r;

    perf_param_text(&params[count++], "host", options->host);
    perf_param_text(&params[count++], "nic", client->nic.attrs.Name);
    perf_param_text(&params[count++], "op", plan_op_names[plan->op]);
    perf_param_text(&params[count++], "reliability", plan_level_names[plan->level]);
    perf_param_text(&params[count++], "wait", plan_wait_names[plan->wait]);
    perf_param_number(&params[count++], "cq", plan->cq);
    perf_param_number(&params[count++], "both_ways", plan->both_ways);
    perf_param_number(&params[count++], "segments", (double)plan->segments);
    if (plan->buffers) {
        perf_param_number(&params[count++], "buffers", (double)plan->buffers);
        perf_param_text(&params[count++], "register", plan->apart ? "each" : "one");
    }
    perf_param_number(&params[count++], "verify", plan->verify);
    perf_param_number(&params[count++], "random_sizes", plan->random_sizes);
    perf_param_number(&params[count++], "seed", (double)plan->seed);
    perf_param_number(&params[count++], "size_first_bytes", (double)options->size_first);
    perf_param_number(&params[count++], "size_last_bytes", (double)options->size_last);
    if (plan->iters != UINT64_MAX)
        perf_param_number(&params[count++], "iters", (double)plan->iters);
    if (plan->duration_ms != UINT64_MAX)
        perf_param_number(&params[count++], "duration_ms", (double)plan->duration_ms);
    if (plan->every_ms)
        perf_param_number(&params[count++], "every_ms", (double)plan->every_ms);
    if (plan->total_bytes != UINT64_MAX)
        perf_param_number(&params[count++], "total_bytes", (double)plan->total_bytes);
    if (plan->test != PLAN_LAT)
        perf_param_number(&params[count++], "window",
                          (double)options_plan(options, options->size_first).window);
    perf_param_number(&params[count++], "vis", (double)plan->idle_vis + 1);
    if (plan->idle_vis)
        perf_param_number(&params[count++], "connect_ns", (double)client->connect_ns);
    perf_param_number(&params[count++], "lost_messages", (double)client->lost);
    perf_param_text(&params[count++], "client_version", VIP_VERSION);
    perf_param_text(&params[count++], "server_version", client->server_build);
    snprintf(command, sizeof(command), "%s", plan_test_names[plan->test]);
    r = perf_json_write(options->json, command, params, count, client->results,
                        client->result_count);
    if (r < 0) {
        snprintf(client->why, sizeof(client->why), "cannot write %s: %s", options->json,
                 strerror(-r));
        return -1;
    }
    return 0;
}

int client_main(const struct client_options *options)
{
    struct client *client = calloc(1, sizeof(*client));
    int r = -1;

    if (client)
        client->sample_ns = calloc(SAMPLES_MAX, sizeof(*client->sample_ns));
    if (!client || !client->sample_ns) {
        fprintf(stderr, "vipperf: FAILED: out of memory\n");
        free(client);
        return 1;
    }
    client->options = options;
    client->table = options->json && strcmp(options->json, "-") == 0 ? stderr : stdout;
    if (end_nic_open(&client->nic, options->nic, client->why, sizeof(client->why)) < 0)
        goto out;
    if (meet_make_control(&client->control, &client->nic) < 0 ||
        meet_connect(&client->control, options->host, MEET_DISCRIMINATOR) < 0) {
        (void)say(client, client->control.why);
    } else {
        r = measure_all(client);
        if (client->lost > 0)
            fprintf(client->table,
                    "%" PRIu64 " of %" PRIu64 " messages were lost (Unreliable Delivery)\n",
                    client->lost, client->sent);
        /* Write the JSON after a failure, too: the results before the failure are valid. */
        if (options->json && client->result_count > 0 && write_json(client) < 0)
            r = -1;
    }
    end_free(&client->control);
    end_nic_close(&client->nic);
out:
    if (r < 0) {
        fflush(stdout);
        fprintf(stderr, "vipperf: FAILED: %s\n", client->why);
    }
    free(client->sample_ns);
    free(client);
    return r < 0 ? 1 : 0;
}

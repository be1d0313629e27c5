/*
 * The server. It needs no parameters: the first note of each client has the plan. Every client has
 * its own thread, a control connection, and one data connection per measurement.
 *
 * Steps of a measurement: The client sends the plan. The server refuses it, or answers with the
 * discriminator for the data connection. Both sides connect and measure. The client sends "done",
 * and the server sends its result.
 */
#include "tools/vipperf/serve.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "tools/vipperf/meet.h"
#include "tools/vipperf/run.h"

/* Largest number of bytes that the server allocates for a client's measurement. */
#define MEMORY_MAX_BYTES (1ull << 30)

/* Time, in ms, of one wait for a client; then the server waits again. */
#define LISTEN_MS 60000

/* One client. */
struct visit {
    struct end_nic *nic;
    VIP_CONN_HANDLE request; /* the client's request for the control connection */
    struct end control;
    bool failed; /* a measurement of this client has failed */
    bool joined; /* receive() joins the thread and frees this struct */
};

/* Number for the discriminator of this process's next data connection. */
static atomic_uint data_number;

static uint64_t thread_cpu_ns(void)
{
    struct rusage usage;

    if (getrusage(RUSAGE_THREAD, &usage) < 0)
        return 0;
    return ((uint64_t)usage.ru_utime.tv_sec + (uint64_t)usage.ru_stime.tv_sec) * 1000000000u +
           ((uint64_t)usage.ru_utime.tv_usec + (uint64_t)usage.ru_stime.tv_usec) * 1000u;
}

/* Can the server execute this plan? False: the sentence in why has the reason. */
static bool acceptable(const struct visit *visit, const struct plan *plan, char *why,
                       size_t why_bytes)
{
    const VIP_NIC_ATTRIBUTES *attrs = &visit->nic->attrs;
    uint64_t window_max = run_window_max(plan, false, attrs->MaxDescriptorsPerQueue);
    uint64_t slots = plan->buffers > 0        ? plan->buffers
                     : plan->test == PLAN_LAT ? RUN_PINGPONG_SLOTS
                                              : plan->window + 1;
    struct end_args args;

    if (plan->test == PLAN_LAT || plan->both_ways)
        slots *= 2;
    if (plan->size_bytes > attrs->MaxTransferSize) {
        snprintf(why, why_bytes,
                 "messages of %" PRIu64 " bytes are larger than the server's MaxTransferSize of "
                 "%lu bytes",
                 plan->size_bytes, attrs->MaxTransferSize);
        return false;
    }
    if (plan->window == 0 || plan->window > window_max) {
        snprintf(why, why_bytes,
                 "a window of %" PRIu64 " messages is not between 1 and the server's %" PRIu64,
                 plan->window, window_max);
        return false;
    }
    if (plan->segments == 0 || plan->segments > run_segments_max(plan, attrs->MaxSegmentsPerDesc) ||
        (plan->size_bytes > 0 && plan->segments > plan->size_bytes)) {
        snprintf(why, why_bytes,
                 "%" PRIu64 " segments for a message of %" PRIu64
                 " bytes are not between 1 and its bytes or the server's %lu",
                 plan->segments, plan->size_bytes,
                 run_segments_max(plan, attrs->MaxSegmentsPerDesc));
        return false;
    }
    if (plan->buffers > (plan->apart ? PLAN_APART_MAX : PLAN_BUFFERS_MAX) ||
        (plan->apart && plan->buffers == 0)) {
        snprintf(why, why_bytes,
                 "%" PRIu64
                 " buffers are more than the server's %d, or %d with a registration each",
                 plan->buffers, PLAN_BUFFERS_MAX, PLAN_APART_MAX);
        return false;
    }
    if (plan->both_ways && (plan->test != PLAN_BW || plan->op == PLAN_READ)) {
        snprintf(why, why_bytes, "%s with %s cannot go both ways: only bw with send or write can",
                 plan_test_names[plan->test], plan_op_names[plan->op]);
        return false;
    }
    if (plan->idle_vis >= visit->nic->attrs.MaxVI) {
        snprintf(why, why_bytes, "%" PRIu64 " VIs are more than the server's NIC has: %lu",
                 plan->idle_vis + 1, visit->nic->attrs.MaxVI);
        return false;
    }
    run_end_args(plan, false, &args);
    if (args.slot_bytes * slots > MEMORY_MAX_BYTES) {
        snprintf(why, why_bytes,
                 "a window of %" PRIu64 " messages of %" PRIu64
                 " bytes needs more than the server's 1 GiB; use a smaller --window or fewer "
                 "--buffers",
                 plan->window, plan->size_bytes);
        return false;
    }
    return true;
}

static int refuse(struct visit *visit, const char *why)
{
    struct note note = {0};

    note_put_number(&note, "protocol", PLAN_PROTOCOL);
    note_put(&note, "build", VIP_VERSION);
    note_put(&note, "refused", why);
    visit->failed = true;
    return note_send(&visit->control, &note);
}

/*
 * Send the client the discriminator, then accept its idle VIs and its data connection. Outcomes: 0;
 * -1 with run->end->why.
 */
static int connect_data(struct visit *visit, struct run *run, struct meet_idle *idle)
{
    VIP_CONN_HANDLE request = NULL;
    char disc[MEET_DISC_BYTES];
    struct plan_target own;
    struct note ready = {0};
    VIP_RETURN rc;
    int r;

    snprintf(disc, sizeof(disc), "vipperf-%u", atomic_fetch_add(&data_number, 1));
    note_put_number(&ready, "protocol", PLAN_PROTOCOL);
    note_put(&ready, "build", VIP_VERSION);
    note_put(&ready, "discriminator", disc);
    run_target(run->end, &own);
    target_put(&ready, &own);
    if (note_send(&visit->control, &ready) < 0) {
        snprintf(run->end->why, sizeof(run->end->why), "%.500s", visit->control.why);
        return -1;
    }
    if (meet_idle_accept(idle, visit->nic, run->plan->idle_vis, disc, run->end->why,
                         sizeof(run->end->why)) < 0)
        return -1;
    r = meet_wait(visit->nic, disc, MEET_DATA_MS, &request, run->end->why, sizeof(run->end->why));
    if (r == 0)
        snprintf(run->end->why, sizeof(run->end->why),
                 "the client did not open its data connection");
    if (r <= 0)
        return -1;
    rc = VipConnectAccept(request, run->end->vi);
    if (rc != VIP_SUCCESS) {
        (void)VipConnectReject(request);
        return end_failed(run->end, "VipConnectAccept", rc);
    }
    return 0;
}

/* Read the client's "done" and answer with the result. Outcomes: 0; -1: the client is gone. */
static int report(struct visit *visit, struct run *run, int outcome, uint64_t cpu_ns)
{
    struct note done, result = {0};

    note_put(&result, "status", outcome == 0 ? "ok" : run->corrupt ? "corrupt" : "failed");
    if (outcome != 0)
        note_put(&result, "why", run->end->why);
    note_put_number(&result, "received", run->received);
    note_put_number(&result, "received_bytes", run->bytes_received);
    note_put_number(&result, "sent", run->sent);
    note_put_number(&result, "cpu_ns", cpu_ns);
    /* After a failure, the client may still wait for data. A disconnect ends its wait. */
    if (outcome != 0)
        (void)VipDisconnect(run->end->vi);
    if (!run->client_done && note_recv(&visit->control, END_PATIENCE_MS, &done) <= 0)
        return -1;
    return note_send(&visit->control, &result);
}

static int measure(struct visit *visit, const struct plan *plan)
{
    struct end data;
    struct end_args args;
    struct run run = {.end = &data, .control = &visit->control, .plan = plan, .remote = plan->own};
    struct meet_idle idle = {0};
    uint64_t cpu_ns;
    int r;

    run_end_args(plan, false, &args);
    if (end_make(&data, visit->nic, &args) < 0 || run_post_receives(&run, false) < 0) {
        r = refuse(visit, data.why);
        end_free(&data);
        return r;
    }
    cpu_ns = thread_cpu_ns();
    r = connect_data(visit, &run, &idle);
    if (r == 0)
        r = run_server(&run);
    cpu_ns = thread_cpu_ns() - cpu_ns;
    if (r < 0) {
        visit->failed = true;
        fprintf(stderr, "vipperf serve: FAILED: %s\n", data.why);
    }
    r = report(visit, &run, r, cpu_ns);
    end_free(&data);
    meet_idle_free(&idle);
    return r;
}

/* Handle a client's note, which is a plan. Outcomes: 0: continue; -1: the client is gone. */
static int converse(struct visit *visit, const struct note *note)
{
    uint64_t protocol = 0;
    char build[64] = "?", why[256];
    struct plan plan;

    if (!note_get_number(note, "protocol", &protocol) || protocol != PLAN_PROTOCOL) {
        (void)note_get(note, "build", build, sizeof(build));
        snprintf(why, sizeof(why),
                 "versions differ: the server is vipperf " VIP_VERSION
                 " (protocol %d), the client vipperf %s (protocol %" PRIu64 ")",
                 PLAN_PROTOCOL, build, protocol);
        return refuse(visit, why);
    }
    if (!plan_get(note, &plan, why, sizeof(why)) || !acceptable(visit, &plan, why, sizeof(why)))
        return refuse(visit, why);
    return measure(visit, &plan);
}

static void *visit_main(void *arg)
{
    struct visit *visit = arg;
    struct note note;
    VIP_RETURN rc;

    if (meet_make_control(&visit->control, visit->nic) < 0) {
        fprintf(stderr, "vipperf serve: FAILED: %s\n", visit->control.why);
        (void)VipConnectReject(visit->request);
        visit->failed = true;
    } else {
        rc = VipConnectAccept(visit->request, visit->control.vi);
        if (rc == VIP_SUCCESS) {
            int r;

            do {
                r = note_recv(&visit->control, END_PATIENCE_MS, &note);
            } while (r == 0 || (r > 0 && converse(visit, &note) == 0));
        } else {
            (void)VipConnectReject(visit->request);
            visit->failed = true;
        }
    }
    end_free(&visit->control);
    if (!visit->joined)
        free(visit);
    return NULL;
}

/* Start a thread for the client; if `once`, wait until it ends. Returns 0; 1 after a failure. */
static int receive(struct end_nic *nic, VIP_CONN_HANDLE request, bool once)
{
    struct visit *visit = calloc(1, sizeof(*visit));
    pthread_t thread;
    int status = 0;

    if (!visit) {
        (void)VipConnectReject(request);
        return 1;
    }
    visit->nic = nic;
    visit->request = request;
    visit->joined = once;
    if (pthread_create(&thread, NULL, visit_main, visit) != 0) {
        (void)VipConnectReject(request);
        free(visit);
        return 1;
    }
    if (!once) {
        (void)pthread_detach(thread);
        return 0;
    }
    (void)pthread_join(thread, NULL);
    status = visit->failed ? 1 : 0;
    free(visit);
    return status;
}

int serve_main(const struct serve_options *options)
{
    struct end_nic nic;
    char why[WHY_BYTES];
    int status = 0;

    if (end_nic_open(&nic, options->nic, why, sizeof(why)) < 0) {
        fprintf(stderr, "vipperf serve: FAILED: %s\n", why);
        return 1;
    }
    printf("vipperf serve: ready on NIC %s\n", nic.attrs.Name);
    fflush(stdout);
    for (;;) {
        VIP_CONN_HANDLE request = NULL;
        int r = meet_wait(&nic, MEET_DISCRIMINATOR, LISTEN_MS, &request, why, sizeof(why));

        if (r < 0) {
            fprintf(stderr, "vipperf serve: FAILED: %s\n", why);
            status = 1;
            break;
        }
        if (r == 0)
            continue;
        status = receive(&nic, request, options->once);
        if (options->once)
            break;
    }
    if (options->once)
        end_nic_close(&nic);
    return status;
}

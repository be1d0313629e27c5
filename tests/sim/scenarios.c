/*
 * Named scenarios for rules of the specification. Each scenario prints a transcript; the program
 * compares it with golden/NAME.txt. A transcript shows every packet with its frames, every
 * completion, event and state, with the virtual time in us.
 *
 *   simscen --list | NAME... [--golden DIR] [--update DIR]
 *
 * Without --golden the transcript goes to stdout. Each scenario runs twice, with equal transcripts.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "tests/sim/sim.h"

#define A 0u
#define B 1u

/* Two hosts with one connected VI each, and memory for the messages. */
struct play {
    struct sim *sim;
    struct sim_mem mem[2];    /* 256 KiB each; host A has a pattern, host B has zeros */
    struct sim_mem target[2]; /* 64 KiB that the peer may write and read */
    unsigned late_receives;   /* number of receives that B posts only when its engine asks */
};

#define MEM_BYTES    262144u
#define TARGET_BYTES 65536u

static void on_complete(void *ctx, unsigned host, uint16_t vi, enum vip_queue queue,
                        uint32_t status, uint32_t length, uint64_t imm)
{
}

static void on_event(void *ctx, unsigned host, const struct eng_event *event)
{
}

static void recv_at(struct play *play, unsigned host, uint32_t offset, uint32_t len)
{
    sim_post_simple(play->sim, host, 0, VIP_Q_RECV, 0, NULL, &play->mem[host], offset, len, 0);
}

static void on_fetch(void *ctx, unsigned host)
{
    struct play *play = ctx;

    if (host != B || !play->late_receives)
        return;
    sim_trace(play->sim, "B is asked for receives and posts one");
    play->late_receives--;
    recv_at(play, B, 0, 4096);
}

static void play_open(struct play *play, uint16_t level, uint32_t packet_bytes, FILE *trace)
{
    struct sim_config config = {
        .seed = 1,
        .hosts = 2,
        .engine = ENG_CONFIG_DEFAULT,
        .link = {.delay_ns = 10000},
        .app = {.complete = on_complete, .event = on_event, .fetch = on_fetch, .ctx = play},
        .trace = trace};

    config.engine.conn_timeout_ns = 4000000000; /* shorter than in vipd, for short transcripts */
    play->sim = sim_new(&config);
    for (unsigned i = 0; i < 2; i++) {
        play->mem[i] = sim_register(play->sim, i, MEM_BYTES, 0);
        play->target[i] =
            sim_register(play->sim, i, TARGET_BYTES, SIM_REMOTE_WRITE | SIM_REMOTE_READ);
        sim_vi(play->sim, i, 0, level, 65536);
    }
    for (uint32_t i = 0; i < MEM_BYTES; i++)
        play->mem[A].bytes[i] = (uint8_t)(i * 7 + (i >> 8) * 13 + 1);
    for (uint32_t i = 0; i < TARGET_BYTES; i++)
        play->target[B].bytes[i] = (uint8_t)(i * 5 + 3);
    if (packet_bytes)
        sim_connect(play->sim, A, 0, B, 0, packet_bytes, 262144);
}

static void run_ms(struct play *play, uint64_t ms)
{
    sim_run(play->sim, sim_now(play->sim) + ms * 1000000);
}

static void send_at(struct play *play, unsigned host, uint32_t offset, uint32_t len)
{
    sim_post_simple(play->sim, host, 0, VIP_Q_SEND, 0, NULL, &play->mem[host], offset, len, 0);
}

/* Post an RDMA operation of A on B's target memory. */
static void rdma(struct play *play, uint16_t control, uint32_t handle, uint32_t to, uint32_t offset,
                 uint32_t len, uint64_t imm)
{
    struct vip_shm_seg remote = {.addr = play->target[B].addr + to, .handle = handle};

    sim_post_simple(play->sim, A, 0, VIP_Q_SEND, control, &remote, &play->mem[A], offset, len, imm);
}

static void same(struct play *play, const uint8_t *at, const uint8_t *as, uint32_t len)
{
    if (memcmp(at, as, len) != 0)
        sim_fail(play->sim, "bytes differ");
}

/* ---- traffic --------------------------------------------------------------------------- */

static void ping_pong(struct play *play)
{
    for (uint32_t i = 0; i < 3; i++) {
        recv_at(play, B, i * 1024, 1024);
        recv_at(play, A, 128 * 1024 + i * 1024, 1024);
    }
    for (uint32_t i = 0; i < 3; i++) {
        send_at(play, A, i * 1024, 64 + i);
        sim_run(play->sim, sim_now(play->sim) + 10500);
        same(play, play->mem[B].bytes + i * 1024, play->mem[A].bytes + i * 1024, 64 + i);
        send_at(play, B, i * 1024, 64 + i);
        sim_run(play->sim, sim_now(play->sim) + 10500);
    }
    run_ms(play, 10);
}

/* Ten small messages that wait together share a packet. One of them is empty. */
static void small_share(struct play *play)
{
    for (uint32_t i = 0; i < 10; i++)
        recv_at(play, B, i * 100, 100);
    for (uint32_t i = 0; i < 10; i++)
        send_at(play, A, i * 100, i * 10);
    run_ms(play, 10);
    for (uint32_t i = 0; i < 10; i++)
        same(play, play->mem[B].bytes + i * 100, play->mem[A].bytes + i * 100, i * 10);
}

static void bulk(struct play *play)
{
    recv_at(play, B, 0, 65536);
    recv_at(play, B, 65536, 65536);
    send_at(play, A, 0, 30000);
    send_at(play, A, 65536, 20000);
    run_ms(play, 100);
    same(play, play->mem[B].bytes, play->mem[A].bytes, 30000);
    same(play, play->mem[B].bytes + 65536, play->mem[A].bytes + 65536, 20000);
}

/* Packets are lost in a burst. Shows held packets, ranges and fast retransmission. */
static void loss_middle(struct play *play)
{
    sim_drop(play->sim, A, 3);
    sim_drop(play->sim, A, 7);
    bulk(play);
}

/* The last packet is lost. No later packet shows the gap, so a probe repeats the packet. */
static void loss_tail(struct play *play)
{
    recv_at(play, B, 0, 1024);
    recv_at(play, B, 1024, 1024);
    send_at(play, A, 0, 100);
    run_ms(play, 1);
    sim_drop(play->sim, A, 2);
    send_at(play, A, 1024, 200);
    run_ms(play, 100);
    same(play, play->mem[B].bytes + 1024, play->mem[A].bytes + 1024, 200);
}

/* All packets arrive, but the acknowledgement is lost. */
static void loss_ack(struct play *play)
{
    recv_at(play, B, 0, 1024);
    sim_drop(play->sim, B, 1);
    send_at(play, A, 0, 100);
    run_ms(play, 100);
}

static void peer_silent(struct play *play)
{
    recv_at(play, B, 0, 1024);
    sim_link(play->sim)->dead = true;
    send_at(play, A, 0, 100);
    send_at(play, A, 0, 200);
    run_ms(play, 5000);
    send_at(play, A, 0, 300);
    recv_at(play, A, 0, 300);
    sim_disconnect(play->sim, A, 0);
}

static void gather_scatter(struct play *play)
{
    struct vip_shm_seg segs[4];
    struct eng_post post = {.vi = 0, .queue = VIP_Q_SEND, .seg_count = 4, .app_segs = segs};

    for (unsigned i = 0; i < 4; i++) {
        segs[i].addr = play->mem[A].addr + i * 1000;
        segs[i].handle = play->mem[A].handle;
        segs[i].len = i == 2 ? 0 : 301 + i;
        post.length += segs[i].len;
    }
    recv_at(play, B, 0, 500);
    post.queue = VIP_Q_RECV;
    for (unsigned i = 0; i < 4; i++) {
        segs[i].addr = play->mem[B].addr + i * 2000;
        segs[i].handle = play->mem[B].handle;
        segs[i].len = 400;
    }
    sim_post(play->sim, B, &post);
    for (unsigned i = 0; i < 4; i++) {
        segs[i].addr = play->mem[A].addr + i * 1000;
        segs[i].handle = play->mem[A].handle;
        segs[i].len = i == 2 ? 0 : 301 + i;
    }
    post.queue = VIP_Q_SEND;
    send_at(play, A, 0, 500);
    sim_post(play->sim, A, &post);
    run_ms(play, 10);
    same(play, play->mem[B].bytes + 2000, play->mem[A].bytes + 1000 + 99, 203);
}

static void receive_late(struct play *play)
{
    play->late_receives = 1;
    send_at(play, A, 0, 100);
    run_ms(play, 10);
}

static void immediate(struct play *play)
{
    recv_at(play, B, 0, 1024);
    recv_at(play, B, 0, 1024);
    sim_post_simple(play->sim, A, 0, VIP_Q_SEND, VIP_CTL_IMMEDIATE, NULL, NULL, 0, 0, 0x12345678);
    sim_post_simple(play->sim, A, 0, VIP_Q_SEND, VIP_CTL_IMMEDIATE, NULL, &play->mem[A], 0, 10,
                    0x123456789abcdef0);
    run_ms(play, 10);
}

/* ---- errors, by level (spec 3.6) ------------------------------------------------------- */

static void recvq_empty(struct play *play)
{
    send_at(play, A, 0, 100);
    send_at(play, A, 0, 200);
    run_ms(play, 10);
    recv_at(play, B, 0, 1024);
    send_at(play, A, 0, 300);
    run_ms(play, 10);
}

static void too_long(struct play *play)
{
    recv_at(play, B, 0, 1024);
    recv_at(play, B, 0, 100);
    recv_at(play, B, 0, 1024);
    send_at(play, A, 0, 10);
    send_at(play, A, 0, 101);
    send_at(play, A, 0, 20);
    run_ms(play, 10);
}

static void recv_format(struct play *play)
{
    sim_post_simple(play->sim, B, 0, VIP_Q_RECV, 0x0100, NULL, &play->mem[B], 0, 1024, 0);
    recv_at(play, B, 0, 1024);
    send_at(play, A, 0, 10);
    send_at(play, A, 0, 20);
    run_ms(play, 10);
}

static void recv_protection(struct play *play)
{
    struct sim_mem mem = play->mem[B];

    mem.handle += 77;
    sim_post_simple(play->sim, B, 0, VIP_Q_RECV, 0, NULL, &mem, 0, 1024, 0);
    recv_at(play, B, 0, 1024);
    send_at(play, A, 0, 10);
    send_at(play, A, 0, 20);
    run_ms(play, 10);
}

/* Faults of send descriptors (spec 3.4). At a reliable level a fault breaks the connection. */
static void send_faults(struct play *play)
{
    struct vip_shm_seg seg = {.addr = play->mem[A].addr, .handle = play->mem[A].handle, .len = 100};
    struct eng_post post = {.queue = VIP_Q_SEND, .seg_count = 1, .length = 100, .app_segs = &seg};
    struct eng_post bad[9];

    for (unsigned i = 0; i < 4; i++)
        recv_at(play, B, 0, 1024);
    for (unsigned i = 0; i < 9; i++)
        bad[i] = post;
    bad[0].control = 0x0040;
    bad[1].reserved = 1;
    bad[2].control = VIP_CTL_OP_RESERVED;
    bad[3].length = 99;
    bad[4].control = VIP_CTL_OP_RDMAWRITE;
    bad[4].seg_count = 0;
    bad[5].control = VIP_CTL_OP_RDMAREAD | VIP_CTL_IMMEDIATE;
    bad[6].seg_count = VIP_SEGS_PER_DESC_MAX + 1;
    send_at(play, A, 0, 50);
    for (unsigned i = 0; i < 6; i++)
        sim_post(play->sim, A, &bad[i]);
    seg.len = 65537;
    bad[7].length = 65537;
    sim_post(play->sim, A, &bad[7]);
    seg.len = 100;
    seg.handle += 50;
    sim_post(play->sim, A, &bad[8]);
    send_at(play, A, 0, 60);
    run_ms(play, 10);
}

static void deregistered(struct play *play)
{
    recv_at(play, B, 0, 1024);
    recv_at(play, B, 0, 65536);
    send_at(play, A, 0, 10);
    send_at(play, A, 0, 60000);
    sim_run(play->sim, sim_now(play->sim) + 5000);
    sim_deregister(play->sim, A, play->mem[A].handle);
    run_ms(play, 100);
}

/* The sender ends the connection in the middle of a message. */
static void half_message(struct play *play)
{
    recv_at(play, B, 0, 65536);
    recv_at(play, B, 0, 65536);
    sim_drop(play->sim, A, 4);
    send_at(play, A, 0, 30000);
    sim_run(play->sim, sim_now(play->sim) + 15000);
    sim_disconnect(play->sim, A, 0);
    run_ms(play, 10);
    sim_disconnect(play->sim, B, 0);
}

/* Unreliable Delivery: one message has a hole, one is lost whole, and one lacks its start. */
static void unreliable_holes(struct play *play)
{
    for (unsigned i = 0; i < 4; i++)
        recv_at(play, B, i * 8192, 8192);
    sim_drop(play->sim, A, 2);
    sim_drop(play->sim, A, 6);
    sim_drop(play->sim, A, 7);
    for (unsigned i = 0; i < 5; i++) {
        send_at(play, A, 0, i == 2 ? 100 : 4000);
        sim_run(play->sim, sim_now(play->sim) + 1000);
    }
    run_ms(play, 100);
}

static void disconnect(struct play *play)
{
    recv_at(play, A, 0, 100);
    recv_at(play, B, 0, 100);
    recv_at(play, B, 0, 100);
    send_at(play, A, 0, 10);
    run_ms(play, 1);
    send_at(play, A, 0, 20);
    sim_disconnect(play->sim, A, 0);
    run_ms(play, 1);
    send_at(play, B, 0, 30);
    sim_disconnect(play->sim, B, 0);
    sim_connect(play->sim, A, 0, B, 0, 1472, 65536);
    recv_at(play, B, 0, 100);
    send_at(play, A, 0, 40);
    run_ms(play, 1);
}

/* Post descriptors in each state of a VI (spec 3.2). */
static void posting_states(struct play *play)
{
    struct eng *eng = sim_engine(play->sim, B);
    uint32_t ops_done;

    recv_at(play, B, 0, 100);
    send_at(play, B, 0, 10);
    eng_vi_set_pending(eng, 0);
    recv_at(play, B, 0, 200);
    send_at(play, B, 0, 20);
    eng_vi_set_idle(eng, 0);
    sim_connect(play->sim, A, 0, B, 0, 1472, 65536);
    send_at(play, A, 0, 30);
    run_ms(play, 1);
    sim_disconnect(play->sim, A, 0);
    run_ms(play, 1);
    recv_at(play, B, 0, 300);
    send_at(play, B, 0, 40);
    eng_vi_disconnect(eng, 0, &ops_done);
    sim_trace(play->sim, "B had processed %u", ops_done);
}

static void overrun(struct play *play)
{
    for (unsigned i = 0; i <= VIP_DESC_PER_QUEUE_MAX; i++)
        recv_at(play, B, 0, 1);
    sim_trace(play->sim, "and what was posted stays posted");
    send_at(play, A, 0, 1);
    run_ms(play, 1);
}

/* ---- RDMA ------------------------------------------------------------------------------ */

static void write_plain(struct play *play)
{
    recv_at(play, B, 0, 100);
    recv_at(play, B, 0, 100);
    rdma(play, VIP_CTL_OP_RDMAWRITE, play->target[B].handle, 1000, 500, 5000, 0);
    rdma(play, VIP_CTL_OP_RDMAWRITE | VIP_CTL_IMMEDIATE, play->target[B].handle, 7000, 0, 64, 9);
    rdma(play, VIP_CTL_OP_RDMAWRITE | VIP_CTL_IMMEDIATE, play->target[B].handle, 0, 0, 0, 10);
    run_ms(play, 10);
    same(play, play->target[B].bytes + 1000, play->mem[A].bytes + 500, 5000);
    same(play, play->target[B].bytes + 7000, play->mem[A].bytes, 64);
}

static void write_denied(struct play *play)
{
    recv_at(play, B, 0, 100);
    rdma(play, VIP_CTL_OP_RDMAWRITE, play->target[B].handle, 0, 0, 64, 0);
    rdma(play, VIP_CTL_OP_RDMAWRITE, play->mem[B].handle, 0, 0, 64, 0);
    rdma(play, VIP_CTL_OP_RDMAWRITE, play->target[B].handle, 0, 0, 32, 0);
    run_ms(play, 10);
}

static void write_denied_immediate(struct play *play)
{
    recv_at(play, B, 0, 100);
    recv_at(play, B, 0, 100);
    rdma(play, VIP_CTL_OP_RDMAWRITE | VIP_CTL_IMMEDIATE, play->target[B].handle, TARGET_BYTES - 63,
         0, 64, 5);
    rdma(play, VIP_CTL_OP_RDMAWRITE | VIP_CTL_IMMEDIATE, play->target[B].handle, 0, 0, 32, 6);
    run_ms(play, 10);
}

static void read_plain(struct play *play)
{
    recv_at(play, B, 0, 100);
    rdma(play, VIP_CTL_OP_RDMAREAD, play->target[B].handle, 100, 0, 5000, 0);
    send_at(play, A, 200000, 10);
    rdma(play, VIP_CTL_OP_RDMAREAD, play->target[B].handle, 0, 10000, 0, 0);
    rdma(play, VIP_CTL_OP_RDMAREAD, play->target[B].handle, 7, 20000, 50, 0);
    /* This write is fenced: it starts when the reads are complete. */
    rdma(play, VIP_CTL_OP_RDMAWRITE | VIP_CTL_QFENCE, play->target[B].handle, 0, 0, 16, 0);
    run_ms(play, 10);
    same(play, play->mem[A].bytes, play->target[B].bytes + 100, 5000);
    same(play, play->mem[A].bytes + 20009, play->target[B].bytes + 16, 41);
    same(play, play->target[B].bytes, play->mem[A].bytes, 16);
}

static void read_lossy(struct play *play)
{
    sim_drop(play->sim, B, 2);
    sim_drop(play->sim, A, 1);
    rdma(play, VIP_CTL_OP_RDMAREAD, play->target[B].handle, 100, 0, 20000, 0);
    run_ms(play, 100);
    same(play, play->mem[A].bytes, play->target[B].bytes + 100, 20000);
}

static void read_denied(struct play *play)
{
    rdma(play, VIP_CTL_OP_RDMAREAD, play->target[B].handle, 0, 0, 10, 0);
    rdma(play, VIP_CTL_OP_RDMAREAD, play->mem[B].handle, 0, 0, 10, 0);
    send_at(play, A, 0, 10);
    run_ms(play, 10);
}

/* ---- several VIs ----------------------------------------------------------------------- */

/* A bulk sender delays a small message on another VI only for a short time. */
static void fairness(struct play *play)
{
    sim_vi(play->sim, A, 1, VIP_LVL_DELIVERY, 65536);
    sim_vi(play->sim, B, 1, VIP_LVL_DELIVERY, 65536);
    sim_connect(play->sim, A, 1, B, 1, 9000, 1 << 20);
    for (unsigned i = 0; i < 4; i++) {
        recv_at(play, B, 0, 65536);
        send_at(play, A, 0, 65536);
    }
    sim_post_simple(play->sim, B, 1, VIP_Q_RECV, 0, NULL, &play->mem[B], 0, 100, 0);
    sim_post_simple(play->sim, A, 1, VIP_Q_SEND, 0, NULL, &play->mem[A], 0, 64, 0);
    run_ms(play, 10);
}

#define UD VIP_LVL_UNRELIABLE
#define RD VIP_LVL_DELIVERY
#define RR VIP_LVL_RECEPTION

static const struct scenario {
    const char *name;
    void (*run)(struct play *play);
    uint16_t level;
    uint32_t packet_bytes; /* 0: the scenario makes its connection itself */
} SCENARIOS[] = {
    {"ping_pong", ping_pong, RD, 1472},
    {"small_share", small_share, RD, 1472},
    {"bulk", bulk, RD, 9000},
    {"loss_middle", loss_middle, RD, 4096},
    {"loss_tail", loss_tail, RD, 1472},
    {"loss_ack", loss_ack, RD, 1472},
    {"peer_silent", peer_silent, RD, 1472},
    {"gather_scatter", gather_scatter, RD, 1472},
    {"receive_late", receive_late, RD, 1472},
    {"immediate", immediate, RD, 1472},
    {"recvq_empty_ud", recvq_empty, UD, 1472},
    {"recvq_empty_rd", recvq_empty, RD, 1472},
    {"recvq_empty_rr", recvq_empty, RR, 1472},
    {"too_long_ud", too_long, UD, 1472},
    {"too_long_rd", too_long, RD, 1472},
    {"too_long_rr", too_long, RR, 1472},
    {"recv_format_ud", recv_format, UD, 1472},
    {"recv_format_rd", recv_format, RD, 1472},
    {"recv_format_rr", recv_format, RR, 1472},
    {"recv_protection_ud", recv_protection, UD, 1472},
    {"recv_protection_rd", recv_protection, RD, 1472},
    {"recv_protection_rr", recv_protection, RR, 1472},
    {"send_faults_ud", send_faults, UD, 1472},
    {"send_faults_rd", send_faults, RD, 1472},
    {"deregistered_ud", deregistered, UD, 1472},
    {"deregistered_rd", deregistered, RD, 1472},
    {"half_message_ud", half_message, UD, 4096},
    {"half_message_rd", half_message, RD, 4096},
    {"unreliable_holes", unreliable_holes, UD, 1472},
    {"disconnect_ud", disconnect, UD, 1472},
    {"disconnect_rd", disconnect, RD, 1472},
    {"posting_states", posting_states, RD, 0},
    {"overrun", overrun, RD, 1472},
    {"write_ud", write_plain, UD, 1472},
    {"write_rd", write_plain, RD, 1472},
    {"write_denied_ud", write_denied, UD, 1472},
    {"write_denied_rd", write_denied, RD, 1472},
    {"write_denied_rr", write_denied, RR, 1472},
    {"write_denied_imm_ud", write_denied_immediate, UD, 1472},
    {"write_denied_imm_rd", write_denied_immediate, RD, 1472},
    {"write_denied_imm_rr", write_denied_immediate, RR, 1472},
    {"read_rd", read_plain, RD, 1472},
    {"read_lossy", read_lossy, RD, 1472},
    {"read_denied_rd", read_denied, RD, 1472},
    {"read_denied_ud", read_denied, UD, 1472},
    {"fairness", fairness, RD, 9000},
};

static void scenario_run(const struct scenario *scenario, char **text, size_t *bytes)
{
    struct play play = {0};
    FILE *trace = open_memstream(text, bytes);

    play_open(&play, scenario->level, scenario->packet_bytes, trace);
    scenario->run(&play);
    sim_free(play.sim);
    fclose(trace);
}

/* Does the transcript equal the file? Prints the first line that differs. */
static bool golden_same(const char *path, const char *text)
{
    FILE *file = fopen(path, "r");
    char want[600];
    unsigned number = 0;

    if (!file) {
        fprintf(stderr, "%s: cannot be read\n", path);
        return false;
    }
    while (fgets(want, sizeof(want), file)) {
        size_t len = strlen(want);

        number++;
        if (strncmp(want, text, len) != 0) {
            fprintf(stderr, "%s:%u\n  want %s  got  %.*s\n", path, number, want,
                    (int)strcspn(text, "\n"), text);
            fclose(file);
            return false;
        }
        text += len;
    }
    fclose(file);
    if (*text)
        fprintf(stderr, "%s:%u: the run goes on: %.*s\n", path, number, (int)strcspn(text, "\n"),
                text);
    return !*text;
}

static bool scenario_judge(const struct scenario *scenario, const char *golden, const char *update)
{
    char *text, *again, path[4096];
    size_t bytes, bytes_again;
    bool good;

    scenario_run(scenario, &text, &bytes);
    scenario_run(scenario, &again, &bytes_again);
    good = bytes == bytes_again && !memcmp(text, again, bytes);
    if (!good)
        fprintf(stderr, "%s: two runs differ\n", scenario->name);
    snprintf(path, sizeof(path), "%s/%s.txt",
             update   ? update
             : golden ? golden
                      : "",
             scenario->name);
    if (update) {
        FILE *file = fopen(path, "w");

        good = good && file && fwrite(text, 1, bytes, file) == bytes;
        if (file)
            fclose(file);
    } else if (golden) {
        good = golden_same(path, text) && good;
    } else {
        fputs(text, stdout);
    }
    free(text);
    free(again);
    return good;
}

int main(int argc, char **argv)
{
    const char *golden = NULL, *update = NULL;
    unsigned ran = 0, failed = 0;
    int names = 1;

    for (; names < argc && argv[names][0] == '-'; names++) {
        if (!strcmp(argv[names], "--golden") && names + 1 < argc)
            golden = argv[++names];
        else if (!strcmp(argv[names], "--update") && names + 1 < argc)
            update = argv[++names];
        else if (strcmp(argv[names], "--list") != 0)
            return 2;
    }
    for (size_t i = 0; i < sizeof(SCENARIOS) / sizeof(SCENARIOS[0]); i++) {
        bool chosen = names == argc;

        if (argc == 2 && !golden && !update && argv[1][0] == '-') {
            puts(SCENARIOS[i].name);
            ran++;
            continue;
        }
        for (int n = names; n < argc; n++)
            chosen = chosen || !strcmp(argv[n], SCENARIOS[i].name);
        if (!chosen)
            continue;
        ran++;
        if (!scenario_judge(&SCENARIOS[i], golden, update)) {
            fprintf(stderr, "FAILED %s\n", SCENARIOS[i].name);
            failed++;
        }
    }
    if (golden)
        printf("%u scenarios, %u failed\n", ran, failed);
    return failed || !ran;
}

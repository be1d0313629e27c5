/*
 * For tests of libvipl/loan: two owners in one process, connected by two UDP sockets on 127.0.0.1.
 * The test is both vipd: it writes their words with the functions of vipd/engine/loan_stay.h. Time
 * is an argument. A packet that one end sends is at the other end's socket when the call returns.
 */
#ifndef TESTS_UNIT_LOAN_ENDS_H
#define TESTS_UNIT_LOAN_ENDS_H

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <arpa/inet.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "libvipl/loan/loan.h"
#include "proto/direct.h"
#include "vipd/engine/loan_stay.h"

/* For functions that not every program needs. */
#define SPARE static __attribute__((unused))

#define US         1000ull
#define MS         1000000ull
#define VI         3u
#define GENERATION 77u
#define MEMORY     (1u << 20) /* bytes of an end's registered memory */
#define DONES      4096u
#define PACKET     1472u       /* bytes of the largest packet */
#define FIRST_OP_A 0xfffffffeu /* the numbers of operations wrap */
#define FIRST_OP_B 1000u

struct done {
    enum vip_queue queue;
    uint32_t status, length;
    uint64_t imm;
};

struct end {
    struct vipl__loan *loan;
    struct vipl__loan_terms terms; /* of the present loan, or of the next one */
    struct vipl__regions regions;
    struct vipl__region region; /* of `memory` */
    uint8_t *memory;
    void *table; /* of receives */
    struct vip_loan_part *part;
    struct vip_loan_vipd vipd;
    uint32_t receives; /* posted */
    uint32_t conts;    /* continuation slots used in the table of receives, and of sends */
    struct done done[DONES];
    unsigned dones, bells;
    /* Not NULL: a function that another thread executes while the next completion is reported. */
    void *(*meanwhile)(void *arg);
    void *meanwhile_arg;
};

struct ends {
    struct end a, b;
    uint64_t now_ns;
    unsigned loss;   /* percent of the packets that are lost between the sockets */
    uint32_t random; /* state of the choice of lost packets */
};

static void end_complete(void *ctx, enum vip_queue queue, uint32_t status, uint32_t length,
                         uint64_t imm)
{
    struct end *end = ctx;

    assert_true(end->dones < DONES);
    end->done[end->dones++] = (struct done){queue, status, length, imm};
    if (end->meanwhile != NULL) {
        pthread_t thread;
        void *(*meanwhile)(void *) = end->meanwhile;

        end->meanwhile = NULL;
        assert_int_equal(pthread_create(&thread, NULL, meanwhile, end->meanwhile_arg), 0);
        assert_int_equal(pthread_join(thread, NULL), 0);
    }
}

static void end_bell(void *ctx)
{
    ((struct end *)ctx)->bells++;
}

static void *pages(size_t bytes)
{
    void *got = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

    assert_true(got != MAP_FAILED);
    return got;
}

static void end_init(struct end *end, uint32_t handle)
{
    struct vipl__loan_host host = {
        .regions = &end->regions, .complete = end_complete, .bell = end_bell, .ctx = end};

    end->memory = pages(MEMORY);
    end->region = (struct vipl__region){.handle = handle,
                                        .addr = (uintptr_t)end->memory,
                                        .bytes = MEMORY,
                                        .attrs = {.EnableRdmaWrite = 1, .EnableRdmaRead = 1}};
    assert_int_equal(vipl__region_add(&end->regions, &end->region), 0);
    host.recv_base = end->table = pages((VI + 1) * (size_t)VIP_RECV_STRIDE);
    end->part = pages(sizeof(*end->part));
    assert_int_equal(vipl__loan_new(&host, &end->loan), 0);
}

static void end_deinit(struct end *end)
{
    vipl__loan_free(end->loan);
    close(end->terms.sock);
    free(end->regions.slots);
    munmap(end->memory, MEMORY);
    munmap(end->table, (VI + 1) * (size_t)VIP_RECV_STRIDE);
    munmap(end->part, sizeof(*end->part));
}

static struct sockaddr_in address_of(int sock)
{
    struct sockaddr_in addr;
    socklen_t len = sizeof(addr);

    assert_int_equal(getsockname(sock, (struct sockaddr *)&addr, &len), 0);
    return addr;
}

static void socket_connect(int sock, int to)
{
    struct sockaddr_in addr = address_of(to);

    assert_int_equal(connect(sock, (struct sockaddr *)&addr, sizeof(addr)), 0);
}

static void sockets(int *a, int *b)
{
    struct sockaddr_in any = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};

    *a = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    *b = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    assert_true(*a >= 0 && *b >= 0);
    assert_int_equal(bind(*a, (struct sockaddr *)&any, sizeof(any)), 0);
    assert_int_equal(bind(*b, (struct sockaddr *)&any, sizeof(any)), 0);
    socket_connect(*a, *b);
    socket_connect(*b, *a);
}

/* Make the terms of both ends for their first loan. */
static void terms_first(struct ends *ends)
{
    struct vipl__loan_terms terms = {
        .number = 1,
        .vi = VI,
        .generation = GENERATION,
        .engine = ENG_CONFIG_DEFAULT,
        .attrs = {.level = VIP_LVL_DELIVERY,
                  .max_transfer_bytes = VIP_TRANSFER_BYTES_MAX,
                  .enable_rdma_write = true,
                  .enable_rdma_read = true},
        .conn = {.local_id = 0xa1,
                 .remote_id = 0xb1,
                 .local_epoch = 0xa2,
                 .remote_epoch = 0xb2,
                 .packet_bytes = PACKET,
                 .window_bytes = 1u << 20,
                 .features = VIP_FEATURES},
        .checkpoint = {.done = FIRST_OP_B, .received = 50, .completed = FIRST_OP_A}};

    ends->a.terms = ends->b.terms = terms;
    ends->a.terms.part = ends->a.part;
    ends->b.terms.part = ends->b.part;
    ends->a.terms.vipd = &ends->a.vipd;
    ends->b.terms.vipd = &ends->b.vipd;
    sockets(&ends->a.terms.sock, &ends->b.terms.sock);
    ends->b.terms.conn.local_id = terms.conn.remote_id;
    ends->b.terms.conn.remote_id = terms.conn.local_id;
    ends->b.terms.conn.local_epoch = terms.conn.remote_epoch;
    ends->b.terms.conn.remote_epoch = terms.conn.local_epoch;
    ends->b.terms.checkpoint.done = FIRST_OP_A;
    ends->b.terms.checkpoint.completed = FIRST_OP_B;
    ends->a.terms.peer.done = FIRST_OP_A;
    ends->b.terms.peer.done = FIRST_OP_B;
    ends->a.part->posted = FIRST_OP_A;
    ends->b.part->posted = FIRST_OP_B;
}

/* Begin the loan that vipd has lent. Outcomes: as vipl__loan_begin; -ECANCELED: it is over. */
static int end_begin(const struct ends *ends, struct end *end)
{
    int rc = -ECANCELED;

    vipl__loan_lock(end->loan);
    if (vipl__loan_enter(end->loan, &end->terms))
        rc = vipl__loan_begin(end->loan, &end->terms, ends->now_ns);
    vipl__loan_unlock(end->loan);
    return rc;
}

/* vipd lends, and looks at the owner's words at `look_ns`. */
static void end_lend(struct ends *ends, struct end *end, uint64_t look_ns)
{
    loan_words_lend(&end->vipd, end->terms.number, &end->terms.checkpoint, look_ns);
    assert_int_equal(end_begin(ends, end), 0);
}

/* Two ends without loans. */
static struct ends *ends_new(void)
{
    struct ends *ends = calloc(1, sizeof(*ends));

    ends->now_ns = 5000 * MS;
    end_init(&ends->a, 0x10001);
    end_init(&ends->b, 0x20002);
    terms_first(ends);
    return ends;
}

static void ends_lend(struct ends *ends)
{
    end_lend(ends, &ends->a, ends->now_ns);
    end_lend(ends, &ends->b, ends->now_ns);
}

static void ends_free(struct ends *ends)
{
    end_deinit(&ends->a);
    end_deinit(&ends->b);
    free(ends);
}

/* ---- posting ---------------------------------------------------------------------------- */

static struct vip_shm_seg seg(const struct end *end, uint32_t offset, uint32_t len)
{
    return (struct vip_shm_seg){
        .addr = (uintptr_t)end->memory + offset, .handle = end->region.handle, .len = len};
}

/* The address segment for memory of the peer. */
static struct vip_shm_seg at_peer(const struct end *peer, uint32_t offset)
{
    return seg(peer, offset, 0);
}

static struct vip_sq_slot first_slot(struct vip_sq_slot *conts, struct end *end, uint16_t control,
                                     unsigned count, const struct vip_shm_seg *segs)
{
    struct vip_sq_slot slot = {.vi = VI,
                               .kind = VIP_SQ_SEND,
                               .control = control,
                               .seg_count = (uint16_t)count,
                               .vi_gen = GENERATION};

    for (unsigned i = 0; i < count; i++)
        slot.length += segs[i].len;
    memcpy(slot.seg, segs,
           (count < VIP_SQ_INLINE_SEGS ? count : VIP_SQ_INLINE_SEGS) * sizeof(*segs));
    for (unsigned i = VIP_SQ_INLINE_SEGS; i < count; i += VIP_SQ_CONT_SEGS) {
        unsigned n = count - i < VIP_SQ_CONT_SEGS ? count - i : VIP_SQ_CONT_SEGS;
        struct vip_sq_cont cont = {.vi = VI, .kind = VIP_SQ_CONT};
        struct vip_sq_slot copy;

        memcpy(cont.seg, segs + i, n * sizeof(*segs));
        memcpy(&copy, &cont, sizeof(copy));
        vip_sq_write(conts, end->conts++, &copy);
    }
    return slot;
}

static void post_send(struct end *end, uint16_t control, unsigned count,
                      const struct vip_shm_seg *segs, uint32_t imm)
{
    uint32_t k = end->part->posted;
    struct vip_sq_slot slot;

    end->part->conts_at[k % VIP_DESC_PER_QUEUE_MAX] = end->conts;
    slot = first_slot(end->part->conts, end, control, count, segs);
    slot.imm = imm;
    vip_loan_send_write(end->part, k, &slot);
}

static void post_receive(struct end *end, unsigned count, const struct vip_shm_seg *segs)
{
    uint32_t conts = end->conts;
    struct vip_sq_slot slot = first_slot(vip_recv_conts(end->table, VI), end, 0, count, segs);

    slot.imm = conts;
    vip_recv_write(end->table, VI, end->receives++, &slot);
}

static void send_bytes(struct end *end, uint32_t offset, uint32_t len)
{
    struct vip_shm_seg one = seg(end, offset, len);

    post_send(end, VIP_CTL_OP_SENDRECV, 1, &one, 0);
}

static void receive_bytes(struct end *end, uint32_t offset, uint32_t len)
{
    struct vip_shm_seg one = seg(end, offset, len);

    post_receive(end, 1, &one);
}

SPARE void rdma(struct end *end, const struct end *peer, uint16_t control, uint32_t offset,
                uint32_t to, uint32_t len, uint32_t imm)
{
    struct vip_shm_seg segs[2] = {at_peer(peer, to), seg(end, offset, len)};

    post_send(end, control, 2, segs, imm);
}

/* Fill the end's memory with bytes that depend on `seed`. */
SPARE void fill(struct end *end, uint32_t seed)
{
    for (uint32_t i = 0; i < MEMORY; i++)
        end->memory[i] = (uint8_t)((i * 2654435761u + seed) >> 13);
}

/* ---- running ---------------------------------------------------------------------------- */

/* Lose some of the packets that wait at the end's socket. */
static void lose(struct ends *ends, struct end *to)
{
    static uint8_t kept[256][PACKET];
    static ssize_t len[256];
    const struct end *from = to == &ends->a ? &ends->b : &ends->a;
    unsigned count = 0;

    while (ends->loss > 0 && count < 256 &&
           (len[count] = recv(to->terms.sock, kept[count], PACKET, MSG_DONTWAIT)) > 0) {
        ends->random = ends->random * 1664525u + 1013904223u;
        count += (ends->random >> 16) % 100 >= ends->loss;
    }
    for (unsigned i = 0; i < count; i++)
        assert_int_equal(send(from->terms.sock, kept[i], (size_t)len[i], 0), len[i]);
}

/* One stay of each end. Returns whether any did something. */
static bool round_of(struct ends *ends)
{
    enum vipl__loan_stay a, b;

    lose(ends, &ends->a);
    a = vipl__loan_turn(ends->a.loan, ends->now_ns);
    lose(ends, &ends->b);
    b = vipl__loan_turn(ends->b.loan, ends->now_ns);
    ends->now_ns += 5 * US;
    return a == VIPL__LOAN_DID || b == VIPL__LOAN_DID;
}

static uint64_t timer_of(const struct end *end)
{
    return end->part->owner.timer_ns ? end->part->owner.timer_ns : UINT64_MAX;
}

/* Run both ends until nothing is under way and nothing is owed. */
SPARE void run(struct ends *ends)
{
    for (unsigned i = 0; i < 100000; i++) {
        uint64_t next;

        if (round_of(ends))
            continue;
        next = timer_of(&ends->a) < timer_of(&ends->b) ? timer_of(&ends->a) : timer_of(&ends->b);
        if (next == UINT64_MAX)
            return;
        if (next > ends->now_ns)
            ends->now_ns = next;
    }
    fail_msg("the ends do not come to rest");
}

SPARE struct vipl__loan_counts counts_of(const struct end *end)
{
    struct vipl__loan_counts counts;

    vipl__loan_counts(end->loan, &counts);
    return counts;
}

SPARE struct vip_loan_checkpoint checkpoint_of(const struct end *end)
{
    struct vip_loan_checkpoint checkpoint;

    assert_true(loan_words_outside(&end->part->owner));
    assert_true(loan_words_checkpoint(&end->part->owner, end->terms.number, &checkpoint));
    return checkpoint;
}

/* The checkpoint that the last stay has left, relative to the beginning of the first loan. */
SPARE void assert_came(struct end *end, uint32_t done, uint32_t received, uint32_t completed)
{
    bool a = end->terms.conn.local_epoch == 0xa2;
    struct vip_loan_checkpoint now = checkpoint_of(end);

    assert_int_equal(now.done - (a ? FIRST_OP_B : FIRST_OP_A), done);
    assert_int_equal(now.received - 50, received);
    assert_int_equal(now.completed - (a ? FIRST_OP_A : FIRST_OP_B), completed);
}

#endif

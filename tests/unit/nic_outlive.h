/*
 * Programs that outlive their vipd, for the tests of NICs in several lives. A program does the work
 * of libvipl: it keeps descriptors that have not completed, and posts them again. No message may be
 * lost or arrive twice, and the order of messages may not change.
 */
#ifndef TESTS_UNIT_NIC_OUTLIVE_H
#define TESTS_UNIT_NIC_OUTLIVE_H

#include "unit/nic_rig.h"
#include "vipd/nic/outlive.h"

#define DEPTH 32
#define BYTES 3000u
#define TOTAL 200u

/* Memory that a program registers again in each life, with the same handle. */
struct memory {
    struct rig_mem mem;
    int fd;
};

/* A program with the counts of its posts and completions. Its operations 0, 1, 2 ... have different
 * lengths. Of four operations two are sends, one is an RDMA Write with immediate data into the
 * peer's `window`, and one is an RDMA Read of the peer's `book`. */
struct program {
    unsigned host;
    struct rig_app *app;
    uint16_t vi;
    struct memory out, in, window, book, land;
    unsigned posted, completed; /* number of operations */
    unsigned offered, received; /* number of receive descriptors */
    unsigned next;              /* first operation of the peer that may complete the next receive */
    int32_t cq;                 /* the CQ of both queues; or -1 */
    unsigned entries[2];        /* number of CQ entries read, per queue */
    struct nic_vi_checkpoint past;
};

RIG bool is_write(unsigned op)
{
    return op % 4 == 1;
}

RIG bool is_read(unsigned op)
{
    return op % 4 == 3;
}

/* Number of operations of one program that use up a receive descriptor of the peer. */
#define TAKING (TOTAL - TOTAL / 4)

RIG uint32_t length_of(unsigned message)
{
    return 1 + message * 397 % BYTES;
}

RIG uint8_t byte_of(unsigned host, unsigned message, uint32_t at)
{
    return (uint8_t)(host * 101 + message * 7 + at);
}

RIG void check_bytes(const uint8_t *at, unsigned host, unsigned op)
{
    for (uint32_t i = 0; i < length_of(op); i++)
        assert_int_equal(at[i], byte_of(host, op, i));
}

RIG void op_post(struct program *p, const struct program *peer, unsigned op)
{
    uint32_t at = op % DEPTH * BYTES, len = length_of(op);
    struct vip_shm_seg segs[2] = {rig_seg(is_read(op) ? &peer->book.mem : &peer->window.mem, at, 0),
                                  rig_seg(is_read(op) ? &p->land.mem : &p->out.mem, at, len)};

    for (uint32_t i = 0; i < len; i++)
        (is_read(op) ? p->land : p->out).mem.at[at + i] =
            is_read(op) ? 0xee : byte_of(p->host, op, i);
    if (is_read(op))
        rig_post(p->app, p->vi, VIP_Q_SEND, VIP_CTL_OP_RDMAREAD, 0, segs, 2);
    else if (is_write(op))
        rig_post(p->app, p->vi, VIP_Q_SEND, VIP_CTL_OP_RDMAWRITE | VIP_CTL_IMMEDIATE, op, segs, 2);
    else
        rig_post_send(p->app, p->vi, segs[1]);
}

RIG void recv_post(struct program *p, unsigned message)
{
    rig_post_recv(p->app, p->vi, rig_seg(&p->in.mem, message % DEPTH * BYTES, BYTES));
}

/* Read the new completions of a program. Check them and the data. */
RIG void see(struct program *p, unsigned peer)
{
    struct vip_comp comp;

    while (rig_done(p->app, p->vi, VIP_Q_RECV, &comp)) {
        while (is_read(p->next))
            p->next++;
        assert_int_equal(comp.length, length_of(p->next));
        if (is_write(p->next)) {
            assert_int_equal(comp.status,
                             VIP_ST_DONE | VIP_ST_OP_REMOTE_RDMA_WRITE | VIP_ST_IMMEDIATE);
            assert_int_equal(comp.imm, p->next);
            check_bytes(p->window.mem.at + p->next % DEPTH * BYTES, peer, p->next);
        } else {
            assert_int_equal(comp.status, VIP_ST_DONE | VIP_ST_OP_RECEIVE);
            check_bytes(p->in.mem.at + p->received % DEPTH * BYTES, peer, p->next);
        }
        p->next++;
        p->received++;
    }
    while (rig_done(p->app, p->vi, VIP_Q_SEND, &comp)) {
        unsigned op = p->completed++;

        assert_int_equal(comp.length, length_of(op));
        assert_int_equal(comp.status & VIP_ST_ERROR_MASK, 0);
        if (is_read(op))
            for (uint32_t i = 0; i < length_of(op); i++)
                assert_int_equal(p->land.mem.at[op % DEPTH * BYTES + i],
                                 (uint8_t)(peer + 3 * (op % DEPTH * BYTES + i)));
    }
}

/* Read and count the new CQ entries of a program. */
RIG void see_entries(struct program *p)
{
    struct vip_cqe entry;

    while (p->cq >= 0 && rig_cq_done(p->app, (uint32_t)p->cq, &entry)) {
        assert_int_equal(entry.vi, p->vi);
        p->entries[entry.queue]++;
    }
}

/* Check the new completions, then post as much as possible. */
RIG void act(struct program *p, const struct program *peer)
{
    see(p, peer->host);
    while (p->offered < TAKING && p->offered - p->received < DEPTH)
        recv_post(p, p->offered++);
    while (p->posted < TOTAL && p->posted - p->completed < DEPTH / 2)
        op_post(p, peer, p->posted++);
}

/* Register memory. `handle` is the handle of the earlier life, or 0 in the first life. */
RIG void memory_add(struct rig_app *app, struct memory *of, uint32_t handle)
{
    struct registry_region region = {
        .addr = (uintptr_t)of->mem.at,
        .bytes = of->mem.bytes,
        .kind = REGISTRY_SHARED,
        .attrs = {.enable_rdma_write = true, .enable_rdma_read = true}};
    char why[128];

    if (handle)
        assert_int_equal(
            registry_restore(app->registry, &region, dup(of->fd), handle, why, sizeof(why)),
            VIP_RC_SUCCESS);
    else
        assert_int_equal(
            registry_add(app->registry, &region, dup(of->fd), &of->mem.handle, why, sizeof(why)),
            VIP_RC_SUCCESS);
}

RIG struct memory memory_new(struct rig_app *app)
{
    uint64_t bytes = (DEPTH * BYTES + 4095) & ~4095ull;
    struct memory of = {.fd = rig_memfd(bytes), .mem.bytes = DEPTH * BYTES};

    of.mem.at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, of.fd, 0);
    assert_true(of.mem.at != MAP_FAILED);
    memory_add(app, &of, 0);
    return of;
}

RIG void memory_free(struct memory *of)
{
    rig_mem_free(&of->mem);
    close(of->fd);
}

RIG struct program begin(unsigned host, uint16_t level, bool with_cq)
{
    struct program p = {.host = host, .app = rig_app(rig_nic(host)), .cq = -1};
    char why[128] = "";
    uint32_t cq;

    if (with_cq) {
        assert_int_equal(
            nic_cq_create(p.app->session, 1000, &cq, &p.app->cq_position[0], why, sizeof(why)),
            VIP_RC_SUCCESS);
        assert_int_equal(cq, 0);
        p.cq = 0;
    }
    p.vi = rig_vi_cq(p.app, level, p.cq, p.cq);
    p.out = memory_new(p.app);
    p.in = memory_new(p.app);
    p.window = memory_new(p.app);
    p.book = memory_new(p.app);
    p.land = memory_new(p.app);
    for (uint32_t i = 0; i < DEPTH * BYTES; i++)
        p.book.mem.at[i] = (uint8_t)(host + 3 * i);
    return p;
}

RIG void end(struct program *p)
{
    memory_free(&p->out);
    memory_free(&p->in);
    memory_free(&p->window);
    memory_free(&p->book);
    memory_free(&p->land);
}

#endif

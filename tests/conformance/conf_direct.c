/*
 * Small messages between two programs of one host use the direct ring or vipd. In both cases
 * contents and order must be right, and each message must take one receive. A connection may end
 * with messages in the ring. Between two hosts there are no rings; the results must be the same.
 */
#include "suite.h"

#include <pthread.h>
#include <sched.h>
#include <unistd.h>

const size_t conf_buffer_bytes = 4194304;

#define MESSAGES   6000
#define WINDOW     16                        /* most receives posted at one time */
#define SLOT_BYTES 16384                     /* bytes of one receive or send */
#define BULK_AT    (2 * WINDOW * SLOT_BYTES) /* buffer offset for RDMA Writes */
#define BULK_BYTES 512

struct plan {
    const char *direct; /* value of VIPL_DIRECT */
    VIP_RELIABILITY_LEVEL level;
    bool cq;
    bool rdma;
};

struct run {
    const struct plan *plan;
    struct end a, b;
    unsigned received; /* atomic */
    char wrong[160];   /* the receiver's error message */
    uint64_t random;
};

static unsigned chance(uint64_t *random, unsigned below)
{
    *random ^= *random << 13;
    *random ^= *random >> 7;
    *random ^= *random << 17;
    return (unsigned)(*random >> 33) % below;
}

/* The properties of message i; both ends compute them from its number. */
struct shape {
    enum { SMALL, LARGE, BULK, BULK_IMM } kind;
    size_t bytes;
    bool imm;
};

static struct shape shape_of(const struct plan *plan, unsigned i)
{
    uint64_t random = 0x9E3779B97F4A7C15ull * (i + 1);
    unsigned kind;
    struct shape shape = {.kind = SMALL};

    (void)chance(&random, 2);
    kind = chance(&random, 20);
    if (kind == 0)
        shape.kind = LARGE;
    else if (plan->rdma && kind < 3)
        shape.kind = kind == 1 ? BULK : BULK_IMM;
    shape.imm = shape.kind == BULK_IMM || chance(&random, 3) == 0;
    if (shape.kind == LARGE)
        shape.bytes = 4097 + chance(&random, SLOT_BYTES - 4097);
    else if (shape.kind == BULK_IMM)
        shape.bytes = BULK_BYTES;
    else
        shape.bytes = chance(&random, 4) == 0 ? 4096 - chance(&random, 16) : chance(&random, 200);
    return shape;
}

static unsigned char content(size_t at, unsigned i)
{
    return (unsigned char)((at * 2654435761u + i * 40503u) >> 13);
}

static void fill(char *memory, size_t bytes, unsigned i)
{
    for (size_t at = 0; at < bytes; at++)
        memory[at] = (char)content(at, i);
}

static bool same(const char *memory, size_t bytes, unsigned i)
{
    for (size_t at = 0; at < bytes; at++)
        if ((unsigned char)memory[at] != content(at, i))
            return false;
    return true;
}

/* ---- the receiver: a thread, in which cmocka's macros are not allowed ----------------------- */

static void post_recv(struct run *run, unsigned i)
{
    VIP_DESCRIPTOR *desc = (VIP_DESCRIPTOR *)(void *)(run->b.memory + i % WINDOW * CONF_DESC_BYTES);

    memset((void *)desc, 0, CONF_DESC_BYTES);
    /* Two segments, so that messages are scattered. */
    desc->CS.SegCount = 2;
    desc->CS.Length = SLOT_BYTES;
    for (unsigned s = 0; s < 2; s++) {
        desc->DS[s].Local.Data.Address = run->b.buffer + i % WINDOW * SLOT_BYTES + (s ? 100 : 0);
        desc->DS[s].Local.Handle = run->b.handle;
        desc->DS[s].Local.Length = s ? SLOT_BYTES - 100 : 100;
    }
    if (VipPostRecv(run->b.vi, desc, run->b.handle) != VIP_SUCCESS)
        snprintf(run->wrong, sizeof(run->wrong), "VipPostRecv: %s", VipxLastError());
}

/* Take the next completed receive descriptor. The call that waits for it is chosen at random. */
static VIP_RETURN take(struct run *run, VIP_DESCRIPTOR **desc)
{
    uint64_t end_ns = conf_now_ns() + CONF_LIMIT_MS * 1000000ull;
    bool wait = chance(&run->random, 2) == 0;
    VIP_RETURN rc = VIP_NOT_DONE;
    VIP_VI_HANDLE vi;
    VIP_BOOLEAN recv;

    if (chance(&run->random, 200) == 0)
        usleep(chance(&run->random, 2000));
    if (run->plan->cq) {
        while (rc == VIP_NOT_DONE && conf_now_ns() < end_ns)
            rc = wait ? VipCQWait(run->b.cq, CONF_LIMIT_MS, &vi, &recv)
                      : VipCQDone(run->b.cq, &vi, &recv);
        if (rc != VIP_SUCCESS)
            return rc;
        return vi == run->b.vi && recv ? VipRecvDone(vi, desc) : VIP_INVALID_STATE;
    }
    while (rc == VIP_NOT_DONE && conf_now_ns() < end_ns)
        rc = wait ? VipRecvWait(run->b.vi, CONF_LIMIT_MS, desc) : VipRecvDone(run->b.vi, desc);
    return rc;
}

static bool right(const struct run *run, const VIP_DESCRIPTOR *desc, unsigned i)
{
    struct shape shape = shape_of(run->plan, i);
    const char *at = run->b.buffer + i % WINDOW * SLOT_BYTES;
    bool has_imm = (desc->CS.Status & VIP_STATUS_IMMEDIATE) != 0;

    if ((const char *)desc != run->b.memory + i % WINDOW * CONF_DESC_BYTES ||
        desc->CS.Length != shape.bytes || has_imm != shape.imm ||
        (shape.imm && desc->CS.ImmediateData != i))
        return false;
    if (shape.kind == BULK)
        at = run->b.buffer + i % WINDOW * SLOT_BYTES;
    if (shape.kind >= BULK &&
        !same(run->b.buffer + BULK_AT + i % WINDOW * BULK_BYTES, BULK_BYTES, ~i))
        return false;
    return shape.kind == BULK_IMM || same(at, shape.bytes, i);
}

static void *run_receiver(void *arg)
{
    struct run *run = arg;

    for (unsigned i = 0; i < MESSAGES && run->wrong[0] == '\0'; i++) {
        VIP_DESCRIPTOR *desc = NULL;
        VIP_RETURN rc = take(run, &desc);

        if (rc != VIP_SUCCESS || desc == NULL) {
            snprintf(run->wrong, sizeof(run->wrong), "message %u: %d: %s", i, (int)rc,
                     VipxLastError());
        } else if (!right(run, desc, i)) {
            struct shape shape = shape_of(run->plan, i);

            snprintf(run->wrong, sizeof(run->wrong),
                     "message %u: kind %d, %zu bytes, came as %u bytes, status 0x%x, imm %u", i,
                     (int)shape.kind, shape.bytes, desc->CS.Length, desc->CS.Status,
                     desc->CS.ImmediateData);
        } else {
            post_recv(run, i + WINDOW);
            __atomic_store_n(&run->received, i + 1, __ATOMIC_RELEASE);
        }
    }
    return NULL;
}

/* ---- the sender ----------------------------------------------------------------------------- */

static void reap_one(struct run *run)
{
    VIP_DESCRIPTOR *desc;
    VIP_VI_HANDLE vi;
    VIP_BOOLEAN recv = VIP_TRUE;

    if (run->plan->cq) {
        CONF_OK(VipCQWait(run->a.cq, CONF_LIMIT_MS, &vi, &recv));
        assert_ptr_equal(vi, run->a.vi);
        assert_false(recv);
        CONF_OK(VipSendDone(vi, &desc));
    } else {
        CONF_OK(VipSendWait(run->a.vi, CONF_LIMIT_MS, &desc));
    }
    assert_int_equal(desc->CS.Status & VIP_STATUS_ERROR_MASK, 0);
}

/* Send message i; returns the number of descriptors used. */
static unsigned send_one(struct run *run, unsigned i, unsigned slot)
{
    struct shape shape = shape_of(run->plan, i);
    size_t at = (size_t)slot % WINDOW * SLOT_BYTES;
    VIP_DESCRIPTOR *desc;
    unsigned used = 0;

    fill(run->a.buffer + at, shape.bytes, i);
    if (shape.kind >= BULK) {
        size_t bulk = BULK_AT + (size_t)(i % WINDOW) * BULK_BYTES;

        fill(run->a.buffer + bulk, BULK_BYTES, ~i);
        desc = conf_write(&run->a, 2 * slot % (2 * WINDOW), bulk, BULK_BYTES, &run->b, bulk);
        if (shape.kind == BULK_IMM) {
            desc->CS.Control |= VIP_CONTROL_IMMEDIATE;
            desc->CS.ImmediateData = i;
        }
        conf_post_send(&run->a, desc);
        used++;
    }
    if (shape.kind == BULK_IMM)
        return used;
    desc = conf_desc(&run->a, 2 * slot % (2 * WINDOW) + 1, at, shape.bytes);
    if (shape.imm) {
        desc->CS.Control |= VIP_CONTROL_IMMEDIATE;
        desc->CS.ImmediateData = i;
    }
    conf_post_send(&run->a, desc);
    return used + 1;
}

static void stress(const struct plan *plan)
{
    struct run run = {.plan = plan, .random = 7};
    unsigned used[WINDOW] = {0};
    pthread_t thread;

    setenv("VIPL_DIRECT", plan->direct, 1);
    conf_open(&run.a, 'A');
    conf_open(&run.b, 'B');
    unsetenv("VIPL_DIRECT");
    if (plan->cq) {
        CONF_OK(VipCreateCQ(run.a.nic, 4 * WINDOW, &run.a.cq));
        CONF_OK(VipCreateCQ(run.b.nic, 4 * WINDOW, &run.b.cq));
    }
    conf_vi(&run.a, plan->level);
    conf_vi(&run.b, plan->level);
    for (unsigned i = 0; i < WINDOW; i++)
        post_recv(&run, i);
    conf_connect(&run.a, &run.b);
    assert_int_equal(pthread_create(&thread, NULL, run_receiver, &run), 0);
    for (unsigned i = 0; i < MESSAGES && run.wrong[0] == '\0'; i++) {
        uint64_t started = conf_now_ns();

        while (i - __atomic_load_n(&run.received, __ATOMIC_ACQUIRE) >= WINDOW &&
               run.wrong[0] == '\0' && conf_now_ns() - started < CONF_LIMIT_MS * 1000000ull)
            sched_yield();
        for (; used[i % WINDOW] > 0; used[i % WINDOW]--)
            reap_one(&run);
        if (i % 500 == 499)
            usleep(3000); /* meanwhile a waiting receiver goes to sleep in the kernel */
        used[i % WINDOW] = send_one(&run, i, i % WINDOW);
    }
    pthread_join(thread, NULL);
    if (run.wrong[0] != '\0')
        fail_msg("%s", run.wrong);
    assert_int_equal(run.received, MESSAGES);
    conf_close(&run.a);
    conf_close(&run.b);
}

static void every_message_either_way(void **state)
{
    static const struct plan plans[] = {
        {"random", VIP_SERVICE_RELIABLE_DELIVERY, false, true},
        {"random", VIP_SERVICE_RELIABLE_DELIVERY, true, true},
        {"1", VIP_SERVICE_RELIABLE_DELIVERY, false, false},
        {"1", VIP_SERVICE_RELIABLE_DELIVERY, true, false},
        {"1", VIP_SERVICE_RELIABLE_RECEPTION, false, true},
        {"0", VIP_SERVICE_RELIABLE_DELIVERY, true, true},
        {"random", VIP_SERVICE_UNRELIABLE, false, false},
        {"random", VIP_SERVICE_UNRELIABLE, true, true},
    };

    (void)state;
    for (unsigned i = 0; i < sizeof(plans) / sizeof(plans[0]); i++) {
        /* Each message finds a posted receive. So only a network can lose unreliable messages. */
        if (plans[i].level == VIP_SERVICE_UNRELIABLE && strcmp(getenv("VIP_LINK"), "loop") != 0)
            continue;
        stress(&plans[i]);
    }
}

/* ---- threads --------------------------------------------------------------------------------- */

#define SHARERS      2    /* threads that send on VI a; the same number takes receives of VI b */
#define SHARED_EACH  3000 /* messages of each sending thread */
#define SHARED_SLOTS 16   /* descriptors of each thread */

struct shared {
    struct end a, b;
    bool free[SHARERS * SHARED_SLOTS]; /* atomic; send descriptors that are free */
    unsigned char came[SHARERS * SHARED_EACH];
    unsigned posted, received; /* atomic */
    unsigned next;             /* atomic; number for the next sending thread */
    char wrong[160];
};

static void shared_wrong(struct shared *shared, const char *what, VIP_RETURN rc)
{
    snprintf(shared->wrong, sizeof(shared->wrong), "%s: %d: %s", what, (int)rc, VipxLastError());
}

static size_t shared_bytes(unsigned message)
{
    return 8 + message * 13 % 120;
}

/* True if one more message finds a posted receive, even if all sending threads send one. */
static bool receives_left(const struct shared *shared)
{
    return __atomic_load_n(&shared->posted, __ATOMIC_RELAXED) -
               __atomic_load_n(&shared->received, __ATOMIC_ACQUIRE) <
           CONF_DESCS - SHARERS;
}

static void *run_sharing_sender(void *arg)
{
    struct shared *shared = arg;
    unsigned me = __atomic_fetch_add(&shared->next, 1, __ATOMIC_RELAXED) % SHARERS;
    uint64_t end_ns = conf_now_ns() + 3 * CONF_LIMIT_MS * 1000000ull;

    for (unsigned i = 0; i < SHARED_EACH && conf_now_ns() < end_ns;) {
        unsigned slot = me * SHARED_SLOTS + i % SHARED_SLOTS, message = me * SHARED_EACH + i;
        VIP_DESCRIPTOR *desc = NULL;
        VIP_RETURN rc;

        if (receives_left(shared) &&
            __atomic_exchange_n(&shared->free[slot], false, __ATOMIC_ACQUIRE)) {
            __atomic_add_fetch(&shared->posted, 1, __ATOMIC_RELAXED);
            fill(shared->a.buffer + slot * 256, shared_bytes(message), message);
            desc = conf_desc(&shared->a, slot, (size_t)slot * 256, shared_bytes(message));
            desc->CS.Control = VIP_CONTROL_IMMEDIATE;
            desc->CS.ImmediateData = message;
            rc = VipPostSend(shared->a.vi, desc, shared->a.handle);
            if (rc != VIP_SUCCESS)
                shared_wrong(shared, "VipPostSend", rc);
            i++;
        }
        /* Take the oldest completed send. Another thread may have posted it. */
        rc = VipSendDone(shared->a.vi, &desc);
        if (desc != NULL) {
            slot = (unsigned)(((char *)desc - shared->a.memory) / CONF_DESC_BYTES);
            if (rc != VIP_SUCCESS)
                shared_wrong(shared, "VipSendDone", rc);
            __atomic_store_n(&shared->free[slot], true, __ATOMIC_RELEASE);
        }
        if (shared->wrong[0] != '\0')
            break;
    }
    return NULL;
}

static void *run_sharing_receiver(void *arg)
{
    struct shared *shared = arg;
    uint64_t end_ns = conf_now_ns() + 3 * CONF_LIMIT_MS * 1000000ull;

    while (__atomic_load_n(&shared->received, __ATOMIC_ACQUIRE) < SHARERS * SHARED_EACH &&
           shared->wrong[0] == '\0' && conf_now_ns() < end_ns) {
        VIP_DESCRIPTOR *desc = NULL;
        VIP_RETURN rc = VipRecvDone(shared->b.vi, &desc);
        unsigned slot, message;

        if (desc == NULL)
            continue;
        slot = (unsigned)(((char *)desc - shared->b.memory) / CONF_DESC_BYTES);
        message = desc->CS.ImmediateData;
        if (rc != VIP_SUCCESS) {
            shared_wrong(shared, "VipRecvDone", rc);
        } else if (message >= SHARERS * SHARED_EACH || shared->came[message]++ != 0 ||
                   desc->CS.Length != shared_bytes(message) ||
                   !same(shared->b.buffer + slot * 256, shared_bytes(message), message)) {
            snprintf(shared->wrong, sizeof(shared->wrong), "message %u came as %u bytes", message,
                     desc->CS.Length);
        } else {
            rc = VipPostRecv(shared->b.vi, conf_desc(&shared->b, slot, (size_t)slot * 256, 256),
                             shared->b.handle);
            if (rc != VIP_SUCCESS)
                shared_wrong(shared, "VipPostRecv", rc);
            __atomic_add_fetch(&shared->received, 1, __ATOMIC_RELEASE);
        }
    }
    return NULL;
}

/* Two threads post sends on VI a, and two take receives of VI b. Messages use ring or vipd. */
static void threads_share_a_ring(void **state)
{
    static struct shared shared;
    pthread_t threads[2 * SHARERS];

    (void)state;
    memset(&shared, 0, sizeof(shared));
    memset(shared.free, 1, sizeof(shared.free));
    setenv("VIPL_DIRECT", "random", 1);
    conf_pair(&shared.a, &shared.b, VIP_SERVICE_RELIABLE_DELIVERY);
    unsetenv("VIPL_DIRECT");
    for (unsigned i = 0; i < CONF_DESCS; i++)
        conf_post_recv(&shared.b, conf_desc(&shared.b, i, (size_t)i * 256, 256));
    for (unsigned i = 0; i < 2 * SHARERS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL,
                                        i < SHARERS ? run_sharing_receiver : run_sharing_sender,
                                        &shared),
                         0);
    for (unsigned i = 0; i < 2 * SHARERS; i++)
        pthread_join(threads[i], NULL);
    if (shared.wrong[0] != '\0')
        fail_msg("%s", shared.wrong);
    assert_int_equal(shared.received, SHARERS * SHARED_EACH);
    conf_close_pair(&shared.a, &shared.b);
}

/* ---- completion queues ----------------------------------------------------------------------- */

/* If a program takes receives with VipRecvDone only, their entries stay in the CQ. */
static void entries_of_what_was_taken_without_the_cq(void **state)
{
    struct end a, b;
    VIP_DESCRIPTOR *desc;
    VIP_VI_HANDLE vi;
    VIP_BOOLEAN recv;
    unsigned entries = 0;

    (void)state;
    conf_open(&a, 'A');
    conf_open(&b, 'B');
    CONF_OK(VipCreateCQ(b.nic, 8192, &b.cq));
    conf_vi(&a, VIP_SERVICE_RELIABLE_DELIVERY);
    conf_vi(&b, VIP_SERVICE_RELIABLE_DELIVERY);
    conf_connect(&a, &b);
    /* Send more messages than a ring has slots. */
    for (unsigned i = 0; i < 2500; i++) {
        uint64_t started = 0;

        conf_post_recv(&b, conf_desc(&b, 0, 0, 64));
        conf_post_send(&a, conf_desc(&a, 0, 0, 8));
        while (VipRecvDone(b.vi, &desc) == VIP_NOT_DONE && conf_pause(&started))
            continue;
        CONF_RETURNS(VIP_SUCCESS, desc != NULL ? VIP_SUCCESS : VIP_NOT_DONE);
        conf_sent(&a, conf_at(&a, 0));
    }
    while (VipCQDone(b.cq, &vi, &recv) == VIP_SUCCESS)
        entries += recv && vi == b.vi;
    assert_int_equal(entries, 2500);
    conf_close(&a);
    conf_close(&b);
}

/* ---- the end of a connection ----------------------------------------------------------------- */

/* Send 200 messages. Meanwhile the connection gets its ring (if it can have a ring). */
static void warm_up(struct end *a, struct end *b)
{
    for (unsigned i = 0; i < 200; i++) {
        conf_post_recv(b, conf_desc(b, 60, 0, 64));
        conf_post_send(a, conf_desc(a, 60, 0, 8));
        conf_received(b, conf_at(b, 60), 8);
        conf_sent(a, conf_at(a, 60));
    }
}

static void what_was_sent_before_the_end_arrives(void **state)
{
    (void)state;
    for (unsigned round = 0; round < 20; round++) {
        struct end a, b;

        conf_pair(&a, &b, VIP_SERVICE_RELIABLE_DELIVERY);
        warm_up(&a, &b);
        for (unsigned i = 0; i < 20; i++)
            conf_post_recv(&b, conf_desc(&b, i, i * 64, 64));
        for (unsigned i = 0; i < 10; i++) {
            conf_fill(a.buffer + i * 64, 32, i);
            conf_post_send(&a, conf_desc(&a, i, i * 64, 32));
        }
        for (unsigned i = 0; i < 10; i++)
            conf_sent(&a, conf_at(&a, i));
        CONF_OK(VipDisconnect(round % 2 ? a.vi : b.vi));
        for (unsigned i = 0; i < 10; i++) {
            conf_received(&b, conf_at(&b, i), 32);
            conf_same(b.buffer + i * 64, 32, i);
        }
        for (unsigned i = 10; i < 20; i++)
            conf_failed(&b, true, conf_at(&b, i), VIP_STATUS_DESC_FLUSHED_ERROR);
        conf_close_pair(&a, &b);
    }
}

/* With or without a ring: a posted receive whose memory was deregistered cannot take a message. */
static void a_receive_that_has_lost_its_memory(void **state)
{
    struct end a, b;
    VIP_MEM_ATTRIBUTES mem = {NULL, VIP_FALSE, VIP_FALSE};
    VIP_MEM_HANDLE handle;
    static char other[8192] __attribute__((aligned(4096)));
    VIP_DESCRIPTOR *desc;

    (void)state;
    conf_pair(&a, &b, VIP_SERVICE_RELIABLE_DELIVERY);
    warm_up(&a, &b);
    CONF_OK(VipRegisterMem(b.nic, other, sizeof(other), &mem, &handle));
    desc = conf_desc(&b, 0, 0, 64);
    desc->DS[0].Local.Data.Address = other;
    desc->DS[0].Local.Handle = handle;
    conf_post_recv(&b, desc);
    conf_post_recv(&b, conf_desc(&b, 1, 64, 64));
    CONF_OK(VipDeregisterMem(b.nic, other, handle));
    conf_post_send(&a, conf_desc(&a, 0, 0, 32));
    conf_failed(&b, true, conf_at(&b, 0), VIP_STATUS_PROTECTION_ERROR);
    conf_broken(&b);
    conf_broken(&a);
    conf_failed(&b, true, conf_at(&b, 1), VIP_STATUS_DESC_FLUSHED_ERROR);
    conf_close_pair(&a, &b);
}

/* A receive may be longer than its region. Small messages may still use the ring. */
static void receives_longer_than_their_region(void **state)
{
    VIP_MEM_ATTRIBUTES mem = {NULL, VIP_FALSE, VIP_FALSE};
    struct end a, b;
    VIP_MEM_HANDLE handle;
    VIP_DESCRIPTOR *desc;

    (void)state;
    conf_pair(&a, &b, VIP_SERVICE_RELIABLE_DELIVERY);
    warm_up(&a, &b);
    CONF_OK(VipRegisterMem(b.nic, b.buffer, 1000, &mem, &handle));
    for (unsigned i = 0; i <= 1001; i++) {
        uint64_t started = 0;

        desc = conf_desc(&b, 0, 0, 100);
        desc->CS.SegCount = 2;
        desc->DS[1] = desc->DS[0];
        desc->DS[0].Local.Handle = desc->DS[1].Local.Handle = handle;
        desc->DS[1].Local.Data.Address = b.buffer + 100;
        desc->DS[1].Local.Length = conf_buffer_bytes;
        conf_post_recv(&b, desc);
        memset(b.buffer, 0x55, 1100);
        conf_fill(a.buffer, i, i);
        conf_post_send(&a, conf_desc(&a, 0, 0, i));
        if (i > 1000)
            break;
        while (VipRecvDone(b.vi, &desc) == VIP_NOT_DONE && conf_pause(&started))
            continue;
        assert_int_equal(desc->CS.Status & VIP_STATUS_ERROR_MASK, 0);
        assert_int_equal(desc->CS.Length, i);
        conf_same(b.buffer, i, i);
        for (unsigned at = i; at < 1100; at++)
            assert_int_equal(b.buffer[at], 0x55);
        conf_sent(&a, conf_at(&a, 0));
    }
    conf_failed(&b, true, conf_at(&b, 0), VIP_STATUS_PROTECTION_ERROR);
    for (unsigned at = 0; at < 1100; at++)
        assert_int_equal(b.buffer[at], 0x55);
    conf_broken(&b);
    conf_broken(&a);
    CONF_OK(VipDeregisterMem(b.nic, b.buffer, handle));
    conf_close_pair(&a, &b);
}

static const struct conf_test tests[] = {
    CONF_T("3.3", CONF_EARLY, every_message_either_way,
           "contents and order, by a ring and by vipd"),
    CONF_T("3.12", CONF_EARLY, threads_share_a_ring,
           "threads may share queues, by a ring and by vipd"),
    CONF_T("3.8", CONF_EARLY, entries_of_what_was_taken_without_the_cq,
           "each completion of a bound queue has its entry in the CQ, taken or not"),
    CONF_T("3.3", CONF_EARLY, what_was_sent_before_the_end_arrives,
           "reliable messages that were sent before a VipDisconnect arrive"),
    CONF_T("3.5", CONF_FUNCTIONAL, a_receive_that_has_lost_its_memory,
           "a receive whose memory is gone: VIP_STATUS_PROTECTION_ERROR, the connection breaks"),
    CONF_T("3.5", CONF_FUNCTIONAL, receives_longer_than_their_region,
           "a receive may be longer than its region, by a ring and by vipd"),
};

CONF_MAIN(tests)

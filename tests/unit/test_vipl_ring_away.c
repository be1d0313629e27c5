/*
 * A VI has a ring to another program, and vipd ends (libvipl/direct.c, outlive.c). The test acts as
 * vipd and as the other program.
 */
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "libvipl/vipl.h"
#include "proto/direct.h"
#include "tests/unit/fake_vipd.h"

#define OK(call) assert_int_equal((call), VIP_SUCCESS)
#define FIRST    0u /* number of the receive descriptor of message 0 */

struct slot {
    VIP_DESCRIPTOR desc;
    char bytes[64];
};

/* A program with a VI that sends on way[0] of its ring. */
struct program {
    struct fake fake;
    VIP_NIC_HANDLE nic;
    VIP_VI_HANDLE vi;
    VIP_MEM_HANDLE handle;
    struct slot *slots; /* the first slot is for a send */
    struct vip_direct *ring;
    int ring_fd;
    struct vip_direct_out peer; /* the ring's end at the other program */
};

#define SLOTS 4u

static void until(const uint32_t *word, uint32_t value)
{
    while (__atomic_load_n(word, __ATOMIC_SEQ_CST) != value)
        usleep(1000);
}

static void give_ring(struct program *p)
{
    struct vip_vipd_vi *block = vip_vipd_vi(p->fake.vipd, 0);
    Vip__Direct direct = VIP__DIRECT__INIT;
    Vip__Event event = VIP__EVENT__INIT;

    p->ring_fd = memfd_create("ring", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    assert_int_equal(ftruncate(p->ring_fd, sizeof(*p->ring)), 0);
    assert_int_equal(fcntl(p->ring_fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL), 0);
    p->ring = mmap(NULL, sizeof(*p->ring), PROT_READ | PROT_WRITE, MAP_SHARED, p->ring_fd, 0);
    assert_ptr_not_equal(p->ring, MAP_FAILED);
    p->peer.way = &p->ring->way[1];
    block->ring = VIP_RING_OPEN;
    block->state = VIP_VIST_CONNECTED;
    p->ring->way[1].asleep = 7;
    direct.has_vi = direct.has_generation = direct.has_first = direct.has_half = 1;
    direct.generation = p->fake.generation;
    direct.first = FIRST;
    event.body_case = VIP__EVENT__BODY_DIRECT;
    event.direct = &direct;
    assert_int_equal(vip_control_send(p->fake.event, &event.base, &p->ring_fd, 1, 0), 0);
    until(&p->ring->way[1].asleep, 0);
}

static void fill(struct program *p, unsigned i)
{
    VIP_DESCRIPTOR *desc = &p->slots[i].desc;

    memset(desc, 0, sizeof(*desc));
    desc->CS.SegCount = 1;
    desc->CS.Control = VIP_CONTROL_OP_SENDRECV;
    desc->CS.Length = 8;
    desc->DS[0].Local.Data.Address = p->slots[i].bytes;
    desc->DS[0].Local.Handle = p->handle;
    desc->DS[0].Local.Length = 8;
}

static void begin(struct program *p, bool past_rings)
{
    VIP_VI_ATTRIBUTES attrs = {
        VIP_SERVICE_RELIABLE_DELIVERY, 4096, NULL, NULL, VIP_FALSE, VIP_FALSE};
    VIP_MEM_ATTRIBUTES memory = {NULL, VIP_FALSE, VIP_FALSE};

    *p = (struct program){.fake = {.generation = 1,
                                   .number = 1,
                                   .direct = true,
                                   .past_rings = past_rings,
                                   .outlive_ms = 600000}};
    fake_start(&p->fake);
    OK(VipOpenNic("fake0", &p->nic));
    p->slots = aligned_alloc(64, SLOTS * sizeof(*p->slots));
    assert_non_null(p->slots);
    OK(VipRegisterMem(p->nic, p->slots, SLOTS * sizeof(*p->slots), &memory, &p->handle));
    OK(VipCreateVi(p->nic, &attrs, NULL, NULL, &p->vi));
    give_ring(p);
    for (unsigned i = 1; i < SLOTS; i++) {
        fill(p, i);
        OK(VipPostRecv(p->vi, &p->slots[i].desc, p->handle));
    }
}

static void end(struct program *p)
{
    fake_die(&p->fake);
    OK(VipCloseNic(p->nic));
    fake_end(&p->fake);
    munmap(p->ring, sizeof(*p->ring));
    close(p->ring_fd);
    free(p->slots);
}

/* The other program sends a message by the ring. */
static void message(struct program *p)
{
    memset(vip_direct_place(&p->peer, 8), 1, 8);
    vip_direct_send(&p->peer, 8, 0, 0);
}

static void comes(struct program *p, unsigned i)
{
    VIP_DESCRIPTOR *desc;

    OK(VipRecvDone(p->vi, &desc));
    assert_ptr_equal(desc, &p->slots[i].desc);
    assert_int_equal(desc->CS.Length, 8);
}

/* vipd ends. When libvipl connects to the next vipd, it knows that vipd has ended. */
static void vipd_ends(struct program *p)
{
    struct pollfd look = {.fd = p->fake.listener, .events = POLLIN};

    fake_die(&p->fake);
    assert_int_equal(poll(&look, 1, -1), 1);
}

static unsigned vis_made(const struct program *p)
{
    return __atomic_load_n(&p->fake.requests[VIP__REQUEST__BODY_CREATE_VI], __ATOMIC_SEQ_CST);
}

/* Messages pass the ring in both directions while vipd is away. The next vipd gets the ring. */
static void the_ring_goes_on(void **state)
{
    struct vip_sq_slot asked = {0};
    const struct fake_past *told;
    VIP_DESCRIPTOR *desc;
    struct program p;

    (void)state;
    begin(&p, true);
    message(&p);
    comes(&p, 1);
    vipd_ends(&p);
    message(&p);
    comes(&p, 2);
    vip_direct_lend(&p.ring->way[0], 0, 64);
    fill(&p, 0);
    OK(VipPostSend(p.vi, &p.slots[0].desc, p.handle));
    assert_true(vip_direct_there(&p.ring->way[0], 0));
    OK(VipSendDone(p.vi, &desc));
    /* The other program goes to sleep. libvipl had no vipd to ask for a wake of this program. */
    __atomic_store_n(&p.ring->way[0].asleep, 1, __ATOMIC_SEQ_CST);
    fake_next(&p.fake);
    while (!vip_sq_read(vip_app_sq(p.fake.app), 0, &asked))
        usleep(1000);
    assert_int_equal(asked.kind, VIP_SQ_ASK);
    assert_int_equal(asked.flags, VIP_ASK_WAKE_PEER);
    told = &p.fake.past[1];
    assert_int_equal(vis_made(&p), 2);
    assert_true(told->ring);
    assert_int_equal(told->file, fake_inode(p.ring_fd));
    assert_int_equal(told->half, 0);
    assert_int_equal(told->first, FIRST);
    assert_int_equal(told->recv_base, 0); /* vipd has taken no receive descriptor */
    message(&p);
    comes(&p, 3);
    end(&p);
}

/* vipd refuses the ring, or does not know of rings. The VI is restored without the ring. */
static void the_ring_is_refused(void **state)
{
    (void)state;
    for (unsigned knows = 0; knows < 2; knows++) {
        struct program p;
        VIP_DESCRIPTOR *desc;

        begin(&p, knows);
        message(&p);
        comes(&p, 1);
        vipd_ends(&p);
        message(&p);
        comes(&p, 2);
        p.fake.refuses_ring = true;
        fake_next(&p.fake);
        while (vis_made(&p) < 2 + knows)
            usleep(1000);
        assert_int_equal(p.fake.past[0].ring, knows);
        assert_false(p.fake.past[1].ring);
        assert_int_equal(p.fake.past[1].file, 0);
        assert_int_equal(p.fake.past[1].recv_base, 2); /* two messages came through the ring */
        message(&p);
        assert_int_equal(VipRecvDone(p.vi, &desc), VIP_NOT_DONE);
        end(&p);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_ring_goes_on),
        cmocka_unit_test(the_ring_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

/*
 * libvipl with a fake vipd: what libvipl writes into shared memory, how it handles what it reads
 * there, and that a faulty or dead vipd does no harm.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "libvipl/session.h"
#include "libvipl/vipl.h"
#include "libvipl/vipl_ext.h"
#include "tests/unit/fake_vipd.h"

#define OK(call) assert_int_equal((call), VIP_SUCCESS)

/* One opened NIC with one VI and registered memory. */
struct setup {
    struct fake fake;
    VIP_NIC_HANDLE nic;
    VIP_VI_HANDLE vi;
    VIP_CQ_HANDLE cq;
    VIP_MEM_HANDLE handle;
    char *memory;    /* its size is 64 KiB */
    unsigned errors; /* number of errors; atomic */
    VIP_ERROR_DESCRIPTOR error;
};

static void on_error(VIP_PVOID context, VIP_ERROR_DESCRIPTOR *error)
{
    struct setup *s = context;

    s->error = *error;
    __atomic_add_fetch(&s->errors, 1, __ATOMIC_SEQ_CST);
}

static void await_errors(struct setup *s, unsigned count)
{
    while (__atomic_load_n(&s->errors, __ATOMIC_SEQ_CST) < count)
        sched_yield();
}

static VIP_VI_ATTRIBUTES attributes = {
    VIP_SERVICE_RELIABLE_DELIVERY, 65536, NULL, NULL, VIP_TRUE, VIP_FALSE};

static int set_up(void **state)
{
    struct setup *s = calloc(1, sizeof(*s));

    fake_start(&s->fake);
    OK(VipOpenNic("fake0", &s->nic));
    OK(VipErrorCallback(s->nic, s, on_error));
    s->memory = aligned_alloc(4096, 65536);
    memset(s->memory, 0, 65536);
    s->fake.number = 0x00020001;
    OK(VipRegisterMem(s->nic, s->memory, 65536, NULL, &s->handle));
    assert_int_equal(s->handle, 0x00020001);
    /* The positions are just before their wrap, so that all tests here pass it. */
    s->fake.vi = 7;
    s->fake.generation = 0x1FE;
    s->fake.send_position = 0xFFFFFFFEu;
    s->fake.recv_position = 0xFFFFFFFDu;
    s->fake.cq = 3;
    s->fake.cq_position = 0xFFFFFFFFu;
    OK(VipCreateCQ(s->nic, 10, &s->cq));
    OK(VipCreateVi(s->nic, &attributes, NULL, s->cq, &s->vi));
    *state = s;
    return 0;
}

static int tear_down(void **state)
{
    struct setup *s = *state;

    OK(VipCloseNic(s->nic));
    fake_stop(&s->fake);
    free(s->memory);
    free(s);
    return 0;
}

static VIP_DESCRIPTOR *desc_at(struct setup *s, unsigned i)
{
    return (VIP_DESCRIPTOR *)(void *)(s->memory + i * 64);
}

static struct vip_sq_slot slot_at(struct setup *s, uint32_t position)
{
    struct vip_sq_slot slot;

    if (!vip_sq_read(vip_app_sq(s->fake.app), position, &slot))
        fail_msg("nothing at position %u", position);
    return slot;
}

static void a_post_is_one_slot_with_the_descriptors_words(void **state)
{
    struct setup *s = *state;
    VIP_DESCRIPTOR *desc = desc_at(s, 0);
    struct vip_sq_slot slot;

    desc->CS.SegCount = 2;
    desc->CS.Control = VIP_CONTROL_OP_RDMAWRITE | VIP_CONTROL_IMMEDIATE;
    desc->CS.Reserved = 0x11223344;
    desc->CS.ImmediateData = 0xDEADBEEF;
    desc->CS.Length = 4711;
    desc->DS[0].Remote.Data.AddressBits = 0x123456789ABCDEFull;
    desc->DS[0].Remote.Handle = 99;
    desc->DS[1].Local.Data.Address = s->memory;
    desc->DS[1].Local.Handle = s->handle;
    desc->DS[1].Local.Length = 4711;
    OK(VipPostSend(s->vi, desc, s->handle));
    slot = slot_at(s, 0);
    assert_int_equal(slot.vi, 7);
    assert_int_equal(slot.kind, VIP_SQ_SEND);
    assert_int_equal(slot.control, 0x0005);
    assert_int_equal(slot.seg_count, 2);
    assert_int_equal(slot.length, 4711);
    assert_int_equal(slot.imm, 0xDEADBEEF);
    assert_int_equal(slot.vi_gen, 0x1FE);
    assert_int_equal(slot.reserved1, 0x11223344);
    assert_int_equal(slot.seg[0].addr, 0x123456789ABCDEFull);
    assert_int_equal(slot.seg[0].handle, 99);
    assert_int_equal(slot.seg[1].addr, (uintptr_t)s->memory);
    assert_int_equal(slot.seg[1].len, 4711);
    OK(VipPostRecv(s->vi, desc_at(s, 1), s->handle));
    assert_int_equal(slot_at(s, 1).kind, VIP_SQ_RECV);
    assert_false(vip_sq_read(vip_app_sq(s->fake.app), 2, &slot));
}

static void long_descriptors_continue(void **state)
{
    struct setup *s = *state;
    uint32_t position = 0;

    for (unsigned count = 0; count <= 253; count += count < 20 ? 1 : 29) {
        VIP_DESCRIPTOR *desc = desc_at(s, 0);
        VIP_DATA_SEGMENT *segs = &desc->DS[0].Local;
        struct vip_sq_slot slot;
        struct vip_comp comp = {.status = VIP_ST_DONE};

        desc->CS.SegCount = (VIP_UINT16)count;
        for (unsigned i = 0; i < count; i++)
            segs[i] = (VIP_DATA_SEGMENT){{i + 1000}, i + 2000, i + 3000};
        OK(VipPostSend(s->vi, desc, s->handle));
        slot = slot_at(s, position++);
        assert_int_equal(slot.seg_count, count);
        for (unsigned i = 0; i < count; i++) {
            struct vip_shm_seg seg;

            if (i < 2) {
                seg = slot.seg[i];
            } else {
                struct vip_sq_cont cont;

                if ((i - 2) % 3 == 0)
                    slot = slot_at(s, position++);
                memcpy(&cont, &slot, sizeof(cont));
                assert_int_equal(cont.kind, VIP_SQ_CONT);
                assert_int_equal(cont.vi, 7);
                seg = cont.seg[(i - 2) % 3];
            }
            assert_int_equal(seg.addr, i + 1000);
            assert_int_equal(seg.handle, i + 2000);
            assert_int_equal(seg.len, i + 3000);
        }
        fake_complete(&s->fake, 7, VIP_Q_SEND, s->fake.send_position++, &comp);
        OK(VipSendDone(s->vi, &desc));
    }
}

/* If the other end does not support an extension, libvipl posts nothing. Otherwise it posts slots
 * with the flag and the bytes of the extension. */
static void extensions_need_both_ends(void **state)
{
    struct setup *s = *state;
    struct vip_vipd_vi *block = vip_vipd_vi(s->fake.vipd, 7);
    VIP_DESCRIPTOR *desc = desc_at(s, 0);
    char message[VIPX_MESSAGE_MAX + 1];
    struct vip_sq_slot slot;

    memset(message, 7, sizeof(message));
    desc->CS.Control = VIP_CONTROL_OP_RDMAWRITE;
    desc->CS.SegCount = 3;
    vip_store32_release(&block->state, VIP_VIST_CONNECTED);
    assert_int_equal(VipxPostSendImm64(s->vi, desc, s->handle, 1), VIP_ERROR_NOT_SUPPORTED);
    assert_int_equal(VipxPostWriteMessage(s->vi, desc, s->handle, message, 5),
                     VIP_ERROR_NOT_SUPPORTED);
    assert_false(vip_sq_read(vip_app_sq(s->fake.app), 0, &slot));
    block->features = VIP_FEATURES;
    assert_int_equal(VipxPostWriteMessage(s->vi, desc, s->handle, message, 257),
                     VIP_INVALID_PARAMETER);
    assert_int_equal(VipxPostWriteMessage(s->vi, desc, s->handle, message, 0),
                     VIP_INVALID_PARAMETER);
    assert_int_equal(VipxPostWriteMessage(s->vi, desc, s->handle, NULL, 5), VIP_INVALID_PARAMETER);

    OK(VipxPostWriteMessage(s->vi, desc, s->handle, message, 256));
    slot = slot_at(s, 0);
    assert_int_equal(slot.flags, VIP_SQF_MSG);
    assert_int_equal(slot_at(s, 1).kind, VIP_SQ_CONT);
    for (unsigned i = 0; i < 5; i++) {
        struct vip_sq_msg part;

        slot = slot_at(s, 2 + i);
        memcpy(&part, &slot, sizeof(part));
        assert_int_equal(part.kind, VIP_SQ_MSG);
        assert_int_equal(part.vi, 7);
        assert_int_equal(part.len, 256);
        assert_memory_equal(part.bytes, message, i < 4 ? 54 : 256 - 4 * 54);
    }
    OK(VipxPostSendImm64(s->vi, desc_at(s, 4), s->handle, 0x123456789ABCDEF0ull));
    slot = slot_at(s, 7);
    assert_int_equal(slot.flags, VIP_SQF_IMM64);
    assert_int_equal(slot.control, VIP_CTL_IMMEDIATE);
    assert_int_equal(slot.imm, 0x123456789ABCDEF0ull);
    assert_int_equal(desc_at(s, 4)->CS.Control, 0);
    OK(VipPostRecv(s->vi, desc_at(s, 5), s->handle));
    assert_int_equal(slot_at(s, 8).flags, 0);
}

static void an_impossible_segment_count_reads_no_segments(void **state)
{
    struct setup *s = *state;
    VIP_DESCRIPTOR *desc = (VIP_DESCRIPTOR *)(void *)(s->memory + 65536 - 64);
    struct vip_sq_slot slot;

    desc->CS.SegCount = 65535; /* the segments would be far outside of the region */
    OK(VipPostSend(s->vi, desc, s->handle));
    assert_int_equal(slot_at(s, 0).seg_count, 65535);
    assert_false(vip_sq_read(vip_app_sq(s->fake.app), 1, &slot));
    /* The count is possible, but the segments would leave the region: a misplaced descriptor. */
    desc->CS.SegCount = 3;
    OK(VipPostSend(s->vi, desc, s->handle));
    await_errors(s, 1);
    assert_int_equal(s->error.ErrorCode, VIP_ERROR_POST_DESC);
    assert_ptr_equal(s->error.DescriptorPtr, desc);
}

static void completions_are_taken_in_order_across_the_wrap(void **state)
{
    struct setup *s = *state;
    VIP_DESCRIPTOR *got;

    for (unsigned i = 0; i < 6; i++)
        OK(VipPostRecv(s->vi, desc_at(s, i), s->handle));
    assert_int_equal(VipRecvDone(s->vi, &got), VIP_NOT_DONE);
    for (unsigned i = 0; i < 6; i++) {
        struct vip_comp comp = {.status = VIP_ST_DONE | VIP_ST_OP_RECEIVE, .length = 100 + i};

        if (i == 3) {
            comp.status |= VIP_ST_IMMEDIATE;
            comp.imm = 0xFFFFFFFF00000042ull;
        }
        if (i == 4)
            comp.status |= VIP_ST_LENGTH_ERROR;
        fake_complete(&s->fake, 7, VIP_Q_RECV, s->fake.recv_position + i, &comp);
    }
    for (unsigned i = 0; i < 6; i++) {
        assert_int_equal(VipRecvDone(s->vi, &got), i == 4 ? VIP_DESCRIPTOR_ERROR : VIP_SUCCESS);
        assert_ptr_equal(got, desc_at(s, i));
        assert_int_equal(got->CS.Length, 100 + i);
        assert_int_equal(got->CS.ImmediateData, i == 3 ? 0x42 : 0);
    }
    assert_int_equal(VipRecvDone(s->vi, &got), VIP_DESCRIPTOR_ERROR);
    assert_null(got);
    assert_int_equal(VipSendDone(s->vi, &got), VIP_DESCRIPTOR_ERROR);
}

static void a_completion_that_nobody_posted_is_ignored(void **state)
{
    struct setup *s = *state;
    struct vip_comp comp = {.status = VIP_ST_DONE};
    VIP_DESCRIPTOR *got;

    fake_complete(&s->fake, 7, VIP_Q_SEND, s->fake.send_position, &comp);
    assert_int_equal(VipSendDone(s->vi, &got), VIP_DESCRIPTOR_ERROR);
    assert_null(got);
}

static void the_doorbell_rings_only_while_vipd_sleeps(void **state)
{
    struct setup *s = *state;
    struct vip_vipd_head *head = s->fake.vipd;

    OK(VipPostSend(s->vi, desc_at(s, 0), s->handle));
    assert_false(fake_rung(&s->fake));
    __atomic_store_n(&head->asleep, 1, __ATOMIC_SEQ_CST);
    OK(VipPostSend(s->vi, desc_at(s, 1), s->handle));
    assert_true(fake_rung(&s->fake));
    __atomic_store_n(&head->asleep, 0, __ATOMIC_SEQ_CST);
    OK(VipPostSend(s->vi, desc_at(s, 2), s->handle));
    assert_false(fake_rung(&s->fake));
}

static void cq_entries_name_live_vis_only(void **state)
{
    struct setup *s = *state;
    struct vip_cqe *ring = vip_vipd_cq_ring(s->fake.vipd, 3);
    uint32_t at = s->fake.cq_position;
    const struct vip_app_cq *published = vip_app_cq(s->fake.app, 3);
    VIP_VI_HANDLE vi = NULL;
    VIP_BOOLEAN recv = 5;

    assert_int_equal(VipCQDone(s->cq, &vi, &recv), VIP_NOT_DONE);
    vip_cq_write(ring, at++, 7, VIP_Q_RECV, 0xFD);     /* an earlier VI with the same number */
    vip_cq_write(ring, at++, 8, VIP_Q_RECV, 0xFE);     /* no such VI */
    vip_cq_write(ring, at++, 65535, VIP_Q_RECV, 0xFE); /* an impossible VI number */
    vip_cq_write(ring, at++, 7, 9, 0xFE);              /* an impossible queue */
    vip_cq_write(ring, at++, 7, VIP_Q_SEND, 0xFE);     /* a queue that is not bound to this CQ */
    assert_int_equal(VipCQDone(s->cq, &vi, &recv), VIP_NOT_DONE);
    assert_int_equal(vip_load32(&published->cons), at);
    assert_null(vi);
    vip_cq_write(ring, at++, 7, VIP_Q_RECV, 0xFE);
    OK(VipCQDone(s->cq, &vi, &recv));
    assert_ptr_equal(vi, s->vi);
    assert_int_equal(recv, VIP_TRUE);
    assert_int_equal(vip_load32(&published->cons), at);
}

static void *wait_recv(void *arg)
{
    struct setup *s = arg;
    VIP_DESCRIPTOR *got = NULL;

    VipRecvWait(s->vi, VIP_INFINITE, &got);
    return got;
}

static void await_sleepers(struct setup *s, uint32_t count)
{
    const struct vip_app_head *head = s->fake.app;

    while (__atomic_load_n(&head->sleepers, __ATOMIC_SEQ_CST) != count)
        sched_yield();
}

static void sleepers_are_published_and_woken(void **state)
{
    struct setup *s = *state;
    struct vip_comp comp = {.status = VIP_ST_DONE | VIP_ST_OP_RECEIVE};
    const uint32_t *waiters = &vip_app_vi(s->fake.app, 7)->waiters[VIP_Q_RECV];
    pthread_t threads[3];
    void *got;

    for (unsigned i = 0; i < 3; i++)
        OK(VipPostRecv(s->vi, desc_at(s, i), s->handle));
    for (unsigned i = 0; i < 3; i++)
        pthread_create(&threads[i], NULL, wait_recv, s);
    await_sleepers(s, 3);
    assert_int_equal(vip_load32(waiters), 3);
    assert_int_equal(vip_load32(&vip_app_vi(s->fake.app, 7)->waiters[VIP_Q_SEND]), 0);
    for (unsigned i = 0; i < 3; i++)
        fake_complete(&s->fake, 7, VIP_Q_RECV, s->fake.recv_position + i, &comp);
    for (unsigned i = 0; i < 3; i++) {
        pthread_join(threads[i], &got);
        assert_non_null(got);
    }
    await_sleepers(s, 0);
    assert_int_equal(vip_load32(waiters), 0);
}

static void a_full_ring_waits_for_vipd(void **state)
{
    struct setup *s = *state;
    struct vip_vipd_head *head = s->fake.vipd;
    VIP_DESCRIPTOR *desc = desc_at(s, 0), *got;
    struct vip_comp comp = {.status = VIP_ST_DONE};

    /* 253 segments take 85 slots: 48 such descriptors fill 4080 of 4096 slots. */
    desc->CS.SegCount = 253;
    for (unsigned i = 0; i < 48; i++) {
        OK(VipPostSend(s->vi, desc, s->handle));
        fake_complete(&s->fake, 7, VIP_Q_SEND, s->fake.send_position++, &comp);
        OK(VipSendDone(s->vi, &got));
    }
    assert_int_equal(VipPostSend(s->vi, desc, s->handle), VIP_ERROR_RESOURCE);
    assert_non_null(strstr(VipxLastError(), "submission ring"));
    assert_int_equal(VipSendDone(s->vi, &got), VIP_DESCRIPTOR_ERROR); /* no descriptor was queued */
    assert_null(got);
    vip_store32_release(&head->sq_cons, 85);
    OK(VipPostSend(s->vi, desc, s->handle));
    assert_int_equal(slot_at(s, 4080).seg_count, 253);
    assert_int_equal(slot_at(s, 4080 + 84).kind, VIP_SQ_CONT);
}

static void the_queue_limit_is_kept(void **state)
{
    struct setup *s = *state;

    for (unsigned i = 0; i < 1024; i++)
        OK(VipPostRecv(s->vi, desc_at(s, i % 512), s->handle));
    assert_int_equal(s->errors, 0);
    OK(VipPostRecv(s->vi, desc_at(s, 0), s->handle));
    await_errors(s, 1);
    assert_int_equal(s->error.ErrorCode, VIP_ERROR_VI_OVERRUN);
    assert_ptr_equal(s->error.ViHandle, s->vi);
}

static void death_flushes_wakes_and_tells(void **state)
{
    struct setup *s = *state;
    struct vip_comp comp = {.status = VIP_ST_DONE | VIP_ST_OP_RECEIVE, .length = 5};
    struct vip_vipd_vi *block = vip_vipd_vi(s->fake.vipd, 7);
    VIP_DESCRIPTOR *write = desc_at(s, 5), *got;
    VIP_VI_STATE vi_state;
    VIP_VI_ATTRIBUTES attrs;
    VIP_BOOLEAN empty, recv;
    VIP_VI_HANDLE vi;
    pthread_t thread;
    void *taken;

    vip_store32_release(&block->state, VIP_VIST_CONNECTED);
    OK(VipPostRecv(s->vi, desc_at(s, 0), s->handle));
    pthread_create(&thread, NULL, wait_recv, s);
    await_sleepers(s, 1);
    OK(VipPostRecv(s->vi, desc_at(s, 1), s->handle));
    write->CS.Control = VIP_CONTROL_OP_RDMAWRITE;
    OK(VipPostSend(s->vi, write, s->handle));
    fake_die(&s->fake);
    pthread_join(thread, &taken);
    assert_ptr_equal(taken, desc_at(s, 0));
    assert_int_equal(desc_at(s, 0)->CS.Status,
                     VIP_STATUS_DONE | VIP_STATUS_DESC_FLUSHED_ERROR | VIP_STATUS_OP_RECEIVE);
    await_errors(s, 2);
    assert_int_equal(s->error.ErrorCode, VIP_ERROR_CATASTROPHIC);
    /* Completions that vipd wrote before its end come before the flushed descriptors. */
    fake_complete(&s->fake, 7, VIP_Q_RECV, s->fake.recv_position + 1, &comp);
    assert_int_equal(VipRecvDone(s->vi, &got), VIP_SUCCESS);
    assert_int_equal(got->CS.Length, 5);
    assert_int_equal(VipSendWait(s->vi, VIP_INFINITE, &got), VIP_DESCRIPTOR_ERROR);
    assert_int_equal(got->CS.Status,
                     VIP_STATUS_DONE | VIP_STATUS_DESC_FLUSHED_ERROR | VIP_STATUS_OP_RDMA_WRITE);
    /* No CQ entry has reported the two posted receives yet: now there are two entries. */
    for (unsigned i = 0; i < 2; i++) {
        OK(VipCQDone(s->cq, &vi, &recv));
        assert_ptr_equal(vi, s->vi);
        assert_int_equal(recv, VIP_TRUE);
    }
    assert_int_equal(VipCQDone(s->cq, &vi, &recv), VIP_NOT_DONE);
    OK(VipQueryVi(s->vi, &vi_state, &attrs, &empty, &empty));
    assert_int_equal(vi_state, VIP_STATE_ERROR);
    assert_int_equal(VipDisconnect(s->vi), VIP_ERROR_RESOURCE);
    assert_int_equal(VipDestroyVi(s->vi), VIP_ERROR_RESOURCE);
    assert_non_null(strstr(VipxLastError(), s->fake.dir));
}

/* Random handles and nearly correct handles: every call refuses them. */
static void no_handle_is_followed_blindly(void **state)
{
    struct setup *s = *state;
    uint64_t real[] = {(uintptr_t)s->nic, (uintptr_t)s->vi, (uintptr_t)s->cq},
             x = 88172645463325252;
    VIP_DESCRIPTOR *got;
    VIP_BOOLEAN recv;
    VIP_VI_HANDLE vi;

    for (unsigned i = 0; i < 20000; i++) {
        VIP_PVOID handle;

        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        handle = (VIP_PVOID)(uintptr_t)(i % 2 ? x : real[i % 3] ^ 1ull << x % 64);
        if (handle != s->vi) {
            assert_int_equal(VipSendDone(handle, &got), VIP_INVALID_PARAMETER);
            assert_int_equal(VipPostSend(handle, desc_at(s, 0), s->handle), VIP_INVALID_PARAMETER);
            assert_int_equal(VipRecvWait(handle, 1, &got), VIP_INVALID_PARAMETER);
            assert_int_equal(VipDisconnect(handle), VIP_INVALID_PARAMETER);
            assert_null(VipGetUserData(handle));
        }
        if (handle != s->cq)
            assert_int_equal(VipCQDone(handle, &vi, &recv), VIP_INVALID_PARAMETER);
        if (handle != s->nic)
            assert_int_equal(VipNSInit(handle, NULL), VIP_INVALID_PARAMETER);
        assert_int_equal(VipConnectReject(handle), VIP_INVALID_PARAMETER);
    }
}

static void a_result_of_another_generation_is_not_ours(void **state)
{
    struct setup *s = *state;
    Vip__Event event = VIP__EVENT__INIT;
    Vip__ConnResult result = VIP__CONN_RESULT__INIT;
    VIP_NET_ADDRESS address = {0, 0, {0}};

    event.body_case = VIP__EVENT__BODY_RESULT;
    event.result = &result;
    result.has_vi = result.has_generation = result.has_code = 1;
    result.vi = 7;
    result.generation = 0x1FD;
    result.code = VIP_RC_SUCCESS;
    vip_control_send(s->fake.event, &event.base, NULL, 0, 0);
    result.generation = 0x1FE;
    result.code = VIP_RC_NO_MATCH;
    s->fake.after_reply = &event;
    assert_int_equal(VipConnectRequest(s->vi, &address, &address, 1000, &attributes), VIP_NO_MATCH);
    /* vipd sends an unknown code. libvipl does not return it to the program. */
    result.code = 4711;
    assert_int_equal(VipConnectRequest(s->vi, &address, &address, 1000, &attributes),
                     VIP_ERROR_RESOURCE);
}

static void a_wait_that_gives_up_too_late_gets_its_request(void **state)
{
    struct setup *s = *state;
    Vip__Event event = VIP__EVENT__INIT;
    Vip__ConnIncoming incoming = VIP__CONN_INCOMING__INIT;
    union {
        VIP_NET_ADDRESS net;
        char room[4 + 24 + 128];
    } address = {{0}}, from = {{0}};
    VIP_VI_ATTRIBUTES attrs;
    VIP_CONN_HANDLE request = NULL;

    event.body_case = VIP__EVENT__BODY_INCOMING;
    event.incoming = &incoming;
    incoming.has_wait_id = incoming.has_conn_handle = 1;
    incoming.wait_id = s->fake.wait_id = 55;
    incoming.conn_handle = 77;
    /* The reply to the cancel has no request: libvipl must not take a request of another wait. */
    assert_int_equal(VipConnectWait(s->nic, &address.net, 1, &from.net, &attrs, &request),
                     VIP_TIMEOUT);
    assert_int_equal(s->fake.requests[VIP__REQUEST__BODY_CONNECT_WAIT_CANCEL], 1);
    s->fake.after_reply = &event;
    s->fake.found = true;
    OK(VipConnectWait(s->nic, &address.net, 0, &from.net, &attrs, &request));
    assert_non_null(request);
    s->fake.after_reply = NULL;
    OK(VipConnectReject(request));
    assert_int_equal(VipConnectReject(request), VIP_INVALID_PARAMETER);
    assert_int_equal(s->fake.requests[VIP__REQUEST__BODY_REJECT], 1);
}

static void every_fault_of_opening_is_told(void **state)
{
    static const struct {
        enum fake_fault fault;
        const char *text;
    } faults[] = {
        {FAKE_NO_SEALS, "not sealed"}, {FAKE_SMALL, "wrong size"},
        {FAKE_MAGIC, "head"},          {FAKE_ABI, "another version"},
        {FAKE_FEW_FDS, "incomplete"},  {FAKE_REFUSES, "the fake refuses"},
        {FAKE_HANGS_UP, "lost"},
    };

    (void)state;
    for (unsigned i = 0; i < sizeof(faults) / sizeof(faults[0]); i++) {
        struct fake fake = {.fault = faults[i].fault,
                            .again = UINT32_MAX,
                            .ends_at = VIP__REQUEST__BODY_OPEN,
                            .lives = UINT32_MAX};
        VIP_NIC_HANDLE nic = NULL;

        fake_start(&fake);
        assert_int_equal(VipOpenNic("x", &nic), VIP_ERROR_RESOURCE);
        if (strstr(VipxLastError(), faults[i].text) == NULL)
            fail_msg("\"%s\" is not in: %s", faults[i].text, VipxLastError());
        assert_null(nic);
        fake_stop(&fake);
    }
}

/* The arena is the file that vipd has made, if it is correct. Otherwise libvipl makes a file. */
static void a_memory_file_of_vipd_is_looked_at(void **state)
{
    static const enum fake_memory memories[] = {FAKE_MEM_NONE, FAKE_MEM_GOOD, FAKE_MEM_TWO,
                                                FAKE_MEM_SMALL, FAKE_MEM_NO_SEALS};

    (void)state;
    for (unsigned i = 0; i < sizeof(memories) / sizeof(memories[0]); i++) {
        struct fake fake = {.memory = memories[i]};
        VIP_NIC_HANDLE nic = NULL;

        fake_start(&fake);
        OK(VipOpenNic("x", &nic));
        assert_int_not_equal(fake.made, 0);
        assert_int_equal(fake.arena == fake.made, memories[i] == FAKE_MEM_GOOD);
        OK(VipCloseNic(nic));
        fake_stop(&fake);
    }
}

static void no_memory_file_no_nic(void **state)
{
    struct fake fake = {.memory = FAKE_MEM_REFUSES};
    VIP_NIC_HANDLE nic = NULL;

    (void)state;
    fake_start(&fake);
    assert_int_equal(VipOpenNic("x", &nic), VIP_ERROR_RESOURCE);
    assert_non_null(strstr(VipxLastError(), "VipOpenNic: the fake makes no memory"));
    assert_null(nic);
    fake_stop(&fake);
}

int main(void)
{
#define WITH_VIPD(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        WITH_VIPD(a_post_is_one_slot_with_the_descriptors_words),
        WITH_VIPD(long_descriptors_continue),
        WITH_VIPD(extensions_need_both_ends),
        WITH_VIPD(an_impossible_segment_count_reads_no_segments),
        WITH_VIPD(completions_are_taken_in_order_across_the_wrap),
        WITH_VIPD(a_completion_that_nobody_posted_is_ignored),
        WITH_VIPD(the_doorbell_rings_only_while_vipd_sleeps),
        WITH_VIPD(cq_entries_name_live_vis_only),
        WITH_VIPD(sleepers_are_published_and_woken),
        WITH_VIPD(a_full_ring_waits_for_vipd),
        WITH_VIPD(the_queue_limit_is_kept),
        WITH_VIPD(death_flushes_wakes_and_tells),
        WITH_VIPD(no_handle_is_followed_blindly),
        WITH_VIPD(a_result_of_another_generation_is_not_ours),
        WITH_VIPD(a_wait_that_gives_up_too_late_gets_its_request),
        cmocka_unit_test(every_fault_of_opening_is_told),
        cmocka_unit_test(a_memory_file_of_vipd_is_looked_at),
        cmocka_unit_test(no_memory_file_no_nic),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

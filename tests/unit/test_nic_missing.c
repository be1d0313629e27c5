/*
 * Messages within one host, from or to memory with a missing page. The operation of the memory's
 * owner fails, not the operation at the other end.
 */
#include "unit/nic_rig.h"

#include "vipd/registry/guard.h"

#define BYTES (4 * 4096u)

/* Two programs of one host, connected. */
struct two {
    struct rig_app *a, *b;
    uint16_t va, vb;
    struct rig_mem ma, mb;
};

static struct two two_new(void)
{
    struct two t = {.a = rig_app(rig_nic(0)), .b = rig_app(rig_nics[0])};

    assert_int_equal(guard_install(),
                     0); /* cmocka sets its own signal handlers for each test: set ours again */
    t.va = rig_vi(t.a, VIP_LVL_DELIVERY);
    t.vb = rig_vi(t.b, VIP_LVL_DELIVERY);
    t.ma = rig_mem(t.a, BYTES, REGISTRY_SHARED);
    t.mb = rig_mem(t.b, BYTES, REGISTRY_SHARED);
    rig_connect(t.a, t.va, 0, t.b, t.vb, 0);
    return t;
}

static void two_free(struct two *t)
{
    rig_mem_free(&t->ma);
    rig_mem_free(&t->mb);
}

/* Replace a page of vipd's mapping of the region by a page of an empty file. */
static void lose_page(struct rig_app *app, const struct rig_mem *mem, unsigned page)
{
    struct registry_vi vi = {0};
    struct eng_access access = {
        .kind = ENG_ACCESS_SEND, .handle = mem->handle, .addr = (uintptr_t)mem->at, .len = BYTES};
    uint8_t *base = registry_access(app->registry, &vi, &access, NULL);
    int fd = memfd_create("empty", MFD_CLOEXEC);

    assert_true(base && fd >= 0);
    assert_ptr_equal(
        mmap(base + page * 4096, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0),
        base + page * 4096);
    close(fd);
}

static uint32_t error_of(struct rig_app *app, uint16_t vi, unsigned queue)
{
    return rig_wait_done(app, vi, queue).status & VIP_ST_ERROR_MASK;
}

/* Pages of the sender's memory are missing, one after the other: the sender's descriptor fails. */
static void test_the_sender_s_page(void **state)
{
    for (unsigned page = 0; page < 4; page++) {
        struct two t = two_new();

        lose_page(t.a, &t.ma, page);
        rig_post_recv(t.b, t.vb, rig_seg(&t.mb, 0, BYTES));
        rig_post_send(t.a, t.va, rig_seg(&t.ma, 100, BYTES - 200));
        assert_true((error_of(t.a, t.va, VIP_Q_SEND) & VIP_ST_PROTECTION_ERROR) != 0);
        assert_true((error_of(t.b, t.vb, VIP_Q_RECV) & VIP_ST_PROTECTION_ERROR) == 0);
        assert_true(guard_faulted(registry_guard(t.a->registry)));
        assert_false(guard_faulted(registry_guard(t.b->registry)));
        two_free(&t);
        rig_teardown(state);
        rig_reset();
    }
}

/* A page of the receiver's memory is missing: the receiver's descriptor fails. */
static void test_the_receiver_s_page(void **state)
{
    struct two t = two_new();

    lose_page(t.b, &t.mb, 1);
    rig_post_recv(t.b, t.vb, rig_seg(&t.mb, 0, BYTES));
    rig_post_send(t.a, t.va, rig_seg(&t.ma, 0, BYTES));
    assert_true((error_of(t.b, t.vb, VIP_Q_RECV) & VIP_ST_PROTECTION_ERROR) != 0);
    assert_false(guard_faulted(registry_guard(t.a->registry)));
    assert_true(guard_faulted(registry_guard(t.b->registry)));
    two_free(&t);
}

/*
 * One packet has two RDMA Writes to staged memory whose pages are missing. The first write breaks
 * the session, and the second write finds the session broken.
 */
static void test_staged_pages(void **state)
{
    struct two t = two_new();
    struct rig_mem staged = rig_mem(t.b, BYTES, REGISTRY_STAGED);
    struct registry_vi vi = {.enable_rdma_write = true};
    struct eng_access access = {.kind = ENG_ACCESS_REMOTE_WRITE,
                                .handle = staged.handle,
                                .addr = (uintptr_t)staged.at,
                                .len = BYTES};
    uint8_t *base = registry_access(t.b->registry, &vi, &access, NULL);
    int fd = memfd_create("empty", MFD_CLOEXEC);

    assert_true(base && fd >= 0);
    assert_ptr_equal(mmap(base, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0),
                     base);
    close(fd);
    rig_post_write(t.a, t.va, rig_seg(&t.ma, 0, 100), rig_seg(&staged, 0, 0), false);
    rig_post_write(t.a, t.va, rig_seg(&t.ma, 0, 100), rig_seg(&staged, 4096, 0), false);
    for (unsigned i = 0; i < 1000 && !guard_faulted(registry_guard(t.b->registry)); i++)
        rig_pass(RIG_STEP_NS);
    assert_true(guard_faulted(registry_guard(t.b->registry)));
    assert_false(guard_faulted(registry_guard(t.a->registry)));
    rig_mem_free(&staged);
    two_free(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(test_the_sender_s_page, rig_teardown),
        cmocka_unit_test_teardown(test_the_receiver_s_page, rig_teardown),
        cmocka_unit_test_teardown(test_staged_pages, rig_teardown),
    };

    rig_reset();
    return cmocka_run_group_tests_name("nic_missing", tests, NULL, NULL);
}

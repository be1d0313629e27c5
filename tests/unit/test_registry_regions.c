/*
 * The region table against hostile applications: bounds, overflow, stale handles, wrong tags and
 * rights, wrong descriptors, quotas.
 */
#include "vipd/registry/registry.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cmocka.h>

#include "vipd/registry/mapping.h"
#include "vipd/registry/memfile.h"

#define SEALS (F_SEAL_SHRINK | F_SEAL_GROW)
#define PAGE  4096u

static const struct registry_limits limits = {
    .regions_max = 100, .bytes_max = 1ull << 30, .ptags_max = 10};

static int memfd(uint64_t bytes, int seals)
{
    int fd = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);

    assert_true(fd >= 0);
    assert_int_equal(ftruncate(fd, (off_t)bytes), 0);
    assert_int_equal(fcntl(fd, F_ADD_SEALS, seals), 0);
    return fd;
}

/* A registry and a second descriptor of its arena. */
struct world {
    struct registry *registry;
    int arena;
};

static int setup(void **state)
{
    static struct world world;

    world.arena = memfd(VIP_ARENA_BYTES, SEALS);
    assert_int_equal(registry_new(&limits, dup(world.arena), &world.registry), 0);
    *state = &world;
    return 0;
}

static int teardown(void **state)
{
    struct world *world = *state;

    registry_free(world->registry);
    close(world->arena);
    return 0;
}

static bool fd_is_open(int fd)
{
    return fcntl(fd, F_GETFD) >= 0;
}

static enum vip_rc add(struct registry *registry, const struct registry_region *region, int fd,
                       uint32_t *ret_handle)
{
    char why[128] = "";
    enum vip_rc rc = registry_add(registry, region, fd, ret_handle, why, sizeof(why));

    if (rc != VIP_RC_SUCCESS)
        assert_true(strlen(why) > 10);
    if (fd >= 0)
        assert_false(fd_is_open(fd));
    return rc;
}

static struct registry_region adopted(uint64_t addr, uint64_t bytes, uint64_t offset)
{
    return (struct registry_region){
        .addr = addr, .bytes = bytes, .kind = REGISTRY_ADOPTED, .offset = offset};
}

static void *access_as(struct registry *registry, enum eng_access_kind kind, uint32_t handle,
                       uint64_t addr, uint32_t len)
{
    struct registry_vi vi = {.enable_rdma_write = true, .enable_rdma_read = true};
    struct eng_access access = {.kind = kind, .handle = handle, .addr = addr, .len = len};

    return registry_access(registry, &vi, &access, NULL);
}

static void *send_access(struct registry *registry, uint32_t handle, uint64_t addr, uint32_t len)
{
    return access_as(registry, ENG_ACCESS_SEND, handle, addr, len);
}

static void test_adopted_bytes_are_the_arena(void **state)
{
    struct world *world = *state;
    struct registry_region region = adopted(0x10001, 10000, 5 * PAGE + 1);
    char text[6] = {0};
    uint32_t handle;
    uint8_t *at;

    assert_int_equal(add(world->registry, &region, -1, &handle), VIP_RC_SUCCESS);
    assert_int_not_equal(handle, 0);
    assert_int_not_equal(handle, UINT32_MAX);
    at = access_as(world->registry, ENG_ACCESS_RECV, handle, 0x10003, 5);
    assert_non_null(at);
    memcpy(at, "hello", 5);
    assert_int_equal(pread(world->arena, text, 5, 5 * PAGE + 3), 5);
    assert_string_equal(text, "hello");
    assert_ptr_equal(send_access(world->registry, handle, 0x10003, 5), at);
}

static void test_bounds_are_exact(void **state)
{
    struct world *world = *state;
    struct registry *r = world->registry;
    struct registry_region region = adopted(0x10000, 100, 0);
    uint32_t handle;

    assert_int_equal(add(r, &region, -1, &handle), VIP_RC_SUCCESS);
    assert_non_null(send_access(r, handle, 0x10000, 100));
    assert_non_null(send_access(r, handle, 0x10063, 1));
    assert_null(send_access(r, handle, 0x10064, 1));
    assert_null(send_access(r, handle, 0x10000, 101));
    assert_null(send_access(r, handle, 0xffff, 1));
    assert_null(send_access(r, handle, 0xffff, 2));
    assert_null(send_access(r, handle, 0x10001, 100));
    assert_null(send_access(r, handle, 0x10001, UINT32_MAX));
    assert_null(send_access(r, handle, UINT64_MAX, 2));
    assert_null(send_access(r, handle, 0, UINT32_MAX));
    /* An access of no bytes may have any address, but needs a valid handle. */
    assert_non_null(send_access(r, handle, 0x10064, 0));
    assert_non_null(send_access(r, handle, 0, 0));
    assert_non_null(send_access(r, handle, UINT64_MAX, 0));
    assert_null(send_access(r, 0, 0, 0));
    assert_null(send_access(r, UINT32_MAX, UINT64_MAX, 0));
}

static void test_bounds_at_the_ends_of_the_address_space(void **state)
{
    struct world *world = *state;
    struct registry *r = world->registry;
    struct registry_region region = adopted(UINT64_MAX - 100, 100, 0);
    uint32_t handle;

    assert_int_equal(add(r, &region, -1, &handle), VIP_RC_SUCCESS);
    assert_non_null(send_access(r, handle, UINT64_MAX - 1, 1));
    assert_null(send_access(r, handle, UINT64_MAX - 1, 2));
    assert_null(send_access(r, handle, UINT64_MAX, 1));
    assert_null(send_access(r, handle, 0, 1));
    region = adopted(0, 100, 0);
    assert_int_equal(add(r, &region, -1, &handle), VIP_RC_SUCCESS);
    assert_non_null(send_access(r, handle, 0, 100));
    assert_null(send_access(r, handle, UINT64_MAX, 1));
}

static void test_handles_nobody_gave_out(void **state)
{
    struct world *world = *state;
    struct registry *r = world->registry;
    struct registry_region region = adopted(0, PAGE, 0);
    uint32_t handle, second;

    assert_null(send_access(r, 0, 0, 1));
    assert_null(send_access(r, UINT32_MAX, 0, 1));
    assert_null(registry_get(r, 0));
    assert_int_equal(add(r, &region, -1, &handle), VIP_RC_SUCCESS);
    assert_int_equal(add(r, &region, -1, &second), VIP_RC_SUCCESS);
    assert_int_equal(registry_remove(r, handle, 0), VIP_RC_SUCCESS);
    for (uint32_t guess = 0; guess < 1u << 20; guess++)
        if (guess != second)
            assert_null(registry_get(r, guess));
    for (uint32_t low = 0; low < 1u << 16; low++)
        assert_null(registry_get(r, 0xffff0000u | low));
}

/* A peer knows the handles of one session, and the way handles are made. It still cannot guess the
 * handles of another session: its first handle has a random generation. */
static void test_first_handles_are_random(void **state)
{
    struct registry_region region = adopted(0, PAGE, 0);
    unsigned of_generation_1 = 0, octant[8] = {0}, equal_steps = 0;

    (void)state;
    for (unsigned i = 0; i < 512; i++) {
        struct registry_limits seeded = limits;
        struct registry *r;
        uint32_t first, second;

        seeded.handle_seed = i;
        assert_int_equal(registry_new(&seeded, memfd(VIP_ARENA_BYTES, SEALS), &r), 0);
        assert_int_equal(add(r, &region, -1, &first), VIP_RC_SUCCESS);
        assert_int_equal(add(r, &region, -1, &second), VIP_RC_SUCCESS);
        of_generation_1 += first >> 16 == 1;
        octant[first >> 29]++;
        equal_steps += first >> 16 == second >> 16;
        /* These are the handles that an attacker tries first. */
        for (uint32_t index = 0; index < 16; index++)
            if ((1u << 16 | index) != first && (1u << 16 | index) != second)
                assert_null(registry_get(r, 1u << 16 | index));
        registry_free(r);
    }
    assert_true(of_generation_1 < 4 && equal_steps < 4);
    for (unsigned i = 0; i < 8; i++)
        assert_in_range(octant[i], 32, 128);
}

/* Before Linux 5.9 two memfds may have one inode number: vipd refuses the second registration. */
static void test_two_files_of_one_number(void **state)
{
    struct mappings all = {0};
    struct mapping checked;
    struct mapping *first;
    const char *why = "";
    int fd = memfd(PAGE, SEALS), other = memfd(2ul * PAGE, SEALS);

    (void)state;
    assert_int_equal(mapping_check_fd(fd, &checked, &why), 0);
    first = mapping_get(&all, &fd, &checked, &why);
    assert_non_null(first);
    checked.bytes = 2ul * PAGE;
    assert_null(mapping_get(&all, &other, &checked, &why));
    assert_int_equal(errno, EBADMSG);
    assert_non_null(strstr(why, "inode number"));
    mapping_put(&all, first);
    close(fd);
    close(other);
}

static void test_stale_handles_are_refused(void **state)
{
    struct world *world = *state;
    struct registry *r = world->registry;
    struct registry_region region = adopted(0x1000, 100, 0);
    uint32_t old[300], handle;

    for (unsigned i = 0; i < 300; i++) {
        assert_int_equal(add(r, &region, -1, &old[i]), VIP_RC_SUCCESS);
        assert_int_equal(registry_remove(r, old[i], 0x1000), VIP_RC_SUCCESS);
    }
    assert_int_equal(add(r, &region, -1, &handle), VIP_RC_SUCCESS);
    for (unsigned i = 0; i < 300; i++) {
        assert_int_not_equal(old[i], handle);
        assert_null(send_access(r, old[i], 0x1000, 1));
        assert_int_equal(registry_remove(r, old[i], 0x1000), VIP_RC_INVALID_PARAMETER);
    }
    assert_int_equal(registry_remove(r, handle, 0x1001), VIP_RC_INVALID_PARAMETER);
    assert_int_equal(registry_remove(r, handle, 0x1000), VIP_RC_SUCCESS);
    assert_int_equal(registry_remove(r, handle, 0x1000), VIP_RC_INVALID_PARAMETER);
}

/* A later life registers regions under the handles of an earlier life, and then new regions. */
static void test_handles_of_an_earlier_life(void **state)
{
    struct world *world = *state;
    struct registry *r = world->registry;
    struct registry_region region = adopted(0x1000, 100, 0);
    const uint32_t past[] = {0x77770005, 0x00010003, 0xfffe0063, 0x12340004, 0x00020000};
    const uint32_t bad[] = {0, 7, 0xffff0007, UINT32_MAX, 0x00010064, 0x00010003, 0x00020003};
    uint32_t handle, usage;
    char why[128];
    struct registry_usage now;

    for (unsigned i = 0; i < 5; i++)
        assert_int_equal(registry_restore(r, &region, -1, past[i], why, sizeof(why)),
                         VIP_RC_SUCCESS);
    for (unsigned i = 0; i < 7; i++) {
        why[0] = 0;
        assert_int_equal(registry_restore(r, &region, -1, bad[i], why, sizeof(why)),
                         VIP_RC_INVALID_PARAMETER);
        assert_true(strlen(why) > 10);
    }
    for (unsigned i = 0; i < 5; i++)
        assert_non_null(send_access(r, past[i], 0x1000, 1));
    assert_null(send_access(r, 0x77780005, 0x1000, 1));
    /* Each other slot is free and gets one new region. */
    for (usage = 5; usage < 100; usage++) {
        assert_int_equal(add(r, &region, -1, &handle), VIP_RC_SUCCESS);
        for (unsigned i = 0; i < 5; i++)
            assert_int_not_equal(handle & 0xffff, past[i] & 0xffff);
    }
    assert_int_equal(add(r, &region, -1, &handle), VIP_RC_ERROR_RESOURCE);
    registry_usage(r, &now);
    assert_int_equal(now.regions, 100);
    /* The slot of a restored handle then gives a different handle. */
    assert_int_equal(registry_remove(r, past[0], 0x1000), VIP_RC_SUCCESS);
    assert_int_equal(add(r, &region, -1, &handle), VIP_RC_SUCCESS);
    assert_int_equal(handle, 0x77780005);
}

static void test_tags_of_an_earlier_life(void **state)
{
    struct world *world = *state;
    struct registry *r = world->registry;
    uint32_t tag, second = VIP_PTAG_MAX + 3;

    assert_int_equal(registry_ptag_restore(r, second), VIP_RC_SUCCESS);
    assert_true(registry_ptag_valid(r, second));
    assert_false(registry_ptag_valid(r, 3));
    assert_int_equal(registry_ptag_restore(r, second), VIP_RC_INVALID_PARAMETER);
    assert_int_equal(registry_ptag_restore(r, 3), VIP_RC_INVALID_PARAMETER);  /* place in use */
    assert_int_equal(registry_ptag_restore(r, 11), VIP_RC_INVALID_PARAMETER); /* above ptags_max */
    assert_int_equal(registry_ptag_restore(r, 0), VIP_RC_INVALID_PARAMETER);
    for (unsigned i = 0; i < 9; i++)
        assert_int_equal(registry_ptag_create(r, &tag), VIP_RC_SUCCESS);
    assert_int_equal(registry_ptag_create(r, &tag), VIP_RC_ERROR_RESOURCE);
}

/* Generations wrap after 65534 registrations in one slot, and never give a forbidden handle. */
static void test_generations_wrap(void **state)
{
    struct registry_limits one = {.regions_max = 1, .bytes_max = 1 << 20, .ptags_max = 0};
    struct registry_region region = adopted(0, 1, 0);
    struct registry *r;
    uint32_t handle, last = 0;

    assert_int_equal(registry_new(&one, memfd(VIP_ARENA_BYTES, SEALS), &r), 0);
    for (unsigned i = 0; i < 70000; i++) {
        if (registry_add(r, &region, -1, &handle, NULL, 0) != VIP_RC_SUCCESS || handle == 0 ||
            handle == last || handle >> 16 == 0 || handle >> 16 == 0xffff ||
            registry_remove(r, handle, 0) != VIP_RC_SUCCESS)
            fail();
        last = handle;
    }
    registry_free(r);
}

static void test_tags_and_rights(void **state)
{
    struct world *world = *state;
    struct registry *r = world->registry;
    struct registry_region region = adopted(0x1000, 100, 0);
    uint32_t tag[2], handle;

    assert_int_equal(registry_ptag_create(r, &tag[0]), VIP_RC_SUCCESS);
    assert_int_equal(registry_ptag_create(r, &tag[1]), VIP_RC_SUCCESS);
    assert_int_equal(add(r, &region, -1, &handle), VIP_RC_SUCCESS);
    /* Every combination of tags, rights of the VI and of the region, and access; 1 byte or none. */
    for (unsigned bits = 0; bits < 3 * 3 * 16 * 4 * 2; bits++) {
        uint32_t tags[3] = {0, tag[0], tag[1]};
        unsigned vi_tag = bits / 64 % 3, region_tag = bits / 192 % 3, rights = bits / 4 % 16;
        enum eng_access_kind kind = (enum eng_access_kind)(bits % 4);
        struct registry_vi vi = {
            .ptag = tags[vi_tag], .enable_rdma_write = rights & 1, .enable_rdma_read = rights & 2};
        struct registry_attrs attrs = {.ptag = tags[region_tag],
                                       .enable_rdma_write = rights & 4,
                                       .enable_rdma_read = rights & 8};
        struct eng_access access = {
            .kind = kind, .handle = handle, .addr = 0x1000, .len = bits / 576 % 2};
        bool allowed = vi_tag == region_tag || vi_tag == 0 || region_tag == 0;

        if (kind == ENG_ACCESS_REMOTE_WRITE)
            allowed = allowed && (rights & 5) == 5;
        if (kind == ENG_ACCESS_REMOTE_READ)
            allowed = allowed && (rights & 10) == 10;
        assert_int_equal(registry_set_attrs(r, handle, 0x1000, &attrs), VIP_RC_SUCCESS);
        assert_int_equal(registry_access(r, &vi, &access, NULL) != NULL, allowed);
    }
}

static void test_ptag_life(void **state)
{
    struct world *world = *state;
    struct registry *r = world->registry;
    struct registry_region region = adopted(0x1000, 100, 0);
    struct registry_attrs attrs = {.ptag = 0};
    uint32_t tags[10], extra, handle;

    assert_true(registry_ptag_valid(r, 0));
    assert_false(registry_ptag_valid(r, 1));
    for (unsigned i = 0; i < 10; i++) {
        assert_int_equal(registry_ptag_create(r, &tags[i]), VIP_RC_SUCCESS);
        assert_true(tags[i] > 0 && registry_ptag_valid(r, tags[i]));
    }
    assert_int_equal(registry_ptag_create(r, &extra), VIP_RC_ERROR_RESOURCE);
    region.attrs.ptag = tags[3];
    assert_int_equal(add(r, &region, -1, &handle), VIP_RC_SUCCESS);
    assert_int_equal(registry_ptag_destroy(r, tags[3]), VIP_RC_ERROR_RESOURCE);
    assert_int_equal(registry_set_attrs(r, handle, 0x1000, &attrs), VIP_RC_SUCCESS);
    registry_ptag_use(r, tags[3], 2);
    registry_ptag_use(r, tags[3], -1);
    assert_int_equal(registry_ptag_destroy(r, tags[3]), VIP_RC_ERROR_RESOURCE);
    registry_ptag_use(r, tags[3], -1);
    assert_int_equal(registry_ptag_destroy(r, tags[3]), VIP_RC_SUCCESS);
    assert_int_equal(registry_ptag_destroy(r, tags[3]), VIP_RC_INVALID_PARAMETER);
    assert_int_equal(registry_ptag_destroy(r, 0), VIP_RC_INVALID_PARAMETER);
    assert_int_equal(registry_ptag_destroy(r, UINT32_MAX), VIP_RC_INVALID_PARAMETER);
    /* A new tag can use the place of the destroyed tag, but gets another number. */
    assert_int_equal(registry_ptag_create(r, &extra), VIP_RC_SUCCESS);
    assert_int_not_equal(extra, tags[3]);
    assert_false(registry_ptag_valid(r, tags[3]));
    region.attrs.ptag = tags[3];
    assert_int_equal(add(r, &region, -1, &handle), VIP_RC_INVALID_PTAG);
}

static void test_shared_memory_is_mapped_once(void **state)
{
    struct world *world = *state;
    struct registry *r = world->registry;
    int fd = memfd(4 * PAGE, SEALS);
    struct registry_region region = {
        .addr = 0x7000, .bytes = PAGE, .kind = REGISTRY_SHARED, .offset = PAGE};
    uint32_t first, second;
    uint8_t *a, *b;

    assert_int_equal(add(r, &region, dup(fd), &first), VIP_RC_SUCCESS);
    region.offset = 2 * PAGE;
    assert_int_equal(add(r, &region, dup(fd), &second), VIP_RC_SUCCESS);
    a = send_access(r, first, 0x7000, PAGE);
    b = access_as(r, ENG_ACCESS_RECV, second, 0x7000, PAGE);
    assert_ptr_equal(b, a + PAGE);
    assert_int_equal(registry_remove(r, first, 0x7000), VIP_RC_SUCCESS);
    b[0] = 42;
    assert_int_equal(pread(fd, &(char){0}, 1, 2 * PAGE), 1);
    close(fd);
}

static void test_staged_halves(void **state)
{
    struct world *world = *state;
    struct registry *r = world->registry;
    int fd = memfd(4 * PAGE, SEALS);
    struct registry_region region = {
        .addr = 0x7123,
        .bytes = PAGE,
        .kind = REGISTRY_STAGED,
        .offset = 0x123,
        .attrs = {.enable_rdma_write = true, .enable_rdma_read = true}};
    struct registry_vi vi = {.enable_rdma_write = true, .enable_rdma_read = true};
    struct eng_access access = {.addr = 0x7124, .len = 10};
    uint8_t *out, *in, byte = 0;
    bool staged = false;

    assert_int_equal(add(r, &region, dup(fd), &access.handle), VIP_RC_SUCCESS);
    access.kind = ENG_ACCESS_SEND;
    out = registry_access(r, &vi, &access, &staged);
    assert_true(staged);
    access.kind = ENG_ACCESS_REMOTE_READ;
    assert_ptr_equal(registry_access(r, &vi, &access, NULL), out);
    access.kind = ENG_ACCESS_RECV;
    in = registry_access(r, &vi, &access, NULL);
    assert_ptr_equal(in, out + 2 * PAGE);
    access.kind = ENG_ACCESS_REMOTE_WRITE;
    assert_ptr_equal(registry_access(r, &vi, &access, NULL), in);
    in[0] = 7;
    assert_int_equal(pread(fd, &byte, 1, 2 * PAGE + 0x124), 1);
    assert_int_equal(byte, 7);
    /* A region may end with the last byte of its half. The next byte belongs to the other half. */
    region.bytes = 2 * PAGE - 0x123;
    assert_int_equal(add(r, &region, dup(fd), &access.handle), VIP_RC_SUCCESS);
    region.bytes++;
    assert_int_equal(add(r, &region, dup(fd), &access.handle), VIP_RC_INVALID_PARAMETER);
    close(fd);
}

static void test_bad_regions(void **state)
{
    struct world *world = *state;
    struct registry *r = world->registry;
    struct registry_usage usage;
    static const struct {
        struct registry_region region;
        uint64_t fd_bytes; /* size of the file; 0: no file descriptor */
        enum vip_rc rc;
    } cases[] = {
        {{.addr = 1, .bytes = 0, .kind = REGISTRY_ADOPTED}, 0, VIP_RC_INVALID_PARAMETER},
        {{.addr = UINT64_MAX, .bytes = 1, .kind = REGISTRY_ADOPTED}, 0, VIP_RC_INVALID_PARAMETER},
        {{.addr = UINT64_MAX - 1, .bytes = 1, .kind = REGISTRY_ADOPTED}, 0, VIP_RC_SUCCESS},
        {{.addr = UINT64_MAX, .bytes = 2, .kind = REGISTRY_ADOPTED}, 0, VIP_RC_INVALID_PARAMETER},
        {{.addr = 1, .bytes = UINT64_MAX, .kind = REGISTRY_ADOPTED}, 0, VIP_RC_INVALID_PARAMETER},
        {{.bytes = VIP_REGION_BYTES_MAX + 1, .kind = REGISTRY_ADOPTED}, 0, VIP_RC_ERROR_RESOURCE},
        {{.bytes = (1 << 30) + 1, .kind = REGISTRY_ADOPTED}, 0, VIP_RC_ERROR_RESOURCE},
        {{.bytes = 1, .kind = REGISTRY_ADOPTED, .offset = VIP_ARENA_BYTES},
         0,
         VIP_RC_INVALID_PARAMETER},
        {{.bytes = 2, .kind = REGISTRY_ADOPTED, .offset = UINT64_MAX}, 0, VIP_RC_INVALID_PARAMETER},
        {{.bytes = 1, .kind = REGISTRY_ADOPTED}, PAGE, VIP_RC_INVALID_PARAMETER},
        {{.bytes = 1, .kind = REGISTRY_SHARED}, 0, VIP_RC_INVALID_PARAMETER},
        {{.bytes = 1, .kind = REGISTRY_STAGED}, 0, VIP_RC_INVALID_PARAMETER},
        {{.bytes = 1, .kind = (enum registry_kind)0}, PAGE, VIP_RC_INVALID_PARAMETER},
        {{.bytes = 1, .kind = (enum registry_kind)77}, PAGE, VIP_RC_INVALID_PARAMETER},
        {{.bytes = PAGE + 1, .kind = REGISTRY_SHARED}, PAGE, VIP_RC_INVALID_PARAMETER},
        {{.bytes = PAGE, .kind = REGISTRY_SHARED, .offset = 1}, PAGE, VIP_RC_INVALID_PARAMETER},
        {{.bytes = 2, .kind = REGISTRY_SHARED, .offset = UINT64_MAX},
         PAGE,
         VIP_RC_INVALID_PARAMETER},
        {{.bytes = 1, .kind = REGISTRY_STAGED}, PAGE, VIP_RC_INVALID_PARAMETER},
        {{.bytes = 1, .kind = REGISTRY_STAGED}, 2 * PAGE + 1, VIP_RC_INVALID_PARAMETER},
        {{.bytes = PAGE + 1, .kind = REGISTRY_STAGED}, 2 * PAGE, VIP_RC_INVALID_PARAMETER},
        {{.bytes = PAGE, .kind = REGISTRY_SHARED}, 1ull << 62, VIP_RC_ERROR_RESOURCE},
    };

    for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        int fd = cases[i].fd_bytes ? memfd(cases[i].fd_bytes, SEALS) : -1;
        uint32_t handle;

        assert_int_equal(add(r, &cases[i].region, fd, &handle), cases[i].rc);
        if (cases[i].rc == VIP_RC_SUCCESS)
            assert_int_equal(registry_remove(r, handle, cases[i].region.addr), VIP_RC_SUCCESS);
    }
    registry_usage(r, &usage);
    assert_int_equal(usage.regions, 0);
    assert_int_equal(usage.bytes, 0);
}

/* Make descriptors that an application might pass instead of a sealed memfd; returns how many. */
static unsigned wrong_fds(int *fds, uint64_t bytes)
{
    unsigned n = 0;
    int pipes[2], fd;
    char path[] = "/dev/shm/vip-test-XXXXXX", ordinary[] = "/tmp/vip-test-XXXXXX", proc[64];

    fds[n++] = memfd(bytes, 0);
    fds[n++] = memfd(bytes, F_SEAL_SHRINK);
    fds[n++] = memfd(bytes, F_SEAL_GROW);
    fds[n++] = memfd(bytes, SEALS | F_SEAL_WRITE);
    fds[n++] = memfd(bytes, SEALS | F_SEAL_FUTURE_WRITE);
    fds[n++] = memfd(0, SEALS);
    fds[n++] = open("/dev/zero", O_RDWR | O_CLOEXEC);
    fds[n++] = open("/", O_RDONLY | O_CLOEXEC);
    assert_int_equal(pipe2(pipes, O_CLOEXEC), 0);
    fds[n++] = pipes[0];
    fds[n++] = pipes[1];
    fd = mkstemp(path);
    if (fd >= 0) {
        unlink(path);
        assert_int_equal(ftruncate(fd, PAGE), 0);
        fds[n++] = fd;
    }
    fds[n++] = fd = mkstemp(ordinary);
    unlink(ordinary);
    assert_int_equal(ftruncate(fd, PAGE), 0);
    /* This file is sealed and has the right size, but the descriptor is read-only. */
    fd = memfd(bytes, SEALS);
    snprintf(proc, sizeof(proc), "/proc/self/fd/%d", fd);
    fds[n++] = open(proc, O_RDONLY | O_CLOEXEC);
    fds[n++] = open(proc, O_PATH | O_CLOEXEC);
    close(fd);
    return n;
}

static void test_wrong_descriptors(void **state)
{
    struct world *world = *state;
    struct registry_region region = {.bytes = 1, .kind = REGISTRY_SHARED};
    struct registry *r;
    int fds[32];
    unsigned n = wrong_fds(fds, 4 * PAGE);
    uint32_t handle;

    for (unsigned i = 0; i < n; i++) {
        assert_true(fds[i] >= 0);
        assert_int_equal(add(world->registry, &region, fds[i], &handle), VIP_RC_INVALID_PARAMETER);
    }
    n = wrong_fds(fds, VIP_ARENA_BYTES);
    fds[n++] = memfd(VIP_ARENA_BYTES - 1, SEALS);
    fds[n++] = memfd(VIP_ARENA_BYTES + PAGE, SEALS);
    for (unsigned i = 0; i < n; i++) {
        assert_int_equal(registry_new(&limits, fds[i], &r), -EBADMSG);
        assert_false(fd_is_open(fds[i]));
    }
    assert_int_equal(registry_new(&limits, -1, &r), -EBADMSG);
}

static void test_hole_punching_gives_zeroes(void **state)
{
    struct world *world = *state;
    struct registry_region region = adopted(0x1000, PAGE, 0);
    uint32_t handle;
    volatile uint8_t *at;

    assert_int_equal(add(world->registry, &region, -1, &handle), VIP_RC_SUCCESS);
    at = access_as(world->registry, ENG_ACCESS_RECV, handle, 0x1000, PAGE);
    at[5] = 1;
    assert_int_equal(fallocate(world->arena, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, PAGE),
                     0);
    assert_int_equal(at[5], 0);
    at[5] = 2;
}

static void count_region(void *ctx, uint32_t handle, const struct registry_region *region)
{
    unsigned *count = ctx;

    assert_int_not_equal(handle, 0);
    assert_int_equal(region->bytes, 10);
    (*count)++;
}

static void test_quotas_at_the_limit(void **state)
{
    struct world *world = *state;
    struct registry *r = world->registry;
    struct registry_region region = adopted(0, 10, 0), rest = adopted(0, (1 << 30) - 999, 0);
    struct registry_usage usage;
    uint32_t handles[100], handle;
    unsigned count = 0;

    for (unsigned i = 0; i < 99; i++)
        assert_int_equal(add(r, &region, -1, &handles[i]), VIP_RC_SUCCESS);
    rest.bytes = (1 << 30) - 989;
    assert_int_equal(add(r, &rest, -1, &handle), VIP_RC_ERROR_RESOURCE);
    rest.bytes = (1 << 30) - 990;
    assert_int_equal(add(r, &rest, -1, &handle), VIP_RC_SUCCESS);
    assert_int_equal(add(r, &region, -1, &handles[99]), VIP_RC_ERROR_RESOURCE);
    assert_int_equal(registry_remove(r, handle, 0), VIP_RC_SUCCESS);
    assert_int_equal(add(r, &region, -1, &handles[99]), VIP_RC_SUCCESS);
    registry_each(r, count_region, &count);
    assert_int_equal(count, 100);
    registry_usage(r, &usage);
    assert_int_equal(usage.regions, 100);
    assert_int_equal(usage.bytes, 1000);
}

static uint64_t address_space_bytes(void)
{
    unsigned long pages = 0;
    FILE *f = fopen("/proc/self/statm", "re");

    assert_non_null(f);
    assert_int_equal(fscanf(f, "%lu", &pages), 1);
    fclose(f);
    return (uint64_t)pages * PAGE;
}

static void test_short_address_space_maps_parts(void **state)
{
    struct rlimit old, small;
    struct registry_region region = adopted(0x10001, 3 * PAGE, 7 * PAGE + 1);
    int arena = memfd(VIP_ARENA_BYTES, SEALS);
    char text[6] = {0};
    struct registry *r;
    uint32_t handle;
    uint8_t *at;

    assert_int_equal(getrlimit(RLIMIT_AS, &old), 0);
    small = old;
    small.rlim_cur = address_space_bytes() + VIP_ARENA_BYTES / 4;
    assert_int_equal(setrlimit(RLIMIT_AS, &small), 0);
    assert_int_equal(registry_new(&limits, dup(arena), &r), 0);
    assert_int_equal(setrlimit(RLIMIT_AS, &old), 0);
    assert_int_equal(add(r, &region, -1, &handle), VIP_RC_SUCCESS);
    at = access_as(r, ENG_ACCESS_RECV, handle, 0x10001 + 3 * PAGE - 5, 5);
    memcpy(at, "hello", 5);
    assert_int_equal(pread(arena, text, 5, 10 * PAGE + 1 - 5), 5);
    assert_string_equal(text, "hello");
    assert_int_equal(registry_remove(r, handle, 0x10001), VIP_RC_SUCCESS);
    assert_int_equal(add(r, &region, -1, &handle), VIP_RC_SUCCESS);
    registry_free(r);
    close(arena);
}

/* A core file must not contain shared memory: bit 1 of the filter (core(5)) is clear, or the
 * mapping has the mark dd. */
static void test_no_part_of_a_core(void **state)
{
    for (unsigned i = 0; i < 2; i++) {
        int fd = memfd(PAGE, SEALS);
        char *map, line[256], flags[256] = "";
        unsigned filter = 0;
        unsigned long from, to;
        FILE *file;
        bool ours = false;

        if (i == 1 && access("/proc/self/coredump_filter", W_OK) == 0)
            memfile_shrink_core();
        else if (i == 1)
            print_message("the filter of this process cannot be set: marks only\n");
        map = memfile_map(fd, PAGE, 0, true);
        assert_non_null(map);
        file = fopen("/proc/self/coredump_filter", "r");
        assert_true(file && fscanf(file, "%x", &filter) == 1);
        fclose(file);
        file = fopen("/proc/self/smaps", "r");
        assert_non_null(file);
        while (fgets(line, sizeof(line), file)) {
            if (sscanf(line, "%lx-%lx", &from, &to) == 2)
                ours = from == (unsigned long)map;
            else if (ours && strncmp(line, "VmFlags:", 8) == 0)
                memcpy(flags, line, sizeof(flags));
        }
        fclose(file);
        assert_true(strlen(flags) > 10);
        assert_true(!(filter & 2) || strstr(flags, " dd "));
        munmap(map, PAGE);
        close(fd);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_no_part_of_a_core),
        cmocka_unit_test_setup_teardown(test_adopted_bytes_are_the_arena, setup, teardown),
        cmocka_unit_test_setup_teardown(test_bounds_are_exact, setup, teardown),
        cmocka_unit_test_setup_teardown(test_bounds_at_the_ends_of_the_address_space, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_handles_nobody_gave_out, setup, teardown),
        cmocka_unit_test_setup_teardown(test_stale_handles_are_refused, setup, teardown),
        cmocka_unit_test_setup_teardown(test_handles_of_an_earlier_life, setup, teardown),
        cmocka_unit_test_setup_teardown(test_tags_of_an_earlier_life, setup, teardown),
        cmocka_unit_test(test_first_handles_are_random),
        cmocka_unit_test(test_two_files_of_one_number),
        cmocka_unit_test(test_generations_wrap),
        cmocka_unit_test_setup_teardown(test_tags_and_rights, setup, teardown),
        cmocka_unit_test_setup_teardown(test_ptag_life, setup, teardown),
        cmocka_unit_test_setup_teardown(test_shared_memory_is_mapped_once, setup, teardown),
        cmocka_unit_test_setup_teardown(test_staged_halves, setup, teardown),
        cmocka_unit_test_setup_teardown(test_bad_regions, setup, teardown),
        cmocka_unit_test_setup_teardown(test_wrong_descriptors, setup, teardown),
        cmocka_unit_test_setup_teardown(test_hole_punching_gives_zeroes, setup, teardown),
        cmocka_unit_test_setup_teardown(test_quotas_at_the_limit, setup, teardown),
        cmocka_unit_test(test_short_address_space_maps_parts),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

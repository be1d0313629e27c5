/*
 * The undertaker's thread frees memory in pieces. The test stops this thread at a gate. Meanwhile
 * the caller goes on, and the waiting memory counts for its user.
 */
#include "vipd/registry/undertaker.h"

#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <cmocka.h>

#include "vipd/registry/registry.h"
#include "vipd/registry/taken.h"

#define PAGE  4096u
#define SEALS (F_SEAL_SHRINK | F_SEAL_GROW)
#define MIB   (1ull << 20)

/* The gate: a munmap of at least GATED_BYTES waits until the gate is open. */
#define GATED_BYTES (8 * MIB)

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t news = PTHREAD_COND_INITIALIZER;
static pthread_t main_thread;
static bool gate_open, at_gate;
static uint64_t largest;       /* size of the largest munmap at the gate */
static unsigned main_unmapped; /* number of munmaps of at least GATED_BYTES in the main thread */
static sigset_t mask;          /* signals that the thread at the gate blocks */

/* This function replaces libc's function in the whole program. */
int munmap(void *base, size_t bytes)
{
    if (pthread_equal(pthread_self(), main_thread)) {
        main_unmapped += bytes >= GATED_BYTES;
    } else if (bytes >= GATED_BYTES) {
        pthread_mutex_lock(&lock);
        pthread_sigmask(SIG_SETMASK, NULL, &mask);
        at_gate = true;
        pthread_cond_broadcast(&news);
        while (!gate_open)
            pthread_cond_wait(&news, &lock);
        if (bytes > largest)
            largest = bytes;
        pthread_mutex_unlock(&lock);
    }
    return (int)syscall(SYS_munmap, base, bytes);
}

static void await_gate(void)
{
    pthread_mutex_lock(&lock);
    while (!at_gate)
        pthread_cond_wait(&news, &lock);
    pthread_mutex_unlock(&lock);
}

static void open_gate(void)
{
    pthread_mutex_lock(&lock);
    gate_open = true;
    pthread_cond_broadcast(&news);
    pthread_mutex_unlock(&lock);
}

static int setup(void **state)
{
    (void)state;
    main_thread = pthread_self();
    gate_open = at_gate = false;
    largest = 0;
    main_unmapped = 0;
    return 0;
}

static int memfd(uint64_t bytes)
{
    int fd = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);

    assert_true(fd >= 0);
    assert_int_equal(ftruncate(fd, (off_t)bytes), 0);
    assert_int_equal(fcntl(fd, F_ADD_SEALS, SEALS), 0);
    return fd;
}

static struct registry *session(struct undertaker *undertaker, uint32_t owner)
{
    struct registry_limits limits = {.regions_max = 10,
                                     .bytes_max = 1ull << 32,
                                     .ptags_max = 4,
                                     .undertaker = undertaker,
                                     .owner = owner};
    struct registry *registry;

    assert_int_equal(registry_new(&limits, memfd(VIP_ARENA_BYTES), &registry), 0);
    return registry;
}

static uint32_t add(struct registry *registry, uint64_t bytes)
{
    struct registry_region region = {.addr = PAGE, .bytes = bytes, .kind = REGISTRY_SHARED};
    uint32_t handle;
    char why[128];

    assert_int_equal(registry_add(registry, &region, memfd(bytes), &handle, why, sizeof(why)),
                     VIP_RC_SUCCESS);
    return handle;
}

static void assert_waits(struct undertaker *undertaker, uint32_t owner, uint64_t bytes,
                         uint32_t files, uint32_t sessions)
{
    struct undertaker_share share;

    undertaker_waiting(undertaker, owner, &share);
    assert_int_equal(share.bytes, bytes);
    assert_int_equal(share.files, files);
    assert_int_equal(share.sessions, sessions);
}

/* The memory of a session with many regions is freed in portions: one call frees at most 8 files
 * for each unit of its budget `ends`. */
static void test_empty_in_portions(void **state)
{
    struct registry_limits limits = {.regions_max = 1000, .bytes_max = 1ull << 32, .ptags_max = 4};
    struct registry_usage usage;
    struct registry *registry;
    unsigned ends = 3;

    (void)state;
    assert_int_equal(registry_new(&limits, memfd(VIP_ARENA_BYTES), &registry), 0);
    for (unsigned i = 0; i < 100; i++)
        (void)add(registry, 4096);
    for (unsigned left = 100; left > 24; left -= 24, ends = 3) {
        assert_false(registry_empty(registry, &ends));
        assert_int_equal(ends, 0);
        registry_usage(registry, &usage);
        assert_int_equal(usage.mapped_files, left - 24);
    }
    assert_true(registry_empty(registry, &ends)); /* 4 files are left */
    assert_int_equal(ends, 2);
    assert_true(registry_empty(registry, &ends));
    assert_true(registry_empty(NULL, &ends));
    assert_int_equal(ends, 2);
    registry_free(registry);
}

/* A session with much memory ends. The caller unmaps nothing; memory counts until it is freed. */
static void test_end_of_a_session(void **state)
{
    struct undertaker *undertaker = undertaker_new();
    struct registry *registry = session(undertaker, 1000);

    (void)state;
    add(registry, 100 * MIB);
    add(registry, 50 * MIB);
    registry_free(registry);
    await_gate();
    assert_int_equal(main_unmapped, 0);
    assert_waits(undertaker, 1000, 150 * MIB, 2, 1);
    assert_waits(undertaker, 1001, 0, 0, 0);
    for (int s = 1; s < 32; s++) /* the thread blocks all of vipd's signals */
        assert_true(s == SIGKILL || s == SIGSTOP || sigismember(&mask, s));
    open_gate();
    undertaker_free(undertaker); /* waits until everything is freed */
    assert_int_equal(main_unmapped, 0);
    assert_true(largest <= UNDERTAKER_EMPTY_PIECE_BYTES);
}

/* A mapping with pages is unmapped in small pieces. */
static void test_pieces(void **state)
{
    struct undertaker *undertaker = undertaker_new();
    char *base = mmap(NULL, 128 * MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    (void)state;
    assert_true(base != MAP_FAILED);
    (void)madvise(base, 128 * MIB, MADV_NOHUGEPAGE); /* fails if the kernel has no huge pages */
    memset(base, 1, 128 * MIB);
    open_gate();
    undertaker_unmap(undertaker, 1, base, 128 * MIB, NULL);
    undertaker_free(undertaker);
    assert_int_equal(largest, UNDERTAKER_PIECE_BYTES);
}

/* If the file of an arena has few pages (no more than a small piece), the arena is unmapped in few
 * large pieces. Otherwise it is unmapped in many pieces, also where it has no pages. */
static void test_sparse(void **state)
{
    for (unsigned i = 0; i < 2; i++) {
        struct undertaker *undertaker = undertaker_new();
        struct taken *taken = taken_new();
        struct registry_limits limits = {.regions_max = 10,
                                         .bytes_max = 1ull << 32,
                                         .ptags_max = 4,
                                         .undertaker = undertaker,
                                         .taken = taken,
                                         .owner = 1000};
        uint64_t pages = UNDERTAKER_PIECE_BYTES + i * PAGE;
        int fd = memfd(VIP_ARENA_BYTES);
        struct registry *registry;

        setup(state);
        open_gate();
        assert_int_equal(fallocate(fd, 0, 100 * MIB, (off_t)pages), 0);
        assert_int_equal(registry_new(&limits, fd, &registry), 0);
        registry_free(registry);
        undertaker_free(undertaker);
        taken_free(taken);
        assert_int_equal(main_unmapped, 0);
        if (i == 0)
            assert_int_equal(largest, UNDERTAKER_SPARSE_PIECE_BYTES);
        else
            assert_true(largest <= UNDERTAKER_EMPTY_PIECE_BYTES);
    }
}

/* Deregistration in a session: a large region waits for the undertaker, a small one does not. */
static void test_deregistration(void **state)
{
    struct undertaker *undertaker = undertaker_new();
    struct registry *registry = session(undertaker, 1000);
    uint32_t large = add(registry, 100 * MIB), small = add(registry, MIB);
    struct registry_usage usage;

    (void)state;
    assert_int_equal(registry_remove(registry, large, PAGE), VIP_RC_SUCCESS);
    assert_int_equal(registry_remove(registry, small, PAGE), VIP_RC_SUCCESS);
    await_gate();
    registry_usage(registry, &usage);
    assert_int_equal(usage.mapped_bytes, 0);
    assert_waits(undertaker, 1000, 100 * MIB, 1, 0);
    open_gate();
    registry_free(registry);
    undertaker_free(undertaker);
    assert_int_equal(main_unmapped, 0);
}

/* The undertaker also closes descriptors. A descriptor may be the last one of its file, or a socket
 * with other descriptors in its queue. */
static void test_descriptors(void **state)
{
    struct undertaker *undertaker = undertaker_new();
    void *base = mmap(NULL, GATED_BYTES, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    int pair[2], ends[UNDERTAKER_FDS_MAX + 1];
    char byte;

    (void)state;
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
    for (unsigned i = 0; i <= UNDERTAKER_FDS_MAX; i++)
        assert_true((ends[i] = dup(pair[0])) >= 0);
    undertaker_unmap(undertaker, 7, base, GATED_BYTES, NULL);
    await_gate();
    close(pair[0]);
    for (unsigned i = 0; i < UNDERTAKER_FDS_MAX; i++) {
        assert_false(undertaker_full(undertaker, 7));
        undertaker_close(undertaker, 7, ends[i]);
    }
    for (unsigned i = 0; i < UNDERTAKER_FDS_MAX; i++)
        assert_true(fcntl(ends[i], F_GETFD) >= 0);
    /* Many descriptors wait: vipd must accept no more, but the caller's thread never closes one. */
    assert_true(undertaker_full(undertaker, 7));
    assert_false(undertaker_full(undertaker, 8));
    undertaker_close(undertaker, 7, ends[UNDERTAKER_FDS_MAX]);
    assert_true(fcntl(ends[UNDERTAKER_FDS_MAX], F_GETFD) >= 0);
    undertaker_close(undertaker, 7, -1);
    open_gate();
    undertaker_free(undertaker);
    assert_int_equal(recv(pair[1], &byte, 1, MSG_DONTWAIT), 0); /* each copy of pair[0] is closed */
    close(pair[1]);
}

/* The kernel release that uname reports to the undertaker. */
static const char *kernel_release = "6.9.0";

/* This function replaces libc's function in the whole program. */
int uname(struct utsname *ret)
{
    memset(ret, 0, sizeof(*ret));
    snprintf(ret->release, sizeof(ret->release), "%s", kernel_release);
    return 0;
}

/* Before Linux 6.9 the close of an empty socket may free descriptors that are in messages of other
 * sockets, and this may block. */
static void test_old_kernels_close_in_the_undertaker(void **state)
{
    static const char *const old[] = {"6.8.12-generic", "5.10.0", "6", ""};
    int pair[2];

    (void)state;
    for (unsigned i = 0; i < sizeof(old) / sizeof(old[0]); i++) {
        struct undertaker *undertaker = undertaker_new();

        kernel_release = old[i];
        assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair), 0);
        assert_true(undertaker_hang_up(undertaker, 7, pair[0]));
        undertaker_free(undertaker);
        assert_int_equal(fcntl(pair[0], F_GETFD), -1);
        close(pair[1]);
    }
    kernel_release = "10.0";
    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair), 0);
    assert_false(undertaker_hang_up(NULL, 7, pair[0]));
    close(pair[1]);
    kernel_release = "6.9.0";
}

/* A socket without messages is closed at once, also if the other side closed without reading. */
static void test_sockets_without_messages_do_not_wait(void **state)
{
    struct undertaker *undertaker = undertaker_new();
    void *base = mmap(NULL, GATED_BYTES, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    int pair[2], gone[2], said[2];
    char byte;

    (void)state;
    undertaker_unmap(undertaker, 7, base, GATED_BYTES, NULL);
    await_gate();
    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair), 0);
    assert_false(undertaker_hang_up(undertaker, 7, pair[0]));
    assert_int_equal(fcntl(pair[0], F_GETFD), -1);
    assert_int_equal(recv(pair[1], &byte, 1, 0), 0);
    close(pair[1]);

    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, gone), 0);
    assert_int_equal(send(gone[0], "a", 1, 0), 1);
    close(gone[1]);
    assert_false(undertaker_hang_up(undertaker, 7, gone[0]));
    assert_int_equal(fcntl(gone[0], F_GETFD), -1);

    /* The socket has a message, perhaps an empty one, after the reset: the undertaker closes it. */
    for (size_t bytes = 0; bytes < 2; bytes++) {
        assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, said), 0);
        assert_int_equal(send(said[0], "a", 1, 0), 1);
        assert_int_equal(send(said[1], "b", bytes, 0), bytes);
        close(said[1]);
        assert_true(undertaker_hang_up(undertaker, 7, said[0]));
        assert_true(fcntl(said[0], F_GETFD) >= 0);
    }
    open_gate();
    undertaker_free(undertaker);
    assert_int_equal(fcntl(said[0], F_GETFD), -1);
}

/* An item of one user may take for ever (a lingering socket). Items of other users are freed. */
static void test_two_owners(void **state)
{
    struct undertaker *undertaker = undertaker_new();
    void *base = mmap(NULL, GATED_BYTES, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    char byte;
    int pair[2];

    (void)state;
    undertaker_unmap(undertaker, 7, base, GATED_BYTES, NULL);
    await_gate();
    for (unsigned i = 0; i < 10; i++) {
        assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
        undertaker_close(undertaker, 8 + i % 3, pair[0]);
        assert_int_equal(recv(pair[1], &byte, 1, 0), 0); /* waits until the other end is closed */
        close(pair[1]);
    }
    open_gate();
    undertaker_free(undertaker);
}

/* Without an undertaker the caller's thread frees the memory. */
static void test_without(void **state)
{
    struct registry *registry = session(NULL, 1000);

    (void)state;
    add(registry, 100 * MIB);
    registry_free(registry);
    assert_true(main_unmapped >= 2); /* the mappings of the region and of the arena */
    assert_waits(NULL, 1000, 0, 0, 0);
    assert_false(undertaker_full(NULL, 1000));
    undertaker_unmap(NULL, 1, NULL, 0, NULL);
    undertaker_free(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_empty_in_portions, setup),
        cmocka_unit_test_setup(test_end_of_a_session, setup),
        cmocka_unit_test_setup(test_pieces, setup),
        cmocka_unit_test_setup(test_sparse, setup),
        cmocka_unit_test_setup(test_deregistration, setup),
        cmocka_unit_test_setup(test_descriptors, setup),
        cmocka_unit_test_setup(test_sockets_without_messages_do_not_wait, setup),
        cmocka_unit_test(test_old_kernels_close_in_the_undertaker),
        cmocka_unit_test_setup(test_two_owners, setup),
        cmocka_unit_test_setup(test_without, setup),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

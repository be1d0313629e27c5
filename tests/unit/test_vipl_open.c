/*
 * VipOpenNic while vipd frees the memory of closed NIC handles: libvipl asks again for 30 s.
 * VipOpenNic while vipd ends: libvipl asks the next vipd, and gives up after 1 s. Without a vipd
 * VipOpenNic fails at once. The test does not wait: it only adds up the pauses of libvipl.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#include <cmocka.h>

#include "libvipl/vipl.h"
#include "libvipl/vipl_ext.h"
#include "unit/fake_vipd.h"

static pthread_t main_thread;
static uint64_t paused_ms;     /* pauses of the main thread, which calls VipOpenNic */
static unsigned connects;      /* number of connects of all threads */
static void (*on_pause)(void); /* called in each pause; NULL: nothing */

/* This function replaces libc's function in the whole program. */
int nanosleep(const struct timespec *pause, struct timespec *rest)
{
    (void)rest;
    if (!pthread_equal(pthread_self(), main_thread))
        return 0;
    paused_ms += (uint64_t)pause->tv_sec * 1000 + (uint64_t)pause->tv_nsec / 1000000;
    if (on_pause != NULL)
        on_pause();
    return 0;
}

int connect(int sock, const struct sockaddr *address, socklen_t len)
{
    __atomic_add_fetch(&connects, 1, __ATOMIC_SEQ_CST);
    return (int)syscall(SYS_connect, sock, address, len);
}

static void begin(void)
{
    paused_ms = connects = 0;
    on_pause = NULL;
}

/* libvipl sends the OpenRequest again on the same connection. */
static void an_open_waits_until_memory_is_freed(void **state)
{
    struct fake fake = {.fault = FAKE_AGAIN, .again = 200};
    VIP_NIC_HANDLE nic = NULL;

    (void)state;
    begin();
    fake_start(&fake);
    assert_int_equal(VipOpenNic("x", &nic), VIP_SUCCESS);
    assert_int_equal(fake.again, 0);
    assert_int_equal(paused_ms, 2000);
    assert_int_equal(VipCloseNic(nic), VIP_SUCCESS);
    fake_stop(&fake);
}

static void an_open_does_not_wait_for_ever(void **state)
{
    struct fake fake = {.fault = FAKE_AGAIN, .again = UINT32_MAX};
    VIP_NIC_HANDLE nic = NULL;

    (void)state;
    begin();
    fake_start(&fake);
    assert_int_equal(VipOpenNic("x", &nic), VIP_ERROR_RESOURCE);
    assert_non_null(strstr(VipxLastError(), "VipOpenNic: memory is still being freed"));
    assert_null(nic);
    assert_int_equal(paused_ms, 30000);
    fake_stop(&fake);
}

/* ---- vipd ends --------------------------------------------------------------------------- */

/* vipd ends once, at each of the requests of VipOpenNic in turn. */
static void an_open_goes_to_the_next_vipd(void **state)
{
    static const unsigned requests[] = {VIP__REQUEST__BODY_MAKE_MEMORY, VIP__REQUEST__BODY_OPEN,
                                        VIP__REQUEST__BODY_DIRECT};

    (void)state;
    for (unsigned i = 0; i < sizeof(requests) / sizeof(requests[0]); i++) {
        struct fake fake = {.fault = FAKE_HANGS_UP,
                            .again = 1,
                            .ends_at = requests[i],
                            .lives = 1,
                            .direct = true,
                            .outlive_ms = 10000};
        VIP_NIC_HANDLE nic = NULL;

        begin();
        fake_start(&fake);
        assert_int_equal(VipOpenNic("x", &nic), VIP_SUCCESS);
        assert_int_equal(fake.again, 0);
        assert_int_equal(connects, 2);
        assert_int_equal(paused_ms, 10);
        assert_int_equal(VipCloseNic(nic), VIP_SUCCESS);
        fake_stop(&fake);
    }
}

static struct fake *hidden; /* the fake whose socket has another name during the first pauses */
static int stale = -1;      /* a socket with the usual name, which does not listen */

/* At first there is no socket, then a socket that refuses, then the socket of the next vipd. */
static void next_comes(void)
{
    if (paused_ms == 20) {
        stale = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
        assert_int_equal(bind(stale, (struct sockaddr *)&hidden->address, sizeof(hidden->address)),
                         0);
    }
    if (paused_ms == 40) {
        close(stale);
        assert_int_equal(rename(fake_hidden(hidden), hidden->address.sun_path), 0);
    }
}

static void an_open_waits_for_the_next_vipd(void **state)
{
    struct fake fake = {.fault = FAKE_HANGS_UP,
                        .again = 1,
                        .ends_at = VIP__REQUEST__BODY_OPEN,
                        .hides = true,
                        .lives = 1};
    VIP_NIC_HANDLE nic = NULL;

    (void)state;
    begin();
    hidden = &fake;
    on_pause = next_comes;
    fake_start(&fake);
    assert_int_equal(VipOpenNic("x", &nic), VIP_SUCCESS);
    assert_int_equal(paused_ms, 40);
    assert_int_equal(connects, 5);
    assert_int_equal(VipCloseNic(nic), VIP_SUCCESS);
    fake_stop(&fake);
}

/* There is no next vipd, or each next vipd ends, too. */
static void an_open_gives_up_without_a_next_vipd(void **state)
{
    static const char *const texts[] = {"is lost: vipd has ended or closed it", "no vipd answers"};

    (void)state;
    for (unsigned i = 0; i < 2; i++) {
        struct fake fake = {.fault = FAKE_HANGS_UP,
                            .again = UINT32_MAX,
                            .ends_at = VIP__REQUEST__BODY_OPEN,
                            .hides = i == 1,
                            .lives = UINT32_MAX};
        VIP_NIC_HANDLE nic = NULL;

        begin();
        fake_start(&fake);
        assert_int_equal(VipOpenNic("x", &nic), VIP_ERROR_RESOURCE);
        assert_non_null(strstr(VipxLastError(), texts[i]));
        assert_null(nic);
        assert_int_equal(paused_ms, 1000);
        assert_int_equal(connects, 101);
        if (i == 1)
            (void)unlink(fake_hidden(&fake));
        fake_stop(&fake);
    }
}

/* There was no vipd: libvipl tries once, without a pause. First there is no socket, then a socket
 * that a killed vipd has left. */
static void an_open_without_vipd_fails_at_once(void **state)
{
    struct fake fake = {0};
    VIP_NIC_HANDLE nic = NULL;

    (void)state;
    fake_listen(&fake);
    close(fake.listener);
    for (unsigned i = 0; i < 2; i++) {
        begin();
        assert_int_equal(VipOpenNic("x", &nic), VIP_ERROR_RESOURCE);
        assert_non_null(strstr(VipxLastError(), "no vipd answers"));
        assert_int_equal(connects, 1);
        assert_int_equal(paused_ms, 0);
        (void)unlink(fake.address.sun_path);
    }
    assert_int_equal(rmdir(fake.dir), 0);
}

/* A vipd that answers has not ended, so its refusal is final. */
static void an_open_that_is_refused_fails_at_once(void **state)
{
    struct fake fake = {.fault = FAKE_REFUSES};
    VIP_NIC_HANDLE nic = NULL;

    (void)state;
    begin();
    fake_start(&fake);
    assert_int_equal(VipOpenNic("x", &nic), VIP_ERROR_RESOURCE);
    assert_int_equal(connects, 1);
    assert_int_equal(paused_ms, 0);
    fake_stop(&fake);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_open_waits_until_memory_is_freed),
        cmocka_unit_test(an_open_does_not_wait_for_ever),
        cmocka_unit_test(an_open_goes_to_the_next_vipd),
        cmocka_unit_test(an_open_waits_for_the_next_vipd),
        cmocka_unit_test(an_open_gives_up_without_a_next_vipd),
        cmocka_unit_test(an_open_without_vipd_fails_at_once),
        cmocka_unit_test(an_open_that_is_refused_fails_at_once),
    };

    setenv("VIPD_AUTOSTART", "0", 1);
    main_thread = pthread_self();
    return cmocka_run_group_tests(tests, NULL, NULL);
}

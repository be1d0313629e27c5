/*
 * A fake vipd for unit tests of libvipl. A thread answers control messages. The test itself writes
 * the vipd-writes segment, so it decides each step of vipd.
 *
 * Owns: the socket in a temporary directory (VIPD_RUNTIME_DIR names it), and one session at a time.
 * Does not own: the answers (fake_vipd_answer.h). Only one source file of a test program includes
 * this file.
 */
#ifndef TESTS_FAKE_VIPD_H
#define TESTS_FAKE_VIPD_H

#include <fcntl.h>
#include <linux/futex.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include "proto/comps.h"
#include "tests/unit/fake_vipd_answer.h"

/* Returns the other name of the fake's socket. With `hides`, fake_hangs_up() renames the socket. */
static inline const char *fake_hidden(const struct fake *fake)
{
    static _Thread_local char path[96];

    snprintf(path, sizeof(path), "%s/hidden", fake->dir);
    return path;
}

/* True if the fake ends the connection instead of answering this request. */
FAKE_ORDERED static bool fake_hangs_up(struct fake *fake, const Vip__Request *request)
{
    if (fake->fault != FAKE_HANGS_UP || fake->again == 0 || request->body_case != fake->ends_at)
        return false;
    fake->again--;
    if (fake->hides)
        assert_int_equal(rename(fake->address.sun_path, fake_hidden(fake)), 0);
    shutdown(fake->control, SHUT_RDWR);
    return true;
}

/* True if the fake answers this request with "ask again" or with "full". */
FAKE_ORDERED static bool fake_not_now(const struct fake *fake, const Vip__Request *request)
{
    return request->body_case == VIP__REQUEST__BODY_OPEN && fake->again > 0 &&
           (fake->fault == FAKE_AGAIN || fake->fault == FAKE_FULL);
}

static void *fake_run(void *arg)
{
    struct fake *fake = arg;

    for (;;) {
        struct vip_fds fds = VIP_FDS_NONE;
        ProtobufCMessage *message = NULL;
        const Vip__Request *request;

        if (vip_control_recv(fake->control, &vip__request__descriptor, 0, &message, &fds) < 0)
            break;
        request = (const Vip__Request *)message;
        if (fake_hangs_up(fake, request))
            ;
        else if (fake_not_now(fake, request))
            fake_again(fake);
        else if (request->body_case == VIP__REQUEST__BODY_OPEN)
            fake_open(fake, request, &fds);
        else if (request->body_case == VIP__REQUEST__BODY_MAKE_MEMORY)
            fake_make_memory(fake, request);
        else
            fake_answer(fake, request, &fds);
        vip_fds_close(&fds);
        protobuf_c_message_free_unpacked(message, NULL);
    }
    return NULL;
}

FAKE_ORDERED static void *fake_accept(void *arg)
{
    struct fake *fake = arg;

    fake->control = accept4(fake->listener, NULL, NULL, SOCK_CLOEXEC);
    for (; fake->lives > 0; fake->lives--) {
        fake_run(fake);
        shutdown(fake->event, SHUT_RDWR);
        close(fake->control);
        fake->control = accept4(fake->listener, NULL, NULL, SOCK_CLOEXEC);
        if (fake->control < 0) /* fake_stop has ended the fake */
            return NULL;
    }
    return fake_run(fake);
}

/* Listen in a new directory. VIPD_RUNTIME_DIR names this directory from now on. */
static void fake_listen(struct fake *fake)
{
    fake->control = fake->event = fake->doorbell = -1;
    snprintf(fake->dir, sizeof(fake->dir), "/tmp/fake-vipd-XXXXXX");
    assert_non_null(mkdtemp(fake->dir));
    setenv("VIPD_RUNTIME_DIR", fake->dir, 1);
    fake->address.sun_family = AF_UNIX;
    snprintf(fake->address.sun_path, sizeof(fake->address.sun_path), "%s/vipd.sock", fake->dir);
    fake->listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(fake->listener, (struct sockaddr *)&fake->address, sizeof(fake->address)),
                     0);
    assert_int_equal(listen(fake->listener, 1), 0);
}

static void fake_unlisten(struct fake *fake)
{
    close(fake->listener);
    unlink(fake->address.sun_path);
    rmdir(fake->dir);
}

/* Start a fake that answers the next VipOpenNic. */
static inline void fake_start(struct fake *fake)
{
    fake_listen(fake);
    assert_int_equal(pthread_create(&fake->thread, NULL, fake_accept, fake), 0);
}

/* Shut down both sockets, as the end of a vipd process does. The control socket comes last, because
 * its end starts the fake's next life. */
FAKE_ORDERED static inline void fake_die(struct fake *fake)
{
    if (fake->event >= 0)
        shutdown(fake->event, SHUT_RDWR);
    shutdown(fake->control, SHUT_RDWR);
}

/* Call this after fake_die(). The next fake vipd then answers the claim of the program. */
static inline void fake_next(struct fake *fake)
{
    pthread_join(fake->thread, NULL);
    close(fake->control);
    close(fake->event);
    close(fake->doorbell);
    fake->control = fake->event = fake->doorbell = -1;
    assert_int_equal(pthread_create(&fake->thread, NULL, fake_accept, fake), 0);
}

/* The control socket has ended: wait until the fake's thread has ended, and free everything. */
static void fake_end(struct fake *fake)
{
    assert_int_equal(pthread_join(fake->thread, NULL), 0);
    close(fake->control);
    if (fake->event >= 0)
        close(fake->event);
    if (fake->doorbell >= 0)
        close(fake->doorbell);
    if (fake->vipd != NULL)
        munmap(fake->vipd, fake->vipd_bytes);
    if (fake->app != NULL)
        munmap(fake->app, VIP_APP_BYTES);
    fake_unlisten(fake);
}

static inline void fake_stop(struct fake *fake)
{
    shutdown(fake->listener, SHUT_RDWR); /* no other vipd follows */
    fake_die(fake);
    fake_end(fake);
}

/* Write the entry of a completion. Returns the count that publishes the entry. */
static __attribute__((unused)) uint32_t fake_comp_write(void *vipd, uint16_t vi,
                                                        enum vip_queue queue, uint32_t position,
                                                        const struct vip_comp *comp)
{
    struct vip_comps_out comps;
    struct vip_comp *to;

    vip_comps_resume(&comps, vipd, vi, queue, position);
    to = vip_comps_slot(&comps, position);
    vip_comp_fill(to, position, comp);
    return vip_comp_stamp(to, position);
}

/* Write a completion as vipd does: the entry, the count, a barrier, the wake-up. */
static __attribute__((unused)) void fake_complete(struct fake *fake, uint16_t vi,
                                                  enum vip_queue queue, uint32_t position,
                                                  const struct vip_comp *comp)
{
    struct vip_vipd_vi *block = vip_vipd_vi(fake->vipd, vi);
    const struct vip_app_head *head = fake->app;
    uint32_t count = fake_comp_write(fake->vipd, vi, queue, position, comp);

    __atomic_store_n(&block->prod[queue], count, __ATOMIC_SEQ_CST);
    if (__atomic_load_n(&head->sleepers, __ATOMIC_SEQ_CST) != 0)
        syscall(SYS_futex, &block->prod[queue], FUTEX_WAKE, 1 << 30, NULL, NULL, 0);
}

/* True if the program has rung the doorbell since the last call. */
static __attribute__((unused)) bool fake_rung(struct fake *fake)
{
    uint64_t count;

    return read(fake->doorbell, &count, sizeof(count)) == sizeof(count);
}

#endif

/* Handing over to the next vipd; see handover.h. */
#include "vipd/handover.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "proto/control.h"
#include "proto/control.pb-c.h"
#include "vipd/fd_store.h"
#include "vipd/host.h"
#include "vipd/log.h"
#include "vipd/runtime.h"
#include "vipd/takeover.h"

/*
 * Longest time, in s, from the request until the next vipd is ready. Until then no other vipd can
 * take over. The next vipd opens its NICs in milliseconds; on a busy machine, in about a second.
 */
#define READY_S 10u

struct handover {
    int sock;  /* socket to the next vipd */
    pid_t pid; /* process of the next vipd */
    struct vipd_watch *watch;
    struct vipd_timer *late; /* fires if the next vipd is not ready in time */
    bool going;              /* this vipd has sent STOPPING */
};

static int say_message(const struct vipd *vipd, Vip__Takeover *message, Vip__Takeover__Step step,
                       int fd)
{
    message->has_step = true;
    message->step = step;
    message->has_draining = message->draining = vipd->draining;
    return vip_control_send(vipd->handover->sock, &message->base, &fd, fd >= 0 ? 1 : 0,
                            MSG_DONTWAIT);
}

static int say(const struct vipd *vipd, Vip__Takeover__Step step, const char *name, int fd)
{
    Vip__Takeover message = VIP__TAKEOVER__INIT;

    message.name = (char *)name;
    return say_message(vipd, &message, step, fd);
}

/* Wait no longer for a message of the next vipd, or for the end of its time. */
static void hush(struct vipd *vipd)
{
    vipd_watch_free(vipd->handover->watch);
    vipd_timer_free(vipd->handover->late);
    vipd->handover->watch = NULL;
    vipd->handover->late = NULL;
}

static void end(struct vipd *vipd)
{
    struct handover *handover = vipd->handover;

    hush(vipd);
    close(handover->sock);
    free(handover);
    vipd->handover = NULL;
}

static void on_word(void *ctx, unsigned events)
{
    struct vipd *vipd = ctx;
    struct handover *handover = vipd->handover;
    ProtobufCMessage *message;
    struct vip_fds fds;
    bool ready;
    int r =
        vip_control_recv(handover->sock, &vip__takeover__descriptor, MSG_DONTWAIT, &message, &fds);

    (void)events;
    if (r == -EAGAIN)
        return;
    ready = r == 0 && ((const Vip__Takeover *)message)->step == VIP__TAKEOVER__STEP__READY;
    if (r == 0) {
        vip_fds_close(&fds);
        protobuf_c_message_free_unpacked(message, NULL);
    }
    if (!ready || say(vipd, VIP__TAKEOVER__STEP__STOPPING, NULL, -1) < 0) {
        vipd_warning("the vipd that was to take over has gone; this one goes on");
        end(vipd);
        return;
    }
    handover->going = true;
    hush(vipd);
    vipd_host_stop(vipd->loop);
}

/*
 * The next vipd is not ready after READY_S. It has the sockets and may become ready later. GAVE_UP
 * tells it not to begin then, even if this vipd has ended.
 */
static void on_late(void *ctx)
{
    struct vipd *vipd = ctx;

    vipd_warning(
        "vipd (pid %ld), which was to take over, is not ready after %u s; this one goes on. "
        "End pid %ld: it keeps sockets of this vipd open",
        (long)vipd->handover->pid, READY_S, (long)vipd->handover->pid);
    (void)say(vipd, VIP__TAKEOVER__STEP__GAVE_UP, NULL, -1);
    end(vipd);
}

/* Why this vipd cannot hand over its sockets; NULL: it can. */
static const char *obstacle(const struct vipd *vipd, uid_t uid)
{
    if (getenv("NOTIFY_SOCKET"))
        return "this vipd is a service of systemd, which would lose sight of the next one: use "
               "vipctl restart (systemctl restart), which keeps the connections, too";
    if (vipd->handover)
        return "another vipd is taking over already";
    if (vipd->config->outlive_ns == 0)
        return "its connections would end: set [reliability] outlive first (vipctl reload); those "
               "of "
               "programs that have a NIC open now end all the same";
    if (uid != geteuid())
        return "it is another user than the next one would be, who could not go on with its "
               "connections";
    if (!vipd->runtime || !vipd->fd_store)
        return "it has no runtime directory";
    return NULL;
}

/* Tell the next vipd that all sockets are sent (ALL), and which NICs have no socket. */
static int send_nics(const struct vipd *vipd)
{
    Vip__Takeover message = VIP__TAKEOVER__INIT;
    char text[VIPD_NICS_MAX][TAKEOVER_NIC_BYTES], *nics[VIPD_NICS_MAX];

    for (unsigned i = 0; i < vipd->nic_count; i++) {
        if (!takeover_nic(vipd->nics[i].config, text[message.n_nics]))
            continue;
        nics[message.n_nics] = text[message.n_nics];
        message.n_nics++;
    }
    message.nics = nics;
    return say_message(vipd, &message, VIP__TAKEOVER__STEP__ALL, -1);
}

static int send_sockets(const struct vipd *vipd)
{
    const struct fd_store *fd_store = vipd->fd_store;
    int r = say(vipd, VIP__TAKEOVER__STEP__SOCKET, TAKEOVER_LOCK, vipd->runtime->lock_fd);

    if (r == 0)
        r = say(vipd, VIP__TAKEOVER__STEP__SOCKET, "programs", vipd->runtime->sock);
    for (unsigned i = 0; r == 0 && i < fd_store->count; i++) {
        char name[FD_STORE_NAME_BYTES];

        if (fd_store->sock[i].open < 0)
            continue;
        fd_store_name(&fd_store->sock[i], name);
        r = say(vipd, VIP__TAKEOVER__STEP__SOCKET, name, fd_store->sock[i].open);
    }
    return r < 0 ? r : send_nics(vipd);
}

int handover_begin(struct vipd *vipd, uid_t uid, pid_t pid, int *ret_sock, char *err,
                   size_t err_bytes)
{
    const char *why = obstacle(vipd, uid);
    struct handover *handover;
    int pair[2], r;

    if (why) {
        snprintf(err, err_bytes, "the vipd that runs (pid %ld) cannot be taken over: %s",
                 (long)getpid(), why);
        return -EPERM;
    }
    handover = calloc(1, sizeof(*handover));
    r = handover ? 0 : -ENOMEM;
    if (r == 0 && socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
        r = -errno;
    if (r < 0) {
        free(handover);
        snprintf(err, err_bytes, "%s", strerror(-r));
        return r;
    }
    handover->sock = pair[0];
    handover->pid = pid;
    vipd->handover = handover;
    r = send_sockets(vipd);
    if (r == 0) {
        handover->watch = vipd_watch_new(vipd->loop, handover->sock, VIPD_READ, on_word, vipd);
        handover->late = vipd_timer_new(vipd->loop, on_late, vipd);
        r = handover->watch && handover->late ? 0 : -ENOMEM;
    }
    if (r < 0) {
        end(vipd);
        close(pair[1]);
        snprintf(err, err_bytes, "the sockets cannot be handed over: %s", strerror(-r));
        return r;
    }
    vipd_timer_start(handover->late, READY_S * 1000000000ull);
    *ret_sock = pair[1];
    return 0;
}

bool handover_begun(const struct vipd *vipd)
{
    return vipd->handover != NULL;
}

void handover_stop(struct vipd *vipd)
{
    struct handover *handover = vipd->handover;

    if (!handover)
        return;
    hush(vipd);
    if (!handover->going)
        handover->going = say(vipd, VIP__TAKEOVER__STEP__STOPPING, NULL, -1) == 0;
}

void handover_go(struct vipd *vipd)
{
    if (!vipd->handover)
        return;
    if (vipd->handover->going && say(vipd, VIP__TAKEOVER__STEP__GO, NULL, -1) == -EPIPE)
        vipd_error(
            "the vipd that was to take over has gone; start one within [reliability] outlive");
    end(vipd);
}

/*
 * Accepting clients, also when no file descriptor is left. Without a free descriptor, accept fails,
 * but the listening socket stays readable. A loop that only tries again would use a whole
 * processor. So vipd keeps a spare descriptor, with which it accepts and closes one connection.
 * Then vipd accepts nothing for PAUSE_NS, so that clients can end.
 */
#include "vipd/client/client.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "vipd/client/internal.h"

/*
 * Limit of the cost of accepting in one look at the descriptors, before the NICs take turns again.
 * A connection that vipd refuses, because its user has too many, costs 1 (some microseconds). A
 * connection that vipd serves costs TAKEN_COST. Many refused connections must fit into one look,
 * because connections of other users wait behind them in the queue.
 */
#define ACCEPT_COST_MAX 64u
#define TAKEN_COST      4u

#define PAUSE_NS 100000000u /* pause in ns after descriptors ran out */
/*
 * Pause in ns after a refused connection whose socket must wait for the undertaker, if many
 * descriptors of the user wait there already. The pause bounds the rate of such sockets. It must be
 * short, because it delays all users: vipd learns the user of a connection only after accept. A
 * socket without messages is closed at once and causes no pause.
 */
#define REFUSED_PAUSE_NS 1000000u

struct client_listener {
    struct vipd *vipd;
    int sock;    /* the listening socket; the caller closes it */
    int reserve; /* spare descriptor, which vipd closes so that accept can succeed; -1: none */
    struct vipd_watch *watch;
    struct vipd_timer *resume;
};

static void on_resume(void *ctx)
{
    struct client_listener *listener = ctx;

    if (listener->reserve < 0)
        listener->reserve = open("/dev/null", O_RDONLY | O_CLOEXEC);
    vipd_watch_set(listener->watch, VIPD_READ);
}

static void pause_accepting(struct client_listener *listener, int error)
{
    struct vipd *vipd = listener->vipd;
    int sock;

    vipd->counters.accept_paused++;
    vipd_log_limited(&vipd->client_log, vipd_loop_now(vipd->loop), VIPD_LOG_ERROR,
                     "no client can be accepted for a moment: %s; raise LimitNOFILE= of the "
                     "service or 'ulimit -n'",
                     strerror(error));
    if (listener->reserve >= 0) {
        close(listener->reserve);
        sock = accept4(listener->sock, NULL, NULL, SOCK_CLOEXEC);
        if (sock >= 0) { /* tell the program the reason, so that it does not wait for ever */
            client_refuse(sock,
                          "vipd has no file descriptor left (%s): raise LimitNOFILE= of the "
                          "service or 'ulimit -n'",
                          strerror(error));
            client_hang_up(vipd, sock);
        }
        listener->reserve = open("/dev/null", O_RDONLY | O_CLOEXEC);
    }
    vipd_watch_set(listener->watch, 0);
    vipd_timer_start(listener->resume, PAUSE_NS);
}

static void on_listen(void *ctx, unsigned events)
{
    struct client_listener *listener = ctx;

    (void)events;
    for (unsigned cost = 0; cost < ACCEPT_COST_MAX;) {
        int sock = accept4(listener->sock, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
        int r;

        if (sock < 0) {
            if (errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS)
                pause_accepting(listener, errno);
            return; /* no connection waits, or the connection has ended already */
        }
        r = client_new(listener->vipd, sock);
        if (r == -EBUSY) {
            vipd_watch_set(listener->watch, 0);
            vipd_timer_start(listener->resume, REFUSED_PAUSE_NS);
            return;
        }
        if (r == -ENOMEM || r == -EMFILE || r == -ENFILE) {
            pause_accepting(listener, -r);
            return;
        }
        cost += r == -EDQUOT ? 1 : TAKEN_COST;
    }
}

int client_listen(struct vipd *vipd, int sock, struct client_listener **ret)
{
    struct client_listener *listener = calloc(1, sizeof(*listener));
    int r = -ENOMEM;

    if (!listener)
        return -ENOMEM;
    listener->vipd = vipd;
    listener->sock = sock;
    listener->reserve = open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (listener->reserve < 0) {
        r = -errno;
        goto fail;
    }
    listener->resume = vipd_timer_new(vipd->loop, on_resume, listener);
    if (!listener->resume)
        goto fail;
    listener->watch = vipd_watch_new(vipd->loop, sock, VIPD_READ, on_listen, listener);
    if (!listener->watch)
        goto fail;
    *ret = listener;
    return 0;
fail:
    client_listener_free(listener);
    return r;
}

void client_listener_free(struct client_listener *listener)
{
    if (!listener)
        return;
    vipd_watch_free(listener->watch);
    vipd_timer_free(listener->resume);
    if (listener->reserve >= 0)
        close(listener->reserve);
    free(listener);
}

/* Taking over from the vipd that runs; see takeover.h. */
#include "vipd/takeover.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <unistd.h>

#include "proto/control.h"
#include "proto/control.pb-c.h"
#include "proto/status.h"
#include "vipd/log.h"
#include "vipd/loop.h"

#define ANSWER_NS     1000000000u /* longest wait for an answer of the running vipd */
#define SLOW_NS       1000000000u /* after this the log says that the running vipd stops slowly */
#define SLOW_AGAIN_NS 10000000000ull /* after this the log says it again */

static int send_step(int sock, Vip__Takeover__Step step)
{
    Vip__Takeover message = VIP__TAKEOVER__INIT;

    message.has_step = true;
    message.step = step;
    return vip_control_send(sock, &message.base, NULL, 0, 0);
}

/* ---- asking ------------------------------------------------------------------------------ */

/* Limit each wait for an answer, because the running vipd may stand still. */
static void limit_waits(int sock)
{
    struct timeval limit = {.tv_sec = ANSWER_NS / 1000000000u};

    setsockopt(sock, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
    setsockopt(sock, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
}

/* Why the running vipd has not answered. */
static const char *no_answer(int r)
{
    return r == -EAGAIN ? "it does not answer within 1 s" : strerror(-r);
}

/* Ask the running vipd for one end of a socket pair. */
static int ask(int control, uid_t user, struct takeover *ret, char *err, size_t err_bytes)
{
    Vip__TakeoverRequest takeover = VIP__TAKEOVER_REQUEST__INIT;
    Vip__Request request = VIP__REQUEST__INIT;
    ProtobufCMessage *message = NULL;
    const Vip__Reply *reply;
    struct vip_fds fds;
    int r;

    takeover.has_uid = true;
    takeover.uid = user;
    request.body_case = VIP__REQUEST__BODY_TAKEOVER;
    request.takeover = &takeover;
    r = vip_control_ask(control, &request.base, NULL, 0, &vip__reply__descriptor, &message, &fds);
    reply = (const Vip__Reply *)message;
    if (r < 0) {
        snprintf(err, err_bytes, "the vipd that runs cannot be asked: %s", no_answer(r));
        return r;
    }
    if (reply->code == VIP_RC_SUCCESS && fds.count == 1) {
        ret->sock = fds.fd[0];
        fds.fd[0] = -1;
    } else {
        snprintf(err, err_bytes, "%s",
                 reply->reason ? reply->reason : "the answer of the vipd that runs makes no sense");
        r = -EPERM;
    }
    vip_fds_close(&fds);
    protobuf_c_message_free_unpacked(message, NULL);
    return r;
}

/* Take one socket. false: this vipd cannot use it. */
static bool take(const Vip__Takeover *message, int fd, struct fd_store *fd_store,
                 struct takeover *ret)
{
    if (!message->name)
        return false;
    if (strcmp(message->name, TAKEOVER_LOCK) != 0)
        return fd_store_take(fd_store, message->name, fd);
    if (ret->lock_fd >= 0)
        return false;
    ret->lock_fd = fd;
    return true;
}

/* Keep the running vipd's list of NICs without a socket. false: no memory, or too many NICs. */
static bool take_nics(const Vip__Takeover *message, struct takeover *ret)
{
    if (message->n_nics > VIPD_NICS_MAX)
        return false;
    for (size_t i = 0; i < message->n_nics; i++) {
        ret->nics[i] = strdup(message->nics[i]);
        if (!ret->nics[i])
            return false;
        ret->nic_count++;
    }
    return true;
}

/* Receive the sockets. Outcomes: 0; a negative errno. */
static int take_all(struct fd_store *fd_store, struct takeover *ret)
{
    for (;;) {
        ProtobufCMessage *message;
        const Vip__Takeover *takeover;
        struct vip_fds fds;
        bool good = false, all;
        int r = vip_control_recv(ret->sock, &vip__takeover__descriptor, 0, &message, &fds);

        if (r < 0)
            return r;
        takeover = (const Vip__Takeover *)message;
        all = takeover->step == VIP__TAKEOVER__STEP__ALL;
        ret->draining = takeover->draining;
        if (takeover->step == VIP__TAKEOVER__STEP__SOCKET && fds.count == 1) {
            good = take(takeover, fds.fd[0], fd_store, ret);
            if (good)
                fds.fd[0] = -1;
        } else if (all) {
            good = take_nics(takeover, ret);
        }
        vip_fds_close(&fds);
        protobuf_c_message_free_unpacked(message, NULL);
        if (!good)
            return -EBADMSG;
        if (all)
            return ret->lock_fd >= 0 && fd_store->listener >= 0 ? 0 : -EBADMSG;
    }
}

/* Find the process of the running vipd, which made the socket pair. Outcomes: 0; negative errno. */
static int find_peer(struct takeover *ret)
{
    struct ucred peer;
    socklen_t len = sizeof(peer);

    if (getsockopt(ret->sock, SOL_SOCKET, SO_PEERCRED, &peer, &len) < 0)
        return -errno;
    ret->pid = peer.pid;
    ret->pidfd = (int)syscall(SYS_pidfd_open, peer.pid, 0);
    return ret->pidfd < 0 ? -errno : 0;
}

int takeover_ask(const char *dir, uid_t user, struct fd_store *fd_store, struct takeover *ret,
                 char *err, size_t err_bytes)
{
    char path[128];
    int control, r;

    *ret = (struct takeover){.sock = -1, .pidfd = -1, .lock_fd = -1};
    if (snprintf(path, sizeof(path), "%s/vipd.sock", dir) >= (int)sizeof(path))
        path[0] = '\0'; /* dir is too long for a socket's path */
    control = vip_control_connect(path);
    if (control < 0) {
        snprintf(err, err_bytes,
                 "--takeover: no vipd runs in %.200s (%s); start this one without --takeover", dir,
                 strerror(-control));
        return control;
    }
    limit_waits(control);
    r = ask(control, user, ret, err, err_bytes);
    close(control);
    if (r < 0)
        return r;
    limit_waits(ret->sock);
    r = find_peer(ret);
    if (r == 0)
        r = take_all(fd_store, ret);
    if (r < 0)
        snprintf(err, err_bytes, "the vipd that runs (pid %ld) does not hand over its sockets: %s",
                 (long)ret->pid, no_answer(r));
    fd_store->in_use = true;
    return r;
}

bool takeover_nic(const struct vipd_nic_config *nic, char ret[TAKEOVER_NIC_BYTES])
{
    const struct link_kind_row *row = link_kind_row(nic->link);
    const char *words;

    if (row->keeps_socket)
        return false;
    words = nic->keys.paths[0] ? nic->keys.paths : nic->keys.interface;
    snprintf(ret, TAKEOVER_NIC_BYTES, "%s %s%s%s", nic->name, row->name, words[0] ? " " : "",
             words);
    return true;
}

const char *takeover_missing(const struct takeover *takeover, const struct vipd_config *config)
{
    char own[TAKEOVER_NIC_BYTES];

    for (unsigned i = 0; i < takeover->nic_count; i++) {
        bool there = false;

        for (unsigned k = 0; k < config->nic_count; k++)
            there |= takeover_nic(&config->nics[k], own) && strcmp(own, takeover->nics[i]) == 0;
        if (!there)
            return takeover->nics[i];
    }
    return NULL;
}

void takeover_free(struct takeover *takeover)
{
    for (; takeover->nic_count > 0; takeover->nic_count--)
        free(takeover->nics[takeover->nic_count - 1]);
    if (takeover->sock >= 0)
        close(takeover->sock);
    if (takeover->pidfd >= 0)
        close(takeover->pidfd);
    takeover->sock = takeover->pidfd = -1; /* struct runtime owns lock_fd */
}

/* ---- its end ----------------------------------------------------------------------------- */

/* Which messages have come from the running vipd. */
struct word {
    bool stopping; /* STOPPING: the running vipd ends in any case */
    bool go;       /* GO: the running vipd has closed its NICs */
    bool gave_up;  /* GAVE_UP: this vipd was not ready in time */
    bool over;     /* no more messages come */
};

/* Receive a message, if there is one. */
static void hear(struct takeover *takeover, struct word *word)
{
    ProtobufCMessage *message;
    const Vip__Takeover *heard;
    struct vip_fds fds;
    int r =
        vip_control_recv(takeover->sock, &vip__takeover__descriptor, MSG_DONTWAIT, &message, &fds);

    if (r < 0) {
        word->over = r != -EAGAIN;
        return;
    }
    heard = (const Vip__Takeover *)message;
    word->stopping |= heard->step == VIP__TAKEOVER__STEP__STOPPING;
    word->go = heard->step == VIP__TAKEOVER__STEP__GO;
    word->gave_up |= heard->step == VIP__TAKEOVER__STEP__GAVE_UP;
    takeover->draining = heard->draining;
    vip_fds_close(&fds);
    protobuf_c_message_free_unpacked(message, NULL);
}

/* Milliseconds until due_ns. */
static int rest_ms(uint64_t due_ns)
{
    uint64_t now_ns = vipd_clock_now();

    return now_ns >= due_ns ? 0 : (int)((due_ns - now_ns) / 1000000) + 1;
}

/*
 * Wait until a message comes, the running vipd dies, or due_ns is over; receive the message.
 * Returns whether the running vipd has died.
 */
static bool await_word(struct takeover *takeover, uint64_t due_ns, struct word *word)
{
    struct pollfd look[2] = {{.fd = takeover->pidfd, .events = POLLIN},
                             {.fd = word->over ? -1 : takeover->sock, .events = POLLIN}};
    int n = poll(look, 2, rest_ms(due_ns));

    if (n > 0 && look[1].revents)
        hear(takeover, word);
    return n > 0 && look[0].revents;
}

int takeover_finish(struct takeover *takeover, char *err, size_t err_bytes)
{
    uint64_t due_ns = vipd_clock_now() + ANSWER_NS; /* first STOPPING is due, later a log line */
    bool stopping = false;
    struct word word = {0};

    (void)send_step(takeover->sock, VIP__TAKEOVER__STEP__READY); /* fails if that vipd is dead */
    while (!word.gave_up) {
        bool died = await_word(takeover, due_ns, &word);

        if (word.go || (died && !word.gave_up))
            return 0;
        if (word.stopping && !stopping) {
            stopping = true;
            due_ns = vipd_clock_now() + SLOW_NS;
        }
        if (rest_ms(due_ns) != 0)
            continue;
        if (stopping) {
            vipd_warning("vipd (pid %ld) has begun to stop, and has not ended yet: this one waits. "
                         "SIGKILL ends it, and the connections go on all the same",
                         (long)takeover->pid);
            due_ns = vipd_clock_now() + SLOW_AGAIN_NS;
            continue;
        }
        /* After this the running vipd cannot send. A message that it sent earlier still counts. */
        (void)shutdown(takeover->sock, SHUT_RD);
        hear(takeover, &word);
        if (!word.stopping)
            break;
    }
    if (word.gave_up)
        snprintf(err, err_bytes,
                 "the vipd that ran (pid %ld) has given this one up, because it was not ready in "
                 "time",
                 (long)takeover->pid);
    else
        snprintf(err, err_bytes,
                 "the vipd that runs (pid %ld) has not begun to stop within 1 s, and goes on",
                 (long)takeover->pid);
    return -ETIMEDOUT;
}

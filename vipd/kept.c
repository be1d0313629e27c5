/* Sockets that the service manager keeps; see kept.h. */
#include "vipd/kept.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <systemd/sd-daemon.h>
#include <unistd.h>

#define PREFIX "nic-" /* prefix of the names in the store */

static bool add(struct kept *kept, const char *name, int fd)
{
    struct kept_sock *sock;

    if (strncmp(name, PREFIX, strlen(PREFIX)) != 0 ||
        sd_is_socket(fd, AF_UNSPEC, SOCK_DGRAM, -1) <= 0)
        return false;
    sock = kept_of(kept, name + strlen(PREFIX));
    if (!sock)
        return false;
    if (sock->fd >= 0) /* stored twice: keep one */
        close(sock->fd);
    sock->fd = fd;
    sock->stored = true;
    return true;
}

static bool take(struct kept *kept, const char *name, int fd)
{
    int flags = fcntl(fd, F_GETFL);

    if (flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) < 0)
        return false;
    if (kept->listener < 0 && sd_is_socket_unix(fd, SOCK_SEQPACKET, 1, NULL, 0) > 0) {
        kept->listener = fd;
        return true;
    }
    return add(kept, name, fd);
}

/* Close the descriptors taken before the bad one. */
static void close_all(const struct kept *kept)
{
    if (kept->listener >= 0)
        close(kept->listener);
    for (unsigned i = 0; i < kept->count; i++)
        if (kept->sock[i].fd >= 0)
            close(kept->sock[i].fd);
}

int kept_inherit(struct kept *ret, char *err, size_t err_bytes)
{
    char **names = NULL;
    int count, r = 0;

    *ret = (struct kept){.listener = -1};
    count = sd_listen_fds_with_names(1, &names);
    for (int i = 0; i < count; i++) {
        if (r == 0 && !take(ret, names[i], SD_LISTEN_FDS_START + i)) {
            snprintf(err, err_bytes,
                     "the service manager passes a descriptor named '%.60s' that vipd cannot use: "
                     "ListenSequentialPacket= in the .socket unit gives one listening SEQPACKET "
                     "socket; others come from the descriptor store of vipd's own unit",
                     names[i]);
            r = -EINVAL;
        }
        if (r < 0)
            close(SD_LISTEN_FDS_START + i);
        free(names[i]);
    }
    free(names);
    if (r < 0) {
        close_all(ret);
        *ret = (struct kept){.listener = -1};
    }
    return r;
}

struct kept_sock *kept_of(struct kept *kept, const char *nic)
{
    struct kept_sock *sock;

    for (unsigned i = 0; i < kept->count; i++)
        if (strcmp(kept->sock[i].nic, nic) == 0)
            return &kept->sock[i];
    if (kept->count == sizeof(kept->sock) / sizeof(kept->sock[0]) ||
        strlen(nic) >= sizeof(kept->sock[0].nic))
        return NULL;
    sock = &kept->sock[kept->count++];
    snprintf(sock->nic, sizeof(sock->nic), "%s", nic);
    sock->fd = -1;
    sock->stored = false;
    return sock;
}

static void forget(struct kept_sock *sock)
{
    if (sock->fd >= 0)
        close(sock->fd);
    if (sock->stored)
        (void)sd_notifyf(0, "FDSTOREREMOVE=1\nFDNAME=" PREFIX "%s", sock->nic);
    sock->fd = -1;
    sock->stored = false;
}

void kept_opened(void *ctx, int sock)
{
    struct kept_sock *kept = ctx;
    char text[64 + VIP_NIC_NAME_BYTES];

    forget(kept);
    /* FDPOLL=0: systemd must not drop the socket because an ICMP error waits at it. */
    snprintf(text, sizeof(text), "FDSTORE=1\nFDPOLL=0\nFDNAME=" PREFIX "%s", kept->nic);
    kept->stored = sd_pid_notify_with_fds(0, 0, text, &sock, 1) > 0;
}

void kept_forget_rest(struct kept *kept)
{
    for (unsigned i = 0; i < kept->count; i++)
        if (kept->sock[i].fd >= 0)
            forget(&kept->sock[i]);
}

/* Sockets that the service manager keeps; see fd_store.h. */
#include "vipd/fd_store.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <systemd/sd-daemon.h>
#include <unistd.h>

#define PREFIX "nic-" /* prefix of the names in the store */

static uint64_t inode_of(int fd)
{
    struct stat st;

    return fstat(fd, &st) < 0 ? 0 : (uint64_t)st.st_ino;
}

/* The entry of this name, such as "vip0" or, for its second path, "vip0+2". */
static struct fd_store_sock *entry(struct fd_store *fd_store, const char *name)
{
    struct fd_store_sock *sock;

    for (unsigned i = 0; i < fd_store->count; i++)
        if (strcmp(fd_store->sock[i].nic, name) == 0)
            return &fd_store->sock[i];
    if (fd_store->count == sizeof(fd_store->sock) / sizeof(fd_store->sock[0]) ||
        strlen(name) >= sizeof(fd_store->sock[0].nic))
        return NULL;
    sock = &fd_store->sock[fd_store->count++];
    snprintf(sock->nic, sizeof(sock->nic), "%s", name);
    sock->fd = sock->open = -1;
    sock->inode = 0;
    sock->used = sock->stored = false;
    return sock;
}

/* A NIC's name has no plus sign. */
static void name_path(const char *nic, unsigned path, char ret[FD_STORE_NIC_BYTES])
{
    int used = snprintf(ret, FD_STORE_NIC_BYTES, "%s", nic);

    if (path > 0 && used > 0 && used < FD_STORE_NIC_BYTES)
        snprintf(ret + used, FD_STORE_NIC_BYTES - (size_t)used, "+%u", path + 1);
}

struct fd_store_sock *fd_store_of(struct fd_store *fd_store, const char *nic, unsigned path)
{
    char name[FD_STORE_NIC_BYTES];

    name_path(nic, path, name);
    return entry(fd_store, name);
}

bool fd_store_is_of(const struct fd_store_sock *sock, const char *nic, unsigned paths)
{
    char name[FD_STORE_NIC_BYTES];
    bool same = false;

    for (unsigned path = 0; path < paths && !same; path++) {
        name_path(nic, path, name);
        same = strcmp(sock->nic, name) == 0;
    }
    return same;
}

static bool add(struct fd_store *fd_store, const char *name, int fd)
{
    struct fd_store_sock *sock;

    if (strncmp(name, PREFIX, strlen(PREFIX)) != 0 ||
        sd_is_socket(fd, AF_UNSPEC, SOCK_DGRAM, -1) <= 0)
        return false;
    sock = entry(fd_store, name + strlen(PREFIX));
    if (!sock)
        return false;
    if (sock->fd >= 0) /* stored twice: keep one */
        close(sock->fd);
    sock->fd = fd;
    sock->inode = inode_of(fd);
    sock->stored = true;
    return true;
}

bool fd_store_take(struct fd_store *fd_store, const char *name, int fd)
{
    int flags = fcntl(fd, F_GETFL);

    if (flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) < 0)
        return false;
    if (fd_store->listener < 0 && sd_is_socket_unix(fd, SOCK_SEQPACKET, 1, NULL, 0) > 0) {
        fd_store->listener = fd;
        return true;
    }
    return add(fd_store, name, fd);
}

void fd_store_init(struct fd_store *ret)
{
    *ret = (struct fd_store){.listener = -1};
}

void fd_store_name(const struct fd_store_sock *sock, char ret[FD_STORE_NAME_BYTES])
{
    snprintf(ret, FD_STORE_NAME_BYTES, PREFIX "%s", sock->nic);
}

/* Close the descriptors taken before the bad one. */
static void close_all(const struct fd_store *fd_store)
{
    if (fd_store->listener >= 0)
        close(fd_store->listener);
    for (unsigned i = 0; i < fd_store->count; i++)
        if (fd_store->sock[i].fd >= 0)
            close(fd_store->sock[i].fd);
}

int fd_store_inherit(struct fd_store *ret, char *err, size_t err_bytes)
{
    char **names = NULL;
    int count, r = 0;

    fd_store_init(ret);
    count = sd_listen_fds_with_names(1, &names);
    for (int i = 0; i < count; i++) {
        if (r == 0 && !fd_store_take(ret, names[i], SD_LISTEN_FDS_START + i)) {
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
        fd_store_init(ret);
    }
    return r;
}

static void forget(struct fd_store_sock *sock)
{
    if (sock->fd >= 0)
        close(sock->fd);
    if (sock->stored)
        (void)sd_notifyf(0, "FDSTOREREMOVE=1\nFDNAME=" PREFIX "%s", sock->nic);
    sock->fd = -1;
    sock->stored = false;
}

void fd_store_opened(void *ctx, int sock)
{
    struct fd_store_sock *fd_store = ctx;
    char text[64 + FD_STORE_NIC_BYTES];

    fd_store->open = sock;
    if (sock < 0)
        return;
    if (fd_store->inode != 0 && inode_of(sock) == fd_store->inode) {
        fd_store->used = true;
        if (fd_store->stored)
            return; /* it is there: no moment without it */
    }
    forget(fd_store);
    /* FDPOLL=0: systemd must not drop the socket because an ICMP error waits at it. */
    snprintf(text, sizeof(text), "FDSTORE=1\nFDPOLL=0\nFDNAME=" PREFIX "%s", fd_store->nic);
    fd_store->stored = sd_pid_notify_with_fds(0, 0, text, &sock, 1) > 0;
}

const struct fd_store_sock *fd_store_unused(const struct fd_store *fd_store)
{
    for (unsigned i = 0; i < fd_store->count; i++)
        if (fd_store->sock[i].inode != 0 && !fd_store->sock[i].used)
            return &fd_store->sock[i];
    return NULL;
}

void fd_store_forget_rest(struct fd_store *fd_store)
{
    for (unsigned i = 0; i < fd_store->count; i++)
        if (fd_store->sock[i].fd >= 0)
            forget(&fd_store->sock[i]);
}

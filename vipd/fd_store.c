/* Sockets that the service manager keeps; see fd_store.h. */
#include "vipd/fd_store.h"

#include <errno.h>
#include <fcntl.h>
#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <systemd/sd-daemon.h>
#include <unistd.h>

#include "vipd/log.h"

#define PREFIX    "nic-"    /* prefix of each stored socket's name */
#define UNIT_TAIL ".socket" /* suffix of a socket unit's name */

/* Most passed descriptors that fill_holes checks. The units let systemd keep far fewer. */
#define HOLES_MAX 1024

static uint64_t inode_of(int fd)
{
    struct stat st;

    return fstat(fd, &st) < 0 ? 0 : (uint64_t)st.st_ino;
}

/* Find or add the entry with this name ("vip0"). NULL: the table is full, or the name too long. */
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

/* Make the name of an entry: "vip0", for the second path "vip0+2". NIC names have no plus sign. */
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

/* Is fd a UDP socket, which a link may be able to use? The link itself checks the address. */
static bool is_udp(int fd)
{
    int protocol = 0;
    socklen_t len = sizeof(protocol);

    return (sd_is_socket(fd, AF_INET, SOCK_DGRAM, -1) > 0 ||
            sd_is_socket(fd, AF_INET6, SOCK_DGRAM, -1) > 0) &&
           getsockopt(fd, SOL_SOCKET, SO_PROTOCOL, &protocol, &len) == 0 && protocol == IPPROTO_UDP;
}

static bool is_of_nic(const char *name)
{
    return strncmp(name, PREFIX, strlen(PREFIX)) == 0;
}

/* Add a NIC's socket. Outcomes: NULL; else the reason why vipd cannot use fd. */
static const char *add(struct fd_store *fd_store, const char *nic, int fd)
{
    struct fd_store_sock *sock;

    if (!is_udp(fd))
        return "it is no UDP socket";
    sock = entry(fd_store, nic);
    if (!sock)
        return "no NIC has such a name, or there are too many";
    if (sock->fd >= 0)
        return "there is another one of this name";
    sock->fd = fd;
    sock->inode = inode_of(fd);
    sock->stored = true;
    return NULL;
}

/* Take over one descriptor. Outcomes: NULL; else the reason why vipd cannot use fd. */
static const char *take(struct fd_store *fd_store, const char *name, int fd)
{
    int flags = fcntl(fd, F_GETFL);

    if (flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) < 0)
        return "it is not open";
    if (is_of_nic(name))
        return add(fd_store, name + strlen(PREFIX), fd);
    if (sd_is_socket_unix(fd, SOCK_SEQPACKET, 1, NULL, 0) <= 0)
        return "it is neither a socket of a NIC nor a listening SEQPACKET socket";
    if (fd_store->listener >= 0)
        return "vipd listens on one socket";
    fd_store->listener = fd;
    return NULL;
}

bool fd_store_take(struct fd_store *fd_store, const char *name, int fd)
{
    return take(fd_store, name, fd) == NULL;
}

void fd_store_init(struct fd_store *ret)
{
    *ret = (struct fd_store){.listener = -1};
}

void fd_store_name(const struct fd_store_sock *sock, char ret[FD_STORE_NAME_BYTES])
{
    snprintf(ret, FD_STORE_NAME_BYTES, PREFIX "%s", sock->nic);
}

/* Close the descriptors that fd_store holds. */
static void close_all(const struct fd_store *fd_store)
{
    if (fd_store->listener >= 0)
        close(fd_store->listener);
    for (unsigned i = 0; i < fd_store->count; i++)
        if (fd_store->sock[i].fd >= 0)
            close(fd_store->sock[i].fd);
}

/* If a passed descriptor is closed, libsystemd passes none. So open /dev/null under its number. */
static void fill_holes(void)
{
    const char *text = getenv("LISTEN_FDS");
    unsigned long count = text ? strtoul(text, NULL, 10) : 0;

    for (int i = 0; i < HOLES_MAX && (unsigned long)i < count; i++) {
        int fd = SD_LISTEN_FDS_START + i, hole;

        if (fcntl(fd, F_GETFD) >= 0)
            continue;
        hole = open("/dev/null", O_RDONLY | O_CLOEXEC);
        if (hole >= 0 && hole != fd) {
            (void)dup3(hole, fd, O_CLOEXEC);
            close(hole);
        }
    }
}

static void remove_name(const char *name)
{
    (void)sd_notifyf(0, "FDSTOREREMOVE=1\nFDNAME=%s", name);
}

/* Make the service manager forget all descriptors of this name, so that vipd stores a good one. */
static void drop_name(struct fd_store *fd_store, const char *name)
{
    remove_name(name);
    fd_store->dropped = true;
    for (unsigned i = 0; i < fd_store->count; i++)
        if (is_of_nic(name) && strcmp(fd_store->sock[i].nic, name + strlen(PREFIX)) == 0)
            fd_store->sock[i].stored = false;
}

/* Is `name` a unit's name? A .socket unit without FileDescriptorName= gives this name. */
static bool is_of_unit(const char *name)
{
    size_t len = strlen(name), tail = strlen(UNIT_TAIL);

    return len > tail && strcmp(name + len - tail, UNIT_TAIL) == 0;
}

int fd_store_inherit(struct fd_store *ret, char *err, size_t err_bytes)
{
    char **names = NULL;
    bool bad_unit = false;
    int count;

    fd_store_init(ret);
    if (sd_listen_fds(0) == -EBADF)
        fill_holes();
    count = sd_listen_fds_with_names(1, &names);
    if (count < 0)
        vipd_warning("vipd cannot read which descriptors the service manager passes, and goes on "
                     "without them: %s",
                     strerror(-count));
    for (int i = 0; i < count; i++) {
        const char *why = take(ret, names[i], SD_LISTEN_FDS_START + i);

        if (!why) {
            free(names[i]);
            names[i] = NULL;
            continue;
        }
        vipd_warning("the service manager passes a descriptor named '%.60s' that vipd cannot use: "
                     "%s; vipd closes it, lets the service manager forget this name, and goes on",
                     names[i], why);
        close(SD_LISTEN_FDS_START + i);
    }
    for (int i = 0; i < count; i++) {
        if (!names[i])
            continue;
        drop_name(ret, names[i]);
        if (is_of_unit(names[i]) && ret->listener < 0 && !bad_unit) {
            bad_unit = true;
            snprintf(err, err_bytes,
                     "the service manager passes '%.60s', which is no listening SEQPACKET socket: "
                     "the .socket unit of vipd needs ListenSequentialPacket=",
                     names[i]);
        }
        free(names[i]);
    }
    free(names);
    if (bad_unit) {
        close_all(ret);
        fd_store_init(ret);
    }
    return bad_unit ? -EINVAL : 0;
}

static void forget(struct fd_store_sock *sock)
{
    if (sock->fd >= 0)
        close(sock->fd);
    if (sock->stored) {
        char name[FD_STORE_NAME_BYTES];

        fd_store_name(sock, name);
        remove_name(name);
        sock->given_up = true;
    }
    sock->fd = -1;
    sock->stored = false;
}

void fd_store_opened(void *ctx, int sock)
{
    struct fd_store_sock *fd_store = ctx;
    char text[64 + FD_STORE_NIC_BYTES];
    bool first = fd_store->open < 0;

    fd_store->open = sock;
    if (sock < 0) {
        if (first && fd_store->inode != 0 && !fd_store->used && fd_store->stored) {
            vipd_info("the kept socket of NIC %s does not fit its address; vipd makes a new one",
                      fd_store->nic);
            forget(fd_store);
        }
        return;
    }
    if (fd_store->inode != 0 && inode_of(sock) == fd_store->inode) {
        fd_store->used = true;
        if (fd_store->stored)
            return; /* the service manager keeps this socket: do not replace it */
    }
    forget(fd_store);
    /* FDPOLL=0: systemd must not drop the socket after an ICMP error. */
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

/* Can no other socket of this address be bound beside `sock`? An address that is no IP address
 * stands for one of IPv4 (`auto`). */
static bool blocks(int sock, const char *address, uint64_t port)
{
    union {
        struct sockaddr any;
        struct sockaddr_in ip4;
        struct sockaddr_in6 ip6;
    } bound = {0};
    socklen_t len = sizeof(bound);
    struct in6_addr wanted6;
    struct in_addr wanted;
    char text[INET6_ADDRSTRLEN];

    snprintf(text, sizeof(text), "%.*s", (int)strcspn(address, "%"), address);
    if (getsockname(sock, &bound.any, &len) < 0)
        return false;
    if (bound.any.sa_family == AF_INET6)
        return ntohs(bound.ip6.sin6_port) == port &&
               (IN6_IS_ADDR_UNSPECIFIED(&bound.ip6.sin6_addr) ||
                (inet_pton(AF_INET6, text, &wanted6) == 1 &&
                 IN6_ARE_ADDR_EQUAL(&wanted6, &bound.ip6.sin6_addr)));
    if (ntohs(bound.ip4.sin_port) != port || inet_pton(AF_INET6, text, &wanted6) == 1)
        return false;
    return bound.ip4.sin_addr.s_addr == htonl(INADDR_ANY) ||
           inet_pton(AF_INET, text, &wanted) != 1 || wanted.s_addr == bound.ip4.sin_addr.s_addr;
}

bool fd_store_make_room(struct fd_store *fd_store, const char *address, uint64_t port)
{
    bool given_up = fd_store->dropped;

    for (unsigned i = 0; i < fd_store->count; i++) {
        struct fd_store_sock *sock = &fd_store->sock[i];

        if (sock->fd < 0 || !blocks(sock->fd, address, port))
            continue;
        vipd_info("vipd gives up the kept socket of NIC %s, whose address another NIC has now",
                  sock->nic);
        forget(sock);
    }
    for (unsigned i = 0; i < fd_store->count; i++)
        given_up = given_up || fd_store->sock[i].given_up;
    return given_up;
}

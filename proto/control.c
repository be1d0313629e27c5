/*
 * Control messages on a UNIX SOCK_SEQPACKET socket (proto/control.h).
 *
 * Owns: ancillary data, the close of received descriptors, and one buffer per call on the stack
 * (for vip_control_ask_in, the caller provides the buffer). Does not own: the meaning of messages.
 * Called by libvipl, vipd and the tools. No received message is trusted. Needs libc and protobuf-c
 * only.
 */
#include "proto/control.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

/* The kernel's limit of descriptors in one packet, SCM_MAX_FD. With less room the kernel would drop
 * some descriptors without an error. take_fds closes those beyond VIP_CONTROL_FDS_MAX. */
#define ANCILLARY_FDS_MAX 253

/* protobuf-c uses 32-bit lengths. */
_Static_assert(VIP_CONTROL_BYTES_MAX < INT32_MAX / 2, "control messages are small");

static void close_now(void *ctx, int fd)
{
    (void)ctx;
    close(fd);
}

static const struct vip_fd_drop drop_now = {.close_fd = close_now};

void vip_fds_drop(struct vip_fds *fds, const struct vip_fd_drop *drop)
{
    for (unsigned i = 0; i < fds->count && i < VIP_CONTROL_FDS_MAX; i++) {
        if (fds->fd[i] >= 0)
            drop->close_fd(drop->ctx, fds->fd[i]);
        fds->fd[i] = -1;
    }
    fds->count = 0;
}

void vip_fds_close(struct vip_fds *fds)
{
    vip_fds_drop(fds, &drop_now);
}

/* If the peer closes its socket with unread packets, the errno is ECONNRESET instead of EPIPE. */
static int closed_errno(int err)
{
    return err == ECONNRESET ? EPIPE : err;
}

/* Like vip_control_send. room: VIP_CONTROL_BYTES_MAX bytes for the packed message. */
static int send_in(int sock, const ProtobufCMessage *message, const int *fds, unsigned fd_count,
                   int flags, uint8_t *room)
{
    union {
        struct cmsghdr align;
        char bytes[CMSG_SPACE(sizeof(int) * VIP_CONTROL_FDS_MAX)];
    } ancillary;
    size_t len = protobuf_c_message_get_packed_size(message);
    struct iovec iov = {.iov_base = room};
    struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};
    ssize_t n;

    if (len > VIP_CONTROL_BYTES_MAX)
        return -EMSGSIZE;
    if (fd_count > VIP_CONTROL_FDS_MAX)
        return -EINVAL;
    /* A receiver cannot distinguish a SEQPACKET packet of 0 bytes from the end of the
     * connection. */
    if (len == 0)
        return -EINVAL;
    iov.iov_len = protobuf_c_message_pack(message, room);
    if (fd_count > 0) {
        struct cmsghdr *cmsg;

        memset(&ancillary, 0, sizeof(ancillary));
        msg.msg_control = ancillary.bytes;
        msg.msg_controllen = CMSG_SPACE(sizeof(int) * fd_count);
        cmsg = CMSG_FIRSTHDR(&msg);
        cmsg->cmsg_level = SOL_SOCKET;
        cmsg->cmsg_type = SCM_RIGHTS;
        cmsg->cmsg_len = CMSG_LEN(sizeof(int) * fd_count);
        memcpy(CMSG_DATA(cmsg), fds, sizeof(int) * fd_count);
    }
    do
        n = sendmsg(sock, &msg, flags | MSG_NOSIGNAL);
    while (n < 0 && errno == EINTR);
    return n < 0 ? -closed_errno(errno) : 0;
}

int vip_control_send(int sock, const ProtobufCMessage *message, const int *fds, unsigned fd_count,
                     int flags)
{
    uint8_t room[VIP_CONTROL_BYTES_MAX];

    return send_in(sock, message, fds, fd_count, flags, room);
}

/* Collect the descriptors of a received packet in *ret. If *ret has no room for all, `drop` closes
 * the others, and the return value is false. */
static bool take_fds(struct msghdr *msg, const struct vip_fd_drop *drop, struct vip_fds *ret)
{
    bool fits = true;

    for (struct cmsghdr *cmsg = CMSG_FIRSTHDR(msg); cmsg; cmsg = CMSG_NXTHDR(msg, cmsg)) {
        size_t count;

        if (cmsg->cmsg_level != SOL_SOCKET || cmsg->cmsg_type != SCM_RIGHTS)
            continue;
        count = (cmsg->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        for (size_t i = 0; i < count; i++) {
            int fd;

            memcpy(&fd, CMSG_DATA(cmsg) + i * sizeof(int), sizeof(fd));
            if (ret->count < VIP_CONTROL_FDS_MAX) {
                ret->fd[ret->count++] = fd;
            } else {
                drop->close_fd(drop->ctx, fd);
                fits = false;
            }
        }
    }
    return fits;
}

/* protobuf-c does not report why unpacking failed. So the allocator sets *allocator_data (a bool)
 * if there was no memory. */
static void *unpack_alloc(void *allocator_data, size_t bytes)
{
    void *memory = malloc(bytes);

    if (!memory)
        *(bool *)allocator_data = true;
    return memory;
}

static void unpack_free(void *allocator_data, void *memory)
{
    (void)allocator_data;
    free(memory);
}

/* Like vip_control_recv_from. room: VIP_CONTROL_BYTES_MAX bytes for the packed message. without:
 * work like vip_control_recv_without. */
static int recv_in(int sock, const ProtobufCMessageDescriptor *type, int flags, bool without,
                   const struct vip_fd_drop *drop, uint8_t *room, ProtobufCMessage **ret_message,
                   struct vip_fds *ret_fds)
{
    union {
        struct cmsghdr align;
        char bytes[CMSG_SPACE(sizeof(int) * ANCILLARY_FDS_MAX)];
    } ancillary;
    struct iovec iov = {.iov_base = room, .iov_len = VIP_CONTROL_BYTES_MAX};
    struct msghdr msg = {.msg_iov = &iov,
                         .msg_iovlen = 1,
                         .msg_control = ancillary.bytes,
                         .msg_controllen = sizeof(ancillary.bytes)};
    struct vip_fds fds = VIP_FDS_NONE;
    ProtobufCMessage *message = NULL;
    bool fits, no_memory = false, reset = false;
    /* The allocator uses malloc, as protobuf_c_message_free_unpacked(m, NULL) expects. */
    ProtobufCAllocator allocator = {
        .alloc = unpack_alloc, .free = unpack_free, .allocator_data = &no_memory};
    ssize_t n;

    *ret_message = NULL;
    *ret_fds = VIP_FDS_NONE;
    /* ECONNRESET: the peer has closed its socket with unread packets. The kernel returns this errno
     * once. Then it returns the packets that the peer sent before. */
    do {
        n = recvmsg(sock, &msg, flags | MSG_CMSG_CLOEXEC);
        if (n >= 0 || (errno != EINTR && (errno != ECONNRESET || reset)))
            break;
        reset = reset || errno == ECONNRESET;
    } while (true);
    if (n < 0)
        return -closed_errno(errno);
    fits = take_fds(&msg, drop, &fds);
    if (n == 0 && fds.count == 0 && fits)
        return -EPIPE;
    /* The buffer has room for all descriptors, so this process has too many open descriptors. */
    if (msg.msg_flags & MSG_CTRUNC) {
        vip_fds_drop(&fds, drop);
        if (!without)
            return -EMFILE;
    }
    if (n > 0 && fits && !(msg.msg_flags & MSG_TRUNC))
        message = protobuf_c_message_unpack(type, &allocator, (size_t)n, room);
    if (!message) {
        vip_fds_drop(&fds, drop);
        return no_memory ? -ENOMEM : -EBADMSG;
    }
    *ret_message = message;
    *ret_fds = fds;
    return 0;
}

int vip_control_recv_from(int sock, const ProtobufCMessageDescriptor *type, int flags,
                          const struct vip_fd_drop *drop, ProtobufCMessage **ret_message,
                          struct vip_fds *ret_fds)
{
    uint8_t room[VIP_CONTROL_BYTES_MAX];

    return recv_in(sock, type, flags, false, drop, room, ret_message, ret_fds);
}

int vip_control_recv_without(int sock, const ProtobufCMessageDescriptor *type, int flags,
                             ProtobufCMessage **ret_message, struct vip_fds *ret_fds)
{
    uint8_t room[VIP_CONTROL_BYTES_MAX];

    return recv_in(sock, type, flags, true, &drop_now, room, ret_message, ret_fds);
}

int vip_control_recv(int sock, const ProtobufCMessageDescriptor *type, int flags,
                     ProtobufCMessage **ret_message, struct vip_fds *ret_fds)
{
    return vip_control_recv_from(sock, type, flags, &drop_now, ret_message, ret_fds);
}

int vip_control_ask_in(void *room, int sock, const ProtobufCMessage *request, const int *fds,
                       unsigned fd_count, const ProtobufCMessageDescriptor *type,
                       ProtobufCMessage **ret_reply, struct vip_fds *ret_fds)
{
    int r = send_in(sock, request, fds, fd_count, 0, room);

    *ret_reply = NULL;
    *ret_fds = VIP_FDS_NONE;
    /* If the peer has closed the socket (-EPIPE), its reply with the reason may still be there. */
    if (r < 0 && r != -EPIPE)
        return r;
    return recv_in(sock, type, 0, false, &drop_now, room, ret_reply, ret_fds);
}

int vip_control_ask(int sock, const ProtobufCMessage *request, const int *fds, unsigned fd_count,
                    const ProtobufCMessageDescriptor *type, ProtobufCMessage **ret_reply,
                    struct vip_fds *ret_fds)
{
    uint8_t room[VIP_CONTROL_BYTES_MAX];

    return vip_control_ask_in(room, sock, request, fds, fd_count, type, ret_reply, ret_fds);
}

int vip_control_socket_path(char *buf, size_t buf_bytes)
{
    /* secure_getenv: the caller of a privileged program must not choose the socket. */
    const char *dir = secure_getenv("VIPD_RUNTIME_DIR");
    const char *user_dir = secure_getenv("XDG_RUNTIME_DIR");
    const char *tail = "";
    struct stat st;
    int n;

    if (!dir || !*dir) {
        dir = "/run/vipd";
        if (geteuid() != 0 && user_dir && *user_dir && stat("/run/vipd/vipd.sock", &st) < 0) {
            dir = user_dir;
            tail = "/vipd";
        }
    }
    n = snprintf(buf, buf_bytes, "%s%s/vipd.sock", dir, tail);
    if (n < 0 || (size_t)n >= buf_bytes || (size_t)n >= sizeof(((struct sockaddr_un *)0)->sun_path))
        return -ENAMETOOLONG;
    return 0;
}

int vip_control_connect(const char *path)
{
    struct sockaddr_un addr = {.sun_family = AF_UNIX};
    size_t len = strlen(path);
    int sock, rc;

    if (len == 0)
        return -ENOENT;
    if (len >= sizeof(addr.sun_path))
        return -ENAMETOOLONG;
    memcpy(addr.sun_path, path, len);
    sock = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    if (sock < 0)
        return -errno;
    do
        rc = connect(sock, (const struct sockaddr *)&addr, sizeof(addr));
    while (rc < 0 && errno == EINTR);
    if (rc < 0) {
        rc = -errno;
        close(sock);
        return rc;
    }
    return sock;
}

/*
 * Control messages on a UNIX SOCK_SEQPACKET socket: one protobuf-c message and up to four file
 * descriptors per packet. Used by libvipl, vipd and the tools; control.proto defines the messages.
 *
 * Owns: packing, sending, receiving, unpacking, and closing received file descriptors.
 * Does not own: what a message means.
 */
#ifndef VIP_PROTO_CONTROL_H
#define VIP_PROTO_CONTROL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include <protobuf-c/protobuf-c.h>

#include "proto/limits.h"

/* File descriptors of a received message. Code that keeps a descriptor sets its entry to -1. */
struct vip_fds {
    int fd[VIP_CONTROL_FDS_MAX];
    unsigned count;
};

#define VIP_FDS_NONE ((struct vip_fds){.fd = {-1, -1, -1, -1}, .count = 0})

/* Close the descriptors whose entry is not -1. VIP_FDS_NONE and a second call are allowed. */
void vip_fds_close(struct vip_fds *fds);

/* How to close a received descriptor. To close the last descriptor of a memfd frees its memory,
 * which is slow; in vipd another thread closes them. */
struct vip_fd_drop {
    void (*close_fd)(void *ctx, int fd);
    void *ctx;
};
/* As vip_fds_close, but `drop` closes the descriptors. */
void vip_fds_drop(struct vip_fds *fds, const struct vip_fd_drop *drop);

/*
 * Send one message with fd_count descriptors (0..4; they stay open here). Repeats the call after
 * EINTR; never raises SIGPIPE. flags: MSG_DONTWAIT or 0. Outcomes: 0 sent; -EMSGSIZE larger than
 * VIP_CONTROL_BYTES_MAX; -EINVAL an empty message or too many descriptors; -EAGAIN the socket is
 * full (only with MSG_DONTWAIT); other negative errno of sendmsg, e.g. -EPIPE. Any thread.
 */
int vip_control_send(int sock, const ProtobufCMessage *message, const int *fds, unsigned fd_count,
                     int flags);

/*
 * Receive one message of the given type. flags: MSG_DONTWAIT or 0. All fds arrive close-on-exec.
 * Outcomes: 0 with *ret_message (free it with protobuf_c_message_free_unpacked(m, NULL)) and
 * *ret_fds; -EAGAIN no message (MSG_DONTWAIT); -EPIPE the other side has closed; -EBADMSG
 * malformed, too large, or too many descriptors; -EMFILE this process has too many open
 * descriptors; -ENOMEM no memory to unpack the message; other negative errno. With -EBADMSG,
 * -EMFILE and -ENOMEM the message is lost and its descriptors are closed. On failure *ret_message
 * is NULL and *ret_fds is VIP_FDS_NONE. Any thread.
 */
int vip_control_recv(int sock, const ProtobufCMessageDescriptor *type, int flags,
                     ProtobufCMessage **ret_message, struct vip_fds *ret_fds);

/* Like vip_control_recv, but instead of -EMFILE it returns the message without its descriptors. */
int vip_control_recv_without(int sock, const ProtobufCMessageDescriptor *type, int flags,
                             ProtobufCMessage **ret_message, struct vip_fds *ret_fds);

/* Like vip_control_recv, but `drop` closes the descriptors that are not returned. */
int vip_control_recv_from(int sock, const ProtobufCMessageDescriptor *type, int flags,
                          const struct vip_fd_drop *drop, ProtobufCMessage **ret_message,
                          struct vip_fds *ret_fds);

/*
 * Send a request and wait for its reply. If the other side refuses the connection, it sends a reply
 * with the reason and closes the socket before it gets the request. Then this reply is returned.
 * Outcomes: those of vip_control_send and vip_control_recv.
 */
int vip_control_ask(int sock, const ProtobufCMessage *request, const int *fds, unsigned fd_count,
                    const ProtobufCMessageDescriptor *type, ProtobufCMessage **ret_reply,
                    struct vip_fds *ret_fds);

/* Like vip_control_ask, for callers with little stack. room: VIP_CONTROL_BYTES_MAX bytes, used
 * until the call returns. The other functions have these bytes on the stack. */
int vip_control_ask_in(void *room, int sock, const ProtobufCMessage *request, const int *fds,
                       unsigned fd_count, const ProtobufCMessageDescriptor *type,
                       ProtobufCMessage **ret_reply, struct vip_fds *ret_fds);

/*
 * Path of vipd's application socket: $VIPD_RUNTIME_DIR/vipd.sock; else /run/vipd/vipd.sock, if it
 * exists, the user is root or $XDG_RUNTIME_DIR is not set; else $XDG_RUNTIME_DIR/vipd/vipd.sock.
 * Outcomes: 0 and the path in buf; -ENAMETOOLONG: the path does not fit. Any thread.
 */
int vip_control_socket_path(char *buf, size_t buf_bytes);

/* Connect to `path`. Outcomes: a connected close-on-exec socket, or negative errno. */
int vip_control_connect(const char *path);

#endif

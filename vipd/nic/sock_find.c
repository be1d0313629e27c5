#include "vipd/nic/sock_find.h"

#include <errno.h>
#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#define ANSWER_BYTES 4096

/* The kernel swaps the ends when it looks for one socket: source is the peer. */
static struct inet_diag_sockid id_of(const uint8_t *own, const uint8_t *peer)
{
    struct inet_diag_sockid id = {.idiag_cookie = {INET_DIAG_NOCOOKIE, INET_DIAG_NOCOOKIE}};

    memcpy(id.idiag_src, peer, 4);
    memcpy(&id.idiag_sport, peer + 4, 2);
    memcpy(id.idiag_dst, own, 4);
    memcpy(&id.idiag_dport, own + 4, 2);
    return id;
}

/* In the answer, source is the own end. */
static void found_of(const struct inet_diag_msg *msg, struct sock_found *ret)
{
    ret->inode = msg->idiag_inode;
    memcpy(ret->own, msg->id.idiag_src, 4);
    memcpy(ret->own + 4, &msg->id.idiag_sport, 2);
    memcpy(ret->peer, msg->id.idiag_dst, 4);
    memcpy(ret->peer + 4, &msg->id.idiag_dport, 2);
}

int sock_find(int kernel, const uint8_t own[SOCK_NAME_BYTES], const uint8_t peer[SOCK_NAME_BYTES],
              struct sock_found *ret)
{
    struct {
        struct nlmsghdr head;
        struct inet_diag_req_v2 ask;
    } request = {.head = {.nlmsg_len = sizeof(request),
                          .nlmsg_type = SOCK_DIAG_BY_FAMILY,
                          .nlmsg_flags = NLM_F_REQUEST},
                 .ask = {.sdiag_family = AF_INET,
                         .sdiag_protocol = IPPROTO_UDP,
                         .idiag_states = ~0u,
                         .id = id_of(own, peer)}};
    union {
        struct nlmsghdr head;
        uint8_t bytes[ANSWER_BYTES];
    } answer;
    const void *body = NLMSG_DATA(&answer.head);
    ssize_t got;

    /* The kernel answers before send returns. */
    if (send(kernel, &request, sizeof(request), MSG_DONTWAIT) < 0)
        return -errno;
    got = recv(kernel, &answer, sizeof(answer), MSG_DONTWAIT);
    if (got < 0)
        return -errno;
    if (got < NLMSG_HDRLEN || answer.head.nlmsg_len > (size_t)got)
        return -EPROTO;
    if (answer.head.nlmsg_type == NLMSG_ERROR &&
        answer.head.nlmsg_len >= NLMSG_LENGTH(sizeof(struct nlmsgerr)))
        return ((const struct nlmsgerr *)body)->error;
    if (answer.head.nlmsg_type != SOCK_DIAG_BY_FAMILY ||
        answer.head.nlmsg_len < NLMSG_LENGTH(sizeof(struct inet_diag_msg)))
        return -EPROTO;
    found_of(body, ret);
    return 0;
}

/* Does the kernel find a socket that is there? A kernel without udp_diag finds none. */
static int self_test(int kernel)
{
    static const uint8_t no_peer[SOCK_NAME_BYTES];
    int sock = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0), rc = -EOPNOTSUPP;
    struct sockaddr_in name = {.sin_family = AF_INET}; /* a namespace may have no address */
    socklen_t len = sizeof(name);
    uint8_t own[SOCK_NAME_BYTES];
    struct sock_found found;
    struct stat st;

    if (sock < 0)
        return -errno;
    if (bind(sock, (struct sockaddr *)&name, sizeof(name)) < 0 ||
        getsockname(sock, (struct sockaddr *)&name, &len) < 0 || fstat(sock, &st) < 0) {
        rc = -errno;
        close(sock);
        return rc;
    }
    memcpy(own, (const uint8_t[]){127, 0, 0, 1}, 4);
    memcpy(own + 4, &name.sin_port, 2);
    if (sock_find(kernel, own, no_peer, &found) == 0 && found.inode == st.st_ino)
        rc = 0;
    close(sock);
    return rc;
}

int sock_find_open(void)
{
    int kernel = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_SOCK_DIAG);
    int rc;

    if (kernel < 0)
        return -errno;
    rc = self_test(kernel);
    if (rc == 0)
        return kernel;
    close(kernel);
    return rc;
}

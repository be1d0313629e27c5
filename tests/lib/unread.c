/*
 * Sends COUNT descriptors, rounded up to a multiple of FDS, into a socket that no program reads.
 * Then prints "unread" and their number, and waits until it is killed. usage: unread COUNT
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#define FDS 250 /* descriptors in one message; the kernel allows 253 */

static int put(int sock)
{
    union {
        struct cmsghdr align;
        char bytes[CMSG_SPACE(sizeof(int) * FDS)];
    } ancillary = {0};
    struct iovec iov = {.iov_base = "x", .iov_len = 1};
    struct msghdr msg = {.msg_iov = &iov,
                         .msg_iovlen = 1,
                         .msg_control = ancillary.bytes,
                         .msg_controllen = sizeof(ancillary.bytes)};
    struct cmsghdr *head = CMSG_FIRSTHDR(&msg);
    int fds[FDS];

    memset(fds, 0, sizeof(fds)); /* send descriptor 0, FDS times */
    head->cmsg_level = SOL_SOCKET;
    head->cmsg_type = SCM_RIGHTS;
    head->cmsg_len = CMSG_LEN(sizeof(fds));
    memcpy(CMSG_DATA(head), fds, sizeof(fds));
    return sendmsg(sock, &msg, MSG_DONTWAIT) < 0 ? -errno : 0;
}

int main(int argc, char **argv)
{
    unsigned long wanted = argc == 2 ? strtoul(argv[1], NULL, 10) : 0, held = 0;
    int pair[2], r = 0;

    if (wanted == 0) {
        fprintf(stderr, "usage: unread COUNT\n");
        return 2;
    }
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
        r = -errno;
    for (; r == 0 && held < wanted; held += FDS)
        r = put(pair[0]);
    if (r < 0) {
        fprintf(stderr, "unread: after %lu descriptors: %s\n", held, strerror(-r));
        return 1;
    }
    printf("unread %lu\n", held);
    fflush(stdout);
    for (;;)
        pause();
}

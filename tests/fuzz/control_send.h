/*
 * Makes control messages from a script, for control.c: any request with any fields, nested as in
 * control.proto, with numbers from replies of vipd, and any files. checkpoint.c uses the files.
 */
#ifndef TESTS_FUZZ_CONTROL_SEND_H
#define TESTS_FUZZ_CONTROL_SEND_H

#include "fuzz/fuzz.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "proto/control.h"
#include "proto/control.pb-c.h"
#include "proto/shm.h"

#ifndef F_SEAL_FUTURE_WRITE
#define F_SEAL_FUTURE_WRITE 0x0010
#endif

#define LEARNED 16u

/* Files that messages can pass to vipd. */
enum control_fd {
    CONTROL_FD_APP = 0, /* a correct app-writes segment */
    CONTROL_FD_ARENA,
    CONTROL_FD_REGION, /* 64 KiB, sealed */
    CONTROL_FD_BARE,   /* a memfd without seals */
    CONTROL_FD_SMALL,  /* sealed, but smaller than any valid file */
    CONTROL_FD_NULL,   /* /dev/null */
    CONTROL_FD_SOCKET,
    CONTROL_FDS,
};

static int control_fd[CONTROL_FDS];
static uint8_t *control_app; /* our mapping of the app-writes segment */
static uint64_t learned[LEARNED];
static __attribute__((unused)) unsigned learned_count;

static inline int control_memfd(uint64_t bytes, int seals)
{
    int fd = memfd_create("fuzz", MFD_CLOEXEC | MFD_ALLOW_SEALING);

    FUZZ_CHECK(fd >= 0 && ftruncate(fd, (off_t)bytes) == 0);
    FUZZ_CHECK(seals == 0 || fcntl(fd, F_ADD_SEALS, seals) == 0);
    return fd;
}

static inline void control_fds_make(void)
{
    int app = control_memfd(VIP_APP_BYTES, 0), pair[2];

    control_app = mmap(NULL, VIP_APP_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, app, 0);
    FUZZ_CHECK(control_app != MAP_FAILED);
    FUZZ_CHECK(fcntl(app, F_ADD_SEALS,
                     F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_FUTURE_WRITE) == 0);
    FUZZ_CHECK(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) == 0);
    control_fd[CONTROL_FD_APP] = app;
    control_fd[CONTROL_FD_ARENA] = control_memfd(VIP_ARENA_BYTES, F_SEAL_SHRINK | F_SEAL_GROW);
    control_fd[CONTROL_FD_REGION] = control_memfd(65536, F_SEAL_SHRINK | F_SEAL_GROW);
    control_fd[CONTROL_FD_BARE] = control_memfd(65536, 0);
    control_fd[CONTROL_FD_SMALL] = control_memfd(4096, F_SEAL_SHRINK | F_SEAL_GROW);
    control_fd[CONTROL_FD_NULL] = open("/dev/null", O_RDWR | O_CLOEXEC);
    control_fd[CONTROL_FD_SOCKET] = pair[0];
}

/* ---- protobuf, written by hand ------------------------------------------------------------- */

struct control_bytes {
    uint8_t at[2048];
    size_t len;
};

static inline void put_byte(struct control_bytes *to, uint8_t byte)
{
    if (to->len < sizeof(to->at))
        to->at[to->len++] = byte;
}

static inline void put_varint(struct control_bytes *to, uint64_t value)
{
    for (; value > 127; value >>= 7)
        put_byte(to, (uint8_t)(value | 128));
    put_byte(to, (uint8_t)value);
}

static inline void put_block(struct control_bytes *to, unsigned field, const void *bytes,
                             size_t len)
{
    put_varint(to, field << 3 | 2);
    put_varint(to, len);
    for (size_t i = 0; i < len; i++)
        put_byte(to, ((const uint8_t *)bytes)[i]);
}

/* Write some fields of a message. For each field a byte of the input chooses its number and its
 * contents: a small number, any number, a number from a reply of vipd, a host address, bytes, or a
 * nested message. */
static inline void put_fields(struct control_bytes *to, struct fuzz_in *in, unsigned depth)
{
    static const uint8_t host[6] = {0, 0, 0, 0, 0, 1}; /* the loop link's only address */
    unsigned count = fuzz_8(in) % 8;

    while (count-- && fuzz_more(in)) {
        uint8_t what = fuzz_8(in);
        unsigned field = 1 + what % 8;
        uint8_t bytes[255];
        struct control_bytes inner = {.len = 0};
        size_t len;

        switch (what >> 5) {
        case 0:
        case 1:
            put_varint(to, field << 3);
            put_varint(to, fuzz_8(in));
            break;
        case 2:
            put_varint(to, field << 3);
            put_varint(to, fuzz_number(in));
            break;
        case 3:
        case 4:
            put_varint(to, field << 3);
            put_varint(to, learned[fuzz_8(in) % LEARNED]);
            break;
        case 5:
            put_block(to, field, host, sizeof(host));
            break;
        case 6:
            len = fuzz_8(in) % 160;
            fuzz_bytes(in, bytes, len);
            put_block(to, field, bytes, len);
            break;
        default:
            if (depth)
                put_fields(&inner, in, depth - 1);
            put_block(to, field, inner.at, inner.len);
        }
    }
}

/* Write any request. Its field number is at most the highest of a request in control.proto. */
static inline void put_request(struct control_bytes *to, struct fuzz_in *in)
{
    const ProtobufCMessageDescriptor *request = &vip__request__descriptor;
    struct control_bytes inner = {.len = 0};
    unsigned body = 1 + fuzz_8(in) % request->fields[request->n_fields - 1].id;

    put_fields(&inner, in, 2);
    put_block(to, body, inner.at, inner.len);
}

/* Write an open request that succeeds. */
static inline void put_open(struct control_bytes *to)
{
    struct control_bytes inner = {.len = 0};

    put_varint(&inner, 1 << 3);
    put_varint(&inner, VIP_SHM_ABI);
    put_block(&inner, 2, "vip0", 4);
    put_block(&inner, 3, "fuzz", 4);
    put_block(to, 1, inner.at, inner.len);
}

/* Send bytes with `count` descriptors. Returns false if the send failed. */
static inline bool control_send(int sock, const struct control_bytes *bytes, const int *fds,
                                unsigned count)
{
    union {
        struct cmsghdr align;
        char bytes[CMSG_SPACE(sizeof(int) * 8)];
    } ancillary;
    struct iovec iov = {.iov_base = (void *)(uintptr_t)bytes->at, .iov_len = bytes->len};
    struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};

    if (count) {
        struct cmsghdr *cmsg;

        memset(&ancillary, 0, sizeof(ancillary));
        msg.msg_control = ancillary.bytes;
        msg.msg_controllen = CMSG_SPACE(sizeof(int) * count);
        cmsg = CMSG_FIRSTHDR(&msg);
        cmsg->cmsg_level = SOL_SOCKET;
        cmsg->cmsg_type = SCM_RIGHTS;
        cmsg->cmsg_len = CMSG_LEN(sizeof(int) * count);
        memcpy(CMSG_DATA(cmsg), fds, sizeof(int) * count);
    }
    return sendmsg(sock, &msg, MSG_DONTWAIT | MSG_NOSIGNAL) >= 0;
}

#endif

/* Sends records of the packets and descriptors that pass the NICs over a socket; see capture.h. */
#include "vipd/ctl/capture.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "proto/capture.h"
#include "proto/wire.h"
#include "vipd/log.h"
#include "vipd/nic/see.h"

/* Bytes of a connection manager's message before the addresses and the applications' data. */
#define CM_FIXED_BYTES 80u

/* Wanted size of the socket's send buffer, in bytes: some thousand packets without payload. */
#define SOCKET_BYTES (4 << 20)

/* The context that a NIC passes to `see`. */
struct place {
    struct capture *capture;
    unsigned nic;
};

struct capture {
    struct vipd *vipd;
    struct capture_filter filter;
    int sock;
    struct vipd_watch *watch; /* calls on_sock when the tool closes its end */
    struct place place[VIPD_NICS_MAX];
    pthread_mutex_t lock; /* protects the members below: NICs may have threads of their own */
    uint64_t lost;
    struct vip_packet decoded;
    uint8_t bytes[VIP_PACKET_BYTES_MAX];
};

static bool wanted(const struct capture_filter *filter, const struct nic_seen *seen)
{
    if ((filter->has_session && seen->session != filter->session) ||
        (filter->has_vi && (seen->session == 0 || seen->vi != filter->vi)))
        return false;
    /* Records of descriptors have no peer, so a filter with a peer selects packets only. */
    return !filter->has_peer ||
           (seen->peer && seen->peer->len == filter->peer.len &&
            memcmp(seen->peer->bytes, filter->peer.bytes, filter->peer.len) == 0);
}

/* Copy the parts of the packet to capture->bytes, one after the other. */
static void gather(struct capture *capture, const struct nic_seen *seen)
{
    size_t at = 0;

    for (unsigned i = 0; i < seen->iov_count; i++) {
        size_t len = seen->iov[i].iov_len;

        if (len > sizeof(capture->bytes) - at)
            len = sizeof(capture->bytes) - at;
        memcpy(capture->bytes + at, seen->iov[i].iov_base, len);
        at += len;
    }
}

/*
 * Returns how many bytes from the beginning of a packet a record without payload has. Data packet:
 * the bytes up to the payload of the last frame; this function sets all payload to zero. Message of
 * the connection manager: the part before addresses and private data. Other packets: the header.
 */
static uint32_t without_payload(struct capture *capture, uint32_t bytes)
{
    const struct vip_packet *packet = &capture->decoded;
    struct vip_header hdr;
    uint32_t end = VIP_WIRE_HEADER_BYTES;

    if (bytes < end || vip_wire_get_header(capture->bytes, bytes, &hdr) != VIP_WIRE_OK)
        return bytes < end ? bytes : end;
    if (hdr.kind == VIP_PKT_CM)
        return bytes < end + CM_FIXED_BYTES ? bytes : end + CM_FIXED_BYTES;
    if (vip_wire_get_data(capture->bytes, bytes, &capture->decoded) != VIP_WIRE_OK)
        return end;
    end += hdr.range_count * (uint32_t)VIP_WIRE_RANGE_BYTES;
    for (unsigned i = 0; i < hdr.frame_count; i++) {
        const struct vip_frame *frame = &packet->frames[i];

        end = frame->payload;
        memset(capture->bytes + frame->payload, 0, frame->length);
    }
    return end;
}

static void tell(const struct place *place, const struct nic_seen *seen)
{
    struct capture *capture = place->capture;
    struct vip_capture_head head;
    struct iovec iov[2] = {{&head, sizeof(head)}, {capture->bytes, 0}};
    struct msghdr msg = {.msg_iov = iov, .msg_iovlen = 2};

    memset(&head, 0, sizeof(head));
    head.kind = seen->kind;
    head.nic = place->nic;
    head.wall_ns = vipd_wall_now();
    head.lost = capture->lost;
    head.session = seen->session;
    head.vi = seen->vi;
    head.queue = seen->queue;
    head.status = seen->status;
    head.bytes = seen->bytes;
    if (seen->peer)
        link_addr_format_as(nic_link(capture->vipd->nics[place->nic].nic)->kind, seen->peer,
                            head.peer, sizeof(head.peer));
    if (seen->iov_count > 0 && seen->bytes <= sizeof(capture->bytes)) {
        gather(capture, seen);
        head.captured =
            capture->filter.payload ? seen->bytes : without_payload(capture, seen->bytes);
        iov[1].iov_len = head.captured;
    }
    /* If the tool has closed its end, on_sock ends the capture; do not free the capture here. */
    if (sendmsg(capture->sock, &msg, MSG_DONTWAIT | MSG_NOSIGNAL) < 0)
        capture->lost++;
    else
        capture->lost = 0;
}

static void see(void *ctx, const struct nic_seen *seen)
{
    const struct place *place = ctx;
    struct capture *capture = place->capture;

    if (!wanted(&capture->filter, seen))
        return;
    pthread_mutex_lock(&capture->lock);
    tell(place, seen);
    pthread_mutex_unlock(&capture->lock);
}

static void on_sock(void *ctx, unsigned events)
{
    (void)events; /* the tool never sends, so an event means that it has closed its end */
    capture_end(ctx);
}

void capture_end(struct vipd *vipd)
{
    struct capture *capture = vipd->capture;

    if (!capture)
        return;
    for (unsigned i = 0; i < vipd->nic_count; i++)
        nic_look_on(vipd->nics[i].nic, NULL, NULL);
    vipd_watch_free(capture->watch);
    (void)close(capture->sock);
    pthread_mutex_destroy(&capture->lock);
    free(capture);
    vipd->capture = NULL;
    vipd_info("the capture has ended");
}

int capture_begin(struct vipd *vipd, const struct capture_filter *filter, int *ret_sock)
{
    struct capture *capture;
    int pair[2], bytes = SOCKET_BYTES, r;

    if (vipd->capture)
        return -EBUSY;
    capture = calloc(1, sizeof(*capture));
    if (!capture)
        return -ENOMEM;
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0) {
        r = -errno;
        free(capture);
        return r;
    }
    /* The kernel may allow only a smaller buffer; then more records are lost. */
    (void)setsockopt(pair[0], SOL_SOCKET, SO_SNDBUF, &bytes, sizeof(bytes));
    capture->vipd = vipd;
    capture->filter = *filter;
    capture->sock = pair[0];
    capture->watch = vipd_watch_new(vipd->loop, pair[0], VIPD_READ, on_sock, vipd);
    if (!capture->watch) {
        (void)close(pair[0]);
        (void)close(pair[1]);
        free(capture);
        return -ENOMEM;
    }
    pthread_mutex_init(&capture->lock, NULL);
    vipd->capture = capture;
    for (unsigned i = 0; i < vipd->nic_count; i++) {
        capture->place[i] = (struct place){capture, i};
        nic_look_on(vipd->nics[i].nic, see, &capture->place[i]);
    }
    *ret_sock = pair[1];
    return 0;
}

/*
 * fi_tsend, fi_trecv, fi_send, fi_recv and their variants on FI_EP_RDM endpoints. A message up to
 * the eager limit is written into the peer's ring. For a longer message only its address is written
 * (an offer), and the send completes when the receiver has fetched the data. With
 * FI_DELIVERY_COMPLETE or FI_MATCH_COMPLETE, a short send completes when a receive has matched the
 * message.
 */
#include <stdlib.h>

#include "ofi/rdm.h"

/* ---- sending --------------------------------------------------------------------------------- */

/* Send to this endpoint, or to a peer whose channel is up. Under core->lock. */
static ssize_t post(struct via_rdm *rdm, struct via_peer *peer, const struct via_message *msg)
{
    bool eager = msg->len <= rdm->eager_bytes;
    struct via_head head = {.kind = eager ? VIA_KIND_EAGER : VIA_KIND_OFFER,
                            .tagged = msg->tagged,
                            .has_data = msg->has_data,
                            .tag = msg->tag,
                            .data = msg->data,
                            .bytes = msg->len};
    const uint64_t matched = FI_DELIVERY_COMPLETE | FI_MATCH_COMPLETE;
    struct via_offer offer = {0};
    struct via_op op = {0};
    const void *data = eager ? msg->buf : &offer;
    size_t data_bytes = eager ? msg->len : sizeof(offer);
    ssize_t rc = 0;

    if (!eager || (!msg->silent && (msg->flags & matched) != 0)) {
        rc = via_send_add(rdm, peer, msg, &head, &offer);
    } else if (!msg->silent) {
        op.context = msg->context;
        op.buf = (void *)msg->buf;
        op.len = msg->len;
        op.flags = via_send_flags(rdm, msg);
    }
    if (rc != 0)
        return rc;
    if (!peer->is_self) {
        rc = via_channel_post(peer->channel, &head, data, data_bytes, &op);
        if (rc != 0 && head.answer)
            via_send_drop(rdm, peer, head.id);
        return rc;
    }
    via_match_arrived(rdm, peer, &head, data, data_bytes);
    if ((op.flags & FI_COMPLETION) != 0) {
        struct via_comp comp = {.context = op.context,
                                .flags = op.flags & ~(uint64_t)FI_COMPLETION,
                                .len = op.len,
                                .buf = op.buf};

        via_cq_tell(rdm->tx_cq, &comp);
    }
    return 0;
}

static ssize_t send_message(struct fid_ep *fid, const struct via_message *msg)
{
    struct via_rdm *rdm = via_container(fid, struct via_rdm, fid);
    struct via_peer *peer;
    bool connected;
    ssize_t rc;

    if (rdm->core == NULL)
        return -FI_EOPBADSTATE;
    if ((msg->silent || (msg->flags & FI_INJECT) != 0) && msg->len > rdm->eager_bytes)
        return -FI_EMSGSIZE;
    pthread_mutex_lock(&rdm->core->lock);
    peer = via_peer_of(rdm, msg->dest);
    connected = peer != NULL && (peer->is_self || (peer->channel != NULL && peer->channel->up));
    rc = connected ? post(rdm, peer, msg) : -FI_EINVAL;
    pthread_mutex_unlock(&rdm->core->lock);
    if (peer == NULL || (connected && rc != -FI_ENOTCONN))
        return rc;
    return via_peer_connect(rdm, peer);
}

/* ---- receiving ------------------------------------------------------------------------------- */

/* Do FI_PEEK, FI_CLAIM or FI_DISCARD. The caller frees `want`, except after a successful FI_CLAIM
 * without another flag. Under core->lock. */
static ssize_t search(struct via_rdm *rdm, struct via_want *want, bool tagged, uint64_t flags)
{
    if ((flags & FI_PEEK) == 0)
        return (flags & FI_DISCARD) != 0 ? via_match_discard(rdm, want->context)
                                         : via_match_claimed(rdm, want);
    via_match_peek(rdm, want, tagged, (flags & FI_CLAIM) != 0);
    return 0;
}

static ssize_t receive(struct fid_ep *fid, const struct via_want *what, fi_addr_t src, bool tagged,
                       uint64_t flags)
{
    struct via_rdm *rdm = via_container(fid, struct via_rdm, fid);
    bool named =
        rdm->directed && src != FI_ADDR_UNSPEC && (flags & (FI_CLAIM | FI_PEEK)) != FI_CLAIM;
    bool search_only = (flags & (FI_PEEK | FI_DISCARD)) != 0;
    struct via_want *want;
    ssize_t rc = 0;

    if (rdm->core == NULL)
        return -FI_EOPBADSTATE;
    if ((flags & (FI_PEEK | FI_DISCARD)) == (FI_PEEK | FI_DISCARD))
        return -FI_EOPNOTSUPP;
    want = malloc(sizeof(*want));
    if (want == NULL)
        return -FI_ENOMEM;
    *want = *what;
    pthread_mutex_lock(&rdm->core->lock);
    want->peer = named ? via_peer_of(rdm, src) : NULL;
    if (named && want->peer == NULL) {
        rc = -FI_EINVAL;
    } else if (search_only || (flags & FI_CLAIM) != 0) {
        rc = search(rdm, want, tagged, flags);
    } else {
        want->silent = rdm->rx_selective && (flags & FI_COMPLETION) == 0;
        via_match_want(rdm, want, tagged);
    }
    if (rdm->busy != NULL)
        via_channel_go_on(rdm);
    pthread_mutex_unlock(&rdm->core->lock);
    if (rc != 0 || search_only)
        free(want);
    return rc;
}

static uint64_t rx_flags(struct fid_ep *fid)
{
    return via_container(fid, struct via_rdm, fid)->rx_op_flags;
}

static uint64_t tx_flags(struct fid_ep *fid)
{
    return via_container(fid, struct via_rdm, fid)->tx_op_flags;
}

/* A message has at most one piece (iov_limit is 1). Return the piece, or an empty one. */
static struct iovec one_piece(const struct iovec *iov, size_t count)
{
    return count > 0 ? iov[0] : (struct iovec){0};
}

/* ---- fi_ops_tagged --------------------------------------------------------------------------- */

static ssize_t tagged_recv(struct fid_ep *fid, void *buf, size_t len, void *mr, fi_addr_t src,
                           uint64_t tag, uint64_t ignore, void *context)
{
    struct via_want what = {
        .buf = buf, .len = len, .tag = tag, .ignore = ignore, .context = context};

    return receive(fid, &what, src, true, rx_flags(fid));
}

static ssize_t tagged_recvmsg(struct fid_ep *fid, const struct fi_msg_tagged *msg, uint64_t flags)
{
    struct iovec piece = one_piece(msg->msg_iov, msg->iov_count);
    struct via_want what = {.buf = piece.iov_base,
                            .len = piece.iov_len,
                            .tag = msg->tag,
                            .ignore = msg->ignore,
                            .context = msg->context};

    return msg->iov_count > 1 ? -FI_EINVAL : receive(fid, &what, msg->addr, true, flags);
}

static ssize_t tagged_recvv(struct fid_ep *fid, const struct iovec *iov, void **mr, size_t count,
                            fi_addr_t src, uint64_t tag, uint64_t ignore, void *context)
{
    struct fi_msg_tagged msg = {.msg_iov = iov,
                                .iov_count = count,
                                .addr = src,
                                .tag = tag,
                                .ignore = ignore,
                                .context = context};

    return tagged_recvmsg(fid, &msg, rx_flags(fid));
}

static ssize_t tagged_send(struct fid_ep *fid, const void *buf, size_t len, void *mr,
                           fi_addr_t dest, uint64_t tag, void *context)
{
    struct via_message what = {.buf = buf,
                               .len = len,
                               .dest = dest,
                               .tag = tag,
                               .context = context,
                               .flags = tx_flags(fid),
                               .tagged = true};

    return send_message(fid, &what);
}

static ssize_t tagged_senddata(struct fid_ep *fid, const void *buf, size_t len, void *mr,
                               uint64_t data, fi_addr_t dest, uint64_t tag, void *context)
{
    struct via_message what = {.buf = buf,
                               .len = len,
                               .dest = dest,
                               .tag = tag,
                               .data = data,
                               .context = context,
                               .flags = tx_flags(fid),
                               .tagged = true,
                               .has_data = true};

    return send_message(fid, &what);
}

static ssize_t tagged_sendmsg(struct fid_ep *fid, const struct fi_msg_tagged *msg, uint64_t flags)
{
    struct iovec piece = one_piece(msg->msg_iov, msg->iov_count);
    struct via_message what = {.buf = piece.iov_base,
                               .len = piece.iov_len,
                               .dest = msg->addr,
                               .tag = msg->tag,
                               .data = msg->data,
                               .context = msg->context,
                               .flags = flags,
                               .tagged = true,
                               .has_data = (flags & FI_REMOTE_CQ_DATA) != 0};

    return msg->iov_count > 1 ? -FI_EINVAL : send_message(fid, &what);
}

static ssize_t tagged_sendv(struct fid_ep *fid, const struct iovec *iov, void **mr, size_t count,
                            fi_addr_t dest, uint64_t tag, void *context)
{
    struct fi_msg_tagged msg = {
        .msg_iov = iov, .iov_count = count, .addr = dest, .tag = tag, .context = context};

    return tagged_sendmsg(fid, &msg, tx_flags(fid));
}

static ssize_t tagged_inject(struct fid_ep *fid, const void *buf, size_t len, fi_addr_t dest,
                             uint64_t tag)
{
    struct via_message what = {
        .buf = buf, .len = len, .dest = dest, .tag = tag, .tagged = true, .silent = true};

    return send_message(fid, &what);
}

static ssize_t tagged_injectdata(struct fid_ep *fid, const void *buf, size_t len, uint64_t data,
                                 fi_addr_t dest, uint64_t tag)
{
    struct via_message what = {.buf = buf,
                               .len = len,
                               .dest = dest,
                               .tag = tag,
                               .data = data,
                               .tagged = true,
                               .has_data = true,
                               .silent = true};

    return send_message(fid, &what);
}

struct fi_ops_tagged via_rdm_tagged_ops = {
    .size = sizeof(struct fi_ops_tagged),
    .recv = tagged_recv,
    .recvv = tagged_recvv,
    .recvmsg = tagged_recvmsg,
    .send = tagged_send,
    .sendv = tagged_sendv,
    .sendmsg = tagged_sendmsg,
    .inject = tagged_inject,
    .senddata = tagged_senddata,
    .injectdata = tagged_injectdata,
};

/* ---- fi_ops_msg: messages without a tag ------------------------------------------------------ */

static ssize_t msg_recvmsg(struct fid_ep *fid, const struct fi_msg *msg, uint64_t flags)
{
    struct iovec piece = one_piece(msg->msg_iov, msg->iov_count);
    struct via_want what = {.buf = piece.iov_base, .len = piece.iov_len, .context = msg->context};

    return msg->iov_count > 1 ? -FI_EINVAL : receive(fid, &what, msg->addr, false, flags);
}

static ssize_t msg_recvv(struct fid_ep *fid, const struct iovec *iov, void **mr, size_t count,
                         fi_addr_t src, void *context)
{
    struct fi_msg msg = {.msg_iov = iov, .iov_count = count, .addr = src, .context = context};

    return msg_recvmsg(fid, &msg, rx_flags(fid));
}

static ssize_t msg_recv(struct fid_ep *fid, void *buf, size_t len, void *mr, fi_addr_t src,
                        void *context)
{
    struct iovec iov = {.iov_base = buf, .iov_len = len};

    return msg_recvv(fid, &iov, NULL, 1, src, context);
}

static ssize_t msg_sendmsg(struct fid_ep *fid, const struct fi_msg *msg, uint64_t flags)
{
    struct iovec piece = one_piece(msg->msg_iov, msg->iov_count);
    struct via_message what = {.buf = piece.iov_base,
                               .len = piece.iov_len,
                               .dest = msg->addr,
                               .data = msg->data,
                               .context = msg->context,
                               .flags = flags,
                               .has_data = (flags & FI_REMOTE_CQ_DATA) != 0};

    return msg->iov_count > 1 ? -FI_EINVAL : send_message(fid, &what);
}

static ssize_t msg_sendv(struct fid_ep *fid, const struct iovec *iov, void **mr, size_t count,
                         fi_addr_t dest, void *context)
{
    struct fi_msg msg = {.msg_iov = iov, .iov_count = count, .addr = dest, .context = context};

    return msg_sendmsg(fid, &msg, tx_flags(fid));
}

static ssize_t msg_send(struct fid_ep *fid, const void *buf, size_t len, void *mr, fi_addr_t dest,
                        void *context)
{
    struct iovec iov = {.iov_base = (void *)buf, .iov_len = len};

    return msg_sendv(fid, &iov, NULL, 1, dest, context);
}

static ssize_t msg_senddata(struct fid_ep *fid, const void *buf, size_t len, void *mr,
                            uint64_t data, fi_addr_t dest, void *context)
{
    struct iovec iov = {.iov_base = (void *)buf, .iov_len = len};
    struct fi_msg msg = {
        .msg_iov = &iov, .iov_count = 1, .addr = dest, .context = context, .data = data};

    return msg_sendmsg(fid, &msg, tx_flags(fid) | FI_REMOTE_CQ_DATA);
}

static ssize_t msg_inject(struct fid_ep *fid, const void *buf, size_t len, fi_addr_t dest)
{
    struct via_message what = {.buf = buf, .len = len, .dest = dest, .silent = true};

    return send_message(fid, &what);
}

static ssize_t msg_injectdata(struct fid_ep *fid, const void *buf, size_t len, uint64_t data,
                              fi_addr_t dest)
{
    struct via_message what = {
        .buf = buf, .len = len, .dest = dest, .data = data, .has_data = true, .silent = true};

    return send_message(fid, &what);
}

struct fi_ops_msg via_rdm_msg_ops = {
    .size = sizeof(struct fi_ops_msg),
    .recv = msg_recv,
    .recvv = msg_recvv,
    .recvmsg = msg_recvmsg,
    .send = msg_send,
    .sendv = msg_sendv,
    .sendmsg = msg_sendmsg,
    .inject = msg_inject,
    .senddata = msg_senddata,
    .injectdata = msg_injectdata,
};

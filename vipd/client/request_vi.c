/* Requests about VIs and completion queues. */
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "vipd/client/internal.h"
#include "vipd/ticket.h"

/*
 * Read and check the attributes of a VI, in the order in which the specification names their codes
 * (2.2). false: the answer says which attribute is wrong.
 */
static bool read_attrs(const Vip__ViAttributes *attributes, struct nic_vi_args *args,
                       struct answer *answer)
{
    static const Vip__ViAttributes none = VIP__VI_ATTRIBUTES__INIT;
    const Vip__ViAttributes *a = attributes ? attributes : &none;
    uint32_t level = a->reliability_level;

    if (level == 0 || (level & (level - 1)) != 0 || (level & ~NIC_LEVELS) != 0) {
        answer_set(answer, VIP_RC_INVALID_RELIABILITY_LEVEL,
                   "reliability level 0x%x is not exactly one of the NIC's set 0x%x", level,
                   NIC_LEVELS);
        return false;
    }
    if (a->max_transfer_size == 0 || a->max_transfer_size > VIP_TRANSFER_BYTES_MAX) {
        answer_set(answer, VIP_RC_INVALID_MTU, "MaxTransferSize %llu is not from 1 to the NIC's %u",
                   (unsigned long long)a->max_transfer_size, VIP_TRANSFER_BYTES_MAX);
        return false;
    }
    if (a->enable_rdma_read && (level & NIC_RDMA_READ_LEVELS) == 0) {
        answer_set(answer, VIP_RC_INVALID_RDMAREAD,
                   "RDMA Read works at the reliability levels 0x%x, not at 0x%x",
                   NIC_RDMA_READ_LEVELS, level);
        return false;
    }
    args->attrs.level = (uint16_t)level;
    args->attrs.max_transfer_bytes = (uint32_t)a->max_transfer_size;
    args->attrs.enable_rdma_write = a->enable_rdma_write;
    args->attrs.enable_rdma_read = a->enable_rdma_read;
    args->qos = a->qos;
    args->ptag = a->ptag;
    args->send_cq = -1;
    args->recv_cq = -1;
    return true;
}

static void answer_why(struct answer *answer, enum vip_rc rc)
{
    answer->reply.code = rc;
    if (rc != VIP_RC_SUCCESS)
        answer->reply.reason = answer->reason;
}

/*
 * Does the ticket prove that this process had a connection with this VI on this NIC? true: *ret is
 * the checkpoint in the ticket.
 */
static bool ticket_good(const struct client *client, const Vip__PastVi *r,
                        struct nic_vi_checkpoint *ret)
{
    const struct vipd_nic *vn = &client->vipd->nics[client->session->nic];
    const struct link_addr *self = &nic_link(vn->nic)->self;
    struct ticket ticket;

    if (!r->has_ticket ||
        !ticket_open(&client->vipd->ticket_key, r->ticket.data, r->ticket.len, &ticket) ||
        ticket.uid != client->uid || ticket.pid != (uint64_t)client->pid ||
        ticket.start_ticks != client->session->start_ticks || ticket.vi.vi != r->vi ||
        ticket.vi.generation != r->generation || strcmp(ticket.nic, vn->config->name) != 0 ||
        ticket.self.len != self->len || memcmp(ticket.self.bytes, self->bytes, self->len) != 0)
        return false;
    *ret = ticket.vi;
    return true;
}

/* Make a VI as it was in an earlier life of vipd. args: from the request. ring_fd: the VI's ring;
 * -1: no ring. */
static void restore_vi(struct client *client, const Vip__PastVi *r, const struct nic_vi_args *args,
                       int ring_fd, struct answer *answer)
{
    struct nic_session *session = client->session->nic_session;
    struct nic_vi_checkpoint past = {
        .vi = (uint16_t)r->vi, .generation = r->generation, .args = *args};
    const uint32_t got[2] = {r->send_entries, r->recv_entries};
    struct nic_past_ring ring = {.fd = ring_fd, .half = r->ring_half, .first = r->ring_first};
    const struct nic_past_loan loan = {
        .number = r->loan,
        .used = r->has_loan_done,
        .at = {.done = r->loan_done, .received = r->loan_received, .completed = r->loan_completed}};
    uint64_t now_ns = vipd_loop_now(client->vipd->loop);
    const char *lost = NULL;
    bool has_ticket;
    enum vip_rc rc;

    if (r->vi >= client->vipd->config->vis) {
        answer_set(answer, VIP_RC_INVALID_PARAMETER,
                   "VI number %u: the limit is [limits] vis = %llu", r->vi,
                   (unsigned long long)client->vipd->config->vis);
        return;
    }
    has_ticket = ticket_good(client, r, &past);
    if (!has_ticket)
        past.connected = false;
    past.args.ptag = args->ptag; /* tag and CQs may have changed since the ticket was made */
    past.args.send_cq = args->send_cq;
    past.args.recv_cq = args->recv_cq;
    past.recv_base = r->recv_base;
    nic_vi_recover(client->session->vipd_base, &past, &loan);
    if (r->idle)
        past.connected = past.lost = past.lost_told = false;
    if (past.lost && !past.lost_told)
        lost = has_ticket ? "its end had begun"
                          : "the program has no ticket of it that this vipd can read";
    rc = nic_vi_restore_ring(session, &past, ring_fd < 0 ? NULL : &ring, now_ns, answer->reason,
                             sizeof(answer->reason));
    /* vipd lacks a feature of the connection */
    if (rc == VIP_RC_ERROR_NOT_SUPPORTED && ring_fd < 0) {
        past.connected = false;
        past.lost = true;
        lost = "this vipd lacks a feature of it";
        rc = nic_vi_restore(session, &past, now_ns, answer->reason, sizeof(answer->reason));
    }
    answer_why(answer, rc);
    /* If vipd refuses only the ring, the connection is not lost: the program claims the VI again,
     * without the ring. */
    if (rc != VIP_RC_SUCCESS && !lost && past.connected &&
        !(rc == VIP_RC_ERROR_NOT_SUPPORTED && ring_fd >= 0))
        lost = "this vipd refused its VI";
    if (lost)
        return_lost(client->vipd, lost);
    if (rc != VIP_RC_SUCCESS)
        return;
    if (past.connected) {
        client->session->returning++;
        return_waits(client->vipd);
    }
    for (unsigned queue = 0; queue < 2; queue++)
        nic_vi_entries_again(session, past.vi, (enum vip_queue)queue,
                             nic_vi_completions(session, past.vi, (enum vip_queue)queue) -
                                 got[queue]);
    vip__create_vi_reply__init(&answer->create_vi);
    answer->create_vi.has_vi = answer->create_vi.has_generation = true;
    answer->create_vi.vi = past.vi;
    answer->create_vi.generation = past.generation;
    answer->create_vi.has_rebind = true;
    answer->create_vi.rebind = past.connected || past.lost;
    answer->reply.create_vi = &answer->create_vi;
}

void request_create_vi(struct client *client, const Vip__Request *request, struct vip_fds *fds,
                       struct answer *answer)
{
    const Vip__CreateViRequest *r = request->create_vi;
    struct nic_vi_created created = {0};
    struct nic_vi_args args = {0};
    enum vip_rc rc;

    if ((fds->count > 0) != (r->past && r->past->has_ring_half)) {
        client_end(client, CLIENT_END_FDS, "create_vi");
        return;
    }
    if (!read_attrs(r->attributes, &args, answer) || !answer_room(client, QUOTA_VIS, 1, answer))
        return;
    if ((r->has_send_cq && r->send_cq > INT32_MAX) || (r->has_recv_cq && r->recv_cq > INT32_MAX)) {
        answer_set(answer, VIP_RC_INVALID_PARAMETER, "there is no such completion queue");
        return;
    }
    if (r->has_send_cq)
        args.send_cq = (int32_t)r->send_cq;
    if (r->has_recv_cq)
        args.recv_cq = (int32_t)r->recv_cq;
    answer->reason[0] = '\0';
    if (r->past) {
        if (answer_claimed(client, answer))
            restore_vi(client, r->past, &args, fds->count > 0 ? fds->fd[0] : -1, answer);
        return;
    }
    rc = nic_vi_create(client->session->nic_session, &args, &created, answer->reason,
                       sizeof(answer->reason));
    answer_why(answer, rc);
    if (rc != VIP_RC_SUCCESS)
        return;
    vip__create_vi_reply__init(&answer->create_vi);
    answer->create_vi.has_vi = true;
    answer->create_vi.vi = created.vi;
    answer->create_vi.has_generation = true;
    answer->create_vi.generation = created.generation;
    answer->create_vi.has_send_position = true;
    answer->create_vi.send_position = created.send_position;
    answer->create_vi.has_recv_position = true;
    answer->create_vi.recv_position = created.recv_position;
    answer->reply.create_vi = &answer->create_vi;
}

/* Answer a request about one VI with a code, and with a sentence that explains the code. */
static void answer_vi(struct answer *answer, enum vip_rc rc, uint32_t vi)
{
    switch (rc) {
    case VIP_RC_INVALID_STATE:
        answer_set(answer, rc, "VI %u is not Idle: disconnect it first", vi);
        break;
    case VIP_RC_ERROR_RESOURCE:
        answer_set(answer, rc, "VI %u has descriptors that have not completed", vi);
        break;
    case VIP_RC_INVALID_PTAG:
        answer_set(answer, rc, "VI %u: there is no such protection tag", vi);
        break;
    default:
        answer_set(answer, rc, "there is no VI %u", vi);
        break;
    }
}

void request_destroy_vi(struct client *client, const Vip__Request *request, struct vip_fds *fds,
                        struct answer *answer)
{
    uint32_t vi = request->destroy_vi->vi;

    (void)fds;
    answer_vi(answer,
              nic_vi_destroy(client->session->nic_session, vi, vipd_loop_now(client->vipd->loop)),
              vi);
}

void request_set_vi_attributes(struct client *client, const Vip__Request *request,
                               struct vip_fds *fds, struct answer *answer)
{
    const Vip__ViRequest *r = request->set_vi_attributes;
    struct nic_vi_args args = {0};

    (void)fds;
    if (!read_attrs(r->attributes, &args, answer))
        return;
    answer_vi(answer, nic_vi_set_attrs(client->session->nic_session, r->vi, &args), r->vi);
}

void request_disconnect(struct client *client, const Vip__Request *request, struct vip_fds *fds,
                        struct answer *answer)
{
    uint32_t vi = request->disconnect->vi;

    (void)fds;
    answer_vi(
        answer,
        nic_vi_disconnect(client->session->nic_session, vi, vipd_loop_now(client->vipd->loop)), vi);
}

void request_rebind(struct client *client, const Vip__Request *request, struct vip_fds *fds,
                    struct answer *answer)
{
    uint32_t vi = request->rebind->vi;
    enum vip_rc rc;

    (void)fds;
    snprintf(answer->reason, sizeof(answer->reason),
             "VI %u has no connection of an earlier vipd that waits for a rebind", vi);
    rc = nic_vi_rebind(client->session->nic_session, vi, client->vipd->config->outlive_ns,
                       vipd_loop_now(client->vipd->loop), answer->reason, sizeof(answer->reason));
    answer_why(answer, rc);
}

/* Is fd a socket of the kind that request_cq_fd makes? */
static bool is_cq_socket(int fd)
{
    int type = 0, domain = 0;
    socklen_t len = sizeof(int);

    return getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &len) == 0 && type == SOCK_SEQPACKET &&
           getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &len) == 0 && domain == AF_UNIX;
}

/* Make a CQ with the number of an earlier life of vipd, and with its socket, if it had a socket. */
static void restore_cq(struct client *client, uint32_t cq, struct vip_fds *fds,
                       struct answer *answer)
{
    struct nic_session *session = client->session->nic_session;
    enum vip_rc rc = VIP_RC_INVALID_PARAMETER;

    if (fds->count == 0 || is_cq_socket(fds->fd[0]))
        rc = nic_cq_restore(session, cq);
    if (rc == VIP_RC_SUCCESS && fds->count == 1) {
        rc = nic_cq_set_socket(session, cq, fds->fd[0]); /* on failure, it closes the fd */
        fds->fd[0] = -1;
    }
    answer_set(answer, rc,
               "completion queue %u is in use, is above the limit of [limits] cqs = %llu, or its "
               "descriptor is none",
               cq, (unsigned long long)client->vipd->config->cqs);
    if (rc != VIP_RC_SUCCESS)
        return;
    vip__create_cq_reply__init(&answer->create_cq);
    answer->create_cq.has_cq = true;
    answer->create_cq.cq = cq;
    answer->reply.create_cq = &answer->create_cq;
}

void request_create_cq(struct client *client, const Vip__Request *request, struct vip_fds *fds,
                       struct answer *answer)
{
    uint32_t cq = 0, position = 0;
    enum vip_rc rc;

    if (!answer_room(client, QUOTA_CQS, 1, answer))
        return;
    if (request->create_cq->has_cq) {
        if (answer_claimed(client, answer))
            restore_cq(client, request->create_cq->cq, fds, answer);
        return;
    }
    if (fds->count > 0) {
        client_end(client, CLIENT_END_FDS, "create_cq");
        return;
    }
    answer->reason[0] = '\0';
    rc = nic_cq_create(client->session->nic_session, request->create_cq->entries, &cq, &position,
                       answer->reason, sizeof(answer->reason));
    answer_why(answer, rc);
    if (rc != VIP_RC_SUCCESS)
        return;
    vip__create_cq_reply__init(&answer->create_cq);
    answer->create_cq.has_cq = true;
    answer->create_cq.cq = cq;
    answer->create_cq.has_position = true;
    answer->create_cq.position = position;
    answer->reply.create_cq = &answer->create_cq;
}

void request_destroy_cq(struct client *client, const Vip__Request *request, struct vip_fds *fds,
                        struct answer *answer)
{
    uint32_t cq = request->destroy_cq->cq;
    enum vip_rc rc = nic_cq_destroy(client->session->nic_session, cq);

    (void)fds;
    answer_set(answer, rc,
               rc == VIP_RC_ERROR_RESOURCE ? "a VI is bound to completion queue %u"
                                           : "there is no completion queue %u",
               cq);
}

/*
 * vipd uses a socket, not an eventfd. Both ends of an eventfd are one file, so a program could fill
 * the counter, switch O_NONBLOCK off, and so block the next write of vipd.
 */
void request_cq_fd(struct client *client, const Vip__Request *request, struct vip_fds *fds,
                   struct answer *answer)
{
    uint32_t cq = request->cq_fd->cq;
    int sender, pair[2], small = 1; /* small: the kernel's minimum is enough */
    enum vip_rc rc;

    (void)fds;
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) < 0) {
        answer_set(answer, VIP_RC_ERROR_RESOURCE, "vipd has no descriptor left: %s",
                   strerror(errno));
        return;
    }
    setsockopt(pair[0], SOL_SOCKET, SO_SNDBUF, &small, sizeof(small));
    shutdown(pair[0], SHUT_RD);
    /* libvipl also gets a copy of vipd's end of the pair, because libvipl may have to make the
     * program's end readable itself. */
    sender = fcntl(pair[0], F_DUPFD_CLOEXEC, 0);
    answer->fds.fd[answer->fds.count++] = pair[1];
    if (sender < 0) {
        answer_set(answer, VIP_RC_ERROR_RESOURCE, "vipd has no descriptor left: %s",
                   strerror(errno));
        vip_fds_close(&answer->fds);
        close(pair[0]);
        return;
    }
    answer->fds.fd[answer->fds.count++] = sender;
    rc = nic_cq_set_socket(client->session->nic_session, cq, pair[0]);
    if (rc != VIP_RC_SUCCESS)
        vip_fds_close(&answer->fds);
    answer_set(
        answer, rc,
        rc == VIP_RC_ERROR_RESOURCE
            ? "completion queue %u has a descriptor already, or %d others of this NIC handle "
              "have one, which is the most"
            : "there is no completion queue %u (%d)",
        cq, NIC_CQ_SOCKS_MAX);
}

void request_resize_cq(struct client *client, const Vip__Request *request, struct vip_fds *fds,
                       struct answer *answer)
{
    const Vip__CqRequest *r = request->resize_cq;

    (void)fds;
    answer_set(answer, nic_cq_resize(client->session->nic_session, r->cq, r->entries),
               "completion queue %u cannot get %llu entries: no such queue, or not from 1 to %d",
               r->cq, (unsigned long long)r->entries, VIP_CQ_ENTRIES_MAX);
}

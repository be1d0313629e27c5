/* Requests about loans: a program wants to run the data path of a connection itself. */
#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#include "vipd/client/internal.h"
#include "vipd/nic/loan.h"
#include "vipd/registry/guard.h"
#include "vipd/registry/memfile.h"
#include "vipd/registry/taken.h"

/* Index of the memory for loans in the tables of session. */
#define LOANS 3

/* Map the program's memory for loans. false: the answer says why not. */
static bool map_parts(struct client *client, int fd, struct answer *answer)
{
    struct session *session = client->session;
    const char *fault = segment_app_fault(fd, VIP_LOANS_BYTES);
    struct taken_file *taken = NULL;
    int rc;
    void *base;

    if (fault) {
        answer_set(answer, VIP_RC_INVALID_PARAMETER, "the memory for loans %s", fault);
        return false;
    }
    rc = segment_count(client, fd, &taken);
    if (rc < 0) {
        answer_set(answer, VIP_RC_ERROR_RESOURCE, "vipd cannot count the memory for loans: %s",
                   strerror(-rc));
        return false;
    }
    base = memfile_map(fd, VIP_LOANS_BYTES, 0, false);
    if (!base) {
        answer_set(answer, VIP_RC_ERROR_RESOURCE, "vipd cannot map the memory for loans: %s",
                   strerror(errno));
        taken_put(client->vipd->taken, taken);
        return false;
    }
    (void)nic_session_set_loans(session->nic_session, base); /* the caller knows: it has none */
    session->loan_base = base;
    session->taken[LOANS] = taken;
    session->guard[LOANS] = guard_add(registry_guard(session->registry), base, VIP_LOANS_BYTES);
    return true;
}

void request_loan(struct client *client, const Vip__Request *request, struct vip_fds *fds,
                  struct answer *answer)
{
    const Vip__LoanRequest *r = request->loan;
    struct nic_session *session = client->session->nic_session;
    struct nic_loan_ask ask;
    struct nic_loan_probe *probe = &answer->probe;
    enum vip_rc rc;

    if (nic_loan_fd(session_nic(client)) < 0) {
        answer_set(answer, VIP_RC_ERROR_NOT_SUPPORTED,
                   "this NIC lends no connections: [engine] loan = no, or its link is not plain "
                   "udp over IPv4");
        return;
    }
    if (!nic_session_has_loans(session) && fds->count < 2) {
        answer_set(answer, VIP_RC_INVALID_STATE, "the first request needs the memory for loans");
        return;
    }
    if (!nic_session_has_loans(session) && !map_parts(client, fds->fd[1], answer))
        return;
    if (!answer_room(client, QUOTA_LOANS, 1, answer))
        return;
    ask = (struct nic_loan_ask){.vi = r->vi,
                                .part = r->part,
                                .steady_ns = r->steady_ns,
                                .port = r->port <= UINT16_MAX ? (uint16_t)r->port : 0};
    rc = nic_loan_ask(session, &ask, &fds->fd[0], vipd_loop_now(client->vipd->loop), probe,
                      answer->reason, sizeof(answer->reason));
    answer->reply.code = rc;
    if (rc != VIP_RC_SUCCESS) {
        answer->reply.reason = answer->reason;
        return;
    }
    vip__loan_reply__init(&answer->loan);
    answer->loan.has_probe = true;
    answer->loan.probe.data = probe->packet;
    answer->loan.probe.len = probe->bytes;
    answer->reply.loan = &answer->loan;
}

void request_loan_end(struct client *client, const Vip__Request *request, struct vip_fds *fds,
                      struct answer *answer)
{
    const Vip__LoanEndRequest *r = request->loan_end;
    struct nic_session *session = client->session->nic_session;
    uint64_t now_ns = vipd_loop_now(client->vipd->loop);
    const struct nic_loan_broken broken = {
        .reason = r->reason == VIP_CLOSE_TIMEOUT ? VIP_CLOSE_TIMEOUT : VIP_CLOSE_ERROR,
        .op_status = r->op_status,
        .failed_op = r->failed_op,
        .ops_done = r->ops_done};

    (void)fds;
    answer_set(answer,
               r->has_reason ? nic_loan_broken(session, r->vi, &broken, now_ns)
                             : nic_loan_give_back(session, r->vi, now_ns),
               "there is no VI %u", r->vi);
}

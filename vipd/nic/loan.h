/*
 * Loans of a NIC, for vipd/client. A loan is the data path of one connection that its program runs
 * instead of vipd (vipd/engine/loan.h). This header adds to vipd/nic/nic.h.
 *
 * Owns: the requests of a program for a loan, and what vipd needs to serve loans. Does not own: who
 * gets a loan and when it ends (vipd/engine/loan.c), messages between the ends (vipd/engine/cm_loan.c).
 * Threads: as nic.h.
 */
#ifndef VIPD_NIC_LOAN_H
#define VIPD_NIC_LOAN_H

#include "proto/loan.h"
#include "vipd/nic/nic.h"

/* The binding of a connection that is now on loan. The program's engine goes on with it. */
struct nic_loan_terms {
    uint16_t vi;
    uint32_t generation;    /* of the VI */
    uint32_t number;        /* of the loan: the owner enters the loan with this number only */
    uint32_t receive;       /* number in the table of the receive descriptor that completes next */
    struct eng_conn conn;   /* ids are data ids; `path` and `local` are not used */
    struct vip_counts peer; /* counts of the other end */
    const struct eng_config *engine; /* of the NIC */
    struct link_addr to; /* where the peer's engine runs; the program connects its socket to it */
    struct vip_loan_checkpoint checkpoint; /* at which the loan begins */
};

/* parts: the caller's mapping of VIP_LOANS_BYTES, which the program writes and the session uses
 * from now on. Outcomes: 0; -EBUSY: the session has parts already. */
int nic_session_set_loans(struct nic_session *session, const struct vip_loan_part *parts);
bool nic_session_has_loans(const struct nic_session *session);

/* What a program asks for. */
struct nic_loan_ask {
    uint32_t vi, part;
    uint64_t steady_ns; /* for this time, as it says, the program has polled without a pause */
    uint16_t port;      /* of its socket; 0: it does not say */
};

/* A packet that the program sends by its socket to the peer's NIC, up to three times, every 20 ms,
 * until the loan begins. bytes: its length; 0: the peer cannot be asked now. */
struct nic_loan_probe {
    size_t bytes;
    uint8_t packet[VIP_WIRE_CM_BYTES_MAX];
};

/*
 * The program polls the VI, and offers a socket and a part for a loan. *sock: the socket, not
 * trusted; after SUCCESS the NIC owns it, and *sock is -1. SUCCESS: vipd tries the loan: the program
 * sends *ret, and sink.lent follows if the loan begins; INVALID_PARAMETER (no such VI or part; the
 * socket does not fit); INVALID_STATE (this connection cannot be lent, or it is on loan, or the part
 * is in use); ERROR_RESOURCE (not now: the program may ask again later). `why` explains a failure.
 */
enum vip_rc nic_loan_ask(struct nic_session *session, const struct nic_loan_ask *ask, int *sock,
                         uint64_t now_ns, struct nic_loan_probe *ret, char *why, size_t why_bytes);
/* The program gives its loan back, or does not want one any more. The loan ends when the owner is
 * outside. SUCCESS, also without a loan; INVALID_PARAMETER (no such VI). */
enum vip_rc nic_loan_give_back(struct nic_session *session, uint32_t vi, uint64_t now_ns);

/* How the engine of a program has broken its connection, as the program says. */
struct nic_loan_broken {
    enum vip_close_reason reason;
    uint32_t op_status, failed_op, ops_done; /* as in struct eng_event */
};
/* The program's engine has broken the connection of this VI: end the loan, tell the peer, end the
 * connection. SUCCESS, also without a connection; INVALID_PARAMETER (no such VI). */
enum vip_rc nic_loan_broken(struct nic_session *session, uint32_t vi,
                            const struct nic_loan_broken *broken, uint64_t now_ns);

/* Can the connection of this VI be on loan? If so, *ret is the address of the peer's NIC. A sink may
 * call this function. */
bool nic_loan_host(const struct nic_session *session, uint16_t vi, struct cm_host *ret);

/* The program has rung the bell. The owner of a loan may have a timer that vipd does not know. */
void nic_session_rung(struct nic_session *session, uint64_t now_ns);

/* Descriptor that becomes readable when a socket of a loan needs a turn; -1: this NIC does not
 * lend. */
int nic_loan_fd(const struct nic *nic);

#endif

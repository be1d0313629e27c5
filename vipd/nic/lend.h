/*
 * Loans, for the other files of vipd/nic.
 *
 * Owns: the object of a loan (loan.c), the socket of a loan (loan_sock.c), the table of sends
 * (sends.c).
 */
#ifndef VIPD_NIC_LEND_H
#define VIPD_NIC_LEND_H

#include "vipd/engine/cm_loan.h"
#include "vipd/engine/loan.h"
#include "vipd/nic/loan.h"
#include "vipd/nic/objects.h"
#include "vipd/nic/state.h"

/*
 * The moves of one connection. A connection gets this object when its program first offers a
 * socket, or when its peer first asks to bind anew. It lives as long as the connection.
 */
struct nic_loan {
    struct nic_list link; /* nic->loans while it has ended, or a timer runs */
    uint64_t due_ns;      /* the machine's deadline; 0: it has ended */
    struct nic *nic;
    struct nic_conn *conn;
    struct loan *machine;       /* in the same memory, after this struct */
    struct vip_loan_vipd words; /* vipd's words, if the ABI of the session has no place for them */
    int sock;                   /* vipd's descriptor of the program's socket; -1: none */
    bool watched;               /* LOAN_DO_WATCH */
    bool heard;                 /* the socket is in nic->loan_fd */
    enum loan_state state;      /* of the machine, after the last input */
    uint32_t beat;              /* of the owner, when the program last showed that it polls */
    uint32_t receive;           /* number of a receive descriptor minus its completion's position */
    uint64_t nonce;             /* of the probe */
    uint64_t rtt_ns;            /* round trip that an engine in vipd has measured last; 0: none */
    struct cm_loan_terms offer; /* of this end: the newest request to the peer; number 0: none */
    struct cm_loan_terms answer; /* of this end: the newest answer; number 0: none */
    uint32_t answers;            /* number of the peer's request that `answer` answers */
    struct cm_loan_terms theirs; /* of the peer: its newest request or answer */
    struct cm_host host;         /* address of the socket */
    struct eng_close close; /* if `closes`: how the connection ends when the owner is outside */
    bool closes, broke;
    struct nic_loan_broken broken; /* if `broke`: what the CLOSE says */
    bool tell;                     /* the peer does not know the end yet: send CLOSE */
    struct nic_loan_view seen;
};

/* ---- loan_sock.c ---- */

/* What is wrong with a socket that a program offers for this connection. port: the port that the
 * socket has, as the program says; 0: it does not say. NULL: nothing, and *ret is
 * its address. */
const char *nic_loan_sock_fault(const struct nic_conn *conn, int sock, uint16_t port,
                                struct cm_host *ret);
/* Let data at the socket wake vipd, or not. */
void nic_loan_hear(struct nic_loan *loan, bool hear);
/* Report once more what waits at the socket. */
void nic_loan_hear_again(struct nic_loan *loan);
/* Close vipd's descriptor of the socket. The program's packets have an old data id from now on, or
 * will have one soon. */
void nic_loan_shut(struct nic_loan *loan);
/* Bytes that the peer may have under way to the socket. */
uint32_t nic_loan_window(const struct nic_loan *loan, uint32_t packet_bytes);
/* Get one packet of the socket. Returns its bytes; 0: there is none. */
size_t nic_loan_sock_recv(const struct nic_loan *loan, uint8_t *packet, size_t bytes);
/* The connection ends: free its object. */
void nic_loan_free(struct nic_loan *loan);

/* ---- sends.c ---- */

/* Has the program posted no send to the table of sends? Not trusted. */
bool nic_sends_none(const struct nic_vi *vi);
/* Number of the operation after the last send of the VI, by the submission ring or by the table of
 * sends. The program can make it too large. */
uint32_t nic_sends_posted(struct nic_session *session, uint16_t vi);
/* Give the engine all sends of the VI's table that it does not have. The engine must be in vipd. */
void nic_sends_take(struct nic_session *session, uint16_t vi);
/* The same at the request of the program (VIP_ASK_SENDS). */
void nic_sends_asked(struct nic_session *session, uint16_t vi);
/* A part belongs to one VI: take it for the VI (false: another VI has it, or there
 * is no memory), or give it back. */
bool nic_sends_begin(struct nic_session *session, uint16_t vi, uint32_t part);
void nic_sends_end(struct nic_session *session, uint16_t vi);

/* ---- loan_do.c ---- */

static inline struct nic_vi *nic_loan_vi(const struct nic_loan *loan)
{
    return &loan->conn->session->vis[loan->conn->vi];
}

/* vipd's words of this loan. */
static inline struct vip_loan_vipd *nic_loan_words(struct nic_loan *loan)
{
    bool shared = !loan->conn->session->layout->long_only;

    return shared ? &nic_loan_vi(loan)->head->loan : &loan->words;
}

/* Do the actions in the order of enum loan_do. If one of them fails, the connection ends, and the
 * others are not done. */
void nic_loan_do(struct nic_loan *loan, uint32_t actions);
/* The connection ends because of the loan: decide how, if this is not known, and that the peer must
 * know it. */
void nic_loan_closes(struct nic_loan *loan);

/* ---- loan.c ---- */

/* Implement cm_ops.loan_offered and .loan_agreed. */
void nic_op_loan_offered(void *ctx, uint64_t local_id, const struct cm_loan_terms *theirs);
void nic_op_loan_agreed(void *ctx, uint64_t local_id, uint32_t offered,
                        const struct cm_loan_terms *theirs);
struct nic_loan_view nic_loan_view(const struct nic_conn *conn);
/* Posted descriptors that the owner has not completed, by its own words. The connection is lent. */
void nic_loan_depths(const struct nic_conn *conn, uint32_t *ret_sends, uint32_t *ret_receives);
/* Number of the session's connections for which vipd has a socket of the program. */
uint32_t nic_session_loans(const struct nic_session *session);
/* A new connection is established: it has no loan yet. */
void nic_loan_begin(struct nic_conn *conn);
/*
 * The connection ends. close: how it will end for this end; NULL: it ends at once, at the wish of
 * the program. died: the program is dead. Returns true: the engine is in vipd. false, only with
 * `close`: the owner is inside its loan, and nic_loans_ended will return the connection.
 */
bool nic_loan_over(struct nic_conn *conn, const struct eng_close *close, bool died);
/* The connection manager will bind the connection anew: take its loan back, and forget requests
 * that are under way. Returns whether the engine is in vipd; else the owner is inside. */
bool nic_loan_home(struct nic_conn *conn);
/* Take all loans back, because the program's packets would not be seen. */
void nic_loans_give_back(struct nic *nic);
/* Look at the sockets of loans. Returns whether one of them needed work. */
bool nic_loans_look(struct nic *nic);
/* Handle expired timers. Returns whether there was one. */
bool nic_loans_run(struct nic *nic);
uint64_t nic_loans_deadline(const struct nic *nic);
/* A connection that its loan has ended: call nic_conn_loan_ended. NULL: there is none. */
struct nic_conn *nic_loans_ended(struct nic *nic);

#endif

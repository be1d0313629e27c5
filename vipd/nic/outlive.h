/*
 * How a life of vipd leaves its connections to the next life, and how the next life goes on with
 * them. This header adds to vipd/nic/nic.h.
 *
 * Owns: the checkpoint of a VI (vipd/nic/rebind.c). Threads: as nic.h.
 */
#ifndef VIPD_NIC_OUTLIVE_H
#define VIPD_NIC_OUTLIVE_H

#include "vipd/engine/cm_outlive.h"
#include "vipd/nic/nic.h"

/* ---- the end of a life ------------------------------------------------------------------- */

/*
 * vipd stops, and the next vipd goes on with the session (nic_layout.outlives must be true).
 * Publish the completions so far. After this, nic_session_end sends no CLOSE for connections that
 * can go on; nic_leave tells their peers. The caller must hide from the program what
 * nic_session_end writes. Returns the number of connections that can go on.
 */
uint32_t nic_session_stay(struct nic_session *session);
/* Undo nic_session_stay: the session ends as usual. */
void nic_session_stay_not(struct nic_session *session);
/*
 * vipd stops, and all sessions have ended. Tell the peers of the connections that can go on
 * (nic_session_stay) that the next vipd comes within back_ns (1 to CM_AWAY_NS_MAX). Call nic_close
 * next.
 */
void nic_leave(struct nic *nic, uint64_t back_ns, uint64_t now_ns);

/* ---- the next life ----------------------------------------------------------------------- */

/* Keep a discriminator of an earlier life for its owner, as cm_disc_keep. */
int nic_disc_keep(struct nic *nic, const uint8_t *disc, uint8_t len, uint32_t uid,
                  uint64_t until_ns, uint64_t now_ns);
/* What a later life of vipd must know of a VI to go on with it. Tickets have these bytes
 * (vipd/ticket.h), and vipds of other versions read them: members must not move, and a new one is 0
 * in an older ticket. */
struct nic_vi_checkpoint {
    uint16_t vi;
    uint32_t generation;
    struct nic_vi_args args;
    uint32_t recv_base;   /* number of a receive descriptor - its completion's position */
    bool lost, lost_told; /* lost: its connection cannot go on; lost_told: the program knows it */
    bool connected;       /* its connection can be bound anew; the next members describe it */
    struct cm_host peer;
    uint8_t peer_disc_len;
    struct siphash_key secret;
    bool asked;
    bool lends;        /* both ends have VIP_FEATURE_LOAN */
    uint64_t features; /* without VIP_FEATURE_LOAN, so that a vipd without loans goes on, too */
    uint32_t completed, done; /* arguments of eng_vi_restore */
};
_Static_assert(sizeof(struct nic_vi_checkpoint) == 128, "bytes of a ticket");
/* Publish all completions of a VI of this life, and get its checkpoint. false: no such VI. */
bool nic_vi_checkpoint(struct nic_session *session, uint32_t vi, struct nic_vi_checkpoint *ret);
/* As nic_vi_checkpoint, but without `completed` and `done`, which nic_vi_recover fills in. This
 * function changes nothing, so the sink may call it. */
bool nic_vi_identify(const struct nic_session *session, uint32_t vi, struct nic_vi_checkpoint *ret);
/* What a program says of a loan that the earlier life had not taken back. */
struct nic_past_loan {
    uint32_t number; /* of the loan; 0: nothing */
    bool used;       /* the next member is set */
    struct vip_loan_checkpoint at;
};
/*
 * The life that made this checkpoint was killed: fill in `completed` and `done` from its
 * vipd-writes segment. `connected` becomes false if the VI was not Connected any more, if a
 * descriptor had completed with an error that ends the connection, or if the VI's ring was over,
 * here or at the other end, or if the VI was on loan and loan->number is another number. `lost`
 * becomes true if the VI had a connection and `connected` is false. A value in the segment that no
 * vipd can have written is replaced.
 */
void nic_vi_recover(void *vipd_base, struct nic_vi_checkpoint *past,
                    const struct nic_past_loan *loan);
/* What a program says about the ring of its VI. If the VI has a ring, past.recv_base is smaller by
 * the number of messages that the program has taken from the ring. */
struct nic_past_ring {
    int fd;         /* file of the ring; the caller closes it */
    unsigned half;  /* the VI sends on way[half] */
    uint32_t first; /* number of the receive descriptor for message 0 */
};
/*
 * Make a VI as it was in an earlier life. The session has the vipd-writes segment and the CQs of
 * that life. If past.connected or past.lost is true, the VI becomes Connected, and vipd sends
 * nothing. Then the program posts again, in order, the descriptors that have not completed. Then
 * call nic_vi_rebind. Outcomes: as nic_vi_create; INVALID_PARAMETER: the number is in use or too
 * large; ERROR_NOT_SUPPORTED: vipd lacks a feature of the connection.
 */
enum vip_rc nic_vi_restore(struct nic_session *session, const struct nic_vi_checkpoint *past,
                           uint64_t now_ns, char *why, size_t why_bytes);
/*
 * As nic_vi_restore, but with the VI's ring; NULL: the program brings none. A connection that had a
 * ring is lost if the program does not bring the ring. One more outcome, ERROR_NOT_SUPPORTED: vipd
 * refuses the ring, and nothing has changed: call nic_vi_restore instead.
 */
enum vip_rc nic_vi_restore_ring(struct nic_session *session, const struct nic_vi_checkpoint *past,
                                const struct nic_past_ring *ring, uint64_t now_ns, char *why,
                                size_t why_bytes);
/* Ask the other end to bind the connection anew. The connection is lost if no answer comes within
 * timeout_ns. It is lost at once if it was restored as lost, or if vipd cannot ask. SUCCESS;
 * INVALID_PARAMETER (no such VI); INVALID_STATE (no connection to bind anew, or asked before). */
enum vip_rc nic_vi_rebind(struct nic_session *session, uint32_t vi, uint64_t timeout_ns,
                          uint64_t now_ns, char *why, size_t why_bytes);
/* Make a CQ with the number that it had in an earlier life. SUCCESS; INVALID_PARAMETER: the number
 * is in use or too large. */
enum vip_rc nic_cq_restore(struct nic_session *session, uint32_t cq);
/* For a restored VI: write `count` CQ entries again, for completions of the queue whose entries the
 * program has not got. */
void nic_vi_entries_again(struct nic_session *session, uint16_t vi, enum vip_queue queue,
                          uint32_t count);

#endif

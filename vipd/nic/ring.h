/*
 * Rings between two programs of this NIC, for the other files of vipd/nic.
 *
 * Owns: rings made in this life of vipd (direct.c), and rings of an earlier life (direct_again.c).
 */
#ifndef VIPD_NIC_RING_H
#define VIPD_NIC_RING_H

#include "vipd/nic/outlive.h"
#include "vipd/nic/state.h"

/* ---- direct.c ---- */

/* Make a ring for this connection, if both ends are established on this NIC and may have a ring. */
void nic_direct_begin(struct nic_conn *conn);
/* Implements eng_ops.fetch_receives. If `all` is true, it also ends the VI's ring. */
void nic_op_fetch_receives(void *ctx, uint16_t vi, bool all);
/*
 * nic_direct_reset: the VI has just been created. state: what its program sees. NONE: no ring;
 * LOST: the VI had a ring in an earlier life, and this ring is lost; OPEN: the ring of the earlier
 * life goes on, and the caller must call nic_direct_restore. nic_direct_drop: the VI ends.
 */
void nic_direct_reset(struct nic_session *session, uint16_t vi, enum vip_ring_state state);
void nic_direct_drop(struct nic_session *session, uint16_t vi);
/* nic_direct_ask takes a slot of kind VIP_SQ_ASK: a request of the program for a VI that exists.
 * nic_direct_asked drops the program's requests for this VI: they are done or out of date. */
void nic_direct_ask(struct nic_session *session, uint16_t vi, uint8_t ask);
void nic_direct_asked(struct nic_vi *vi);
/* The program has not taken the VI's ring: end the ring at both ends, if it is unused. */
void nic_direct_not_taken(struct nic_session *session, uint16_t number);
/* The VI's connection is bound anew: now serve the requests that the program made meanwhile. */
void nic_direct_ask_again(struct nic_session *session, uint16_t vi);
/*
 * For direct_again.c. nic_ring_new: make a ring without ends in the memfd fd, which the caller
 * still closes; NULL: no memory. nic_ring_join: add an end; first: the receive descriptor of
 * message 0. nic_ring_free: free a ring that has no ends.
 */
struct nic_ring *nic_ring_new(struct nic *nic, int fd);
void nic_ring_join(struct nic_ring *ring, unsigned half, struct nic_session *session, uint16_t vi,
                   uint32_t first);
void nic_ring_free(struct nic_session *session, struct nic_ring *ring);
/* Call this after a change of nic->see. While nic->see is set, programs must send through vipd;
 * while it is NULL, they may use rings. A program that looked before the change may still send one
 * message as before. */
void nic_direct_watched(struct nic *nic);

/* ---- direct_again.c ---- */

/*
 * Find the ring that the program of a VI of an earlier life has brought. Next call
 * nic_direct_restore or nic_direct_find_drop. NULL: *ret_fault says why vipd does not go on with
 * the ring.
 */
struct nic_ring *nic_direct_find(struct nic_session *session, const struct nic_vi_checkpoint *past,
                                 const struct nic_past_ring *told, const char **ret_fault);
void nic_direct_find_drop(struct nic_session *session, struct nic_ring *ring);
/* The VI has been made again: it goes on with the ring. */
void nic_direct_restore(struct nic_session *session, uint16_t vi, struct nic_ring *ring,
                        const struct nic_past_ring *told);
/* Did the VI have an open ring in the earlier life? */
bool nic_direct_was_open(const struct nic_session *session, uint16_t vi);
/* For an established connection: do both ends have the same ring, or no ring? */
bool nic_direct_matches(const struct nic_conn *conn);

#endif

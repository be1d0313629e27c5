/*
 * Rings between two programs of this NIC, for the other files of vipd/nic.
 *
 * Owns: the ring of a VI while its connection lives (direct.c), and over an end of vipd (direct_again.c).
 */
#ifndef VIPD_NIC_RING_H
#define VIPD_NIC_RING_H

#include "vipd/nic/outlive.h"
#include "vipd/nic/state.h"

/* ---- direct.c ---- */

/* Give both ends of this connection a ring if both are established on this NIC and may have one. */
void nic_direct_begin(struct nic_conn *conn);
/* eng_ops.fetch_receives; `all` also ends the VI's ring. */
void nic_op_fetch_receives(void *ctx, uint16_t vi, bool all);
/*
 * reset: the VI has just been created. state: what its program sees of a ring: NONE; LOST: an
 * earlier life had a ring, and this one does not go on with it; OPEN: the ring goes on, and
 * nic_direct_restore must follow. drop: the VI ends.
 */
void nic_direct_reset(struct nic_session *session, uint16_t vi, enum vip_ring_state state);
void nic_direct_drop(struct nic_session *session, uint16_t vi);
/* ask: take a slot of kind VIP_SQ_ASK for a VI that exists. asked: drop what the program asked for
 * this VI, because it is done or out of date. */
void nic_direct_ask(struct nic_session *session, uint16_t vi, uint8_t ask);
void nic_direct_asked(struct nic_vi *vi);
/* The program has not taken the VI's ring: end the ring at both ends, if it is unused. */
void nic_direct_not_taken(struct nic_session *session, uint16_t number);
/* The VI's connection is bound anew: serve what its program asked for meanwhile. */
void nic_direct_ask_again(struct nic_session *session, uint16_t vi);
/*
 * For direct_again.c. new: a ring without ends in the memfd fd, which stays the caller's; NULL: no
 * memory. join: this end joins. first: the receive of message 0. free: the ring has no end.
 */
struct nic_ring *nic_ring_new(struct nic *nic, int fd);
void nic_ring_join(struct nic_ring *ring, unsigned half, struct nic_session *session, uint16_t vi,
                   uint32_t first);
void nic_ring_free(struct nic_session *session, struct nic_ring *ring);
/* Call after a change of nic->see. If it is set, programs must send through vipd; if it is NULL,
 * they may use rings again. A program that looked before the change still sends one message the old
 * way. */
void nic_direct_watched(struct nic *nic);

/* ---- direct_again.c ---- */

/*
 * The ring that the program of a VI of an earlier life has brought. Then call restore, or drop the
 * ring. NULL: *ret_fault says why vipd does not go on with it.
 */
struct nic_ring *nic_direct_find(struct nic_session *session, const struct nic_vi_checkpoint *past,
                                 const struct nic_past_ring *told, const char **ret_fault);
void nic_direct_find_drop(struct nic_session *session, struct nic_ring *ring);
/* The VI exists: it goes on with the ring. */
void nic_direct_restore(struct nic_session *session, uint16_t vi, struct nic_ring *ring,
                        const struct nic_past_ring *told);
/* In the earlier life: did the VI have an open ring? */
bool nic_direct_was_open(const struct nic_session *session, uint16_t vi);
/* Both ends of the connection, which is established here, have the same ring, or none. */
bool nic_direct_matches(const struct nic_conn *conn);

#endif

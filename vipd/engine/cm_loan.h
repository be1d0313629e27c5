/*
 * The part of connection management (vipd/engine/cm.h) for connections on loan (loan.h): the
 * messages by which both ends bind a connection anew when the engine of one end moves, and the
 * probe over the socket of a loan.
 *
 * The connection ids of an association (local_id, remote_id) stay when an engine moves. But each
 * binding gives each end another *data id*: the connection id in the header of data packets to this
 * end. So packets of an earlier binding belong to no connection. Without a binding by these
 * messages, the data ids are the connection ids. A REBIND gives an end a new connection id, which
 * then also is its data id.
 *
 * Owns: data ids, messages and their checks (cm_loan.c). Does not own: when an engine moves, the
 * repetition of messages, old numbers (loan.c); the sockets.
 */
#ifndef VIPD_ENGINE_CM_LOAN_H
#define VIPD_ENGINE_CM_LOAN_H

#include "vipd/engine/cm.h"

/* What an end says of its new binding. */
struct cm_loan_terms {
    uint32_t number;       /* of the end's binding (loan_number), not 0 */
    uint64_t data_id;      /* data id of the end from now on, not 0 */
    bool out;              /* the end's engine runs in a program and gets packets at `host` */
    struct cm_host host;   /* address of the loan; valid if `out` */
    uint32_t packet_bytes; /* largest packet that the end accepts, 512 to 65507 */
    uint32_t window_bytes; /* bytes that may be under way to the end, at least 512 */
    struct vip_counts counts;
};

/*
 * Send LOAN_OFFER to the other end of association local_id, once. It may get lost; the host
 * repeats it. The answer comes as cm_ops.loan_agreed. If the peer's vipd is dead or away,
 * cm_loan_offer sends nothing. ours: the terms of this end; if `out`, ours->host has the length of
 * the peer's address.
 * Outcomes: 0; -ENOENT: no open association has this id; -EPROTO: the connection lacks
 * VIP_FEATURE_LOAN.
 */
int cm_loan_offer(struct cm *cm, uint64_t local_id, const struct cm_loan_terms *ours,
                  uint64_t now_ns);
/* Send LOAN_AGREE, once: the answer to the peer's LOAN_OFFER with the number `offered`, not 0. The
 * rest is as for cm_loan_offer. */
int cm_loan_agree(struct cm *cm, uint64_t local_id, uint32_t offered,
                  const struct cm_loan_terms *ours, uint64_t now_ns);

/*
 * The other end of association local_id has the data id `data_id` (not 0) from now on: the host
 * sends packets with it. A RESET ends the connection only if it names this id. Before the first
 * call, the data id is the remote_id of the association. If no association has the id local_id,
 * nothing happens.
 */
void cm_loan_data_id(struct cm *cm, uint64_t local_id, uint64_t data_id);

/*
 * Make a LOAN_PROBE with this nonce (not 0) for association local_id: a whole packet, with its
 * checksum. The host sends it over the socket of the program, to the address of the peer. Returns
 * its length in bytes. 0: there is no open association with this id and VIP_FEATURE_LOAN, or the
 * peer's vipd is dead or away.
 */
size_t cm_loan_probe(struct cm *cm, uint64_t local_id, uint64_t nonce,
                     uint8_t packet[VIP_WIRE_CM_BYTES_MAX]);
/* Is this packet the LOAN_PROBED that answers the LOAN_PROBE with this nonce? The packet came from
 * the address of the peer over the socket of the program. It may have any contents. */
bool cm_loan_probed(struct cm *cm, uint64_t local_id, uint64_t nonce, const uint8_t *packet,
                    size_t len_bytes);

#endif

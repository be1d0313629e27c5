/*
 * Declarations that the files of vipd/nic share. No other file includes this.
 *
 * The files, with their contents (ORDER has them from bottom to top). nic.c: opening, closing, the
 * turn; share.c: time of users; session.c: sessions; sq.c: submission rings; post.c: a posting;
 * vi.c: VIs and CQs; conn.c: connection ids; connect.c: the beginning of connections; conn_end.c:
 * the end of connections; rebind.c: connections that are bound anew; wait.c: waits and listeners;
 * tx.c, self.c: packets that leave; rx.c: packets that arrive; source.c, held.c: bytes of packets;
 * place_ask.c, place.c: copying payload to memory; resolve.c: payload of packets that leave;
 * direct.c, direct_again.c: rings of two programs; loan.c, loan_sock.c, sends.c: loans;
 * complete.c: completions and wake-ups; backlog.c: entries of full CQs; kept_bytes.c: memory for
 * descriptors; see.c: captures; view.c, view_objects.c, stats.c: views; map.c: pages; random.c:
 * random numbers.
 */
#ifndef VIPD_NIC_INTERNAL_H
#define VIPD_NIC_INTERNAL_H

#include "proto/capture.h"
#include "vipd/nic/lend.h"
#include "vipd/nic/share.h"
#include "vipd/nic/outlive.h"
#include "vipd/nic/ring.h"
#include "vipd/nic/state.h"

/* Error text: another user owns the discriminator at which a session wants to wait, or to connect
 * peer to peer. */
#define NIC_WHY_OWNER                                                                              \
    "the discriminator belongs to another user, whose program waits on it or did a moment ago: "   \
    "choose another one"

/* random.c: returns the NIC's next random number. */
uint64_t nic_random(struct nic *nic);

/* share.c: processor time. Call nic_share_begin when a turn begins: it finds the sessions that have
 * work. Call nic_share_end when the turn ends. */
void nic_share_begin(struct nic *nic);
void nic_share_end(struct nic *nic);
/* Slow path of nic_share_due, for turns in which several sessions have work. */
bool nic_share_first(struct nic_session *session);
/*
 * Has this turn passed over a session, and does a session that was served still have work? Then the
 * caller serves the sessions once more: a new turn would cost much more than a few slots.
 */
bool nic_share_ahead(const struct nic *nic);
/* Let the sessions that were passed over use the rest of the turn, if no session that was served
 * has work left, or if the turn did nothing (`did` is false). Returns whether they may use it. */
bool nic_share_open(struct nic *nic, bool did);
/* Slow path of nic_share_switch (nic_share_pass) and of nic_share_worked (nic_share_look). */
void nic_share_pass(struct nic *nic, struct nic_session *session);
bool nic_share_look(struct nic *nic);

/* May vipd work for this session now? false: in this turn other sessions come first. */
static inline bool nic_share_due(struct nic_session *session)
{
    return !session->nic->meter.contended || nic_share_first(session);
}

/* Did the session have work when the turn began? Always true for the only session of a NIC. */
static inline bool nic_share_had_work(const struct nic_session *session)
{
    const struct nic *nic = session->nic;

    return nic->sessions.next == nic->sessions.prev || session->share.turn == nic->counts.turns;
}

/* From now on, charge vipd's processor time to this session; NULL: to no session. Returns the
 * session that was charged before. */
static inline struct nic_session *nic_share_switch(struct nic *nic, struct nic_session *session)
{
    struct nic_session *before = nic->meter.session;

    if (nic->meter.contended && before != session)
        nic_share_pass(nic, session);
    return before;
}

/* Count units of work that were done. Returns whether the turn's time is over. */
static inline bool nic_share_worked(struct nic *nic, unsigned units)
{
    nic->meter.units += units;
    return nic->meter.units < NIC_UNITS ? nic->meter.over : nic_share_look(nic);
}
/* nic_user_join: the user of a new session; NULL: no memory. nic_user_leave: this session ends. */
struct nic_user *nic_user_join(struct nic *nic, uint32_t uid);
void nic_user_leave(struct nic_session *session);
void nic_users_deinit(struct nic *nic);
/* A pool that users share. have: the amount that this user has; used: the amount that all users
 * have together; max: the size of the pool. */
struct nic_pool {
    uint64_t have, used, max;
    uint64_t small;   /* a user with at most this amount is small */
    uint64_t reserve; /* the last free part of the pool, only for small users */
    unsigned times;   /* a user above `small` has at most `times` * (free part - reserve) */
};
/* May the user take `more` of the pool? The rule leaves a part for users that come later. */
bool nic_pool_room(const struct nic_pool *pool, uint64_t more);

/* conn.c: the table of connection ids. */
struct nic_conn *nic_conn_new(struct nic_session *session, uint16_t vi, enum nic_conn_state state);
void nic_conn_free(struct nic_conn *conn);
/* Make a random id, which the caller may give to the connection. Does not change the connection. */
uint64_t nic_conn_id(const struct nic_conn *conn);
/* Give the connection a new id. From now on, nic_conn_find does not find it by the old id. */
void nic_conn_renew(struct nic_conn *conn);
struct nic_conn *nic_conn_find(const struct nic *nic, uint64_t local_id);
struct nic_conn *nic_conn_of_data(const struct nic *nic, uint64_t data_id);
/* Can the next life of vipd go on with the connection? */
bool nic_conn_goes_on(const struct nic_conn *conn);
/* Report to the session's owner whether a connection of an earlier life goes on (sink.rebound). */
void nic_rebound_tell(const struct nic_conn *conn, const char *why);
/* Returns how a connection is bound, for views; conn may be NULL. */
struct nic_binding_view nic_conn_binding(const struct nic_conn *conn);
void nic_conn_set_peer(struct nic_conn *conn, uint32_t peer);
void nic_conns_deinit(struct nic *nic);

/* connect.c */
extern const struct cm_ops nic_cm_ops;
/* Deliver packets that the connection manager has sent to its own NIC. false: there were none. */
bool nic_cm_loop_run(struct nic *nic);
/* conn_end.c */
/* Send a CLOSE. Call this before nic_conn_free: op_send finds the user by the connection. */
void nic_close_send(struct nic *nic, const struct cm_close_args *args);
/* The other end of the connection has ended: the VI enters Error, the program gets CONN_LOST. */
void nic_conn_lost(struct nic_conn *conn, const struct eng_close *close);
/* rebind.c */
/* Is `host` the address of this NIC? */
bool nic_is_self(const struct nic *nic, const struct cm_host *host);
/* Establish the connection with the peer of `result`; the connection keeps its local_id. Returns
 * the arguments for the engine. */
struct eng_conn nic_conn_bind(struct nic_conn *conn, const struct cm_conn *result);
/* Operations that the connection manager calls (cm_ops). */
void nic_op_away(void *ctx, uint64_t local_id);
uint64_t nic_op_other_id(void *ctx, uint64_t local_id);
bool nic_op_rests(void *ctx, uint64_t local_id);
bool nic_op_rebind(void *ctx, uint64_t local_id, const struct cm_conn *result,
                   const struct vip_counts *theirs, struct vip_counts *ours);
void nic_op_rebound(void *ctx, uint64_t local_id, enum vip_rc rc, const struct cm_conn *result,
                    const struct vip_counts *theirs, const char *why);
/* vi.c: make a VI of an earlier life again, with the same number, generation and positions. ring:
 * the VI goes on with its ring. Outcomes: as nic_vi_create; INVALID_PARAMETER also if the number is
 * in use or too large. */
enum vip_rc nic_vi_create_as(struct nic_session *session, const struct nic_vi_checkpoint *past,
                             bool ring, char *why, size_t why_bytes);
/* The features (VIP_FEATURE_*) of this NIC. */
static inline uint64_t nic_features(const struct nic *nic)
{
    uint64_t loan = nic->loan_fd < 0 ? VIP_FEATURE_LOAN : 0;

    return (VIP_FEATURES | nic->config.more) & ~(nic->config.without | loan);
}

/* End a connection in any state: tell the peer, free the connection. If ops_valid is true, ops_done
 * is the result of eng_vi_disconnect. */
void nic_conn_close(struct nic_conn *conn, enum vip_close_reason reason, bool ops_valid,
                    uint32_t ops_done);
/* End a connection that nic_loans_ended has returned. */
void nic_conn_loan_ended(struct nic_conn *conn);
/* The engine has broken the connection (ENG_EVENT_BROKEN). */
void nic_conn_broken(struct nic_conn *conn, const struct eng_event *event);

/* wait.c */
/* The unanswered request with this handle, or NULL. */
struct nic_waiter *nic_waiter_of_handle(const struct nic_session *session, uint64_t handle);
void nic_waiter_remove(struct nic_session *session, struct nic_waiter *wait);
/* Withdraw the waits of a session that ends, and reject at most *ends requests, as nic_session_end
 * does. false: requests are left. */
bool nic_waiters_end(struct nic_session *session, unsigned *ends);
/* Implements cm_ops.incoming. */
void nic_op_incoming(void *ctx, uint64_t wait_id, uint64_t handle, const struct vip_addr *remote,
                     const struct vip_cm_attrs *attrs, const struct vip_private *data);

/* sq.c: take at most `budget` slots of the submission ring. All calls of one turn together take
 * at most as many slots as the ring has. One slot can cost much: it can make vipd take all
 * descriptors of a queue from a table. Returns how many slots and how many such descriptors were
 * taken. cut: stop when the turn's time is over, or when both together are `budget`. */
unsigned nic_session_drain(struct nic_session *session, unsigned budget, bool cut);
/* Take all postings that the program has made so far. A turn calls this before it processes an
 * event that must come after them. All calls of one turn together take at most as many slots as the
 * ring has. Does nothing while the session is throttled. */
void nic_session_fetch(struct nic_session *session);
/*
 * A control request of the program begins: take all postings made before the request, even if the
 * session is throttled. (The program waits for the answer, so it cannot make many requests in a
 * turn.) No function marks the end of a request: the next turn wakes sleepers and replays packets.
 */
void nic_begin(struct nic_session *session, uint64_t now_ns);
/* session.c: publish to libvipl how long VipDisconnect lingers (the NIC's present linger_ns). */
void nic_session_set_linger(struct nic_session *session);
/* post.c: has the program written the next slot of the submission ring? */
bool nic_session_has_posts(const struct nic_session *session);
/* A posting failed: charge the session NIC_FAULT_NS (nic_session_throttled). */
void nic_session_fault(struct nic_session *session);
/* post.c: may vipd report one more error to the program? If so, this function counts the report. */
bool nic_session_may_tell(struct nic_session *session);
void nic_session_post(struct nic_session *session, const struct eng_post *post);
/* The time at which vipd takes postings of a throttled session again; 0: now. */
uint64_t nic_session_resumes_ns(const struct nic_session *session);

/* The VI with this number; NULL if there is none. */
static inline struct nic_vi *nic_vi_get(const struct nic_session *session, uint32_t vi)
{
    if (vi >= session->vi_high || !session->vis[vi].used)
        return NULL;
    return &session->vis[vi];
}

/* vi.c */
/* Latency histograms of a VI; NULL: this VI is not measured, or does not exist. */
struct eng_latency *nic_vi_latency(const struct nic_session *session, uint16_t number);
void nic_vi_drop(struct nic_session *session, uint16_t vi);
/* Make the engine's part of a VI anew: Idle, with empty queues. The descriptors in the old queues do
 * not complete. */
void nic_vi_engine_again(struct nic_session *session, uint16_t vi);
/* Report CONN_LOST to the application; only the first call for a connection reports it. */
void nic_vi_lost(struct nic_session *session, uint16_t vi, const char *why);

/* map.c: map zeroed pages, which take no memory until they are used; NULL: failure. registry_unmap
 * frees them. */
void *nic_map(size_t bytes);

/* stats.c */
void nic_stats_add(struct eng_vi_stats *sum, const struct eng_vi_stats *one);
/* The VI gets a part for loans: from now on its counters have a past. False: no memory. */
bool nic_past_begin(struct nic_vi *vi);
/* Keep the counters: the VI loses its part; another engine takes the place of the VI's engine. */
void nic_past_part_ends(struct nic_vi *vi);
void nic_past_engine_ends(struct nic_session *session, uint16_t vi);
/* Add the counters of earlier engines, and what the program has counted on loan. */
void nic_past_add(const struct nic_vi *vi, struct eng_vi_stats *sum);
void nic_past_free(struct nic_vi *vi);

/* kept_bytes.c: allocate memory for descriptors. NULL: the session or its user has reached a limit,
 * or there is no memory. */
void *nic_kept_alloc(struct nic_session *session, size_t bytes);
void nic_kept_free(struct nic_session *session, void *memory, size_t bytes);
/* Get a block of NIC_KEPT_BLOCK bytes, if possible a spare block. NULL: as nic_kept_alloc. */
void *nic_kept_block(struct nic_session *session);
/* Add a chain of blocks to the spare blocks, in O(1). The limits count blocks until they are
 * freed. */
void nic_kept_spare(struct nic_session *session, struct nic_kept_block *first,
                    struct nic_kept_block *last);
/* Free at most `most` spare blocks. Returns the number of blocks that it has freed. */
unsigned nic_kept_spares_free(struct nic_session *session, unsigned most);

/* backlog.c. nic_backlog_add appends an entry; false: no memory. nic_backlog_take removes the first
 * entry; false: the VI of this entry was destroyed, so drop the entry. */
bool nic_backlog_add(struct nic_session *session, struct nic_backlog *backlog,
                     const struct nic_cqe *entry);
bool nic_backlog_take(struct nic_session *session, struct nic_backlog *backlog,
                      struct nic_cqe *ret);
/* The VI is destroyed: its entries no longer count in backlog->live. */
void nic_backlog_forget(struct nic_backlog *backlog, struct nic_vi *vi, unsigned queue);
/* Empty the backlog: all its blocks become spare. */
void nic_backlog_free(struct nic_session *session, struct nic_backlog *backlog);

/* complete.c */
/* The VI is connected: write what the next life of vipd must know of its operations. */
void nic_commit_begin(struct nic_session *session, uint16_t vi);
/* The program has completed `sends` descriptors of the send queue and `receives` of the receive
 * queue on loan. vipd's next completions get the positions after these. */
void nic_completed_elsewhere(struct nic_session *session, uint16_t vi, uint32_t sends,
                             uint32_t receives);
/* First use of a VI number in this life: read the VI's head, rings and positions from the
 * segment. */
void nic_positions_read(struct nic_session *session, uint16_t vi);
/* Prepare the completion rings of a new VI. */
void nic_comps_begin(struct nic_session *session, uint16_t vi);
/* First use of a CQ number in this life: read the position of the CQ's ring from memory. */
void nic_cq_position_read(struct nic_session *session, uint32_t cq);
void nic_op_complete(void *ctx, uint16_t vi, enum vip_queue queue, uint32_t status, uint32_t length,
                     uint64_t imm);
void nic_deferred_publish(struct nic *nic);
void nic_deferred_publish_of(struct nic_session *session, int32_t vi);
/* Wake the sleepers of the queue although vipd wrote no completion, e.g. for a direct ring. */
void nic_wake_also(struct nic_session *session, uint16_t vi, enum vip_queue queue);
/* Ask libvipl to place the collected bytes (place_ask.c). Then execute a full barrier, and wake the
 * sleepers of all queues and CQs that got completions since the last call. Call this in each turn,
 * when the list of queues to wake is full, and before a CQ or a session ends. */
void nic_wake_flush(struct nic *nic);
/* Move some entries from the backlog of one CQ of the session into the ring of this CQ. false: no
 * ring of the session has room for an entry. */
bool nic_backlog_serve(struct nic_session *session);
void nic_cq_forget_vi(struct nic_session *session, struct nic_vi *vi, enum vip_queue queue);
void nic_cq_deinit(struct nic_session *session, struct nic_cq *cq);

/* place_ask.c */
/* Ask libvipl to place the bytes that were collected in nic->place. */
void nic_place_flush(struct nic *nic);
/*
 * Ask libvipl to copy bytes of a staged region. For an RDMA Write: from the region's "in" half to
 * the program's memory. For an RDMA Read: from the program's memory to the region's "out" half.
 * frame: NULL: libvipl places the bytes late, after their acknowledgement.
 */
void nic_place_ask(struct nic_session *session, const struct eng_access *access,
                   const struct vip_frame *frame);

/* place.c */
bool nic_op_check(void *ctx, const struct eng_access *access);
bool nic_op_place(void *ctx, const struct eng_access *access, uint32_t payload_offset);
/* Has the library placed all ranges of the session's first parked packet? */
bool nic_placed_any(const struct nic_session *session);
struct registry_vi nic_registry_vi(const struct nic_vi *vi);
enum nic_stage {
    NIC_STAGE_NO = 0, /* nothing to do first: give the packet to the engine */
    NIC_STAGE_PARKED, /* vipd keeps the packet; its bytes belong to the session now */
    NIC_STAGE_DROP,   /* drop the packet; the peer sends it again */
};
/* Park the packet if libvipl must copy bytes for it. replay: the held packet that eng_replay has
 * named, which this function parks; NULL: the packet is new. */
enum nic_stage nic_stage(struct nic_conn *conn, const struct vip_packet *packet,
                         struct nic_src *src, struct nic_held *replay);
/* Sums of the engine's counters of a VI, of its ring and of its past. Does not count the receive
 * descriptors in the program's table. So it reads no page of the table for a VI that never had a
 * ring. */
void nic_vi_counts(const struct nic_session *session, uint16_t vi, struct eng_vi_stats *ret);

/* source.c */
/* Give the bytes of a packet back to the link, or to the heap. */
void nic_src_release(struct nic *nic, const struct nic_src *src);
/*
 * Copy `len` bytes at `offset` of the packet. With loopback, source and target may overlap.
 * Outcomes: true; false: a page was missing (vipd/registry/guard.h), so the copy is not valid.
 */
bool nic_src_copy(const struct nic_src *src, uint32_t offset, void *to, uint32_t len);
/* Must vipd copy the bytes in order to keep them? True for a loopback packet, and for a packet in a
 * scarce buffer of the link. */
bool nic_src_must_copy(const struct nic_src *src);
/* Copy the bytes of src to memory that src owns. false: no memory, or a missing page: src is as
 * before. */
bool nic_src_own(struct nic *nic, struct nic_src *src);

/* held.c */
/* Keep src's bytes in a slot. NULL: no slot is free, or no memory to copy a loopback packet. */
struct nic_held *nic_held_new(struct nic_conn *conn, struct nic_src *src);
void nic_held_free(struct nic *nic, struct nic_held *held);
/* May the session keep one more packet of `len` bytes that is ahead of its turn, or parked? */
bool nic_held_room(const struct nic_session *session, uint32_t len);
/* Free the slot but not the packet's bytes. */
void nic_held_slot_free(struct nic *nic, struct nic_held *held);
struct nic_src nic_held_src(const struct nic_held *held);

/* resolve.c */
/* Resolve the pieces of a packet to addresses. false: the registry allows no access to a piece. */
bool nic_tx_resolve(struct nic_session *session, struct path_tx *tx);

/* rx.c */
/* If no packet of the last batch is left, take the next batch from the link. Returns whether there
 * are packets to process. */
bool nic_rx_take(struct nic *nic);
/* Process the packets that nic_rx_take has taken, until the turn's time is over. */
void nic_rx_process(struct nic *nic);
/* The NIC ends: give the packets that were not processed back to the link. */
void nic_rx_forget(struct nic *nic);
/* Give a decoded packet to the engine. true: src's bytes are kept; false: the caller frees them. */
bool nic_rx_feed(struct nic_conn *conn, const struct vip_packet *packet, struct nic_src *src);
/* Replay some of the held packets that the engine can process now; none if the time of the NIC's
 * turn is over. nic_rx_feed calls this after each packet; otherwise the engine would have to hold
 * the next packets, too. A stage of the turn replays the remaining held packets. */
void nic_rx_replay(struct nic_session *session);
void nic_rx_orphans(struct nic_session *session); /* forget held packets of a destroyed VI */
/* libvipl has placed all ranges of a parked packet: give it to the engine, and free its slot. */
void nic_rx_resume(struct nic_held *held);

/* tx.c: pull packets from the engines and send them. Returns whether there were any packets. */
bool nic_tx_run(struct nic *nic);
void nic_tx_forget(struct nic *nic, const struct nic_session *session);
/* self.c: deliver a pulled packet to the connection's other end, in a session of this NIC. */
void nic_loop_deliver(struct nic *nic, struct nic_conn *from, struct nic_tx *tx);

/* ---- see.c: events for vipctl capture; only while nic->see is set ---- */

void nic_see_packet(struct nic *nic, enum vip_capture_kind kind, const struct nic_tx *tx);
/* The NIC received a packet. conn: its connection; NULL: the packet is a CM packet. */
void nic_see_received(struct nic *nic, const struct nic_conn *conn, const struct link_rx *rx);
/* Report an event of a descriptor: the vi, queue, length and status of `desc`. */
void nic_see_descriptor(const struct nic_session *session, enum vip_capture_kind kind,
                        const struct nic_deferred *desc);

#endif

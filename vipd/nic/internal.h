/*
 * Declarations that the files of vipd/nic share. No other file includes this.
 *
 * The files (ORDER has them from bottom to top): nic.c opening, closing, the turn; share.c
 * processor time of users; session.c sessions; sq.c their submission ring; post.c a posting; vi.c
 * VIs and CQs; conn.c the table of connection ids; conn_end.c the end of connections; rebind.c
 * connections that are bound anew; connect.c the glue to the connection manager; wait.c waits and listeners; tx.c and self.c packets that leave; rx.c packets that arrive;
 * source.c and held.c their bytes, also for later; place_ask.c and place.c payload into memory;
 * resolve.c memory into packets; direct.c rings between two programs; direct_again.c
 * rings of an earlier life; complete.c completions and
 * wake-ups; backlog.c entries of full CQs; kept_bytes.c memory for descriptors; see.c captures;
 * view.c, view_objects.c and stats.c views; map.c pages; random.c random numbers.
 */
#ifndef VIPD_NIC_INTERNAL_H
#define VIPD_NIC_INTERNAL_H

#include "proto/capture.h"
#include "vipd/nic/share.h"
#include "vipd/nic/outlive.h"
#include "vipd/nic/ring.h"
#include "vipd/nic/state.h"

/* Reason why a session may not wait, or connect peer to peer, at a discriminator. */
#define NIC_WHY_OWNER                                                                              \
    "the discriminator belongs to another user, whose program waits on it or did a moment ago: "   \
    "choose another one"

/* random.c: next random number. */
uint64_t nic_random(struct nic *nic);

/* share.c: processor time. begin: call it when a turn begins; it finds the sessions that have work.
 * end: call it when the turn ends. */
void nic_share_begin(struct nic *nic);
void nic_share_end(struct nic *nic);
/* Slow path of nic_share_due below. */
bool nic_share_first(struct nic_session *session);
/*
 * True if this turn has passed over a session, and a session that it has served still has work.
 * Then the turn goes on with the latter: a turn costs much more than a few cheap slots.
 */
bool nic_share_ahead(const struct nic *nic);
/* Give the rest of the turn to the sessions that were passed over, if those served before have no
 * work left or the turn did nothing (`did` is false). Returns whether they get it. */
bool nic_share_open(struct nic *nic, bool did);
/* Slow paths of nic_share_switch and nic_share_worked below. */
void nic_share_pass(struct nic *nic, struct nic_session *session);
bool nic_share_look(struct nic *nic);

/* May vipd work for this session now? false: in this turn other sessions come first. */
static inline bool nic_share_due(struct nic_session *session)
{
    return !session->nic->meter.contended || nic_share_first(session);
}

/* Did the session have work when the turn began? Always true if it is the only session. */
static inline bool nic_share_had_work(const struct nic_session *session)
{
    const struct nic *nic = session->nic;

    return nic->sessions.next == nic->sessions.prev || session->share.turn == nic->counts.turns;
}

/* From now on vipd spends time for this session; NULL: for no session. Returns the previous one. */
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
/* join: the user of a new session; NULL: no memory. leave: this session ends. */
struct nic_user *nic_user_join(struct nic *nic, uint32_t uid);
void nic_user_leave(struct nic_session *session);
void nic_users_deinit(struct nic *nic);
/* A pool that users share. have: amount of this user; used: of all users; max: size of the pool. */
struct nic_pool {
    uint64_t have, used, max;
    uint64_t small;   /* a user with at most this amount is small */
    uint64_t reserve; /* the last free part, only for small users */
    unsigned times;   /* other users have at most `times` * (free part - reserve) */
};
/* May the user take `more`? The rule leaves a part of the pool for users that come later. */
bool nic_pool_room(const struct nic_pool *pool, uint64_t more);

/* conn.c: the table of connection ids. */
struct nic_conn *nic_conn_new(struct nic_session *session, uint16_t vi, enum nic_conn_state state);
void nic_conn_free(struct nic_conn *conn);
/* Another id for the connection; nothing changes. */
uint64_t nic_conn_id(const struct nic_conn *conn);
/* Give the connection a new id; the old one finds nothing from now on. */
void nic_conn_renew(struct nic_conn *conn);
struct nic_conn *nic_conn_find(const struct nic *nic, uint64_t local_id);
/* Can the next life of vipd go on with the connection? */
bool nic_conn_goes_on(const struct nic_conn *conn);
/* Tell the owner of the session what became of a connection of an earlier life (nic_sink.rebound). */
void nic_rebound_tell(const struct nic_conn *conn, const char *why);
/* For views; conn may be NULL. */
struct nic_binding_view nic_conn_binding(const struct nic_conn *conn);
/* Remember the peer of an established connection. */
void nic_conn_set_peer(struct nic_conn *conn, uint32_t peer);
void nic_conns_deinit(struct nic *nic);

/* connect.c */
extern const struct cm_ops nic_cm_ops;
/* Give CM packets to this NIC itself to the connection manager. Returns whether there were any. */
bool nic_cm_loop_run(struct nic *nic);
/* conn_end.c */
/* Send a CLOSE. Call it before the connection is free, because op_send looks for its user. */
void nic_close_send(struct nic *nic, const struct cm_close_args *args);
/* The other side is gone: the VI goes to Error, the application gets CONN_LOST. */
void nic_conn_lost(struct nic_conn *conn, const struct eng_close *close);
/* rebind.c */
/* Is this host this NIC? */
bool nic_is_self(const struct nic *nic, const struct cm_host *host);
/* The connection is established with this peer under its present local_id. Returns what the engine
 * must know. */
struct eng_conn nic_conn_bind(struct nic_conn *conn, const struct cm_conn *result);
/* Operations of the connection manager. */
void nic_op_away(void *ctx, uint64_t local_id);
uint64_t nic_op_other_id(void *ctx, uint64_t local_id);
bool nic_op_rebind(void *ctx, uint64_t local_id, const struct cm_conn *result,
                   const struct vip_counts *theirs, struct vip_counts *ours);
void nic_op_rebound(void *ctx, uint64_t local_id, enum vip_rc rc, const struct cm_conn *result,
                    const struct vip_counts *theirs, const char *why);
/* vi.c: make a VI with the number, generation and positions that it had. ring: its ring goes on.
 * Outcomes as nic_vi_create; INVALID_PARAMETER: the number is in use or too large. */
enum vip_rc nic_vi_create_as(struct nic_session *session, const struct nic_vi_checkpoint *past,
                             bool ring, char *why, size_t why_bytes);
/* VIP_FEATURE_* of this NIC. */
static inline uint64_t nic_features(const struct nic *nic)
{
    return (VIP_FEATURES | nic->config.more) & ~(uint64_t)nic->config.without;
}

/* End a connection in any state: tell the peer, free the connection. ops_done: from
 * eng_vi_disconnect, if ops_valid. */
void nic_conn_close(struct nic_conn *conn, enum vip_close_reason reason, bool ops_valid,
                    uint32_t ops_done);
/* The engine has broken the connection (ENG_EVENT_BROKEN). */
void nic_conn_broken(struct nic_conn *conn, const struct eng_event *event);

/* wait.c */
/* The unanswered request with that handle, or NULL. */
struct nic_waiter *nic_waiter_of_handle(const struct nic_session *session, uint64_t handle);
void nic_waiter_remove(struct nic_session *session, struct nic_waiter *wait);
/* Withdraw the waits of a session that ends, and reject at most *ends requests (nic_session_end).
 * false: requests are left. */
bool nic_waiters_end(struct nic_session *session, unsigned *ends);
/* cm_ops.incoming */
void nic_op_incoming(void *ctx, uint64_t wait_id, uint64_t handle, const struct vip_addr *remote,
                     const struct vip_cm_attrs *attrs, const struct vip_private *data);

/* sq.c: take at most `budget` slots, and in one turn at most one ring of slots. Returns their
 * number. cut: stop when the turn's time is over, because one slot can make vipd take all receives
 * of a queue. */
unsigned nic_session_drain(struct nic_session *session, unsigned budget, bool cut);
/* Take all earlier postings; a turn calls it before an event that must come after them. They lie
 * within one ring, so all calls of a turn together take at most one ring of slots. If the session
 * is throttled, nothing is taken. */
void nic_session_fetch(struct nic_session *session);
/*
 * A control request of the program begins: take all postings that the program made before it, even
 * if the session is throttled. The program waits for the answer, so it cannot make many requests in
 * a turn. The end of a request needs no call: the next turn wakes the sleepers and replays packets.
 */
void nic_begin(struct nic_session *session, uint64_t now_ns);
/* session.c: publish to the library how long VipDisconnect lingers, from the NIC's present
 * configuration. */
void nic_session_set_linger(struct nic_session *session);
/* post.c: is the next slot of the submission ring written? */
bool nic_session_has_posts(const struct nic_session *session);
/* A posting failed: charge it (nic_session_throttled). */
void nic_session_fault(struct nic_session *session);
/* post.c: may vipd report one more error to the program? true: this report is counted. */
bool nic_session_may_tell(struct nic_session *session);
/* Segments and message of one descriptor. nic_session_post gives them and `slot`, which is a copy,
 * to the engine. */
struct nic_post_parts {
    struct vip_shm_seg segs[VIP_SEGS_PER_DESC_MAX + 1];
    uint16_t seg_count;
    uint32_t message_bytes;
    uint8_t message[VIP_MESSAGE_BYTES_MAX];
};
void nic_session_post(struct nic_session *session, const struct vip_sq_slot *slot,
                      const struct nic_post_parts *parts, uint16_t control);
/* Time at which a throttled session may go on. */
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
/* Report CONN_LOST to the application, once per connection. */
void nic_vi_lost(struct nic_session *session, uint16_t vi, const char *why);

/* map.c: zeroed pages that cost nothing until touched; NULL on failure. registry_unmap gives them
 * back. */
void *nic_map(size_t bytes);

/* stats.c */
void nic_stats_add(struct eng_vi_stats *sum, const struct eng_vi_stats *one);

/* kept_bytes.c: memory within the limits of the session and its user; NULL: there is none. */
void *nic_kept_alloc(struct nic_session *session, size_t bytes);
void nic_kept_free(struct nic_session *session, void *memory, size_t bytes);
/* A block of NIC_KEPT_BLOCK bytes: a spare block, if the session has one. NULL as above. */
void *nic_kept_block(struct nic_session *session);
/* A chain of blocks becomes spare, in O(1). The blocks count in the limits until they are freed. */
void nic_kept_spare(struct nic_session *session, struct nic_kept_block *first,
                    struct nic_kept_block *last);
/* Free at most `most` spare blocks. Returns their number. */
unsigned nic_kept_spares_free(struct nic_session *session, unsigned most);

/* backlog.c. add: append an entry; false: no memory. take: remove the first entry; false: its VI is
 * gone. */
bool nic_backlog_add(struct nic_session *session, struct nic_backlog *backlog,
                     const struct nic_cqe *entry);
bool nic_backlog_take(struct nic_session *session, struct nic_backlog *backlog,
                      struct nic_cqe *ret);
/* The VI is destroyed: its entries do not count any more. */
void nic_backlog_forget(struct nic_backlog *backlog, struct nic_vi *vi, unsigned queue);
/* No entry of the backlog counts any more: its blocks become spare. */
void nic_backlog_free(struct nic_session *session, struct nic_backlog *backlog);

/* complete.c */
/* The VI is connected: write what the next life of vipd must know of its operations. */
void nic_commit_begin(struct nic_session *session, uint16_t vi);
/* A VI number is used for the first time in this life: head, rings and positions of its queues. */
void nic_positions_read(struct nic_session *session, uint16_t vi);
/* The completion rings of a new VI. */
void nic_comps_begin(struct nic_session *session, uint16_t vi);
/* The same for the entries of a CQ. */
void nic_cq_position_read(struct nic_session *session, uint32_t cq);
void nic_op_complete(void *ctx, uint16_t vi, enum vip_queue queue, uint32_t status, uint32_t length,
                     uint64_t imm);
void nic_deferred_publish(struct nic *nic);
void nic_deferred_publish_of(struct nic_session *session, int32_t vi);
/* Wake the sleepers of the queue although vipd completed nothing: the direct ring was used. */
void nic_wake_also(struct nic_session *session, uint16_t vi, enum vip_queue queue);
/* Ask the library to place the collected bytes (place_ask.c). Then a full barrier, then wake the
 * sleepers of all queues and CQs that got completions since the last call. Each turn calls it; a
 * full list, and the end of a CQ or of a session, cannot wait for the turn. */
void nic_wake_flush(struct nic *nic);
/* Move the entries that fit from the backlog of one CQ into its ring. false: no entry of any CQ of
 * the session fits. */
bool nic_backlog_serve(struct nic_session *session);
void nic_cq_forget_vi(struct nic_session *session, struct nic_vi *vi, enum vip_queue queue);
void nic_cq_deinit(struct nic_session *session, struct nic_cq *cq);

/* place_ask.c */
/* Ask a library to place the bytes that were collected for it. */
void nic_place_flush(struct nic *nic);
/*
 * Ask the library to copy bytes from the "in" half, or into the "out" half. frame: the frame of the
 * bytes; NULL if they are placed late, after their acknowledgement.
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
    NIC_STAGE_NO = 0, /* nothing to prepare: give the packet to the engine */
    NIC_STAGE_PARKED, /* the packet is kept; its bytes belong to the session now */
    NIC_STAGE_DROP,   /* drop the packet; the peer sends it again */
};
/* replay: the held packet that eng_replay named (its entry is parked), NULL for a fresh packet. */
enum nic_stage nic_stage(struct nic_conn *conn, const struct vip_packet *packet,
                         struct nic_src *src, struct nic_held *replay);
/* Sums of the engine's counters of a VI and those of its ring. nic_vi_counts leaves out receives
 * that wait in the program's table. So it need not touch a page of the table if the VI never had a
 * ring. */
void nic_vi_counts(const struct nic_session *session, uint16_t vi, struct eng_vi_stats *ret);
void nic_vi_stats(const struct nic_session *session, uint16_t vi, struct eng_vi_stats *ret);

/* source.c */
/* Give the bytes of a packet back: to the link, or to the heap. */
void nic_src_release(struct nic *nic, const struct nic_src *src);
/*
 * Copy `len` bytes at `offset` of the packet; loopback source and target may overlap. Outcomes:
 * true; false: a page was missing (vipd/registry/guard.h), the copied bytes are not valid.
 */
bool nic_src_copy(const struct nic_src *src, uint32_t offset, void *to, uint32_t len);
/* Must the bytes be copied to keep them? True for pieces of a loopback packet, scarce buffers. */
bool nic_src_must_copy(const struct nic_src *src);
/* Make the source own a copy of its bytes. false: no memory, or a missing page; nothing changed. */
bool nic_src_own(struct nic *nic, struct nic_src *src);

/* held.c */
/* Keep src's bytes; NULL: no free slot, or no memory for a loopback copy. */
struct nic_held *nic_held_new(struct nic_conn *conn, struct nic_src *src);
void nic_held_free(struct nic *nic, struct nic_held *held);
/* May the session keep one more packet of `len` bytes that is ahead of its turn, or parked? */
bool nic_held_room(const struct nic_session *session, uint32_t len);
/* Free the slot but not the bytes. */
void nic_held_slot_free(struct nic *nic, struct nic_held *held);
struct nic_src nic_held_src(const struct nic_held *held);

/* resolve.c */
/* Resolve the pieces of a packet to addresses. false: some piece is not allowed (any more). */
bool nic_tx_resolve(struct nic_session *session, struct nic_tx *tx);

/* rx.c */
/* Take packets from the link, if none of the last batch is left. Returns whether there are any. */
bool nic_rx_take(struct nic *nic);
/* Process these packets until the turn's time is over. */
void nic_rx_process(struct nic *nic);
/* The NIC ends: give back the packets that were not processed. */
void nic_rx_forget(struct nic *nic);
/* Give a decoded packet to the engine. true: src's bytes are kept; else they are the caller's. */
bool nic_rx_feed(struct nic_conn *conn, const struct vip_packet *packet, struct nic_src *src);
/* Replay some held packets that are due; none when the turn's time is over. nic_rx_feed calls it
 * after each packet; otherwise the engine would have to hold the next packets, too. A stage of the
 * turn replays all others. */
void nic_rx_replay(struct nic_session *session);
void nic_rx_orphans(struct nic_session *session); /* forget held packets of a destroyed VI */
/* All ranges of a parked packet are placed: feed it, and give its slot back. */
void nic_rx_resume(struct nic_held *held);

/* tx.c: pull packets and send them. Returns whether there were any. */
bool nic_tx_run(struct nic *nic);
void nic_tx_forget(struct nic *nic, const struct nic_session *session);
/* self.c: hand a pulled packet to a session of this nic. */
void nic_loop_deliver(struct nic *nic, struct nic_conn *from, struct nic_tx *tx);

/* ---- see.c: events for vipctl capture; only while nic->see is set ---- */

void nic_see_packet(struct nic *nic, enum vip_capture_kind kind, const struct nic_tx *tx);
/* conn: NULL for a CM packet. */
void nic_see_received(struct nic *nic, const struct nic_conn *conn, const struct link_rx *rx);
/* Uses vi, queue, length and status of desc. */
void nic_see_descriptor(const struct nic_session *session, enum vip_capture_kind kind,
                        const struct nic_deferred *desc);

#endif

/*
 * Functions that the files of the connection manager offer to each other. Only vipd/engine/cm*.c
 * include this file.
 *
 *   cm_table.c     hash tables, timers, randomness
 *   cm_out.c       memory and the sending of messages
 *   cm_counts.c    the item with the counts of one end of a connection
 *   cm_share.c     the share of each pool that a user or a host may have
 *   cm_cookie.c    cookies, rates of new requests
 *   cm_disc.c      discriminators, their owners and servers
 *   cm_peer.c      peers: their lives and numbers
 *   cm_assoc.c     associations
 *   cm_setup.c     SETUP: data that both ends exchange before the first packet
 *   cm_loan.c      LOAN_* messages, ids in data packets
 *   cm_meet.c      meeting places of peer-to-peer requests
 *   cm_attempt.c   our own requests under way
 *   cm_slow.c      sources whose accepts failed
 *   cm_kept.c      kept requests and their turns
 *   cm_answered.c  answers that are remembered
 *   cm_closing.c   CLOSE messages under way, RESET
 *   cm_alive.c     keepalive, death and new lives of peers
 *   cm_rebind.c    connections of an earlier life that go on
 *   cm_pending.c   requests of peers until their final answer
 *   cm_match.c     peer-to-peer requests that meet
 *   cm_server.c    waiters; which waiter gets a request; accept and reject
 *   cm_client.c    our own requests: their start, and the answers of servers
 *   cm_close.c     the end of a connection
 *   cm.c           set-up, dispatch of received messages, time, statistics
 */
#ifndef VIPD_ENGINE_CM_INTERNAL_H
#define VIPD_ENGINE_CM_INTERNAL_H

#include "vipd/engine/cm_objects.h"
#include "vipd/engine/mutant.h"

/* ---- cm_out.c ---------------------------------------------------------------------------- */

void *cm_alloc(struct cm *cm, size_t bytes); /* zeroed memory; NULL = refused, counted */
void cm_free(struct cm *cm, void *memory, size_t bytes);
void cm_send(struct cm *cm, const struct cm_host *to, uint64_t dst_epoch, const struct vip_cm *msg);
/* Answer the sender of `in`. */
void cm_answer(struct cm *cm, const struct cm_in *in, const struct vip_cm *msg);

/* ---- cm_counts.c ------------------------------------------------------------------------- */

/* The value of an item VIP_ITEM_COUNTS, in the byte order of the wire. */
struct cm_counts_item {
    uint32_t word[1 + VIP_COUNTS_READS_MAX];
    uint16_t bytes; /* number of used bytes of `word` */
};
struct cm_counts_item cm_counts_put(const struct vip_counts *counts);
/* Find and decode the item; false: it is absent, or its length is wrong. */
bool cm_counts_get(const struct vip_items *items, struct cm_counts_item *ret_item,
                   struct vip_counts *ret);

/* ---- cm_assoc.c -------------------------------------------------------------------------- */

/* Give an association in state NEW its peer, its ids and the new state. */
void cm_assoc_add(struct cm *cm, struct cm_assoc *assoc, struct cm_peer *peer, uint64_t local_id,
                  uint64_t remote_id, enum cm_assoc_state state, uint64_t now_ns);
void cm_assoc_set_state(struct cm *cm, struct cm_assoc *assoc, enum cm_assoc_state state,
                        uint64_t now_ns);
void cm_assoc_free(struct cm *cm, struct cm_assoc *assoc);
struct cm_assoc *cm_assoc_find(struct cm *cm, uint64_t local_id);
/* The association with both ids in the message and with its sender as peer, or NULL. */
struct cm_assoc *cm_assoc_of(struct cm *cm, const struct cm_in *in);
/* The open association with the sender whose remote id is the conn_id of the message, or NULL. */
struct cm_assoc *cm_assoc_with(struct cm *cm, const struct cm_in *in);
/* Fill in *ret. msg: REQUEST, ACCEPT or PROOF of the peer; features: the peer's VIP_FEATURE_*. */
void cm_conn_fill(struct cm *cm, struct cm_conn *ret, struct cm_assoc *assoc,
                  const struct vip_cm *msg, uint64_t features);

/* Set the secret of a connection. asked: this end sent the REQUEST. */
void cm_assoc_secret(struct cm *cm, struct cm_assoc *assoc, const struct siphash_key *secret,
                     bool asked);
/* Give an open association new ids for both ends, and `peer`, which may be another life. */
void cm_assoc_move(struct cm *cm, struct cm_assoc *assoc, struct cm_peer *peer, uint64_t local_id,
                   uint64_t remote_id, uint64_t now_ns);
/* Returns the name in REBIND of one end of a connection: a hash of the secret and `asked`. */
uint64_t cm_tag(const struct siphash_key *secret, bool asked);

/* ---- cm_setup.c -------------------------------------------------------------------------- */

/* Must both ends send a SETUP? theirs: the REQUEST or ACCEPT of the peer. */
bool cm_setup_due(const struct cm *cm, const struct cm_host *peer, const struct vip_cm *theirs);
/* Choose our random part of the connection's secret. Call this before the first SETUP. */
void cm_setup_draw(struct cm *cm, struct cm_assoc *assoc);
void cm_setup_send(struct cm *cm, const struct cm_host *to, uint64_t dst_epoch, uint64_t request_id,
                   const struct cm_assoc *assoc, uint64_t local_id, uint64_t remote_id);
/* The association opens: make its secret. theirs: the peer's SETUP; NULL: the peer sent none. */
void cm_setup_done(struct cm *cm, struct cm_assoc *assoc, const struct vip_cm *theirs, bool asked);
/* Returns the features of the sender of `theirs` (a REQUEST, ACCEPT or SETUP). */
uint64_t cm_setup_features(const struct cm *cm, const struct cm_host *peer,
                           const struct vip_cm *theirs);

/* ---- cm_loan.c --------------------------------------------------------------------------- */

void cm_rx_loan_terms(struct cm *cm, const struct cm_in *in); /* LOAN_OFFER, LOAN_AGREE */
void cm_rx_loan_probe(struct cm *cm, const struct cm_in *in);
/* The open association with the sender of this RESET whose other end has the data id in the message
 * at present, or NULL. */
struct cm_assoc *cm_loan_reset(struct cm *cm, const struct cm_in *in);
/* Does this end of a connection have this data id, or had it lately? Only for connections that were
 * bound anew by LOAN_OFFER. */
bool cm_loan_own_id(struct cm *cm, uint64_t data_id);
/* The closing gets the data ids of this end of `assoc`, for cm_loan_own_id. */
void cm_loan_closing(struct cm *cm, struct cm_closing *closing, const struct cm_assoc *assoc);

/* ---- cm_peer.c --------------------------------------------------------------------------- */

/* Find a peer that is not dead, or create it, and add a reference. NULL = no memory, or too many
 * peers. */
struct cm_peer *cm_peer_get(struct cm *cm, const struct cm_host *host, uint64_t epoch,
                            uint64_t now_ns);
void cm_peer_put(struct cm *cm, struct cm_peer *peer);
struct cm_peer *cm_peer_find(struct cm *cm, const struct cm_host *host, uint64_t epoch);
struct cm_peer *cm_peer_by_number(const struct cm *cm, uint32_t number);
uint64_t cm_peer_key(struct cm *cm, const struct cm_host *host); /* the host's key in cm->peers */
/* Note a sign of life of the peer. */
void cm_peer_hear(struct cm *cm, struct cm_peer *peer, uint64_t now_ns);
/* cm_peer_opened: an association opened; cm_peer_closed: it ended. Start or stop the keepalive. */
void cm_peer_opened(struct cm *cm, struct cm_peer *peer, uint64_t now_ns);
void cm_peer_closed(struct cm *cm, struct cm_peer *peer);

/* ---- cm_alive.c -------------------------------------------------------------------------- */

/* A message came: if it proves that its sender is alive, note the sign of life. Send PING to the
 * other known lives of the sender's host. */
void cm_peer_note(struct cm *cm, const struct cm_in *in);
void cm_rx_ping(struct cm *cm, const struct cm_in *in);
void cm_rx_away(struct cm *cm, const struct cm_in *in);
void cm_rx_pong(struct cm *cm, const struct cm_in *in);
void cm_fire_keepalive(struct cm *cm, struct cm_timer *timer, uint64_t now_ns);
void cm_fire_lost(struct cm *cm, struct cm_timer *timer, uint64_t now_ns);

/* ---- cm_disc.c --------------------------------------------------------------------------- */

/* Find a discriminator; NULL: it has no waiter, no request and no owner. */
struct cm_disc *cm_disc_find(struct cm *cm, const uint8_t *bytes, uint8_t len);
/* Find or make a discriminator, and end its lingering. The caller must attach an object to it.
 * NULL: no memory. */
struct cm_disc *cm_disc_get(struct cm *cm, const uint8_t *bytes, uint8_t len);
/* As cm_disc_get, for a program that waits or makes a peer-to-peer request: user `uid` owns *ret
 * from now on. Outcomes: 0; -ENOMEM; -EPERM (another user owns the discriminator). */
int cm_disc_claim(struct cm *cm, const uint8_t *bytes, uint8_t len, uint32_t uid, uint64_t now_ns,
                  struct cm_disc **ret);
/* The caller has detached an object from the discriminator. If it was the last object, free the
 * discriminator, at once or after lingering. */
void cm_disc_put(struct cm *cm, struct cm_disc *disc);
void cm_fire_linger(struct cm *cm, struct cm_timer *timer, uint64_t now_ns);
/* Free the discriminator at once; no object may be attached to it. */
void cm_disc_free(struct cm *cm, struct cm_disc *disc);
void cm_disc_deinit(struct cm *cm); /* free all discriminators */
/* Session `server` waits on the discriminator: the session is one of its servers from now on. */
void cm_disc_serve(struct cm *cm, struct cm_disc *disc, uint64_t server);
/* Session `server` has ended. Returns whether this session was the server that waited last. */
bool cm_disc_unserve(struct cm *cm, struct cm_disc *disc, uint64_t server);
bool cm_disc_served_by(const struct cm_disc *disc, uint64_t server);
/* The server of this request was active at now_ns: the server's grace begins anew. */
void cm_disc_touch(struct cm *cm, const struct cm_pending *pending, uint64_t now_ns);
/* Returns the time until which vipd expects that a server waits again; 0 = no server is known. */
uint64_t cm_disc_served_ns(const struct cm *cm, const struct cm_disc *disc);
/* Returns the time until which the discriminator keeps its owner without a waiter or request. */
uint64_t cm_disc_linger_ns(const struct cm *cm, const struct cm_disc *disc);
/* Did a program wait on `disc` lately, or in vipd's last life? Then it may wait again soon. */
bool cm_disc_served(const struct cm *cm, const struct cm_disc *disc, uint64_t now_ns);

/* ---- cm_slow.c --------------------------------------------------------------------------- */

/* The accept of this request failed after it had taken long. */
void cm_slow_add(struct cm *cm, const struct cm_pending *pending, uint64_t now_ns);
/* A connection with this source was made. */
void cm_slow_confirmed(struct cm *cm, const struct cm_holder *source);
/* Is the source another host that was never connected, or whose last accept failed? */
bool cm_slow_stranger(const struct cm *cm, const struct cm_holder *source);
/* cm_slow_behind_ns: time until which requests of the source come after requests of other sources.
 * cm_slow_held_ns: time until which no serial server at `disc` gets requests of the source. A time
 * in the past means that there is no such limit. */
uint64_t cm_slow_behind_ns(const struct cm *cm, const struct cm_holder *source);
uint64_t cm_slow_held_ns(const struct cm *cm, const struct cm_disc *disc,
                         const struct cm_holder *source);
/* Does this waiter not get the REQUEST now, because accepts of the request's source failed? */
bool cm_slow_holds(struct cm *cm, const struct cm_in *in, const struct cm_waiter *waiter);

/* ---- cm_kept.c --------------------------------------------------------------------------- */

/* May another request of this source be kept for `disc` (CM_KEPT_SPARE)? */
bool cm_kept_room(const struct cm *cm, const struct cm_disc *disc, const struct cm_holder *source);
/* Keep a new request for `disc` and start its grace. No waiter gets it yet. */
void cm_kept_add(struct cm *cm, struct cm_pending *pending, struct cm_disc *disc, uint64_t now_ns);
void cm_kept_remove(struct cm *cm, struct cm_pending *pending);
/* Does a repetition of a kept request get PENDING? Only after grace_busy_ns: after PENDING the
 * client repeats more slowly, so it would learn later of a NO_MATCH that was lost. */
bool cm_kept_long(const struct cm *cm, const struct cm_pending *pending, uint64_t now_ns);
/* Returns the kept request that this waiter gets next; its client still repeats it. NULL: there is
 * no request that the waiter may get now. */
struct cm_pending *cm_kept_next(const struct cm *cm, const struct cm_waiter *waiter,
                                uint64_t now_ns);
/* The client has repeated the request. */
void cm_kept_heard(struct cm *cm, struct cm_pending *pending, uint64_t now_ns);
/* Has the client stopped repeating the request? */
bool cm_kept_silent(const struct cm *cm, const struct cm_pending *pending, uint64_t now_ns);
/* Call this first when the request's timer has fired. If the timer was late, vipd stood still; the
 * delay does not count as silence of the client. */
void cm_kept_awake(struct cm_pending *pending, uint64_t now_ns);
/* Set the request's timer to at_ns. Do not call this for a request whose timer has just fired. */
void cm_kept_look(struct cm *cm, struct cm_pending *pending, uint64_t at_ns, uint64_t now_ns);
/* A waiter may have room: make the timer of one kept request fire now. cm_kept_wake_but does not
 * choose request `but`. */
void cm_kept_wake(struct cm *cm, struct cm_disc *disc, uint64_t now_ns);
void cm_kept_wake_but(struct cm *cm, struct cm_disc *disc, const struct cm_pending *but,
                      uint64_t now_ns);

/* ---- cm_cookie.c ------------------------------------------------------------------------- */

/* May this new request use memory or a waiter? If not, this function answers or drops it. */
bool cm_cookie_pass(struct cm *cm, const struct cm_in *in);
/* Remember the COOKIE that answers a request of ours. */
void cm_cookie_learn(struct cm *cm, const struct cm_in *in);
/* The last cookie from this host; 0 = none. */
uint64_t cm_cookie_known(struct cm *cm, const struct cm_host *server);
/* May this user send a request now? 0: yes, and the request is counted; else the time to wait, in
 * ns. `waits`: the request repeats a peer-to-peer request that has waited for long. */
uint64_t cm_ask_after_ns(struct cm *cm, const struct cm_holder *client, bool waits,
                         uint64_t now_ns);

/* ---- cm_meet.c --------------------------------------------------------------------------- */

/* Returns the meeting place of our requests to `remote` with these discriminators. NULL: there are
 * no such requests. */
struct cm_meet *cm_meet_find(struct cm *cm, const struct cm_host *remote,
                             const struct vip_addr *ours, const struct vip_addr *theirs);
/* Put a new peer-to-peer attempt into its meeting place. 0; -ENOMEM; -EPERM (cm_disc_claim). */
int cm_meet_enter(struct cm *cm, struct cm_attempt *attempt, uint64_t now_ns);
void cm_meet_leave(struct cm *cm, struct cm_attempt *attempt); /* needs no cm_meet_enter */

/* ---- cm_attempt.c ------------------------------------------------------------------------ */

/* Returns the attempt with the request_id of this message, if the sender is its server; or NULL. */
struct cm_attempt *cm_attempt_find(struct cm *cm, const struct cm_in *in);
/* Is a request to that host under way for our connection id conn_id? */
bool cm_attempt_awaits(struct cm *cm, const struct cm_host *host, uint64_t conn_id);
/* Returns the source of a REQUEST, with a reference; NULL = no memory. The source is the asking
 * user if an attempt of this host sent the REQUEST; else it is the sending host (cm_source_of). */
struct cm_holder *cm_source_get(struct cm *cm, const struct cm_in *in);
void cm_attempt_free(struct cm *cm, struct cm_attempt *attempt);
/* The attempt failed: forget it, then call request_done. data may be NULL. */
void cm_attempt_fail(struct cm *cm, struct cm_attempt *attempt, enum vip_rc rc,
                     const struct vip_private *data, const char *why);
/* Send the attempt's REQUEST, now or as soon as the limits allow, and repeat it later. */
void cm_attempt_again(struct cm *cm, struct cm_attempt *attempt, uint64_t now_ns);
/* Set the attempt's timer to the earliest of its times. */
void cm_attempt_arm(struct cm *cm, struct cm_attempt *attempt);
/* Give the attempt other ids. This function sends nothing. */
void cm_attempt_renew(struct cm *cm, struct cm_attempt *attempt);
/* Send CANCEL: our request has ended. */
void cm_cancel_send(struct cm *cm, const struct cm_host *to, uint64_t dst_epoch,
                    uint64_t request_id);
void cm_fire_attempt(struct cm *cm, struct cm_timer *timer, uint64_t now_ns);

/* ---- cm_answered.c ----------------------------------------------------------------------- */

uint64_t cm_request_key(struct cm *cm, const struct cm_host *host, uint64_t epoch, uint64_t id);
struct cm_answered *cm_answered_find(struct cm *cm, const struct cm_in *in);
/* Remember the answer to a request; data may be NULL. */
void cm_answered_add(struct cm *cm, const struct cm_pending *pending, enum cm_answer answer,
                     uint32_t code, const struct vip_private *data, uint64_t now_ns);
void cm_answer_send(struct cm *cm, const struct cm_host *to, uint64_t epoch, uint64_t request_id,
                    enum cm_answer answer, uint32_t code, const struct vip_private *data);
/* Send REJECT, and remember this answer. */
void cm_refuse(struct cm *cm, const struct cm_in *in, enum vip_rc code);
void cm_answered_deinit(struct cm *cm);
void cm_fire_answered(struct cm *cm, struct cm_timer *timer, uint64_t now_ns);

/* ---- cm_closing.c ------------------------------------------------------------------------ */

/* Send CLOSE for assoc, and repeat it. args NULL: reason TIMEOUT, without counts of operations. */
void cm_closing_start(struct cm *cm, const struct cm_assoc *assoc, const struct cm_close_args *args,
                      uint64_t now_ns);
void cm_reset_send(struct cm *cm, const struct cm_host *to, uint64_t dst_epoch, uint64_t conn_id,
                   uint64_t now_ns);
void cm_rx_close_ack(struct cm *cm, const struct cm_in *in);
void cm_closing_deinit(struct cm *cm);
void cm_fire_closing(struct cm *cm, struct cm_timer *timer, uint64_t now_ns);

/* ---- cm_rebind.c ------------------------------------------------------------------------- */

void cm_rx_rebind(struct cm *cm, const struct cm_in *in);
void cm_rx_challenge(struct cm *cm, const struct cm_in *in);
void cm_rx_proof(struct cm *cm, const struct cm_in *in);
/* If this NO_MATCH answers a REBIND of ours, end the rebinding and return true. */
bool cm_rebind_refused(struct cm *cm, const struct cm_in *in);
/* If this CLOSE is from the other end of a rebinding, end the rebinding. */
void cm_rebind_closed(struct cm *cm, const struct cm_in *in);
void cm_fire_rebind(struct cm *cm, struct cm_timer *timer, uint64_t now_ns);
void cm_rebind_deinit(struct cm *cm);

/* ---- cm_pending.c ------------------------------------------------------------------------ */

struct cm_pending *cm_pending_find(struct cm *cm, const struct cm_in *in);
struct cm_pending *cm_pending_by_handle(struct cm *cm, uint64_t handle);
/* Make a pending request from a REQUEST. disc: its discriminator, NULL: not known yet. keep: no
 * waiter gets the request now. Returns NULL (counted) if there is no room or no memory. */
struct cm_pending *cm_pending_new(struct cm *cm, const struct cm_in *in, struct cm_disc *disc,
                                  bool keep);
/* Forget a request, and its association if it still has one. */
void cm_pending_free(struct cm *cm, struct cm_pending *pending);
/*
 * The client gives up a request whose handle the host has. The request stays until the host uses
 * the handle. But it no longer refers to the peer. If the client is on another host, the request no
 * longer counts in that host's share (at most CM_PENDING_HOST requests at once).
 */
void cm_pending_cancel(struct cm *cm, struct cm_pending *pending, uint64_t now_ns);
/* A waiter got the request: count that the waiter's server works on it. */
void cm_pending_work(struct cm_pending *pending, struct cm_disc *disc);
/* A request that a listener got is answered, so the listener may get a kept request. */
void cm_pending_unoffer(struct cm *cm, struct cm_pending *pending, uint64_t now_ns);
/* The host has accepted or rejected the request: its handle is not valid any more. */
void cm_pending_handled(struct cm *cm, struct cm_pending *pending);
/* End a request: send the answer, remember it, free the request. */
void cm_pending_answer(struct cm *cm, struct cm_pending *pending, enum cm_answer answer,
                       uint32_t code, const struct vip_private *data, uint64_t now_ns);
/* Send PENDING. cm_answer_pending is for a request that has no struct cm_pending. */
void cm_pending_send(struct cm *cm, const struct cm_pending *pending);
void cm_answer_pending(struct cm *cm, const struct cm_in *in);
/* Send ACCEPT for the request, and SETUP if it is due. */
void cm_accept_send(struct cm *cm, const struct cm_pending *pending);
/* Send ACCEPT (and SETUP if due); repeat them until the client confirms, or until give_up_ns. */
void cm_pending_accept(struct cm *cm, struct cm_pending *pending, uint64_t local_id,
                       const struct vip_cm_attrs *attrs, const struct vip_private *data,
                       uint64_t give_up_ns, uint64_t now_ns);
void cm_accept_withdraw(struct cm *cm, struct cm_pending *pending, enum vip_close_reason reason,
                        uint64_t now_ns);
/* The host closed a connection whose accept has no CONFIRM yet. */
void cm_accept_abandon(struct cm *cm, struct cm_assoc *assoc, enum vip_close_reason reason,
                       uint64_t now_ns);
/* The client has the connection: open it here. msg: the client's CONFIRM or SETUP; NULL: another
 * packet showed that the client has the connection. */
void cm_confirmed(struct cm *cm, struct cm_assoc *assoc, const struct vip_cm *msg, uint64_t now_ns);

/* ---- cm_match.c -------------------------------------------------------------------------- */

/* Handle a peer-to-peer REQUEST that is not a repetition of an answered request. */
void cm_match_request(struct cm *cm, const struct cm_in *in);
/* The peer has withdrawn the request that our attempt was accepting: the attempt waits again. */
void cm_match_alone(struct cm *cm, struct cm_attempt *attempt, uint64_t now_ns);

/* ---- cm_client.c, cm_server.c, cm_close.c ------------------------------------------------ */

void cm_rx_cookie(struct cm *cm, const struct cm_in *in);
void cm_rx_pending(struct cm *cm, const struct cm_in *in);
void cm_rx_accept(struct cm *cm, const struct cm_in *in);
/* Handle a SETUP if the server of one of our requests sent it; false: a client sent it. */
bool cm_rx_server_setup(struct cm *cm, const struct cm_in *in);
void cm_rx_refusal(struct cm *cm, const struct cm_in *in); /* REJECT, NO_MATCH */
void cm_client_deinit(struct cm *cm);
void cm_rx_request(struct cm *cm, const struct cm_in *in);
void cm_rx_confirm(struct cm *cm, const struct cm_in *in); /* CONFIRM, SETUP of a client */
void cm_rx_cancel(struct cm *cm, const struct cm_in *in);
void cm_server_deinit(struct cm *cm);
void cm_fire_pending(struct cm *cm, struct cm_timer *timer, uint64_t now_ns);
void cm_rx_close(struct cm *cm, const struct cm_in *in);
void cm_rx_reset(struct cm *cm, const struct cm_in *in);

#endif

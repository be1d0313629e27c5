/*
 * Inside of the connection manager: what its files share. Only vipd/engine/cm*.c include it.
 *
 *   cm_table.c     hash tables, timers, randomness
 *   cm_out.c       memory and the sending of messages
 *   cm_share.c     the part of each pool that a user or a host has
 *   cm_cookie.c    cookies, rates of new requests
 *   cm_disc.c      discriminators, their owners and servers
 *   cm_peer.c      peers: their lives and numbers
 *   cm_assoc.c     associations
 *   cm_setup.c     what both ends tell each other before the first data
 *   cm_meet.c      meeting places of peer-to-peer requests
 *   cm_attempt.c   our own requests under way
 *   cm_slow.c      sources whose accepts failed
 *   cm_kept.c      requests that wait for a waiter, and their turns
 *   cm_answered.c  answers already given
 *   cm_closing.c   CLOSE messages under way, RESET
 *   cm_alive.c     keepalive, death, new lives
 *   cm_rebind.c    connections of an earlier life that go on
 *   cm_pending.c   requests of peers that are not answered for good
 *   cm_match.c     peer-to-peer requests that meet
 *   cm_server.c    waiters; who gets a request; accept and reject
 *   cm_client.c    our own requests: what the program asks, what servers answer
 *   cm_close.c     the end of a connection
 *   cm.c           set-up, dispatch of received messages, time, statistics
 */
#ifndef VIPD_ENGINE_CM_INTERNAL_H
#define VIPD_ENGINE_CM_INTERNAL_H

#include "vipd/engine/cm_objects.h"
#include "vipd/engine/mutant.h"

/* ---- cm_out.c ---------------------------------------------------------------------------- */

void *cm_alloc(struct cm *cm, size_t bytes); /* NULL is counted */
void cm_free(struct cm *cm, void *memory, size_t bytes);
void cm_send(struct cm *cm, const struct cm_host *to, uint64_t dst_epoch, const struct vip_cm *msg);
/* Answer the sender of `in`. */
void cm_answer(struct cm *cm, const struct cm_in *in, const struct vip_cm *msg);

/* ---- cm_assoc.c -------------------------------------------------------------------------- */

/* Bind a NEW association to a peer; state as given. */
void cm_assoc_add(struct cm *cm, struct cm_assoc *assoc, struct cm_peer *peer, uint64_t local_id,
                  uint64_t remote_id, enum cm_assoc_state state, uint64_t now_ns);
void cm_assoc_set_state(struct cm *cm, struct cm_assoc *assoc, enum cm_assoc_state state,
                        uint64_t now_ns);
void cm_assoc_free(struct cm *cm, struct cm_assoc *assoc);
struct cm_assoc *cm_assoc_find(struct cm *cm, uint64_t local_id);
/* The association that a message names: both ids and the peer must agree. */
struct cm_assoc *cm_assoc_of(struct cm *cm, const struct cm_in *in);
/* The open association in which the sender's end has the conn_id of the message, or NULL. */
struct cm_assoc *cm_assoc_with(struct cm *cm, const struct cm_in *in);
/* msg: REQUEST, ACCEPT or PROOF of the peer; features: VIP_FEATURE_* that the peer has. */
void cm_conn_fill(struct cm *cm, struct cm_conn *ret, struct cm_assoc *assoc,
                  const struct vip_cm *msg, uint64_t features);

/* The connection has this secret from now on. */
void cm_assoc_secret(struct cm *cm, struct cm_assoc *assoc, const struct siphash_key *secret,
                     bool asked);
/* Both ends of an open association have other ids, and the other end perhaps another life. */
void cm_assoc_move(struct cm *cm, struct cm_assoc *assoc, struct cm_peer *peer, uint64_t local_id,
                   uint64_t remote_id, uint64_t now_ns);
/* Names one end of a connection to those who know its secret. */
uint64_t cm_tag(const struct siphash_key *secret, bool asked);

/* ---- cm_setup.c -------------------------------------------------------------------------- */

/* Does the connection with the sender of this REQUEST or ACCEPT need a SETUP of each end? */
bool cm_setup_due(const struct cm *cm, const struct cm_host *peer, const struct vip_cm *theirs);
/* Draw our part of the connection's secret, before the first SETUP. */
void cm_setup_draw(struct cm *cm, struct cm_assoc *assoc);
void cm_setup_send(struct cm *cm, const struct cm_host *to, uint64_t dst_epoch, uint64_t request_id,
                   const struct cm_assoc *assoc, uint64_t local_id, uint64_t remote_id);
/* The association opens: make its secret. theirs: the peer's SETUP; NULL: there is none. */
void cm_setup_done(struct cm *cm, struct cm_assoc *assoc, const struct vip_cm *theirs, bool asked);
/* Features of the sender of this REQUEST, ACCEPT or SETUP. */
uint64_t cm_setup_features(const struct cm *cm, const struct cm_host *peer,
                           const struct vip_cm *theirs);

/* ---- cm_peer.c --------------------------------------------------------------------------- */

/* Find a peer that is not dead, or create it, with one reference more; NULL = no memory, or too
 * many peers. */
struct cm_peer *cm_peer_get(struct cm *cm, const struct cm_host *host, uint64_t epoch,
                            uint64_t now_ns);
void cm_peer_put(struct cm *cm, struct cm_peer *peer);
struct cm_peer *cm_peer_find(struct cm *cm, const struct cm_host *host, uint64_t epoch);
struct cm_peer *cm_peer_by_number(const struct cm *cm, uint32_t number);
uint64_t cm_peer_key(struct cm *cm, const struct cm_host *host); /* in cm->peers */
/* Note a sign of life of the peer. */
void cm_peer_hear(struct cm *cm, struct cm_peer *peer, uint64_t now_ns);
/* An association opened, or an open one ended: start or stop the keepalive. */
void cm_peer_opened(struct cm *cm, struct cm_peer *peer, uint64_t now_ns);
void cm_peer_closed(struct cm *cm, struct cm_peer *peer);

/* ---- cm_alive.c -------------------------------------------------------------------------- */

/* A message came: note a sign of life if it is one; send PING to other known lives of that host. */
void cm_peer_note(struct cm *cm, const struct cm_in *in);
void cm_rx_ping(struct cm *cm, const struct cm_in *in);
void cm_rx_away(struct cm *cm, const struct cm_in *in);
void cm_rx_pong(struct cm *cm, const struct cm_in *in);
void cm_fire_keepalive(struct cm *cm, struct cm_timer *timer, uint64_t now_ns);
void cm_fire_lost(struct cm *cm, struct cm_timer *timer, uint64_t now_ns);

/* ---- cm_disc.c --------------------------------------------------------------------------- */

/* The discriminator, or NULL: no waiter, no recent waiter, no request there. */
struct cm_disc *cm_disc_find(struct cm *cm, const uint8_t *bytes, uint8_t len);
/* Find or make a discriminator, and end its lingering. The caller attaches something to it. NULL =
 * no memory. */
struct cm_disc *cm_disc_get(struct cm *cm, const uint8_t *bytes, uint8_t len);
/* The same for a program that waits, or asks peer to peer: its user owns `disc` from now on.
 * Outcomes: 0; -ENOMEM; -EPERM (another user has it). */
int cm_disc_claim(struct cm *cm, const uint8_t *bytes, uint8_t len, uint32_t uid, uint64_t now_ns,
                  struct cm_disc **ret);
/* The caller has taken something off the discriminator. If nothing is attached any more, free it,
 * at once or after lingering. */
void cm_disc_put(struct cm *cm, struct cm_disc *disc);
void cm_fire_linger(struct cm *cm, struct cm_timer *timer, uint64_t now_ns);
/* Free it at once; nothing is attached to it. */
void cm_disc_free(struct cm *cm, struct cm_disc *disc);
void cm_disc_deinit(struct cm *cm); /* all of them */
/* A session waits there. */
void cm_disc_serve(struct cm *cm, struct cm_disc *disc, uint64_t server);
/* The session has ended. true: no other session has waited there since. */
bool cm_disc_unserve(struct cm *cm, struct cm_disc *disc, uint64_t server);
bool cm_disc_served_by(const struct cm_disc *disc, uint64_t server);
/* The server of this request has done something for it. */
void cm_disc_touch(struct cm *cm, const struct cm_pending *pending, uint64_t now_ns);
/* Time until which a server is expected back in VipConnectWait; 0 = no server is known. */
uint64_t cm_disc_served_ns(const struct cm *cm, const struct cm_disc *disc);
/* Time until which the discriminator is remembered as served. */
uint64_t cm_disc_linger_ns(const struct cm *cm, const struct cm_disc *disc);
/* Did a program wait there a moment ago, or in vipd's last life, and may it wait again? */
bool cm_disc_served(const struct cm *cm, const struct cm_disc *disc, uint64_t now_ns);

/* ---- cm_slow.c --------------------------------------------------------------------------- */

/* The accept of this request failed after it had taken long. */
void cm_slow_add(struct cm *cm, const struct cm_pending *pending, uint64_t now_ns);
/* A connection with this source was made. */
void cm_slow_confirmed(struct cm *cm, const struct cm_holder *source);
/* Is the source another host that was never connected, or whose last accept failed? */
bool cm_slow_stranger(const struct cm *cm, const struct cm_holder *source);
/* Until when the source stands behind others, and until when no serial server at disc gets its
 * requests. Not later than now: it is not so. */
uint64_t cm_slow_behind_ns(const struct cm *cm, const struct cm_holder *source);
uint64_t cm_slow_held_ns(const struct cm *cm, const struct cm_disc *disc,
                         const struct cm_holder *source);
/* True if this waiter must not get the REQUEST now, because accepts of its source failed. */
bool cm_slow_holds(struct cm *cm, const struct cm_in *in, const struct cm_waiter *waiter);

/* ---- cm_kept.c --------------------------------------------------------------------------- */

/* May another request of this source be kept for `disc`? Sources without a kept request there may
 * use CM_KEPT_SPARE. */
bool cm_kept_room(const struct cm *cm, const struct cm_disc *disc, const struct cm_holder *source);
/* Keep a new request for `disc` and start its grace. No waiter gets it yet. */
void cm_kept_add(struct cm *cm, struct cm_pending *pending, struct cm_disc *disc, uint64_t now_ns);
void cm_kept_remove(struct cm *cm, struct cm_pending *pending);
/*
 * Does a repetition of a kept request get PENDING? Not within the grace: PENDING slows the client's
 * repetition down, and then the client would take longer to notice that a NO_MATCH was lost.
 */
bool cm_kept_long(const struct cm *cm, const struct cm_pending *pending, uint64_t now_ns);
/* The kept request that this waiter gets next. NULL: there is none that it may get now, of a client
 * that still asks. */
struct cm_pending *cm_kept_next(const struct cm *cm, const struct cm_waiter *waiter,
                                uint64_t now_ns);
/* The client has repeated the request. */
void cm_kept_heard(struct cm *cm, struct cm_pending *pending, uint64_t now_ns);
/* Has the client stopped repeating the request? */
bool cm_kept_silent(const struct cm *cm, const struct cm_pending *pending, uint64_t now_ns);
/* Call it first when the request's timer has fired: time in which vipd stood still is no
 * silence. */
void cm_kept_awake(struct cm_pending *pending, uint64_t now_ns);
/* Set the request's timer to at_ns, when that timer is not the one that has just fired. */
void cm_kept_look(struct cm *cm, struct cm_pending *pending, uint64_t at_ns, uint64_t now_ns);
/* A waiter may have room: let the timer of one kept request fire now. _but: of one that is not
 * `but`. */
void cm_kept_wake(struct cm *cm, struct cm_disc *disc, uint64_t now_ns);
void cm_kept_wake_but(struct cm *cm, struct cm_disc *disc, const struct cm_pending *but,
                      uint64_t now_ns);

/* ---- cm_cookie.c ------------------------------------------------------------------------- */

/* May this new request use memory or a waiter? If not, it is answered or dropped here, and
 * counted. */
bool cm_cookie_pass(struct cm *cm, const struct cm_in *in);
/* Learn the COOKIE that answers a request of ours. The last cookie that a host gave us, 0 =
 * none. */
void cm_cookie_learn(struct cm *cm, const struct cm_in *in);
uint64_t cm_cookie_known(struct cm *cm, const struct cm_host *server);
/* May this user send a request now? 0: yes, it is counted; else the time to wait, in ns. `waits`:
 * it is a peer-to-peer request that has waited for long. */
uint64_t cm_ask_after_ns(struct cm *cm, const struct cm_holder *client, bool waits,
                         uint64_t now_ns);

/* ---- cm_meet.c --------------------------------------------------------------------------- */

/* The meeting place of our requests to `remote` with these discriminators. NULL: there are none. */
struct cm_meet *cm_meet_find(struct cm *cm, const struct cm_host *remote,
                             const struct vip_addr *ours, const struct vip_addr *theirs);
/* A new peer-to-peer attempt enters its meeting place. 0; -ENOMEM; -EPERM as cm_disc_claim. */
int cm_meet_enter(struct cm *cm, struct cm_attempt *attempt, uint64_t now_ns);
void cm_meet_leave(struct cm *cm, struct cm_attempt *attempt); /* legal if it never entered */

/* ---- cm_attempt.c ------------------------------------------------------------------------ */

/* The attempt that this message of its server is about, or NULL. */
struct cm_attempt *cm_attempt_find(struct cm *cm, const struct cm_in *in);
/* Is there a request to that host which may still become our connection conn_id? */
bool cm_attempt_awaits(struct cm *cm, const struct cm_host *host, uint64_t conn_id);
/*
 * The source of a REQUEST, with one reference more: the asking user if the request is from here and
 * still under way; else its host (cm_source_of). NULL = no memory.
 */
struct cm_holder *cm_source_get(struct cm *cm, const struct cm_in *in);
void cm_attempt_free(struct cm *cm, struct cm_attempt *attempt);
/* The attempt failed: forget it, then tell the host. data may be NULL. */
void cm_attempt_fail(struct cm *cm, struct cm_attempt *attempt, enum vip_rc rc,
                     const struct vip_private *data, const char *why);
/* Send the attempt's REQUEST, now or as soon as the limits allow, and repeat it later. */
void cm_attempt_again(struct cm *cm, struct cm_attempt *attempt, uint64_t now_ns);
/* Set the attempt's timer to the earliest of its times. */
void cm_attempt_arm(struct cm *cm, struct cm_attempt *attempt);
/* Give the attempt other ids; nothing is sent. */
void cm_attempt_renew(struct cm *cm, struct cm_attempt *attempt);
/* Tell a server that a request of ours is over. */
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
/* Send REJECT, and remember it. */
void cm_refuse(struct cm *cm, const struct cm_in *in, enum vip_rc code);
void cm_answered_deinit(struct cm *cm);
void cm_fire_answered(struct cm *cm, struct cm_timer *timer, uint64_t now_ns);

/* ---- cm_closing.c ------------------------------------------------------------------------ */

/* Repeat a CLOSE for assoc in the background. args may be NULL: reason TIMEOUT, nothing known. */
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
/* NO_MATCH: true if it answers a REBIND of ours. */
bool cm_rebind_refused(struct cm *cm, const struct cm_in *in);
/* The CLOSE in `in` is from the other end of a rebinding: this end is over, too. */
void cm_rebind_closed(struct cm *cm, const struct cm_in *in);
void cm_fire_rebind(struct cm *cm, struct cm_timer *timer, uint64_t now_ns);
void cm_rebind_deinit(struct cm *cm);

/* ---- cm_pending.c ------------------------------------------------------------------------ */

struct cm_pending *cm_pending_find(struct cm *cm, const struct cm_in *in);
struct cm_pending *cm_pending_by_handle(struct cm *cm, uint64_t handle);
/* Make a pending request of a REQUEST to disc (NULL: not known yet). keep: it will be kept. NULL if
 * there is no room or memory (counted). */
struct cm_pending *cm_pending_new(struct cm *cm, const struct cm_in *in, struct cm_disc *disc,
                                  bool keep);
/* Forget a request; its association goes with it, unless that has been handed on. */
void cm_pending_free(struct cm *cm, struct cm_pending *pending);
/*
 * The client gives up a request whose handle the host has: the request lives until the host uses
 * the handle. The client's host gets back its peer and, for at most CM_PENDING_HOST such requests,
 * the place of the request.
 */
void cm_pending_cancel(struct cm *cm, struct cm_pending *pending, uint64_t now_ns);
/* A waiter took the request. */
void cm_pending_work(struct cm_pending *pending, struct cm_disc *disc);
/* A request of a listener is answered: the listener has room for a kept request. */
void cm_pending_unoffer(struct cm *cm, struct cm_pending *pending, uint64_t now_ns);
/* The host has used up the handle of the request. */
void cm_pending_handled(struct cm *cm, struct cm_pending *pending);
/* The end of a request: send and remember the answer, forget the rest. */
void cm_pending_answer(struct cm *cm, struct cm_pending *pending, enum cm_answer answer,
                       uint32_t code, const struct vip_private *data, uint64_t now_ns);
/* Send PENDING; cm_answer_pending: for a request that is not remembered. */
void cm_pending_send(struct cm *cm, const struct cm_pending *pending);
void cm_answer_pending(struct cm *cm, const struct cm_in *in);
/* Send ACCEPT for the request, and SETUP if it is due. */
void cm_accept_send(struct cm *cm, const struct cm_pending *pending);
/* The same, repeated until the client confirms or give_up_ns has come. */
void cm_pending_accept(struct cm *cm, struct cm_pending *pending, uint64_t local_id,
                       const struct vip_cm_attrs *attrs, const struct vip_private *data,
                       uint64_t give_up_ns, uint64_t now_ns);
void cm_accept_withdraw(struct cm *cm, struct cm_pending *pending, enum vip_close_reason reason,
                        uint64_t now_ns);
/* The host closed a connection with its accept under way. */
void cm_accept_abandon(struct cm *cm, struct cm_assoc *assoc, enum vip_close_reason reason,
                       uint64_t now_ns);
/* The client has the connection. msg: its CONFIRM or SETUP; NULL: another sign. */
void cm_confirmed(struct cm *cm, struct cm_assoc *assoc, const struct vip_cm *msg, uint64_t now_ns);

/* ---- cm_match.c -------------------------------------------------------------------------- */

/* A peer-to-peer REQUEST that is not a repetition of an answered one. */
void cm_match_request(struct cm *cm, const struct cm_in *in);
/* The peer's request that our attempt was accepting is withdrawn: the attempt waits again. */
void cm_match_alone(struct cm *cm, struct cm_attempt *attempt, uint64_t now_ns);

/* ---- cm_client.c, cm_server.c, cm_close.c ------------------------------------------------ */

void cm_rx_cookie(struct cm *cm, const struct cm_in *in);
void cm_rx_pending(struct cm *cm, const struct cm_in *in);
void cm_rx_accept(struct cm *cm, const struct cm_in *in);
/* A SETUP: true if it is that of a server that has accepted a request of ours. */
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

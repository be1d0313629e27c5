/*
 * REBIND: a connection goes on in another life of a vipd (doc/wire.md, "REBIND").
 *
 *   rebinder                              other end
 *   REBIND (tag, nonce A, new id)   ->    finds the connection by its tag; nothing changes
 *                                    <-   CHALLENGE (nonce B), or NO_MATCH: unknown
 *   PROOF (counts, MAC)             ->    checks the MAC, binds its end anew
 *                                    <-   PROOF (counts, MAC)
 *   checks the MAC, binds its end
 *
 * Both MACs are keyed hashes; the key is the secret of the connection (cm_setup.c). They cover
 * nonces, ids, epochs, sizes and counts, so an old message proves nothing. The rebinder repeats its
 * message; the other end repeats its answer. If both ends send REBIND, the end that sent the
 * REQUEST of the connection is the rebinder. The other end answers.
 *
 * Owns: struct cm_rebinding, struct cm_offer. Does not own: secrets (cm_setup.c), when a connection
 * is rebound (the host).
 */
#include "vipd/engine/cm_internal.h"

#include <endian.h>
#include <errno.h>
#include <string.h>

#include "proto/assert.h"

/* Until the answer to a PROOF comes, every fourth message is a REBIND instead. Reason: the other
 * end remembers one REBIND only, and a late copy of another REBIND may have replaced ours. */
#define MESSAGES_PER_REBIND 4

/* The data that the MAC of a PROOF covers, besides the counts. */
struct proof {
    bool of_rebinder; /* the rebinder sends this PROOF */
    uint64_t nonce_a, nonce_b;
    uint64_t rebinder_id, rebinder_epoch, other_id, other_epoch;
    uint32_t packet_bytes, window_bytes; /* of the sender */
};

static uint64_t mac_of(const struct siphash_key *secret, const struct proof *proof,
                       const struct cm_counts_item *counts)
{
    struct {
        uint64_t word[8];
        uint32_t counts[1 + VIP_COUNTS_READS_MAX];
    } text = {.word = {htole64(proof->of_rebinder ? 1 : 2), htole64(proof->nonce_a),
                       htole64(proof->nonce_b), htole64(proof->rebinder_id),
                       htole64(proof->rebinder_epoch), htole64(proof->other_id),
                       htole64(proof->other_epoch),
                       htole64((uint64_t)proof->packet_bytes << 32 | proof->window_bytes)}};

    memcpy(text.counts, counts->word, counts->bytes);
    return siphash(secret, &text, sizeof(text.word) + counts->bytes);
}

/* Send a PROOF with this data and counts. */
static void proof_send(struct cm *cm, const struct cm_host *to, const struct siphash_key *secret,
                       const struct proof *proof, const struct vip_counts *counts)
{
    struct cm_counts_item item = cm_counts_put(counts);
    uint64_t mac = htole64(mac_of(secret, proof, &item));
    uint8_t bytes[VIP_ITEMS_BYTES_MAX];
    struct vip_cm msg = {
        .type = VIP_CM_PROOF,
        .request_id = proof->nonce_a,
        .nonce = proof->nonce_b,
        .conn_id = proof->of_rebinder ? proof->rebinder_id : proof->other_id,
        .peer_conn_id = proof->of_rebinder ? proof->other_id : proof->rebinder_id,
        .packet_bytes = proof->packet_bytes,
        .window_bytes = proof->window_bytes,
        .items = {.bytes = bytes},
    };

    vip_items_put(bytes, &msg.items.len, VIP_ITEM_COUNTS, item.word, item.bytes);
    vip_items_put(bytes, &msg.items.len, VIP_ITEM_MAC, &mac, sizeof(mac));
    cm_send(cm, to, proof->of_rebinder ? proof->other_epoch : proof->rebinder_epoch, &msg);
}

/* Is the MAC of the PROOF in `in` correct? `proof`: the expected data; this function sets its sizes
 * from the message. */
static bool proof_holds(const struct cm_in *in, const struct siphash_key *secret,
                        struct proof *proof, struct vip_counts *ret)
{
    uint16_t len = sizeof(uint64_t);
    const uint8_t *value = vip_items_find(&in->msg->items, VIP_ITEM_MAC, &len);
    struct cm_counts_item item;
    uint64_t mac;

    if (!value || !cm_counts_get(&in->msg->items, &item, ret))
        return false;
    memcpy(&mac, value, sizeof(mac));
    proof->packet_bytes = in->msg->packet_bytes;
    proof->window_bytes = in->msg->window_bytes;
    return (le64toh(mac) ^ mac_of(secret, proof, &item)) == 0;
}

/* ---- the rebinder ------------------------------------------------------------------------ */

static struct cm_rebinding *rebinding_at(struct cm *cm, const struct cm_in *in)
{
    struct cm_node *node = cm_table_find(cm, &cm->rebindings_local, in->msg->peer_conn_id);
    struct cm_rebinding *of = node ? CM_OF(struct cm_rebinding, by_local, node) : NULL;

    return of && cm_host_equal(&of->host, in->from) ? of : NULL;
}

static void rebinding_free(struct cm *cm, struct cm_rebinding *of)
{
    cm_timer_clear(cm, &of->timer);
    cm_node_del(&of->by_user);
    cm_node_del(&of->by_local);
    cm_node_del(&of->by_tag);
    cm_node_del(&of->by_nonce);
    if (of->assoc)
        cm_assoc_free(cm, of->assoc);
    cm_share_give(cm, CM_POOL_ATTEMPTS, of->client, NULL);
    cm_holder_put(cm, of->client);
    cm_free(cm, of, sizeof(*of));
}

static void rebinding_send(struct cm *cm, struct cm_rebinding *of)
{
    struct vip_cm msg = {
        .type = VIP_CM_REBIND,
        .request_id = of->nonce_a,
        .conn_id = of->args.local_id,
        .tag = cm_tag(&of->args.secret, !of->args.asked),
    };
    struct proof proof = {
        .of_rebinder = true,
        .nonce_a = of->nonce_a,
        .nonce_b = of->nonce_b,
        .rebinder_id = of->args.local_id,
        .rebinder_epoch = cm->config.epoch,
        .other_id = of->other_id,
        .other_epoch = of->other_epoch,
        .packet_bytes = cm->config.packet_bytes,
        .window_bytes = cm->config.window_bytes,
    };

    if (!of->challenged || ++of->messages % MESSAGES_PER_REBIND == 0) {
        cm_send(cm, &of->host, 0, &msg);
        return;
    }
    proof_send(cm, &of->host, &of->args.secret, &proof, &of->args.counts);
}

/* Set the timer to the next repetition, or to give_up_ns if that is earlier. Even a peer that sends
 * CHALLENGE without end does not change give_up_ns. */
static void rebinding_wait(struct cm *cm, struct cm_rebinding *of, uint64_t now_ns)
{
    uint64_t again_ns = cm_repeat_next(cm, &of->repeat, now_ns);

    cm_timer_set(cm, &of->timer, again_ns < of->give_up_ns ? again_ns : of->give_up_ns);
}

int cm_rebind(struct cm *cm, const struct cm_rebind_args *args, uint64_t now_ns)
{
    struct cm_rebinding *of;

    VIP_ASSERT(args->counts.reads <= VIP_COUNTS_READS_MAX);
    if (cm_table_find(cm, &cm->rebindings_user, args->user))
        return -EALREADY;
    if ((args->features & cm->config.features) != args->features)
        return -EPROTO;
    cm->now_ns = now_ns;
    of = cm_alloc(cm, sizeof(*of));
    if (!of)
        return -ENOMEM;
    of->assoc = cm_alloc(cm, sizeof(*of->assoc));
    of->client = cm_holder_user(cm, CM_HOLDER_CLIENT, args->uid);
    if (!of->assoc || !of->client || !cm_share_room(cm, CM_POOL_ATTEMPTS, of->client, NULL)) {
        cm_holder_put(cm, of->client);
        if (of->assoc)
            cm_assoc_free(cm, of->assoc);
        cm_free(cm, of, sizeof(*of));
        return -ENOMEM;
    }
    of->args = *args;
    of->host = args->remote;
    of->give_up_ns = cm_add_ns(now_ns, args->timeout_ns);
    of->reason = VIP_CLOSE_TIMEOUT;
    of->timer.kind = CM_TIMER_REBIND;
    cm_share_take(cm, CM_POOL_ATTEMPTS, of->client, NULL);
    cm_table_add(cm, &cm->rebindings_user, &of->by_user, args->user);
    cm_table_add(cm, &cm->rebindings_local, &of->by_local, args->local_id);
    cm_table_add(cm, &cm->rebindings_tag, &of->by_tag, cm_tag(&args->secret, args->asked));
    of->nonce_a = cm_random_id(cm);
    cm_table_add(cm, &cm->rebindings, &of->by_nonce, of->nonce_a);
    rebinding_send(cm, of);
    rebinding_wait(cm, of, now_ns);
    return 0;
}

/* The other end has bound the connection anew, or may have done so. Send CLOSE for `assoc`, this
 * end of the connection, and free it. */
static void rebinding_end(struct cm *cm, const struct cm_rebinding *of, struct cm_assoc *assoc,
                          uint64_t now_ns)
{
    struct cm_close_args args = {.reason = of->reason};

    cm_closing_start(cm, assoc, &args, now_ns);
    cm_assoc_free(cm, assoc);
}

/* This end gives up. The other end is bound anew if our PROOF has arrived, although no answer has
 * come. So send CLOSE. */
static void rebinding_close(struct cm *cm, struct cm_rebinding *of, uint64_t now_ns)
{
    struct cm_assoc *assoc = of->assoc;
    struct cm_peer *peer;

    peer = of->challenged ? cm_peer_get(cm, &of->host, of->other_epoch, now_ns) : NULL;
    if (!peer)
        return;
    of->assoc = NULL;
    cm_assoc_add(cm, assoc, peer, of->args.local_id, of->other_id, CM_ASSOC_OPEN, now_ns);
    cm_peer_put(cm, peer);
    rebinding_end(cm, of, assoc, now_ns);
}

/* The other end accepts a CLOSE only when a valid PROOF has bound it anew. So the rebind goes on
 * within its time limit, and CLOSE comes after the rebind. */
bool cm_rebind_cancel(struct cm *cm, uint64_t user, enum vip_close_reason reason, uint64_t now_ns)
{
    struct cm_node *node = cm_table_find(cm, &cm->rebindings_user, user);
    struct cm_rebinding *of = node ? CM_OF(struct cm_rebinding, by_user, node) : NULL;

    if (!of)
        return false;
    cm->now_ns = now_ns;
    of->closing = true;
    of->reason = reason;
    cm_node_del(&of->by_user);
    return true;
}

uint64_t cm_rebind_until(struct cm *cm, uint64_t user)
{
    struct cm_node *node = cm_table_find(cm, &cm->rebindings_user, user);

    return node ? CM_OF(struct cm_rebinding, by_user, node)->give_up_ns : 0;
}

static void rebinding_fail(struct cm *cm, struct cm_rebinding *of, enum vip_rc rc, const char *why)
{
    uint64_t user = of->args.user;
    bool closing = of->closing;

    rebinding_free(cm, of);
    if (!closing)
        cm->ops.rebound(cm->ctx, user, rc, NULL, NULL, why);
}

void cm_fire_rebind(struct cm *cm, struct cm_timer *timer, uint64_t now_ns)
{
    struct cm_rebinding *of = CM_OF(struct cm_rebinding, timer, timer);

    of->give_up_ns = cm_add_ns(of->give_up_ns, cm_timer_late_ns(timer, now_ns));
    if (now_ns >= of->give_up_ns) {
        cm->stats.timeouts++;
        rebinding_close(cm, of, now_ns);
        rebinding_fail(cm, of, VIP_RC_TIMEOUT, "the other end did not answer in time");
        return;
    }
    cm->stats.retransmits++;
    rebinding_send(cm, of);
    rebinding_wait(cm, of, now_ns);
}

bool cm_rebind_refused(struct cm *cm, const struct cm_in *in)
{
    struct cm_node *node = cm_table_find(cm, &cm->rebindings, in->msg->request_id);
    struct cm_rebinding *of = node ? CM_OF(struct cm_rebinding, by_nonce, node) : NULL;

    if (!of || !cm_host_equal(&of->host, in->from))
        return false;
    rebinding_fail(cm, of, VIP_RC_NO_MATCH, "the other end does not know this connection");
    return true;
}

void cm_rebind_closed(struct cm *cm, const struct cm_in *in)
{
    struct cm_rebinding *of = rebinding_at(cm, in);

    if (of && of->challenged && of->other_id == in->msg->conn_id &&
        of->other_epoch == in->src_epoch)
        rebinding_fail(cm, of, VIP_RC_NO_MATCH, "the other end has closed the connection");
}

void cm_rx_challenge(struct cm *cm, const struct cm_in *in)
{
    struct cm_rebinding *of = rebinding_at(cm, in);

    if (!of || of->nonce_a != in->msg->request_id) {
        cm->stats.unexpected++;
        return;
    }
    if (of->challenged && of->nonce_b == in->msg->nonce) {
        cm->stats.duplicates++; /* this end has sent a PROOF for this CHALLENGE */
        return;
    }
    /* After the first CHALLENGE, begin with short intervals again. Not after a later one: an answer
     * may take longer than short intervals. */
    if (!of->challenged)
        of->repeat.interval_ns = 0;
    of->challenged = true;
    of->nonce_b = in->msg->nonce;
    of->other_id = in->msg->conn_id;
    of->other_epoch = in->src_epoch;
    of->messages = 0;
    rebinding_send(cm, of);
    rebinding_wait(cm, of, in->now_ns);
}

/* The rebind succeeded: open the association with the sender of `in`. NULL: no memory. */
static struct cm_assoc *rebinding_open(struct cm *cm, struct cm_rebinding *of,
                                       const struct cm_in *in, struct cm_conn *ret)
{
    struct cm_peer *peer = cm_peer_get(cm, in->from, in->src_epoch, in->now_ns);
    struct cm_assoc *assoc = of->assoc;

    if (!peer)
        return NULL;
    of->assoc = NULL;
    cm_assoc_add(cm, assoc, peer, of->args.local_id, in->msg->conn_id, CM_ASSOC_OPEN, in->now_ns);
    cm_peer_put(cm, peer); /* the association has its own reference */
    cm_assoc_secret(cm, assoc, &of->args.secret, of->args.asked);
    cm_conn_fill(cm, ret, assoc, in->msg, of->args.features);
    return assoc;
}

/* Handle the PROOF that answers our PROOF. */
static void answered(struct cm *cm, struct cm_rebinding *of, const struct cm_in *in)
{
    struct proof proof = {.nonce_a = of->nonce_a,
                          .nonce_b = of->nonce_b,
                          .rebinder_id = of->args.local_id,
                          .rebinder_epoch = cm->config.epoch,
                          .other_id = of->other_id,
                          .other_epoch = of->other_epoch};
    uint64_t user = of->args.user;
    struct vip_counts theirs;
    struct cm_assoc *assoc;
    struct cm_conn conn;

    if (in->msg->conn_id != of->other_id || in->src_epoch != of->other_epoch ||
        !proof_holds(in, &of->args.secret, &proof, &theirs)) {
        cm->stats.unexpected++;
        return;
    }
    assoc = rebinding_open(cm, of, in, &conn);
    if (!assoc)
        return; /* no memory; the other end sends its PROOF again */
    if (of->closing) {
        rebinding_end(cm, of, assoc, in->now_ns);
        rebinding_free(cm, of);
        return;
    }
    rebinding_free(cm, of);
    cm->ops.rebound(cm->ctx, user, VIP_RC_SUCCESS, &conn, &theirs, "");
}

/* ---- the other end ----------------------------------------------------------------------- */

/* Find the open connection with host `from` and this tag. */
static struct cm_assoc *assoc_of_tag(struct cm *cm, const struct cm_host *from, uint64_t tag)
{
    struct cm_node *node = cm_table_find(cm, &cm->assocs_tag, tag);

    for (; node; node = cm_table_again(node)) {
        struct cm_assoc *assoc = CM_OF(struct cm_assoc, by_tag, node);

        if (assoc->state == CM_ASSOC_OPEN && cm_host_equal(&assoc->peer->host, from))
            return assoc;
    }
    return NULL;
}

static struct cm_rebinding *rebinding_of_tag(struct cm *cm, const struct cm_host *from,
                                             uint64_t tag)
{
    struct cm_node *node = cm_table_find(cm, &cm->rebindings_tag, tag);

    for (; node; node = cm_table_again(node)) {
        struct cm_rebinding *of = CM_OF(struct cm_rebinding, by_tag, node);

        if (cm_host_equal(&of->host, from))
            return of;
    }
    return NULL;
}

/* Answer the REBIND in `in` with CHALLENGE. */
static void challenge(struct cm *cm, const struct cm_in *in, const struct cm_offer *offer)
{
    struct vip_cm msg = {.type = VIP_CM_CHALLENGE,
                         .request_id = offer->nonce_a,
                         .conn_id = offer->local_id,
                         .peer_conn_id = offer->conn_id,
                         .nonce = offer->nonce_b};

    cm_answer(cm, in, &msg);
}

/* Is the REBIND in `in` the one that this offer answers, or a copy of that REBIND? */
static bool offer_is(const struct cm_offer *offer, const struct cm_in *in)
{
    return offer->nonce_a == in->msg->request_id && offer->conn_id == in->msg->conn_id &&
           offer->epoch == in->src_epoch;
}

/* Replace the offer by one for the REBIND in `in`, with a new nonce. */
static void offer_new(struct cm *cm, struct cm_offer *offer, const struct cm_in *in,
                      struct cm_assoc *assoc, uint64_t local_id)
{
    cm_node_del(&offer->by_id);
    *offer = (struct cm_offer){.assoc = assoc,
                               .local_id = local_id,
                               .nonce_a = in->msg->request_id,
                               .nonce_b = cm_random_id(cm),
                               .conn_id = in->msg->conn_id,
                               .epoch = in->src_epoch};
}

/* Handle a REBIND for an open connection. If the PROOF that follows a REBIND came before, the
 * REBIND is a late copy: ignore it. */
static void challenge_open(struct cm *cm, const struct cm_in *in, struct cm_assoc *assoc)
{
    if (!assoc->offer)
        assoc->offer = cm_alloc(cm, sizeof(*assoc->offer));
    if (!assoc->offer)
        return;
    if (offer_is(assoc->offer, in) && assoc->offer->proven) {
        cm->stats.duplicates++;
        return;
    }
    if (!offer_is(assoc->offer, in)) {
        offer_new(cm, assoc->offer, in, assoc, cm->ops.other_id(cm->ctx, assoc->local_id));
        cm_table_add(cm, &cm->offers, &assoc->offer->by_id, assoc->offer->local_id);
    }
    challenge(cm, in, assoc->offer);
}

void cm_rx_rebind(struct cm *cm, const struct cm_in *in)
{
    struct cm_rebinding *of = rebinding_of_tag(cm, in->from, in->msg->tag);
    struct cm_assoc *assoc = assoc_of_tag(cm, in->from, in->msg->tag);

    if (of && of->args.asked) {
        cm->stats.duplicates++; /* both ends have sent REBIND, and this end is the rebinder */
        return;
    }
    if (of) {
        if (!offer_is(&of->offer, in))
            offer_new(cm, &of->offer, in, NULL, of->args.local_id);
        challenge(cm, in, &of->offer);
        return;
    }
    if (!assoc && in->now_ns < cm_add_ns(cm->born_ns, cm->config.outlive_ns)) {
        /* Send no NO_MATCH: this vipd is new, and the program of this end may still claim its
         * session. */
        cm->stats.unexpected++;
        return;
    }
    if (!assoc) {
        cm->stats.unexpected++;
        cm_answer_send(cm, in->from, in->src_epoch, in->msg->request_id, CM_ANSWER_NO_MATCH, 0,
                       NULL);
        return;
    }
    challenge_open(cm, in, assoc);
}

/* The data that the MAC of a PROOF for this offer covers. of_rebinder: the PROOF comes from the
 * rebinder. */
static struct proof offer_proof(const struct cm *cm, const struct cm_offer *offer, bool of_rebinder)
{
    return (struct proof){.of_rebinder = of_rebinder,
                          .nonce_a = offer->nonce_a,
                          .nonce_b = offer->nonce_b,
                          .rebinder_id = offer->conn_id,
                          .rebinder_epoch = offer->epoch,
                          .other_id = offer->local_id,
                          .other_epoch = cm->config.epoch,
                          .packet_bytes = cm->config.packet_bytes,
                          .window_bytes = cm->config.window_bytes};
}

static bool offer_fits(const struct cm_offer *offer, const struct cm_in *in)
{
    return offer && offer->nonce_a == in->msg->request_id && offer->nonce_b == in->msg->nonce &&
           offer->conn_id == in->msg->conn_id && offer->epoch == in->src_epoch;
}

/* Send the PROOF that answers the rebinder's PROOF. */
static void offer_answer(struct cm *cm, const struct cm_assoc *assoc)
{
    struct proof proof = offer_proof(cm, assoc->offer, false);

    proof_send(cm, &assoc->peer->host, &assoc->secret, &proof, &assoc->offer->ours);
}

/* The PROOF in `in` is valid: bind this end of the open connection anew. */
static void proven_open(struct cm *cm, struct cm_assoc *assoc, const struct cm_in *in,
                        const struct vip_counts *theirs)
{
    uint64_t epoch = VIP_MUTANT(OLD_LIFE) ? assoc->peer->epoch : in->src_epoch;
    struct cm_peer *peer = cm_peer_get(cm, in->from, epoch, in->now_ns);
    uint64_t old_id = assoc->local_id, local_id = assoc->offer->local_id;
    struct cm_conn conn;

    if (!peer)
        return; /* no memory; the rebinder sends its PROOF again */
    cm_node_del(&assoc->offer->by_id);
    cm_assoc_move(cm, assoc, peer, local_id, in->msg->conn_id, in->now_ns);
    cm_peer_put(cm, peer);
    cm_conn_fill(cm, &conn, assoc, in->msg, assoc->features);
    assoc->offer->proven = true;
    if (cm->ops.rebind(cm->ctx, old_id, &conn, theirs, &assoc->offer->ours)) {
        offer_answer(cm, assoc);
        return;
    }
    cm_closing_start(cm, assoc, NULL, in->now_ns);
    cm_assoc_set_state(cm, assoc, CM_ASSOC_CLOSED, in->now_ns);
    cm->ops.lost(cm->ctx, local_id, "the peer's new vipd says what cannot be");
}

/* The PROOF in `in` is valid, and this end has sent a REBIND, too: bind this end anew. */
static void proven_rebinding(struct cm *cm, struct cm_rebinding *of, const struct cm_in *in,
                             const struct vip_counts *theirs)
{
    struct cm_offer *offer = cm_alloc(cm, sizeof(*offer));
    uint64_t user = of->args.user;
    struct cm_assoc *assoc;
    struct cm_conn conn;

    if (!offer)
        return;
    assoc = rebinding_open(cm, of, in, &conn);
    if (!assoc) {
        cm_free(cm, offer, sizeof(*offer));
        return;
    }
    *offer = of->offer;
    offer->proven = true;
    offer->ours = of->args.counts;
    offer->assoc = assoc;
    assoc->offer = offer;
    offer_answer(cm, assoc);
    if (of->closing) {
        rebinding_end(cm, of, assoc, in->now_ns);
        rebinding_free(cm, of);
        return;
    }
    rebinding_free(cm, of);
    cm->ops.rebound(cm->ctx, user, VIP_RC_SUCCESS, &conn, theirs, "");
}

/* Find the association whose offer has this id as new id. If there is none, find the association
 * that has this id. */
static struct cm_assoc *offered(struct cm *cm, uint64_t local_id)
{
    struct cm_node *node = cm_table_find(cm, &cm->offers, local_id);

    return node ? CM_OF(struct cm_offer, by_id, node)->assoc : cm_assoc_find(cm, local_id);
}

void cm_rx_proof(struct cm *cm, const struct cm_in *in)
{
    struct cm_rebinding *of = rebinding_at(cm, in);
    struct cm_assoc *assoc = of ? NULL : offered(cm, in->msg->peer_conn_id);
    const struct siphash_key *secret = of ? &of->args.secret : assoc ? &assoc->secret : NULL;
    struct cm_offer *offer = of ? &of->offer : assoc ? assoc->offer : NULL;
    struct vip_counts theirs;
    struct proof proof;

    if (of && of->challenged && of->nonce_a == in->msg->request_id &&
        of->nonce_b == in->msg->nonce) {
        answered(cm, of, in);
        return;
    }
    if (!offer_fits(offer, in) || (assoc && (assoc->state != CM_ASSOC_OPEN ||
                                             !cm_host_equal(&assoc->peer->host, in->from)))) {
        cm->stats.unexpected++;
        return;
    }
    proof = offer_proof(cm, offer, true);
    if (!proof_holds(in, secret, &proof, &theirs)) {
        cm->stats.unexpected++;
    } else if (of) {
        proven_rebinding(cm, of, in, &theirs);
    } else if (offer->proven && !VIP_MUTANT(PROOF_AGAIN)) {
        cm->stats.duplicates++;
        offer_answer(cm, assoc);
    } else if (!cm->ops.rests || cm->ops.rests(cm->ctx, assoc->local_id)) {
        proven_open(cm, assoc, in, &theirs);
    }
}

void cm_rebind_deinit(struct cm *cm)
{
    struct cm_node *node;
    unsigned bucket = 0;

    while ((node = cm_table_any(&cm->rebindings, &bucket)))
        rebinding_free(cm, CM_OF(struct cm_rebinding, by_nonce, node));
}

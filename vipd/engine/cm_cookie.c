/*
 * Who may make us remember a request: cookies.
 *
 * A REQUEST may carry any source address. Before it costs memory, or uses a waiter up, its sender must
 * have shown that it receives at that address: it is answered by a COOKIE, made of the address, the
 * request and a secret of ours, and repeats the REQUEST with it. Nothing is remembered meanwhile, and
 * a COOKIE is never longer than the REQUEST. Hosts that we have a connection with have shown it
 * already. Below a threshold of new requests all are believed, unless cm_config.verify_all.
 *
 * Owns: the secrets, the threshold, the rate of one source. Called by cm_server.c for new requests
 * (answers to repeated ones come before), and by cm.c for COOKIE messages.
 */
#include "vipd/engine/cm_internal.h"

#include <string.h>

/* New requests per second that are believed as they come, and how many in a burst; when there are
 * more, none is for a while. Low, for a cookie costs an honest client one round trip. */
#define TRUST_PER_S    256
#define TRUST_BURST    64
#define DISTRUST_NS    2000000000ull
#define PENDING_LOADED (CM_PENDING_MAX / 8)

/* COOKIE answers per second: more would cost the connections that stand too much time, for each is a
 * packet sent (some 4 us). Under 100,000 requests a second every fifth is answered; a client repeats. */
#define COOKIES_PER_S 20000
#define COOKIES_BURST 2000

/* Requests per second of one source that has shown its address; sources share tokens by chance. */
#define SOURCE_PER_S 5000
#define SOURCE_BURST 4096

#define SECRET_NS 120000000000ull /* a cookie is good for one to two of these */

#define S_NS 1000000000ull

static bool tokens_take(struct cm_tokens *tokens, uint64_t per_s, uint64_t burst, uint64_t now_ns)
{
    uint64_t each = S_NS / per_s, full = burst * each;
    uint64_t passed = now_ns > tokens->last_ns ? now_ns - tokens->last_ns : 0;

    if (!tokens->used || passed >= full || tokens->credit_ns + passed > full)
        tokens->credit_ns = full;
    else
        tokens->credit_ns += passed;
    tokens->used = true;
    if (now_ns > tokens->last_ns)
        tokens->last_ns = now_ns;
    if (tokens->credit_ns < each)
        return false;
    tokens->credit_ns -= each;
    return true;
}

static struct siphash_key new_secret(struct cm *cm)
{
    struct siphash_key key;

    key.k0 = cm_random(cm);
    key.k1 = cm_random(cm);
    return key;
}

static void secrets_rotate(struct cm *cm, uint64_t now_ns)
{
    struct cm_cookies *c = &cm->cookies;

    if (c->secret_until_ns && now_ns < c->secret_until_ns)
        return;
    c->secret[1] = c->secret[0];
    c->secret[0] = new_secret(cm);
    if (!c->secret_until_ns || now_ns - c->secret_until_ns >= SECRET_NS)
        c->secret[1] = new_secret(cm);
    c->secret_until_ns = cm_add_ns(now_ns, SECRET_NS);
}

static uint64_t cookie_of(const struct siphash_key *secret, const struct cm_in *in)
{
    uint8_t bytes[1 + VIP_HOST_ADDR_BYTES_MAX + 3 * 8] = {in->from->len};
    uint64_t cookie;

    memcpy(bytes + 1, in->from->bytes, in->from->len);
    memcpy(bytes + 1 + VIP_HOST_ADDR_BYTES_MAX, &in->src_epoch, 8);
    memcpy(bytes + 9 + VIP_HOST_ADDR_BYTES_MAX, &in->msg->request_id, 8);
    memcpy(bytes + 17 + VIP_HOST_ADDR_BYTES_MAX, &in->msg->conn_id, 8);
    cookie = siphash(secret, bytes, sizeof(bytes));
    return cookie ? cookie : 1;
}

/* Has the sender shown that it receives at its address? */
static bool shown(struct cm *cm, const struct cm_in *in)
{
    uint64_t cookie = in->msg->cookie;

    if (in->src_epoch == cm->config.epoch && cm_host_equal(in->from, &cm->config.self))
        return true;
    if (in->peer && in->peer->assocs_open)
        return true;
    return cookie && (cookie == cookie_of(&cm->cookies.secret[0], in) ||
                      cookie == cookie_of(&cm->cookies.secret[1], in));
}

/* May a new request be believed without a cookie? */
static bool trusted(struct cm *cm, uint64_t now_ns)
{
    struct cm_cookies *c = &cm->cookies;

    if (cm->config.verify_all || cm->stats.pending >= PENDING_LOADED)
        return false;
    if (now_ns < c->distrust_until_ns)
        return false;
    if (tokens_take(&c->trust, TRUST_PER_S, TRUST_BURST, now_ns))
        return true;
    c->distrust_until_ns = cm_add_ns(now_ns, DISTRUST_NS);
    return false;
}

bool cm_cookie_pass(struct cm *cm, const struct cm_in *in)
{
    struct cm_cookies *c = &cm->cookies;
    struct vip_cm msg = {.type = VIP_CM_COOKIE, .request_id = in->msg->request_id};
    uint64_t source;

    secrets_rotate(cm, in->now_ns);
    if (shown(cm, in)) {
        source = siphash(&c->secret[0], in->from->bytes, in->from->len) % CM_SOURCES;
        if (tokens_take(&c->sources[source], SOURCE_PER_S, SOURCE_BURST, in->now_ns))
            return true;
        cm->stats.source_limited++;
        return false;
    }
    if (trusted(cm, in->now_ns))
        return true;
    if (!tokens_take(&c->answers, COOKIES_PER_S, COOKIES_BURST, in->now_ns)) {
        cm->stats.cookies_suppressed++;
        return false;
    }
    msg.cookie = cookie_of(&c->secret[0], in);
    cm->stats.cookies_sent++;
    cm_answer(cm, in, &msg);
    return false;
}

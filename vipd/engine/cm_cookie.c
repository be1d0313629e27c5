/*
 * Cookies: they prove the source address of a request.
 *
 * A REQUEST may have a forged source address. Before vipd uses memory or a waiter for the REQUEST,
 * its sender must prove that it receives at that address. vipd answers with a COOKIE, made of the
 * address, the sender's epoch and a secret of vipd. The sender repeats the REQUEST with this
 * cookie. Meanwhile vipd keeps no state for the sender. A COOKIE is never longer than the REQUEST.
 * The sender keeps the cookie for later requests to the same host. An existing connection with the
 * sender's host and epoch is no proof, because epochs are public.
 *
 * Owns: the secrets, the limits of requests per second of one source and of one user, the cookies
 * from other hosts. Called by cm_server.c for new requests, and by cm_attempt.c.
 */
#include "vipd/engine/cm_internal.h"

#include <string.h>

/* COOKIE answers per second, and in one burst. Each answer takes some 4 us, in which vipd serves no
 * connection. In a flood of 100,000 requests per second every fifth request gets an answer. */
#define COOKIES_PER_S 20000
#define COOKIES_BURST 2000

/* Requests per second of one source that has proved its address. Two sources may have the same
 * bucket of tokens. */
#define SOURCE_PER_S 5000
#define SOURCE_BURST 4096

/* Requests of one user per second, with repetitions: half of SOURCE_PER_S, which is the limit of
 * another host for all requests of this host. */
#define CLIENT_PER_S (SOURCE_PER_S / 2)
#define CLIENT_BURST (SOURCE_BURST / 2)

/*
 * The part of CLIENT_PER_S for repetitions of peer-to-peer requests that have waited for long. Such
 * requests may wait for ever, and each repetition costs the two hosts some 80 us together. Slow
 * repetitions delay no match: the newer of two requests is sent at once, and the older request
 * answers it.
 */
#define MEET_PER_S 250
#define MEET_BURST 500

#define SECRET_NS 120000000000ull /* a cookie is valid for once to twice this time */

#define S_NS 1000000000ull

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
    uint8_t bytes[1 + VIP_HOST_ADDR_BYTES_MAX + 8] = {in->from->len};
    uint64_t cookie;

    memcpy(bytes + 1, in->from->bytes, in->from->len);
    memcpy(bytes + 1 + VIP_HOST_ADDR_BYTES_MAX, &in->src_epoch, 8);
    cookie = siphash(secret, bytes, sizeof(bytes));
    return cookie ? cookie : 1;
}

/* Has the sender proved that it receives at its address? */
static bool shown(const struct cm *cm, const struct cm_in *in)
{
    uint64_t cookie = in->msg->cookie;

    return !cm->config.verify_all || (cookie && (cookie == cookie_of(&cm->cookies.secret[0], in) ||
                                                 cookie == cookie_of(&cm->cookies.secret[1], in)));
}

/* May this source and its network send one more request? A network has four times as many
 * tokens. */
static bool source_may(struct cm *cm, const struct cm_host *source, uint64_t now_ns)
{
    struct cm_cookies *c = &cm->cookies;
    uint8_t network = cm->config.network_bytes;
    uint64_t slot = siphash(&c->secret[0], source->bytes, source->len) % CM_SOURCES;

    if (!cm_tokens_take(&c->sources[slot], SOURCE_PER_S, SOURCE_BURST, now_ns))
        return false;
    if (!network || source->len <= network)
        return true;
    slot = siphash(&c->secret[0], source->bytes, network) % CM_SOURCES;
    return cm_tokens_take(&c->networks[slot], 4 * SOURCE_PER_S, 4 * SOURCE_BURST, now_ns);
}

bool cm_cookie_pass(struct cm *cm, const struct cm_in *in)
{
    struct cm_cookies *c = &cm->cookies;
    struct vip_cm msg = {.type = VIP_CM_COOKIE, .request_id = in->msg->request_id};
    struct cm_host source;

    secrets_rotate(cm, in->now_ns);
    if (shown(cm, in)) {
        source = cm_source_of(cm, in->from);
        if (source_may(cm, &source, in->now_ns))
            return true;
        cm->stats.source_limited++;
        return false;
    }
    if (!cm_tokens_take(&c->answers, COOKIES_PER_S, COOKIES_BURST, in->now_ns)) {
        cm->stats.cookies_suppressed++;
        return false;
    }
    msg.cookie = cookie_of(&c->secret[0], in);
    cm->stats.cookies_sent++;
    cm_answer(cm, in, &msg);
    return false;
}

/* ---- as a client ------------------------------------------------------------------------- */

uint64_t cm_ask_after_ns(struct cm *cm, const struct cm_holder *client, bool waits, uint64_t now_ns)
{
    struct cm_cookies *c = &cm->cookies;
    uint32_t uid = cm_holder_uid(client), per_s = CLIENT_PER_S;
    uint64_t slot;

    secrets_rotate(cm, now_ns);
    slot = siphash(&c->secret[0], &uid, sizeof(uid)) % CM_SOURCES;
    if (waits && !cm_tokens_take(&c->meetings[slot], MEET_PER_S, MEET_BURST, now_ns))
        per_s = MEET_PER_S;
    else if (cm_tokens_take(&c->clients[slot], CLIENT_PER_S, CLIENT_BURST, now_ns))
        return 0;
    cm->stats.client_limited++;
    /* After the returned time the bucket has got a token for each attempt of the user. */
    return (client->has[CM_POOL_ATTEMPTS] + 1) * (S_NS / per_s);
}

static struct cm_cookie *cookie_from(struct cm *cm, const struct cm_host *server)
{
    return &cm->cookies.of_hosts[cm_hash(cm, server->bytes, server->len, 4) % CM_COOKIES];
}

void cm_cookie_learn(struct cm *cm, const struct cm_in *in)
{
    *cookie_from(cm, in->from) = (struct cm_cookie){.host = *in->from, .cookie = in->msg->cookie};
}

uint64_t cm_cookie_known(struct cm *cm, const struct cm_host *server)
{
    const struct cm_cookie *cookie = cookie_from(cm, server);

    return cm_host_equal(&cookie->host, server) ? cookie->cookie : 0;
}

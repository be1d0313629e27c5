/* Finding peers on one Ethernet segment (vipd/link/ether_peer.h). */
#include "vipd/link/ether_peer.h"

#include <errno.h>
#include <isa-l/crc.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "proto/assert.h"

#define OFF_CRC      0
#define OFF_SCHEME   4
#define OFF_NAME_LEN 5
#define OFF_PROOF    6
#define OFF_RESERVED 7
#define OFF_NONCE    8

#define CRC_START 0xffffffffu
#define SECOND_NS 1000000000ull

/* ---- bytes ------------------------------------------------------------------------------- */

static void put_le(uint8_t *out, uint64_t value, unsigned bytes)
{
    for (unsigned i = 0; i < bytes; i++)
        out[i] = (uint8_t)(value >> 8 * i);
}

static uint64_t get_le(const uint8_t *in, unsigned bytes)
{
    uint64_t value = 0;

    for (unsigned i = bytes; i-- > 0;)
        value = value << 8 | in[i];
    return value;
}

/* CRC32C of the whole message with the checksum taken as zero. */
static uint32_t checksum(const uint8_t *body, uint32_t len)
{
    uint8_t zero[4] = {0};
    uint32_t crc = crc32_iscsi(zero, sizeof(zero), CRC_START);

    /* ISA-L's prototype lacks const; it only reads. */
    return ~crc32_iscsi((unsigned char *)(uintptr_t)(body + sizeof(zero)),
                        (int)(len - sizeof(zero)), crc);
}

/* ---- rates ------------------------------------------------------------------------------- */

/* Take one permission of a bucket that holds `burst` and gets `rate` in each second. */
static bool allowed(struct ether_peer_bucket *bucket, unsigned burst, unsigned rate,
                    uint64_t now_ns)
{
    uint64_t price_ns = SECOND_NS / rate, full_ns = burst * price_ns;

    /* One that was never used is full. A clock that stands still gives nothing. */
    if (bucket->at_ns == 0 || now_ns - bucket->at_ns > full_ns)
        bucket->level_ns = full_ns;
    else
        bucket->level_ns += now_ns - bucket->at_ns;
    if (bucket->level_ns > full_ns)
        bucket->level_ns = full_ns;
    bucket->at_ns = now_ns ? now_ns : 1;
    if (bucket->level_ns < price_ns)
        return false;
    bucket->level_ns -= price_ns;
    return true;
}

/* The bucket of a card: several share one, for a sender can take any address. */
static struct ether_peer_bucket *card_bucket(struct ether_peers *peers, const uint8_t mac[6])
{
    uint32_t hash = 2166136261u;

    for (unsigned i = 0; i < 6; i++)
        hash = (hash ^ mac[i]) * 16777619u;
    return &peers->card[(hash ^ hash >> 16) % ETHER_PEER_CARD_BUCKETS];
}

/* ---- names ------------------------------------------------------------------------------- */

bool ether_peer_name_is_good(const char *name)
{
    static const char good[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_";
    size_t len = strnlen(name, ETHER_PEER_NAME_BYTES);

    return len > 0 && len < ETHER_PEER_NAME_BYTES && strspn(name, good) == len;
}

static struct ether_peer_entry *entry_of(struct ether_peers *peers, const char *name)
{
    for (unsigned i = 0; i < ETHER_PEERS_MAX; i++) {
        struct ether_peer_entry *entry = &peers->entries[i];

        if (entry->state != ETHER_PEER_FREE && strcasecmp(entry->name, name) == 0)
            return entry;
    }
    return NULL;
}

/* Is a worth less than b: one that nobody has answered for, then one not used for longer? */
static bool worth_less(const struct ether_peer_entry *a, const struct ether_peer_entry *b)
{
    if (a->state != b->state)
        return a->state == ETHER_PEER_UNKNOWN;
    return a->used_ns < b->used_ns;
}

/* A free entry, or the one that is worth the least; NULL if too many are being asked for. */
static struct ether_peer_entry *entry_new(struct ether_peers *peers)
{
    struct ether_peer_entry *least = NULL;

    if (peers->asking >= ETHER_PEERS_ASKING_MAX)
        return NULL;
    for (unsigned i = 0; i < ETHER_PEERS_MAX; i++) {
        struct ether_peer_entry *entry = &peers->entries[i];

        if (entry->state == ETHER_PEER_FREE)
            return entry;
        if (entry->state != ETHER_PEER_ASKING && (!least || worth_less(entry, least)))
            least = entry;
    }
    return least;
}

static void set_state(struct ether_peers *peers, struct ether_peer_entry *entry,
                      enum ether_peer_state state)
{
    peers->asking -= entry->state == ETHER_PEER_ASKING;
    peers->asking += state == ETHER_PEER_ASKING;
    entry->state = state;
}

/* splitmix64. It only keeps questions apart: who shares the segment sees them all. */
static uint64_t next_nonce(struct ether_peers *peers)
{
    uint64_t z = peers->random += 0x9e3779b97f4a7c15u;

    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

/* ---- asking ------------------------------------------------------------------------------ */

void ether_peers_init(struct ether_peers *peers, const char *own,
                      const struct ether_peer_auth *auth, struct link_stats *stats, uint64_t seed)
{
    *peers = (struct ether_peers){.auth = auth, .stats = stats, .random = seed};
    if (own && ether_peer_name_is_good(own))
        snprintf(peers->own, sizeof(peers->own), "%s", own);
}

int ether_peers_find(struct ether_peers *peers, const char *name, uint64_t now_ns,
                     struct link_addr *ret)
{
    struct ether_peer_entry *entry;

    if (!ether_peer_name_is_good(name))
        return -EINVAL;
    entry = entry_of(peers, name);
    if (entry && entry->state == ETHER_PEER_ASKING)
        return -EAGAIN;
    if (entry && now_ns < entry->until_ns) {
        entry->used_ns = now_ns;
        if (entry->state == ETHER_PEER_UNKNOWN)
            return -ENOENT;
        *ret = (struct link_addr){.len = sizeof(entry->mac)};
        memcpy(ret->bytes, entry->mac, sizeof(entry->mac));
        return 0;
    }
    if (!entry)
        entry = entry_new(peers);
    if (!entry)
        return -EBUSY;
    set_state(peers, entry, ETHER_PEER_ASKING);
    snprintf(entry->name, sizeof(entry->name), "%s", name);
    entry->nonce = next_nonce(peers);
    entry->tries = 0;
    entry->disputed = false;
    entry->next_ns = now_ns;
    entry->used_ns = now_ns;
    return -EAGAIN;
}

/* ---- messages that come ------------------------------------------------------------------ */

/* What a message says. */
struct message {
    char name[ETHER_PEER_NAME_BYTES];
    uint64_t nonce;
};

static bool proven(const struct ether_peers *peers, const uint8_t *body, uint32_t len,
                   uint8_t proof_len)
{
    uint8_t plain[ETHER_PEER_BODY_BYTES];

    if (body[OFF_SCHEME] != (peers->auth ? peers->auth->scheme : 0))
        return false;
    if (!peers->auth)
        return proof_len == 0;
    memcpy(plain, body, len - proof_len);
    memset(plain + OFF_CRC, 0, 4);
    plain[OFF_PROOF] = 0;
    return peers->auth->check(peers->auth->ctx, plain, len - proof_len, body + len - proof_len,
                              proof_len);
}

/* The fixed checks, in this order. Whether the message is good; what is wrong is counted. */
static bool parse(struct ether_peers *peers, const uint8_t *body, uint32_t len, struct message *ret)
{
    struct link_stats *stats = peers->stats;
    uint8_t name_len, proof_len;

    if (len < ETHER_PEER_HEAD_BYTES || len > ETHER_PEER_BODY_BYTES) {
        stats->drop_peer_length++;
        return false;
    }
    if (checksum(body, len) != get_le(body + OFF_CRC, 4)) {
        stats->drop_peer_crc++;
        return false;
    }
    name_len = body[OFF_NAME_LEN];
    proof_len = body[OFF_PROOF];
    if (name_len >= ETHER_PEER_NAME_BYTES || proof_len > ETHER_PEER_PROOF_BYTES ||
        len != ETHER_PEER_HEAD_BYTES + (uint32_t)name_len + proof_len) {
        stats->drop_peer_length++;
        return false;
    }
    if (!proven(peers, body, len, proof_len)) {
        stats->drop_peer_proof++;
        return false;
    }
    memcpy(ret->name, body + ETHER_PEER_HEAD_BYTES, name_len);
    ret->name[name_len] = '\0';
    ret->nonce = get_le(body + OFF_NONCE, 8);
    if (body[OFF_RESERVED] != 0 || strlen(ret->name) != name_len ||
        !ether_peer_name_is_good(ret->name)) {
        stats->drop_peer_field++;
        return false;
    }
    return true;
}

static void rx_solicit(struct ether_peers *peers, const uint8_t from[6],
                       const struct message *message, uint64_t now_ns)
{
    struct ether_peer_answer *answer;

    if (!link_host_match(peers->own, message->name))
        return; /* somebody else is meant */
    if (peers->answer_count == ETHER_PEER_ANSWERS_MAX ||
        !allowed(card_bucket(peers, from), ETHER_PEER_CARD_BURST, ETHER_PEER_CARD_RATE, now_ns) ||
        !allowed(&peers->answer, ETHER_PEER_ANSWER_BURST, ETHER_PEER_ANSWER_RATE, now_ns)) {
        peers->stats->drop_peer_rate++;
        return;
    }
    answer = &peers->answers[(peers->answer_first + peers->answer_count) % ETHER_PEER_ANSWERS_MAX];
    peers->answer_count++;
    memcpy(answer->to, from, sizeof(answer->to));
    answer->nonce = message->nonce;
    memcpy(answer->name, message->name, sizeof(answer->name));
}

/* The first answer counts. */
static void rx_announce(struct ether_peers *peers, const uint8_t from[6],
                        const struct message *message, uint64_t now_ns)
{
    struct ether_peer_entry *entry = entry_of(peers, message->name);

    if (!entry || entry->tries == 0 || entry->nonce != message->nonce ||
        entry->state == ETHER_PEER_UNKNOWN) {
        peers->stats->drop_peer_unasked++;
        return;
    }
    if (entry->state == ETHER_PEER_ASKING) {
        memcpy(entry->mac, from, sizeof(entry->mac));
        entry->until_ns = now_ns + ETHER_PEER_KNOWN_NS;
        set_state(peers, entry, ETHER_PEER_KNOWN);
        return;
    }
    if (memcmp(entry->mac, from, sizeof(entry->mac)) == 0)
        return; /* the answer to a repetition */
    peers->stats->drop_peer_dispute++;
    if (!entry->disputed)
        fprintf(stderr,
                "vipd: two cards are called \"%s\": %02x:%02x:%02x:%02x:%02x:%02x, which answered "
                "first and is believed, and %02x:%02x:%02x:%02x:%02x:%02x\n",
                entry->name, entry->mac[0], entry->mac[1], entry->mac[2], entry->mac[3],
                entry->mac[4], entry->mac[5], from[0], from[1], from[2], from[3], from[4], from[5]);
    entry->disputed = true;
}

void ether_peers_rx(struct ether_peers *peers, enum ether_peer_kind kind, const uint8_t from[6],
                    const uint8_t *body, uint32_t len, uint64_t now_ns)
{
    struct message message;

    if (!parse(peers, body, len, &message))
        return;
    switch (kind) {
    case ETHER_PEER_SOLICIT:
        peers->stats->rx_solicits++;
        rx_solicit(peers, from, &message, now_ns);
        break;
    case ETHER_PEER_ANNOUNCE:
        peers->stats->rx_announces++;
        rx_announce(peers, from, &message, now_ns);
        break;
    }
}

/* ---- messages that go -------------------------------------------------------------------- */

static void fill(const struct ether_peers *peers, const char *name, uint64_t nonce,
                 struct ether_peer_frame *ret)
{
    size_t name_len = strlen(name);
    uint8_t *body = ret->body;

    memset(body, 0, sizeof(ret->body));
    ret->len = ETHER_PEER_HEAD_BYTES + (uint32_t)name_len;
    body[OFF_NAME_LEN] = (uint8_t)name_len;
    put_le(body + OFF_NONCE, nonce, 8);
    memcpy(body + ETHER_PEER_HEAD_BYTES, name, name_len);
    if (peers->auth) {
        uint8_t proof_len, proof[ETHER_PEER_PROOF_BYTES];

        body[OFF_SCHEME] = peers->auth->scheme;
        proof_len = peers->auth->prove(peers->auth->ctx, body, ret->len, proof);
        VIP_ASSERT(proof_len <= sizeof(proof));
        body[OFF_PROOF] = proof_len;
        memcpy(body + ret->len, proof, proof_len);
        ret->len += proof_len;
    }
    put_le(body + OFF_CRC, checksum(body, ret->len), 4);
}

/* Ask for this entry if it is time. Whether there is a message; an entry may end in vain. */
static bool ask(struct ether_peers *peers, struct ether_peer_entry *entry, uint64_t now_ns,
                struct ether_peer_frame *ret)
{
    if (entry->tries == ETHER_PEER_TRIES) {
        entry->until_ns = now_ns + ETHER_PEER_UNKNOWN_NS;
        set_state(peers, entry, ETHER_PEER_UNKNOWN);
        return false;
    }
    if (!allowed(&peers->ask, ETHER_PEER_ASK_BURST, ETHER_PEER_ASK_RATE, now_ns)) {
        entry->next_ns = now_ns + SECOND_NS / ETHER_PEER_ASK_RATE;
        return false;
    }
    entry->next_ns = now_ns + (ETHER_PEER_FIRST_NS << entry->tries);
    entry->tries++;
    ret->kind = ETHER_PEER_SOLICIT;
    memset(ret->to, 0xff, sizeof(ret->to));
    fill(peers, entry->name, entry->nonce, ret);
    peers->stats->tx_solicits++;
    return true;
}

bool ether_peers_next(struct ether_peers *peers, uint64_t now_ns, struct ether_peer_frame *ret)
{
    if (peers->answer_count > 0) {
        const struct ether_peer_answer *answer = &peers->answers[peers->answer_first];

        peers->answer_first = (peers->answer_first + 1) % ETHER_PEER_ANSWERS_MAX;
        peers->answer_count--;
        ret->kind = ETHER_PEER_ANNOUNCE;
        memcpy(ret->to, answer->to, sizeof(ret->to));
        fill(peers, answer->name, answer->nonce, ret);
        peers->stats->tx_announces++;
        return true;
    }
    for (unsigned i = 0; peers->asking > 0 && i < ETHER_PEERS_MAX; i++) {
        struct ether_peer_entry *entry = &peers->entries[i];

        if (entry->state == ETHER_PEER_ASKING && entry->next_ns <= now_ns &&
            ask(peers, entry, now_ns, ret))
            return true;
    }
    return false;
}

uint64_t ether_peers_deadline(const struct ether_peers *peers)
{
    uint64_t deadline = UINT64_MAX;

    if (peers->answer_count > 0)
        return 0;
    for (unsigned i = 0; peers->asking > 0 && i < ETHER_PEERS_MAX; i++) {
        const struct ether_peer_entry *entry = &peers->entries[i];

        if (entry->state == ETHER_PEER_ASKING && entry->next_ns < deadline)
            deadline = entry->next_ns;
    }
    return deadline;
}

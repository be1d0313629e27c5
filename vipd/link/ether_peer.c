/* Finding peers on one Ethernet segment (vipd/link/ether_peer.h). */
#include "vipd/link/ether_peer.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "proto/assert.h"
#include "proto/crc.h"
#include "vipd/link/kinds.h"

#define OFF_CRC      0
#define OFF_SCHEME   4
#define OFF_NAME_LEN 5
#define OFF_PROOF    6
#define OFF_RESERVED 7
#define OFF_NONCE    8

#define MAC_BYTES 6
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

/* CRC32C of the whole message with zero in place of the checksum. */
static uint32_t checksum(const uint8_t *body, uint32_t len)
{
    uint8_t zero[4] = {0};
    uint32_t crc = vip_crc_add(VIP_CRC_START, zero, sizeof(zero));

    return ~vip_crc_add(crc, body + sizeof(zero), len - sizeof(zero));
}

/* ---- rates ------------------------------------------------------------------------------- */

/* Shortest time between two log lines about disputes (two cards with one name). */
#define TELL_NS 10000000000ull

/* Take the permission for one message from a bucket, which holds at most `burst` permissions and
 * gets `rate` permissions in each second. false: the bucket is empty. */
static bool allowed(struct ether_peer_bucket *bucket, unsigned burst, unsigned rate,
                    uint64_t now_ns)
{
    uint64_t price_ns = SECOND_NS / rate, full_ns = burst * price_ns;

    /* A bucket that was never used is full. If the clock stands still, a bucket gets nothing. */
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

/* The bucket of a card. A few buckets serve all cards, because a sender can use many addresses. */
static struct ether_peer_bucket *card_bucket(struct ether_peers *peers, const uint8_t mac[6])
{
    return &peers->card[siphash(&peers->key, mac, MAC_BYTES) % ETHER_PEER_CARD_BUCKETS];
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

        if (entry->state != ETHER_PEER_FREE && !entry->of_card &&
            strcasecmp(entry->name, name) == 0)
            return entry;
    }
    return NULL;
}

/* The entry with a question for the name of this card, or NULL. */
static struct ether_peer_entry *entry_of_card(struct ether_peers *peers,
                                              const struct link_addr *card)
{
    for (unsigned i = 0; i < ETHER_PEERS_MAX; i++) {
        struct ether_peer_entry *entry = &peers->entries[i];

        if (entry->state != ETHER_PEER_FREE && entry->of_card &&
            link_addr_equal(&entry->card, card))
            return entry;
    }
    return NULL;
}

/* The entry with the longest name for which this card has a valid answer to a SOLICIT; or NULL. */
static struct ether_peer_entry *entry_by_card(struct ether_peers *peers,
                                              const struct link_addr *card, uint64_t now_ns)
{
    struct ether_peer_entry *found = NULL;

    for (unsigned i = 0; i < ETHER_PEERS_MAX; i++) {
        struct ether_peer_entry *entry = &peers->entries[i];

        if (entry->state == ETHER_PEER_KNOWN && !entry->of_card && now_ns < entry->until_ns &&
            link_addr_equal(&entry->card, card) &&
            (!found || strlen(entry->name) > strlen(found->name)))
            found = entry;
    }
    return found;
}

/* The entry with the question that this message from a card answers; NULL: there is no such
 * question. */
static struct ether_peer_entry *entry_asked(struct ether_peers *peers, const struct link_addr *from,
                                            const char *name, uint64_t nonce)
{
    for (unsigned i = 0; i < ETHER_PEERS_MAX; i++) {
        struct ether_peer_entry *entry = &peers->entries[i];

        if ((entry->state != ETHER_PEER_ASKING && entry->state != ETHER_PEER_KNOWN) ||
            entry->tries == 0 || entry->nonce != nonce)
            continue;
        if (entry->of_card ? link_addr_equal(&entry->card, from)
                           : strcasecmp(entry->name, name) == 0)
            return entry;
    }
    return NULL;
}

/* Is entry a worth less than entry b? An entry without an answer is worth less than an answered
 * entry. In the same state, the entry whose last use is earlier is worth less. */
static bool worth_less(const struct ether_peer_entry *a, const struct ether_peer_entry *b)
{
    if (a->state != b->state)
        return a->state == ETHER_PEER_UNKNOWN;
    return a->used_ns < b->used_ns;
}

/* A free entry, or the entry that is worth the least; NULL: too many questions are under way. */
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

/* All cards of the segment see the nonces of SOLICITs. But no card must be able to guess the next
 * nonces. */
static uint64_t next_nonce(struct ether_peers *peers)
{
    uint64_t number = ++peers->nonces;

    return siphash(&peers->key, &number, sizeof(number));
}

/* ---- asking ------------------------------------------------------------------------------ */

void ether_peers_init(struct ether_peers *peers, const char *own,
                      const struct ether_peer_auth *auth, struct link_stats *stats, uint64_t seed)
{
    *peers = (struct ether_peers){.auth = auth, .stats = stats, .key = {seed, ~seed}};
    if (own && ether_peer_name_is_good(own))
        snprintf(peers->own, sizeof(peers->own), "%s", own);
}

/*
 * Is there a valid answer in the entry? entry may be NULL. Outcomes: 0: yes; -EAGAIN the question
 * is under way; -ENOENT no card has answered; -ESTALE no entry, or no valid answer: ask again.
 */
static int known(struct ether_peer_entry *entry, uint64_t now_ns)
{
    if (!entry)
        return -ESTALE;
    if (entry->state == ETHER_PEER_ASKING)
        return -EAGAIN;
    if (now_ns >= entry->until_ns)
        return -ESTALE;
    entry->used_ns = now_ns;
    return entry->state == ETHER_PEER_UNKNOWN ? -ENOENT : 0;
}

/* Begin a question in this entry, which already has the name or the card. Returns -EAGAIN. */
static int begin(struct ether_peers *peers, struct ether_peer_entry *entry, uint64_t now_ns)
{
    set_state(peers, entry, ETHER_PEER_ASKING);
    entry->nonce = next_nonce(peers);
    entry->tries = 0;
    entry->disputed = false;
    entry->next_ns = now_ns;
    entry->used_ns = now_ns;
    return -EAGAIN;
}

int ether_peers_find(struct ether_peers *peers, const char *name, uint64_t now_ns,
                     struct link_addr *ret)
{
    struct ether_peer_entry *entry;
    int r;

    if (!ether_peer_name_is_good(name))
        return -EINVAL;
    entry = entry_of(peers, name);
    r = known(entry, now_ns);
    if (r == 0)
        *ret = entry->card;
    if (r != -ESTALE)
        return r;
    if (!entry)
        entry = entry_new(peers);
    if (!entry)
        return -EBUSY;
    entry->of_card = false;
    snprintf(entry->name, sizeof(entry->name), "%s", name);
    return begin(peers, entry, now_ns);
}

int ether_peers_name(struct ether_peers *peers, const struct link_addr *card, uint64_t now_ns,
                     char ret[ETHER_PEER_NAME_BYTES])
{
    struct ether_peer_entry *entry;
    int r;

    if (card->len != MAC_BYTES || (card->bytes[0] & 1))
        return -EINVAL;
    entry = entry_of_card(peers, card);
    r = known(entry, now_ns);
    if (r == -ENOENT) {
        /* The peer may have stopped, or may not know QUERY: use its answer to a SOLICIT. */
        entry = entry_by_card(peers, card, now_ns);
        r = entry ? 0 : -ENOENT;
    }
    if (r == 0)
        memcpy(ret, entry->name, ETHER_PEER_NAME_BYTES);
    if (r != -ESTALE)
        return r;
    if (!entry)
        entry = entry_new(peers);
    if (!entry)
        return -EBUSY;
    entry->of_card = true;
    entry->card = *card;
    entry->name[0] = '\0';
    return begin(peers, entry, now_ns);
}

uint32_t ether_peers_known(const struct ether_peers *peers, uint32_t from, uint64_t now_ns,
                           link_visit_fn *visit, void *ctx)
{
    for (uint32_t i = from; i < ETHER_PEERS_MAX; i++) {
        const struct ether_peer_entry *entry = &peers->entries[i];

        if (entry->state == ETHER_PEER_KNOWN && now_ns < entry->until_ns &&
            !visit(ctx, &entry->card))
            return i;
    }
    return UINT32_MAX;
}

/* ---- messages that arrive ---------------------------------------------------------------- */

/* What is read from a received message. */
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

/* Check a message, in a fixed order, and read its contents. false: it is faulty, and is counted. */
static bool parse(struct ether_peers *peers, enum ether_peer_kind kind, const uint8_t *body,
                  uint32_t len, struct message *ret)
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
    /* A QUERY has no name. */
    if (body[OFF_RESERVED] != 0 || strlen(ret->name) != name_len ||
        (kind == ETHER_PEER_QUERY ? name_len != 0 : !ether_peer_name_is_good(ret->name))) {
        stats->drop_peer_field++;
        return false;
    }
    return true;
}

/* Queue an ANNOUNCE with this name to this card, if the queue and the rate limits allow it. */
static void answer(struct ether_peers *peers, const uint8_t to[6], const char *name, uint64_t nonce,
                   uint64_t now_ns)
{
    struct ether_peer_answer *answer;

    if (peers->answer_count == ETHER_PEER_ANSWERS_MAX ||
        !allowed(card_bucket(peers, to), ETHER_PEER_CARD_BURST, ETHER_PEER_CARD_RATE, now_ns) ||
        !allowed(&peers->answer, ETHER_PEER_ANSWER_BURST, ETHER_PEER_ANSWER_RATE, now_ns)) {
        peers->stats->drop_peer_rate++;
        return;
    }
    answer = &peers->answers[(peers->answer_first + peers->answer_count) % ETHER_PEER_ANSWERS_MAX];
    peers->answer_count++;
    memcpy(answer->to, to, sizeof(answer->to));
    answer->nonce = nonce;
    answer->at_ns = now_ns + peers->rank * ETHER_PEER_RANK_NS;
    snprintf(answer->name, sizeof(answer->name), "%s", name);
}

/* Process an answer. Only the first answer to a question is used. */
static void rx_announce(struct ether_peers *peers, const uint8_t from_mac[6],
                        const struct message *message, uint64_t now_ns)
{
    struct link_addr from = {.len = MAC_BYTES};
    struct ether_peer_entry *entry;
    char first[LINK_TEXT_BYTES], second[LINK_TEXT_BYTES];

    memcpy(from.bytes, from_mac, MAC_BYTES);
    entry = entry_asked(peers, &from, message->name, message->nonce);
    if (!entry) {
        peers->stats->drop_peer_unasked++;
        return;
    }
    if (entry->state == ETHER_PEER_ASKING) {
        entry->card = from;
        memcpy(entry->name, message->name, sizeof(entry->name));
        entry->until_ns = now_ns + ETHER_PEER_KNOWN_NS;
        set_state(peers, entry, ETHER_PEER_KNOWN);
        return;
    }
    if (link_addr_equal(&entry->card, &from))
        return; /* the same card has answered a repetition of the question */
    peers->stats->drop_peer_dispute++;
    link_mac_format(&entry->card, first, sizeof(first));
    link_mac_format(&from, second, sizeof(second));
    if (!entry->disputed && now_ns >= peers->tell_ns) {
        peers->tell_ns = now_ns + TELL_NS;
        link_say("two cards are called \"%s\": %s, which answered first and is believed, and "
                 "%s; if "
                 "both are in one host, give one of its NICs another name ([nic:NAME] announce)",
                 entry->name, first, second);
        entry->disputed = true;
    }
}

void ether_peers_rx(struct ether_peers *peers, enum ether_peer_kind kind, const uint8_t from[6],
                    const uint8_t *body, uint32_t len, uint64_t now_ns)
{
    struct message message;

    if (!parse(peers, kind, body, len, &message))
        return;
    switch (kind) {
    case ETHER_PEER_SOLICIT:
        peers->stats->rx_solicits++;
        if (link_host_match(peers->own, message.name)) /* any other question is for another host */
            answer(peers, from, message.name, message.nonce, now_ns);
        break;
    case ETHER_PEER_QUERY:
        peers->stats->rx_solicits++;
        if (peers->own[0] != '\0')
            answer(peers, from, peers->own, message.nonce, now_ns);
        break;
    case ETHER_PEER_ANNOUNCE:
        peers->stats->rx_announces++;
        rx_announce(peers, from, &message, now_ns);
        break;
    }
}

/* ---- messages that leave ----------------------------------------------------------------- */

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

/* Make the next message of this entry's question. false: no message, because the rate limit forbids
 * it, or the question was sent ETHER_PEER_TRIES times and the entry becomes UNKNOWN. */
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
    if (entry->of_card) {
        ret->kind = ETHER_PEER_QUERY;
        memcpy(ret->to, entry->card.bytes, sizeof(ret->to));
    } else {
        ret->kind = ETHER_PEER_SOLICIT;
        memset(ret->to, 0xff, sizeof(ret->to));
    }
    fill(peers, entry->of_card ? "" : entry->name, entry->nonce, ret);
    peers->stats->tx_solicits++;
    return true;
}

bool ether_peers_next(struct ether_peers *peers, uint64_t now_ns, struct ether_peer_frame *ret)
{
    const struct ether_peer_answer *answer = &peers->answers[peers->answer_first];

    if (peers->answer_count > 0 && answer->at_ns <= now_ns) {
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

    /* Every answer waits for the same time, so the first answer in the queue is due first. */
    if (peers->answer_count > 0)
        deadline = peers->answers[peers->answer_first].at_ns;
    for (unsigned i = 0; peers->asking > 0 && i < ETHER_PEERS_MAX; i++) {
        const struct ether_peer_entry *entry = &peers->entries[i];

        if (entry->state == ETHER_PEER_ASKING && entry->next_ns < deadline)
            deadline = entry->next_ns;
    }
    return deadline;
}

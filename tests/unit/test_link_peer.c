/*
 * Hosts find peers on Ethernet, without a medium: the test itself carries the messages between
 * hosts. Questions, answers, their limits, and hostile messages.
 */
#include "vipd/link/ether_peer.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define MS 1000000ull

static const uint8_t mac_a[6] = {2, 0, 0, 0, 0, 0xa}, mac_b[6] = {2, 0, 0, 0, 0, 0xb},
                     mac_c[6] = {2, 0, 0, 0, 0, 0xc};

struct host {
    struct ether_peers peers;
    struct link_stats stats;
};

static struct host *host_new(const char *name, const struct ether_peer_auth *auth)
{
    struct host *host = calloc(1, sizeof(*host));

    assert_non_null(host);
    ether_peers_init(&host->peers, name, auth, &host->stats, 7);
    return host;
}

/* Give a host a message from card `from`. The message has memory of exactly its length. */
static void give(struct host *host, const struct ether_peer_frame *frame, const uint8_t from[6],
                 uint64_t now_ns)
{
    uint8_t *exact = malloc(frame->len ? frame->len : 1);

    memcpy(exact, frame->body, frame->len);
    ether_peers_rx(&host->peers, frame->kind, from, exact, frame->len, now_ns);
    free(exact);
}

static int find(struct host *host, const char *name, uint64_t now_ns)
{
    struct link_addr addr = {.len = 99};
    int r = ether_peers_find(&host->peers, name, now_ns, &addr);

    if (r == 0) {
        assert_int_equal(addr.len, 6);
        return addr.bytes[5];
    }
    assert_int_equal(addr.len, 99);
    return r;
}

static struct ether_peer_frame next(struct host *host, uint64_t now_ns)
{
    struct ether_peer_frame frame;

    assert_true(ether_peers_deadline(&host->peers) <= now_ns);
    assert_true(ether_peers_next(&host->peers, now_ns, &frame));
    return frame;
}

static void silent(struct host *host, uint64_t now_ns)
{
    struct ether_peer_frame frame;

    assert_false(ether_peers_next(&host->peers, now_ns, &frame));
}

/* Returns the sum of all counters of dropped peer messages. */
static uint64_t drops(const struct host *host)
{
    const struct link_stats *s = &host->stats;

    return s->drop_peer_length + s->drop_peer_crc + s->drop_peer_proof + s->drop_peer_field +
           s->drop_peer_unasked + s->drop_peer_rate + s->drop_peer_dispute;
}

static void test_question_and_answer(void **state)
{
    static const uint8_t everybody[6] = {0xff, 0xff, 0xff, 0xff, 0xff, 0xff};
    struct host *a = host_new("node-a", NULL), *b = host_new("Node-B.example.org", NULL);
    struct ether_peer_frame question, answer;

    assert_true(ether_peers_deadline(&a->peers) == UINT64_MAX);
    assert_int_equal(find(a, "node-b", 5 * MS), -EAGAIN);
    assert_int_equal(find(a, "node-b", 5 * MS), -EAGAIN); /* the host sends no second question */
    question = next(a, 5 * MS);
    silent(a, 5 * MS);
    assert_int_equal(question.kind, ETHER_PEER_SOLICIT);
    assert_memory_equal(question.to, everybody, 6);
    assert_int_equal(question.len, 16 + 6);
    assert_memory_equal(question.body + 16, "node-b", 6);
    give(b, &question, mac_a, 6 * MS);
    answer = next(b, 6 * MS);
    silent(b, 6 * MS);
    assert_int_equal(answer.kind, ETHER_PEER_ANNOUNCE);
    assert_memory_equal(answer.to, mac_a, 6);
    give(a, &answer, mac_b, 7 * MS);
    assert_int_equal(find(a, "NODE-B", 8 * MS), 0xb);
    assert_true(ether_peers_deadline(&a->peers) == UINT64_MAX);
    /* The answer is valid for a minute. Then the host asks again, with another nonce. */
    assert_int_equal(find(a, "node-b", 60006 * MS), 0xb);
    assert_int_equal(find(a, "node-b", 60008 * MS), -EAGAIN);
    answer = next(a, 60008 * MS);
    assert_memory_not_equal(answer.body + 8, question.body + 8, 8);
    assert_int_equal(drops(a) + drops(b), 0);
    assert_int_equal(a->stats.tx_solicits, 2);
    assert_int_equal(b->stats.rx_solicits, 1);
    assert_int_equal(b->stats.tx_announces, 1);
    assert_int_equal(a->stats.rx_announces, 1);
    free(a);
    free(b);
}

/* The bytes of a SOLICIT as in doc/wire.md, written by hand. */
static void test_layout(void **state)
{
    static const uint8_t want[] = {0x0a, 0x51, 0x61, 0xbf, 0, 1, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8, 'n'};
    struct host *n = host_new("n", NULL);
    struct ether_peer_frame frame = {.kind = ETHER_PEER_SOLICIT, .len = sizeof(want)};

    memcpy(frame.body, want, sizeof(want));
    give(n, &frame, mac_a, MS);
    assert_int_equal(drops(n), 0);
    frame = next(n, MS);
    assert_int_equal(frame.len, sizeof(want));
    assert_memory_equal(frame.body, want, sizeof(want));
    free(n);
}

/* Without an answer a host waits 50, 100, 200 and 400 ms. Then the name is unknown for a second. */
static void test_nobody_answers(void **state)
{
    static const uint64_t at_ms[] = {100, 150, 250, 450};
    struct host *a = host_new(NULL, NULL), *b = host_new("somebody", NULL);
    struct ether_peer_frame question;

    assert_int_equal(find(a, "nobody", 100 * MS), -EAGAIN);
    for (unsigned i = 0; i < 4; i++) {
        silent(a, at_ms[i] * MS - 1);
        question = next(a, at_ms[i] * MS);
        give(b, &question, mac_a, at_ms[i] * MS);
        silent(b, at_ms[i] * MS);
        assert_int_equal(find(a, "nobody", at_ms[i] * MS), -EAGAIN);
    }
    silent(a, 850 * MS - 1);
    assert_int_equal(find(a, "nobody", 850 * MS - 1), -EAGAIN);
    silent(a, 850 * MS);
    assert_int_equal(find(a, "nobody", 850 * MS), -ENOENT);
    assert_int_equal(find(a, "nobody", 1849 * MS), -ENOENT);
    assert_true(ether_peers_deadline(&a->peers) == UINT64_MAX);
    assert_int_equal(find(a, "nobody", 1850 * MS), -EAGAIN);
    /* A question for the name of another host does not count as dropped. */
    assert_int_equal(drops(b), 0);
    assert_int_equal(b->stats.rx_solicits, 4);
    free(a);
    free(b);
}

static void test_names(void **state)
{
    static const char *const bad[] = {
        "",     "a b",      "a/b",
        "a\nb", "\xc3\xa4", "1234567890123456789012345678901234567890123456789012345678901234"};
    struct host *a = host_new("bad name", NULL);

    for (unsigned i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        assert_int_equal(find(a, bad[i], MS), -EINVAL);
    assert_int_equal(find(a, "123456789012345678901234567890123456789012345678901234567890123", MS),
                     -EAGAIN);
    assert_string_equal(a->peers.own, "");
    free(a);
}

/* Answers without a question and answers to an older question are dropped. If two answers arrive,
 * the first one is valid. */
static void test_answers_that_nobody_wants(void **state)
{
    struct host *a = host_new("node-a", NULL), *b = host_new("node-b", NULL);
    struct ether_peer_frame question, answer;

    assert_int_equal(find(a, "node-b", MS), -EAGAIN);
    question = next(a, MS);
    give(b, &question, mac_a, MS);
    answer = next(b, MS);
    /* The answer arrives at a host that has not asked. */
    give(b, &answer, mac_c, MS);
    assert_int_equal(b->stats.drop_peer_unasked, 1);
    /* With a changed nonce the checksum is wrong. */
    question.body[8] ^= 1;
    assert_int_equal(question.kind, ETHER_PEER_SOLICIT);
    give(b, &question, mac_a, MS);
    assert_int_equal(b->stats.drop_peer_crc, 1);
    give(a, &answer, mac_b, MS);
    assert_int_equal(find(a, "node-b", MS), 0xb);
    give(a, &answer, mac_b, MS); /* the same card answers twice, which is allowed */
    assert_int_equal(drops(a), 0);
    give(a, &answer, mac_c, MS);
    assert_int_equal(a->stats.drop_peer_dispute, 1);
    assert_int_equal(find(a, "node-b", MS), 0xb);
    /* An answer to an older question has the wrong nonce. */
    assert_int_equal(find(a, "node-b", 70000 * MS), -EAGAIN);
    next(a, 70000 * MS);
    give(a, &answer, mac_c, 70000 * MS);
    assert_int_equal(a->stats.drop_peer_unasked, 1);
    assert_int_equal(find(a, "node-b", 70000 * MS), -EAGAIN);
    free(a);
    free(b);
}

/* ---- the name of a card ---------------------------------------------------------------------- */

static struct link_addr card(const uint8_t mac[6])
{
    struct link_addr addr = {.len = 6};

    memcpy(addr.bytes, mac, 6);
    return addr;
}

/* Returns the result of ether_peers_name. Checks the name that it writes; want NULL: none. */
static int name_of(struct host *host, const uint8_t mac[6], uint64_t now_ns, const char *want)
{
    struct link_addr addr = card(mac);
    char name[ETHER_PEER_NAME_BYTES] = "unchanged";
    int r = ether_peers_name(&host->peers, &addr, now_ns, name);

    assert_string_equal(name, want ? want : "unchanged");
    return r;
}

static bool count_card(void *ctx, const struct link_addr *host)
{
    unsigned *counts = ctx; /* number of calls for each last byte of an address; [0]: see below */

    assert_int_equal(host->len, 6);
    counts[host->bytes[5]]++;
    return counts[0]-- != 1; /* counts[0]: number of further calls that the caller wants */
}

/* A host asks one card for its name. Only this card gets the question. The answer gives the name of
 * the card, but is no answer to a search for that name. */
static void test_name_of_a_card(void **state)
{
    struct host *a = host_new("node-a", NULL), *b = host_new("Node-B.example.org", NULL),
                *nameless = host_new(NULL, NULL);
    struct ether_peer_frame question, answer;
    unsigned counts[256] = {99};

    assert_int_equal(name_of(a, mac_b, MS, NULL), -EAGAIN);
    assert_int_equal(name_of(a, mac_b, MS, NULL), -EAGAIN);
    question = next(a, MS);
    silent(a, MS);
    assert_int_equal(question.kind, ETHER_PEER_QUERY);
    assert_memory_equal(question.to, mac_b, 6);
    assert_int_equal(question.len, 16);
    assert_int_equal(ether_peers_known(&a->peers, 0, MS, count_card, counts), UINT32_MAX);
    assert_int_equal(counts[0xb], 0);
    give(nameless, &question, mac_a, MS);
    silent(nameless, MS);
    give(b, &question, mac_a, MS);
    answer = next(b, MS);
    assert_int_equal(answer.kind, ETHER_PEER_ANNOUNCE);
    assert_memory_equal(answer.to, mac_a, 6);
    give(a, &answer, mac_c, MS); /* the host did not ask this card */
    assert_int_equal(a->stats.drop_peer_unasked, 1);
    assert_int_equal(name_of(a, mac_b, MS, NULL), -EAGAIN);
    give(a, &answer, mac_b, MS);
    give(a, &answer, mac_b, MS);
    assert_int_equal(name_of(a, mac_b, MS, "Node-B.example.org"), 0);
    assert_int_equal(drops(a), 1);
    assert_int_equal(drops(b) + drops(nameless), 0);
    /* The card is known while its answer is valid. A search for its name still asks all cards. */
    assert_int_equal(ether_peers_known(&a->peers, 0, MS, count_card, counts), UINT32_MAX);
    assert_int_equal(counts[0xb], 1);
    assert_int_equal(find(a, "node-b.example.org", MS), -EAGAIN);
    assert_int_equal(ether_peers_known(&a->peers, 0, 60001 * MS, count_card, counts), UINT32_MAX);
    assert_int_equal(counts[0xb], 1);
    assert_int_equal(name_of(a, mac_b, 60001 * MS, NULL), -EAGAIN);
    free(a);
    free(b);
    free(nameless);
}

/* A host that answers no QUERY is known by a name for which it has answered a SOLICIT. */
static void test_name_of_a_card_that_was_found(void **state)
{
    static const char *const names[] = {"node-b", "node-b.example.org"};
    struct host *a = host_new("node-a", NULL), *b = host_new("node-b.example.org", NULL);
    struct ether_peer_frame frame;
    unsigned counts[256] = {99};
    uint64_t now_ns = MS;

    for (unsigned i = 0; i < 2; i++) {
        assert_int_equal(find(a, names[i], now_ns), -EAGAIN);
        frame = next(a, now_ns);
        give(b, &frame, mac_a, now_ns);
        frame = next(b, now_ns);
        give(a, &frame, mac_b, now_ns);
    }
    /* A listing calls count_card for each answer. A stopped listing can later go on from there. */
    counts[0] = 1;
    assert_int_equal(ether_peers_known(&a->peers, 0, now_ns, count_card, counts), 0);
    counts[0] = 99;
    assert_int_equal(ether_peers_known(&a->peers, 1, now_ns, count_card, counts), UINT32_MAX);
    assert_int_equal(counts[0xb], 2);
    assert_int_equal(name_of(a, mac_b, now_ns, NULL), -EAGAIN);
    for (unsigned i = 0; i < ETHER_PEER_TRIES; i++, now_ns += 400 * MS)
        assert_int_equal(next(a, now_ns).kind, ETHER_PEER_QUERY);
    silent(a, now_ns);
    assert_int_equal(name_of(a, mac_b, now_ns, "node-b.example.org"), 0);
    assert_int_equal(name_of(a, mac_b, 60001 * MS, NULL), -EAGAIN);
    free(a);
    free(b);
}

static void test_name_of_nobody(void **state)
{
    static const uint8_t at[] = {1, 51, 151};
    struct host *a = host_new("node-a", NULL), *b = host_new("node-b", NULL);
    struct link_addr addr = {.len = 18}, group = card(mac_b);
    struct ether_peer_frame frame;
    char name[ETHER_PEER_NAME_BYTES];

    group.bytes[0] |= 1;
    assert_int_equal(ether_peers_name(&a->peers, &addr, MS, name), -EINVAL);
    assert_int_equal(ether_peers_name(&a->peers, &group, MS, name), -EINVAL);
    assert_int_equal(name_of(a, mac_c, MS, NULL), -EAGAIN);
    for (unsigned i = 0; i < sizeof(at); i++)
        assert_int_equal(next(a, at[i] * MS).kind, ETHER_PEER_QUERY);
    next(a, 351 * MS);
    silent(a, 750 * MS);
    assert_int_equal(name_of(a, mac_c, 750 * MS, NULL), -EAGAIN);
    silent(a, 751 * MS);
    assert_int_equal(name_of(a, mac_c, 751 * MS, NULL), -ENOENT);
    assert_int_equal(name_of(a, mac_c, 1752 * MS, NULL), -EAGAIN);
    /* A QUERY that contains a name is dropped. */
    assert_int_equal(find(a, "node-b", 2000 * MS), -EAGAIN);
    do
        frame = next(a, 2000 * MS);
    while (frame.kind != ETHER_PEER_SOLICIT);
    frame.kind = ETHER_PEER_QUERY;
    give(b, &frame, mac_a, 2000 * MS);
    assert_int_equal(b->stats.drop_peer_field, 1);
    silent(b, 2000 * MS);
    /* Open questions to cards have the same limit as open questions for names. */
    for (unsigned i = 0; i < 2 * ETHER_PEERS_MAX; i++) {
        bool full = a->peers.asking == ETHER_PEERS_ASKING_MAX;
        uint8_t mac[6] = {2, 7, 7, 7, (uint8_t)(i >> 8), (uint8_t)i};

        assert_int_equal(name_of(a, mac, 2001 * MS, NULL), full ? -EBUSY : -EAGAIN);
    }
    assert_int_equal(a->peers.asking, ETHER_PEERS_ASKING_MAX);
    free(a);
    free(b);
}

/* A message cut at any byte, a message with any bit flipped, and random bytes are all dropped and
 * counted. The table stays empty. */
static void test_damage(void **state)
{
    struct host *a = host_new("node-a", NULL), *b = host_new("node-b", NULL);
    struct ether_peer_frame question, frame;
    uint64_t given = 0, random = 99;

    assert_int_equal(find(a, "node-b", MS), -EAGAIN);
    question = next(a, MS);
    for (frame = question; frame.len-- > 0; given++)
        give(b, &frame, mac_a, MS);
    for (unsigned bit = 0; bit < question.len * 8; bit++, given++) {
        frame = question;
        frame.body[bit / 8] ^= (uint8_t)(1u << bit % 8);
        give(b, &frame, mac_a, MS);
    }
    for (unsigned i = 0; i < 100000; i++, given++) {
        frame.kind = (enum ether_peer_kind)(ETHER_PEER_ANNOUNCE + i % 3);
        for (unsigned k = 0; k < sizeof(frame.body); k++) {
            random = random * 6364136223846793005u + 1442695040888963407u;
            frame.body[k] = (uint8_t)(random >> 56);
        }
        frame.len = (uint32_t)(random >> 32) % (sizeof(frame.body) + 1);
        give(b, &frame, mac_a, MS);
    }
    assert_int_equal(drops(b), given);
    silent(b, MS);
    for (unsigned i = 0; i < ETHER_PEERS_MAX; i++)
        assert_int_equal(b->peers.entries[i].state, ETHER_PEER_FREE);
    free(a);
    free(b);
}

/* Messages with a correct checksum but a bad name are dropped. */
static void test_fields(void **state)
{
    struct host *a = host_new("node-a", NULL), *b = host_new("node-b", NULL);
    struct ether_peer_frame frame;

    /* The sender's own code makes the messages. The test writes the bad names into the sender's
     * table, because the functions would refuse them. */
    snprintf(a->peers.entries[0].name, sizeof(a->peers.entries[0].name), "node b");
    a->peers.entries[0].state = ETHER_PEER_ASKING;
    a->peers.asking = 1;
    frame = next(a, MS);
    give(b, &frame, mac_a, MS);
    assert_int_equal(b->stats.drop_peer_field, 1);
    a->peers.entries[0] = (struct ether_peer_entry){.state = ETHER_PEER_ASKING};
    frame = next(a, MS); /* a message with the empty name */
    give(b, &frame, mac_a, MS);
    assert_int_equal(b->stats.drop_peer_field, 2);
    silent(b, MS);
    free(a);
    free(b);
}

/* A card that asks without pause gets few answers, and other cards still get answers. The number of
 * answers to a flood from many addresses is limited. */
static void test_answers_are_limited(void **state)
{
    struct host *a = host_new("node-a", NULL), *b = host_new("node-b", NULL);
    struct ether_peer_frame question, frame;
    unsigned answers = 0;

    assert_int_equal(find(a, "node-b", MS), -EAGAIN);
    question = next(a, MS);
    for (unsigned i = 0; i < 1000; i++) {
        give(b, &question, mac_c, MS + i);
        while (ether_peers_next(&b->peers, MS + i, &frame))
            answers++;
    }
    assert_int_equal(answers, ETHER_PEER_CARD_BURST);
    assert_int_equal(b->stats.drop_peer_rate, 1000 - answers);
    give(b, &question, mac_a, MS);
    frame = next(b, MS);
    assert_memory_equal(frame.to, mac_a, 6);
    /* Send questions from a million addresses within ten seconds. */
    answers = 0;
    for (unsigned i = 0; i < 1000000; i++) {
        uint8_t mac[6] = {2, (uint8_t)(i >> 16), (uint8_t)(i >> 8), (uint8_t)i, 0, 1};
        uint64_t now_ns = 20 * MS + i * 10000ull;

        give(b, &question, mac, now_ns);
        while (ether_peers_next(&b->peers, now_ns, &frame))
            answers++;
    }
    assert_in_range(answers, 4000, ETHER_PEER_ANSWER_BURST + 10 * ETHER_PEER_ANSWER_RATE);
    /* At most ETHER_PEER_ANSWERS_MAX answers wait to be sent. */
    for (unsigned i = 0; i < 100; i++) {
        uint8_t mac[6] = {2, 1, 1, 1, (uint8_t)i, 1};

        give(b, &question, mac, 100000 * MS);
    }
    for (answers = 0; ether_peers_next(&b->peers, 100000 * MS, &frame);)
        answers++;
    assert_int_equal(answers, ETHER_PEER_ANSWERS_MAX);
    free(a);
    free(b);
}

/* A card cannot choose an address that uses up the answers to another card: a secret decides which
 * cards share a bucket. By an FNV hash, the two cards of this test would share one. */
static void test_no_card_chooses_its_bucket(void **state)
{
    struct host *a = host_new("node-a", NULL), *b = host_new("node-b", NULL);
    struct ether_peer_frame question, frame;
    uint8_t mac[6] = {2, 0, 0, 0, 0, 0};
    uint32_t of_a = 2166136261u, hash;
    unsigned tried = 0;

    (void)state;
    for (unsigned i = 0; i < 6; i++)
        of_a = (of_a ^ mac_a[i]) * 16777619u;
    do {
        mac[4] = (uint8_t)(++tried >> 8);
        mac[5] = (uint8_t)tried;
        hash = 2166136261u;
        for (unsigned i = 0; i < 6; i++)
            hash = (hash ^ mac[i]) * 16777619u;
    } while (((hash ^ hash >> 16) ^ (of_a ^ of_a >> 16)) % ETHER_PEER_CARD_BUCKETS != 0 ||
             memcmp(mac, mac_a, sizeof(mac)) == 0);
    assert_int_equal(find(a, "node-b", MS), -EAGAIN);
    question = next(a, MS);
    for (unsigned i = 0; i < 1000; i++) {
        give(b, &question, mac, MS);
        while (ether_peers_next(&b->peers, MS, &frame))
            continue;
    }
    give(b, &question, mac_a, MS);
    frame = next(b, MS);
    assert_memory_equal(frame.to, mac_a, 6);
    free(a);
    free(b);
}

/* A host has two NICs with the same name on one segment. Other hosts find its first NIC, even if
 * its second NIC gets the question first. */
static void test_two_nics_of_one_host(void **state)
{
    struct host *a = host_new("node-a", NULL), *first = host_new("node-b", NULL),
                *second = host_new("node-b", NULL);
    struct ether_peer_frame question, late, soon;

    (void)state;
    second->peers.rank = 1;
    assert_int_equal(find(a, "node-b", MS), -EAGAIN);
    question = next(a, MS);
    give(second, &question, mac_a, MS);
    give(first, &question, mac_a, 2 * MS);
    silent(second, 2 * MS);
    assert_true(ether_peers_deadline(&second->peers) == MS + ETHER_PEER_RANK_NS);
    soon = next(first, 2 * MS);
    give(a, &soon, mac_b, 2 * MS);
    late = next(second, MS + ETHER_PEER_RANK_NS);
    give(a, &late, mac_c, MS + ETHER_PEER_RANK_NS);
    assert_int_equal(a->stats.drop_peer_dispute, 1);
    assert_int_equal(find(a, "node-b", 10 * MS), 0xb);
    free(a);
    free(first);
    free(second);
}

/* A program asks for new names without end. The messages are limited; known hosts stay known. */
static void test_questions_are_limited(void **state)
{
    struct host *a = host_new("node-a", NULL), *b = host_new("node-b", NULL);
    struct ether_peer_frame frame, answer;
    uint64_t now_ns = MS;
    unsigned questions = 0, busy = 0;
    char name[32];

    assert_int_equal(find(a, "node-b", now_ns), -EAGAIN);
    frame = next(a, now_ns);
    give(b, &frame, mac_a, now_ns);
    answer = next(b, now_ns);
    give(a, &answer, mac_b, now_ns);
    for (unsigned i = 0; i < 20000; i++, now_ns += MS / 2) { /* runs for ten seconds */
        int r;

        snprintf(name, sizeof(name), "n%u", i);
        r = find(a, name, now_ns);
        assert_true(r == -EAGAIN || r == -EBUSY);
        busy += r == -EBUSY;
        if (i % 100 == 0)
            assert_int_equal(find(a, "node-b", now_ns), 0xb);
        while (ether_peers_next(&a->peers, now_ns, &frame))
            questions++;
    }
    assert_in_range(questions, 900, ETHER_PEER_ASK_BURST + 10 * ETHER_PEER_ASK_RATE);
    assert_true(busy > 10000);
    free(a);
    free(b);
}

/* ---- the seam for authentication ----------------------------------------------------------- */

static uint8_t prove(void *ctx, const uint8_t *body, uint32_t len, uint8_t *out)
{
    uint8_t sum = *(const uint8_t *)ctx;

    for (uint32_t i = 0; i < len; i++)
        sum = (uint8_t)(sum * 31 + body[i]);
    out[0] = sum;
    out[1] = 0x77;
    return 2;
}

static bool check(void *ctx, const uint8_t *body, uint32_t len, const uint8_t *proof,
                  uint8_t proof_len)
{
    uint8_t want[2];

    prove(ctx, body, len, want);
    return proof_len == 2 && memcmp(proof, want, 2) == 0;
}

static void test_proof(void **state)
{
    uint8_t key = 5, other = 6;
    struct ether_peer_auth auth = {1, &key, prove, check}, foreign = {1, &other, prove, check},
                           scheme = {2, &key, prove, check};
    struct host *a = host_new("a", &auth), *b = host_new("b", &auth);
    struct host *wrong[] = {host_new("b", &foreign), host_new("b", &scheme), host_new("b", NULL)};
    struct ether_peer_frame question, answer;

    assert_int_equal(find(a, "b", MS), -EAGAIN);
    question = next(a, MS);
    assert_int_equal(question.len, 16 + 1 + 2);
    for (unsigned i = 0; i < 3; i++) {
        give(wrong[i], &question, mac_a, MS);
        assert_int_equal(wrong[i]->stats.drop_peer_proof, 1);
        silent(wrong[i], MS);
        free(wrong[i]);
    }
    give(b, &question, mac_a, MS);
    answer = next(b, MS);
    give(a, &answer, mac_b, MS);
    assert_int_equal(find(a, "b", MS), 0xb);
    free(a);
    free(b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_question_and_answer),
        cmocka_unit_test(test_layout),
        cmocka_unit_test(test_nobody_answers),
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_answers_that_nobody_wants),
        cmocka_unit_test(test_name_of_a_card),
        cmocka_unit_test(test_name_of_a_card_that_was_found),
        cmocka_unit_test(test_name_of_nobody),
        cmocka_unit_test(test_damage),
        cmocka_unit_test(test_fields),
        cmocka_unit_test(test_answers_are_limited),
        cmocka_unit_test(test_no_card_chooses_its_bucket),
        cmocka_unit_test(test_two_nics_of_one_host),
        cmocka_unit_test(test_questions_are_limited),
        cmocka_unit_test(test_proof),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

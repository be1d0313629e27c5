/*
 * Finding peers on one Ethernet segment: "who is called NAME?" to everybody, "what are you called?" to
 * one card, "I am" to who asked (doc/wire.md, "Finding peers on Ethernet").
 *
 * Owns: the messages, the table of names asked for, every rate limit. Pure: no socket, no clock, no
 * allocator. Does not own: frames (ether_frame.c), when and through what they leave (ether_find.c). All
 * it hears is hostile: nothing is learnt that was not asked for, the table has a fixed size, and what
 * may be sent for strangers is bounded.
 */
#ifndef VIPD_LINK_ETHER_PEER_H
#define VIPD_LINK_ETHER_PEER_H

#include <stdbool.h>
#include <stdint.h>

#include "vipd/link/link.h"

/* Names and cards that are known or being asked for; more push out the one that was not used for longest. */
#define ETHER_PEERS_MAX 256

/* Of these, being asked for; the rest is for what is known. */
#define ETHER_PEERS_ASKING_MAX (ETHER_PEERS_MAX / 2)

/* A name with its terminating zero. */
#define ETHER_PEER_NAME_BYTES LINK_NAME_BYTES

/* Answers that wait to be sent. */
#define ETHER_PEER_ANSWERS_MAX 32

/* A message: its head, the name, and room for the proof of who sent it. */
#define ETHER_PEER_HEAD_BYTES  16
#define ETHER_PEER_PROOF_BYTES 48
#define ETHER_PEER_BODY_BYTES  128

_Static_assert(ETHER_PEER_HEAD_BYTES + ETHER_PEER_NAME_BYTES + ETHER_PEER_PROOF_BYTES <=
                   ETHER_PEER_BODY_BYTES,
               "body");

/* A question is repeated so often, after 50 ms, 100 ms, 200 ms ... */
#define ETHER_PEER_TRIES    4
#define ETHER_PEER_FIRST_NS 50000000ull

/* How long an answer holds, and how long the lack of one. */
#define ETHER_PEER_KNOWN_NS   60000000000ull
#define ETHER_PEER_UNKNOWN_NS 1000000000ull

/* Questions that this host sends, and answers that it gives to all and to the cards of one bucket:
 * so many at once, and so many in each second. */
#define ETHER_PEER_ASK_BURST    64
#define ETHER_PEER_ASK_RATE     100
#define ETHER_PEER_ANSWER_BURST 128
#define ETHER_PEER_ANSWER_RATE  512
#define ETHER_PEER_CARD_BURST   16
#define ETHER_PEER_CARD_RATE    16
#define ETHER_PEER_CARD_BUCKETS 64

/* Of several NICs of one host with one name the second waits so long before it answers, the third twice as
 * long: on one segment the first one is believed, always. */
#define ETHER_PEER_RANK_NS 2000000ull

enum ether_peer_kind {
    ETHER_PEER_ANNOUNCE = 2, /* "I am called NAME", to one card, with the nonce of its question */
    ETHER_PEER_SOLICIT = 3,  /* "Who is called NAME?", to everybody */
    ETHER_PEER_QUERY = 4,    /* "What are you called?", to one card, without a name */
};

/*
 * Who may say so? The seam for authentication; without one the scheme is 0 and there is no proof. A
 * message of another scheme than the own one is dropped. Both functions see the message without its
 * proof, with checksum and length of the proof as zero.
 */
struct ether_peer_auth {
    uint8_t scheme; /* not 0 */
    void *ctx;
    /* Bytes of proof written to out, at most ETHER_PEER_PROOF_BYTES. */
    uint8_t (*prove)(void *ctx, const uint8_t *body, uint32_t len, uint8_t *out);
    bool (*check)(void *ctx, const uint8_t *body, uint32_t len, const uint8_t *proof,
                  uint8_t proof_len);
};

/* A message on its way out. */
struct ether_peer_frame {
    enum ether_peer_kind kind;
    uint8_t to[6]; /* ff:ff:ff:ff:ff:ff for a name asked for */
    uint8_t body[ETHER_PEER_BODY_BYTES];
    uint32_t len;
};

enum ether_peer_state {
    ETHER_PEER_FREE = 0,
    ETHER_PEER_ASKING,
    ETHER_PEER_KNOWN,
    ETHER_PEER_UNKNOWN, /* nobody answered */
};

struct ether_peer_entry {
    enum ether_peer_state state;
    bool of_card; /* the card was there first, and its name is asked for */
    char name[ETHER_PEER_NAME_BYTES];
    struct link_addr card;
    bool disputed;    /* a second card has answered the same question */
    unsigned tries;   /* questions sent */
    uint64_t nonce;   /* of the question; an answer repeats it */
    uint64_t next_ns; /* when to ask again */
    uint64_t until_ns;
    uint64_t used_ns;
};

/* A bucket of permissions. */
struct ether_peer_bucket {
    uint64_t level_ns; /* time that has been saved up */
    uint64_t at_ns;    /* when it was counted last */
};

struct ether_peers {
    char own[ETHER_PEER_NAME_BYTES]; /* the name that this host answers to; empty: none */
    unsigned rank;                   /* NICs of this host before it that have the same name */
    const struct ether_peer_auth *auth;
    struct link_stats *stats;
    uint64_t random;
    unsigned asking; /* entries in that state */
    struct ether_peer_entry entries[ETHER_PEERS_MAX];
    struct ether_peer_bucket ask, answer, card[ETHER_PEER_CARD_BUCKETS];
    struct ether_peer_answer {
        uint8_t to[6];
        uint64_t nonce;
        uint64_t at_ns;                   /* when it may leave */
        char name[ETHER_PEER_NAME_BYTES]; /* as it was asked for */
    } answers[ETHER_PEER_ANSWERS_MAX];
    unsigned answer_first, answer_count;
};

/* own: NULL or a name that is none: questions of others are not answered. stats outlives it. The rank is 0
 * until the caller says otherwise. */
void ether_peers_init(struct ether_peers *peers, const char *own,
                      const struct ether_peer_auth *auth, struct link_stats *stats, uint64_t seed);

/* Is it a name at all: 1 to 63 letters, digits, '.', '-', '_'? */
bool ether_peer_name_is_good(const char *name);

/*
 * The card of a name. Outcomes: 0 and *ret; -EAGAIN it is being asked for, come again; -ENOENT nobody
 * has answered; -EINVAL no name; -EBUSY too many are being asked for.
 */
int ether_peers_find(struct ether_peers *peers, const char *name, uint64_t now_ns,
                     struct link_addr *ret);

/*
 * The name of a card: what it says that it is called, else a name that it has answered to. Outcomes: 0 and
 * ret; -EAGAIN it is being asked, come again; -ENOENT it has not answered; -EINVAL no address of a card;
 * -EBUSY too many are being asked for.
 */
int ether_peers_name(struct ether_peers *peers, const struct link_addr *card, uint64_t now_ns,
                     char ret[ETHER_PEER_NAME_BYTES]);

/*
 * Calls back for each card that is known now, from entry `from` on, until visit says false; the address is
 * good until the next call of ether_peers_*. The entry to go on with; UINT32_MAX: that was all.
 */
uint32_t ether_peers_known(const struct ether_peers *peers, uint32_t from, uint64_t now_ns,
                           link_visit_fn *visit, void *ctx);

/* Take the contents of a frame from a card. What is wrong with it is counted. */
void ether_peers_rx(struct ether_peers *peers, enum ether_peer_kind kind, const uint8_t from[6],
                    const uint8_t *body, uint32_t len, uint64_t now_ns);

/* What is to be sent now, one message with each call. false: nothing (any more). */
bool ether_peers_next(struct ether_peers *peers, uint64_t now_ns, struct ether_peer_frame *ret);

/* When ether_peers_next has something; UINT64_MAX = not before something else happens. */
uint64_t ether_peers_deadline(const struct ether_peers *peers);

#endif

/*
 * Finding peers on one Ethernet segment (doc/wire.md, "Finding peers on Ethernet"): a SOLICIT asks
 * all cards which one has a name, a QUERY asks one card for its name, an ANNOUNCE answers one card.
 *
 * Owns: the messages, the table of names asked for, every rate limit. Pure: no socket, no clock, no
 * allocator. Does not own: frames (ether_frame.c), sending them (ether_find.c). Messages are
 * hostile: an answer without a question is dropped, the table has a fixed size, and the rate of
 * answers is limited.
 */
#ifndef VIPD_LINK_ETHER_PEER_H
#define VIPD_LINK_ETHER_PEER_H

#include <stdbool.h>
#include <stdint.h>

#include "proto/siphash.h"
#include "vipd/link/link.h"

/* Entries of the table, each for a name or a card. If the table is full, a new entry replaces an
 * entry without an answer, or the entry whose last use is the earliest. */
#define ETHER_PEERS_MAX 256

/* Largest number of entries with a question under way; the other entries are for answers. */
#define ETHER_PEERS_ASKING_MAX (ETHER_PEERS_MAX / 2)

/* Bytes of a name with its terminating zero. */
#define ETHER_PEER_NAME_BYTES LINK_NAME_BYTES

/* Largest number of answers that wait to be sent. */
#define ETHER_PEER_ANSWERS_MAX 32

/* Bytes of the head of a message, of the longest proof of a sender, and of the longest message. */
#define ETHER_PEER_HEAD_BYTES  16
#define ETHER_PEER_PROOF_BYTES 48
#define ETHER_PEER_BODY_BYTES  128

_Static_assert(ETHER_PEER_HEAD_BYTES + ETHER_PEER_NAME_BYTES + ETHER_PEER_PROOF_BYTES <=
                   ETHER_PEER_BODY_BYTES,
               "body");

/* A question is sent TRIES times. The first repetition comes after FIRST_NS; then each interval is
 * twice the interval before. */
#define ETHER_PEER_TRIES    4
#define ETHER_PEER_FIRST_NS 50000000ull

/* KNOWN: time for which an answer is valid. UNKNOWN: time until a question without an answer may be
 * asked again. */
#define ETHER_PEER_KNOWN_NS   60000000000ull
#define ETHER_PEER_UNKNOWN_NS 1000000000ull

/* Rate limits: messages at once (BURST) and per second (RATE). ASK: questions of this host; ANSWER:
 * its answers to all cards; CARD: its answers to the cards of one bucket. */
#define ETHER_PEER_ASK_BURST    64
#define ETHER_PEER_ASK_RATE     100
#define ETHER_PEER_ANSWER_BURST 128
#define ETHER_PEER_ANSWER_RATE  512
#define ETHER_PEER_CARD_BURST   16
#define ETHER_PEER_CARD_RATE    16
#define ETHER_PEER_CARD_BUCKETS 64

/* If several NICs of one host have the same name, each NIC waits its rank times this time before it
 * answers. Peers believe the first answer, so they always find the same NIC. */
#define ETHER_PEER_RANK_NS 2000000ull

enum ether_peer_kind {
    ETHER_PEER_ANNOUNCE = 2, /* "My name is NAME", to one card, with the nonce of its question */
    ETHER_PEER_SOLICIT = 3,  /* "Which card has the name NAME?", to all cards */
    ETHER_PEER_QUERY = 4,    /* "What is your name?", to one card, without a name */
};

/*
 * Optional authentication of senders; vipd passes NULL. Without authentication the scheme is 0 and
 * messages have no proof. A message with another scheme is dropped. `prove` and `check` get the
 * message without its proof; the checksum and the length of the proof are zero.
 */
struct ether_peer_auth {
    uint8_t scheme; /* not 0 */
    void *ctx;
    /* Writes the proof to out. Returns the proof's length, at most ETHER_PEER_PROOF_BYTES bytes. */
    uint8_t (*prove)(void *ctx, const uint8_t *body, uint32_t len, uint8_t *out);
    bool (*check)(void *ctx, const uint8_t *body, uint32_t len, const uint8_t *proof,
                  uint8_t proof_len);
};

/* A message to be sent. */
struct ether_peer_frame {
    enum ether_peer_kind kind;
    uint8_t to[6]; /* ff:ff:ff:ff:ff:ff for a SOLICIT */
    uint8_t body[ETHER_PEER_BODY_BYTES];
    uint32_t len;
};

enum ether_peer_state {
    ETHER_PEER_FREE = 0,
    ETHER_PEER_ASKING,
    ETHER_PEER_KNOWN,
    ETHER_PEER_UNKNOWN, /* no card has answered */
};

struct ether_peer_entry {
    enum ether_peer_state state;
    bool of_card; /* true: the question asks for the name of `card`; false: the card of `name` */
    char name[ETHER_PEER_NAME_BYTES];
    struct link_addr card;
    bool disputed;    /* a second card has answered the same question */
    unsigned tries;   /* how often the question was sent */
    uint64_t nonce;   /* random number of the question; an answer repeats this number */
    uint64_t next_ns; /* when to send the question again */
    uint64_t until_ns;
    uint64_t used_ns;
};

/* A token bucket; a message costs the time 1 s / rate. */
struct ether_peer_bucket {
    uint64_t level_ns; /* time that the next messages may cost */
    uint64_t at_ns;    /* when level_ns was last updated */
};

struct ether_peers {
    char own[ETHER_PEER_NAME_BYTES]; /* the name that this host answers to; empty: none */
    unsigned rank;                   /* number of earlier NICs of this host with the same name */
    const struct ether_peer_auth *auth;
    struct link_stats *stats;
    struct siphash_key key; /* for nonces and buckets: no card can choose its bucket */
    uint64_t nonces;        /* number of nonces made so far */
    uint64_t tell_ns;       /* when the next dispute may be logged */
    unsigned asking;        /* number of entries in state ETHER_PEER_ASKING */
    struct ether_peer_entry entries[ETHER_PEERS_MAX];
    struct ether_peer_bucket ask, answer, card[ETHER_PEER_CARD_BUCKETS];
    struct ether_peer_answer {
        uint8_t to[6];
        uint64_t nonce;
        uint64_t at_ns;                   /* when the answer may leave */
        char name[ETHER_PEER_NAME_BYTES]; /* name in the question; for a QUERY the own name */
    } answers[ETHER_PEER_ANSWERS_MAX];
    unsigned answer_first, answer_count;
};

/* own: the name of this host. If own is NULL or not a good name, this host answers no questions.
 * stats must outlive peers. The rank is 0 until the caller sets it. */
void ether_peers_init(struct ether_peers *peers, const char *own,
                      const struct ether_peer_auth *auth, struct link_stats *stats, uint64_t seed);

/* Is the name good: 1 to 63 letters, digits, '.', '-', '_'? */
bool ether_peer_name_is_good(const char *name);

/*
 * Find the card of a name. Outcomes: 0 and *ret; -EAGAIN the question is under way, call again;
 * -ENOENT no card has answered; -EINVAL not a good name; -EBUSY too many questions are under way.
 */
int ether_peers_find(struct ether_peers *peers, const char *name, uint64_t now_ns,
                     struct link_addr *ret);

/*
 * The name of a card: its answer to a QUERY, else a name for which the card has answered a SOLICIT.
 * Outcomes: 0 and ret; -EAGAIN the question is under way, call again; -ENOENT the card has not
 * answered; -EINVAL not the address of a card; -EBUSY too many questions are under way.
 */
int ether_peers_name(struct ether_peers *peers, const struct link_addr *card, uint64_t now_ns,
                     char ret[ETHER_PEER_NAME_BYTES]);

/*
 * Call visit for each card that is known now, from entry `from` on, until visit returns false. The
 * address is valid until the next call of ether_peers_*. Returns the entry for the next call;
 * UINT32_MAX: no more.
 */
uint32_t ether_peers_known(const struct ether_peers *peers, uint32_t from, uint64_t now_ns,
                           link_visit_fn *visit, void *ctx);

/* Process the contents of a frame from a card; a faulty message is dropped and counted. */
void ether_peers_rx(struct ether_peers *peers, enum ether_peer_kind kind, const uint8_t from[6],
                    const uint8_t *body, uint32_t len, uint64_t now_ns);

/* Get the next message that is due; each call gets one message. false: no message is due. */
bool ether_peers_next(struct ether_peers *peers, uint64_t now_ns, struct ether_peer_frame *ret);

/* The time when ether_peers_next has a message; UINT64_MAX: none, unless another call makes one. */
uint64_t ether_peers_deadline(const struct ether_peers *peers);

#endif

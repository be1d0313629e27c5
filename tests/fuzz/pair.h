/*
 * Two engines with some VIs each, connected in pairs over a link. A script controls both: each of its steps posts,
 * sends, delivers, loses, repeats or reorders packets, lets time pass, or ends a connection or a VI.
 *
 * The oracle: completions come in the order of the posts, each exactly once and with the operation and length of its
 * descriptor; only memory that the descriptors name is written; held packets and segment lists are freed. In a run that
 * is not hostile: messages arrive once, in order and intact; a success means what the level promises; and when the
 * faults stop, all descriptors complete.
 */
#ifndef TESTS_FUZZ_PAIR_H
#define TESTS_FUZZ_PAIR_H

#include "fuzz/fuzz.h"
#include "tests/eng_all.h"
#include "vipd/engine/engine.h"

#define PAIR_VIS     2u     /* per side */
#define PAIR_POSTS   2048u  /* recorded posts of a queue; more than a queue holds */
#define PAIR_SLOTS   64u    /* buffers of one kind per VI */
#define PAIR_BUFFER  2048u  /* bytes of a buffer */
#define PAIR_FLIGHTS 64u    /* packets under way in one direction */
#define PAIR_PACKET  2048u  /* largest packet */
#define PAIR_HELD    1100u  /* one more than the packets that an engine may hold for all VIs */
#define PAIR_HANDLE  0x4711 /* handle of the only region of a side */

/* Uses of the buffers of a VI; each use has an area of its own. */
enum pair_area {
    PAIR_SENDS = 0, /* sources of sends and writes */
    PAIR_RECVS,     /* destinations of receives and of reads */
    PAIR_TARGETS,   /* written by the peer */
    PAIR_SOURCES,   /* read by the peer; never changes */
    PAIR_AREAS,
};
#define PAIR_VI_BYTES  (PAIR_AREAS * PAIR_SLOTS * PAIR_BUFFER)
#define PAIR_MEM_BYTES (PAIR_VIS * PAIR_VI_BYTES)

/* A posted descriptor that has not completed. */
struct pair_post {
    uint16_t control;
    bool recv_slot;  /* the post occupies `slot` of the receive area until it completes */
    bool honest;     /* the descriptor has no fault */
    unsigned slot;   /* buffer that it uses on this side */
    unsigned remote; /* buffer that it uses at the peer (RDMA) */
    uint32_t length;
    uint32_t number; /* of a message; its immediate data */
};

struct pair_queue {
    struct pair_post post[PAIR_POSTS];
    uint32_t head, tail;
};

/* A message that takes a receive at the peer, by its number. */
struct pair_message {
    uint32_t number, length;
    bool write;
    unsigned target;
};

struct pair_vi {
    bool exists;
    void *memory;
    struct pair_queue queue[2];
    uint32_t next_number;  /* of the next message to send */
    uint32_t first_number; /* of the first message of this connection */
    uint32_t seen;         /* largest number received on this connection */
    uint32_t life;         /* number of the connection; packets of other connections are dropped */
    struct pair_message log[PAIR_POSTS];
    bool recv_busy[PAIR_SLOTS];
};

struct pair_flight {
    uint16_t vi;
    uint32_t life, len;
    bool touched; /* changed by pair_touch */
    uint8_t bytes[PAIR_PACKET];
};

struct pair_side {
    struct pair *pair;
    unsigned index;
    struct eng *eng;
    void *memory;
    struct pair_vi vi[PAIR_VIS];
    uint8_t *mem;
    struct pair_flight flight[PAIR_FLIGHTS]; /* packets sent by this side, oldest first */
    unsigned flights;
    struct pair_flight held[PAIR_HELD]; /* by token */
    bool held_used[PAIR_HELD];
    const struct pair_flight *now; /* packet that the engine processes now */
    long segs;                     /* segments allocated */
    bool deny, no_segs;            /* no memory is accessible; no memory for segment lists */
    /* Ends of connections that the engine has reported for its peer. */
    bool close_due[PAIR_VIS];
    uint32_t close_life[PAIR_VIS]; /* `life` of the ended connection */
    struct eng_close close[PAIR_VIS];
};

struct pair {
    struct pair_side side[2];
    uint64_t now_ns;
    bool hostile; /* packets may be changed, and a peer may lie */
    uint16_t level;
    uint32_t packet_bytes, window_bytes;
    uint32_t lives;
};

/* Run a script in a fresh pair, then destroy all VIs and check that nothing is left. */
void pair_run(struct fuzz_in *in, bool hostile);

/* pair_net.c: packets, time, closes. */
void pair_pull(struct pair *pair, unsigned side, unsigned count);
void pair_deliver(struct pair *pair, unsigned side, unsigned index);
void pair_drop(struct pair *pair, unsigned side, unsigned index);
void pair_double(struct pair *pair, unsigned side, unsigned index);
void pair_touch(struct pair *pair, unsigned side, unsigned index, struct fuzz_in *in);
void pair_replay(struct pair *pair, unsigned side);
void pair_tick(struct pair *pair, uint64_t ns);
void pair_tell_closed(struct pair *pair);
/* No more faults: everything posted must complete. */
void pair_settle(struct pair *pair);

/* pair_app.c: the applications and their checks. */
extern const struct eng_ops pair_ops;
void pair_post_message(struct pair *pair, unsigned side, unsigned vi, uint16_t op,
                       struct fuzz_in *in);
void pair_post_recv(struct pair *pair, unsigned side, unsigned vi, struct fuzz_in *in);
void pair_post_read(struct pair *pair, unsigned side, unsigned vi, struct fuzz_in *in);
/* Post a descriptor with arbitrary fields. */
void pair_post_odd(struct pair *pair, unsigned side, unsigned vi, struct fuzz_in *in);
void pair_forget_conn(struct pair_vi *vi);
uint8_t pair_byte(unsigned side, unsigned vi, uint32_t number, uint32_t at);

static inline uint64_t pair_addr(unsigned vi, enum pair_area area, unsigned slot)
{
    return (uint64_t)vi * PAIR_VI_BYTES + ((uint64_t)area * PAIR_SLOTS + slot) * PAIR_BUFFER;
}

#endif

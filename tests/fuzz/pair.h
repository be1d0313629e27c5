/*
 * Two engines over a link. Each VI of one engine is connected to a VI of the other. A script
 * controls both engines. Each step posts, sends, delivers, loses, repeats or reorders packets, lets
 * time pass, or ends a connection or a VI.
 *
 * The oracle checks: completions come in the order of the posts, each once, with the operation and
 * length of its descriptor. Engines write only memory that descriptors name, and free held packets
 * and segment lists. In a run that is not hostile, messages arrive once, in order and intact, and
 * success means what the level promises. When the faults stop, all descriptors complete.
 */
#ifndef TESTS_FUZZ_PAIR_H
#define TESTS_FUZZ_PAIR_H

#include "fuzz/fuzz.h"
#include "tests/eng_all.h"
#include "vipd/engine/engine.h"

#define PAIR_VIS     2u     /* per side */
#define PAIR_POSTS   2048u  /* recorded descriptors of a queue, more than a queue holds */
#define PAIR_SLOTS   64u    /* buffers in an area (pair_area) of a VI */
#define PAIR_BUFFER  2048u  /* bytes of a buffer */
#define PAIR_FLIGHTS 64u    /* most packets under way in one direction */
#define PAIR_PACKET  2048u  /* largest packet */
#define PAIR_HELD    1100u  /* one more than the packets that an engine may hold for all VIs */
#define PAIR_HANDLE  0x4711 /* handle of the only region of a side */

/* Uses of the buffers of a VI; each use has an area of its own. */
enum pair_area {
    PAIR_SENDS = 0, /* sources of sends and RDMA Writes */
    PAIR_RECVS,     /* destinations of messages and of RDMA Reads */
    PAIR_TARGETS,   /* targets of the peer's RDMA Writes */
    PAIR_SOURCES,   /* sources of the peer's RDMA Reads; their bytes do not change */
    PAIR_AREAS,
};
#define PAIR_VI_BYTES  (PAIR_AREAS * PAIR_SLOTS * PAIR_BUFFER)
#define PAIR_MEM_BYTES (PAIR_VIS * PAIR_VI_BYTES)

/* A posted descriptor that has not completed. */
struct pair_post {
    uint16_t control;
    bool recv_slot;  /* the descriptor occupies `slot` of PAIR_RECVS */
    bool honest;     /* the descriptor has no fault */
    unsigned slot;   /* buffer of this side that the descriptor names */
    unsigned remote; /* buffer of the peer that the descriptor names (RDMA) */
    uint32_t length;
    uint32_t number; /* number of the message, also its immediate data */
};

struct pair_queue {
    struct pair_post post[PAIR_POSTS];
    uint32_t head, tail;
};

/* A message that consumes a receive descriptor of the peer. */
struct pair_message {
    uint32_t number, length;
    bool write;
    unsigned target;
};

struct pair_vi {
    bool exists;
    void *memory;
    struct pair_queue queue[2];
    uint32_t next_number;  /* number of the next message to send */
    uint32_t first_number; /* number of the first message of this connection */
    uint32_t seen;         /* largest message number received on this connection */
    uint32_t life;         /* number of the connection; packets of other connections are dropped */
    struct pair_message log[PAIR_POSTS];
    bool recv_busy[PAIR_SLOTS];
};

struct pair_flight {
    uint16_t vi;
    uint32_t life, len;
    bool touched; /* pair_touch has changed the packet */
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
    struct pair_flight held[PAIR_HELD]; /* held packets of the engine; index: the token */
    bool held_used[PAIR_HELD];
    const struct pair_flight *now; /* packet that the engine processes now */
    long segs;                     /* segments in allocated lists */
    bool deny, no_segs;            /* no region is accessible; no segment list can be allocated */
    /* True for a VI whose connection has ended here, until the peer is told. */
    bool close_due[PAIR_VIS];
    uint32_t close_life[PAIR_VIS]; /* `life` of the ended connection */
    struct eng_close close[PAIR_VIS];
};

struct pair {
    struct pair_side side[2];
    uint64_t now_ns;
    bool hostile; /* the script may change packets, and a peer may lie */
    uint16_t level;
    uint32_t packet_bytes, window_bytes;
    uint32_t lives;
};

/* Run a script in a fresh pair, then destroy all VIs and check that nothing is left. */
void pair_run(struct fuzz_in *in, bool hostile);

/* pair_net.c: the link, the clock, ends of connections. */
void pair_pull(struct pair *pair, unsigned side, unsigned count);
void pair_deliver(struct pair *pair, unsigned side, unsigned index);
void pair_drop(struct pair *pair, unsigned side, unsigned index);
void pair_double(struct pair *pair, unsigned side, unsigned index);
void pair_touch(struct pair *pair, unsigned side, unsigned index, struct fuzz_in *in);
void pair_replay(struct pair *pair, unsigned side);
void pair_tick(struct pair *pair, uint64_t ns);
void pair_tell_closed(struct pair *pair);
/* Let the link work without faults until all posted descriptors have completed. */
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

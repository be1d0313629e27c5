/*
 * What the actors of the simulator handle: memory, messages, flows, attempts to connect, the ends of a
 * connection and the pairs they make. Their behaviour is declared in actor.h.
 */
#ifndef TESTS_SIM_CAST_H
#define TESTS_SIM_CAST_H

#include "tests/sim/world.h"

#define SESSIONS_MAX 3  /* per host */
#define PAIRS_MAX    12 /* of VIs that talk to each other */
#define ENDS_MAX     (2 * PAIRS_MAX)
#define SLOTS        32u /* buffers of each kind per VI; flows are at most one less deep */
#define CANARY       64u
#define FIFO         256u /* descriptors of one queue that the judge remembers */
#define MSGS_MAX     96   /* per flow */
#define EVENTS_MAX   256

#define PATTERN 16381u /* prime, so that a slip by a round number shows */

#define BYTE_CANARY 0xeeu /* in buffers where nothing has been received */
#define BYTE_USED   0xdbu /* in source buffers whose send is done */
#define BYTE_GONE   0x5au /* in memory that is not registered any more */

struct play;
struct end;

/* Registered memory in the arena of a session. */
struct mem {
    uint32_t handle;
    uint64_t addr, offset; /* offset in the arena */
    uint8_t *bytes;
    uint32_t len, ptag;
    bool writable, readable; /* remotely */
    bool live;
    bool staged;   /* vipd reaches a copy only, which the library keeps (staged.c) */
    uint8_t *copy; /* staged: "out" half, then "in" half, as the library maps them */
};

/* ---- messages -------------------------------------------------------------------------- */

enum msg_kind {
    MSG_SEND = 0,
    MSG_WRITE,
    MSG_WRITE_IMM,
    MSG_READ,
    MSG_FORWARD,   /* sends the bytes of the read before it, behind a fence */
    MSG_WRITE_MSG, /* RDMA Write with message: consumes a receive, too */
    MSG_KINDS,
};

/* Mistakes of the sender; none may end with success at a reliable level. */
enum msg_bad {
    BAD_NOT = 0,
    BAD_LOCAL_PTAG,
    BAD_LOCAL_BOUNDS,
    BAD_LOCAL_LENGTH, /* Length is not the sum of the segments */
    BAD_REMOTE_PTAG,
    BAD_REMOTE_BOUNDS,
    BAD_REMOTE_RIGHTS,
    BAD_READ_RIGHTS,
    BAD_READ_BOUNDS,
    BAD_KINDS,
};

struct msg {
    uint8_t kind, bad;
    bool imm, fence, forwarded, placed;
    uint32_t len, start; /* where in the pattern its bytes begin */
    uint32_t slot;
    uint64_t imm_data;      /* what the receiver must see, if imm; the lower half is its number */
    bool imm64;             /* all of imm_data was asked for */
    uint32_t message_bytes; /* MSG_WRITE_MSG: of the message, which begins at message_start */
    uint32_t message_start;
};

/* One direction of a connection. */
struct flow {
    struct attempt *attempt;
    struct end *from, *to;
    bool reliable;
    uint32_t id; /* part of what makes its bytes its own */
    uint32_t total, depth, size_max;
    uint32_t posted, completed;
    uint32_t good;      /* completed with success; at reliable levels the first ones */
    uint32_t consuming; /* posted messages that take a receive */
    uint32_t received;  /* index behind the last message received */
    uint32_t in_place;  /* writes below it have been seen in place */
    uint32_t recv_base; /* receives of the other end that were done before this connection */
    uint32_t burst;     /* messages until the next pause */
    uint64_t pause_ns;
    bool starve;               /* posts without looking for receives */
    bool send_over, recv_over; /* an error came: only errors follow */
    bool frozen;               /* the receiver's memory is not what it was: placed is final */
    struct msg msg[MSGS_MAX];
};

/* One attempt to connect, and the connection if it comes to be. */
struct attempt {
    struct attempt *next;
    uint64_t id;
    struct pair *pair;
    uint64_t claim[2];       /* peer-to-peer: the two requests that met */
    bool attached[2];        /* end[side]->attempt is this one */
    bool up[2];              /* the session was told SUCCESS */
    bool over[2];            /* and that it is lost, or ended it itself */
    bool accepted;           /* nic_accept was called for it */
    bool after_heal;         /* begun when the network was good again */
    bool may_end;            /* something happened that may end it, other than a silence */
    uint64_t began_ns;       /* when it was asked for */
    uint64_t known_until_ns; /* the server's host knows a repetition of the request so long */
    uint32_t offered_life;   /* of the server's host, when the request was offered to it */
    uint64_t over_ns;        /* when the first side was over */
    struct flow flow[2];     /* by sender: 0 client, 1 server */
};

enum end_state {
    END_IDLE = 0,
    END_WAITING, /* server: a wait is posted */
    END_OFFERED, /* server: a request lies with the application */
    END_CONNECTING,
    END_ACCEPTING,
    END_UP,
    END_LOST, /* told that it is lost, not yet disconnected */
};

/* One posted descriptor, as the judge expects it to complete. */
struct posted {
    struct flow *flow; /* sends: NULL = posted in a state that flushes it */
    uint32_t index;    /* message, or receive */
    uint32_t length;
    uint64_t imm;
};

/* One VI of a pair. */
struct end {
    struct sess *sess;
    struct pair *pair;
    unsigned side; /* 0 client, 1 server */
    bool exists;
    uint16_t vi;
    uint32_t generation;
    enum end_state state;
    struct attempt *attempt;
    uint64_t at_ns; /* next own action */
    uint64_t wait_id, handle, remote_attempt;
    uint64_t claim; /* peer-to-peer: the request that has not ended, or whose connection it is */
    struct posted fifo[2][FIFO];
    uint32_t posted[2], done[2]; /* descriptors, over the life of the VI */
    uint32_t position[2];        /* in the completion rings */
    int32_t cq[2];
    uint32_t cq_seen[2];
    struct mem recv, window, landing, source;
    uint8_t *shadow;  /* what the window must look like */
    unsigned losses;  /* CONN_LOST told for this connection */
    uint64_t hold_ns; /* the connection stays for so long after its last message */
    bool leaving;     /* in VipDisconnect, which waits for what was posted before */
};

/* A client and a server VI that connect again and again. */
struct pair {
    struct play *play;
    unsigned number;
    uint16_t level;
    struct end end[2];
    uint8_t disc[VIP_DISCRIMINATOR_BYTES_MAX];
    uint8_t disc_len;
    bool listens;        /* the server has a listener, which it shares with others of its session */
    bool meets;          /* peer-to-peer: both ask */
    uint32_t cycles;     /* connections that ended well, or badly */
    uint32_t after_heal; /* whole ones since the faults ended */
};

#endif

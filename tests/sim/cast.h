/*
 * The objects of the simulator's applications: memory, messages, flows, attempts to connect, ends
 * (VIs) and pairs of ends. actor.h declares the functions.
 */
#ifndef TESTS_SIM_CAST_H
#define TESTS_SIM_CAST_H

#include "tests/sim/world.h"
#include "vipd/nic/outlive.h"

#define SESSIONS_MAX 3  /* largest number of sessions per host */
#define PAIRS_MAX    12 /* largest number of pairs of VIs */
#define ENDS_MAX     (2 * PAIRS_MAX)
#define SLOTS        32u /* buffers of each kind per VI; the depth of a flow is at most SLOTS - 1 */
#define CANARY       64u
#define FIFO         256u /* number of descriptors of one queue that judge.c remembers */
#define MSGS_MAX     96   /* largest number of messages per flow */
#define EVENTS_MAX   256

#define PATTERN 16381u /* a prime, so that a shift by a round number changes the bytes */

#define BYTE_CANARY 0xeeu /* value in buffers that have received nothing */
#define BYTE_USED   0xdbu /* value in source buffers after their send has completed */
#define BYTE_GONE   0x5au /* value in memory that was deregistered */

struct play;
struct end;

/* Registered memory in the arena of a session. */
struct mem {
    uint32_t handle;
    uint64_t addr, offset; /* offset: place in the arena */
    uint8_t *bytes;
    uint32_t len, ptag;
    bool writable, readable; /* by RDMA operations of the peer */
    bool live;
    bool staged;   /* vipd reaches only a copy; libvipl moves bytes from and to it (staged.c) */
    uint8_t *copy; /* libvipl's mapping of the copy: first the "out" half, then the "in" half */
    int copy_fd;   /* memfd of a staged region, for the next life of vipd */
};

/* ---- messages -------------------------------------------------------------------------- */

enum msg_kind {
    MSG_SEND = 0,
    MSG_WRITE,
    MSG_WRITE_IMM,
    MSG_READ,
    MSG_FORWARD,   /* a fenced send of the bytes that the previous read has fetched */
    MSG_WRITE_MSG, /* an RDMA Write with message; uses up a receive */
    MSG_KINDS,
};

/* Mistakes of the sender. At a reliable level no message with a mistake may succeed. */
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
    uint32_t len, start; /* start: position of the first byte in the pattern */
    uint32_t slot;
    uint64_t imm_data; /* expected at the receiver if `imm` is set; lower half: message number */
    bool imm64;        /* posted with VIP_SQF_IMM64: the receiver must see all of imm_data */
    uint32_t message_bytes; /* MSG_WRITE_MSG: length of the message part */
    uint32_t message_start; /* MSG_WRITE_MSG: position of the message part in the pattern */
};

/* One direction of a connection. */
struct flow {
    struct attempt *attempt;
    struct end *from, *to;
    bool reliable;
    uint32_t id; /* different for each flow of a run */
    uint32_t total, depth, size_max;
    uint32_t posted, completed;
    uint32_t good;      /* number of messages that succeeded; at a reliable level the first ones */
    uint32_t consuming; /* number of posted messages that use up a receive */
    uint32_t received;  /* index after the last message received */
    uint32_t in_place;  /* RDMA Writes with a lower index have been seen in place */
    uint32_t recv_base; /* receives that the receiver's VI had completed before this connection */
    uint32_t burst;     /* number of messages until the next pause */
    uint64_t pause_ns;
    bool starve;               /* the sender posts even if the receiver has posted no receive */
    bool send_over, recv_over; /* a completion had an error: all later ones must have one */
    bool frozen; /* from now on the receiver's memory may change: msg.placed is final */
    struct msg msg[MSGS_MAX];
};

/* One attempt to connect, and the connection that it may lead to. */
struct attempt {
    struct attempt *next;
    uint64_t id;
    struct pair *pair;
    uint64_t claim[2];       /* peer-to-peer: the numbers of the two requests that met */
    bool attached[2];        /* true: end[side]->attempt is this attempt */
    bool up[2];              /* vipd has reported SUCCESS to this side */
    bool over[2];            /* this side knows that the attempt or connection has ended */
    bool accepted;           /* the server has called nic_accept for it */
    bool after_heal;         /* the attempt began after the effects of all faults had ended */
    bool may_end;            /* an event has happened that may end the connection (not a silence) */
    uint64_t began_ns;       /* time of the request */
    uint64_t known_until_ns; /* until then the server's vipd recognizes a repeated request */
    uint32_t offered_life;   /* life of the server's vipd that offered the request, or 0 */
    uint64_t over_ns;        /* time at which the first side learned of the end */
    struct flow flow[2];     /* index: the sender, 0 client or 1 server */
};

enum end_state {
    END_IDLE = 0,
    END_WAITING, /* server: the application waits for a request */
    END_OFFERED, /* server: the application has a request and has not answered yet */
    END_CONNECTING,
    END_ACCEPTING,
    END_UP,
    END_LOST, /* vipd has reported CONN_LOST; the application has not called VipDisconnect yet */
};

/* One posted descriptor, and what the judge expects in its completion. */
struct posted {
    struct flow *flow; /* the flow of a send; NULL for a receive */
    uint32_t index;    /* number of the message, or of the receive descriptor */
    uint32_t length;
    uint64_t imm;
};

struct kept; /* a posted descriptor, to be posted again in the next life of vipd */

struct end {
    struct sess *sess;
    struct pair *pair;
    unsigned side; /* 0 client, 1 server */
    bool exists;
    uint16_t vi;
    uint32_t generation;
    enum end_state state;
    struct attempt *attempt;
    uint64_t at_ns; /* time of the next action that this end begins itself */
    uint64_t wait_id, handle, remote_attempt;
    uint64_t claim; /* peer-to-peer: number of its request, until the attempt or connection ends */
    struct posted fifo[2][FIFO];
    struct kept *kept[2][FIFO];  /* only in a play with plan.renews */
    uint32_t posted[2], done[2]; /* numbers of descriptors in the life of the VI */
    uint32_t position[2];        /* next position in each completion ring */
    int32_t cq[2];
    uint32_t cq_seen[2];
    struct mem recv, window, landing, source;
    uint8_t *shadow;  /* expected content of the window */
    unsigned losses;  /* how many times vipd has reported CONN_LOST for this connection */
    uint64_t hold_ns; /* time from the last message to the disconnect */
    bool leaving;     /* VipDisconnect is under way and waits for earlier sends */
    struct nic_vi_checkpoint past; /* record for the next life of vipd (renew.c) */
};

/* A client and a server VI that connect again and again. */
struct pair {
    struct play *play;
    unsigned number;
    uint16_t level;
    struct end end[2];
    uint8_t disc[VIP_DISCRIMINATOR_BYTES_MAX];
    uint8_t disc_len;
    bool listens;        /* the server uses its session's listener, which other pairs also use */
    bool meets;          /* peer-to-peer: both ends send a request */
    uint32_t cycles;     /* number of connections that have ended, with or without an error */
    uint32_t after_heal; /* number of complete connections with attempt.after_heal */
};

#endif

/* The layout of messages between the processes of a job, and limits on their number. */
#ifndef SPLITC_LIB_LAYOUT_H
#define SPLITC_LIB_LAYOUT_H

#include <stdint.h>

#include "vipl.h"

/* Most requests under way between two processes, in each direction. */
#define RT_CREDITS 32
/* When a process owes this many credits, it gives them back in a separate message. */
#define RT_CREDITS_AT_ONCE (RT_CREDITS / 4)
/* Most RDMA Writes of stores that the target has not taken yet, in each direction. They have their
 * own credits. */
#define RT_NOTICES RT_CREDITS
/* Receives of a VI: requests, replies to our requests, and messages with credits only. */
#define RT_RECEIVES (2 * RT_CREDITS + (RT_CREDITS + RT_NOTICES) / RT_CREDITS_AT_ONCE)
#define RT_SENDS    (RT_CREDITS + 16)
/* Most bytes of data in one message, as in the paper's runtime. */
#define RT_DATA_MAX 4096

enum rt_type {
    RT_READ,    /* -> RT_DATA */
    RT_DATA,    /* the reply to a read */
    RT_WRITE,   /* -> RT_DONE; puts too */
    RT_DONE,    /* the reply to a write */
    RT_STORE,   /* no reply */
    RT_ATOMIC,  /* -> RT_VALUE */
    RT_VALUE,   /* the reply to an atomic operation */
    RT_COLLECT, /* a step of a collective operation; no reply */
    RT_CREDIT,  /* carries only credits; takes no credit */
    RT_ANSWERS  /* several small replies, each a struct rt_answer */
};

/* The kinds of RT_ATOMIC. */
enum rt_kind {
    RT_KIND_ADD,
    RT_KIND_EXCHANGE,
    RT_KIND_SWAP,
    RT_KIND_CALL,
    RT_KIND_REGION = 100 /* the handle of a chunk of the spread heap */
};

/* Before the data of every message. Little-endian, since both hosts are. */
struct rt_header {
    uint8_t type;    /* enum rt_type */
    uint8_t kind;    /* a store: its epoch; an atomic operation: its enum rt_kind */
    uint8_t credits; /* credits for requests that the receiver gets back */
    uint8_t notices; /* credits for stores by RDMA */
    uint32_t bytes;  /* number of bytes read, written or carried */
    uint64_t addr;   /* at the target of a request */
    uint64_t op;     /* address of the requester's struct rt_op; the reply repeats it */
    uint64_t to;     /* address at the requester for the data; the reply repeats it */
    uint64_t value;  /* operands and results of atomic operations */
};

/* One of several replies in a message. */
struct rt_answer {
    uint64_t op, to; /* as the request had them */
    uint64_t value;  /* value of RT_VALUE, or the bytes of RT_DATA */
    uint32_t type;   /* RT_DATA, RT_DONE or RT_VALUE */
    uint32_t bytes;
};

#define RT_MESSAGE_BYTES (sizeof(struct rt_header) + RT_DATA_MAX)

/* A descriptor, directly followed by its message; a multiple of 64 bytes. */
struct rt_buffer {
    VIP_DESCRIPTOR desc;
    struct rt_header header;
    unsigned char data[RT_DATA_MAX];
    unsigned char pad[64 - RT_MESSAGE_BYTES % 64];
};

#endif

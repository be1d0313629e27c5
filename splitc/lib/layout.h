/* The layout of messages between the processes of a job, and limits on their number. */
#ifndef SPLITC_LIB_LAYOUT_H
#define SPLITC_LIB_LAYOUT_H

#include <stdint.h>

#include "vipl.h"

/* Most requests under way between two processes, in each direction. */
#define RT_CREDITS 32
/* A process that owes this many credits gives them back by a separate message. */
#define RT_CREDITS_AT_ONCE (RT_CREDITS / 4)
/* Most RDMA Writes of stores that the target has not counted yet, in each direction. They have
 * credits of their own. */
#define RT_NOTICES RT_CREDITS
/* Receives of a VI: for requests, for replies to our requests, for messages with credits only. */
#define RT_RECEIVES (2 * RT_CREDITS + (RT_CREDITS + RT_NOTICES) / RT_CREDITS_AT_ONCE)
#define RT_SENDS    (RT_CREDITS + 16)
/* Most bytes of data in one message; the number in the paper that doc/split-c.md names. */
#define RT_DATA_MAX 4096

enum rt_type {
    RT_READ,    /* a read or get; reply: RT_DATA */
    RT_DATA,    /* the reply to RT_READ */
    RT_WRITE,   /* a write or put; reply: RT_DONE */
    RT_DONE,    /* the reply to RT_WRITE */
    RT_STORE,   /* a store; no reply */
    RT_ATOMIC,  /* an atomic operation; reply: RT_VALUE */
    RT_VALUE,   /* the reply to RT_ATOMIC */
    RT_COLLECT, /* a step of a collective operation; no reply */
    RT_CREDIT,  /* only returns credits; needs no credit itself */
    RT_ANSWERS  /* several small replies, each a struct rt_answer */
};

/* The kinds of RT_ATOMIC. */
enum rt_kind {
    RT_KIND_ADD,
    RT_KIND_EXCHANGE,
    RT_KIND_SWAP,
    RT_KIND_CALL,
    RT_KIND_REGION = 100 /* asks for the memory handle of a chunk of the spread heap */
};

/* The head of every message. Little-endian, the byte order of all supported machines. */
struct rt_header {
    uint8_t type;    /* enum rt_type */
    uint8_t kind;    /* a store: its epoch; an atomic operation: its enum rt_kind */
    uint8_t credits; /* credits for requests that the receiver gets back */
    uint8_t notices; /* credits for stores by RDMA that the receiver gets back */
    uint32_t bytes;  /* number of bytes read, written or carried */
    uint64_t addr;   /* address in the process that gets the request */
    uint64_t op;     /* address of the requester's struct rt_op; the reply repeats it */
    uint64_t to;     /* address for the data in the requester's memory; the reply repeats it */
    uint64_t value;  /* operands and results of atomic operations */
};

/* One of several replies in a message. */
struct rt_answer {
    uint64_t op, to; /* copied from the request */
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

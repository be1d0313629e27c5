/* The layout of messages between the processes of a job, and limits on their number. */
#ifndef SPLITC_LIB_LAYOUT_H
#define SPLITC_LIB_LAYOUT_H

#include <stdint.h>

#include "vipl.h"

/* Most requests that are under way from one process to another. */
#define RT_CREDITS 32
/* A process that owes this number of credits returns them in a separate message. */
#define RT_CREDITS_AT_ONCE (RT_CREDITS / 4)
/* Most RDMA Writes of stores from one process to another that the target has not counted yet. These
 * writes have their own credits. */
#define RT_NOTICES RT_CREDITS
/* Receive descriptors of a VI: for requests, replies, and messages that only return credits. */
#define RT_RECEIVES (2 * RT_CREDITS + (RT_CREDITS + RT_NOTICES) / RT_CREDITS_AT_ONCE)
#define RT_SENDS    (RT_CREDITS + 16)
/* Most bytes of data in one message. The number is from the paper that doc/split-c.md names. */
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
    RT_CREDIT,  /* only returns credits; uses up no credit */
    RT_ANSWERS  /* an array of small replies (struct rt_answer) */
};

/* The kinds of an RT_ATOMIC request. */
enum rt_kind {
    RT_KIND_ADD,
    RT_KIND_EXCHANGE,
    RT_KIND_SWAP,
    RT_KIND_CALL,
    RT_KIND_REGION = 100 /* asks for the memory handle of a chunk of the spread heap */
};

/* The head of every message. Its numbers are little-endian, as on all supported machines. */
struct rt_header {
    uint8_t type;    /* enum rt_type */
    uint8_t kind;    /* RT_STORE: the epoch; RT_ATOMIC: an enum rt_kind */
    uint8_t credits; /* number of credits for requests that the sender returns */
    uint8_t notices; /* number of credits for stores by RDMA that the sender returns */
    uint32_t bytes;  /* number of bytes to read or write, or of data in the message */
    uint64_t addr;   /* of a request: address in the process that serves it */
    uint64_t op;     /* address of the requester's struct rt_op; the reply repeats it */
    uint64_t to;     /* address for RT_DATA in the requester, or an operand; the reply repeats it */
    uint64_t value;  /* operand or result of an atomic operation */
};

/* One small reply in an RT_ANSWERS message. */
struct rt_answer {
    uint64_t op, to; /* copied from the request's header */
    uint64_t value;  /* result of RT_ATOMIC, or the data of RT_DATA */
    uint32_t type;   /* RT_DATA, RT_DONE or RT_VALUE */
    uint32_t bytes;
};

#define RT_MESSAGE_BYTES (sizeof(struct rt_header) + RT_DATA_MAX)

/* A descriptor, directly followed by its message. The size is a multiple of 64 bytes. */
struct rt_buffer {
    VIP_DESCRIPTOR desc;
    struct rt_header header;
    unsigned char data[RT_DATA_MAX];
    unsigned char pad[64 - RT_MESSAGE_BYTES % 64];
};

#endif

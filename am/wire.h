/*
 * What libvipam's processes send each other: the head of each message, and the private data of
 * connecting. Fixed widths, in the byte order of the machine (both ends are little-endian, as
 * VIPL's own formats are). All of it comes from another process and is checked before use.
 */
#ifndef AM_WIRE_H
#define AM_WIRE_H

#include <stddef.h>
#include <stdint.h>

#include "job/key.h"

#define AM_WIRE_VERSION 2
#define AM_WIRE_MAGIC   0x32494D41u /* "AMI2" */

/* Arguments of a message. */
#define AM_ARGS_MAX 16

/* Payload of a medium message: with head and arguments it fits a buffer of 64 KiB. */
#define AM_MEDIUM_MAX 65000u

/* Payload of a long message; a landing place has this size. */
#define AM_LONG_MAX (1024u * 1024)

/* Bytes of the largest message (head, arguments, payload of a medium). */
#define AM_BUFFER_BYTES 65536u

/* Bytes of a message without payload, rounded up to a cache line. */
#define AM_SMALL_BYTES 128u

/* Credits per connection: the most that is granted, and that programs may ask for (AMX). */
#define AM_DEPTH_MAX     128u
#define AM_DEPTH_ASK_MAX 1024

enum am_kind {
    AM_KIND_SHORT = 1, /* requests */
    AM_KIND_MEDIUM,
    AM_KIND_LONG,
    AM_KIND_GET,
    AM_KIND_REPLY_REFUSED, /* our reply id came back; is itself answered by AM_KIND_NONE */
    AM_KIND_R_SHORT = 16,  /* replies to request id */
    AM_KIND_R_MEDIUM,
    AM_KIND_R_LONG,
    AM_KIND_NONE,       /* no handler: only returns the credit */
    AM_KIND_REFUSED,    /* request id came back for the reason in status */
    AM_KIND_READY = 32, /* first message of the caller: now the other side may send */
    AM_KIND_CLOSE,      /* asks to close this connection */
    AM_KIND_GRANT,      /* allows direct writes into my segment (struct am_wire_grant) */
    AM_KIND_REVOKE,     /* ends that permission */
    AM_KIND_AGREED      /* answer to the three above */
};

/* Where the payload of a long message is. */
enum am_place {
    AM_PLACE_INLINE,  /* behind the arguments; the receiver copies it */
    AM_PLACE_LANDING, /* in the landing place of this request or reply; the receiver copies it */
    AM_PLACE_SEGMENT, /* in its place in the segment */
    AM_PLACE_BAD      /* set by the receiver: an impossible place */
};

struct am_message {
    uint8_t kind;
    uint8_t handler;
    uint8_t numargs;
    uint8_t place;
    uint16_t id;        /* the request that this is, or answers */
    uint16_t status;    /* refusals: E... */
    uint32_t nbytes;    /* payload */
    uint32_t reserved;  /* 0 */
    uint64_t tag;       /* key for the receiving endpoint */
    uint64_t reply_tag; /* requests: the key that a reply without a translation entry carries */
    uint64_t offset;    /* long: where in the receiver's segment; get: where in the caller's */
    uint64_t source;    /* get: where from in the receiver's segment */
    int32_t arg[];      /* numargs, then from the next multiple of 8 the payload */
};

/* Follows the head of AM_KIND_GRANT. */
struct am_wire_grant {
    uint64_t base, len;
    uint64_t tag;
    uint32_t handle;
    uint32_t reserved; /* 0 */
    uint8_t handlers[32];
};

/*
 * Private data of a connection request. The caller's host and process are those of the address that
 * it calls from.
 */
struct am_call {
    uint32_t magic;
    uint8_t version;
    uint8_t lane, lanes;
    uint8_t reserved;       /* 0 */
    uint32_t serial;        /* the same for the lanes of one connection, another for the next one */
    uint32_t number;        /* of the endpoint that is called */
    uint32_t caller_number; /* of the endpoint that calls */
    uint16_t depth;         /* the caller's credits */
    uint16_t answer_depth;  /* credits of the other side that the caller has room for */
    uint32_t landing_mem;
    uint32_t reserved2; /* 0 */
    uint64_t landing;   /* address of its landing */
    struct job_proof proof;
};

/* Private data of the answer. */
struct am_answer {
    uint32_t magic;
    uint16_t status; /* 0, AM_ANSWER_..., or E... */
    uint16_t depth;
    uint32_t landing_mem;
    uint32_t reserved; /* 0 */
    uint64_t landing;
    struct job_proof proof; /* if the two belong to one job, otherwise 0 */
};

/* The claim of a proof (job/key.h): both endpoints and their private data, with proofs of 0. */
struct am_claim {
    uint8_t caller[32], called[32]; /* en_t */
    struct am_call call;
    struct am_answer answer; /* of a call: zeros */
};

/* This call gives way, for example to the other side's own call: call again. */
#define AM_ANSWER_CROSS 0xFFFFu

/* Call again with room for `depth` credits of ours. */
#define AM_ANSWER_DEPTH 0xFFFEu

_Static_assert(sizeof(struct am_message) == 48, "the head is part of the protocol");
_Static_assert(sizeof(struct am_wire_grant) == 64, "so is the grant");
_Static_assert(sizeof(struct am_call) == 56, "the call has to fit VIPX_PRIVATE_DATA_MAX");
_Static_assert(sizeof(struct am_answer) == 40, "and so has the answer");
_Static_assert(sizeof(struct am_claim) == 160, "no padding");

/* Bytes of head and arguments: where the payload begins. */
static inline size_t am_head_bytes(unsigned numargs)
{
    return sizeof(struct am_message) + (4u * numargs + 7u) / 8u * 8u;
}

#endif

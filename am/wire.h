/*
 * The data that processes with libvipam send each other: the head of each message, and the private
 * data of a connection request and of its answer. Members have fixed widths and are little-endian,
 * the byte order of all supported machines. The data come from another process: check before use.
 */
#ifndef AM_WIRE_H
#define AM_WIRE_H

#include <stddef.h>
#include <stdint.h>

#include "job/key.h"

#define AM_WIRE_VERSION 2
#define AM_WIRE_MAGIC   0x32494D41u /* "AMI2" */

/* Maximum number of arguments of a message. */
#define AM_ARGS_MAX 16

/* Largest payload of a medium message, in bytes: payload, head and arguments fit into
 * AM_BUFFER_BYTES. */
#define AM_MEDIUM_MAX 65000u

/* Largest payload of a long message, in bytes; also the size of a place in the landing. */
#define AM_LONG_MAX (1024u * 1024)

/* Bytes of the largest message (head, arguments, payload of a medium message). */
#define AM_BUFFER_BYTES 65536u

/* Bytes of the largest message without payload, rounded up to a cache line. */
#define AM_SMALL_BYTES 128u

/* Credits per connection (a credit lets one request be under way). The library gives at most
 * AM_DEPTH_MAX; a program may ask for at most AM_DEPTH_ASK_MAX. */
#define AM_DEPTH_MAX     128u
#define AM_DEPTH_ASK_MAX 1024

enum am_kind {
    AM_KIND_SHORT = 1, /* requests */
    AM_KIND_MEDIUM,
    AM_KIND_LONG,
    AM_KIND_GET,
    AM_KIND_REPLY_REFUSED, /* the requester refuses the reply to request id; answer: AM_KIND_NONE */
    AM_KIND_R_SHORT = 16,  /* the first of three kinds of replies */
    AM_KIND_R_MEDIUM,
    AM_KIND_R_LONG,
    AM_KIND_NONE,       /* runs no handler; only returns the credit of request id */
    AM_KIND_REFUSED,    /* the receiver refuses request id for the reason in status */
    AM_KIND_READY = 32, /* first message of the caller: from now on the called side may send */
    AM_KIND_CLOSE,      /* asks to close this connection */
    AM_KIND_GRANT,      /* allows direct writes into the sender's segment (struct am_wire_grant) */
    AM_KIND_REVOKE,     /* ends the permission of an earlier AM_KIND_GRANT */
    AM_KIND_AGREED      /* answer to CLOSE, GRANT and REVOKE */
};

/* Where the payload of a long message is. */
enum am_place {
    AM_PLACE_INLINE,  /* in the message, after the arguments; the receiver copies it */
    AM_PLACE_LANDING, /* in the receiver's landing, place of this id; the receiver copies it */
    AM_PLACE_SEGMENT, /* in the receiver's segment, at the offset of the message */
    AM_PLACE_BAD      /* set by the receiver: the place is impossible */
};

struct am_message {
    uint8_t kind;
    uint8_t handler;
    uint8_t numargs;
    uint8_t place;
    uint16_t id;        /* number of this request, or of the request that this reply answers */
    uint16_t status;    /* refusals: E... */
    uint32_t nbytes;    /* payload */
    uint32_t reserved;  /* 0 */
    uint64_t tag;       /* tag that the sender has for the receiving endpoint */
    uint64_t reply_tag; /* requests: tag for the reply if the replier has no translation entry */
    uint64_t offset;    /* offset in the receiver's segment; get: in the requester's segment */
    uint64_t source;    /* get: offset in the receiver's segment to read from */
    int32_t arg[];      /* numargs arguments; the payload begins at the next multiple of 8 bytes */
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
 * Private data of a connection request. The caller's host and process are not here: they are in
 * the caller's VIPL address.
 */
struct am_call {
    uint32_t magic;
    uint8_t version;
    uint8_t lane, lanes;
    uint8_t reserved; /* 0 */
    uint32_t serial;  /* equal for the lanes of one connection, different for the next connection */
    uint32_t number;  /* number of the endpoint that is called */
    uint32_t caller_number; /* number of the endpoint that calls */
    uint16_t depth;         /* the caller's credits */
    uint16_t answer_depth;  /* the caller has buffers for this many credits of the called side */
    uint32_t landing_mem;
    uint32_t reserved2; /* 0 */
    uint64_t landing;   /* address of the caller's landing */
    struct job_proof proof;
};

/* Private data of the answer to a connection request. */
struct am_answer {
    uint32_t magic;
    uint16_t status; /* 0, AM_ANSWER_..., or E... */
    uint16_t depth;
    uint32_t landing_mem;
    uint32_t reserved; /* 0 */
    uint64_t landing;
    struct job_proof proof; /* zeros unless both processes belong to one job */
};

/* What a proof covers (job/key.h): both names, and the private data with zeros as proofs. */
struct am_claim {
    uint8_t caller[32], called[32]; /* en_t */
    struct am_call call;
    struct am_answer answer; /* zeros in the proof of a call */
};

/* Status: this call fails for now, for example because the called side also calls and its call
 * wins. The caller must call again. */
#define AM_ANSWER_CROSS 0xFFFFu

/* Status: the caller must call again, with room for `depth` credits of the called side. */
#define AM_ANSWER_DEPTH 0xFFFEu

_Static_assert(sizeof(struct am_message) == 48, "the head is part of the protocol");
_Static_assert(sizeof(struct am_wire_grant) == 64, "so is the grant");
_Static_assert(sizeof(struct am_call) == 56, "the call has to fit VIPX_PRIVATE_DATA_MAX");
_Static_assert(sizeof(struct am_answer) == 40, "and so has the answer");
_Static_assert(sizeof(struct am_claim) == 160, "no padding");

/* Offset of the payload: the bytes of head and arguments, rounded up to a multiple of 8. */
static inline size_t am_head_bytes(unsigned numargs)
{
    return sizeof(struct am_message) + (4u * numargs + 7u) / 8u * 8u;
}

#endif

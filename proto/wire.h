/*
 * Wire format: packets between two vipd. doc/wire.md describes every byte.
 *
 * Owns: encoding, validation and decoding of the packet header, acknowledgement ranges, frame
 * heads and connection-management (CM) messages. Pure functions on byte buffers; no state.
 * Does not own: what a packet means (vipd/engine/), payload bytes, sockets (vipd/link/).
 *
 * Little-endian, explicit offsets, no struct is cast onto packet bytes. A packet is
 *
 *     header (64 bytes) | ack ranges (8 bytes each) | frame head (40 bytes) payload | frame ...
 *
 * for VIP_PKT_DATA, and header | CM message for VIP_PKT_CM.
 */
#ifndef VIP_PROTO_WIRE_H
#define VIP_PROTO_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/limits.h"

#define VIP_WIRE_VERSION 1

#define VIP_WIRE_HEADER_BYTES 64
#define VIP_WIRE_RANGE_BYTES  8
#define VIP_WIRE_FRAME_BYTES  40
/* Most zero bytes behind the last frame. In more bytes another frame with payload would fit. */
#define VIP_WIRE_PAD_MAX VIP_WIRE_FRAME_BYTES

/* Most ranges in one packet. A receiver with more ranges sends the newest ones. */
#define VIP_WIRE_RANGES_MAX 32

/* Most frames in one packet; small messages of one VI share a packet. */
#define VIP_WIRE_FRAMES_MAX 32

/* One clock tick of the time stamp fields: 128 ns, so 32 bits wrap after nine minutes. */
#define VIP_WIRE_TICK_SHIFT 7

enum vip_packet_kind {
    VIP_PKT_DATA = 1, /* frames and acknowledgements of one connection */
    VIP_PKT_CM = 2,   /* one connection-management message between the daemons */
    VIP_PKT_PATH =
        3, /* a message between the paths of two hosts (proto/wire_path.h); no header follows */
};

/* Header flags. */
#define VIP_PKTF_ACK     0x0001u /* ack_cumulative, ops_done, ranges and ts_echo are valid */
#define VIP_PKTF_ELICITS 0x0002u /* carries frames or a probe: the receiver must acknowledge it */
#define VIP_PKTF_ACK_NOW 0x0004u /* the receiver must not delay the acknowledgement */

/* Packet header, decoded. Offsets in doc/wire.md. */
struct vip_header {
    uint8_t kind;           /* enum vip_packet_kind */
    uint16_t flags;         /* VIP_PKTF_* */
    uint64_t conn_id;       /* chosen by the receiver of this packet; 0 for CM */
    uint64_t src_epoch;     /* the sending vipd's life */
    uint64_t dst_epoch;     /* the receiving vipd's life as the sender knows it; 0 = unknown (CM) */
    uint64_t packet_number; /* per connection and direction, from 1, never reused; 0 for CM */
    uint32_t ts;            /* sender's clock in ticks when the packet left */
    uint32_t ts_echo;       /* ts of the packet that this acknowledgement answers */
    uint32_t ack_delay;     /* ticks between that packet's arrival and this packet's departure */
    uint64_t ack_cumulative; /* every lower packet number has arrived, or is 2048 or more below the
                                newest arrived one: the peer has given up such a number */
    uint32_t ops_done;       /* operations of the peer processed here in order, modulo 2^32 */
    uint16_t range_count;    /* ack ranges that follow, <= VIP_WIRE_RANGES_MAX */
    uint16_t frame_count;    /* frames that follow, <= VIP_WIRE_FRAMES_MAX */
};

/* One block of packet numbers that arrived above ack_cumulative: [start, end), as offsets. */
struct vip_range {
    uint32_t start; /* first packet number minus ack_cumulative; > 0; ascending, disjoint */
    uint32_t end;   /* one past the last, minus ack_cumulative; > start */
};

enum vip_frame_type {
    VIP_FRM_SEND = 1,      /* fragment of a send: goes to the next receive descriptor */
    VIP_FRM_WRITE = 2,     /* fragment of an RDMA Write */
    VIP_FRM_READ_REQ = 3,  /* RDMA Read request; no payload; total = bytes asked for */
    VIP_FRM_READ_RESP = 4, /* fragment of the answer to the peer's read number `op` */
    VIP_FRM_WRITE_MSG = 5, /* fragment of an RDMA Write with message: the last `message` bytes of
                              the operation go to the next receive descriptor */
};

/* Frame flags. */
#define VIP_FRMF_LAST      0x01u /* this fragment ends its operation */
#define VIP_FRMF_IMMEDIATE 0x02u /* imm is valid (only on the last fragment) */
#define VIP_FRMF_IMM64     0x04u /* all 64 bits of imm are valid */

/* Frame head, decoded; `length` payload bytes follow it on the wire. */
struct vip_frame {
    uint8_t type;         /* enum vip_frame_type */
    uint8_t flags;        /* VIP_FRMF_* */
    uint16_t message;     /* bytes of the message (WRITE_MSG: 1..VIP_MESSAGE_BYTES_MAX, else 0) */
    uint32_t op;          /* operation number of the sender's send queue, modulo 2^32 */
    uint32_t offset;      /* first byte of this fragment within the operation */
    uint32_t length;      /* payload bytes that follow */
    uint32_t total;       /* bytes of the whole operation, message included; without the message
                             <= VIP_TRANSFER_BYTES_MAX */
    uint32_t handle;      /* remote memory handle (WRITE, WRITE_MSG, READ_REQ) */
    uint64_t remote_addr; /* address of byte 0 of the operation at the target (same types) */
    uint64_t imm;         /* immediate data, if VIP_FRMF_IMMEDIATE */
    uint32_t payload;     /* decode only: offset of the payload within the packet */
};

/* Bytes of the operation without the message. */
static inline uint32_t vip_frame_bulk(const struct vip_frame *frame)
{
    return frame->total - frame->message;
}

/* A decoded data packet. */
struct vip_packet {
    struct vip_header hdr;
    struct vip_range ranges[VIP_WIRE_RANGES_MAX];
    struct vip_frame frames[VIP_WIRE_FRAMES_MAX];
};

/* Why validation dropped a packet; each reason has a counter. */
enum vip_wire_verdict {
    VIP_WIRE_OK = 0,
    VIP_WIRE_SHORT,       /* shorter than its own fields require */
    VIP_WIRE_TRAILING,    /* bytes behind the last frame that are no padding */
    VIP_WIRE_VERSION_BAD, /* another protocol version */
    VIP_WIRE_KIND_BAD,    /* unknown packet kind */
    VIP_WIRE_CRC_BAD,     /* checksum does not match */
    VIP_WIRE_RESERVED,    /* a reserved bit or unused field is set, or a required id is 0 */
    VIP_WIRE_COUNT_BAD,   /* more ranges or frames than allowed */
    VIP_WIRE_RANGE_BAD,   /* ack ranges overlap or go backwards */
    VIP_WIRE_FRAME_BAD,   /* unknown frame type, or fields that contradict each other */
    VIP_WIRE_CM_BAD,      /* malformed connection-management message */
    VIP_WIRE_VERDICTS,
};

/* Counter name such as "drop_crc", static, never NULL. */
const char *vip_wire_verdict_name(enum vip_wire_verdict verdict);

/*
 * Encode a header into out[0..63] with the checksum field zero (vip_wire_seal fills it).
 * hdr must obey the comments of struct vip_header (asserted). Any thread.
 */
void vip_wire_put_header(uint8_t out[VIP_WIRE_HEADER_BYTES], const struct vip_header *hdr);

/* Encode one range (8 bytes) or one frame head (40 bytes); returns the bytes written. */
size_t vip_wire_put_range(uint8_t out[VIP_WIRE_RANGE_BYTES], const struct vip_range *range);
size_t vip_wire_put_frame(uint8_t out[VIP_WIRE_FRAME_BYTES], const struct vip_frame *frame);

struct iovec;

/*
 * Compute the CRC32C of the whole packet in iov[0..iov_count-1], with the checksum field taken as
 * zero, and store it in that field. iov[0] must hold the whole header. Any thread.
 */
void vip_wire_seal(const struct iovec *iov, size_t iov_count);

/* Does the checksum of the contiguous packet match? False for a size that no packet has. */
bool vip_wire_check_seal(const uint8_t *packet, size_t len_bytes);

/*
 * Validate everything that can be checked without connection state, then decode. Header only:
 * vip_wire_get_header. Whole data packet: vip_wire_get_data. Both ignore the checksum.
 * Outcomes: VIP_WIRE_OK with *ret filled, or the reason with *ret in an unspecified state. Every
 * frame of a decoded data packet satisfies: offset + length <= total; message <= total; total -
 * message <= VIP_TRANSFER_BYTES_MAX; payload + length <= len_bytes. LAST is set exactly when offset
 * + length == total (READ_REQ: always, with length 0). A fragment without LAST has length > 0; a
 * message lies whole in the fragment with LAST. 0..VIP_WIRE_PAD_MAX zero bytes follow the frames.
 */
enum vip_wire_verdict vip_wire_get_header(const uint8_t *packet, size_t len_bytes,
                                          struct vip_header *ret);
enum vip_wire_verdict vip_wire_get_data(const uint8_t *packet, size_t len_bytes,
                                        struct vip_packet *ret);

/* Connection-management messages (vipd/engine/cm.c exchanges them; rules in doc/wire.md). */
enum vip_cm_type {
    VIP_CM_REQUEST = 1,    /* client: asks for a connection */
    VIP_CM_PENDING = 2,    /* server: a waiter has the request, or the request waits here */
    VIP_CM_ACCEPT = 3,     /* server: accepted; conn_id is the server's connection id */
    VIP_CM_CONFIRM = 4,    /* client: ACCEPT arrived, the connection is established */
    VIP_CM_REJECT = 5,     /* server: the application rejected; `code` */
    VIP_CM_NO_MATCH = 6,   /* server: no waiter on that discriminator */
    VIP_CM_CANCEL = 7,     /* client: the attempt is over (time limit, death, disconnect) */
    VIP_CM_CLOSE = 8,      /* either: this connection is over; close fields */
    VIP_CM_CLOSE_ACK = 9,  /* the answer to CLOSE, also for an unknown connection */
    VIP_CM_PING = 10,      /* asks whether the receiving vipd is alive, and in which life */
    VIP_CM_PONG = 11,      /* the answer to PING; src_epoch of the header names the life */
    VIP_CM_RESET = 12,     /* a data packet named a connection id (conn_id) that is unknown here */
    VIP_CM_COOKIE = 13,    /* server: nothing is stored; repeat the REQUEST with this cookie */
    VIP_CM_SETUP = 14,     /* both: features and items, between ACCEPT and the first data. The
                             client's one is also its CONFIRM */
    VIP_CM_REBIND = 15,    /* rebinder: go on with a connection under my new id and epoch */
    VIP_CM_CHALLENGE = 16, /* answer to REBIND: prove that you know the connection's secret */
    VIP_CM_PROOF = 17,     /* rebinder: the proof, and its counts; the other end answers likewise */
    VIP_CM_AWAY = 18,      /* this vipd ends; the next one goes on with the connections */
    VIP_CM_TYPES,
};

/* Why a connection was closed (VIP_CM_CLOSE). */
enum vip_close_reason {
    VIP_CLOSE_DISCONNECT = 0, /* VipDisconnect, VipDestroyVi, VipCloseNic */
    VIP_CLOSE_DEATH = 1,      /* the application or its session ended */
    VIP_CLOSE_ERROR = 2,      /* an error broke the connection; failed_op, op_status */
    VIP_CLOSE_TIMEOUT = 3,    /* retries exhausted at the sender of CLOSE */
    VIP_CLOSE_SHUTDOWN = 4,   /* vipd stops in good order */
};

/* Features of a vipd beyond the first version of this protocol. A connection uses the features that
 * both ends have. Unknown bits are ignored. */
#define VIP_FEATURE_IMM64_MSG 0x01u /* VIP_FRMF_IMM64 and VIP_FRM_WRITE_MSG are understood */
#define VIP_FEATURE_PADDING   0x02u /* zero bytes behind the last frame are understood */
#define VIP_FEATURE_SETUP     0x80u /* SETUP is understood; it carries features beyond these bits */
#define VIP_FEATURE_REBIND    0x100u /* REBIND is understood; SETUP has an item with a secret */
#define VIP_FEATURES          (VIP_FEATURE_IMM64_MSG | VIP_FEATURE_PADDING | VIP_FEATURE_SETUP)

/* Attributes of a VI, as REQUEST and ACCEPT carry them (spec 1.6). level, max_transfer_bytes and
 * qos must be equal at both ends; rdma_* are the rights of the other side. */
struct vip_cm_attrs {
    uint16_t level;                /* VIP_LVL_*, exactly one bit */
    uint8_t rdma_write, rdma_read; /* 1: the VI may be the target of such an operation; else 0 */
    uint8_t features;              /* VIP_FEATURE_* of the sender's vipd, the lowest eight */
    uint64_t max_transfer_bytes;
    uint64_t qos;
};

/* A VIPL address in parts; unused tails are zero. */
struct vip_addr {
    uint8_t host_len;
    uint8_t disc_len;
    uint8_t host[VIP_HOST_ADDR_BYTES_MAX];
    uint8_t disc[VIP_DISCRIMINATOR_BYTES_MAX];
};

/* Most bytes that an application adds to a request or an answer; a CM packet has room for them. */
#define VIP_PRIVATE_BYTES_MAX 64

struct vip_private {
    uint8_t len;
    uint8_t bytes[VIP_PRIVATE_BYTES_MAX]; /* the unused tail is zero */
};

/* Most bytes of items in a message. */
#define VIP_ITEMS_BYTES_MAX 256

enum vip_item {
    VIP_ITEM_SECRET = 1, /* SETUP: 16 random bytes, the sender's part of the connection's secret */
    VIP_ITEM_COUNTS = 2, /* PROOF: struct vip_counts: 4 bytes `done`, 4 bytes for each read */
    VIP_ITEM_MAC = 3,    /* PROOF: 8 bytes */
};

/* Items, as on the wire: type (2 bytes), length of the value (2 bytes), value. Types ascend. A
 * receiver ignores items of unknown types. Decoded items stay in the packet. */
struct vip_items {
    const uint8_t *bytes;
    uint16_t len; /* of all items; 0: there are none */
};

/* Append an item to `bytes`, which have room for VIP_ITEMS_BYTES_MAX bytes; *len grows. */
void vip_items_put(uint8_t bytes[VIP_ITEMS_BYTES_MAX], uint16_t *len, enum vip_item type,
                   const void *value, uint16_t value_bytes);
/* The value of the item of this type; NULL if there is none with exactly *len bytes. *len 0: any
 * length, which is returned. */
const uint8_t *vip_items_find(const struct vip_items *items, enum vip_item type, uint16_t *len);

/* RDMA Reads that an end may have open. */
#define VIP_COUNTS_READS_MAX 16

/* Where one end of a connection stands. Operation numbers wrap. */
struct vip_counts {
    uint32_t done;  /* number of the first operation of the peer that is not processed */
    uint32_t reads; /* own RDMA Reads posted and not completed, at most VIP_COUNTS_READS_MAX: */
    uint32_t read[VIP_COUNTS_READS_MAX]; /* their operation numbers, ascending */
};

/* One CM message, decoded. Fields that a type does not use are zero on the wire; encoding ignores
 * them. */
struct vip_cm {
    uint8_t type;              /* enum vip_cm_type */
    uint8_t reason;            /* CLOSE: enum vip_close_reason */
    uint8_t peer_to_peer;      /* REQUEST: 1 = VipConnectPeerRequest */
    uint64_t request_id;       /* the client's random number for this attempt; PING: a nonce */
    uint64_t conn_id;          /* connection id of the sender of this message (AWAY: any);
                                RESET: the unknown id, copied from the data packet */
    uint64_t peer_conn_id;     /* PENDING, ACCEPT, CONFIRM, SETUP, CHALLENGE, PROOF, AWAY, CLOSE,
                                  CLOSE_ACK: the receiver's id */
    uint32_t packet_bytes;     /* REQUEST, ACCEPT, PROOF: largest packet the sender can take */
    uint32_t window_bytes;     /* the same: bytes that may be under way towards the sender */
    uint32_t code;             /* REJECT: enum vip_rc for the client */
    uint32_t op_status;        /* CLOSE: VIP_ST_* bits for the peer's operation failed_op, or 0 */
    uint32_t failed_op;        /* CLOSE: number of the peer's operation that failed */
    uint32_t ops_done;         /* CLOSE: peer's operations processed before the end */
    uint8_t ops_valid;         /* CLOSE: 1 = ops_done (and failed_op if op_status) are valid */
    uint64_t cookie;           /* COOKIE: not 0; REQUEST: the server's cookie, 0 = none yet */
    uint64_t features;         /* SETUP: VIP_FEATURE_* of the sender's vipd, all */
    uint64_t tag;              /* REBIND: names the receiver's end of the connection; not 0 */
    uint64_t nonce;            /* CHALLENGE, PROOF: number of the end that was asked; not 0 */
    uint64_t back_ms;          /* AWAY: the next vipd comes within this time; not 0 */
    struct vip_cm_attrs attrs; /* REQUEST, ACCEPT */
    struct vip_addr local;     /* REQUEST: the client's address, as the client names it */
    struct vip_addr remote;    /* REQUEST: address to connect to */
    struct vip_private data;   /* REQUEST, ACCEPT, REJECT: for the other application */
    struct vip_items items;    /* SETUP, PROOF */
};

/* Largest encoded CM packet, header included. */
#define VIP_WIRE_CM_BYTES_MAX 512

/*
 * Encode a whole CM packet (header with kind CM and the two epochs, message, checksum) into out.
 * Returns its length in bytes, <= VIP_WIRE_CM_BYTES_MAX. Any thread.
 */
size_t vip_wire_put_cm(uint8_t out[VIP_WIRE_CM_BYTES_MAX], uint64_t src_epoch, uint64_t dst_epoch,
                       const struct vip_cm *cm);

/* Validate and decode the CM message of a packet of kind VIP_PKT_CM. */
enum vip_wire_verdict vip_wire_get_cm(const uint8_t *packet, size_t len_bytes, struct vip_cm *ret);

#endif

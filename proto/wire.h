/*
 * Wire format: packets between two vipd. doc/wire.md describes every byte.
 *
 * Owns: encoding, validation and decoding of the packet header, acknowledgement ranges, frame
 * heads and connection-management (CM) messages. Pure functions on byte buffers; no state.
 * Does not own: the meaning of a packet (vipd/engine/), payload bytes, sockets (vipd/link/).
 *
 * All numbers are little-endian and have explicit offsets. A packet is
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
/* Largest number of zero bytes after the last frame. With more room another frame would fit. */
#define VIP_WIRE_PAD_MAX VIP_WIRE_FRAME_BYTES

/* Largest number of ranges in one packet. If there are more, only the newest ranges are sent. */
#define VIP_WIRE_RANGES_MAX 32

/* Largest number of frames in one packet; small messages of one VI share a packet. */
#define VIP_WIRE_FRAMES_MAX 32

/* Unit of the time stamp fields: a tick of 128 ns, so 32 bits wrap after nine minutes. */
#define VIP_WIRE_TICK_SHIFT 7

enum vip_packet_kind {
    VIP_PKT_DATA = 1, /* frames and acknowledgements of one connection */
    VIP_PKT_CM = 2,   /* one connection-management message between the daemons */
    VIP_PKT_PATH =
        3, /* a message between the paths of two hosts, with its own header (proto/wire_path.h) */
};

/* Header flags. */
#define VIP_PKTF_ACK     0x0001u /* ack_cumulative, ops_done, ranges and ts_echo are valid */
#define VIP_PKTF_ELICITS 0x0002u /* has frames or is a probe: the receiver must acknowledge it */
#define VIP_PKTF_ACK_NOW 0x0004u /* the receiver must not delay the acknowledgement */

/* Packet header, decoded. doc/wire.md has the offsets. */
struct vip_header {
    uint8_t kind;            /* enum vip_packet_kind */
    uint16_t flags;          /* VIP_PKTF_* */
    uint64_t conn_id;        /* the receiver's id of the connection; 0 for CM */
    uint64_t src_epoch;      /* epoch of the sending vipd */
    uint64_t dst_epoch;      /* epoch of the receiving vipd; CM: 0 = the sender does not know it */
    uint64_t packet_number;  /* per connection and direction, from 1, never reused; 0 for CM */
    uint32_t ts;             /* sender's clock in ticks when the packet was sent */
    uint32_t ts_echo;        /* ts of the arrived packet with the largest packet number */
    uint32_t ack_delay;      /* ticks from the arrival of the packet of ts_echo to this packet */
    uint64_t ack_cumulative; /* all lower packet numbers have arrived; numbers that are 2048 or more
                                below the largest arrived one may be missing: they count as lost */
    uint32_t ops_done;       /* the receiver's operations processed in order, modulo 2^32 */
    uint16_t range_count;    /* ack ranges that follow, <= VIP_WIRE_RANGES_MAX */
    uint16_t frame_count;    /* frames that follow, <= VIP_WIRE_FRAMES_MAX */
};

/* Consecutive packet numbers above ack_cumulative that arrived. Ranges ascend and do not
 * overlap. */
struct vip_range {
    uint32_t start; /* first packet number minus ack_cumulative; > 0 */
    uint32_t end;   /* last packet number + 1, minus ack_cumulative; > start */
};

enum vip_frame_type {
    VIP_FRM_SEND = 1,      /* fragment of a send: goes to the next receive descriptor */
    VIP_FRM_WRITE = 2,     /* fragment of an RDMA Write */
    VIP_FRM_READ_REQ = 3,  /* RDMA Read request; no payload; total = bytes to read */
    VIP_FRM_READ_RESP = 4, /* fragment of the answer to the peer's RDMA Read number `op` */
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
    uint32_t op;          /* operation number in the initiator's send queue, modulo 2^32 */
    uint32_t offset;      /* first byte of this fragment within the operation */
    uint32_t length;      /* payload bytes that follow */
    uint32_t total;       /* bytes of the whole operation, with its message; without the message at
                             most VIP_TRANSFER_BYTES_MAX */
    uint32_t handle;      /* remote memory handle (WRITE, WRITE_MSG, READ_REQ) */
    uint64_t remote_addr; /* address of the operation's byte 0 at the target (types as `handle`) */
    uint64_t imm;         /* immediate data, if VIP_FRMF_IMMEDIATE */
    uint32_t payload;     /* decode only: offset of the payload within the packet */
};

/* Bytes of the operation, without its message. */
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
    VIP_WIRE_SHORT,       /* shorter than its fields say */
    VIP_WIRE_TRAILING,    /* bytes after the last frame that are no padding */
    VIP_WIRE_VERSION_BAD, /* another protocol version */
    VIP_WIRE_KIND_BAD,    /* unknown packet kind */
    VIP_WIRE_CRC_BAD,     /* checksum does not match */
    VIP_WIRE_RESERVED,    /* a reserved bit or unused field is set, or a required id is 0 */
    VIP_WIRE_COUNT_BAD,   /* more ranges or frames than allowed */
    VIP_WIRE_RANGE_BAD,   /* ack ranges overlap or do not ascend */
    VIP_WIRE_FRAME_BAD,   /* unknown frame type, or fields that contradict each other */
    VIP_WIRE_CM_BAD,      /* malformed connection-management message */
    VIP_WIRE_VERDICTS,
};

/* Name of the verdict's counter, such as "drop_crc"; a static string, never NULL. */
const char *vip_wire_verdict_name(enum vip_wire_verdict verdict);

/* Encode a header into out[0..63]; its checksum is 0 until vip_wire_seal. *hdr must obey the
 * comments of struct vip_header (asserted). Any thread. */
void vip_wire_put_header(uint8_t out[VIP_WIRE_HEADER_BYTES], const struct vip_header *hdr);

/* Encode one range (8 bytes) or one frame head (40 bytes). Returns the number of bytes written. */
size_t vip_wire_put_range(uint8_t out[VIP_WIRE_RANGE_BYTES], const struct vip_range *range);
size_t vip_wire_put_frame(uint8_t out[VIP_WIRE_FRAME_BYTES], const struct vip_frame *frame);

struct iovec;

/* Compute the CRC32C of the whole packet in iov[0..iov_count-1], with 0 as checksum, and store it
 * in the checksum field. iov[0] must have the whole header. Any thread. */
void vip_wire_seal(const struct iovec *iov, size_t iov_count);

/* Is the checksum of the packet correct? False for a size that no packet can have. */
bool vip_wire_check_seal(const uint8_t *packet, size_t len_bytes);

/*
 * Validate all that can be checked without connection state, then decode. vip_wire_get_header: the
 * header only. vip_wire_get_data: a whole data packet. Both ignore the checksum.
 * Outcomes: VIP_WIRE_OK with *ret filled, or the reason with *ret in an unspecified state. For each
 * frame of a decoded data packet: offset + length <= total; message <= total; total - message <=
 * VIP_TRANSFER_BYTES_MAX; payload + length <= len_bytes. LAST is set if and only if offset + length
 * == total (READ_REQ: always, with length 0). A fragment without LAST has length > 0. The fragment
 * with LAST has the whole message. 0..VIP_WIRE_PAD_MAX zero bytes follow the last frame.
 */
enum vip_wire_verdict vip_wire_get_header(const uint8_t *packet, size_t len_bytes,
                                          struct vip_header *ret);
enum vip_wire_verdict vip_wire_get_data(const uint8_t *packet, size_t len_bytes,
                                        struct vip_packet *ret);

/* Connection-management messages (vipd/engine/cm.c); doc/wire.md has the rules. */
enum vip_cm_type {
    VIP_CM_REQUEST = 1,    /* client: requests a connection */
    VIP_CM_PENDING = 2,    /* server: a waiter has the request, or the request waits for a waiter */
    VIP_CM_ACCEPT = 3,     /* server: accepted; conn_id is the server's connection id */
    VIP_CM_CONFIRM = 4,    /* client: ACCEPT arrived, the connection is established */
    VIP_CM_REJECT = 5,     /* server: the application has rejected the request, with `code` */
    VIP_CM_NO_MATCH = 6,   /* server: no waiter on that discriminator */
    VIP_CM_CANCEL = 7,     /* client: the request is over (time limit, death, disconnect) */
    VIP_CM_CLOSE = 8,      /* either end: this connection is over; the CLOSE fields say why */
    VIP_CM_CLOSE_ACK = 9,  /* the answer to CLOSE, also for an unknown connection */
    VIP_CM_PING = 10,      /* asks whether the receiving vipd is alive, and in which life */
    VIP_CM_PONG = 11,      /* the answer to PING; src_epoch of the header names the life */
    VIP_CM_RESET = 12,     /* a data packet came for an unknown connection id (conn_id) */
    VIP_CM_COOKIE = 13,    /* server: repeat the REQUEST with this cookie; no state is stored */
    VIP_CM_SETUP = 14,     /* from both ends, between ACCEPT and the first data: features and
                             items. The client's SETUP is also its CONFIRM */
    VIP_CM_REBIND = 15,    /* rebinder: bind a connection anew to the rebinder's new id and epoch */
    VIP_CM_CHALLENGE = 16, /* answer to REBIND: asks for proof that the rebinder knows the secret */
    VIP_CM_PROOF = 17,     /* rebinder: MAC and counts; the other end answers with its own PROOF */
    VIP_CM_AWAY = 18,      /* the sender ends; its next vipd goes on with the connections */
    VIP_CM_LOAN_OFFER = 19, /* the sender's end moves to or from a loan: bind the connection anew */
    VIP_CM_LOAN_AGREE = 20, /* the answer to LOAN_OFFER */
    VIP_CM_LOAN_PROBE = 21, /* from the socket of a loan: do packets pass in both directions? */
    VIP_CM_LOAN_PROBED = 22, /* the answer to LOAN_PROBE, to the same socket */
    VIP_CM_TYPES,
};

/* Why a connection was closed (VIP_CM_CLOSE). */
enum vip_close_reason {
    VIP_CLOSE_DISCONNECT = 0, /* VipDisconnect, VipDestroyVi, VipCloseNic */
    VIP_CLOSE_DEATH = 1,      /* the application or its session ended */
    VIP_CLOSE_ERROR = 2,      /* an error broke the connection; see failed_op, op_status */
    VIP_CLOSE_TIMEOUT = 3,    /* the sender of CLOSE got no answer within its time limit */
    VIP_CLOSE_SHUTDOWN = 4,   /* vipd was stopped */
};

/* Features of a vipd; the first version of this protocol had none of them. A connection uses the
 * features that both ends have. Unknown bits are ignored. */
#define VIP_FEATURE_IMM64_MSG 0x01u  /* VIP_FRMF_IMM64 and VIP_FRM_WRITE_MSG are understood */
#define VIP_FEATURE_PADDING   0x02u  /* zero bytes after the last frame are understood */
#define VIP_FEATURE_SETUP     0x80u  /* vipd understands SETUP; SETUP has room for more features */
#define VIP_FEATURE_REBIND    0x100u /* REBIND is understood; SETUP has an item with a secret */
#define VIP_FEATURE_LOAN      0x200u /* the messages LOAN_* are understood */
#define VIP_FEATURES          (VIP_FEATURE_IMM64_MSG | VIP_FEATURE_PADDING | VIP_FEATURE_SETUP)

/* Attributes of a VI in REQUEST and ACCEPT (spec 1.6). level, max_transfer_bytes and qos must be
 * equal at both ends; rdma_write and rdma_read are rights of the other end. */
struct vip_cm_attrs {
    uint16_t level;                /* VIP_LVL_*, exactly one bit */
    uint8_t rdma_write, rdma_read; /* 1: the VI may be the target of this operation; else 0 */
    uint8_t features;              /* VIP_FEATURE_* of the sender's vipd, the lowest eight bits */
    uint64_t max_transfer_bytes;
    uint64_t qos;
};

/* A VIPL address in parts; unused bytes are zero. */
struct vip_addr {
    uint8_t host_len;
    uint8_t disc_len;
    uint8_t host[VIP_HOST_ADDR_BYTES_MAX];
    uint8_t disc[VIP_DISCRIMINATOR_BYTES_MAX];
};

/* Largest number of bytes that an application can add to a request or an answer. */
#define VIP_PRIVATE_BYTES_MAX 64

struct vip_private {
    uint8_t len;
    uint8_t bytes[VIP_PRIVATE_BYTES_MAX]; /* unused bytes are zero */
};

/* Largest number of bytes of all items in a message. */
#define VIP_ITEMS_BYTES_MAX 256

enum vip_item {
    VIP_ITEM_SECRET = 1, /* SETUP: 16 random bytes, the sender's part of the connection's secret */
    VIP_ITEM_COUNTS = 2, /* PROOF, LOAN_OFFER, LOAN_AGREE: struct vip_counts: 4 bytes for `done` and
                            for each read */
    VIP_ITEM_MAC = 3,    /* PROOF: a keyed hash of 8 bytes; the key is the secret */
    VIP_ITEM_HOST = 4,   /* LOAN_OFFER, LOAN_AGREE: address of the sender's loan, if it is out */
};

/* Items in their wire format: type (2 bytes), length of the value (2 bytes), value. Types ascend. A
 * receiver ignores items of unknown types. After decoding, `bytes` points into the packet. */
struct vip_items {
    const uint8_t *bytes;
    uint16_t len; /* bytes of all items; 0: no items */
};

/* Append an item to bytes[0..*len-1], and add its size to *len. */
void vip_items_put(uint8_t bytes[VIP_ITEMS_BYTES_MAX], uint16_t *len, enum vip_item type,
                   const void *value, uint16_t value_bytes);
/* Returns the value of the item of this type. NULL: no such item, or its length is not *len. If
 * *len is 0, every length is allowed, and *len becomes the length of the value. */
const uint8_t *vip_items_find(const struct vip_items *items, enum vip_item type, uint16_t *len);

/* Largest number of RDMA Reads that an end may have open. */
#define VIP_COUNTS_READS_MAX 16

/* The progress of one end of a connection. Operation numbers wrap. */
struct vip_counts {
    uint32_t done;  /* number of the peer's first operation that is not processed */
    uint32_t reads; /* number of own unfinished RDMA Reads, at most VIP_COUNTS_READS_MAX */
    uint32_t read[VIP_COUNTS_READS_MAX]; /* operation numbers of these reads, ascending */
};

/* One CM message, decoded. Encoding ignores fields that the type does not use, and writes zeros. */
struct vip_cm {
    uint8_t type;              /* enum vip_cm_type */
    uint8_t reason;            /* CLOSE: enum vip_close_reason */
    uint8_t peer_to_peer;      /* REQUEST: 1 = VipConnectPeerRequest */
    uint64_t request_id;       /* the client's random number for this request; PING and
                                  LOAN_PROBE: a nonce */
    uint64_t conn_id;          /* the sender's connection id (AWAY: of any connection);
                                RESET: the unknown id, copied from the data packet */
    uint64_t peer_conn_id;     /* PENDING, ACCEPT, CONFIRM, SETUP, CHALLENGE, PROOF, AWAY, CLOSE,
                                  CLOSE_ACK, LOAN_*: the receiver's id */
    uint32_t packet_bytes;     /* REQUEST, ACCEPT, PROOF, LOAN_OFFER, LOAN_AGREE: largest
                                  packet that the sender accepts */
    uint32_t window_bytes;     /* same messages: limit of bytes under way to the sender */
    uint32_t code;             /* REJECT: enum vip_rc for the client */
    uint32_t op_status;        /* CLOSE: VIP_ST_* bits for the peer's operation failed_op, or 0 */
    uint32_t failed_op;        /* CLOSE: number of the peer's operation that failed */
    uint32_t ops_done;         /* CLOSE: number of the peer's operations processed before the end */
    uint8_t ops_valid;         /* CLOSE: 1 = ops_done is valid, and with op_status also failed_op */
    uint64_t cookie;           /* COOKIE: not 0; REQUEST: the server's cookie, 0 = none yet */
    uint64_t features;         /* SETUP: all VIP_FEATURE_* of the sender's vipd */
    uint64_t tag;              /* REBIND: names the receiver's end of the connection; not 0 */
    uint64_t nonce;            /* CHALLENGE, PROOF: nonce of the end that answers REBIND; not 0 */
    uint64_t back_ms;          /* AWAY: the next vipd comes within this time; not 0 */
    uint64_t data_id;          /* LOAN_OFFER, LOAN_AGREE: conn_id in data packets to the sender */
    uint32_t number;           /* LOAN_OFFER, LOAN_AGREE: number of the sender's binding, not 0 */
    uint32_t offered;          /* LOAN_AGREE: number of the offer that it answers, not 0 */
    struct vip_cm_attrs attrs; /* REQUEST, ACCEPT */
    struct vip_addr local;     /* REQUEST: the client's address */
    struct vip_addr remote;    /* REQUEST: address to connect to */
    struct vip_private data;   /* REQUEST, ACCEPT, REJECT: for the other application */
    struct vip_items items;    /* SETUP, PROOF, LOAN_OFFER, LOAN_AGREE */
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

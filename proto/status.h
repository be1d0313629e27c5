/*
 * Constants of VIPL 1.0 that vipd and the wire use.
 *
 * vipl.h has the same values for applications. vipd must not include vipl.h (doc/architecture.md
 * lists the allowed includes). libvipl/abi_check.c asserts that all values are equal.
 */
#ifndef VIP_PROTO_STATUS_H
#define VIP_PROTO_STATUS_H

#include <stdint.h>

/* VIP_RETURN (spec 1.8). */
enum vip_rc {
    VIP_RC_SUCCESS = 0,
    VIP_RC_NOT_DONE = 1,
    VIP_RC_INVALID_PARAMETER = 2,
    VIP_RC_ERROR_RESOURCE = 3,
    VIP_RC_TIMEOUT = 4,
    VIP_RC_REJECT = 5,
    VIP_RC_INVALID_RELIABILITY_LEVEL = 6,
    VIP_RC_INVALID_MTU = 7,
    VIP_RC_INVALID_QOS = 8,
    VIP_RC_INVALID_PTAG = 9,
    VIP_RC_INVALID_RDMAREAD = 10,
    VIP_RC_DESCRIPTOR_ERROR = 11,
    VIP_RC_INVALID_STATE = 12,
    VIP_RC_ERROR_NAMESERVICE = 13,
    VIP_RC_NO_MATCH = 14,
    VIP_RC_NOT_REACHABLE = 15,
    VIP_RC_ERROR_NOT_SUPPORTED = 16,
};

/* VIP_VI_STATE (spec 1.9). */
enum vip_vi_state {
    VIP_VIST_IDLE = 0,
    VIP_VIST_CONNECTED = 1,
    VIP_VIST_CONNECT_PENDING = 2,
    VIP_VIST_ERROR = 3,
};

/* VIP_RESOURCE_CODE (spec 1.9). */
enum vip_resource {
    VIP_RES_NIC = 0,
    VIP_RES_VI = 1,
    VIP_RES_CQ = 2,
    VIP_RES_DESCRIPTOR = 3,
};

/* VIP_ERROR_CODE (spec 1.9). */
enum vip_error_code {
    VIP_EC_POST_DESC = 0,
    VIP_EC_CONN_LOST = 1,
    VIP_EC_RECVQ_EMPTY = 2,
    VIP_EC_VI_OVERRUN = 3,
    VIP_EC_RDMAW_PROT = 4,
    VIP_EC_RDMAW_DATA = 5,
    VIP_EC_RDMAW_ABORT = 6,
    VIP_EC_RDMAR_PROT = 7,
    VIP_EC_COMP_PROT = 8,
    VIP_EC_RDMA_TRANSPORT = 9,
    VIP_EC_CATASTROPHIC = 10,
};

/* VIP_RELIABILITY_LEVEL (spec 1.4): a VI has exactly one bit, a NIC has a set of bits. */
#define VIP_LVL_UNRELIABLE 0x01u
#define VIP_LVL_DELIVERY   0x02u
#define VIP_LVL_RECEPTION  0x04u

/* Control field of a descriptor (spec 1.7). */
#define VIP_CTL_OP_SENDRECV  0x0000u
#define VIP_CTL_OP_RDMAWRITE 0x0001u
#define VIP_CTL_OP_RDMAREAD  0x0002u
#define VIP_CTL_OP_RESERVED  0x0003u
#define VIP_CTL_OP_MASK      0x0003u
#define VIP_CTL_IMMEDIATE    0x0004u
#define VIP_CTL_QFENCE       0x0008u
#define VIP_CTL_RESERVED     0xFFF0u

/* Status field of a descriptor (spec 1.7). */
#define VIP_ST_DONE                 0x00000001u
#define VIP_ST_FORMAT_ERROR         0x00000002u
#define VIP_ST_PROTECTION_ERROR     0x00000004u
#define VIP_ST_LENGTH_ERROR         0x00000008u
#define VIP_ST_PARTIAL_ERROR        0x00000010u
#define VIP_ST_DESC_FLUSHED_ERROR   0x00000020u
#define VIP_ST_TRANSPORT_ERROR      0x00000040u
#define VIP_ST_RDMA_PROT_ERROR      0x00000080u
#define VIP_ST_REMOTE_DESC_ERROR    0x00000100u
#define VIP_ST_ERROR_MASK           0x000001FEu
#define VIP_ST_OP_SEND              0x00000000u
#define VIP_ST_OP_RECEIVE           0x00010000u
#define VIP_ST_OP_RDMA_WRITE        0x00020000u
#define VIP_ST_OP_REMOTE_RDMA_WRITE 0x00030000u
#define VIP_ST_OP_RDMA_READ         0x00040000u
#define VIP_ST_OP_MASK              0x00070000u
#define VIP_ST_IMMEDIATE            0x00080000u
/* Only in vip_comp.status; libvipl removes it. An RDMA Write with message used this receive
 * descriptor: `length` bytes of message are in the descriptor's segments. */
#define VIP_ST_MESSAGE 0x80000000u

/* The two work queues of a VI. */
enum vip_queue {
    VIP_Q_SEND = 0,
    VIP_Q_RECV = 1,
};

/*
 * Names for logs and tools, e.g. "VIP_ERROR_CONN_LOST". Outcome: a static string, never NULL; an
 * unknown value gives "?". Any thread.
 */
const char *vip_rc_name(enum vip_rc rc);
const char *vip_vi_state_name(enum vip_vi_state state);
const char *vip_error_code_name(enum vip_error_code code);
const char *vip_level_name(uint32_t level);

#endif

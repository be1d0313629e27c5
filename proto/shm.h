/*
 * Shared-memory ABI between one application session (libvipl) and vipd. doc/shm-abi.md explains it.
 *
 * There are two segments. Each is a memfd, sealed SHRINK|GROW|SEAL. Exactly one process writes to
 * it; the other process maps it read-only:
 *
 *   app-writes:  struct vip_app_head | words of CQs | submission ring | words of VIs
 *   vipd-writes: struct vip_vipd_head | CQ blocks | heads of VIs | short rings | long rings
 *
 * Both segments are sparse: only written pages exist. Rules: fixed-width fields, no pointers, no
 * locks; each process keeps its positions in private memory. A word of the other process is loaded
 * once (vip_load*), then checked, then used. Every index is masked with a private mask.
 *
 * Stamps: the positions of a ring count from 0, modulo 2^32; position p is in slot p modulo the
 * number of slots. The writer of position p stores the stamp p + 1 last, with release order. A
 * reader at position p reads the slot when its stamp is p + 1. All rings start zeroed, so the stamp
 * of a slot that was never written does not match.
 */
#ifndef VIP_PROTO_SHM_H
#define VIP_PROTO_SHM_H

#include <assert.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/limits.h"

#define VIP_SHM_APP_MAGIC  0x41504956u /* "VIPA" */
#define VIP_SHM_VIPD_MAGIC 0x44504956u /* "VIPD" */
#define VIP_SHM_ABI        4           /* vipd also supports 3 (proto/shm3.h) */

/* A data segment of a descriptor, or the address segment with which an RDMA descriptor begins. */
struct vip_shm_seg {
    uint64_t addr;   /* virtual address in the application; address segment: at the peer */
    uint32_t handle; /* memory handle */
    uint32_t len;    /* bytes; 0 in an address segment */
};
_Static_assert(sizeof(struct vip_shm_seg) == 16, "ABI");

#define VIP_SQ_INLINE_SEGS 2 /* segments in the first slot of a descriptor */
#define VIP_SQ_CONT_SEGS   3 /* segments in each continuation slot */

/* Number of slots that a descriptor of n segments needs. */
#define VIP_SQ_SLOTS_FOR(n)                                                                        \
    ((n) <= VIP_SQ_INLINE_SEGS                                                                     \
         ? 1u                                                                                      \
         : 1u + ((unsigned)(n)-VIP_SQ_INLINE_SEGS + VIP_SQ_CONT_SEGS - 1u) / VIP_SQ_CONT_SEGS)

/* Contents of a submission slot. */
enum vip_sq_kind {
    VIP_SQ_SEND = 1, /* VipPostSend */
    VIP_SQ_RECV = 2, /* VipPostRecv */
    VIP_SQ_CONT = 3, /* further segments of the previous descriptor */
    VIP_SQ_MSG = 4,  /* bytes of the descriptor's message, after the slots of its segments */
    VIP_SQ_ASK = 5,  /* not a descriptor, but a request for the VI (enum vip_ask in `flags`) */
};

/* Requests of libvipl to vipd in a slot of kind VIP_SQ_ASK; vi and vi_gen name the VI. "The ring"
 * is the direct ring of the VI (proto/direct.h). */
enum vip_ask {
    VIP_ASK_FLUSH = 1,     /* a receive descriptor was posted in Error state: flush it */
    VIP_ASK_WAKE_PEER = 2, /* a message went by the ring while the peer fell asleep: wake it */
    VIP_ASK_WAKE_SELF = 3, /* a thread fell asleep while its own send went by the ring: wake it */
    VIP_ASK_BREAK = 4,     /* the ring cannot go on: break the connection */
    VIP_ASK_NO_RING = 5,   /* the program cannot use the ring: end the ring, keep the connection */
    VIP_ASK_SENDS = 6,     /* look for sends in the table of sends that no owner has taken */
};

/* Flags of a send descriptor's first slot: extensions of VIPL 1.0; the peer must support them. */
#define VIP_SQF_IMM64 0x01u /* all 64 bits of imm are valid; else the upper half is ignored */
#define VIP_SQF_MSG   0x02u /* RDMA Write with message: VIP_SQ_MSG slots follow the segments */
#define VIP_SQF_KNOWN (VIP_SQF_IMM64 | VIP_SQF_MSG)

/* One slot of the submission ring: a copy of a posted descriptor. */
struct vip_sq_slot {
    uint32_t stamp;
    uint16_t vi;      /* VI index */
    uint8_t kind;     /* enum vip_sq_kind */
    uint8_t flags;    /* VIP_SQF_* */
    uint16_t control; /* Control of the descriptor, as posted */
    uint16_t seg_count;
    uint32_t length;    /* Length of the descriptor, as posted */
    uint64_t imm;       /* ImmediateData; 64 bits with VIP_SQF_IMM64 */
    uint32_t vi_gen;    /* generation of the VI, from CreateViReply */
    uint32_t reserved1; /* Reserved of the descriptor, as posted; must be 0 */
    struct vip_shm_seg seg[VIP_SQ_INLINE_SEGS];
};
_Static_assert(sizeof(struct vip_sq_slot) == 64, "ABI");
_Static_assert(offsetof(struct vip_sq_slot, imm) == 16, "ABI");
_Static_assert(offsetof(struct vip_sq_slot, seg) == 32, "ABI");

/* Continuation slot: a slot of the ring that has this layout instead of vip_sq_slot. */
struct vip_sq_cont {
    uint32_t stamp;
    uint16_t vi;
    uint8_t kind; /* VIP_SQ_CONT */
    uint8_t reserved0;
    uint64_t reserved1;
    struct vip_shm_seg seg[VIP_SQ_CONT_SEGS];
};
_Static_assert(sizeof(struct vip_sq_cont) == 64, "ABI");
_Static_assert(offsetof(struct vip_sq_cont, seg) == 16, "ABI");

#define VIP_SQ_MSG_BYTES 54 /* bytes of a message in one slot */

/* Number of slots that a message of n bytes needs. */
#define VIP_SQ_SLOTS_FOR_MSG(n) (((n) + VIP_SQ_MSG_BYTES - 1u) / VIP_SQ_MSG_BYTES)

/* Message slot: a slot of the ring that has this layout instead of vip_sq_slot. */
struct vip_sq_msg {
    uint32_t stamp;
    uint16_t vi;
    uint8_t kind; /* VIP_SQ_MSG */
    uint8_t reserved0;
    uint16_t len; /* bytes of the whole message, 1..VIP_MESSAGE_BYTES_MAX; the same in each slot */
    uint8_t bytes[VIP_SQ_MSG_BYTES];
};
_Static_assert(sizeof(struct vip_sq_msg) == 64, "ABI");
_Static_assert(offsetof(struct vip_sq_msg, bytes) == 10, "ABI");

/* One completion of a work queue. */
struct vip_comp {
    uint32_t stamp;
    uint32_t status; /* Status field of the descriptor: DONE, operation, errors, IMMEDIATE;
                        and VIP_ST_MESSAGE, which libvipl removes */
    uint32_t length; /* receive queue: bytes received; send queue: Length as posted */
    uint32_t direct; /* receive queue: messages of the direct ring before this completion */
    uint64_t imm;    /* receive queue, with VIP_ST_IMMEDIATE: immediate data */
    uint32_t number; /* number of earlier completions of the queue, modulo 2^32 */
    uint32_t reserved1;
};
_Static_assert(sizeof(struct vip_comp) == 32, "ABI");

/* One entry of a completion queue. */
struct vip_cqe {
    uint32_t stamp;
    uint16_t vi;
    uint8_t queue; /* enum vip_queue */
    uint8_t gen;   /* low byte of the VI's generation; libvipl skips entries of destroyed VIs */
};
_Static_assert(sizeof(struct vip_cqe) == 8, "ABI");

/* First cache lines of the app-writes segment. */
struct vip_app_head {
    uint32_t magic; /* VIP_SHM_APP_MAGIC */
    uint32_t abi;   /* VIP_SHM_ABI */
    uint64_t bytes; /* size of the segment */
    uint8_t pad0[48];
    uint32_t sleepers; /* threads of this session that sleep or begin to sleep on a queue or CQ */
    uint8_t pad1[60];
};
_Static_assert(offsetof(struct vip_app_head, sleepers) == 64, "ABI");
_Static_assert(sizeof(struct vip_app_head) == 128, "ABI");

/* libvipl writes these words for each CQ. */
struct vip_app_cq {
    uint32_t waiters; /* threads that sleep on this CQ */
    uint32_t cons;    /* position up to which the application has read the CQ ring */
    uint32_t arm;     /* VipxCQGetFd: if not equal to `signaled`, the program waits for a signal */
    uint32_t reserved0;
};
_Static_assert(sizeof(struct vip_app_cq) == 16, "ABI");

/* libvipl writes these words for each VI. */
struct vip_app_vi {
    uint32_t waiters[2]; /* threads that sleep on each queue */
    uint32_t handed[2];  /* not used; meant for CQ entries that the application has got */
    uint32_t reserved0[4];
};
_Static_assert(sizeof(struct vip_app_vi) == 32, "ABI");

/* VIs for which both segments have room: all 16-bit indexes. A session has at most VIP_VI_MAX
 * VIs. */
#define VIP_SHM_VIS 65536u

/* Bit of a word `waiters` (work queue or CQ): a Notify registration waits here, so vipd also wakes
 * the session's `notify` word. The other bits count the threads that sleep on this queue. */
#define VIP_APP_WAITERS_NOTIFY 0x80000000u

#define VIP_APP_CQ_OFF 0x1000u /* struct vip_app_cq [], by CQ number */
#define VIP_APP_SQ_OFF 0x10000u
#define VIP_APP_VI_OFF (VIP_APP_SQ_OFF + VIP_SQ_SLOTS * 64u) /* struct vip_app_vi [], by VI index */
#define VIP_APP_BYTES  (VIP_APP_VI_OFF + VIP_SHM_VIS * 32u)
_Static_assert(VIP_APP_CQ_OFF + VIP_CQ_MAX * 16u <= VIP_APP_SQ_OFF, "ABI");

/* First cache lines of the vipd-writes segment. */
struct vip_vipd_head {
    uint32_t magic;     /* VIP_SHM_VIPD_MAGIC */
    uint32_t abi;       /* VIP_SHM_ABI */
    uint64_t bytes;     /* size of the segment */
    uint64_t epoch;     /* number of this life of vipd */
    uint32_t linger_ms; /* longest wait of VipDisconnect for earlier posts; 0: it does not wait */
    uint8_t pad0[36];
    uint32_t asleep; /* not 0: vipd sleeps; libvipl must write 8 bytes to the bell after a post */
    uint8_t pad1[60];
    uint32_t sq_cons; /* position up to which vipd has read the submission ring */
    uint8_t pad2[60];
    uint32_t notify; /* futex word of the thread that serves Notify registrations */
    uint8_t pad3[60];
    /* The next life of vipd reads these words; ABI 3 has none of them. Only the owner, which is the
     * process that opened the NIC, may claim the session. */
    uint64_t start_ticks; /* start of the owner process, in clock ticks since boot; 0: not known */
    uint32_t pid, uid;
    uint32_t closed; /* not 0: vipd has ended the session */
    uint8_t reserved[236];
};
_Static_assert(offsetof(struct vip_vipd_head, linger_ms) == 24, "ABI");
_Static_assert(offsetof(struct vip_vipd_head, asleep) == 64, "ABI");
_Static_assert(offsetof(struct vip_vipd_head, sq_cons) == 128, "ABI");
_Static_assert(offsetof(struct vip_vipd_head, notify) == 192, "ABI");
_Static_assert(sizeof(struct vip_vipd_head) == 512, "ABI");

/* Head of one CQ block; the entries follow. */
struct vip_vipd_cq {
    uint32_t prod;     /* futex word of VipCQWait: entries + wake-ups without entry, modulo 2^32 */
    uint32_t signaled; /* value of `arm` when vipd last made the CQ's socket readable */
    uint8_t pad[56];
};
_Static_assert(sizeof(struct vip_vipd_cq) == 64, "ABI");

/* State of the direct ring of a VI. vipd writes it. A VI has at most one direct ring, ever. */
enum vip_ring_state {
    VIP_RING_NONE = 0,
    VIP_RING_OPEN,
    VIP_RING_CLOSING, /* vipd is determining ring_end */
    VIP_RING_OVER,
    VIP_RING_LOST, /* an earlier vipd made the ring; this vipd cannot use it: no message counts */
};

/* Reasons why libvipl must not send by an open direct ring. */
#define VIP_RING_MUTE_OVER    0x1u /* the ring has ended at the peer, for ever */
#define VIP_RING_MUTE_WATCHED 0x2u /* `vipctl capture` watches this NIC at present */

/* Count of the peer's operations that a VI has processed. One 64-bit store commits one operation.
 * Before this store, vipd writes the bytes, and the completion without its stamp. After it, vipd
 * writes the stamp. So each operation is done fully or not at all, even if vipd is killed. */
struct vip_commit {
    uint32_t done;     /* number of the peer's next operation */
    uint32_t received; /* number of completions of the receive queue */
};
_Static_assert(sizeof(struct vip_commit) == 8, "ABI");

/*
 * The place of a queue's completions. A queue begins with the VI's short ring. When the short ring
 * has been filled once, the next completion (position `since`) and all later ones are in the long
 * ring. So a VI with few completions needs no page of its own. vipd stores this whole word before
 * the first completion in the long ring.
 */
struct vip_comp_at {
    uint32_t since; /* position of this ring's first completion; the short ring has earlier ones */
    uint32_t where; /* 16 * offset of the ring + log2 of the number of its slots. The offset is in
                       the segment, in units of VIP_COMP_UNIT */
};
_Static_assert(sizeof(struct vip_comp_at) == 8, "ABI");

/* How far the engine of a connection has come: what the next engine must know to go on. */
struct vip_loan_checkpoint {
    uint32_t done;      /* number of the peer's next operation (eng_vi_done) */
    uint32_t received;  /* completions of the receive queue */
    uint32_t completed; /* number of the oldest own operation that has not completed */
};

/* vipd's words about the loans of a VI (proto/loan.h, vipd/engine/loan_stay.h). The owner of a loan
 * reads `lent`, `revoked`, `taken` and `look_ns`. The next life of vipd reads all of them. A zeroed
 * object has no loan. */
struct vip_loan_vipd {
    uint32_t lent;    /* number of the newest loan; 0: there was none. Stored after its terms */
    uint32_t revoked; /* the loans up to this number are over */
    uint32_t number;  /* newest number of this end; each binding of the connection has another */
    uint32_t peer;    /* newest number of the peer's end that this end knows */
    struct vip_loan_checkpoint checkpoint; /* of the newest loan, at its beginning */
    uint32_t taken;   /* newest loan whose end vipd has finished: vipd has its last checkpoint */
    uint64_t look_ns; /* when vipd looks at the owner's words again by itself */
};
_Static_assert(offsetof(struct vip_loan_vipd, checkpoint) == 16, "ABI");
_Static_assert(offsetof(struct vip_loan_vipd, look_ns) == 32, "ABI");
_Static_assert(sizeof(struct vip_loan_vipd) == 40, "ABI");

/* Head of one VI. */
struct vip_vipd_vi {
    uint32_t prod[2];  /* futex words of Send/RecvWait: completions (receive: plus wake-ups) */
    uint32_t state;    /* enum vip_vi_state, for VipQueryVi */
    uint32_t features; /* VIP_FEATURE_* of the connection; written before `state` says Connected */
    /* The VI's direct ring. `ring` is stored last, after the words that it makes valid. */
    uint32_t ring;      /* enum vip_ring_state */
    uint32_t ring_end;  /* VIP_RING_OVER: number of messages that count; others count as unsent */
    uint32_t ring_vipd; /* messages that vipd has delivered to the peer since the ring exists */
    uint32_t ring_mute; /* VIP_RING_MUTE_*; if not 0, libvipl must not use the ring for sends */
    /* The next life of vipd reads these words. */
    struct vip_commit commit __attribute__((aligned(8)));
    uint32_t send_base;  /* number of an own operation minus the position of its completion */
    uint32_t ended;      /* not 0: an operation has failed, so the connection ends */
    uint32_t generation; /* generation of the present or last VI with this index */
    uint8_t pad[12];
    /* ABI 3 does not have the members from here on. */
    struct vip_comp_at at[2]; /* index: enum vip_queue */
    struct vip_loan_vipd loan;
    uint8_t reserved[8];
};
_Static_assert(offsetof(struct vip_vipd_vi, features) == 12, "ABI");
_Static_assert(offsetof(struct vip_vipd_vi, commit) == 32, "ABI");
_Static_assert(offsetof(struct vip_vipd_vi, at) == 64, "ABI");
_Static_assert(offsetof(struct vip_vipd_vi, loan) == 80, "ABI");
_Static_assert(sizeof(struct vip_vipd_vi) == 128, "ABI");

#define VIP_COMP_UNIT       256u
#define VIP_COMP_SHORT      8u                             /* slots of a short ring */
#define VIP_COMP_RING_BYTES (VIP_DESC_PER_QUEUE_MAX * 32u) /* bytes of a long ring */
#define VIP_VIPD_CQ_OFF     0x1000u
#define VIP_VIPD_CQ_STRIDE  (64u + VIP_CQ_RING_SLOTS * 8u)
#define VIP_VIPD_VI_OFF     (VIP_VIPD_CQ_OFF + (uint64_t)VIP_CQ_MAX * VIP_VIPD_CQ_STRIDE)
/* Offset of the short rings, an array [VI index][queue]. */
#define VIP_VIPD_SHORT_OFF (VIP_VIPD_VI_OFF + (uint64_t)VIP_SHM_VIS * 128u)
/* Offset of the long rings, an array [VI index][queue] for VIP_VI_MAX VIs. */
#define VIP_VIPD_LONG_OFF (VIP_VIPD_SHORT_OFF + (uint64_t)VIP_SHM_VIS * 2u * VIP_COMP_UNIT)
#define VIP_VIPD_BYTES    (VIP_VIPD_LONG_OFF + (uint64_t)VIP_VI_MAX * 2u * VIP_COMP_RING_BYTES)

_Static_assert(VIP_COMP_SHORT * sizeof(struct vip_comp) == VIP_COMP_UNIT, "ABI");
_Static_assert(VIP_VIPD_BYTES / VIP_COMP_UNIT < (1u << 28), "vip_comp_at.where");
_Static_assert(VIP_VIPD_SHORT_OFF % 4096 == 0 && VIP_VIPD_BYTES % 4096 == 0, "whole pages");

_Static_assert((VIP_SQ_SLOTS & (VIP_SQ_SLOTS - 1)) == 0, "masking needs a power of two");
_Static_assert((VIP_CQ_RING_SLOTS & (VIP_CQ_RING_SLOTS - 1)) == 0, "masking needs a power of two");
_Static_assert((VIP_DESC_PER_QUEUE_MAX & (VIP_DESC_PER_QUEUE_MAX - 1)) == 0, "power of two");
_Static_assert(VIP_VIPD_CQ_STRIDE % 64 == 0 && VIP_VIPD_VI_OFF % 64 == 0, "cache lines");

#endif

/*
 * One end of a connection of vipperf: a VI with its descriptors and buffers in one block of memory,
 * and possibly a completion queue. Like an ordinary VIPL program, vipperf uses only vipl.h here.
 * The one exception is VipxLastError.
 *
 * Owns: NIC handle, VI, CQ, memory, posting (end.c) and waiting for completions (wait.c). Does not
 * own: making connections (meet.c), measuring (pingpong.c, stream.c).
 *
 * Only one thread uses a struct end. A function that fails returns a negative value and puts a
 * sentence into end->why.
 */
#ifndef TOOLS_VIPPERF_END_H
#define TOOLS_VIPPERF_END_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <vipl.h>

#include "tools/vipperf/plan.h"

#define WHY_BYTES 512

/* A reliable end gives up after this many milliseconds without an arrival. */
#define END_PATIENCE_MS 30000

/* An opened NIC; threads may share it. */
struct end_nic {
    VIP_NIC_HANDLE handle;
    VIP_NIC_ATTRIBUTES attrs;
};

/* Open a NIC. Outcomes: 0; -1: failed, and why has the reason. */
int end_nic_open(struct end_nic *nic, const char *name, char *why, size_t why_bytes);
void end_nic_close(struct end_nic *nic);

/* The arguments of end_make. */
struct end_args {
    enum plan_level level;
    enum plan_wait wait;
    bool cq;            /* completions go through a CQ */
    bool read;          /* RDMA Read may read the slots */
    size_t mtu_bytes;   /* MaxTransferSize of the VI; the same at both ends */
    unsigned sends;     /* descriptors of the send queue */
    unsigned recvs;     /* descriptors of the receive queue */
    size_t slot_bytes;  /* bytes of a buffer; end_make rounds up to cache lines */
    unsigned out_slots; /* number of buffers to send from */
    unsigned in_slots;  /* buffers for receive descriptors, or for RDMA Writes of the other side */
    unsigned segments;  /* largest number of data segments per descriptor; 0 means 1 */
    bool scatter;       /* receive descriptors, too, have segments, which share recv_bytes */
    size_t recv_bytes;  /* largest message for a receive descriptor; 0 means mtu_bytes */
    bool apart;         /* each slot has its own registration */
};

struct end {
    const struct end_nic *nic;
    struct end_args args;
    VIP_VI_HANDLE vi;
    VIP_CQ_HANDLE cq;
    bool yield_cpus; /* the machine has few processors: yield while polling */
    uint8_t *memory; /* descriptors, then out-slots, then in-slots */
    size_t memory_bytes;
    VIP_MEM_HANDLE handle; /* of all memory; if args.apart, only of the descriptors */
    VIP_MEM_HANDLE
    *slot_handles;             /* if args.apart: of out-slots, then of in-slots; else NULL */
    unsigned slots_registered; /* number of valid slot_handles */
    unsigned desc_shift;       /* a descriptor with all its segments has 2^desc_shift bytes */
    uint8_t *send_desc, *recv_desc;
    uint8_t *out, *in;
    uint8_t *flat; /* args.segments > 1: buffer for a message in one piece; else NULL */
    uint64_t sends_posted, sends_done; /* ever */
    uint64_t recvs_posted;             /* ever */
    unsigned cq_sends, cq_recvs;       /* completions that the CQ reported, not yet dequeued */
    char why[WHY_BYTES];
};

/* Make the VI and its memory; post nothing. end_free is also legal after a failure of end_make. */
int end_make(struct end *end, const struct end_nic *nic, const struct end_args *args);
void end_free(struct end *end);

/* The out-slot or the in-slot `index`, modulo the number of these slots. */
uint8_t *end_out(const struct end *end, uint64_t index);
uint8_t *end_in(const struct end *end, uint64_t index);
/* The memory handle of the in-slot `index` (below args.in_slots). */
VIP_MEM_HANDLE end_in_handle(const struct end *end, unsigned index);

/* The arguments of one posted send, RDMA Write or RDMA Read. */
struct end_message {
    const void *bytes; /* inside end->memory, in one slot */
    uint32_t len_bytes;
    unsigned segments; /* number of segments (segments.h), at most one per byte; 0 means 1 */
    bool has_imm;
    uint32_t imm;
    bool write; /* RDMA Write to remote_addr */
    bool read;  /* RDMA Read from remote_addr into bytes */
    uint64_t remote_addr;
    uint32_t remote_handle;
};

/* Post a message. A send descriptor must be free (sends_posted - sends_done < args.sends). */
int end_post_send(struct end *end, const struct end_message *message);
/* Post receive descriptor `index`. with_buffer: the next in-slot is its buffer. */
int end_post_recv(struct end *end, unsigned index, bool with_buffer);

/* ---- completions (wait.c) ---- */

/* An arrived message. */
struct end_arrival {
    unsigned index;       /* of the receive descriptor */
    const uint8_t *bytes; /* the descriptor's in-slot; NULL if it was posted without a buffer */
    uint32_t len_bytes;
    bool has_imm;
    uint32_t imm;
    bool by_write; /* an RDMA Write with immediate data used the descriptor */
    bool damaged;  /* the message is incomplete (Unreliable Delivery only): only index is valid */
};

/* Dequeue the next arrival. Outcomes: 1 and *ret; 0: none in timeout_ms (if 0, check once); -1. */
int end_recv(struct end *end, unsigned timeout_ms, struct end_arrival *ret);

/* Dequeue all completed sends. Outcomes: 0; -1: a send, or the check of the queue, failed. */
int end_reap(struct end *end);

/* Wait until at most `left` posted sends are not completed. Outcomes: 1; 0: timeout; -1: failed. */
int end_drain(struct end *end, uint64_t left, unsigned timeout_ms);

/* Pause between two polls; yield if the machine has few processors. */
void end_relax(const struct end *end);

/* Write end->why for a VIPL call that failed. Returns -1. */
int end_failed(struct end *end, const char *call, VIP_RETURN rc);

/* Name of a return code, for example "VIP_NO_MATCH". */
const char *end_rc_name(VIP_RETURN rc);

/* Time of the monotonic clock. */
uint64_t end_now_ns(void);

#endif

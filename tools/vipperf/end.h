/*
 * One end of a connection as vipperf uses it: a VI with its descriptors and buffers in one registered
 * block, optionally a completion queue. An ordinary VIPL consumer: vipl.h and VipxLastError only.
 *
 * Owns: NIC handle, VI, CQ, memory, posting (end.c) and waiting for completions (wait.c).
 * Does not own: who connects to whom (meet.c), what is measured (pingpong.c, stream.c).
 *
 * A struct end belongs to one thread. Every function that can fail returns a negative value then and
 * leaves one sentence in end->why.
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

/* How long a reliable end waits for anything at all before it gives up. */
#define END_PATIENCE_MS 30000

/* An opened NIC; may be shared by threads. */
struct end_nic {
    VIP_NIC_HANDLE handle;
    VIP_NIC_ATTRIBUTES attrs;
};

/* Outcomes: 0; -1 with why. */
int end_nic_open(struct end_nic *nic, const char *name, char *why, size_t why_bytes);
void end_nic_close(struct end_nic *nic);

/* What an end is made of. */
struct end_args {
    enum plan_level level;
    enum plan_wait wait;
    bool cq;            /* completions through a CQ */
    bool read;          /* slots may be read by RDMA Read */
    size_t mtu_bytes;   /* MaxTransferSize of the VI; the same at both ends */
    unsigned sends;     /* descriptors of the send queue */
    unsigned recvs;     /* descriptors of the receive queue */
    size_t slot_bytes;  /* of one message buffer; rounded up to cache lines */
    unsigned out_slots; /* buffers to send from */
    unsigned in_slots;  /* buffers to receive into, or for the other side to write into */
    unsigned segments;  /* data segments of a descriptor at most; 0 = 1 */
    bool scatter;       /* receives have so many, too, in slots cut for recv_bytes */
    size_t recv_bytes;  /* what a receive takes; 0 = mtu_bytes */
    bool apart;         /* each slot is a registration of its own, not all of them one */
};

struct end {
    const struct end_nic *nic;
    struct end_args args;
    VIP_VI_HANDLE vi;
    VIP_CQ_HANDLE cq;
    bool yield_cpus; /* few processors: give them away while polling */
    uint8_t *memory; /* descriptors, out slots, in slots */
    size_t memory_bytes;
    VIP_MEM_HANDLE handle; /* of all of it; with args.apart of the descriptors */
    VIP_MEM_HANDLE
    *slot_handles;             /* args.apart: of the out slots, then of the in slots; else NULL */
    unsigned slots_registered; /* of slot_handles */
    unsigned desc_shift;       /* 2^desc_shift bytes for a descriptor with all its segments */
    uint8_t *send_desc, *recv_desc;
    uint8_t *out, *in;
    uint8_t *flat; /* args.segments > 1: room for a message in one piece; else NULL */
    uint64_t sends_posted, sends_done; /* ever */
    uint64_t recvs_posted;             /* ever */
    unsigned cq_sends, cq_recvs;       /* reported by the CQ, not yet dequeued */
    char why[WHY_BYTES];
};

/* Make the VI and its memory; nothing is posted. end_free is legal on whatever end_make left. */
int end_make(struct end *end, const struct end_nic *nic, const struct end_args *args);
void end_free(struct end *end);

/* Buffer `index` (any number; wraps). */
uint8_t *end_out(const struct end *end, uint64_t index);
uint8_t *end_in(const struct end *end, uint64_t index);
/* The handle of the registration in which in slot `index` (below args.in_slots) lies. */
VIP_MEM_HANDLE end_in_handle(const struct end *end, unsigned index);

/* One send or RDMA Write. */
struct end_message {
    const void *bytes; /* inside end->memory, in one slot */
    uint32_t len_bytes;
    unsigned
        segments; /* the bytes lie in so many pieces (segments.h), fewer if they are fewer; 0 = 1 */
    bool has_imm;
    uint32_t imm;
    bool write; /* RDMA Write to remote_addr */
    bool read;  /* RDMA Read from remote_addr into bytes */
    uint64_t remote_addr;
    uint32_t remote_handle;
};

/* Post; a free descriptor must be there (sends_posted - sends_done < args.sends). */
int end_post_send(struct end *end, const struct end_message *message);
/* Post receive descriptor `index` with the in slot that is next in turn, or without a buffer. */
int end_post_recv(struct end *end, unsigned index, bool with_buffer);

/* ---- completions (wait.c) ---- */

/* What arrived. */
struct end_arrival {
    unsigned index;       /* receive descriptor */
    const uint8_t *bytes; /* its in slot; NULL if it was posted without a buffer */
    uint32_t len_bytes;
    bool has_imm;
    uint32_t imm;
    bool by_write; /* consumed by an RDMA Write with immediate data */
    bool damaged;  /* Unreliable Delivery only: came incomplete; the rest is not valid */
};

/* Next receive. Outcomes: 1 and *ret; 0 nothing within timeout_ms (0: looked once); -1. */
int end_recv(struct end *end, unsigned timeout_ms, struct end_arrival *ret);

/* Take what has completed on the send queue. Outcomes: 0; -1 (an error status counts, except UD). */
int end_reap(struct end *end);

/* Wait until at most `left` sends are outstanding. Outcomes: 1; 0 time is over; -1. */
int end_drain(struct end *end, uint64_t left, unsigned timeout_ms);

/* Between two polls of anything: give the processor away where there are few. */
void end_relax(const struct end *end);

/* Compose end->why from a VIPL call that failed. Returns -1. */
int end_failed(struct end *end, const char *call, VIP_RETURN rc);

/* "VIP_NO_MATCH" etc. */
const char *end_rc_name(VIP_RETURN rc);

/* Monotonic clock. */
uint64_t end_now_ns(void);

#endif

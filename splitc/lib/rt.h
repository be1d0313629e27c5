/*
 * Internals of libsplitc, the runtime of Split-C over VIPL. Each pair of processes has a VI for
 * messages, made at the first use, and a VI for RDMA. Requests need credits (message.c), replies do
 * not. The files from bottom to top (ORDER):
 *
 *   rt.c       state, lock                 owner.c    operations on words of this process
 *   copy.c     copies of whole words       serve.c    handling of a received message
 *   region.c   mapping of spread memory    poll.c     serving what has arrived, waiting
 *   message.c  sending, receiving          connect.c  connecting to a peer
 *   answer.c   replies, credits            ask.c      questions to the owner of a word
 *   notice.c   news of stores by RDMA      rdma.c     large transfers by RDMA
 *   slice.c    RDMA operations             access.c   read, write, get, put, store
 *   hello.c    proofs of both ends         heap.c     allocation of spread memory
 *   conn.c     VIs of a pair               atomic.c   atomic operations
 *   accept.c   connecting peers            bulk.c     bulk transfers
 *                                          collect.c  barrier, syncs
 *   start.c    main, the job               reduce.c   reductions, scans
 *
 * Each function that a program calls uses rt_enter and rt_leave; they lock only if the progress
 * thread runs. All processes of a job run the same program and trust each other: they use addresses
 * in messages unchecked, as Split-C needs it. Other programs get no connection (hello.c).
 */
#ifndef SPLITC_LIB_RT_H
#define SPLITC_LIB_RT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "vipl.h"
#include "vipl_ext.h"

#include "splitc/include/split-c/runtime.h"
#include "splitc/lib/layout.h"

/* Transfers of spread heap memory from this size on, in bytes, use RDMA if that is possible. */
#define RT_RDMA_MIN 16384
/* Limits of RDMA: bytes of one operation, and operations under way per pair. */
#define RT_SLICE_BYTES 65536
#define RT_SLICES      4
/* Bytes of a chunk. A process registers its spread heap in chunks, each when a peer first asks for
 * its handle. */
#define RT_CHUNK_BYTES (4ul << 20)
/* Longest time, in ms, until a peer answers a connection request. */
#define RT_CONNECT_MS 60000
/* Longest time, in ms, until a send is acknowledged; then the connection counts as broken. */
#define RT_SEND_MS 120000

/* An operation of the program: counts its requests until their replies arrive. */
struct rt_op {
    long pending;   /* replies that have not arrived, and RDMA operations under way */
    uint64_t value; /* result of an atomic operation */
};

/* An RDMA operation with its registered copy of the data. Descriptors are aligned to 64 bytes. */
struct rt_slice {
    VIP_DESCRIPTOR desc;
    struct rt_op *op; /* counts this operation; NULL: not counted (a store) */
    void *to;         /* destination of the data of a read; NULL for a write */
    size_t bytes;
    bool busy;
    char pad[39];
    unsigned char data[RT_SLICE_BYTES];
};

_Static_assert(sizeof(struct rt_slice) % 64 == 0, "descriptors are aligned");

enum rt_peer_state { RT_UNKNOWN, RT_CONNECTING, RT_CONNECTED };

/* A message of a collective operation that the process has not used yet. */
struct rt_mail {
    bool full;
    uint32_t bytes;
    unsigned char data[RT_DATA_MAX];
};

struct rt_peer {
    int rank;
    enum rt_peer_state state;
    VIP_VI_HANDLE vi;
    VIP_VI_HANDLE attempt;         /* the VI of our own connection request under way, or NULL */
    VIP_MEM_HANDLE receive_memory; /* registered memory of the receives of `vi` */
    struct rt_buffer *sends;       /* RT_SENDS buffers; messages use them one after the other */
    VIP_MEM_HANDLE memory;         /* registered memory of `sends` */
    int send_next;                 /* next buffer to use */
    int sends_posted;              /* number of posted sends that are not reaped yet */
    int credits;                   /* requests that we may still send */
    int owed;                      /* credits for requests that we must give back */
    struct rt_answer answers[RT_CREDITS_AT_ONCE];
    int answer_count;             /* number of kept small replies in answers */
    struct rt_peer *answers_next; /* next peer in rt.answering */
    struct rt_mail mail;
    VIP_VI_HANDLE bulk;           /* the VI for RDMA; NULL: not connected yet, or not possible */
    VIP_VI_HANDLE bulk_attempt;   /* the VI of our connection request for RDMA, or NULL */
    VIP_MEM_HANDLE notice_memory; /* registered memory of the receives of `bulk` */
    int notices;                  /* stores by RDMA that we may still start */
    int notices_owed;             /* credits for stores that we must give back */
    struct rt_slice *slices;      /* RT_SLICES slices; NULL until the first RDMA */
    VIP_MEM_HANDLE slice_memory;
    int slices_busy;         /* number of slices under way */
    VIP_MEM_HANDLE *regions; /* handles of the peer's chunks of the spread heap, 0: not known */
};

/* The mapping of spread memory, and this process's parts of it (region.c). */
struct rt_region {
    char *heap; /* the common heap, for all_spread_malloc */
    size_t heap_bytes;
    char *stack; /* for automatic spread arrays */
    size_t stack_bytes;
    char *own; /* the heap for spread_malloc in this process */
    size_t own_bytes;
};

struct job;
struct rt_card;
struct rt_hello;

struct rt {
    struct job *job;
    VIP_NIC_HANDLE nic;
    VIP_NIC_ATTRIBUTES nic_attrs;
    VIP_CQ_HANDLE cq;            /* the queue of all receives */
    VIPX_LISTENER listener;      /* NULL when all VIs are connected */
    VIP_NET_ADDRESS **addresses; /* the address at which each process listens */
    struct rt_card *cards;       /* cards of all processes, exchanged at the start (hello.h) */
    struct rt_peer **peers;      /* by rank; an entry is NULL until the peer is needed */
    struct rt_peer *answering;   /* list of the peers with kept small replies */
    int connected;               /* connected VIs of both kinds */
    int bulk_attempts;           /* peers whose bulk_attempt is not NULL */
    unsigned entries;            /* calls of rt_poll; every POLLS_PER_ACCEPT-th accepts */
    bool leaving;                /* the program has ended: a lost connection is no error */
    bool ended;                  /* this process has left the job */
    bool threaded;               /* the progress thread runs */
    bool rdma;                   /* large transfers use RDMA */
    int slices_busy;             /* RDMA operations under way, to all peers */
    struct rt_region region;
    bool check;               /* SPLITC_DEBUG is set: barriers compare the spread stacks */
    struct rt_op split;       /* gets and puts that sync() waits for */
    uint64_t stored, arrived; /* bytes of all stores by this process, and to this process */
    long store_count[2];      /* arrived bytes that store_sync has not used yet, by epoch */
    int epoch;                /* 0 or 1; changes at each all_store_sync. A store carries it */
};

extern struct rt rt;

/* ---- rt.c ---- */

/* Print a message and end the job. Does not return. */
void rt_fatal(const char *format, ...) __attribute__((noreturn, format(printf, 1, 2)));
void rt_enter(void);
void rt_leave(void);
/* Release the lock and take it again, so that the progress thread can run. */
void rt_yield(void);

/* ---- copy.c ---- */

/* Copy bytes to memory of this process. If they are one aligned word of 2, 4 or 8 bytes, other
 * threads see either its old or its new value. */
void rt_copy(void *to, const void *from, size_t bytes);

/* ---- region.c ---- */

/* Map the region at its address, and set rt.region. */
void rt_region_map(void);
/* The number of the chunk that contains addr, and its start. -1: addr is not in the common heap. */
long rt_region_chunk(uint64_t addr, char **ret_start);
/* A new table with a handle for each chunk, all 0. */
VIP_MEM_HANDLE *rt_region_table(void);
/* The handle of the chunk of this process that contains addr; registers the chunk if necessary. 0:
 * the address is not in the common heap, or registering fails. */
uint64_t rt_region_here(uint64_t addr);

/* ---- message.c ---- */

/* The connection is broken: end the job with a message, unless this process is at its end. */
void rt_lost(const struct rt_peer *peer);
/* Post a receive again. */
void rt_post_receive(struct rt_peer *peer, struct rt_buffer *buffer);
/* A buffer for a message: fill header and data, then call rt_send. May wait for the NIC only. */
struct rt_buffer *rt_send_buffer(struct rt_peer *peer);
/* Send the message with `bytes` of data after the header. */
void rt_send(struct rt_peer *peer, struct rt_buffer *buffer, size_t bytes);
/* Wait until all messages that we sent are acknowledged. */
void rt_drain(struct rt_peer *peer);

/* ---- answer.c ---- */

/* Reply to RT_READ. */
void rt_reply_read(struct rt_peer *peer, const struct rt_header *request);
/* Keep a small reply until the end of this poll; then all of a peer leave in one message. */
void rt_reply(struct rt_peer *peer, const struct rt_header *request, enum rt_type type,
              uint64_t value);
/* Send the kept small replies of all peers. */
void rt_answer_all(void);
/* If we owe RT_CREDITS_AT_ONCE credits, give them back with kept replies or a separate message. */
void rt_give_back(struct rt_peer *peer);

/* ---- notice.c ---- */

/* The immediate data of the RDMA Write of a store: number of bytes and epoch. */
uint32_t rt_notice(size_t bytes, int epoch);
/* Post the receives of a new VI for RDMA, one for each store that the peer may start. */
void rt_post_notices(struct rt_peer *peer, VIP_VI_HANDLE vi);
/* Take the notice of a store by RDMA. Returns false if no receive of the VI has completed. */
bool rt_take_notice(struct rt_peer *peer, VIP_VI_HANDLE vi);

/* ---- slice.c ---- */

/* A slice that is not under way, or NULL. */
struct rt_slice *rt_slice_free(struct rt_peer *peer);
/* Start the operation of a slice whose op, to and bytes are set. remote: address in memory of the
 * peer, in the chunk with this handle. */
void rt_slice_post(struct rt_peer *peer, struct rt_slice *slice, uint64_t remote,
                   VIP_MEM_HANDLE handle, unsigned operation);
/* Reap the operations that have completed. Returns true if there were any. */
bool rt_rdma_progress(void);
/* Wait until all our RDMA operations with this peer are done. */
void rt_rdma_drain(struct rt_peer *peer);

/* ---- hello.c ---- */

/* Private data of our connection request to the process `rank`, with our proof. */
VIPX_PRIVATE_DATA rt_hello_make(int rank, bool bulk);
/* Is this a connection request of another process of the job, with a right proof and from that
 * process's address? If so, sets *ret_hello. */
bool rt_hello_read(const VIP_NET_ADDRESS *from, const VIPX_PRIVATE_DATA *data,
                   struct rt_hello *ret_hello);
/* Private data of our answer to this request, with our proof. */
VIPX_PRIVATE_DATA rt_hello_answer(const struct rt_hello *hello);
/* Does the answer to our request have the proof of the process `rank`? */
bool rt_hello_answered(int rank, bool bulk, const VIPX_PRIVATE_DATA *data);

/* ---- conn.c ---- */

/* The struct of this peer. A new one has no VI. */
struct rt_peer *rt_peer_record(int rank);
/* Make a VI for messages, post its receives, and set peer->vi. */
VIP_VI_HANDLE rt_new_vi(struct rt_peer *peer);
/* Make a VI for RDMA and post its receives. NULL: the NIC has no more VIs. */
VIP_VI_HANDLE rt_new_bulk_vi(struct rt_peer *peer);
void rt_connected(struct rt_peer *peer, VIP_VI_HANDLE vi);
void rt_connected_bulk(struct rt_peer *peer, VIP_VI_HANDLE vi);
/* Are there VIs that are not connected yet, so that connection requests may still come? */
bool rt_connecting(void);
void rt_disconnect_all(void);

/* ---- accept.c ---- */

/* Listen, and exchange the cards with all processes of the job. */
void rt_listen(void);
/* Answer connection requests, and look for answers to our own requests for RDMA. Close the listener
 * if no more requests can come. */
void rt_accept(void);

/* ---- owner.c ---- */

/* Carry out an operation (enum rt_kind) on a word of this process. Returns its result. */
uint64_t rt_atomic_here(int kind, uint64_t addr, uint64_t arg, uint64_t value);

/* ---- serve.c ---- */

/* Handle a received message and post its buffer again. Keeps small replies for rt_answer_all. */
void rt_serve(struct rt_peer *peer, struct rt_buffer *buffer);

/* ---- poll.c ---- */

/* Serve the messages that have arrived. */
void rt_poll(void);
/* Wait for a short time until a message arrives, and serve the messages that have arrived. */
void rt_wait(void);
/* Take a credit for the next request; serve other processes while waiting. */
void rt_take_credit(struct rt_peer *peer);
/* Wait until all replies that the op counts have arrived. */
void rt_finish(struct rt_op *op);

/* ---- connect.c ---- */

/* The peer with this rank, connected; waits for the connection. */
struct rt_peer *rt_peer(int rank);

/* ---- ask.c ---- */

/* Ask the owner of the word, and wait for its answer. kind: enum rt_kind. */
uint64_t rt_ask(sc_ptr word, int kind, uint64_t arg, int value);

/* ---- rdma.c ---- */

/* Does the NIC have RDMA with Reliable Reception, and does the user want RDMA (SPLITC_RDMA)? */
bool rt_rdma_possible(void);
/*
 * Start RDMA operations between memory of this process and the spread heap of a peer. Returns how
 * many of the first bytes these operations move; the caller moves the rest in messages.
 */
size_t rt_rdma_write(struct rt_op *op, sc_ptr to, const void *from, size_t bytes);
size_t rt_rdma_read(struct rt_op *op, void *to, sc_ptr from, size_t bytes);

/* ---- access.c ---- */

/* Start to move bytes, by RDMA or in messages of RT_DATA_MAX; op->pending counts the requests. */
void rt_start_read(struct rt_op *op, void *to, sc_ptr from, size_t bytes);
void rt_start_write(struct rt_op *op, sc_ptr to, const void *from, size_t bytes);
void rt_start_store(sc_ptr to, const void *from, size_t bytes);

/* ---- heap.c ---- */

/* Map the region, and lay out the heaps and the stack in it. */
void rt_heap_start(void);
/* Bytes of the spread stack that are in use. Barriers compare this number. */
uint64_t rt_stack_used(void);
/* Allocate the static spread arrays that the translator's output registers. */
void rt_heap_statics(void);

/* ---- collect.c ---- */

/* Set *all to the combination of *all and *one. rt_reduce combines the values in a fixed order. */
typedef void rt_combine(void *all, const void *one, size_t bytes);
/* Combine the values of all processes; each gets the result. bytes: at most RT_DATA_MAX. */
void rt_reduce(void *value, size_t bytes, rt_combine *combine);

#endif

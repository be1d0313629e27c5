/*
 * Internals of libsplitc, the runtime of Split-C over VIPL. Each pair of processes has a VI for
 * messages, made at the first use, and a VI for RDMA. Requests need credits (message.c), replies
 * need none. The files, in layers from bottom to top (ORDER):
 *
 *   rt.c       state, lock                 owner.c    operations on words of this process
 *   copy.c     copies of whole words       serve.c    handling of a received message
 *   region.c   mapping of spread memory    poll.c     serving what has arrived, waiting
 *   message.c  sending, receiving          connect.c  connecting to a peer
 *   answer.c   replies, credits            ask.c      questions to the owner of a word
 *   notice.c   notices of stores by RDMA   rdma.c     large transfers by RDMA
 *   slice.c    RDMA operations             access.c   read, write, get, put, store
 *   hello.c    proofs of both processes    heap.c     allocation of spread memory
 *   conn.c     VIs of a pair               atomic.c   atomic operations
 *   accept.c   connection requests         bulk.c     bulk transfers
 *                                          collect.c  barrier, syncs
 *   start.c    main, the job               reduce.c   reductions, scans
 *
 * Each function that a program calls uses rt_enter and rt_leave, which lock only if the progress
 * thread runs. The processes of a job run the same program and trust each other: they do not check
 * addresses in messages, because any address may be valid. Other programs cannot connect (hello.c).
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

/* A transfer of at least this many bytes of the spread heap uses RDMA, if RDMA is possible. */
#define RT_RDMA_MIN 16384
/* Limits of RDMA: bytes of one operation; operations under way from one process to one peer. */
#define RT_SLICE_BYTES 65536
#define RT_SLICES      4
/* Bytes of a chunk. A process registers its spread heap in chunks: it registers a chunk when a peer
 * first asks for the chunk's handle. */
#define RT_CHUNK_BYTES (4ul << 20)
/* Longest time, in ms, until a peer answers a connection request. */
#define RT_CONNECT_MS 60000
/* If a send is not acknowledged within this time, in ms, the connection counts as broken. */
#define RT_SEND_MS 120000

/* One operation of the program, with the number of replies for which it still waits. */
struct rt_op {
    long pending;   /* number of missing replies, plus number of RDMA operations under way */
    uint64_t value; /* result of an atomic operation */
};

/* An RDMA operation with its registered copy of the data. Descriptors are aligned to 64 bytes. */
struct rt_slice {
    VIP_DESCRIPTOR desc;
    struct rt_op *op; /* the rt_op that counts this slice; NULL for a store */
    void *to;         /* destination of the data of a read; NULL for a write */
    size_t bytes;
    bool busy;
    char pad[39];
    unsigned char data[RT_SLICE_BYTES];
};

_Static_assert(sizeof(struct rt_slice) % 64 == 0, "descriptors are aligned");

enum rt_peer_state { RT_UNKNOWN, RT_CONNECTING, RT_CONNECTED };

/* A received message of a collective operation, kept until the process uses the message. */
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
    VIP_MEM_HANDLE receive_memory; /* registered memory of the receive buffers of `vi` */
    struct rt_buffer *sends;       /* array of RT_SENDS buffers, used as a ring */
    VIP_MEM_HANDLE memory;         /* registered memory of `sends` */
    int send_next;                 /* index in `sends` of the next buffer to use */
    int sends_posted;              /* number of posted send descriptors, not reaped yet */
    int credits;                   /* number of requests that we may still send to the peer */
    int owed;                      /* number of request credits that we must return */
    struct rt_answer answers[RT_CREDITS_AT_ONCE];
    int answer_count;             /* number of small replies in `answers` */
    struct rt_peer *answers_next; /* next peer of the list rt.answering */
    struct rt_mail mail;
    VIP_VI_HANDLE bulk;           /* the connected VI for RDMA, or NULL */
    VIP_VI_HANDLE bulk_attempt;   /* the VI of our request under way for RDMA, or NULL */
    VIP_MEM_HANDLE notice_memory; /* registered memory of the receive descriptors of `bulk` */
    int notices;                  /* number of stores by RDMA that we may still start */
    int notices_owed;             /* number of store credits that we must return */
    struct rt_slice *slices;      /* array of RT_SLICES slices; NULL before the first RDMA */
    VIP_MEM_HANDLE slice_memory;
    int slices_busy;         /* number of slices under way */
    VIP_MEM_HANDLE *regions; /* handles of the chunks of the peer's spread heap; 0: not known */
};

/* The mapping of spread memory, and this process's parts of it (region.c). */
struct rt_region {
    char *heap; /* the common heap, for all_spread_malloc */
    size_t heap_bytes;
    char *stack; /* the stack of automatic spread arrays */
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
    VIP_CQ_HANDLE cq;            /* the completion queue for the receives of all VIs */
    VIPX_LISTENER listener;      /* NULL after all VIs are connected */
    VIP_NET_ADDRESS **addresses; /* for each rank, the address of the process */
    struct rt_card *cards;       /* for each rank, the card of the process (hello.h) */
    struct rt_peer **peers;      /* for each rank, the peer; NULL until it is needed */
    struct rt_peer *answering;   /* list of the peers for which we keep small replies */
    int connected;               /* number of connected VIs, for messages and for RDMA */
    int bulk_attempts;           /* number of peers whose bulk_attempt is not NULL */
    unsigned entries;            /* number of polls; each POLLS_PER_ACCEPT-th calls rt_accept */
    bool leaving;                /* the program has ended, so a lost connection is no error */
    bool ended;                  /* this process has left the job */
    bool threaded;               /* the progress thread runs */
    bool rdma;                   /* large transfers use RDMA */
    int slices_busy;             /* number of RDMA operations under way, with all peers */
    struct rt_region region;
    bool check;               /* SPLITC_DEBUG is set, so barriers compare the spread stacks */
    struct rt_op split;       /* counts the gets and puts for which sync() waits */
    uint64_t stored, arrived; /* total bytes of stores: by this process, to this process */
    long store_count[2];      /* for each epoch, arrived bytes that store_sync has not used */
    int epoch;                /* 0 or 1; each all_store_sync changes it; a store carries it */
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

/* Copy bytes to memory of this process. If the bytes are one aligned word of 2, 4 or 8 bytes, other
 * threads see either the old or the new value of the word. */
void rt_copy(void *to, const void *from, size_t bytes);

/* ---- region.c ---- */

/* Map the region at its fixed address, and set rt.region. */
void rt_region_map(void);
/* Returns the number of the chunk that contains addr, and sets *ret_start. -1: there is none. */
long rt_region_chunk(uint64_t addr, char **ret_start);
/* Make a table that has a handle, with the value 0, for each chunk. */
VIP_MEM_HANDLE *rt_region_table(void);
/* The handle of this process's chunk that contains addr. Registers the chunk if it has no handle.
 * 0: addr is not in the common heap, or the registration fails. */
uint64_t rt_region_here(uint64_t addr);

/* ---- message.c ---- */

/* End the job, because the connection is lost. Returns only if this process is already ending. */
void rt_lost(const struct rt_peer *peer);
/* Post a receive descriptor for this buffer to peer->vi. */
void rt_post_receive(struct rt_peer *peer, struct rt_buffer *buffer);
/* Get a buffer. Then fill its header and data, and call rt_send. May wait, but only for the NIC. */
struct rt_buffer *rt_send_buffer(struct rt_peer *peer);
/* Send the message: its header and `bytes` bytes of data. */
void rt_send(struct rt_peer *peer, struct rt_buffer *buffer, size_t bytes);
/* Wait until all messages that we sent to the peer are acknowledged. */
void rt_drain(struct rt_peer *peer);

/* ---- answer.c ---- */

/* Reply to a request of type RT_READ. */
void rt_reply_read(struct rt_peer *peer, const struct rt_header *request);
/* Keep a small reply. At the end of the poll, all kept replies to a peer leave in one message. */
void rt_reply(struct rt_peer *peer, const struct rt_header *request, enum rt_type type,
              uint64_t value);
/* Send the kept small replies to all peers. */
void rt_answer_all(void);
/* If we owe the peer RT_CREDITS_AT_ONCE credits, return them now, with kept replies or alone. */
void rt_give_back(struct rt_peer *peer);

/* ---- notice.c ---- */

/* The immediate data for the RDMA Write of a store: the number of bytes and the epoch. */
uint32_t rt_notice(size_t bytes, int epoch);
/* Post the receive descriptors of a new VI for RDMA: one for each store that the peer may start. */
void rt_post_notices(struct rt_peer *peer, VIP_VI_HANDLE vi);
/* Count a store that has arrived by RDMA. false: no receive descriptor of the VI has completed. */
bool rt_take_notice(struct rt_peer *peer, VIP_VI_HANDLE vi);

/* ---- slice.c ---- */

/* A slice without an operation under way. NULL: there is none. */
struct rt_slice *rt_slice_free(struct rt_peer *peer);
/* Start the RDMA operation of a slice. The caller has set op, to and bytes of the slice. remote: an
 * address of the peer, in the peer's chunk that has this handle. */
void rt_slice_post(struct rt_peer *peer, struct rt_slice *slice, uint64_t remote,
                   VIP_MEM_HANDLE handle, unsigned operation);
/* Reap all completed RDMA operations. Returns true if there were any. */
bool rt_rdma_progress(void);
/* Wait until all our RDMA operations with this peer are done. */
void rt_rdma_drain(struct rt_peer *peer);

/* ---- hello.c ---- */

/* The private data, with our proof, of our connection request to the process `rank`. */
VIPX_PRIVATE_DATA rt_hello_make(int rank, bool bulk);
/* Does a connection request come from another process of the job? Checks the proof and the address.
 * If the result is true, *ret_hello has the request's private data. */
bool rt_hello_read(const VIP_NET_ADDRESS *from, const VIPX_PRIVATE_DATA *data,
                   struct rt_hello *ret_hello);
/* The private data, with our proof, of our answer to this connection request. */
VIPX_PRIVATE_DATA rt_hello_answer(const struct rt_hello *hello);
/* Does the answer to our connection request have the right proof of the process `rank`? */
bool rt_hello_answered(int rank, bool bulk, const VIPX_PRIVATE_DATA *data);

/* ---- conn.c ---- */

/* Find or make the struct of the peer. A new struct has no VI. */
struct rt_peer *rt_peer_record(int rank);
/* Make a VI for messages, post its receive descriptors, and set peer->vi. */
VIP_VI_HANDLE rt_new_vi(struct rt_peer *peer);
/* Make a VI for RDMA and post its receive descriptors. NULL: the NIC refuses another VI. */
VIP_VI_HANDLE rt_new_bulk_vi(struct rt_peer *peer);
void rt_connected(struct rt_peer *peer, VIP_VI_HANDLE vi);
void rt_connected_bulk(struct rt_peer *peer, VIP_VI_HANDLE vi);
/* Are some VIs still unconnected, so that connection requests may still come? */
bool rt_connecting(void);
void rt_disconnect_all(void);

/* ---- accept.c ---- */

/* Listen for connection requests, and exchange the cards with all processes of the job. */
void rt_listen(void);
/* Answer the connection requests of peers, and look for answers to our own requests for RDMA. Close
 * the listener if no more requests can come. */
void rt_accept(void);

/* ---- owner.c ---- */

/* Do the atomic operation `kind` (enum rt_kind) on a word of this process. Returns its result. */
uint64_t rt_atomic_here(int kind, uint64_t addr, uint64_t arg, uint64_t value);

/* ---- serve.c ---- */

/* Handle a received message and post its buffer again. Keeps small replies for rt_answer_all. */
void rt_serve(struct rt_peer *peer, struct rt_buffer *buffer);

/* ---- poll.c ---- */

/* Serve the messages that have arrived. Does not wait for a message. */
void rt_poll(void);
/* Wait a short time for a message. Then serve the messages that have arrived. */
void rt_wait(void);
/* Take a credit for the next request. If there is none, wait and serve other processes. */
void rt_take_credit(struct rt_peer *peer);
/* Wait until op->pending is 0, and serve other processes meanwhile. */
void rt_finish(struct rt_op *op);

/* ---- connect.c ---- */

/* The peer with this rank. Connects to the peer if necessary, and waits for the connection. */
struct rt_peer *rt_peer(int rank);

/* ---- ask.c ---- */

/* Ask the owner of the word to do the operation `kind` (enum rt_kind), and wait for the result. */
uint64_t rt_ask(sc_ptr word, int kind, uint64_t arg, int value);

/* ---- rdma.c ---- */

/* Does the NIC have RDMA with Reliable Reception, and does the user want RDMA (SPLITC_RDMA)? */
bool rt_rdma_possible(void);
/*
 * Start RDMA operations between memory of this process and the spread heap of a peer. Returns how
 * many bytes these operations move, from the first byte on. The caller sends messages for the rest.
 */
size_t rt_rdma_write(struct rt_op *op, sc_ptr to, const void *from, size_t bytes);
size_t rt_rdma_read(struct rt_op *op, void *to, sc_ptr from, size_t bytes);

/* ---- access.c ---- */

/* Start a transfer, by RDMA or in messages of RT_DATA_MAX bytes; op->pending counts its parts. */
void rt_start_read(struct rt_op *op, void *to, sc_ptr from, size_t bytes);
void rt_start_write(struct rt_op *op, sc_ptr to, const void *from, size_t bytes);
void rt_start_store(sc_ptr to, const void *from, size_t bytes);

/* ---- heap.c ---- */

/* Map the region, and lay out the heaps and the stack in it. */
void rt_heap_start(void);
/* Number of bytes in use of the spread stack. Barriers compare this number. */
uint64_t rt_stack_used(void);
/* Allocate the static spread arrays that the translator's output registers. */
void rt_heap_statics(void);

/* ---- collect.c ---- */

/* Set *all to the combination of *all and *one. rt_reduce combines the values in a fixed order. */
typedef void rt_combine(void *all, const void *one, size_t bytes);
/* Combine the values of all processes; each process gets the result. bytes: at most RT_DATA_MAX. */
void rt_reduce(void *value, size_t bytes, rt_combine *combine);

#endif

/*
 * Internals of libsplitc, the runtime of Split-C over VIPL. Each pair of processes has a VI for
 * messages, made at the first use, and one for RDMA. Requests need credits, replies do not.
 *
 *   start.c    main, joining and leaving the job      conn.c     VIs between pairs
 *   message.c  sending, receiving, credits            serve.c    handling of received messages
 *   access.c   read, write, get, put, store           bulk.c     bulk transfers
 *   collect.c  barrier, reductions, scans, syncs      heap.c     spread memory
 *   atomic.c   operations at the owner of a word
 *   rdma.c     large transfers by RDMA Write and Read
 *
 * Every entry that a program calls takes rt_enter and rt_leave around it; they lock only if the
 * progress thread runs. All processes run the same program and trust each other: as the language
 * defines it, addresses in messages are used unchecked. Other programs get no connection (conn.c).
 */
#ifndef SPLITC_LIB_RT_H
#define SPLITC_LIB_RT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "vipl.h"
#include "vipl_ext.h"

#include "splitc/include/split-c/runtime.h"

/* Requests under way between one process and another, in each direction. */
#define RT_CREDITS 32
/* When this many credits are owed, they go back in a message of their own. */
#define RT_CREDITS_AT_ONCE (RT_CREDITS / 4)
/* RDMA Writes of stores that the target has not taken yet, in each direction. Own credits. */
#define RT_NOTICES RT_CREDITS
/* Receives of a VI: requests, replies to our requests, and messages with credits only. */
#define RT_RECEIVES (2 * RT_CREDITS + (RT_CREDITS + RT_NOTICES) / RT_CREDITS_AT_ONCE)
#define RT_SENDS    (RT_CREDITS + 16)
/* Bytes of data in one message, as in the paper's runtime. */
#define RT_DATA_MAX 4096
/* Bytes; from this size on, transfers of spread heap memory use RDMA if it is possible. */
#define RT_RDMA_MIN 16384
/* Limits of RDMA: bytes of one operation, and operations under way per pair. */
#define RT_SLICE_BYTES 65536
#define RT_SLICES      4
/* Bytes; the spread heap is registered in pieces of this size, when a peer first asks for one. */
#define RT_CHUNK_BYTES (4ul << 20)
/* Milliseconds that a peer may take to answer a connection request. */
#define RT_CONNECT_MS 60000
/* Milliseconds until the peer's NIC must have a send; after that the connection is broken. */
#define RT_SEND_MS 120000

enum rt_type {
    RT_READ,    /* -> RT_DATA */
    RT_DATA,    /* the reply to a read */
    RT_WRITE,   /* -> RT_DONE; puts too */
    RT_DONE,    /* the reply to a write */
    RT_STORE,   /* no reply */
    RT_ATOMIC,  /* -> RT_VALUE */
    RT_VALUE,   /* the reply to an atomic operation */
    RT_COLLECT, /* a step of a collective operation; no reply */
    RT_CREDIT,  /* credits only; takes none */
    RT_ANSWERS  /* several small replies, each a struct rt_answer */
};

/* Before the data of every message. Little-endian, since both hosts are. */
struct rt_header {
    uint8_t type;    /* enum rt_type */
    uint8_t kind;    /* of a store: epoch; of an atomic operation: its kind */
    uint8_t credits; /* credits for requests that the receiver gets back */
    uint8_t notices; /* credits for stores by RDMA */
    uint32_t bytes;  /* read, written or carried */
    uint64_t addr;   /* at the target of a request */
    uint64_t op;     /* struct rt_op of the requester, echoed */
    uint64_t to;     /* where the requester wants the data, echoed */
    uint64_t value;  /* operands and results of atomic operations */
};

/* One of several replies in a message. */
struct rt_answer {
    uint64_t op, to; /* as the request had them */
    uint64_t value;  /* of RT_VALUE; the bytes of RT_DATA */
    uint32_t type;   /* RT_DATA, RT_DONE or RT_VALUE */
    uint32_t bytes;
};

#define RT_MESSAGE_BYTES (sizeof(struct rt_header) + RT_DATA_MAX)

/* A descriptor, directly followed by its message; a multiple of 64 bytes. */
struct rt_buffer {
    VIP_DESCRIPTOR desc;
    struct rt_header header;
    unsigned char data[RT_DATA_MAX];
    unsigned char pad[64 - RT_MESSAGE_BYTES % 64];
};

/* Counts requests until their replies arrive. */
struct rt_op {
    long pending;   /* replies that have not arrived */
    uint64_t value; /* of an atomic operation */
};

/* An RDMA operation with its registered copy of the data. Descriptors are aligned to 64 bytes. */
struct rt_slice {
    VIP_DESCRIPTOR desc;
    struct rt_op *op; /* counts it; NULL: not counted (a store) */
    void *to;         /* of a read: where the data go; NULL for a write */
    size_t bytes;
    bool busy;
    char pad[39];
    unsigned char data[RT_SLICE_BYTES];
};

_Static_assert(sizeof(struct rt_slice) % 64 == 0, "descriptors are aligned");

enum rt_peer_state { RT_UNKNOWN, RT_CONNECTING, RT_CONNECTED };

/* A message of a collective operation that arrived before it was awaited. */
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
    VIP_MEM_HANDLE receive_memory; /* of the receives of `vi` */
    struct rt_buffer *sends;       /* RT_SENDS, used in turn */
    VIP_MEM_HANDLE memory;         /* of them */
    int send_next;                 /* next buffer to use */
    int sends_posted;              /* not reaped yet */
    int credits;                   /* requests that we may still send */
    int owed;                      /* credits to give back */
    struct rt_answer answers[RT_CREDITS_AT_ONCE];
    int answer_count;             /* small replies that leave together, at the end of a poll */
    struct rt_peer *answers_next; /* in rt.answering */
    struct rt_mail mail;
    VIP_VI_HANDLE bulk;           /* for RDMA; NULL: not connected yet, or not possible */
    VIP_VI_HANDLE bulk_attempt;   /* our request for it under way, or NULL */
    VIP_MEM_HANDLE notice_memory; /* of the receives of `bulk` */
    int notices;                  /* stores by RDMA that we may still start */
    int notices_owed;             /* credits for stores to give back */
    struct rt_slice *slices;      /* RT_SLICES, NULL until the first RDMA */
    VIP_MEM_HANDLE slice_memory;
    int slices_busy;         /* operations under way */
    VIP_MEM_HANDLE *regions; /* handles of its chunks of the spread heap, 0: not known */
};

struct job;
struct rt_card;

struct rt {
    struct job *job;
    VIP_NIC_HANDLE nic;
    VIP_NIC_ATTRIBUTES nic_attrs;
    VIP_CQ_HANDLE cq; /* of all receives */
    VIPX_LISTENER listener;
    VIP_NET_ADDRESS **addresses; /* where each process listens */
    struct rt_card *cards;       /* of each process, exchanged at the start (hello.h) */
    struct rt_peer **peers;      /* by rank; NULL until it is needed */
    struct rt_peer *answering;   /* peers with small replies that have not left */
    int connected;               /* connected VIs of both kinds */
    int bulk_attempts;           /* requests for VIs for RDMA under way */
    unsigned entries;            /* calls of rt_poll; every POLLS_PER_ACCEPT-th accepts */
    bool leaving;                /* the program is over: a lost connection is no error */
    bool ended;                  /* the job has been left */
    bool threaded;               /* the progress thread runs */
    bool rdma;                   /* large transfers go by RDMA */
    int slices_busy;             /* RDMA operations under way, to all peers */
    bool check;                  /* SPLITC_DEBUG: barriers compare the spread stacks */
    struct rt_op split;          /* gets and puts that sync() waits for */
    uint64_t stored, arrived;    /* bytes of stores since the start, by us and to us */
    long store_count[2];         /* bytes for store_sync, by epoch */
    int epoch;                   /* epoch of the stores that we issue */
};

extern struct rt rt;

/* ---- start.c ---- */

/* End the job with a message: no return. */
void rt_fatal(const char *format, ...) __attribute__((noreturn, format(printf, 1, 2)));
void rt_enter(void);
void rt_leave(void);
/* Release and take the lock, so that the progress thread can have it. */
void rt_yield(void);

/* ---- rdma.c ---- */

/* Can the NIC do RDMA with Reliable Reception, and is it wanted? Then VIs are made for it. */
bool rt_rdma_possible(void);
/*
 * Start to move data between this process and the spread heap of a peer. Returns the number of
 * bytes taken, from the first on; the rest goes in messages.
 */
size_t rt_rdma_write(struct rt_op *op, sc_ptr to, const void *from, size_t bytes);
size_t rt_rdma_read(struct rt_op *op, void *to, sc_ptr from, size_t bytes);
/* The handle of this process's chunk with that address, 0: not in the heap or not registered. */
uint64_t rt_region_here(uint64_t addr);
/* Reap the operations that have completed. Returns true if there were any. */
bool rt_rdma_progress(void);
/* Wait until all our RDMA operations with this peer are done. */
void rt_rdma_drain(struct rt_peer *peer);
/* Post the receives of a new VI for RDMA, one for each store that the peer may start. */
void rt_post_notices(struct rt_peer *peer, VIP_VI_HANDLE vi);
/* Take a store by RDMA, after a queue entry of the VI for RDMA. Returns false if there was none. */
bool rt_take_notice(struct rt_peer *peer, VIP_VI_HANDLE vi);

/* ---- conn.c ---- */

void rt_listen(void);
/* The peer, connected; waits for the connection. */
struct rt_peer *rt_peer(int rank);
/* Answer connection requests, and check our own for RDMA. */
void rt_accept(void);
/* Are VIs missing that may still be connected? */
bool rt_connecting(void);
void rt_disconnect_all(void);

/* ---- message.c ---- */

/* Post a receive again. */
void rt_post_receive(struct rt_peer *peer, struct rt_buffer *buffer);
/* A buffer for a message: fill header and data, then call rt_send. Waits only for the NIC. */
struct rt_buffer *rt_send_buffer(struct rt_peer *peer);
/* Send it with `bytes` of data after the header. */
void rt_send(struct rt_peer *peer, struct rt_buffer *buffer, size_t bytes);
/* Give credits back in a message of their own, if many are owed and no reply carries them. */
void rt_give_back(struct rt_peer *peer);
/* Take a credit for the next request; serves others while it waits. */
void rt_take_credit(struct rt_peer *peer);
/* Serve the messages that have arrived. */
void rt_poll(void);
/* The same, and sleep for a short time if none has arrived. */
void rt_wait(void);
/* Wait until the peer's NIC has everything that we sent. */
void rt_drain(struct rt_peer *peer);
/* The connection is broken: end the job, unless it is ending. */
void rt_lost(const struct rt_peer *peer);

/* ---- serve.c ---- */

/* Handle a received message and post its buffer again. Keeps small replies for rt_answer_all. */
void rt_serve(struct rt_peer *peer, struct rt_buffer *buffer);
/* Send the kept small replies: to this peer; to all peers. */
void rt_answer(struct rt_peer *peer);
void rt_answer_all(void);
/* Write bytes to local memory so that aligned words of up to 8 bytes are not torn. */
void rt_copy(void *to, const void *from, size_t bytes);

/* ---- access.c ---- */

/* Start requests for `bytes`, in messages of RT_DATA_MAX; op->pending counts them. */
void rt_start_read(struct rt_op *op, void *to, sc_ptr from, size_t bytes);
void rt_start_write(struct rt_op *op, sc_ptr to, const void *from, size_t bytes);
void rt_start_store(sc_ptr to, const void *from, size_t bytes);
void rt_finish(struct rt_op *op);

/* ---- collect.c ---- */

/* all = all combined with one; called in a fixed order. */
typedef void rt_combine(void *all, const void *one, size_t bytes);
/* Combine the values of all processes; each gets the result. bytes: at most RT_DATA_MAX. */
void rt_reduce(void *value, size_t bytes, rt_combine *combine);

/* ---- atomic.c ---- */

/* A kind of rt_ask: the handle of a chunk of the spread heap. */
#define RT_KIND_REGION 100
/* Ask the owner of the word, and wait for its answer. */
uint64_t rt_ask(sc_ptr word, int kind, uint64_t arg, int value);

uint64_t rt_atomic_here(int kind, uint64_t addr, uint64_t arg, uint64_t value);

/* ---- heap.c ---- */

void rt_heap_start(void);
/* The number of the chunk with this address, or -1 if it is not in the spread heap. */
long rt_heap_chunk(uint64_t addr, char **ret_start);
long rt_heap_chunks(void);
/* Bytes of the spread stack in use, for the comparison in barriers. */
uint64_t rt_stack_used(void);
/* Allocate the static spread arrays that the translator's output registers. */
void rt_heap_statics(void);

#endif

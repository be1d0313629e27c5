/*
 * Inside libvipam: the objects and their owners. internal.h has the functions, and
 * doc/active-messages.md the design.
 *
 *   bundle ── endpoint ── map (one per pair of endpoints) ── conn (the pair's connection, if any)
 *
 * A credit lets one request be under way. A lane is one VI of a connection. The landing is memory
 * into which the other side writes long messages; each message has a place there. A stranger is a
 * caller that has no proof and no translation entry; only an endpoint with tag AM_ALL accepts it.
 *
 * Locks. bundle->lock (AM_PAR only) guards a bundle, its endpoints, maps and conns. am_net.lock
 * guards the data that the service thread (accept.c) also uses: the tables of endpoints and maps,
 * the phase of each map, the number of connections. A thread that needs both locks takes the
 * bundle's lock first. The service thread never takes a bundle's lock.
 */
#ifndef AM_OBJECTS_H
#define AM_OBJECTS_H

#include <pthread.h>
#include <stdbool.h>

#include <vipl_ext.h>

#include "am/am.h"
#include "am/am_stats.h"
#include "am/token.h"
#include "am/wire.h"

/* Numbers of entries in a translation table: MIN at the start and at least, MAX at most. */
#define AM_TRANSLATIONS_MIN 256
#define AM_TRANSLATIONS_MAX (1 << 20)

/* Bytes that a VIPL address needs: its head, the host, and a discriminator of 8 bytes. */
#define AM_ADDRESS_BYTES 64

/* Bytes that an endpoint's name needs as text. */
#define AM_NAME_TEXT 80

/* The number of an endpoint with a port has this bit. */
#define AM_KNOWN_BIT 0x80000000u

#define AM_EP_BUCKETS 1024

/* A long payload of up to this many bytes is never written straight into the segment: a copy inside
 * the message costs less than an RDMA Write. */
#define AM_DIRECT_MIN 1024u

/* Size classes of messages. With VIPAM_VARIANT=1, each class has a lane: lane[class]. */
enum am_class { AM_SHORT, AM_MEDIUM, AM_LONG, AM_CLASSES };

struct am_caller;
struct am_conn;
struct am_map;

/* The descriptors of a send buffer, in registered memory. */
struct am_slot {
    VIP_DESCRIPTOR desc;  /* descriptor of the message */
    VIP_DESCRIPTOR write; /* descriptor of an RDMA Write before the message */
};

/* A range of bytes in a segment; len 0: no range. */
struct am_range {
    uint64_t off, len;
};

/* The source and the destination of one RDMA Write. */
struct am_transfer {
    const void *from;
    VIP_MEM_HANDLE from_mem;
    size_t bytes;
    uint64_t to;
    VIP_MEM_HANDLE to_mem;
};

/* A message that is not in a send or receive buffer, with room for its arguments. */
union am_message_room {
    struct am_message msg;
    char room[sizeof(struct am_message) + 4 * AM_ARGS_MAX];
};

struct am_region;

/* One VI of a connection with its buffers. */
struct am_lane {
    struct am_conn *conn;
    unsigned index; /* in conn->lane */
    VIP_VI_HANDLE vi;
    size_t room;               /* bytes of one buffer */
    struct am_slot *send;      /* array of conn->sends */
    VIP_DESCRIPTOR *recv;      /* array of conn->recvs */
    char *send_bytes;          /* conn->sends buffers of `room` bytes each */
    char *recv_bytes;          /* conn->recvs buffers of `room` bytes each */
    uint8_t *in_flight;        /* per send buffer: number of posted, uncompleted descriptors */
    struct am_region **region; /* per send buffer: memory that the posted descriptors read from */
    bool connected;            /* the VI is connected */
};

/* An entry of conn->request: a request under way. Its message stays in the send buffer with the
 * same number until the request is over. */
struct am_request {
    bool used;
    uint8_t lane;          /* the lane that its message used */
    int dest;              /* translation index */
    void *source;          /* address of the payload that the caller gave */
    struct am_range range; /* bytes of the other side's segment that a long request covers */
};

/* An entry of conn->reply: our last answer to the other side's request with this number. */
struct am_reply {
    uint8_t lane;
    struct am_range range; /* range of a long reply, until the next request with this number */
};

/* A received message that waits for its handler. Each receive buffer has one such struct. */
struct am_arrival {
    struct am_arrival *next;
    struct am_lane *lane;
    unsigned recv; /* number of the receive buffer */
};

struct am_queue {
    struct am_arrival *first, *last;
};

enum am_conn_state {
    AM_CONN_CALLING,  /* our connection request is under way */
    AM_CONN_ACCEPTED, /* we have accepted the call, and send nothing before READY comes */
    AM_CONN_OPEN,
    AM_CONN_CLOSING, /* one side wants to close the connection: we send no new requests */
    AM_CONN_CLOSED,  /* we have agreed to close; the other side disconnects */
    AM_CONN_DEAD     /* broken, or disconnected by us */
};

/* The permission that one side has given for direct writes into its segment. */
struct am_grant {
    bool valid;
    uint64_t base, len;
    VIP_MEM_HANDLE handle;
    tag_t tag;            /* tag that messages must carry; AM_ALL: any tag */
    uint8_t handlers[32]; /* one bit per handler; set: the program has registered this handler */
};

struct am_conn {
    struct am_map *map;
    struct am_bundle *bundle;
    struct am_conn *next;          /* in bundle->incoming, then in bundle->dead */
    struct am_conn *next_failed;   /* in bundle->failed */
    struct am_conn *newer, *older; /* in the bundle's list by last use */
    enum am_conn_state state;
    bool listed;                  /* in the bundle's list by last use */
    bool adopted;                 /* the bundle uses this connection */
    uint32_t serial;              /* the caller's number for this connection */
    unsigned k, peer_k;           /* credits: ours, the other side's */
    unsigned lanes, sends, recvs; /* number of lanes; number of send and receive buffers per lane */
    struct am_lane lane[AM_CLASSES];
    void *block; /* memory for descriptors, buffers and landing; NULL: none yet */
    size_t block_bytes;
    size_t landing_at; /* offset of the landing: k places for replies, then peer_k for requests */
    VIP_MEM_HANDLE mem, landing_mem;
    uint64_t peer_landing; /* address of the other side's landing */
    VIP_MEM_HANDLE peer_landing_mem;
    bool no_write_message;      /* the other side's vipd does not know VipxPostWriteMessage */
    struct am_request *request; /* array of k */
    uint16_t *free_id;          /* numbers of free requests: a stack with room for k */
    unsigned free_ids;
    uint8_t *peer_busy;         /* peer_k flags: request with this number waits for our answer */
    unsigned serving;           /* number of flags that are set in peer_busy */
    struct am_reply *reply;     /* array of peer_k */
    struct am_arrival *arrival; /* array of lanes x recvs */
    unsigned running;           /* arrivals that are queued or being handled */
    struct am_grant peer_grant, my_grant;
    uint8_t asked; /* kind of our control message that waits for its answer, or 0 */
    bool want_revoke, want_grant, want_close; /* control messages to send */
    bool must_agree;      /* the other side has asked to close, and we have not agreed yet */
    bool close_agreed;    /* the other side has agreed to our request to close */
    bool control_work;    /* counted in bundle->control_conns */
    bool counted_closing; /* counted in bundle->closing */
    unsigned accepting;   /* am_net.lock: number of lanes that the service thread accepts now */
    unsigned lanes_seen;  /* am_net.lock: one bit per lane; set: its connection request has come */
    bool accept_failed;   /* am_net.lock */
    bool stranger;        /* am_net.lock: counted in ep->strangers */
    tag_t tag;            /* the tag that our connection request proves */
    int64_t opened_ns;
};

/* Phase of a map's connection; am_net.lock. */
enum am_phase {
    AM_PHASE_NONE,
    AM_PHASE_CALLING,   /* a thread of the bundle asks the other side for a connection */
    AM_PHASE_ACCEPTING, /* the service thread makes the connection, or the bundle must adopt it */
    AM_PHASE_UP         /* the bundle has the connection; lasts until the connection breaks */
};

/* A pair of endpoints. */
struct am_map {
    struct am_map *next; /* in ep->map_bucket */
    struct am_ep *ep;
    en_t name;            /* name of the other endpoint */
    unsigned entries;     /* number of translation entries that refer to this map */
    int entry;            /* index of the map's lowest translation entry, or -1 */
    unsigned waiters;     /* threads whose request waits for a connection or a credit */
    struct am_conn *conn; /* bundle->lock */
    unsigned peer_depth;  /* credits of the other side, which need buffers here; 0: not known */
    int64_t crossed_ns;   /* time of the answer AM_ANSWER_CROSS to our call; 0: no such answer */
    /* am_net.lock: */
    enum am_phase phase;
    unsigned conns;          /* connections that exist, broken ones included */
    struct am_conn *passive; /* the connection that the service thread has made */
    struct am_caller *again; /* connection request that waits for the end of conn, or NULL */
};

struct am_translation {
    struct am_map *map; /* NULL: not in use; &ep->self: entry of our own name */
    tag_t tag;
};

struct am_segment {
    char *base;
    uintptr_t len;
    bool registered, refused; /* refused: registering failed, or the segment is too large */
    VIP_MEM_HANDLE handle;
};

#define AM_MAP_BUCKETS 256

/* The callbacks of am_amx.h, with the category as a number. */
typedef void (*am_pre_handler_t)(int category, int is_request, int handler, void *token, void *buf,
                                 size_t nbytes, int numargs, uint32_t *args);
typedef void (*am_post_handler_t)(int category, int is_request);

struct am_ep {
    struct am_bundle *bundle;
    struct am_ep *next, *prev; /* in the bundle */
    struct am_ep *next_known;  /* in am_net.known */
    en_t name;
    tag_t tag;
    struct am_segment seg;
    struct am_translation *trans;
    int trans_count;
    amvia_handler_fn_t handler[256];
    unsigned depth;       /* credits; 0 until AM_SetExpectedResources */
    unsigned pins;        /* lanes that the service thread accepts now; am_net.lock */
    bool closing, moving; /* being freed, being moved; am_net.lock */
    /* am_net.lock for doubted, doubted_count, strangers, crowded: */
    struct am_caller *doubted; /* calls without the right proof */
    unsigned doubted_count;
    unsigned strangers; /* number of connections of strangers */
    bool crowded;       /* strangers are at their limit, and one more stranger has called */
    struct am_map *map_bucket[AM_MAP_BUCKETS]; /* am_net.lock for changes and the service thread */
    struct am_map self;                        /* the map for messages to ourselves */
    bool busy;                                 /* a handler of the endpoint runs */
    unsigned shown_count; /* number of used places in shown: one per running handler */
    struct am_token shown[AM_NESTED_MAX]; /* tokens of the running handlers */
    char *loop_medium[2];                 /* for medium messages to ourselves: request, reply */
    VIPX_LISTENER listener;               /* listener of a known endpoint, or NULL */
    amx_stats_t stats;
    am_pre_handler_t before_handler; /* callbacks of am_amx.h */
    am_post_handler_t after_handler;
};

struct am_bundle {
    struct am_bundle *next, *prev; /* in am_net */
    bool par;
    pthread_mutex_t lock;
    struct am_ep *eps;
    VIP_CQ_HANDLE send_cq, recv_cq;
    int cq_fd;          /* descriptor of recv_cq, made by the first AM_WaitSema; -1: none yet */
    int wake_fd;        /* eventfd that wakes the threads in am_sleep */
    unsigned attention; /* atomic: not 0 if there is work that is not a message (attend.c) */
    struct am_conn *incoming; /* am_net.lock: connections that the bundle must adopt */
    struct am_conn *failed;   /* am_net.lock: connections with a lane that was not accepted */
    struct am_queue replies, requests; /* arrived messages that wait for their handlers */
    struct am_conn *newest, *oldest;   /* ends of the list of connections by last use */
    struct am_conn *dead;              /* connections to free when nothing refers to them */
    int mask;
    uint64_t handled;       /* number of handlers that have run so far, in all threads */
    unsigned sleepers;      /* atomic: number of threads in am_sleep */
    unsigned control_conns; /* connections with control messages to send */
    unsigned closing;       /* connections that we are closing */
};

/* The state of the whole process. */
struct am_net {
    pthread_mutex_t lock;
    pthread_cond_t changed; /* the pins of an endpoint have changed */
    int inits;
    pid_t pid; /* the process that called AM_Init */
    VIP_NIC_HANDLE nic;
    VIP_PROTECTION_HANDLE ptag;
    VIP_NIC_ATTRIBUTES attrs;
    uint64_t process; /* discriminator of the process's listener */
    VIPX_LISTENER listener;
    uint32_t next_number, next_serial;
    struct am_ep *known[AM_EP_BUCKETS]; /* all endpoints, by number */
    struct am_bundle *bundles;
    unsigned live, live_max; /* number of connections now, and its limit */
    unsigned wanted;         /* number of threads that want room for connections */
    unsigned doubts;         /* number of doubted calls plus number of crowded endpoints */
    unsigned lanes;          /* lanes per connection: 1, or 3 with VIPAM_VARIANT=1 */
    unsigned depth;          /* default credits */
    int64_t residence_ns;    /* connections younger than this are not closed to make room */
    amvia_counts_t counts;
};

#endif

/*
 * The objects of the libfabric provider `via`, and the locks that guard their members.
 *
 *   provider.c  entry point                     settings.c  settings, errors, the clock
 *   info.c      answers of fi_getinfo           addr.c      addresses of endpoints and hosts
 *   fabric.c    fabric = one opened NIC         domain.c    domain = one protection tag
 *   mr.c        memory regions and their cache  eq.c        event queues
 *   cq.c        completion queues               cq_ops.c    the program's calls on them
 *   reap.c      completions of VIPL become completions of libfabric
 *   pep.c       passive endpoints               cm.c        makes connections
 *   ep.c        the VI of an endpoint           ep_ops.c    the program's calls on endpoints
 *   ep_state.c  connections made and lost       hello.c     private data of request and accept
 *   request.c   unanswered requests             post.c      descriptors, credits
 *   transfer.c  RDMA of any length              msg.c, rma.c  the calls that move data
 *   nosys.c     calls that VIA does not support
 *
 * Endpoints of the first kind (FI_EP_MSG) are connected to one peer. Endpoints of the second kind
 * (FI_EP_RDM, rdm.h) reach any number of peers, by means of endpoints of the first kind.
 *
 * Of the rest of the project the provider uses only vipl.h, vipl_ext.h and job/key.h. Lock order:
 * cm.lock, fabric.lock, cq.lock (of two cq.locks, first that of the queue with the lower address),
 * domain.wait_lock, ep.lock, eq.lock.
 */
#ifndef OFI_VIA_H
#define OFI_VIA_H

#include <netinet/in.h>
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>
#include <rdma/providers/fi_log.h>
#include <rdma/providers/fi_prov.h>

#include <vipl.h>
#include <vipl_ext.h>

#define VIA_IOV_MAX   4    /* most pieces of local memory in one operation; ofi_rxm needs 4 */
#define VIA_QUEUE_MAX 1000 /* most operations of a queue; VIPL allows 1024, and we need some */
#define VIA_QUEUE     256  /* operations of a queue if the program asks for no other number */

/* Bytes of a descriptor with one segment for remote memory and VIA_IOV_MAX for local memory. */
#define VIA_DESC_BYTES 128
_Static_assert(sizeof(VIP_CONTROL_SEGMENT) + (1 + VIA_IOV_MAX) * sizeof(VIP_DATA_SEGMENT) <=
                   VIA_DESC_BYTES,
               "a descriptor has room for all segments");

/* Most bytes of data in fi_connect or fi_accept. VIPL has room for 64 bytes, of which struct
 * via_hello needs 16. */
#define VIA_CM_DATA_MAX 48

#define via_container(ptr, type, member) ((type *)((char *)(ptr)-offsetof(type, member)))

extern struct fi_provider via_provider;

/* ---- making of connections (cm.c) ------------------------------------------------------------ */

struct via_ep;
struct via_pep;

struct via_cm {
    pthread_mutex_t lock;  /* guards struct via_cm, and the cm_ members of endpoints */
    pthread_cond_t work;   /* signals that `accepting` is not empty, or that `stop` is set */
    pthread_cond_t change; /* signals that a VipxConnectAccept has returned */
    bool stop;
    int epoll_fd;              /* watches listeners, attempts to connect, and wake_fd */
    int wake_fd;               /* eventfd: wakes the fabric's thread when `stop` is set */
    struct via_pep *listening; /* passive endpoints with a listener */
    struct via_ep *connecting; /* endpoints with an fi_connect under way */
    struct via_ep *accepting;  /* endpoints with an fi_accept that waits for a thread */
    unsigned workers, idle;    /* number of threads for accepts; number of idle threads */
    pthread_t *worker;         /* array with room for via_settings.cm_threads threads */
};

/* ---- fabric, domain, memory ------------------------------------------------------------------ */

struct via_fabric {
    struct fid_fabric fid;
    uint32_t users; /* atomic; number of open objects that belong to the fabric */
    VIP_NIC_HANDLE nic;
    VIP_NIC_ATTRIBUTES attrs;
    struct sockaddr_in addr;  /* address of this host, with port 0 */
    uint32_t lost;            /* atomic; 1: reads of completion queues fail after a loss or error */
    pthread_mutex_t lock;     /* guards eps */
    struct via_ep *eps;       /* enabled endpoints, for the error handler */
    pthread_mutex_t rdm_lock; /* guards rdms; a thread takes rdm_lock before all other locks */
    struct via_rdm *rdms;     /* enabled endpoints of the second kind */
    struct via_cm cm;
    pthread_t thread; /* the fabric's thread makes connections (via_cm_round) */
};

/* A registered range. Several memory regions of the program may use the same range. */
struct via_region {
    struct via_region *next; /* in domain->regions, most recently used first */
    uintptr_t addr;
    size_t bytes;
    uint64_t rights; /* FI_REMOTE_READ, FI_REMOTE_WRITE, both or none */
    VIP_MEM_HANDLE handle;
    unsigned users; /* number of memory regions and operations that use the region */
};

struct via_domain {
    struct fid_domain fid;
    struct via_fabric *fabric;
    uint32_t users; /* atomic */
    VIP_PROTECTION_HANDLE ptag;
    bool keyed;           /* true: addresses are struct via_name; false: struct sockaddr_in */
    pthread_mutex_t lock; /* guards the regions */
    struct via_region *regions;
    unsigned region_count, swept; /* swept: count of regions that `sweep` has checked */
    size_t region_bytes;
    pthread_mutex_t wait_lock; /* guards `waiting` */
    struct via_ep *waiting;    /* endpoints with sends that wait for credits */
    uint32_t waiting_count;    /* atomic */
};

struct via_mr {
    struct fid_mr fid;
    struct via_domain *domain;
    struct via_region *region;
};

/* ---- queues ---------------------------------------------------------------------------------- */

struct via_event;

struct via_eq {
    struct fid_eq fid;
    struct via_fabric *fabric;
    pthread_mutex_t lock;
    struct via_event *first, **end;
    uint32_t waiting;                  /* atomic; number of events in the list */
    enum fi_wait_obj wait_obj;         /* FI_WAIT_NONE or FI_WAIT_FD */
    int fd;                            /* an eventfd, readable while the list has events */
    uint8_t err_data[VIA_CM_DATA_MAX]; /* data of the last error of fi_eq_readerr */
};

/* A completion for the program. If `err` is not 0, fi_cq_readerr reports the completion. */
struct via_comp {
    void *context;
    uint64_t flags;
    size_t len;
    void *buf;
    uint64_t data, tag;
    size_t olen; /* number of bytes that did not fit into the buffer */
    int err, prov_errno;
};

struct via_cq {
    struct fid_cq fid;
    struct via_domain *domain;
    uint32_t users;            /* atomic; number of endpoints that are bound to the queue */
    enum fi_wait_obj wait_obj; /* FI_WAIT_NONE, FI_WAIT_UNSPEC or FI_WAIT_FD */
    pthread_mutex_t rdm_lock;  /* guards rdm, also while a read drives rdm; before other locks */
    struct via_rdm *rdm;       /* the FI_EP_RDM endpoint that reads of this queue drive, or NULL */
    enum fi_cq_format format;
    VIP_CQ_HANDLE cq;
    pthread_mutex_t lock;
    VIP_ULONG entries;     /* size that VIPL's queue needs; grows with each bound endpoint */
    struct via_comp *fifo; /* completions that the program has not read yet */
    uint32_t fifo_size, fifo_in, fifo_out; /* fifo_size: a power of two */
    uint32_t signaled;                     /* atomic; not 0: fi_cq_signal was called */
    int epoll_fd; /* for FI_GETWAIT; watches soft_fd and VIPL's CQ; -1: not made yet */
    int soft_fd;  /* an eventfd, readable while fifo is not empty or signaled is set */
    bool soft_raised;
};

/* ---- endpoints ------------------------------------------------------------------------------- */

/* The control page. The peer sets peer_... by RDMA. We send own_... to the peer's control page. */
struct via_control {
    uint64_t peer_posted; /* count of receives that the peer has posted: our credits */
    uint64_t peer_bye;    /* not 0: the peer closes the connection normally */
    uint64_t unused[6];
    uint64_t own_posted; /* source of the RDMA Write to the peer's peer_posted */
    uint64_t own_bye;    /* source of the RDMA Write to the peer's peer_bye */
};

/* Begin of the private data of a connection request or an accept; the program's data follow. */
struct via_hello {
    uint8_t version;    /* VIA_HELLO_VERSION */
    uint8_t user_bytes; /* length of the program's data: 0 to VIA_CM_DATA_MAX */
    uint16_t posted;    /* count of receives that the sender of the hello has posted */
    uint32_t handle;    /* memory handle of the sender's control page */
    uint64_t control;   /* address of the sender's control page */
};
_Static_assert(sizeof(struct via_hello) + VIA_CM_DATA_MAX == VIPX_PRIVATE_DATA_MAX, "they fit");
#define VIA_HELLO_VERSION 1

/* One posted operation. tx_op[i] and rx_op[i] belong to descriptor i of the queue. */
struct via_op {
    void *context;
    void *buf;
    size_t len;
    uint64_t flags; /* flags of the completion; 0: report nothing, not even an error */
    bool is_piece;  /* a piece of a transfer before the last piece: no completion */
    bool consumes;  /* the operation uses up a receive descriptor of the peer */
};

/* A connection request of a peer. The program gets the request as fi_info.handle. */
struct via_request {
    struct fid fid;
    VIP_CONN_HANDLE conn;
    struct sockaddr_in from;
    struct via_hello hello;
};

/* The part of a long RDMA operation that is not posted yet (transfer.c). */
struct via_transfer {
    bool active;
    uint16_t control; /* VIP_CONTROL_OP_* */
    struct iovec iov[VIA_IOV_MAX];
    VIP_MEM_HANDLE handle[VIA_IOV_MAX];
    unsigned iov_count, iov_at;
    uint64_t remote;
    uint32_t remote_handle;
    size_t left;
    bool imm_valid; /* the last piece carries `imm` */
    uint32_t imm;
    struct via_op op; /* entry of tx_op for the last piece */
};

enum via_ep_state {
    VIA_EP_NEW,     /* without a VI */
    VIA_EP_ENABLED, /* with a VI */
    VIA_EP_PENDING, /* fi_connect or fi_accept is under way */
    VIA_EP_CONNECTED,
    VIA_EP_DOWN, /* the connection has ended, or this side is ending it */
};

struct via_ep {
    struct fid_ep fid;
    struct via_domain *domain;
    struct via_eq *eq;
    struct via_cq *tx_cq, *rx_cq;
    bool tx_selective, rx_selective; /* only calls with FI_COMPLETION get a completion */
    uint64_t tx_op_flags, rx_op_flags;
    size_t tx_size, rx_size, inject_bytes;
    struct sockaddr_in own, peer;

    pthread_mutex_t lock; /* guards the following members, unless another lock is named */
    uint32_t state;       /* enum via_ep_state; atomic; written under `lock` */
    VIP_VI_HANDLE vi;
    struct via_ep *next; /* in fabric->eps, under fabric->lock */

    /* The slab has the control page, the descriptors of both queues, and the inject slots. */
    char *slab;
    size_t slab_bytes;
    VIP_MEM_HANDLE control_handle, slab_handle;
    struct via_control *control;
    char *tx_desc, *rx_desc, *inject;
    struct via_op *tx_op, *rx_op;

    /* Counts of sends: accepted, posted to VIPL, completed. The unposted ones wait for credits. */
    uint64_t tx_in, tx_posted, tx_out;
    uint64_t rx_in, rx_out; /* counts of receives since the start: posted, completed */
    uint64_t consumed;      /* count of the peer's receives that our sends have used up */
    uint64_t peer_posted;   /* the peer's count of receives, from its hello or its records */
    uint64_t published;     /* the last value of rx_in that the peer was sent */
    bool publishing;        /* the RDMA Write of own_posted is under way */
    bool saying_bye;        /* the RDMA Write of own_bye is under way */
    uint32_t refuse_count;  /* counts posting calls, for via_settings.refuse_every */
    bool tell_now;          /* send credits even before a batch is full (post.c) */
    struct via_transfer transfer;
    uint64_t peer_control;
    uint32_t peer_handle;

    /* domain->wait_lock guards the next two members. */
    struct via_ep *wait_next;
    bool wait_listed;

    /* fabric->cm.lock guards the cm_ members. */
    struct via_ep *cm_next;
    struct via_request *cm_request;   /* the request to accept; NULL: none, or already accepted */
    bool cm_connecting, cm_accepting; /* the endpoint is in this list of struct via_cm */
    bool cm_busy;                     /* a thread is in VipxConnectAccept for this endpoint */
    int cm_fd; /* file descriptor from VipxConnectGetFd, in cm.epoll_fd; -1: none */
    uint64_t cm_deadline_ns, cm_retry_ns; /* cm_retry_ns: next attempt; 0: one is under way */
    uint64_t cm_absent_ns; /* retry until then if the peer has no listener; 0: not set yet */
    VIPX_PRIVATE_DATA cm_data;
};

struct via_pep {
    struct fid_pep fid;
    struct via_fabric *fabric;
    struct via_eq *eq;
    struct fi_info *info;
    struct sockaddr_in own;
    int port_fd; /* the bound TCP socket that reserves the port; -1: none */
    VIPX_LISTENER listener;
    struct via_pep *cm_next; /* in cm.listening */
};

#endif

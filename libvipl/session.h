/*
 * One opened NIC handle inside the library: its connection to vipd, its shared segments, its VIs
 * and completion queues, and the functions that find the object of an application's handle.
 *
 * Memory of sessions, VIs and CQs is never freed, only used again; the address ranges of the shared
 * segments stay reserved. So a stale handle, or a call that races with VipCloseNic, finds an object
 * with another `handle` and is refused. This check needs no lock and touches no freed memory.
 *
 * Locks, in the order in which they may be taken:
 *   table (handle.c)  which session objects are in use
 *   call_lock         one request and its reply on the control socket
 *   notify's lock     registrations of the Notify calls (notify.c)
 *   lock              connection attempts, attributes, creation of VI and CQ objects
 *   region_lock       staged copies: VipDeregisterMem waits until they have ended
 *   regions           of lent.c: changes of the region table, and loans that begin
 *   loans' locks      the engines of the loans (libvipl/loan/loan.h; spin locks)
 *   post_lock         submission ring, region table, `posted` of every queue (spin lock)
 *   done_lock         reading from one completion ring (spin lock, one per queue and CQ)
 */
#ifndef LIBVIPL_SESSION_H
#define LIBVIPL_SESSION_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "libvipl/lent_members.h"
#include "libvipl/notify.h"
#include "libvipl/queue.h"
#include "libvipl/region.h"
#include "libvipl/spin.h"
#include "libvipl/vipl.h"
#include "proto/crowd.h"
#include "proto/limits.h"
#include "proto/ring.h"
#include "proto/shm.h"
#include "proto/status.h"
#include "proto/wire.h"

struct vipl__session;
struct vipl__direct;
struct vipl__loans;
struct vipl__callbacks;
struct vipl__connect;
struct vipl__discovered;
struct vipl__listener;

/* Largest number of open NIC handles of a process: a handle has 12 bits for the slot. */
#define VIPL__SESSIONS_MAX 4096

/* State of the one connection attempt that a VI can have. */
enum vipl__attempt {
    VIPL__ATTEMPT_NONE = 0,
    VIPL__ATTEMPT_CONNECT, /* VipConnectRequest waits for ConnResult */
    VIPL__ATTEMPT_ACCEPT,  /* VipConnectAccept waits for ConnResult */
    VIPL__ATTEMPT_DONE,    /* the result has come */
};

/* Longest ticket (doc/glossary.md), in bytes; longer tickets are not kept. */
#define VIPL__TICKET_MAX 1024

/* Does vipd know the object (refused.h)? */
enum vipl__refused {
    VIPL__TAKEN = 0,
    VIPL__REFUSED,      /* vipd has refused the object; if it is a VI, its state is Error */
    VIPL__REFUSED_IDLE, /* vipd has refused the VI; VipDisconnect made it Idle */
};

/* A VI. */
struct vipl__vi {
    uint64_t handle; /* atomic; the valid handle, 0 = not in use */
    struct vipl__session *session;
    uint16_t index;                   /* vipd's number */
    uint16_t uses;                    /* number of VIs made in this object; part of the handle */
    uint32_t generation;              /* from vipd; libvipl writes it into every posted slot */
    uint32_t refused;                 /* atomic; enum vipl__refused; set under post_lock */
    uint32_t ptag;                    /* vipd's number of the tag, 0: none; set under post_lock */
    VIP_PVOID user_data;              /* atomic; set by VipSetUserData */
    VIP_VI_ATTRIBUTES attrs;          /* under session->lock */
    enum vipl__attempt attempt;       /* session->lock guards all members attempt* */
    enum vip_rc attempt_rc;           /* result of the attempt */
    char attempt_why[160];            /* why the attempt failed, as text */
    VIP_VI_ATTRIBUTES attempt_attrs;  /* the remote VI's, if attempt_rc is VIP_RC_SUCCESS */
    struct vip_private attempt_data;  /* private data from the other program */
    bool attempt_async;               /* another call fetches the result (attempt.c) */
    bool attempt_cancelled;           /* VipDisconnect was called: discard the result */
    unsigned attempt_waiters;         /* threads in a call that fetches the result */
    bool attempt_sent;                /* vipd has answered the attempt's request */
    struct vipl__connect *connect;    /* the VI's last connection request; NULL: none so far */
    int attempt_fd;                   /* eventfd of VipxConnectGetFd, -1 = none */
    uint8_t ticket[VIPL__TICKET_MAX]; /* ticket of the connection, for the next vipd */
    uint16_t ticket_len;              /* bytes; 0 = the connection cannot go on with another vipd */
    struct vipl__direct *direct;      /* atomic; NULL = this object never had a ring */
    struct vipl__lent *lent;          /* atomic; NULL = this object never was on loan */
    struct vipl__asks asks;           /* when this VI asks for a loan */
    bool rdma_posted;                 /* an RDMA operation was posted on this VI; under post_lock */
    struct vipl__queue queue[2];      /* indexed by enum vip_queue */
};

/* A connection request that no call has taken yet. It belongs to a VipConnectWait or a listener. */
struct vipl__incoming {
    struct vipl__incoming *next;
    uint64_t wait_id;
    uint64_t conn_handle; /* vipd's */
    uint32_t tells;       /* session->tells when the request came */
    struct vip_addr remote;
    VIP_VI_ATTRIBUTES attrs; /* of the remote VI */
    struct vip_private data;
};

/* Largest number of listeners of one NIC handle. */
#define VIPL__LISTENERS_MAX 256

/* A connection handle: a connection request that the application has not answered. */
struct vipl__conn {
    uint64_t handle;      /* 0 = free */
    uint64_t conn_handle; /* vipd's */
    uint16_t uses;
};

/* Is there a vipd? */
enum vipl__vipd {
    VIPL__THERE = 0,
    VIPL__DEAD, /* vipd has gone for good */
    VIPL__AWAY, /* vipd has gone; a next vipd may continue the session (outlive.h) */
};

struct vipl__session {
    uint64_t handle;  /* atomic; the valid NIC handle, 0 = closed */
    uint32_t slot;    /* index in the table of handle.c */
    uint32_t uses;    /* number of openings of this object; its low byte is in the handles */
    bool in_use;      /* under the table lock */
    bool burned;      /* the parent of a fork had this session: never use the object again */
    uint32_t users;   /* atomic; threads inside a call that may take long */
    uint32_t gone;    /* atomic; enum vipl__vipd; changes under lock and post_lock */
    uint32_t refused; /* atomic; number of VIs and CQs that vipd has refused (refused.h) */
    uint32_t trouble; /* atomic; 0 only if `gone` and `refused` are 0; set to 1 before them */
    uint32_t lives;   /* atomic; counts the vipds that continued the session; changes with `gone` */
    uint32_t tells;   /* counts calls of tell_anew (outlive.c); under lock */
    uint32_t kept;    /* atomic; number of threads that still record a reply (vipl__call_keep) */
    uint32_t closing; /* atomic; 1 = VipCloseNic runs */
    uint32_t broken;  /* atomic; 1 = a system call of this process ended the connection to vipd */
    uint32_t unanswered; /* atomic; 1 = vipd has closed the control socket without a reply */

    /* Shared segments. Their addresses stay reserved for this slot until the process ends. */
    void *app_base;                   /* the segment that libvipl writes */
    const struct vip_vipd_head *vipd; /* the segment that vipd writes */
    int control_fd, event_fd, doorbell_fd;

    /* Values of vipd's OpenReply; constant while the session is open. */
    VIP_NIC_ATTRIBUTES nic;
    uint8_t address[VIP_HOST_ADDR_BYTES_MAX]; /* nic.LocalNicAddress points here */
    uint32_t desc_max;                        /* largest number of descriptors per queue */
    uint32_t spin_ns;                         /* longest poll before a sleep */
    bool yield;         /* the machine has too few processors: a poll must yield */
    bool arena;         /* the session holds the arena until it calls vipl__mem_arena_put */
    bool watched;       /* descriptors show their status at once: VIPL_STATUS_IN_MEMORY */
    bool direct;        /* there is a table of receives, and VIs may have rings (direct.h) */
    bool direct_random; /* the environment has VIPL_DIRECT=random */
    bool loans_no;      /* the environment has VIPL_LOAN=0: never ask for a loan */
    bool loans_eager, loans_random; /* VIPL_LOAN: ask at once; and give loans back at random */
    struct vipl__rest rest;
    void *recv_base; /* table of receives; NULL = never had one; its address stays reserved */
    struct vipl__loans *loans; /* atomic; NULL = the session never had a loan (lent.h) */
    int loans_fd;              /* file of the parts of loans; -1: none */
    int ask_sock;              /* socket that a request for a loan sends now; -1: none */
    bool resolver;             /* the NIC has UDP addresses: the system's resolver knows them too */
    char socket_path[128];
    /* The next members are for the next vipd (outlive.h). */
    uint64_t outlive_ns;             /* longest wait for the next vipd; 0: do not wait */
    int app_fd, vipd_fd;             /* files of the segments */
    int recv_fd;                     /* file of the table of receives; -1: none */
    bool past_rings;                 /* the next vipd can continue the rings of VIs */
    bool loans_known;                /* atomic; the present vipd knows requests about loans */
    char device[VIP_NIC_NAME_BYTES]; /* vipd's name of the NIC */
    uint32_t *ptags;                 /* vipd's numbers of the protection tags; under lock */
    uint32_t ptag_count;

    pthread_mutex_t call_lock;
    void *call_room; /* VIP_CONTROL_BYTES_MAX bytes for messages; under call_lock */

    pthread_mutex_t lock;
    pthread_cond_t changed; /* signals each change of attempts, requests, `gone` or `closing` */
    struct vipl__incoming *incoming; /* requests that no VipConnectWait has taken yet */
    struct vipl__conn *conns;        /* table of conn_slots connection handles of the application */
    uint32_t conn_slots;
    struct vipl__listener *listener[VIPL__LISTENERS_MAX]; /* listen.h */
    bool names_ready;                                     /* VipNSInit was called */

    pthread_mutex_t region_lock;
    uint32_t staged;       /* atomic; number of staged regions; if 0, posts do not look for any */
    uint32_t region_epoch; /* counts ended and changed regions; atomic, written under post_lock */

    uint32_t post_lock __attribute__((aligned(64)));
    uint32_t sq_position; /* next submission slot; under post_lock */
    uint32_t sq_taken;    /* last loaded value of vipd's sq_cons; under post_lock */
    struct vipl__regions regions;

    pthread_t provider; /* the thread that reads the event socket */
    struct vipl__callbacks *callbacks;
    struct vipl__notify *notify;
    struct vipl__discovered *discovered; /* lists of VipQuerySystemManagementInfo; under lock */
    /* If `yield`: number of Done calls in a row that found nothing. Atomic; own cache line. */
    uint32_t empty_polls __attribute__((aligned(64)));
    struct vip_crowd crowd; /* if `yield` */

    struct vipl__vi *vi[VIP_VI_MAX]
        __attribute__((aligned(64))); /* atomic pointers; indexed by vipd's number of the VI */
    struct vipl__cq *cq[VIP_CQ_MAX];
};

/* ---- handles (handle.c) ------------------------------------------------------------------ */

/*
 * A handle consists of 0x56 in the top byte (so it is no address and never NULL), its kind, the
 * session slot, the low byte of the session's `uses`, and 32 bits whose use depends on the kind.
 */
enum vipl__kind {
    VIPL__KIND_NIC = 1,
    VIPL__KIND_VI = 2,
    VIPL__KIND_CQ = 3,
    VIPL__KIND_PTAG = 4,
    VIPL__KIND_CONN = 5,
    VIPL__KIND_LISTENER = 6,
};

_Static_assert(sizeof(void *) == 8, "handles take 64 bits");

extern struct vipl__session *vipl__sessions[VIPL__SESSIONS_MAX];

uint64_t vipl__handle_make(enum vipl__kind kind, const struct vipl__session *session,
                           uint32_t value);

/* The session object of a handle, open or not; NULL if it is not a handle of this kind. */
static inline struct vipl__session *vipl__handle_session(uint64_t handle, enum vipl__kind kind)
{
    if (handle >> 52 != (0x560u | (unsigned)kind))
        return NULL;
    return __atomic_load_n(&vipl__sessions[handle >> 40 & (VIPL__SESSIONS_MAX - 1)],
                           __ATOMIC_ACQUIRE);
}

/* The VI of a handle, NULL if the handle is not valid. Another thread can still destroy the VI. */
static inline struct vipl__vi *vipl__vi_find(VIP_VI_HANDLE vi_handle)
{
    uint64_t handle = (uint64_t)(uintptr_t)vi_handle;
    struct vipl__session *session = vipl__handle_session(handle, VIPL__KIND_VI);
    struct vipl__vi *vi;

    if (session == NULL || (handle & 0xFFFF) >= VIP_VI_MAX)
        return NULL;
    vi = __atomic_load_n(&session->vi[handle & 0xFFFF], __ATOMIC_ACQUIRE);
    if (vi == NULL || __atomic_load_n(&vi->handle, __ATOMIC_ACQUIRE) != handle)
        return NULL;
    return vi;
}

static inline bool vipl__vi_is(const struct vipl__vi *vi, uint64_t handle)
{
    return __atomic_load_n(&vi->handle, __ATOMIC_ACQUIRE) == handle;
}

struct vipl__cq *vipl__cq_find(VIP_CQ_HANDLE cq_handle);

/*
 * Enter a call that may take long: VipCloseNic waits until all such calls have called vipl__leave.
 * If the handle is not valid, sets the reason and returns NULL. `call`: the VIPL function's name.
 */
struct vipl__session *vipl__nic_enter(VIP_NIC_HANDLE nic_handle, const char *call);
struct vipl__vi *vipl__vi_enter(VIP_VI_HANDLE vi_handle, const char *call);
struct vipl__cq *vipl__cq_enter(VIP_CQ_HANDLE cq_handle, const char *call);
void vipl__leave(struct vipl__session *session);

/*
 * Get vipd's number of a protection tag; it is 0 if ptag is NULL. Returns false if ptag is not a
 * tag of this session, or is NULL with VIPL_STRICT_PTAGS=1.
 */
bool vipl__ptag_number(const struct vipl__session *session, VIP_PROTECTION_HANDLE ptag,
                       uint32_t *ret_number);

/* Refuse a handle that stands for no live VI (or CQ). Returns VIP_INVALID_PARAMETER. */
VIP_RETURN vipl__bad_vi(const char *call, VIP_VI_HANDLE vi_handle);
VIP_RETURN vipl__bad_cq(const char *call, VIP_CQ_HANDLE cq_handle);

/*
 * Get a session object for a NIC that is being opened. The addresses of its segments are reserved.
 * NULL: no slot or no memory. vipl__session_put gives the object back, after the caller has
 * released everything in it.
 */
struct vipl__session *vipl__session_get(void);
void vipl__session_put(struct vipl__session *session);

/*
 * Close a file descriptor, if *fd is not -1. *fd becomes -1 before the close: if another thread
 * forks now, the child also closes *fd, and the number may belong to another file by then.
 */
void vipl__fd_close(int *fd);

/* ---- the session (session.c, handle.c) ---------------------------------------------------- */

/*
 * Connect to vipd and open `device`. If vipd ends during this call, wait about a second for the
 * next vipd and ask it. If no vipd runs at the beginning, the call fails at once. Outcomes:
 * VIP_SUCCESS with *ret; another code, with its reason for VipxLastError.
 */
VIP_RETURN vipl__session_open(const char *device, struct vipl__session **ret);
/*
 * Ask vipd to make a memory file. Outcomes: VIP_SUCCESS with *ret_fd (negative: vipd makes no
 * files, so the library must make the file); others as vipl__call.
 */
VIP_RETURN vipl__session_make_memory(struct vipl__session *session, const char *call,
                                     uint64_t bytes, int *ret_fd);

/* End the session and release everything; all its handles become invalid first. */
void vipl__session_close(struct vipl__session *session);

/* State of a VI as vipd publishes it. */
enum vip_vi_state vipl__vi_state(const struct vipl__vi *vi);

static inline bool vipl__is_dead(const struct vipl__session *session)
{
    return __atomic_load_n(&session->gone, __ATOMIC_ACQUIRE) == VIPL__DEAD;
}

/* Is there no vipd now, for a while or for good? */
static inline bool vipl__is_gone(const struct vipl__session *session)
{
    return __atomic_load_n(&session->gone, __ATOMIC_ACQUIRE) != VIPL__THERE;
}

/* Is vipd gone, or has it refused an object? Fast paths test this one word; usually it is false. */
static inline bool vipl__in_trouble(const struct vipl__session *session)
{
    return __builtin_expect(__atomic_load_n(&session->trouble, __ATOMIC_ACQUIRE) != 0, 0);
}

/* Is vipd gone for good, or has it refused the VI? Then the library flushes its descriptors. */
static inline bool vipl__vi_is_dead(const struct vipl__vi *vi)
{
    return vipl__in_trouble(vi->session) &&
           (vipl__is_dead(vi->session) ||
            __atomic_load_n(&vi->refused, __ATOMIC_ACQUIRE) != VIPL__TAKEN);
}

/* May the session have VIs for which vipl__vi_is_dead is true? */
static inline bool vipl__some_dead(const struct vipl__session *session)
{
    return vipl__in_trouble(session) &&
           (vipl__is_dead(session) || __atomic_load_n(&session->refused, __ATOMIC_ACQUIRE) != 0);
}

/* Ring vipd's bell (the eventfd). The caller has found after a full barrier that vipd sleeps. */
void vipl__doorbell(struct vipl__session *session);

static inline void vipl__ring_bell(struct vipl__session *session)
{
    if (__builtin_expect(__atomic_load_n(&session->vipd->asleep, __ATOMIC_SEQ_CST) != 0, 0))
        vipl__doorbell(session);
}

/* ---- time (sleep.c) ------------------------------------------------------------------------ */

#define VIPL__NEVER UINT64_MAX

uint64_t vipl__now_ns(void);
/* The time at which a limit of timeout_ms ends; VIPL__NEVER for VIP_INFINITE and 0xFFFFFFFF. */
uint64_t vipl__deadline(VIP_ULONG timeout_ms);

#endif

/*
 * Active Messages II over the Virtual Interface Architecture (libvipam).
 *
 *     cc prog.c -lvipam -lvipl        amrun -n 4 ./a.out
 *
 * An endpoint sends requests to endpoints in its translation table. A request runs a handler at its
 * destination; that handler may send one reply, which runs a handler at the requester. Handlers run
 * only inside AM_Poll, AM_WaitSema, the request calls, and calls that wait. doc/active-messages.md
 * has the rules; this header says what each call takes and returns. Functions return AM_OK or
 * AM_ERR_..., unless said otherwise. Every such function may return AM_ERR_NOT_INIT (before
 * AM_Init) and AM_ERR_BAD_ARG (NULL, out of range).
 *
 * Threads: only one thread at a time may use an AM_SEQ bundle and its endpoints. Several threads
 * may use an AM_PAR bundle and its endpoints at the same time. No thread may use an object while
 * another thread frees or moves the object.
 *
 * am_amx.h has the extensions of the AMX family (SPMD start, statistics); am_old.h has older names.
 */
#ifndef VIPAM_AM_H
#define VIPAM_AM_H

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- types ------------------------------------------------------------------------------ */

typedef struct am_ep *ep_t; /* endpoint */
typedef ep_t ea_t;
typedef struct am_bundle *eb_t; /* bundle of endpoints */
typedef uint64_t tag_t;
typedef uint8_t handler_t; /* index into the handler table */
typedef int op_t;          /* AM_REQUEST_M ...: the kind of the message that came back */

/* Name of an endpoint. Programs may copy and compare names as bytes. */
typedef struct {
    uint64_t process;
    uint32_t number;
    uint16_t host_bytes;
    uint8_t host[18];
} en_t;

/*
 * The type of every entry of the handler table. Before a call, the library casts the entry to the
 * handler's real type. The first form is for languages in which () means: no parameters.
 */
#if defined(__cplusplus) || (defined(__STDC_VERSION__) && __STDC_VERSION__ > 201710L)
typedef void (*amvia_handler_fn_t)(void);
#else
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wstrict-prototypes"
typedef void (*amvia_handler_fn_t)();
#pragma GCC diagnostic pop
#endif

/* ---- constants -------------------------------------------------------------------------- */

#define AM_OK           0
#define AM_ERR_NOT_INIT 1 /* AM_Init was not called */
#define AM_ERR_BAD_ARG  2 /* a parameter is wrong */
#define AM_ERR_RESOURCE 3 /* something is missing, exhausted, or in the wrong state */
#define AM_ERR_NOT_SENT 4 /* defined for old programs; no call returns it */
#define AM_ERR_IN_USE   5 /* an asynchronous request would have to wait; or the port is in use */

#define AM_NONE ((tag_t)0) /* tag of an endpoint that accepts no message; a new endpoint's tag */
#define AM_ALL  ((tag_t)1) /* tag of an endpoint that accepts every message */

#define AM_SEQ 0 /* bundle mode: only one thread at a time uses the bundle */
#define AM_PAR 1 /* bundle mode: several threads use the bundle at the same time */

#define AM_NOEVENTS 0 /* event mask: AM_WaitSema may not be called */
#define AM_NOTEMPTY 1 /* event mask: AM_WaitSema waits for a message */

/* Reasons why a message came back (the status that handler 0 gets). */
#define EBADARGS       1  /* the other process has another VIPAM_VARIANT or protocol version */
#define EBADENTRY      2  /* never used: a request to an unmapped index returns AM_ERR_BAD_ARG */
#define EBADTAG        3  /* the message's tag is not the tag of its destination */
#define EBADHANDLER    4  /* the destination has no handler with this index */
#define EBADSEGOFF     5  /* the destination has no segment, or the offset is outside it */
#define EBADLENGTH     6  /* the payload goes beyond the segment's end, or is above a limit */
#define EBADENDPOINT   7  /* the process does not have this endpoint, or no longer has it */
#define ECONGESTION    8  /* the other process has no resources for a connection */
#define EUNREACHABLE   9  /* the other process or its host is gone */
#define EREPLYREJECTED 10 /* the requester refused our reply; amvia_GetReturned has its reason */

/* Kinds of the message that came back (the opcode that handler 0 gets). */
#define AM_REQUEST_M      1
#define AM_REQUEST_IM     2
#define AM_REQUEST_XFER_M 3
#define AM_REPLY_M        4
#define AM_REPLY_IM       5
#define AM_REPLY_XFER_M   6
#define AM_GET_XFER_M     7 /* a get; only this library has this opcode */

/* ---- start, stop, limits ---------------------------------------------------------------- */

/* The first call starts the library. Later calls are only counted; each call needs an AM_Terminate.
 * AM_ERR_RESOURCE: no memory, or no vipd (amvia_LastError has the reason). */
int AM_Init(void);
/* When AM_Terminate was called as often as AM_Init, it frees everything. AM_ERR_RESOURCE: a handler
 * made this last call; or a handler still runs, and so not everything could be freed. */
int AM_Terminate(void);

int AM_MaxShort(void);       /* largest number of arguments of a message: 16 */
int AM_MaxMedium(void);      /* largest payload of a medium message, in bytes: 65,000 */
int AM_MaxLong(void);        /* largest payload of a long message, in bytes: 1,048,576 */
int AM_MaxNumHandlers(void); /* 256 */
int AM_GetNumHandlers(ep_t ep, int *n);
int AM_SetNumHandlers(ep_t ep, int n); /* AM_ERR_RESOURCE: n is not 256 */
int AM_MaxNumTranslations(int *n);
int AM_GetNumTranslations(ep_t ep, int *n);
/* n below 256 counts as 256. AM_ERR_RESOURCE: n is above the maximum, there is no memory, or an
 * index from n on is mapped. */
int AM_SetNumTranslations(ep_t ep, int n);
int AM_MaxSegLength(uintptr_t *nbytes);

/* ---- bundles and endpoints --------------------------------------------------------------- */

/* type: AM_SEQ or AM_PAR. AM_ERR_RESOURCE: no memory, or vipd has no more completion queues. */
int AM_AllocateBundle(int type, eb_t *endb);
/* A new endpoint has tag AM_NONE, no segment, no translations; its handler 0 prints and aborts. */
int AM_AllocateEndpoint(eb_t bundle, ep_t *endp, en_t *name);
/* As AM_AllocateEndpoint, but the endpoint has a port (1 to 2^31 - 1), from which other processes
 * make its name with amvia_KnownName. name may be NULL. AM_ERR_IN_USE: an endpoint of this process
 * has this port. */
int AM_AllocateKnownEndpoint(eb_t bundle, ep_t *endp, en_t **name, int port);
/* Waits up to 30 s until the messages that the endpoint has sent have left. Drops arrived messages
 * that were not handled. AM_ERR_RESOURCE: a handler of this endpoint runs. */
int AM_FreeEndpoint(ep_t ea);
int AM_FreeBundle(eb_t bundle);
/* Waits until all requests that the endpoint has sent are answered. AM_ERR_RESOURCE: the endpoint
 * is not in the bundle `from`, or a handler makes the call. */
int AM_MoveEndpoint(ep_t ea, eb_t from, eb_t to);
/*
 * n_outstanding_requests: largest number of unanswered requests to one other endpoint, 1 to 1024; a
 * number above 128 counts as 128. Without this call it is VIPAM_CREDITS (default 8). n_endpoints is
 * not used. AM_ERR_RESOURCE: the function was called before for this endpoint.
 */
int AM_SetExpectedResources(ep_t ea, int n_endpoints, int n_outstanding_requests);

/* ---- tag and segment -------------------------------------------------------------------- */

int AM_SetTag(ep_t ea, tag_t tag);
int AM_GetTag(ep_t ea, tag_t *tag);
/*
 * Sets the segment: the memory that long messages to this endpoint write and AMVIA_GetXfer reads.
 * The call may wait (and run handlers) until the writers of the previous segment have agreed to
 * stop. addr NULL with nbytes UINTPTR_MAX is the whole address space. No handler may call this.
 */
int AM_SetSeg(ep_t ea, void *addr, uintptr_t nbytes);
int AM_GetSeg(ep_t ea, void **addr, uintptr_t *nbytes);

/* ---- translation table ------------------------------------------------------------------ */

/* AM_ERR_RESOURCE: the index is in use, or there is no memory. */
int AM_Map(ep_t ea, int index, en_t name, tag_t tag);
int AM_MapAny(ep_t ea, int *index, en_t name, tag_t tag);
/* Waits until all requests to this index are answered. AM_ERR_RESOURCE: the index is not mapped, or
 * a handler makes the call while such requests are under way. */
int AM_UnMap(ep_t ea, int index);
int AM_Unmap(ep_t ea, int index);
/* Returns AM_OK if the index is mapped. */
int AM_GetTranslationInuse(ep_t ea, int index);
int AM_GetTranslationTag(ep_t ea, int index, tag_t *tag);
int AM_GetTranslationName(ep_t ea, int index, en_t *name);

/* ---- handlers ---------------------------------------------------------------------------- */

/*
 * A handler of short messages is void h(void *token, int a0, ...). One of medium and long messages
 * is void h(void *token, void *buf, size_t nbytes, int a0, ...); nbytes may also be an int. Handler
 * 0 is void h(int status, op_t opcode, void *token). AM_SetHandlerAny uses the first free index
 * from 1 on. AM_ERR_RESOURCE: no index is free.
 */
#define AM_SetHandler(ea, handler, function)                                                       \
    AMVIA_SetHandler((ea), (handler), (amvia_handler_fn_t)(function))
#define AM_SetHandlerAny(ea, handler, function)                                                    \
    AMVIA_SetHandlerAny((ea), (handler), (amvia_handler_fn_t)(function))
int AMVIA_SetHandler(ep_t ea, handler_t handler, amvia_handler_fn_t function);
int AMVIA_SetHandlerAny(ep_t ea, handler_t *handler, amvia_handler_fn_t function);

/* ---- progress, events, the message at hand ------------------------------------------------ */

int AM_Poll(eb_t bundle);
int AM_SetEventMask(eb_t bundle, int mask);
int AM_GetEventMask(eb_t bundle, int *mask);
/* Handles an arrived message; if there is none, sleeps until one arrives. AM_ERR_RESOURCE:
 * the event mask is AM_NOEVENTS, or a handler makes the call. */
int AM_WaitSema(eb_t bundle);

/* token is that of a running handler; its endpoint is not freed. AM_ERR_RESOURCE: the handler has
 * returned (the library may miss this while another handler of the endpoint runs). */
int AM_GetSourceEndpoint(void *token, en_t *name);
int AM_GetDestEndpoint(void *token, ep_t *ea);
int AM_GetMsgTag(void *token, tag_t *tag);

/* ---- requests, replies, gets --------------------------------------------------------------- */

/*
 * The macros of am_macros.h call these functions. The functions ...VA are the same with a va_list.
 * A request also returns AM_ERR_BAD_ARG if the index is not mapped or nbytes is too large. It
 * returns AM_ERR_RESOURCE if a handler makes it, and AM_ERR_IN_USE if it is asynchronous and would
 * have to wait for a credit. A reply returns AM_ERR_RESOURCE if token is not a running request
 * handler's, or this handler has already replied. The program may change the memory at source after
 * the return, but after an asynchronous request only when the reply's handler starts.
 */
int AMVIA_Request(ep_t ea, int dest, handler_t handler, int numargs, ...);
int AMVIA_RequestI(ep_t ea, int dest, handler_t handler, void *source, size_t nbytes, int numargs,
                   ...);
int AMVIA_RequestXfer(ep_t ea, int dest, uintptr_t dest_offset, handler_t handler, void *source,
                      size_t nbytes, int async, int numargs, ...);
int AMVIA_Reply(void *token, handler_t handler, int numargs, ...);
int AMVIA_ReplyI(void *token, handler_t handler, void *source, size_t nbytes, int numargs, ...);
int AMVIA_ReplyXfer(void *token, uintptr_t dest_offset, handler_t handler, void *source,
                    size_t nbytes, int numargs, ...);
/* Copies nbytes from source_offset in the other endpoint's segment to dest_offset in the segment of
 * ea. Then the handler of ea runs, as for a long reply. The other endpoint runs no handler. */
int AMVIA_GetXfer(ep_t ea, int dest, uintptr_t source_offset, handler_t handler,
                  uintptr_t dest_offset, size_t nbytes, int async, int numargs, ...);

int AMVIA_RequestVA(ep_t ea, int dest, handler_t handler, int numargs, va_list args);
int AMVIA_RequestIVA(ep_t ea, int dest, handler_t handler, void *source, size_t nbytes, int numargs,
                     va_list args);
int AMVIA_RequestXferVA(ep_t ea, int dest, uintptr_t dest_offset, handler_t handler, void *source,
                        size_t nbytes, int async, int numargs, va_list args);
int AMVIA_ReplyVA(void *token, handler_t handler, int numargs, va_list args);
int AMVIA_ReplyIVA(void *token, handler_t handler, void *source, size_t nbytes, int numargs,
                   va_list args);
int AMVIA_ReplyXferVA(void *token, uintptr_t dest_offset, handler_t handler, void *source,
                      size_t nbytes, int numargs, va_list args);
int AMVIA_GetXferVA(ep_t ea, int dest, uintptr_t source_offset, handler_t handler,
                    uintptr_t dest_offset, size_t nbytes, int async, int numargs, va_list args);

#include "am_macros.h"

/* ---- beyond AM-II --------------------------------------------------------------------------- */

/* The reason why this thread's last failing call did not return AM_OK; never NULL. */
const char *amvia_LastError(void);

/* The name of the endpoint that AM_AllocateKnownEndpoint makes with this port on the host. host: a
 * name as for VipNSGetHostByName, or NULL for this host. AM_ERR_RESOURCE: unknown host. */
int amvia_KnownName(const char *host, int port, en_t *name);

/*
 * The message that came back. token is the token of handler 0. For this token AM_GetSourceEndpoint
 * returns the endpoint that refused the message, and AM_GetDestEndpoint returns our own endpoint.
 */
typedef struct {
    int reason;        /* E...: handler 0's status or, if EREPLYREJECTED, the requester's reason */
    int dest;          /* translation index of a request, -1 for a reply */
    handler_t handler; /* the handler that the message should have run */
    int numargs;       /* 0 to 16 */
    int32_t arg[16];
    size_t nbytes;    /* payload */
    void *source;     /* request: the payload's address that the caller gave; reply: NULL */
    uintptr_t offset; /* in the destination segment */
} amvia_returned_t;
int amvia_GetReturned(void *token, amvia_returned_t *returned);

/* Counters of the library since AM_Init, for tests and experiments. */
typedef struct {
    uint64_t connects;      /* connections made, by either side */
    uint64_t reclaimed;     /* connections closed to make room for others */
    uint64_t live;          /* connections now */
    uint64_t live_max;      /* largest number of connections at one time */
    uint64_t longs_direct;  /* long messages written straight into the destination's segment */
    uint64_t longs_copied;  /* long messages that the destination copied */
    uint64_t regions_found; /* long messages whose source memory was registered already */
    uint64_t regions_new;   /* long messages whose source memory had to be registered */
    uint64_t dropped;       /* invalid messages from other processes */
} amvia_counts_t;
int amvia_GetCounts(amvia_counts_t *counts);

#ifdef __cplusplus
}
#endif

#endif

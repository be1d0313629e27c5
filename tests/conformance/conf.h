/*
 * What the conformance programs share. They use vipl.h and vipl_ext.h only and are run by
 * tests/lib/two_vipd.sh, so that one process plays both ends: end A on one vipd, end B on the other
 * (or both on the same one).
 *
 * Owns: opening an end, connecting two ends, a registered block of memory per end with descriptors
 * in front and buffers behind. Every failure ends the test with VipxLastError in the message.
 */
#ifndef TESTS_CONF_H
#define TESTS_CONF_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <vipl.h>
#include <vipl_ext.h>

#include "record.h"

/*
 * Longest time that anything which must happen may take, so that what hangs has a name. Much longer than any limit of
 * vipd's (peer_dead is 10 s): how long something takes on a busy machine is no result of a test.
 */
#define CONF_LIMIT_MS 120000

#define CONF_DESCS      64  /* descriptors of one end */
#define CONF_DESC_BYTES 128 /* room of one: up to six segments */

/* Buffer of one end: 256 KiB, unless the program defines another number of bytes. To register memory costs time. */
extern const size_t conf_buffer_bytes;

/* Most errors that one end remembers. */
#define CONF_ERRORS 64

/* One end of a connection: NIC handle, VI, registered memory. */
struct end {
    char side; /* 'A' or 'B' */
    VIP_NIC_HANDLE nic;
    VIP_VI_HANDLE vi;
    VIP_RELIABILITY_LEVEL level; /* of vi */
    VIP_CQ_HANDLE cq;            /* NULL unless the test bound one */
    VIP_MEM_HANDLE handle;
    char *memory; /* descriptors, then the buffer */
    char *buffer; /* conf_buffer_bytes */
    size_t memory_bytes;
    VIP_NIC_ATTRIBUTES attrs;
    unsigned error_count; /* asynchronous errors so far; atomic */
    VIP_ERROR_DESCRIPTOR errors[CONF_ERRORS];
};

/* Any address that this library handles. */
union conf_address {
    VIP_NET_ADDRESS net;
    unsigned char bytes[4 + 24 + 128];
};

/* The call must return `expected`; it may also be the result of the VIPL call that this thread made last. */
#define CONF_RETURNS(expected, call)                                                               \
    do {                                                                                           \
        VIP_RETURN conf_got = (call);                                                              \
        if (conf_got != (expected))                                                                \
            fail_msg("%s returned %d, not %s: %s", #call, (int)conf_got, #expected,                \
                     VipxLastError());                                                             \
        conf_expected(conf_got);                                                                   \
    } while (0)
#define CONF_OK(call) CONF_RETURNS(VIP_SUCCESS, call)

/* Choose the vipd that the next VipOpenNic talks to. */
void conf_use(char side);

/* Open the NIC of a side, register its memory (RDMA enabled), collect its errors. */
void conf_open(struct end *end, char side);
/* A VI with that level; both queues bound to end->cq if it is set. */
void conf_vi(struct end *end, VIP_RELIABILITY_LEVEL level);
/* conf_open and conf_vi. */
void conf_ready(struct end *end, char side, VIP_RELIABILITY_LEVEL level);
void conf_close(struct end *end);

/* Address of a side's NIC with a discriminator; and a local one, its host part empty. */
void conf_address(union conf_address *ret, struct end *asker, char side, const void *disc,
                  size_t disc_bytes);
void conf_local(union conf_address *ret, const void *disc, size_t disc_bytes);

/*
 * VipConnectRequest, again while nobody waits there yet, as clients do: on a busy machine a server's
 * thread may come late to its VipConnectWait.
 */
VIP_RETURN conf_ask(VIP_VI_HANDLE vi, const union conf_address *local,
                    const union conf_address *remote, VIP_ULONG timeout_ms);

/* Connect client to server on a discriminator of this call's own. */
void conf_connect(struct end *client, struct end *server);
/*
 * A request that server's VipConnectWait has returned and that the client has given up since, with VIP_TIMEOUT. On
 * a busy machine a short limit may be over before the server has it: then a longer one is tried.
 */
VIP_CONN_HANDLE conf_timed_out_request(struct end *client, struct end *server);

/* a asks, b accepts, and the accept must return `code`; then b rejects. Both are Idle again. */
void conf_conflict(struct end *a, struct end *b, VIP_RETURN code);

/* A discriminator that no other test uses. */
unsigned conf_disc(void);

/* Descriptor number i, zeroed, with one data segment [offset, offset + bytes) of the buffer. */
VIP_DESCRIPTOR *conf_desc(struct end *end, unsigned i, size_t offset, size_t bytes);
/* Descriptor number i, zeroed, without segments. */
VIP_DESCRIPTOR *conf_empty(struct end *end, unsigned i);
/* An RDMA Write of [offset, offset + bytes) of the buffer to the same place + to at the peer's. */
VIP_DESCRIPTOR *conf_write(struct end *end, unsigned i, size_t offset, size_t bytes,
                           const struct end *peer, size_t to);

void conf_post_send(struct end *end, VIP_DESCRIPTOR *desc);
void conf_post_recv(struct end *end, VIP_DESCRIPTOR *desc);
/* Wait for the head of a queue: it must be `desc`, good. */
void conf_sent(struct end *end, VIP_DESCRIPTOR *desc);
void conf_received(struct end *end, VIP_DESCRIPTOR *desc, size_t bytes);
/* Wait for the head of a queue: it must be `desc` with exactly these error bits. */
void conf_failed(struct end *end, bool recv, VIP_DESCRIPTOR *desc, VIP_UINT32 errors);

/* Fill and compare content that depends on the position and on a seed. */
void conf_fill(void *memory, size_t bytes, unsigned seed);
void conf_same(const void *memory, size_t bytes, unsigned seed);

/* State of the end's VI, and waiting for one (bounded). */
VIP_VI_STATE conf_state(struct end *end);
void conf_await_state(struct end *end, VIP_VI_STATE state);
/* Wait until an asynchronous error with that code has come (bounded); its descriptor. */
VIP_ERROR_DESCRIPTOR conf_await_error(struct end *end, VIP_ERROR_CODE code);
/* Asynchronous errors so far; and start counting again. */
unsigned conf_error_count(const struct end *end);
void conf_forget_errors(struct end *end);
/* Sleep a little in a loop that is bounded by CONF_LIMIT_MS; false when the time is over. */
bool conf_pause(uint64_t *started_ns);
uint64_t conf_now_ns(void);

/* Is this the medium of the NICs: "udp", "udp6", "ether", "lo"? */
bool conf_medium(const char *medium);
/* Bytes of a host address on it. */
#define CONF_HOST_BYTES (conf_medium("udp6") ? 18 : 6)

/* Is the network between the ends one that loses packets? Then an unreliable message may be lost. */
bool conf_lossy(void);

/* Both ends ready and connected; and the end of both. */
void conf_pair(struct end *a, struct end *b, VIP_RELIABILITY_LEVEL level);
void conf_close_pair(struct end *a, struct end *b);
/* The same with VIs of that attributes; Ptag NULL. */
void conf_pair_with(struct end *a, struct end *b, const VIP_VI_ATTRIBUTES *attrs);

/* Descriptor number i as it is. */
VIP_DESCRIPTOR *conf_at(const struct end *end, unsigned i);
/* An RDMA Read of the peer's [to, to + bytes) into the same place of the buffer + offset. */
VIP_DESCRIPTOR *conf_read(struct end *end, unsigned i, size_t offset, size_t bytes,
                          const struct end *peer, size_t to);

/*
 * Post `send` at a, and take from b's receive queue what comes of it, which must be `recv`; then
 * take the send. An unreliable message that a lossy network swallows is sent again. Returns what
 * VipRecvWait returned; *ret_send (may be NULL) what VipSendWait did.
 */
VIP_RETURN conf_carry(struct end *a, VIP_DESCRIPTOR *send, struct end *b, VIP_DESCRIPTOR *recv,
                      VIP_RETURN *ret_send);
/* A small message goes from a to b, byte for byte: the connection stands. Descriptors 62, 63. */
void conf_alive(struct end *a, struct end *b);
/* The VI came to the Error state and the callback heard VIP_ERROR_CONN_LOST of it. */
void conf_broken(struct end *end);
/*
 * Post sends or RDMA Writes like `send` until the peer's callback heard `code`: once, unless an
 * unreliable message may be lost. The sends are taken back if `reap`.
 */
VIP_ERROR_DESCRIPTOR conf_provoke(struct end *a, VIP_DESCRIPTOR *send, struct end *b,
                                  VIP_ERROR_CODE code, bool reap);
/* The head of a queue, whatever its result: it must be `desc`. Returns the status. */
VIP_UINT32 conf_take(struct end *end, bool recv, VIP_DESCRIPTOR *desc);

/* Take every completed descriptor of both queues back, whatever it says. */
void conf_drain(struct end *end);
/* Both ends disconnect, their queues drained: Idle again, ready for another connection. */
void conf_disconnect_idle(struct end *a, struct end *b);

/* Disconnect, take every descriptor back, destroy the VI: all must succeed. */
void conf_drop_vi(struct end *end);

#endif

/*
 * Functions for all conformance programs, which use only vipl.h and vipl_ext.h. two_vipd.sh runs
 * each program. One process plays both ends: end A on one vipd, end B on another or the same vipd.
 *
 * The functions open and connect ends. Each end has one registered block of memory: descriptors,
 * then the buffer. Every failure ends the test with VipxLastError in the message.
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

/* Longest wait for an expected event, in ms. Then the test fails and names the call. This is much
 * longer than any limit of vipd (peer_dead is 10 s): a test must not fail on a busy machine. */
#define CONF_LIMIT_MS 120000

#define CONF_DESCS      64  /* descriptors of one end */
#define CONF_DESC_BYTES 128 /* bytes for one descriptor: up to six segments */

/* Bytes of an end's buffer: 256 KiB, which register quickly, or a number that a program defines. */
extern const size_t conf_buffer_bytes;

/* Most asynchronous errors that struct end keeps. */
#define CONF_ERRORS 64

/* One end of a connection: NIC handle, VI, registered memory. */
struct end {
    char side; /* 'A' or 'B' */
    VIP_NIC_HANDLE nic;
    VIP_VI_HANDLE vi;
    VIP_RELIABILITY_LEVEL level; /* of vi */
    VIP_CQ_HANDLE cq;            /* NULL if the test made no CQ */
    VIP_MEM_HANDLE handle;
    char *memory; /* descriptors, then the buffer */
    char *buffer; /* has conf_buffer_bytes */
    size_t memory_bytes;
    VIP_NIC_ATTRIBUTES attrs;
    unsigned error_count; /* asynchronous errors so far; atomic */
    VIP_ERROR_DESCRIPTOR errors[CONF_ERRORS];
};

/* Room for any address that libvipl accepts. */
union conf_address {
    VIP_NET_ADDRESS net;
    unsigned char bytes[4 + 24 + 128];
};

/* `call` is a VIPL call, or the result of this thread's last one. Its value must be `expected`. */
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

/* Open a side's NIC, register memory for `end` (RDMA enabled), collect the NIC's errors. */
void conf_open(struct end *end, char side);
/* Create a VI with this reliability level. If end->cq is set, bind both queues to it. */
void conf_vi(struct end *end, VIP_RELIABILITY_LEVEL level);
/* Call conf_open, then conf_vi. */
void conf_ready(struct end *end, char side, VIP_RELIABILITY_LEVEL level);
void conf_close(struct end *end);

/* conf_address makes the address of a side's NIC with a discriminator. conf_local makes a local
 * address with a discriminator and an empty host part. */
void conf_address(union conf_address *ret, struct end *asker, char side, const void *disc,
                  size_t disc_bytes);
void conf_local(union conf_address *ret, const void *disc, size_t disc_bytes);

/* Repeat VipConnectRequest while no server waits at the address, because on a busy machine a
 * server's thread may reach VipConnectWait late. */
VIP_RETURN conf_ask(VIP_VI_HANDLE vi, const union conf_address *local,
                    const union conf_address *remote, VIP_ULONG timeout_ms);

/* Connect client to server with a discriminator that no other test uses. */
void conf_connect(struct end *client, struct end *server);
/* Returns a connection request that the server's VipConnectWait has taken, after the client's
 * VipConnectRequest has returned VIP_TIMEOUT. On a busy machine the client's time limit may end
 * before the server has the request. Then the function tries again with a longer limit. */
VIP_CONN_HANDLE conf_timed_out_request(struct end *client, struct end *server);

/* a requests; b's VipConnectAccept must return `code`; b rejects. Then both VIs are Idle again. */
void conf_conflict(struct end *a, struct end *b, VIP_RETURN code);

/* Returns a discriminator that no other test uses. */
unsigned conf_disc(void);

/* Zero descriptor number i, give it the data segment [offset, offset + bytes) of the buffer. */
VIP_DESCRIPTOR *conf_desc(struct end *end, unsigned i, size_t offset, size_t bytes);
/* Zero descriptor number i and return it. It has no segments. */
VIP_DESCRIPTOR *conf_empty(struct end *end, unsigned i);
/* Make descriptor i an RDMA Write of `bytes` bytes from buffer + offset to peer->buffer + to. */
VIP_DESCRIPTOR *conf_write(struct end *end, unsigned i, size_t offset, size_t bytes,
                           const struct end *peer, size_t to);

void conf_post_send(struct end *end, VIP_DESCRIPTOR *desc);
void conf_post_recv(struct end *end, VIP_DESCRIPTOR *desc);
/* Wait until the first descriptor of a queue completes. It must be `desc`, without an error. */
void conf_sent(struct end *end, VIP_DESCRIPTOR *desc);
void conf_received(struct end *end, VIP_DESCRIPTOR *desc, size_t bytes);
/* Wait until the first descriptor of a queue completes. It must be `desc` with these errors. */
void conf_failed(struct end *end, bool recv, VIP_DESCRIPTOR *desc, VIP_UINT32 errors);

/* conf_fill writes bytes that depend on position and seed. conf_same compares memory with them. */
void conf_fill(void *memory, size_t bytes, unsigned seed);
void conf_same(const void *memory, size_t bytes, unsigned seed);

/* conf_state returns the VI's state. conf_await_state waits at most CONF_LIMIT_MS for a state. */
VIP_VI_STATE conf_state(struct end *end);
void conf_await_state(struct end *end, VIP_VI_STATE state);
/* Wait at most CONF_LIMIT_MS for an asynchronous error with this code. Returns the error. */
VIP_ERROR_DESCRIPTOR conf_await_error(struct end *end, VIP_ERROR_CODE code);
/* conf_error_count returns the number of asynchronous errors. conf_forget_errors sets it to 0. */
unsigned conf_error_count(const struct end *end);
void conf_forget_errors(struct end *end);
/* Sleep a little in a waiting loop. Returns false when the loop has run for CONF_LIMIT_MS. */
bool conf_pause(uint64_t *started_ns);
uint64_t conf_now_ns(void);

/* True if the NICs use this medium: "udp", "udp6", "ether" or "lo". */
bool conf_medium(const char *medium);
/* Bytes of a host address on the medium of the NICs. */
#define CONF_HOST_BYTES (conf_medium("udp6") ? 18 : 6)

/* True if the network between the ends loses packets. Then an unreliable message may be lost. */
bool conf_lossy(void);

/* conf_pair makes both ends ready and connects them. conf_close_pair closes both ends. */
void conf_pair(struct end *a, struct end *b, VIP_RELIABILITY_LEVEL level);
void conf_close_pair(struct end *a, struct end *b);
/* Like conf_pair, but the VIs get these attributes (attrs->Ptag must be NULL). */
void conf_pair_with(struct end *a, struct end *b, const VIP_VI_ATTRIBUTES *attrs);

/* Returns descriptor number i and does not change it. */
VIP_DESCRIPTOR *conf_at(const struct end *end, unsigned i);
/* Make descriptor i an RDMA Read of `bytes` bytes from peer->buffer + to into buffer + offset. */
VIP_DESCRIPTOR *conf_read(struct end *end, unsigned i, size_t offset, size_t bytes,
                          const struct end *peer, size_t to);

/* Post `send` at a, wait for `recv` to complete at b, then wait for `send` to complete at a. If the
 * network lost an unreliable message, send the message again. Returns the result of VipRecvWait;
 * *ret_send (may be NULL) gets the result of VipSendWait. */
VIP_RETURN conf_carry(struct end *a, VIP_DESCRIPTOR *send, struct end *b, VIP_DESCRIPTOR *recv,
                      VIP_RETURN *ret_send);
/* Check that the connection carries a small message from a to b. Uses descriptors 62 and 63. */
void conf_alive(struct end *a, struct end *b);
/* Wait until the VI is in the Error state and the callback has got VIP_ERROR_CONN_LOST for it. */
void conf_broken(struct end *end);
/* Post `send` (any operation of a send queue) until b's error callback gets `code`. Repeats only if
 * the network may lose an unreliable message. If `reap`, also take the last `send`. */
VIP_ERROR_DESCRIPTOR conf_provoke(struct end *a, VIP_DESCRIPTOR *send, struct end *b,
                                  VIP_ERROR_CODE code, bool reap);
/* Wait until the first descriptor of a queue completes, with or without an error, and take it. It
 * must be `desc`. Returns the error bits of its status. */
VIP_UINT32 conf_take(struct end *end, bool recv, VIP_DESCRIPTOR *desc);

/* Take every completed descriptor of both queues, with any status. */
void conf_drain(struct end *end);
/* Disconnect both ends and drain their queues. Both VIs are Idle and can connect again. */
void conf_disconnect_idle(struct end *a, struct end *b);

/* Disconnect the VI, take all its descriptors, destroy the VI. Every call must succeed. */
void conf_drop_vi(struct end *end);

#endif

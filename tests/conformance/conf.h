/*
 * Functions that all conformance programs use. The programs call only vipl.h and vipl_ext.h. tests/lib/two_vipd.sh
 * runs each program, and one process plays both ends: end A on one vipd, end B on the other (or on the same one).
 *
 * Owns: opening an end, connecting two ends, one registered block of memory for each end, with descriptors
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
 * Longest wait for any expected event: a call that hangs then fails with its name. Much longer than any limit
 * of vipd (peer_dead is 10 s), because a test must not fail on a busy machine.
 */
#define CONF_LIMIT_MS 120000

#define CONF_DESCS      64  /* descriptors of one end */
#define CONF_DESC_BYTES 128 /* bytes for one descriptor: up to six segments */

/* Bytes of an end's buffer: 256 KiB, unless the program defines another number. Registering memory costs time. */
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

/* Room for any address that libvipl accepts. */
union conf_address {
    VIP_NET_ADDRESS net;
    unsigned char bytes[4 + 24 + 128];
};

/* `call` must return `expected`. It may also be a variable with the result of this thread's last VIPL call. */
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
/* Create a VI with that level; bind both queues to end->cq if it is set. */
void conf_vi(struct end *end, VIP_RELIABILITY_LEVEL level);
/* conf_open and conf_vi. */
void conf_ready(struct end *end, char side, VIP_RELIABILITY_LEVEL level);
void conf_close(struct end *end);

/* The address of a side's NIC with a discriminator; and a local address, whose host part is empty. */
void conf_address(union conf_address *ret, struct end *asker, char side, const void *disc,
                  size_t disc_bytes);
void conf_local(union conf_address *ret, const void *disc, size_t disc_bytes);

/*
 * VipConnectRequest, repeated while no server waits at the address. On a busy machine a server's thread may
 * reach VipConnectWait late.
 */
VIP_RETURN conf_ask(VIP_VI_HANDLE vi, const union conf_address *local,
                    const union conf_address *remote, VIP_ULONG timeout_ms);

/* Connect client to server with a discriminator that no other test uses. */
void conf_connect(struct end *client, struct end *server);
/*
 * Returns a request that VipConnectWait gave to the server and for which the client's call then returned
 * VIP_TIMEOUT. On a busy machine the time limit may end before the server has the request: the function then tries
 * a longer limit.
 */
VIP_CONN_HANDLE conf_timed_out_request(struct end *client, struct end *server);

/* a connects; b's accept must return `code`; then b rejects. Both VIs are Idle again. */
void conf_conflict(struct end *a, struct end *b, VIP_RETURN code);

/* Returns a discriminator that no other test uses. */
unsigned conf_disc(void);

/* Descriptor number i, zeroed, with one data segment [offset, offset + bytes) of the buffer. */
VIP_DESCRIPTOR *conf_desc(struct end *end, unsigned i, size_t offset, size_t bytes);
/* Descriptor number i, zeroed, without segments. */
VIP_DESCRIPTOR *conf_empty(struct end *end, unsigned i);
/* Descriptor number i: RDMA Write of [offset, offset + bytes) of the buffer to offset `to` of the peer's buffer. */
VIP_DESCRIPTOR *conf_write(struct end *end, unsigned i, size_t offset, size_t bytes,
                           const struct end *peer, size_t to);

void conf_post_send(struct end *end, VIP_DESCRIPTOR *desc);
void conf_post_recv(struct end *end, VIP_DESCRIPTOR *desc);
/* Wait for the head of a queue: it must be `desc`, completed without an error. */
void conf_sent(struct end *end, VIP_DESCRIPTOR *desc);
void conf_received(struct end *end, VIP_DESCRIPTOR *desc, size_t bytes);
/* Wait for the head of a queue: it must be `desc` with exactly these error bits. */
void conf_failed(struct end *end, bool recv, VIP_DESCRIPTOR *desc, VIP_UINT32 errors);

/* Fill and compare content that depends on the position and on a seed. */
void conf_fill(void *memory, size_t bytes, unsigned seed);
void conf_same(const void *memory, size_t bytes, unsigned seed);

/* The state of the end's VI; and wait until the VI has a state (at most CONF_LIMIT_MS). */
VIP_VI_STATE conf_state(struct end *end);
void conf_await_state(struct end *end, VIP_VI_STATE state);
/* Wait for an asynchronous error with that code (at most CONF_LIMIT_MS); returns its error descriptor. */
VIP_ERROR_DESCRIPTOR conf_await_error(struct end *end, VIP_ERROR_CODE code);
/* The number of asynchronous errors so far; and set this number to 0. */
unsigned conf_error_count(const struct end *end);
void conf_forget_errors(struct end *end);
/* Sleep a little in a waiting loop; false when the loop has run for CONF_LIMIT_MS. */
bool conf_pause(uint64_t *started_ns);
uint64_t conf_now_ns(void);

/* True if the NICs use this medium: "udp", "udp6", "ether" or "lo". */
bool conf_medium(const char *medium);
/* Bytes of a host address on the medium of the NICs. */
#define CONF_HOST_BYTES (conf_medium("udp6") ? 18 : 6)

/* True if the network between the ends loses packets. Then an unreliable message may be lost. */
bool conf_lossy(void);

/* Make both ends ready and connect them; and close both. */
void conf_pair(struct end *a, struct end *b, VIP_RELIABILITY_LEVEL level);
void conf_close_pair(struct end *a, struct end *b);
/* As conf_pair, with these attributes for the VIs; its Ptag is NULL. */
void conf_pair_with(struct end *a, struct end *b, const VIP_VI_ATTRIBUTES *attrs);

/* Descriptor number i, unchanged. */
VIP_DESCRIPTOR *conf_at(const struct end *end, unsigned i);
/* Descriptor number i: RDMA Read of [to, to + bytes) of the peer's buffer to `offset` of the own buffer. */
VIP_DESCRIPTOR *conf_read(struct end *end, unsigned i, size_t offset, size_t bytes,
                          const struct end *peer, size_t to);

/*
 * Post `send` at a; take the completed descriptor from b's receive queue, which must be `recv`; then take the send.
 * An unreliable message that a lossy network loses is sent again. Returns the result of VipRecvWait; *ret_send
 * (may be NULL) gets the result of VipSendWait.
 */
VIP_RETURN conf_carry(struct end *a, VIP_DESCRIPTOR *send, struct end *b, VIP_DESCRIPTOR *recv,
                      VIP_RETURN *ret_send);
/* Check that the connection works: a small message goes from a to b, byte for byte. Uses descriptors 62 and 63. */
void conf_alive(struct end *a, struct end *b);
/* Wait until the VI is in the Error state and the callback has got VIP_ERROR_CONN_LOST for it. */
void conf_broken(struct end *end);
/*
 * Post sends or RDMA Writes like `send` until the peer's callback gets `code`: one post, or more if an
 * unreliable message may be lost. If `reap`, take every completed send.
 */
VIP_ERROR_DESCRIPTOR conf_provoke(struct end *a, VIP_DESCRIPTOR *send, struct end *b,
                                  VIP_ERROR_CODE code, bool reap);
/* Take the head of a queue, completed with or without an error. It must be `desc`. Returns its status. */
VIP_UINT32 conf_take(struct end *end, bool recv, VIP_DESCRIPTOR *desc);

/* Take every completed descriptor of both queues, with any status. */
void conf_drain(struct end *end);
/* Disconnect both ends and drain their queues: both VIs are Idle again, ready for another connection. */
void conf_disconnect_idle(struct end *a, struct end *b);

/* Disconnect, take every descriptor, destroy the VI: every call must succeed. */
void conf_drop_vi(struct end *end);

#endif

/* Inside libvipam: the functions that its files share. objects.h has the objects and terms. */
#ifndef AM_INTERNAL_H
#define AM_INTERNAL_H

#include "am/objects.h"
#include "am/parts.h"

struct pollfd;

extern struct am_net am_net;

/* Number of handlers that run in this thread. While it is not 0, all functions that would have to
 * poll fail. */
extern __thread int am_in_handler;

/* ---- base.c ---------------------------------------------------------------------------------- */

/* Store the reason for amvia_LastError, print it if am_verbose is set, and return `code`. */
int am_fail(int code, const char *format, ...) __attribute__((format(printf, 2, 3)));
extern int am_verbose;
/* Fail with AM_ERR_IN_USE. Programs may repeat the call in a loop, so the reason is never formatted
 * or printed. */
int am_busy(void);
int64_t am_now_ns(void);

static inline void am_lock(struct am_bundle *bundle)
{
    if (bundle->par)
        pthread_mutex_lock(&bundle->lock);
}

static inline void am_unlock(struct am_bundle *bundle)
{
    if (bundle->par)
        pthread_mutex_unlock(&bundle->lock);
}

/* Copy the arguments of a variadic call to an array of a message. */
static inline void am_read_args(int32_t *arg, int numargs, va_list args)
{
    for (int i = 0; i < numargs; i++)
        arg[i] = (int32_t)va_arg(args, int);
}

/* Wake the bundle's sleepers, and make its next poll call am_bundle_attend. Any thread. */
void am_attend(struct am_bundle *bundle);
/* Call am_attend for all bundles. Under am_net.lock. */
void am_attend_all(void);
/* Count one more connection. false: the process is at its limit already. Under am_net.lock. */
bool am_room_take(void);
void am_room_fill(void); /* count one more connection, even above the limit */
int am_listen(uint64_t discriminator, VIPX_LISTENER *ret);

/* ---- name.c, stats.c, pause.c ---------------------------------------------------------------- */

bool am_name_equal(const en_t *a, const en_t *b);
void am_name_text(const en_t *name, char text[AM_NAME_TEXT]);
void am_stats_sent(struct am_ep *ep, const struct am_message *msg, bool request);
void am_stats_received(struct am_ep *ep, const struct am_message *msg);
/* Wait without sending or receiving, longer after more `turns` (earlier waits in a row). */
void am_pause(struct am_bundle *bundle, unsigned turns);

/* ---- endpoint.c ------------------------------------------------------------------------------ */

struct am_ep *am_ep_find(uint32_t number); /* under am_net.lock */
unsigned am_ep_depth(const struct am_ep *ep);
/* Wait, 30 s at most, until the messages of this endpoint have left. */
void am_ep_flush(struct am_ep *ep);
int am_set_translation_tag(struct am_ep *ep, int index, tag_t tag);

/* ---- map.c ----------------------------------------------------------------------------------- */

/* The map of a pair. If there is none, am_map_get makes it (NULL: no memory). Under am_net.lock. */
struct am_map *am_map_get(struct am_ep *ep, const en_t *name);
struct am_map *am_map_find(struct am_ep *ep, const en_t *name);
/* Free the map if nothing refers to it. Under am_net.lock. */
void am_map_drop(struct am_map *map);

/* ---- block.c --------------------------------------------------------------------------------- */

/*
 * am_block_get gets a block of conn->block_bytes and its memory handles. The other side may write
 * to the block from conn->landing_at on. Returns 0, or -1 with VipxLastError's text. am_block_put
 * gives the block back; no descriptor of the block may be under way then. Any thread.
 */
int am_block_get(struct am_conn *conn);
void am_block_put(struct am_conn *conn);
/* Free the blocks that were kept for later connections. Call it before the NIC is closed. */
void am_block_flush(void);

/* ---- conn.c ---------------------------------------------------------------------------------- */

/* Make a connection whose VIs are not connected yet. NULL: amvia_LastError has the reason. */
struct am_conn *am_conn_new(struct am_map *map, unsigned k, unsigned peer_k);
/* Disconnect and free the connection. conn may be NULL. */
void am_conn_free(struct am_conn *conn);
/* Take the completed send descriptors out of the bundle's send_cq. */
void am_reap(struct am_bundle *bundle);
/* Wait until send buffer n of a lane is free, and return it. */
struct am_message *am_slot_get(struct am_lane *lane, unsigned n);
/* Post the message that is in send buffer n. On a broken connection this has no effect. */
void am_slot_post(struct am_lane *lane, unsigned n, size_t bytes);
/* Post an RDMA Write, and then the message that is in send buffer n. */
void am_slot_post_write(struct am_lane *lane, unsigned n, size_t msg_bytes,
                        const struct am_transfer *transfer);
/* Have all posted send descriptors completed? */
bool am_conn_sent(struct am_conn *conn);
/* Post the descriptor of receive buffer n. */
void am_recv_post(struct am_lane *lane, unsigned n);
/* Put the connection first in the bundle's list by last use (touch); remove it (unlist). */
void am_conn_touch(struct am_conn *conn);
void am_conn_unlist(struct am_conn *conn);
/* Record whether the connection has control messages to send. The bundle counts the connections
 * that have some. While the count is not 0, each poll sends the control messages that are due. */
void am_control_set(struct am_conn *conn, bool work);

/* ---- end.c ----------------------------------------------------------------------------------- */

/* When a connection has broken or is closed: move it from its map to bundle->dead. */
void am_conn_broken(struct am_conn *conn);
/* Free a dead connection that nothing refers to any more. */
void am_map_bury(struct am_conn *conn);

/* ---- control.c ------------------------------------------------------------------------------- */

void am_control_send(struct am_conn *conn, uint8_t kind, bool answer);
void am_control_arrived(struct am_conn *conn, uint8_t kind, const struct am_wire_grant *grant);
/* Send the control messages that are due. */
void am_control_work(struct am_conn *conn);
/* Close the connection by agreement of both sides. */
void am_conn_close(struct am_conn *conn);
/* Revoke all permissions to write into the segment. Each one ends when its holder has agreed. */
void am_segment_revoke(struct am_ep *ep);
/* The number of connections whose other side has not agreed to am_segment_revoke yet. */
unsigned am_segment_writers(struct am_ep *ep);
/* May another side write into the segment? */
bool am_segment_granted(struct am_ep *ep);
void am_segment_drop(struct am_ep *ep);
/* A long message was copied: if possible, permit the other side to write the next long message
 * straight into the segment. */
void am_grant_consider(struct am_conn *conn, const struct am_message *msg);

/* ---- send.c ---------------------------------------------------------------------------------- */

/* How am_send_message sends one message. */
struct am_way {
    struct am_lane *lane;
    unsigned slot;          /* number of the send buffer */
    struct am_range *range; /* result: the range of a long message in the other side's segment */
    bool wait;              /* return only when the program may change the source */
};

/* Fill the buffer that `way` names, and post it. Sets way->lane. Returns AM_OK, or
 * AM_ERR_RESOURCE. */
int am_send_message(struct am_conn *conn, const struct am_message *head, const int32_t *arg,
                    const void *source, struct am_way *way);
/* Send a reply to the request with this id. */
int am_send_reply(struct am_conn *conn, uint16_t id, const struct am_message *head,
                  const int32_t *arg, const void *source);
/* The tag for a reply: the tag in the requester's translation entry. Without an entry it is `told`,
 * the reply_tag of the request. */
tag_t am_reply_tag(const struct am_map *map, tag_t told);

/* ---- attend.c -------------------------------------------------------------------------------- */

/* Adopt the connections that the service thread has accepted. */
void am_bundle_adopt(struct am_bundle *bundle);
/* Do what a poll does apart from handling messages (attend.c). */
void am_bundle_attend(struct am_bundle *bundle);

/* ---- judge.c --------------------------------------------------------------------------------- */

/* May the endpoint take this message? Returns 0, or an E... status. */
int am_judge(const struct am_ep *ep, const struct am_message *msg);

/* ---- poll.c ---------------------------------------------------------------------------------- */

/* One turn: receive messages and run handlers. Returns the number of handlers run. Under the
 * bundle's lock. */
int am_poll(struct am_bundle *bundle);
/* Take arrivals from the completion queue, without running handlers. Returns their number. */
int am_gather(struct am_bundle *bundle);
/* Our request is answered: free its credit and forget the request. */
void am_request_over(struct am_conn *conn, uint16_t id);

/* ---- loop.c ---------------------------------------------------------------------------------- */

/* Send a request or a reply to ourselves. The handler runs before the function returns. */
int am_loop_request(struct am_ep *ep, int dest, const struct am_message *head, const int32_t *arg,
                    const void *source);
int am_loop_reply(struct am_token *token, const struct am_message *head, const int32_t *arg,
                  const void *source);

/* ---- run.c ----------------------------------------------------------------------------------- */

enum am_class am_class_of(uint8_t kind);
op_t am_opcode(uint8_t kind);
/* Run the handler of a checked message. The bundle's lock is released while the handler runs. */
void am_run(struct am_token *token, const struct am_message *msg, void *buf);
/* Run handler 0 for a message that came back. The bundle's lock is released meanwhile. */
void am_run_returned(struct am_token *token, const struct am_message *msg, int status);
void am_default_returned(int status, op_t opcode, void *argblock);

/* ---- wait.c, token.c, amx.c ------------------------------------------------------------------ */

void am_wake_sleepers(struct am_bundle *bundle);
/*
 * Sleep until one of `count` file descriptors (AM_SLEEP_FDS at most) is readable, the bundle needs
 * attention, or timeout_ms is over (-1: no limit). Under the bundle's lock, which is released
 * meanwhile.
 */
#define AM_SLEEP_FDS (AM_CLASSES + 1)
void am_sleep(struct am_bundle *bundle, const int *fds, unsigned count, int timeout_ms);
/* Wait until no handler of ep runs in another thread. */
void am_wait_idle(struct am_ep *ep);
/* A card: the data that each process of a job sends to the others through the launcher. */
struct am_card {
    en_t name;
    tag_t tag;
    struct job_key key; /* the key that callers must have */
};
/* Set the cards of our job; am_spmd_key reads them. ep: our endpoint in the job. The caller must
 * never free the cards. NULL: they are not known yet. */
void am_cards_know(const struct am_ep *ep, struct am_card *cards, int count);
/*
 * Return the key that proves a call between ep and other: the key of `called`, which is one of the
 * two. NULL: they are not both endpoints of AMX_SPMDStartup in one job. *ret_early becomes true if
 * the cards are not known yet. Under am_net.lock.
 */
const struct job_key *am_spmd_key(const struct am_ep *ep, const en_t *other, const en_t *called,
                                  bool *ret_early);
int am_token_info(void *token, handler_t *handler, int *category, int *is_request, int *rank);

/* ---- region.c -------------------------------------------------------------------------------- */

/* Find memory of the program in the cache of registered memory, or register it. NULL: it cannot be
 * registered. am_region_put ends the use of the region. */
struct am_region *am_region_get(const void *from, size_t len, VIP_MEM_HANDLE *ret);
void am_region_put(struct am_region *region);
void am_region_flush(void);

/* ---- call.c ---------------------------------------------------------------------------------- */

/*
 * Wait until the map has a connection (which may not be open yet). If it has none, call the other
 * endpoint, and prove with `tag` that we know the endpoint's tag. Under the bundle's lock, which is
 * released while handlers run. Returns 0, or an E... status: why there is no connection.
 */
int am_map_connect(struct am_map *map, tag_t tag);

/* ---- service.c ------------------------------------------------------------------------------- */

/* A connection request that waits in the service thread. */
struct am_caller {
    struct am_caller *next;
    VIP_CONN_HANDLE handle;
    struct am_call call; /* the caller's private data */
    en_t name;           /* name of the endpoint that calls */
    bool polled;         /* the program has polled since the first check of this doubted call */
};

/* Maximum number of listeners of known endpoints. The process has one more listener. */
#define AM_KNOWN_MAX 200

int am_service_open(void);
void am_service_close(void);
/* Wake the service thread: it serves the waiting requests again. Any thread. */
void am_service_kick(void);
/* Make the service thread serve a waiting request again. Under am_net.lock. */
void am_service_again(struct am_caller *caller);
/* Make the request wait until there may be room for its connection. Under am_net.lock. */
void am_service_want_room(struct am_caller *caller);
/* Does a request wait to be served again? Under am_net.lock. */
bool am_service_waiting(void);
/* Take all requests that wait to be served again, as a list, oldest first. Under am_net.lock. */
struct am_caller *am_service_take(void);
/* Give the endpoint's doubted calls to the service thread, which checks their proofs for the last
 * time. Under am_net.lock. */
void am_service_judge(struct am_ep *ep);
/* Add a listener whose requests the service thread takes; remove the listener and close it. */
int am_service_listen(VIPX_LISTENER listener);
void am_service_unlisten(VIPX_LISTENER listener);
/*
 * The file descriptors that the service thread sleeps on: first its eventfd, then one descriptor of
 * each listener. The listener of wait[i] is listener[i]. Both arrays have AM_KNOWN_MAX + 2 places.
 * Returns the number of descriptors.
 */
unsigned am_service_fds(struct pollfd *wait, VIPX_LISTENER *listener);

/* ---- accept.c -------------------------------------------------------------------------------- */

/* Start and end the service thread. */
int am_service_start(void);
void am_service_stop(void);

/* ---- proof.c --------------------------------------------------------------------------------- */

/*
 * Make and check the proofs of a call and of its answer. key: the called endpoint's key, or NULL.
 * If `key` is NULL, `tag` proves a call, and every answer counts as proved. Any thread.
 */
void am_call_prove(const struct job_key *key, tag_t tag, const en_t *caller, const en_t *called,
                   struct am_call *call);
bool am_call_proved(const struct job_key *key, tag_t tag, const en_t *caller, const en_t *called,
                    const struct am_call *call);
void am_answer_prove(const struct job_key *key, const en_t *caller, const en_t *called,
                     const struct am_call *call, struct am_answer *answer);
bool am_answer_proved(const struct job_key *key, const en_t *caller, const en_t *called,
                      const struct am_call *call, const struct am_answer *answer);

#endif

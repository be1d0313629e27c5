/*
 * Applications on the hosts of world.h, and a record of every message that they exchange. An
 * application reads and writes the shared rings as libvipl does. The simulator sees both ends of
 * each connection, so judge.c can check every completion.
 *
 *   actor.c  sessions, VIs, registered memory, the rings
 *   talk.c   sending: choosing and posting the messages of a flow
 *   judge.c  checks of completions: contents, order, canaries, guarantees of the reliability levels
 *   staged.c libvipl's copies of memory that vipd cannot reach
 *   listen.c listeners that several pairs share
 *   meet.c   peer-to-peer requests
 *   pair.c   connections: request, accept, disconnect, and checks of vipd's reports to both ends
 *   renew.c  a vipd that ends and is started again while its programs live on
 *   kill.c   a vipd that is killed in the middle of a turn
 *   draw.c   the choices that follow from a seed: hosts, messages, links, faults
 *   play.c   the run, its faults and its end
 *   peek.c   invariants inside engines and connection managers
 */
#ifndef TESTS_SIM_ACTOR_H
#define TESTS_SIM_ACTOR_H

#include "tests/sim/cast.h"

/* ---- sessions -------------------------------------------------------------------------- */

enum event_kind {
    EVENT_INCOMING,
    EVENT_RESULT,
    EVENT_ERROR,
};

struct event {
    enum event_kind kind;
    uint64_t wait, handle, attempt;
    uint16_t vi;
    uint32_t generation, code, opcode;
    bool listener; /* EVENT_INCOMING: the request came through a listener */
    struct vip_cm_attrs attrs;
};

struct listener {
    bool open, opening;
    uint64_t wait;
    uint32_t backlog, offered; /* offered: requests that wait for the program's answer */
    uint64_t delivered;        /* all requests that the program has got */
};

struct shot;

struct sess {
    struct play *play;
    unsigned host, index;
    bool alive;
    bool killed; /* its vipd was killed in a turn; the rest of this turn has no effect */
    uint32_t life;
    struct nic_session *nic;
    struct registry *registry;
    void *app, *vipd;
    uint8_t *arena;
    int arena_fd;
    uint64_t arena_used;
    uint32_t sq_position;
    uint32_t ptag, ptag_other;
    struct mem pattern; /* the peers may read this memory */
    struct mem other;   /* registered with ptag_other and all remote rights */
    struct mem closed;  /* registered with ptag and no remote rights */
    int32_t cq;         /* number of the CQ; -1: no CQ */
    uint32_t cq_position;
    uint64_t stalled_until_ns, born_ns;
    struct event event[EVENTS_MAX];
    unsigned event_count;
    struct listener listener;
    /* The copies that vipd wants from libvipl. libvipl makes and answers them in this order. */
    struct placing *placing;
    uint32_t placing_first, placing_end;
};

/* The choices of a seed, without those for the network (struct world_net). */
struct plan {
    unsigned sessions; /* number of sessions per host */
    unsigned pairs;
    uint32_t size_max, total_max, depth_max;
    uint64_t chaos_ns;      /* the faults end at this time */
    uint64_t pause_ns;      /* longest pause between bursts of messages */
    bool clean;             /* no faults: nothing may be repeated or lost */
    bool lossy;             /* packet loss is so high that connections may time out */
    uint32_t chaos_ppm[16]; /* weight of each enum chaos; weight 0: this fault does not occur */
    uint64_t chaos_gap_ns;
    uint32_t starve_ppm, bad_ppm, reject_ppm, cancel_ppm, early_ppm;
    bool loopback, cq, reads, writes;
    bool many_reads; /* nearly all messages are RDMA Reads, more than the engine allows at a time */
    /* play.extra draws these choices, so they do not change those above (see play_edition). */
    bool wide;   /* immediate data of 64 bits, RDMA Writes with message */
    bool staged; /* the memory of RDMA operations is staged */
    bool hasty;  /* some ends call VipDisconnect as soon as they have posted their last message */
    bool storm;  /* most packets are delayed at random, so that they arrive out of order */
    bool renews; /* vipd knows REBIND; some hosts get a new vipd while programs live on */
    bool leaves; /* a vipd that ends between two turns tells its peers that it ends */
    bool kills;  /* some vipd are killed between two stores to shared memory */
    bool tight;  /* CQ rings have little room, so that entries wait in vipd */
};

struct play {
    struct world world;
    struct plan plan;
    struct chance chance, extra; /* extra: for choices that were added later */
    struct sess sess[WORLD_HOSTS_MAX][SESSIONS_MAX];
    struct pair pair[PAIRS_MAX];
    struct attempt *attempts;
    uint64_t next_attempt;
    bool healed;
    uint64_t heal_ns, chaos_next_ns;
    bool pause_next;                         /* the next fault is CHAOS_PAUSE */
    uint64_t leap_until_ns[WORLD_HOSTS_MAX]; /* until this time the host's attempts may fail */
    uint64_t stalled_ns[WORLD_HOSTS_MAX];    /* end of the last stall, pause or leap */
    uint64_t leapt_ns[WORLD_HOSTS_MAX];      /* sum of the leaps of the host's clock */
    uint64_t down_until_ns[WORLD_HOSTS_MAX]; /* end of the crash of the host; 0: the host is up */
    bool renewing[WORLD_HOSTS_MAX];          /* the host has no vipd, but its programs live on */
    bool killed;                             /* a vipd was killed after the last kill_seen */
    struct shot *shots;                      /* see kill.c */
    uint64_t born_at_ns[WORLD_HOSTS_MAX][SESSIONS_MAX]; /* time of the next sess_begin, or 0 */
    /* Counts for the summary. */
    uint64_t messages, connections, losses, restarts, deaths, renewals, kills;
    bool strangers; /* a server has connected to a client of another host */
};

#define play_fail(play, ...) world_fail(&(play)->world, __VA_ARGS__)

static inline uint64_t play_now(const struct play *play)
{
    return play->world.now_ns;
}

/* ---- actor.c --------------------------------------------------------------------------- */

const uint8_t *pattern_bytes(void); /* 2 * PATTERN bytes; a message starts below PATTERN */
bool pattern_is(const uint8_t *bytes, uint32_t start, uint32_t len);
void pattern_copy(uint8_t *to, uint32_t start, uint32_t len);
bool bytes_are(const uint8_t *bytes, uint8_t value, uint32_t len);

void sess_open(struct play *play, unsigned host, unsigned index);
void sess_close(struct sess *sess, bool died);
extern const struct nic_sink sess_sink;
#define SESS_LIMITS                                                                                \
    (const struct registry_limits)                                                                 \
    {                                                                                              \
        .regions_max = 200, .bytes_max = 1ull << 32, .ptags_max = 10                               \
    }
void *map_zeroes(struct play *play, uint64_t bytes);
uint64_t sess_now(const struct sess *sess);
void mem_register(struct sess *sess, struct mem *mem);
/* Register memory in the next life of vipd, with the same handle. */
void mem_restore(struct sess *sess, const struct mem *mem);
void mem_deregister(struct sess *sess, struct mem *mem);
void end_create(struct end *end, uint16_t level);
struct vip_shm_seg mem_seg(const struct mem *mem, uint32_t offset, uint32_t len);
/* Returns the session's end after `end` (NULL: its first end). NULL: there are no more ends. */
struct end *end_next(struct sess *sess, struct end *end);
/* True if the submission ring has room for the largest descriptor. */
bool end_can_post(const struct end *end);
struct post {
    enum vip_queue queue;
    uint16_t control;
    uint8_t flags; /* VIP_SQF_* flags */
    uint64_t imm;
    uint32_t length;
    const struct vip_shm_seg *segs;
    unsigned count;
    const uint8_t *message; /* message part, if the flag VIP_SQF_MSG is set */
    uint32_t message_bytes;
};
/* Returns false if the submission ring has no room. */
bool end_post(struct end *end, const struct post *post);
enum vip_vi_state end_vi_state(const struct end *end);
/* Number of completions that vipd has written, also those that the program has not read. */
uint32_t end_written(const struct end *end, enum vip_queue queue);

/* ---- talk.c ---------------------------------------------------------------------------- */

void flow_init(struct flow *flow, struct attempt *attempt, unsigned side);
/* Post receive descriptors up to the usual number. Returns true if it has posted any. */
bool recv_post_all(struct end *end);
/* Post the messages that the flow may send now. Returns true if it has posted any. */
bool flow_post(struct flow *flow);
/* Time at which the flow's pause ends; WORLD_NEVER: the flow is not in a pause. */
uint64_t flow_wants_ns(const struct flow *flow);
bool flow_done(const struct flow *flow);
static inline bool msg_consumes(const struct msg *msg)
{
    return msg->kind == MSG_SEND || msg->kind == MSG_FORWARD || msg->kind == MSG_WRITE_IMM ||
           msg->kind == MSG_WRITE_MSG;
}
static inline uint32_t slot_bytes(const struct flow *flow)
{
    return flow->size_max + 2 * CANARY;
}

/* ---- judge.c --------------------------------------------------------------------------- */

/* Check every completion that vipd has written. Returns true if there was any. */
bool end_judge(struct end *end);
/* Record which RDMA Writes are in place. Call this before the receiver's memory changes. */
void flow_freeze(struct flow *flow);
/* After the connection: check that the end's window has only bytes that the peer has sent. */
void window_settle(struct end *end);
void sess_read_cq(struct sess *sess);
/* Like sess_read_cq; then check that every completion has its entry in the CQ. */
void sess_judge_cq(struct sess *sess);
/* Tell vipd how many entries the program has read; with plan.tight, tell a smaller number. */
void sess_publish_cq(struct sess *sess);
/* Check that memory without write rights is unchanged. */
void sess_judge_memory(struct sess *sess);

/* ---- staged.c -------------------------------------------------------------------------- */

/* Returns the memfd of a staged region, for the registry; mem->copy is libvipl's mapping of it. */
int staged_open(struct sess *sess, struct mem *mem);
void staged_close(struct mem *mem);
void sink_place(void *ctx, uint64_t number, uint32_t handle, uint64_t offset, uint64_t bytes);
void sink_fetch(void *ctx, uint64_t number, uint32_t handle, uint64_t offset, uint64_t bytes);
/* Make the copies that are due, or with `all` every copy that vipd wants. Answer vipd. True: it has
 * made a copy. */
bool sess_place(struct sess *sess, bool all);
/* Time at which the next copy is due. */
uint64_t sess_place_ns(const struct sess *sess);

/* ---- listen.c -------------------------------------------------------------------------- */

/* A server that listens is ready for its next request. */
void listener_ready(struct end *end);
/* A server needs no more requests; the last such server closes the listener. */
void listener_leave(struct end *end);
/* For sink_incoming: if this request has come through the listener, count it and return true. */
bool listener_takes(struct sess *sess, uint64_t wait);
/* Returns the server that waits for this request. NULL: none waits; the request is rejected. */
struct end *listener_end(struct sess *sess, const struct event *event);
/* A server has answered a request that came through the listener `wait`. */
void listener_answered(struct sess *sess, uint64_t wait);

/* ---- meet.c ---------------------------------------------------------------------------- */

void meet_request(struct end *end);
/* A peer-to-peer request succeeded; data: the private data of the other end. */
void meet_connected(struct end *end, const struct vip_private *data);
/* The request of this end, if any, has failed or was cancelled. */
void meet_abandon(struct end *end);
/* True if vipd may still report this connection to one of its ends. */
bool meet_expects(const struct attempt *attempt);

/* ---- pair.c ---------------------------------------------------------------------------- */

void sink_incoming(void *ctx, uint64_t wait_id, uint64_t handle, const struct vip_addr *remote,
                   const struct vip_cm_attrs *attrs, const struct vip_private *data);
void sink_result(void *ctx, uint16_t vi, uint32_t generation, enum vip_rc rc,
                 const struct vip_cm_attrs *attrs, const struct vip_private *data, const char *why);
void sink_error(void *ctx, enum vip_resource resource, enum vip_error_code code, uint16_t vi,
                uint32_t generation, uint32_t opcode, const char *why);
/* The application of a session acts. Returns true if it gave its vipd work. */
bool sess_act(struct sess *sess);
uint64_t sess_wants_ns(const struct sess *sess);
struct attempt *attempt_find(struct play *play, uint64_t id);
struct attempt *attempt_new(struct pair *pair);
/* Free the attempt if no end belongs to it and no end can still join it. */
void attempt_drop(struct attempt *attempt);
/* This side has learned that the attempt or connection is over. */
void attempt_over(struct attempt *attempt, unsigned side);
/* From now on the end belongs to the attempt (NULL: to none). */
void end_attach(struct end *end, struct attempt *attempt);
struct vip_addr end_address(unsigned host, const void *disc, uint8_t len);
bool pair_wanted(const struct pair *pair);
/* The end leaves its attempt, because the connection was closed or the session has ended. */
void end_detach(struct end *end);
void end_disconnect(struct end *end);
void attempts_check(struct play *play);
void attempts_free(struct play *play);

/* Handle vipd's reports. A reported request is valid only in the same life of vipd. */
void sess_events(struct sess *sess);

/* ---- renew.c --------------------------------------------------------------------------- */

/* Kill the vipd of a host. Its programs live on, and post nothing until the next life of vipd. */
void renew_begin(struct play *play, unsigned host);
/* Like renew_begin, for a vipd that was killed in a turn, after kill_begin. */
void renew_killed(struct play *play, unsigned host);
/* Record what the next life must know of connections that have just been established. */
void renew_record(struct sess *sess);
/* Start the next life of vipd: connections that can be bound anew go on. */
void renew_end(struct play *play, unsigned host);
/* Record a posted descriptor, if a later life of vipd may need it. */
void kept_add(struct end *end, const struct post *post);
void kept_free(struct end *end);

/* ---- kill.c ---------------------------------------------------------------------------- */

/* Call inside a turn: from now on the actions of vipd have no effect. */
void kill_begin(struct play *play, unsigned host);
/* The killed vipd has ended its turn: undo what it has written since kill_begin. */
void kill_end(struct play *play);

/* ---- peek.c ---------------------------------------------------------------------------- */

/* Check invariants of engines and queues, after any step. */
void peek_check(struct play *play);
/* The number of entries of the session's CQ that wait in vipd. */
uint32_t peek_backlog(const struct sess *sess);
/* Check that no host has a record of any connection. */
void peek_quiet(struct play *play);
/* Checks for a run without faults: nothing was lost or sent twice. */
void peek_clean(struct play *play);

/* ---- draw.c ------------------------------------------------------------------------------ */

/* Faults during a run; each seed draws their weights. */
enum chaos {
    CHAOS_CUT = 0,     /* no packet passes between two hosts */
    CHAOS_CUT_ONE_WAY, /* no packet passes from one host to another */
    CHAOS_MTU,
    CHAOS_RESTART, /* a host crashes; its vipd starts again */
    CHAOS_DEATH,   /* an application dies or closes its NIC */
    CHAOS_STALL_APP,
    CHAOS_STALL_HOST,
    CHAOS_DEREGISTER,
    CHAOS_DISCONNECT,
    CHAOS_FIRST,               /* draw_plan draws the weights of the faults above */
    CHAOS_CLOCK = CHAOS_FIRST, /* a host's clock leaps, as after its machine was suspended */
    CHAOS_PAUSE,               /* all hosts stop for a while, as if they ran on one machine */
    CHAOS_DARK,                /* no packet passes for a while; meanwhile all hosts stop */
    CHAOS_RENEW,               /* a host's vipd is killed and starts again; its programs live on */
    CHAOS_KILL,                /* like CHAOS_RENEW, but in a turn, directly after a store */
    CHAOS_KINDS,
};

/* A seed shows its bug again only with the edition in which it has found the bug. Each edition has
 * all choices of the earlier editions, and more. */
enum play_edition {
    EDITION_FIRST = 1,   /* the first version */
    EDITION_EXTRAS = 2,  /* listeners, peer-to-peer, staged memory and the rest of draw_extras */
    EDITION_COOKIES = 3, /* most hosts ask every new client for a cookie, not only in a flood */
    EDITION_PADDING = 4, /* most vipd pad their packets; some programs close at once */
    EDITION_SETUP = 5,   /* most vipd know SETUP */
    EDITION_REBIND = 6,  /* in some runs vipd knows REBIND, and some hosts get a new vipd */
    EDITION_KILLS = 7,   /* in some runs with new vipd, vipd are killed within a turn, too */
    EDITION_LEAVES = 8,  /* in some runs with new vipd, the old vipd announces the new one */
    EDITION_NEWEST = EDITION_LEAVES,
};
extern enum play_edition play_edition;

/* Make all choices from the seed. */
void play_draw(struct play *play, uint64_t seed, uint64_t chaos_ns);

/* ---- play.c ---------------------------------------------------------------------------- */

/* For this time after the faults or after the leap of a clock, new connections may still fail. */
#define PLAY_RECOVER_NS (8 * WORLD_S)

struct play_result {
    uint64_t hash, virtual_ns, messages, connections, losses, restarts, deaths, packets, steps;
    uint64_t cookies, renewals, kills, rebound;
};
/* Run the seed; after an error print the reason and exit. chaos_ns 0: the seed chooses. */
struct play_result play_seed(uint64_t seed, uint64_t chaos_ns, FILE *trace);
struct play_result play_run(struct play *play, FILE *trace);

#endif

/*
 * Applications on the hosts of world.h, and what is known about every message they exchange. An
 * application drives the shared rings as libvipl would; since the simulator sees both sides of
 * everything, the judge can tell for every completion whether it is true.
 *
 *   actor.c  sessions, VIs, registered memory, the rings
 *   talk.c   what is sent: messages of a flow, and the posting of them
 *   judge.c  what completes: contents, order, canaries, promises of the levels
 *   staged.c what the library does for memory that vipd cannot reach
 *   listen.c listeners that several pairs share
 *   meet.c   peer-to-peer requests
 *   pair.c   connections: request, accept, disconnect, and what both ends are told
 *   draw.c   what a seed decides: hosts, messages, links, faults
 *   play.c   the run of that, its faults and its end
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
    bool listener; /* INCOMING: through a listener */
    struct vip_cm_attrs attrs;
};

/* The listener of a session. */
struct listener {
    bool open, opening;
    uint64_t wait;
    uint32_t backlog, offered; /* requests that it was given and that are not answered */
    uint64_t delivered;        /* requests that it was given */
};

struct sess {
    struct play *play;
    unsigned host, index;
    bool alive;
    uint32_t life;
    struct nic_session *nic;
    struct registry *registry;
    void *app, *vipd;
    uint8_t *arena;
    uint64_t arena_used;
    uint32_t sq_position;
    uint32_t ptag, ptag_other;
    struct mem pattern; /* readable from afar */
    struct mem other;   /* another protection tag, all rights */
    struct mem closed;  /* the right tag, no remote rights */
    int32_t cq;         /* or -1 */
    uint32_t cq_position;
    uint64_t stalled_until_ns, born_ns;
    struct event event[EVENTS_MAX];
    unsigned event_count;
    struct listener listener;
    /* What vipd asked the library to copy, in order; answered from the first one on. */
    struct placing *placing;
    uint32_t placing_first, placing_end;
};

/* What a seed has chosen, the network apart. */
struct plan {
    unsigned sessions; /* per host */
    unsigned pairs;
    uint32_t size_max, total_max, depth_max;
    uint64_t chaos_ns;      /* how long faults last */
    uint64_t pause_ns;      /* between bursts of messages, at most */
    bool clean;             /* no faults: nothing may be repeated or lost */
    bool lossy;             /* so much loss that connections may time out */
    uint32_t chaos_ppm[16]; /* weight of each enum chaos, 0 = off */
    uint64_t chaos_gap_ns;
    uint32_t starve_ppm, bad_ppm, reject_ppm, cancel_ppm, early_ppm;
    bool loopback, cq, reads, writes;
    bool many_reads; /* nearly nothing else: more than may be open at once */
    /* What came later; drawn by itself, so that a seed without it (play_plain) stays what it was. */
    bool wide;   /* immediate data of 64 bits, RDMA Writes with message */
    bool staged; /* what is written and read remotely is staged memory */
    bool hasty;  /* some call VipDisconnect as soon as they have posted their last message */
    bool storm;  /* packets come in hardly any order at all */
};

struct play {
    struct world world;
    struct plan plan;
    struct chance chance, extra; /* extra: for what came later (struct plan) */
    struct sess sess[WORLD_HOSTS_MAX][SESSIONS_MAX];
    struct pair pair[PAIRS_MAX];
    struct attempt *attempts;
    uint64_t next_attempt;
    bool healed;
    uint64_t heal_ns, chaos_next_ns;
    bool pause_next;                         /* what comes next is that all hosts stand still */
    uint64_t leap_until_ns[WORLD_HOSTS_MAX]; /* its clock has leapt far; until then it tells */
    uint64_t stalled_ns[WORLD_HOSTS_MAX];    /* end of the last stall */
    uint64_t leapt_ns[WORLD_HOSTS_MAX];      /* by which its clock has leapt */
    uint64_t down_until_ns[WORLD_HOSTS_MAX]; /* crashed, comes back then; 0 = up */
    uint64_t born_at_ns[WORLD_HOSTS_MAX][SESSIONS_MAX]; /* died, opens again then */
    /* What was done, for the summary. */
    uint64_t messages, connections, losses, restarts, deaths;
    bool strangers; /* a server has believed a client of another host */
};

#define play_fail(play, ...) world_fail(&(play)->world, __VA_ARGS__)

static inline uint64_t play_now(const struct play *play)
{
    return play->world.now_ns;
}

/* ---- actor.c --------------------------------------------------------------------------- */

const uint8_t *pattern_bytes(void); /* 2 * PATTERN bytes: any start below PATTERN, then PATTERN */
bool pattern_is(const uint8_t *bytes, uint32_t start, uint32_t len);
void pattern_copy(uint8_t *to, uint32_t start, uint32_t len);
bool bytes_are(const uint8_t *bytes, uint8_t value, uint32_t len);

void sess_open(struct play *play, unsigned host, unsigned index);
void sess_close(struct sess *sess, bool died);
uint64_t sess_now(const struct sess *sess);
void mem_register(struct sess *sess, struct mem *mem);
void mem_deregister(struct sess *sess, struct mem *mem);
void end_create(struct end *end, uint16_t level);
struct vip_shm_seg mem_seg(const struct mem *mem, uint32_t offset, uint32_t len);
/* Is there room in the submission ring for any descriptor? */
bool end_can_post(const struct end *end);
/* A descriptor to be posted. */
struct post {
    enum vip_queue queue;
    uint16_t control;
    uint8_t flags; /* VIP_SQF_* */
    uint64_t imm;
    uint32_t length;
    const struct vip_shm_seg *segs;
    unsigned count;
    const uint8_t *message; /* VIP_SQF_MSG */
    uint32_t message_bytes;
};
/* False: no room. */
bool end_post(struct end *end, const struct post *post);
enum vip_vi_state end_vi_state(const struct end *end);
/* Completions that vipd has written, whether the application looked or not. */
uint32_t end_written(const struct end *end, enum vip_queue queue);

/* ---- talk.c ---------------------------------------------------------------------------- */

void flow_init(struct flow *flow, struct attempt *attempt, unsigned side);
/* Post receives up to the usual number; whether any was posted. */
bool recv_post_all(struct end *end);
/* Post what may go now; whether anything was posted. */
bool flow_post(struct flow *flow);
/* When the flow wants to post again without other input. */
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

/* Judge every completion that is written; whether there was any. */
bool end_judge(struct end *end);
/* The receiver's memory is about to change: note which writes are in place. */
void flow_freeze(struct flow *flow);
/* The connection of this end is over: nothing but what was sent may be in its window. */
void window_settle(struct end *end);
void sess_judge_cq(struct sess *sess);
/* Nothing was written where nobody may write. */
void sess_judge_memory(struct sess *sess);

/* ---- staged.c -------------------------------------------------------------------------- */

/* The memfd of a staged region, for the registry; the library's mapping of it is mem->copy. */
int staged_open(struct sess *sess, struct mem *mem);
void staged_close(struct mem *mem);
void sink_place(void *ctx, uint64_t number, uint32_t handle, uint64_t offset, uint64_t bytes);
void sink_fetch(void *ctx, uint64_t number, uint32_t handle, uint64_t offset, uint64_t bytes);
/* Do what is due, or all of it, and tell vipd; whether there was any. */
bool sess_place(struct sess *sess, bool all);
/* When the next is due. */
uint64_t sess_place_ns(const struct sess *sess);

/* ---- listen.c -------------------------------------------------------------------------- */

/* A server of a pair that listens is ready for its next request. */
void listener_ready(struct end *end);
/* It is not any more; the last one closes the listener. */
void listener_leave(struct end *end);
/* From sink_incoming: is this request the listener's? */
bool listener_takes(struct sess *sess, uint64_t wait);
/* The server that the request is for, ready and waiting; NULL: it was turned down. */
struct end *listener_end(struct sess *sess, const struct event *event);
/* A request that came through the listener `wait` was answered. */
void listener_answered(struct sess *sess, uint64_t wait);

/* ---- meet.c ---------------------------------------------------------------------------- */

void meet_request(struct end *end);
/* A peer-to-peer request succeeded; data: what the other one said. */
void meet_connected(struct end *end, const struct vip_private *data);
/* The request of this end, if there is one, has come to nothing. */
void meet_abandon(struct end *end);
/* May an end that does not know yet still be told of this connection? */
bool meet_expects(const struct attempt *attempt);

/* ---- pair.c ---------------------------------------------------------------------------- */

void sink_incoming(void *ctx, uint64_t wait_id, uint64_t handle, const struct vip_addr *remote,
                   const struct vip_cm_attrs *attrs, const struct vip_private *data);
void sink_result(void *ctx, uint16_t vi, uint32_t generation, enum vip_rc rc,
                 const struct vip_cm_attrs *attrs, const struct vip_private *data, const char *why);
void sink_error(void *ctx, enum vip_resource resource, enum vip_error_code code, uint16_t vi,
                uint32_t generation, uint32_t opcode, const char *why);
/* The application of a session acts; whether it gave its daemon work. */
bool sess_act(struct sess *sess);
uint64_t sess_wants_ns(const struct sess *sess);
struct attempt *attempt_find(struct play *play, uint64_t id);
struct attempt *attempt_new(struct pair *pair);
/* Forget it, if nobody has anything to do with it any more. */
void attempt_drop(struct attempt *attempt);
/* This side knows that it is over. */
void attempt_over(struct attempt *attempt, unsigned side);
/* The end belongs to the attempt (or NULL) from now on. */
void end_attach(struct end *end, struct attempt *attempt);
struct vip_addr end_address(unsigned host, const void *disc, uint8_t len);
bool pair_wanted(const struct pair *pair);
/* The end leaves its attempt: it was closed, or its session is gone. */
void end_detach(struct end *end);
/* VipDisconnect. */
void end_disconnect(struct end *end);
void attempts_check(struct play *play);
void attempts_free(struct play *play);

/* ---- peek.c ---------------------------------------------------------------------------- */

/* Invariants of engines and queues, after any step. */
void peek_check(struct play *play);
/* Nothing is left of any connection. */
void peek_quiet(struct play *play);
/* In a run without faults. */
void peek_clean(struct play *play);

/* ---- draw.c: what a seed decides --------------------------------------------------------- */

/* What happens in the middle of a run; the weights are drawn per seed. */
enum chaos {
    CHAOS_CUT = 0,     /* nothing passes between two hosts */
    CHAOS_CUT_ONE_WAY, /* likewise, in one direction */
    CHAOS_MTU,
    CHAOS_RESTART, /* a host crashes; its vipd comes back in a new life */
    CHAOS_DEATH,   /* an application dies, or closes its NIC in good order */
    CHAOS_STALL_APP,
    CHAOS_STALL_HOST,
    CHAOS_DEREGISTER,
    CHAOS_DISCONNECT,
    CHAOS_FIRST,               /* so many were in the first version */
    CHAOS_CLOCK = CHAOS_FIRST, /* a host's clock leaps: its machine was suspended */
    CHAOS_PAUSE,               /* all hosts stand still: one machine has them all */
    CHAOS_DARK,                /* nothing passes, and in the middle of that all hosts stand still */
    CHAOS_KINDS,
};

/* Only what the first version of these programs had: for seeds that found something then. */
extern bool play_plain;
/* No cookies but in a flood: for seeds that found something before hosts asked for them always. */
extern bool play_trusting;
/* No vipd pads its packets: for seeds that found something before they did. Part of the two above. */
extern bool play_unpadded;

/* Choose everything from the seed. */
void play_draw(struct play *play, uint64_t seed, uint64_t chaos_ns);

/* ---- play.c ---------------------------------------------------------------------------- */

/* After the faults, or after a leap of a clock, new connections may still suffer for so long. */
#define PLAY_RECOVER_NS (8 * WORLD_S)

struct play_result {
    uint64_t hash, virtual_ns, messages, connections, losses, restarts, deaths, packets, steps;
    uint64_t cookies;
};
/* Run it to its end; prints and exits if something is wrong. chaos_ns: 0 = the seed's choice. */
struct play_result play_seed(uint64_t seed, uint64_t chaos_ns, FILE *trace);
struct play_result play_run(struct play *play, FILE *trace);

#endif

/*
 * Insides of the simulator of loans (loan_run.h), shared by its files:
 *
 *   loan_judge.c    messages of both programs, and the oracle
 *   loan_seat.c     a real engine at one of its two places: in vipd, or in the owner of a loan
 *   loan_program.c  the program: a coroutine that another side may interrupt at each access to a
 *                   shared word
 *   loan_vipd.c     vipd of one end: struct loan and its host
 *   loan_run.c      the world: time, the medium, faults
 */
#ifndef TESTS_SIM_LOAN_CAST_H
#define TESTS_SIM_LOAN_CAST_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <ucontext.h>

#include "tests/sim/loan_run.h"
#include "tests/sim/medium.h"
#include "tests/sim/rand.h"
#include "vipd/engine/engine.h"
#include "vipd/engine/loan.h"

#define US 1000ull
#define MS 1000000ull

#define CONN_NS       (600 * MS) /* conn_timeout of both ends */
#define PACKET_BYTES  1472u
#define DEPTH         32u /* sends of one end under way, and posted receives */
#define MESSAGE_BYTES 9000u
#define WINDOW_BYTES  16384u /* target of RDMA Writes */
#define MESSAGES_MAX  400u
#define SOCKET_QUEUE  256u
#define INBOX         1024u
#define STACK_BYTES   (64u << 10)
#define COPIES        32u /* control messages that may arrive once more, much later */

/* The registered memory of one end. The address of a byte is its offset. */
struct memory {
    uint8_t source[DEPTH][MESSAGE_BYTES]; /* of sends and RDMA Writes */
    uint8_t landing[DEPTH][MESSAGE_BYTES];
    uint8_t slot[DEPTH][MESSAGE_BYTES]; /* of receives */
    uint8_t window[WINDOW_BYTES];
    uint8_t readable[MESSAGE_BYTES];
};

enum kind { KIND_SEND, KIND_WRITE, KIND_READ };

struct message {
    enum kind kind;
    uint32_t len, target;
};

/* What both ends agreed on when they bound the connection anew. */
struct binding {
    uint32_t number, peer;        /* numbers of this end and of the peer's end */
    uint32_t socket, peer_socket; /* 0: the socket of vipd */
};

enum wire_kind {
    WIRE_DATA = 1,
    WIRE_OFFER,
    WIRE_AGREE,
    WIRE_PROBE,
    WIRE_PROBED,
};

/* The head of each packet; data follows in WIRE_DATA. */
struct wire {
    enum wire_kind kind;
    uint32_t socket; /* it is for this socket of the receiver */
    uint32_t
        from_socket; /* OFFER, AGREE: where the sender's engine will be. PROBE: for the answer */
    uint32_t number; /* of the sender */
    uint32_t peer;   /* of the receiver: DATA, AGREE */
    bool to_loan;    /* AGREE: the receiver's packets will go to its loan's address */
    struct vip_counts counts; /* OFFER, AGREE */
};

struct packet {
    uint8_t *bytes; /* struct wire and data */
    uint32_t len;
};

/* A queue of packets, as of a socket. */
struct inbox {
    struct packet at[INBOX];
    unsigned head, count;
};

struct world;
struct end;

/* One place of the engine of an end. */
struct seat {
    struct end *end;
    bool of_owner;
    struct eng *eng;
    void *vi;                      /* memory of its VI; NULL: it has no engine */
    bool live;                     /* bound; it sends and receives */
    uint32_t sends_fed, recvs_fed; /* posts that the engine has */
    uint32_t sends_done, recvs_done;
    struct binding binding;
    uint8_t *held[VIP_DESC_PER_QUEUE_MAX * 8];
    uint32_t held_len[VIP_DESC_PER_QUEUE_MAX * 8];
    uint8_t *current; /* the packet that the engine processes, from malloc */
    const uint8_t *packet;
    uint32_t packet_len;
    /* Not shared by two seats: an owner may be interrupted while its engine uses them. */
    struct eng_packet out;
    struct vip_packet decoded;
};

/* The terms of a loan, in the memory that vipd writes and the owner reads. */
struct terms {
    struct binding binding;
    struct vip_loan_checkpoint checkpoint;
    struct vip_counts peer;
};

enum place { PLACE_VIPD, PLACE_OWNER };

struct end {
    struct world *world;
    unsigned index;
    /* Shared memory: it outlives vipd. */
    struct vip_loan_vipd own;
    struct vip_loan_owner words;
    struct terms terms;
    struct vip_loan_checkpoint home; /* vipd's own checkpoint */
    struct memory memory;
    uint32_t sends_posted, recvs_posted, consuming;
    /* vipd. */
    struct {
        bool up;
        uint64_t until_ns; /* down or standing still until then */
        struct seat seat;
        struct loan *loan;
        struct inbox inbox;
        struct wire request, answer; /* kept; kind 0: none */
        struct binding next;         /* what GO_ON and LEND bind */
        struct vip_counts next_peer;
        bool watched, duplicate; /* duplicate: of the program's socket */
        bool polled;             /* the program has polled since the last turn */
        bool rung;               /* the owner has rung the bell since the last turn */
        bool close_came;
    } vipd;
    /* The program's socket of its loan; 0: none. */
    uint32_t socket;
    bool shut;
    struct inbox queue;
    /* The program. */
    struct {
        struct loan_owner owner;
        struct seat seat;
        uint32_t number;  /* the loan that the seat's engine belongs to; 0: none */
        uint32_t refused; /* loan_enter has refused this loan */
        ucontext_t context;
        uint8_t *stack;
        bool alive, silent; /* silent: it never calls the library again */
        uint64_t wake_ns;
        bool gone;      /* it forks now: vipd must take the loan back */
        bool scribbles; /* it writes anything into its words */
    } program;
    /* What the oracle knows. */
    enum place place;
    bool inside;            /* between loan_enter and loan_leave */
    uint64_t came_ns;       /* last loan_enter */
    uint64_t slept_ns;      /* when it slept last; 0: never */
    uint64_t asleep_ns;     /* since then the owner sleeps until a packet comes; 0: it is awake */
    uint64_t left_timer_ns; /* of the last stay; 0: none */
    uint64_t queue_ns;      /* since then data waits at the socket; 0: none */
    uint64_t excused_ns;    /* since then data and timers wait; before, vipd had no chance to act */
    bool stalled_long;      /* its owner stayed inside for conn_timeout */
    bool told_data;         /* vipd was just told that data waits */
    bool lost;              /* to data */
    uint64_t run_ns, poll_ns; /* polls without a pause since; last poll */
    uint64_t move_ns[LOAN_MOVES_MAX + 1];
    unsigned moves;
    uint64_t post_ns;                              /* the program posts no send before */
    uint32_t sends_judged, recvs_judged, incoming; /* incoming: next message of the peer to judge */
    uint8_t shadow[WINDOW_BYTES];
    bool over; /* the connection has ended here */
};

struct world {
    struct loan_run_args args;
    struct loan_run_result result;
    struct sim_rand rand;
    struct medium *medium;
    uint64_t now_ns, hash, chaos_ns;
    struct end end[2];
    struct end *current; /* the end whose vipd runs now */
    struct end *running; /* the end whose program runs now */
    ucontext_t main;
    uint32_t last_socket, start_op, start_number, messages;
    uint32_t stall_ppm; /* chance that a program stalls at a step */
    bool restarts, long_stalls, deaths, silence, scribbles;
    uint64_t fault_ns;    /* time of the next fault */
    bool closing;         /* all that was posted has arrived: no program sends any more */
    bool big;             /* all messages may be long */
    bool teases;          /* the programs make vipd doubt them: a long run */
    uint64_t post_gap_ns; /* average time between two posts; 0: as fast as possible */
    bool blocked[2];      /* probes of this end get lost */
    bool refuses[2];      /* this end does not send to the address of a loan */
    struct packet copy[COPIES];
    unsigned copies, copy_to[COPIES];
};

static inline struct end *peer_of(struct end *end)
{
    return &end->world->end[!end->index];
}

static inline bool healed(const struct world *world)
{
    return world->now_ns >= world->chaos_ns;
}

/* ---- loan_judge.c ---------------------------------------------------------------------- */

void loan_trace(struct world *world, const char *format, ...) __attribute__((format(printf, 2, 3)));
_Noreturn void loan_fail(struct world *world, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* Message `number` of an end. */
struct message message_of(const struct end *end, uint32_t number);
/* Post what the program wants to post now. True: it posted something. */
bool program_posts(struct end *end);
void judge_complete(struct seat *seat, enum vip_queue queue, uint32_t status, uint32_t length);
/* The engine at this seat acts: may it? */
void judge_seat(const struct seat *seat);
void judge_move(struct end *end, bool out);
void judge_probe(struct end *end);
void judge_take(struct end *end);
/* The connection ends at this end. */
void judge_end(struct end *end);
/* Checks that hold at each time, and at the end of the run. */
void judge_now(struct end *end);
void judge_final(struct end *end);
bool all_arrived(struct end *end);
void memory_begin(struct end *end);

/* ---- loan_seat.c ----------------------------------------------------------------------- */

void seat_begin(struct seat *seat, struct end *end, bool of_owner);
void seat_free(struct seat *seat);
/* The first engine of the connection. */
void seat_connect(struct seat *seat);
/* An engine that goes on from a checkpoint, paused. */
void seat_restore(struct seat *seat, const struct vip_loan_checkpoint *from);
void seat_pause(struct seat *seat);
struct vip_counts seat_counts(struct seat *seat);
/* False: the peer's counts contradict what this end knows. */
bool seat_rebind(struct seat *seat, const struct binding *binding, const struct vip_counts *peer);
struct vip_loan_checkpoint seat_checkpoint(const struct seat *seat);
/* Give the engine the posts that it does not have. */
void seat_feed(struct seat *seat);
/* Process a data packet, if it belongs to the binding. Frees it. */
void seat_receive(struct seat *seat, struct packet packet);
void seat_tick(struct seat *seat);
bool seat_send(struct seat *seat); /* false: there is nothing to send now */
/* When the engine must act next; 0: nothing is under way or owed. */
uint64_t seat_timer_ns(const struct seat *seat);

/* ---- loan_program.c -------------------------------------------------------------------- */

void program_begin(struct end *end);
/* Let the program run until it sleeps. */
void program_run(struct end *end);
void program_free(struct end *end);
/* The program's thread is dead. */
void program_die(struct end *end);
/* A program copies bytes; another side may run in the middle. */
void program_pause(struct end *end);

/* ---- loan_vipd.c ----------------------------------------------------------------------- */

void vipd_begin(struct end *end);
void vipd_free(struct end *end);
void vipd_turn(struct end *end);
uint64_t vipd_deadline(const struct end *end);
void vipd_kill(struct end *end);
void vipd_restart(struct end *end);

/* ---- loan_run.c ------------------------------------------------------------------------ */

void inbox_push(struct inbox *inbox, struct packet packet, unsigned most);
bool inbox_pop(struct inbox *inbox, struct packet *ret);
void inbox_clear(struct inbox *inbox);
/* Send a packet to the other end: `wire`, then `len` bytes of data. */
void wire_send(struct end *from, const struct wire *wire, const uint8_t *data, uint32_t len);

#endif

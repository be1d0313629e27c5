/*
 * A simulated network of whole hosts: each one runs the real vipd/nic (sessions, engines, connection
 * manager, registry) on a link in memory, in virtual time. Everything follows from one seed, so a
 * run can be repeated bit by bit; the transcript's hash proves it.
 *
 * Owns: time, clocks of hosts, links and their faults, the transcript. Does not own: applications
 * (actor.c), the random program of a run (draw.c, play.c), the checks (judge.c, peek.c).
 */
#ifndef TESTS_SIM_WORLD_H
#define TESTS_SIM_WORLD_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "vipd/nic/nic.h"

#define WORLD_HOSTS_MAX 8
#define WORLD_NEVER     UINT64_MAX
#define WORLD_US        1000ull
#define WORLD_MS        1000000ull
#define WORLD_S         1000000000ull

/* For this time a connection waits for the new life of its peer, if vipd offers REBIND. */
#define WORLD_OUTLIVE_NS (5 * WORLD_S)

/* ---- chance ---------------------------------------------------------------------------- */

/* A small reproducible generator (splitmix64); each user has its own. */
struct chance {
    uint64_t state;
};

static inline uint64_t chance_next(struct chance *chance)
{
    uint64_t z = chance->state += 0x9e3779b97f4a7c15ull;

    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
    return z ^ (z >> 31);
}

/* A number from 0 to limit - 1; 0 if limit is 0. */
static inline uint64_t chance_below(struct chance *chance, uint64_t limit)
{
    return (uint64_t)(((unsigned __int128)chance_next(chance) * limit) >> 64);
}

static inline uint64_t chance_between(struct chance *chance, uint64_t low, uint64_t high)
{
    return low + chance_below(chance, high - low + 1);
}

/* True with a chance of `ppm` in a million. */
static inline bool chance_ppm(struct chance *chance, uint32_t ppm)
{
    return ppm && chance_below(chance, 1000000) < ppm;
}

/* A number from low to a limit: the limit is `low`, doubled again and again with a chance of 3 in 4, up to `high`. */
static inline uint64_t magnitude(struct chance *chance, uint64_t low, uint64_t high)
{
    uint64_t limit = low;

    while (limit < high && chance_below(chance, 4))
        limit *= 2;
    limit = limit < high ? limit : high;
    return chance_between(chance, low, limit);
}

/* ---- faults ---------------------------------------------------------------------------- */

/* The packets that loss_ppm applies to. */
enum world_only {
    WORLD_ONLY_ANY = 0,
    WORLD_ONLY_CM,
    WORLD_ONLY_ACKS,   /* data packets without frames */
    WORLD_ONLY_DATA,   /* data packets with frames */
    WORLD_ONLY_RANGES, /* data packets with ranges: they tell what arrived behind a gap */
};

/* Properties and faults of all links. Shares are in parts per million; share 0: the fault does not occur. */
struct world_net {
    uint64_t latency_ns, jitter_ns;
    uint64_t bytes_per_s; /* of each host's transmitter; 0: unlimited */
    uint64_t queue_bytes; /* room of the queue in front of the transmitter */
    uint32_t packet_bytes, window_bytes;
    uint32_t loss_ppm;
    enum world_only loss_only;
    uint32_t burst_begin_ppm, burst_len; /* Gilbert model: chance of a burst; its mean packets */
    uint32_t every_nth;                  /* every n-th packet of a path is lost; 0: none */
    uint32_t dup_ppm;
    uint64_t dup_delay_ns; /* largest delay of a copy after its packet */
    uint32_t reorder_ppm;
    uint64_t reorder_ns; /* largest delay of a packet that others overtake */
    uint32_t corrupt_ppm;
    /* Share of damage among packets that leave from a program's memory and not from a copy: the program changes
     * the memory after vipd has made the checksum. */
    uint32_t changing_ppm;
};

/* The path from one host to another. */
struct world_path {
    uint32_t burst_left, count;
    uint64_t cut_until_ns; /* until then all packets are lost */
    uint32_t hole_bytes;   /* packets longer than this are lost; 0: no limit */
    uint64_t last_arrival_ns;
};

/*
 * What one host can know of another one: a packet of the other host proves that an earlier packet of this host had
 * arrived there. A silence is a time in which this host can have no newer proof.
 */
struct world_view {
    uint64_t heard_ns; /* last arrival of an intact packet that was not under way for too long */
    uint64_t round_ns; /* latest time at which the other host provably heard from this one */
    uint64_t silent_from_ns, silent_to_ns; /* the longest of the recent silences that are over */
    /* Recent cuts in a row: their total length, less a part of the time between them, and the end of the last cut. */
    uint64_t cut_ns, cut_to_ns;
};

/* ---- the transcript -------------------------------------------------------------------- */

enum world_line {
    LINE_SEND = 0, /* from, to, packet number, bytes, kind and frames */
    LINE_LOST,     /* from, to, why */
    LINE_ARRIVE,
    LINE_CM,      /* from, to, type, connection id */
    LINE_HOST_UP, /* host, life */
    LINE_HOST_DOWN,
    LINE_SESSION, /* host, session, life */
    LINE_DEATH,
    LINE_REQUEST, /* pair, attempt */
    LINE_ACCEPT,
    LINE_RESULT,  /* pair, attempt, side, rc */
    LINE_LOSS_OF, /* pair, attempt, side: vipd has reported CONN_LOST */
    LINE_CLOSE,   /* pair, attempt, side: VipDisconnect */
    LINE_POST,    /* pair, attempt, side, message, kind << 32 | length */
    LINE_DONE,    /* pair, side, queue, status, length */
    LINE_ERROR,   /* pair, side, code */
    LINE_FAULT,   /* number, two arguments */
    LINE_HEAL,
    LINE_NOTE,
    WORLD_LINES,
};

#define WORLD_TAIL 200 /* lines that a failure prints */

struct world_record {
    uint64_t at_ns;
    enum world_line line;
    uint64_t arg[5];
};

/* ---- hosts ----------------------------------------------------------------------------- */

struct world;

/* A packet under way, then waiting at a host, then with the nic until released. */
struct world_packet {
    uint64_t at_ns, order;
    uint64_t sent_ns;
    uint64_t heard_ns;         /* when its sender had last heard from its receiver */
    struct world_packet *next; /* in the list of its host, or in the free list */
    struct link_addr from;
    uint8_t to;
    bool corrupt;
    uint32_t len, room;
    uint8_t bytes[];
};

struct world_host {
    struct link link; /* must be first: the code casts the link to its host */
    struct world *world;
    unsigned index;
    struct nic *nic; /* NULL: down */
    uint32_t life;
    struct world_packet *head, *tail; /* packets that have arrived */
    unsigned out;                     /* packets with the nic */
    uint64_t busy_until_ns;           /* until then the transmitter is busy */
    bool mute;                        /* the host crashes: its packets disappear */
    bool due;                         /* the host has work now */
    uint32_t kill_in;          /* vipd is killed behind this store to shared memory; 0: it is not */
    bool killed;               /* that has happened in the present turn */
    uint64_t stalled_until_ns; /* until then vipd gets no processor time */
    uint64_t clock_base_ns;
    int32_t drift_ppm;
    uint64_t corrupt_arrived; /* corrupt packets that arrived in this life */
    uint64_t sent;            /* packets of all lives */
};

/* What the applications add to the world. */
struct world_hooks {
    /* Called after a host's turns: its applications act. Returns true if they gave the host's vipd work. */
    bool (*act)(void *ctx, unsigned host);
    /* When the applications of this host want to act without other input. */
    uint64_t (*wants_ns)(void *ctx, unsigned host);
    /* Called after every step of the whole world. */
    void (*check)(void *ctx);
    /* The vipd of a host is killed, in the middle of its turn (kill.c). Called inside that turn, and behind it. */
    void (*kill)(void *ctx, unsigned host);
    void (*killed)(void *ctx, unsigned host);
    void *ctx;
};

struct world {
    uint64_t seed, now_ns, order, hash, lines, steps, packets;
    struct chance chance;
    unsigned hosts;
    struct world_net net;
    bool faults;           /* the faults of `net` (loss, dup, reorder, corrupt, changing) are on */
    bool verify_all;       /* hosts ask every new client for a cookie, as vipd does */
    uint64_t cookies_sent; /* by the ended lives of all hosts */
    struct eng_config engine;
    struct world_host host[WORLD_HOSTS_MAX];
    struct world_path path[WORLD_HOSTS_MAX][WORLD_HOSTS_MAX];
    struct world_view view[WORLD_HOSTS_MAX][WORLD_HOSTS_MAX];
    struct world_packet **heap;
    unsigned heap_count, heap_room;
    struct world_packet *free;
    struct world_hooks hooks;
    FILE *trace;
    uint8_t without[WORLD_HOSTS_MAX]; /* VIP_FEATURE_* that the host's vipd lacks */
    uint64_t more;                    /* VIP_FEATURE_* of all hosts beyond VIP_FEATURES */
    uint64_t rebound;                 /* connections bound anew in the ended lives of all hosts */
    const char *options; /* options of simrun that repeat this run, beside the seed; or NULL */
    struct world_record tail[WORLD_TAIL];
};

void world_init(struct world *world, uint64_t seed);
void world_deinit(struct world *world);

/* Add a record to the transcript; unused arguments are 0. */
void world_line(struct world *world, enum world_line line, uint64_t a, uint64_t b, uint64_t c,
                uint64_t d, uint64_t e);
/* The run found a fault: print seed, reason and the transcript's last lines, and exit with 1. */
_Noreturn void world_fail(struct world *world, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Start a host with a new epoch, or end its vipd. world_host_down sends no packets to other hosts. Its caller has
 * ended the host's sessions before, with `mute` set if the host crashes. */
void world_host_up(struct world *world, unsigned host);
void world_host_down(struct world *world, unsigned host);
struct link_addr world_addr(unsigned host);
/* A host's own clock, and the world's time at which it shows host_ns. */
uint64_t world_host_now(const struct world_host *host);
uint64_t world_host_when(const struct world_host *host, uint64_t host_ns);

/* Nothing passes from one host to the other (`both`: nor back) for a while. */
void world_cut(struct world *world, unsigned from, unsigned to, bool both, uint64_t ns);
/* The packet size of a host's link changes: larger packets are lost, and new connections get the new size. */
void world_set_mtu(struct world *world, unsigned host, uint32_t packet_bytes);

/* The longest silence of host b, as host a sees it, that ended at most WORLD_LATE_NS ago or has not ended. If recent
 * cuts in a row are longer together, their length: a host that sends seldom may meet a cut each time. Time before
 * since_ns does not count. */
#define WORLD_LATE_NS (6 * WORLD_S)
uint64_t world_silence_ns(const struct world *world, unsigned a, unsigned b, uint64_t since_ns);
/*
 * A host's clock leaps, or all hosts stand still while packets wait for them. A host counts at most WORLD_TIMER_NS
 * of such a time as a silence of other hosts: vipd does not count the time by which a timer fires late, but a timer
 * may fall due up to WORLD_TIMER_NS after the beginning.
 */
#define WORLD_TIMER_NS (1250 * WORLD_MS)
void world_leap(struct world *world, unsigned host, uint64_t ns);
void world_pause(struct world *world, uint64_t ns);

/* Run until the time is reached, or done() says so (then true). */
bool world_run(struct world *world, uint64_t until_ns, bool (*done)(void *ctx));

#endif

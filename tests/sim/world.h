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

/* If vipd offers REBIND, a connection waits for the new life of its peer for this time. */
#define WORLD_OUTLIVE_NS (5 * WORLD_S)

/* ---- chance ---------------------------------------------------------------------------- */

/* A small reproducible generator (splitmix64); each part of the simulator has its own. */
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

/* A number from low to a limit: `low`, doubled again with a chance of 3 in 4, up to `high`. */
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
    WORLD_ONLY_RANGES, /* data packets with ranges, which report packets behind a gap */
};

/* Properties and faults of all links. Shares are in parts per million; share 0: the fault does not occur. */
struct world_net {
    uint64_t latency_ns, jitter_ns;
    uint64_t bytes_per_s; /* rate of each host's transmitter; 0: unlimited */
    uint64_t queue_bytes; /* size of the queue before the transmitter */
    uint32_t packet_bytes, window_bytes;
    uint32_t loss_ppm;
    enum world_only loss_only;
    uint32_t burst_begin_ppm, burst_len; /* Gilbert model: chance and mean length of a burst */
    uint32_t every_nth;                  /* every n-th packet of a path is lost; 0: none */
    uint32_t dup_ppm;
    uint64_t dup_delay_ns; /* largest delay between a packet and its copy */
    uint32_t reorder_ppm;
    uint64_t reorder_ns; /* largest delay of a packet that later packets overtake */
    uint32_t corrupt_ppm;
    /* Share of packets with damage among those that leave from a program's memory (not from a
     * copy): the program changes the memory after vipd has computed the checksum. */
    uint32_t changing_ppm;
};

/* The path from one host to another. */
struct world_path {
    uint32_t burst_left, count;
    uint64_t cut_until_ns; /* until then all packets are lost */
    uint32_t hole_bytes;   /* packets longer than this are lost; 0: no limit */
    uint64_t last_arrival_ns;
};

/* What host a can know of host b. A packet from b proves that an earlier packet of a has arrived at
 * b. A silence is a time in which a gets no newer proof. */
struct world_view {
    uint64_t heard_ns; /* last arrival of an intact packet, unless it was under way for too long */
    uint64_t round_ns; /* latest time at which b had provably heard from a */
    uint64_t silent_from_ns, silent_to_ns; /* the longest of the recent silences that are over */
    /* Recent cuts in a row: the sum of their lengths, less a part of the time between them; the end
     * of the last cut. */
    uint64_t cut_ns, cut_to_ns;
};

/* ---- the transcript -------------------------------------------------------------------- */

enum world_line {
    LINE_SEND = 0, /* from, to, packet number, bytes, kind and frames */
    LINE_LOST,     /* from, to, reason */
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

/* A packet: first under way, then waiting at a host, then used by the nic until its release. */
struct world_packet {
    uint64_t at_ns, order;
    uint64_t sent_ns;
    uint64_t heard_ns;         /* time at which its sender had last got a packet of its receiver */
    struct world_packet *next; /* next in the list of its host, or of free packets */
    struct link_addr from;
    uint8_t to;
    bool corrupt;
    uint32_t len, room;
    uint8_t bytes[];
};

struct world_host {
    struct link link; /* must be the first member, because the code casts the link to its host */
    struct world *world;
    unsigned index;
    struct nic *nic; /* NULL: the host is down */
    uint32_t life;
    struct world_packet *head, *tail; /* packets that have arrived */
    unsigned out;                     /* number of packets that the nic uses */
    uint64_t busy_until_ns;           /* time until which the transmitter is busy */
    bool mute;                        /* the host crashes: packets that it sends disappear */
    bool due;                         /* the host has work at the present time */
    uint32_t kill_in;                 /* stores until vipd is killed; 0: no kill is planned */
    bool killed;                      /* vipd was killed in the present turn */
    uint64_t stalled_until_ns;        /* time until which vipd gets no processor time */
    uint64_t clock_base_ns;
    int32_t drift_ppm;
    uint64_t corrupt_arrived; /* number of corrupt packets that arrived in this life */
    uint64_t sent;            /* number of packets in all lives */
};

/* The functions of the applications that the world calls. */
struct world_hooks {
    /* Called after a host's turns: its applications act. Returns true if they gave the host's vipd work. */
    bool (*act)(void *ctx, unsigned host);
    /* Time at which the applications of this host want to act without other input. */
    uint64_t (*wants_ns)(void *ctx, unsigned host);
    /* Called after every step of the whole world. */
    void (*check)(void *ctx);
    /* The vipd of a host is killed within its turn (kill.c). `kill` is called inside this turn, and
     * `killed` after it. */
    void (*kill)(void *ctx, unsigned host);
    void (*killed)(void *ctx, unsigned host);
    void *ctx;
};

struct world {
    uint64_t seed, now_ns, order, hash, lines, steps, packets;
    struct chance chance;
    unsigned hosts;
    struct world_net net;
    bool faults;           /* the faults of `net` (loss, dup, reorder, corrupt, changing) occur */
    bool verify_all;       /* hosts ask every new client for a cookie, as vipd always does */
    uint64_t cookies_sent; /* number of cookies sent in the ended lives of all hosts */
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
    uint64_t more;                    /* VIP_FEATURE_* beyond VIP_FEATURES, for all hosts */
    uint64_t rebound;                 /* connections that ended lives of hosts bound anew */
    const char *options; /* options of simrun that, with the seed, repeat this run; or NULL */
    struct world_record tail[WORLD_TAIL];
};

void world_init(struct world *world, uint64_t seed);
void world_deinit(struct world *world);

/* Add a record to the transcript; unused arguments are 0. */
void world_line(struct world *world, enum world_line line, uint64_t a, uint64_t b, uint64_t c,
                uint64_t d, uint64_t e);
/* A check has failed: print seed, reason and the last lines of the transcript; exit with 1. */
_Noreturn void world_fail(struct world *world, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Start a host with a new epoch, or end its vipd. world_host_down sends no packets to other hosts.
 * The caller must end the host's sessions before it; if the host crashes, with `mute` set. */
void world_host_up(struct world *world, unsigned host);
void world_host_down(struct world *world, unsigned host);
struct link_addr world_addr(unsigned host);
/* The time on a host's own clock; the world's time at which this clock shows host_ns. */
uint64_t world_host_now(const struct world_host *host);
uint64_t world_host_when(const struct world_host *host, uint64_t host_ns);

/* For this time no packet passes from one host to the other; both: in both directions. */
void world_cut(struct world *world, unsigned from, unsigned to, bool both, uint64_t ns);
/* Change the packet size of a host's link: larger packets are lost; new connections use it. */
void world_set_mtu(struct world *world, unsigned host, uint32_t packet_bytes);

/* Returns the longest silence of host b, as host a sees it, that ended at most WORLD_LATE_NS ago or
 * has not ended. If recent cuts in a row are longer together, it returns their length, because a
 * host that seldom sends may meet a cut each time. Time before since_ns does not count. */
#define WORLD_LATE_NS (6 * WORLD_S)
uint64_t world_silence_ns(const struct world *world, unsigned a, unsigned b, uint64_t since_ns);
/* A host's clock leaps, or all hosts stop while packets wait for them. A host counts at most
 * WORLD_TIMER_NS of this time as a silence of other hosts. The reason: vipd does not count the time
 * by which a timer fires late, but a timer may be due up to WORLD_TIMER_NS after the beginning. */
#define WORLD_TIMER_NS (1250 * WORLD_MS)
void world_leap(struct world *world, unsigned host, uint64_t ns);
void world_pause(struct world *world, uint64_t ns);

/* Run until until_ns is reached (returns false), or until done() returns true (returns true). */
bool world_run(struct world *world, uint64_t until_ns, bool (*done)(void *ctx));

#endif

/*
 * A simulated network of whole hosts. Each host runs the real vipd/nic (sessions, engines,
 * connection manager, registry) on a link in memory, in virtual time. One seed decides everything.
 * Two runs of a seed are equal, which the hash of the transcript shows.
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

/* If vipd offers REBIND, a connection waits at most this time for the next life of its peer. */
#define WORLD_OUTLIVE_NS (5 * WORLD_S)

/* ---- chance ---------------------------------------------------------------------------- */

/* A small generator of random numbers (splitmix64). Each part of the simulator has its own one. */
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

/* Returns a random number from 0 to limit - 1, or 0 if limit is 0. */
static inline uint64_t chance_below(struct chance *chance, uint64_t limit)
{
    return (uint64_t)(((unsigned __int128)chance_next(chance) * limit) >> 64);
}

static inline uint64_t chance_between(struct chance *chance, uint64_t low, uint64_t high)
{
    return low + chance_below(chance, high - low + 1);
}

/* Returns true with a probability of `ppm` in a million. */
static inline bool chance_ppm(struct chance *chance, uint32_t ppm)
{
    return ppm && chance_below(chance, 1000000) < ppm;
}

/* A random number from `low` to a limit: `low` doubled a random number of times, at most `high`. */
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
    WORLD_ONLY_RANGES, /* data packets whose ranges report packets behind a gap */
};

/* Properties and faults of all links. A share (`_ppm`) of 0 means that its fault does not occur. */
struct world_net {
    uint64_t latency_ns, jitter_ns;
    uint64_t bytes_per_s; /* rate of each host's transmitter; 0: unlimited */
    uint64_t queue_bytes; /* size of the queue before the transmitter */
    uint32_t packet_bytes, window_bytes;
    uint32_t loss_ppm;
    enum world_only loss_only;
    uint32_t burst_begin_ppm, burst_len; /* bursts of losses (Gilbert): chance, mean length */
    uint32_t every_nth;                  /* every n-th packet of a path is lost; 0: none */
    uint32_t dup_ppm;
    uint64_t dup_delay_ns; /* largest delay between a packet and its duplicate */
    uint32_t reorder_ppm;
    uint64_t reorder_ns; /* largest extra delay of a packet that later packets overtake */
    uint32_t corrupt_ppm;
    /* Of the packets that vipd sends from a program's memory without a copy, this share is corrupt:
     * the program changes the memory after vipd has computed the checksum. */
    uint32_t changing_ppm;
};

/* The path from one host to another. */
struct world_path {
    uint32_t burst_left, count;
    uint64_t cut_until_ns; /* until then all packets are lost */
    uint32_t hole_bytes;   /* packets longer than this are lost; 0: no limit */
    uint64_t last_arrival_ns;
};

/* What host a can know about host b. A packet from b proves that b has received an earlier packet
 * of a. A silence of b is a time in which no newer proof arrives at a. */
struct world_view {
    uint64_t heard_ns; /* last arrival of an intact packet that was under way for at most 1 s */
    uint64_t round_ns; /* latest time at which b, as its packets prove, received a packet of a */
    uint64_t silent_from_ns, silent_to_ns; /* the longest silence that ended recently */
    /* cut_ns: the sum of the lengths of recent cuts in a row, less a part of the time between them.
     * cut_to_ns: the end of the last of these cuts. */
    uint64_t cut_ns, cut_to_ns;
};

/* ---- the transcript -------------------------------------------------------------------- */

enum world_line {
    LINE_SEND = 0, /* from, to, packet number, bytes, number of frames */
    LINE_LOST,     /* from, to, reason */
    LINE_ARRIVE,
    LINE_CM,      /* from, to, type, request id, connection id */
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
    LINE_FAULT,   /* number of the fault, two arguments */
    LINE_HEAL,
    LINE_NOTE,
    WORLD_LINES,
};

#define WORLD_TAIL 200 /* number of the last lines that a failure prints */

struct world_record {
    uint64_t at_ns;
    enum world_line line;
    uint64_t arg[5];
};

/* ---- hosts ----------------------------------------------------------------------------- */

struct world;

/* A packet is first under way, then waits at a host, then is in use by the nic of the host. */
struct world_packet {
    uint64_t at_ns, order;
    uint64_t sent_ns;
    uint64_t heard_ns;         /* latest arrival, before sent_ns, of a packet from `to` */
    struct world_packet *next; /* next packet in the list of its host, or of free packets */
    struct link_addr from;
    uint8_t to;
    bool corrupt;
    uint32_t len, room;
    uint8_t bytes[];
};

struct world_host {
    struct link link; /* must be first: the code casts a pointer to `link` to one to world_host */
    struct world *world;
    unsigned index;
    struct nic *nic; /* NULL: the host is down */
    uint32_t life;
    struct world_packet *head, *tail; /* packets that have arrived and wait for the nic */
    unsigned out;                     /* number of packets that the nic uses */
    uint64_t busy_until_ns;           /* time until which the transmitter is busy */
    bool mute;                        /* the host is crashing: packets that it sends disappear */
    bool due;                         /* the host has work at the present time */
    uint32_t kill_in;                 /* number of stores until vipd is killed; 0: no kill is due */
    bool killed;                      /* vipd was killed in the present turn */
    uint64_t stalled_until_ns;        /* time until which vipd gets no processor time */
    uint64_t clock_base_ns;
    int32_t drift_ppm;
    uint64_t corrupt_arrived; /* number of corrupt packets that arrived in this life */
    uint64_t sent;            /* number of packets that the host has sent in all its lives */
};

/* The functions by which the world calls the applications. */
struct world_hooks {
    /* Let a host's applications act after vipd's turns. True: they gave the host's vipd work. */
    bool (*act)(void *ctx, unsigned host);
    /* Returns the time at which a host's applications want to act even without an event. */
    uint64_t (*wants_ns)(void *ctx, unsigned host);
    /* Called after every step of the whole world. */
    void (*check)(void *ctx);
    /* For a vipd that is killed within its turn (kill.c): the world calls `kill` inside this turn,
     * and `killed` after it. */
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
    uint64_t more;                    /* VIP_FEATURE_* of hosts in addition to VIP_FEATURES */
    uint64_t rebound;                 /* number of rebinds in the ended lives of all hosts */
    const char *options; /* options with which simrun repeats this run from its seed; or NULL */
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

/* Start a host with a new epoch, or end its vipd. world_host_down sends no packets. Before it the
 * caller must end the host's sessions; in a crash it must first set `mute`. */
void world_host_up(struct world *world, unsigned host);
void world_host_down(struct world *world, unsigned host);
struct link_addr world_addr(unsigned host);
/* Return the present time on a host's own clock, and the world's time when it shows host_ns. */
uint64_t world_host_now(const struct world_host *host);
uint64_t world_host_when(const struct world_host *host, uint64_t host_ns);

/* For `ns` all packets from host `from` to host `to` are lost; if `both`, in both directions. */
void world_cut(struct world *world, unsigned from, unsigned to, bool both, uint64_t ns);
/* Change the packet size of a host's link. Larger packets are lost. New connections use it. */
void world_set_mtu(struct world *world, unsigned host, uint32_t packet_bytes);

/* Returns the longest silence of host b, as host a sees it. The silence has not ended, or it ended
 * at most WORLD_LATE_NS ago. If recent cuts in a row are longer together, returns their length: a
 * host that seldom sends may meet a cut each time. Time before since_ns does not count. */
#define WORLD_LATE_NS (6 * WORLD_S)
uint64_t world_silence_ns(const struct world *world, unsigned a, unsigned b, uint64_t since_ns);
/* Let a host's clock leap, or stop all hosts while packets wait for them. A host counts at most
 * WORLD_TIMER_NS of this time as a silence of other hosts. The reason: vipd does not count the time
 * by which a timer is late, but a timer is due up to WORLD_TIMER_NS after the beginning. */
#define WORLD_TIMER_NS (1250 * WORLD_MS)
void world_leap(struct world *world, unsigned host, uint64_t ns);
void world_pause(struct world *world, uint64_t ns);

/* Run the world. Returns false when until_ns is reached, or true when done() has returned true. */
bool world_run(struct world *world, uint64_t until_ns, bool (*done)(void *ctx));

#endif

/*
 * What the floors share: options, the memory that all processes of a run see, process control.
 * Only tools/vipperf/floor*.c include this.
 *
 * A run is one message size. Its processes are forked by the parent, meet in shared memory and all
 * end before the result is read. Side 0 (the client) starts and times; side 1 answers or counts.
 */
#ifndef TOOLS_VIPPERF_FLOOR_INSIDE_H
#define TOOLS_VIPPERF_FLOOR_INSIDE_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tools/vipperf/result.h"

/* Most processes of a run: two applications and two relays. */
#define FLOOR_ROLES_MAX 4

/* Largest datagram; longer messages travel in several. */
#define FLOOR_DATAGRAM_BYTES_MAX 65507u

/* Largest message. */
#define FLOOR_SIZE_MAX (16u << 20)

/* Latency samples kept; a run by duration ends when they are full. */
#define FLOOR_SAMPLES_MAX 4000000u

/* A blocked process looks this often whether the run has ended. */
#define FLOOR_CHECK_MS 100

enum floor_kind { FLOOR_UDP, FLOOR_GSO, FLOOR_TCP, FLOOR_RELAY, FLOOR_MEMORY };
#define FLOOR_KINDS 5
enum floor_what { FLOOR_LAT, FLOOR_BW, FLOOR_RATE };

struct floor_opts {
    enum floor_kind kind;
    enum floor_what what;
    uint64_t size_min, size_max; /* bytes of a message; doubled from one to the other */
    uint64_t iters;              /* messages to measure, 0 = by duration */
    double duration_s;           /* 0 = by iters */
    bool both_ways;              /* tcp bw by duration: side 1 sends, too */
    bool poll;                   /* look again and yield, instead of sleeping in the kernel */
    const char *json;            /* file, or NULL */
    const char *netns[2];        /* names under /run/netns, or NULL */
    struct in_addr address[2];   /* of either side */
};

/* Where a run stands; only the client moves it on. */
enum floor_phase {
    FLOOR_WARM_UP = 0,
    FLOOR_MEASURE,
    FLOOR_STOP,
};

/* Seen by all processes of a run. Each word has one writer, and cache lines are not shared. */
struct floor_shared {
    _Alignas(64) uint32_t phase;      /* client: enum floor_phase */
    uint32_t port[2];                 /* each side: its port, 0 = not bound yet */
    _Alignas(64) uint64_t progress;   /* client: moves while it is alive */
    _Alignas(64) uint64_t rx_bytes;   /* server: payload received */
    uint64_t rx_last_ns;              /* server: when the last of it came (runs by iters) */
    _Alignas(64) uint64_t back_bytes; /* client: payload received, for itself (both ways) */
    _Alignas(64) uint64_t cpu_ns;     /* everybody: added at the end */
    uint64_t messages;                /* client: measured, one way or the sum of both */
    uint64_t messages_back;           /* client: of these what it has received */
    uint64_t bytes;                   /* client: measured payload, one way or the sum of both */
    uint64_t elapsed_ns;              /* client */
    uint64_t sample_count;
    uint64_t samples[FLOOR_SAMPLES_MAX]; /* half round trips in ns */
};

/* One process's view of a run. */
struct floor_run {
    const struct floor_opts *opts;
    uint64_t size;
    struct floor_shared *shared;
    void *relay;       /* shared memory of floor_relay.c or floor_memory.c, or NULL */
    uint64_t cpu_from; /* processor time of this process when measuring began */
    bool cpu_started;
};

/* A process: returns 0, or 1 after having said on stderr what failed. */
typedef int floor_role(struct floor_run *run);

struct floor_member {
    floor_role *role;
    unsigned side; /* whose network namespace */
};

/* Fork, watch and reap the members of a run. 0 all ended well; 1 something failed (said). */
int floor_execute(struct floor_run *run, const struct floor_member *members, unsigned count);

/* Run one size and fill the result. 0 or 1, as above. */
int floor_udp(struct floor_run *run);
int floor_gso(struct floor_run *run); /* bw and rate only */
int floor_tcp(struct floor_run *run);
int floor_relay(struct floor_run *run);
int floor_memory(struct floor_run *run);

/* ---- for the processes ---- */

uint64_t floor_now_ns(void);
enum floor_phase floor_phase(const struct floor_run *run);
/* Client: move on. */
void floor_set_phase(struct floor_run *run, enum floor_phase phase);
/* Everybody, often: begins to count processor time when measuring has begun. True until STOP. */
bool floor_goes_on(struct floor_run *run);
/* Everybody, at the end: hands in the processor time. */
void floor_finish(struct floor_run *run);
/* Client, before every message of `what` bw or rate: how long yet? Moves the phase; `sent` counts
 * messages so far. Returns false when enough has been sent. */
bool floor_send_more(struct floor_run *run, uint64_t sent);
/* Client, afterwards: what the server received while it was measured. */
void floor_take_stream(struct floor_run *run, uint64_t sent);
/* Client of `what` lat: call round_trip until there are enough samples. */
int floor_ping(struct floor_run *run, int (*round_trip)(void *ctx), void *ctx);

/* Say what failed, with errno if err != 0; returns 1. */
__attribute__((format(printf, 2, 3))) int floor_failed(int err, const char *format, ...);

/* A UDP socket bound to the side's address, published, and connected to the other side. -1 failed. */
int floor_udp_socket(struct floor_run *run, unsigned side);
/* Wait for the port of a side. 0 = it never came. */
uint16_t floor_wait_port(struct floor_run *run, unsigned side);

/* Bytes of datagram i of a message of `size`. */
uint32_t floor_datagram_bytes(uint64_t size, uint64_t i);
/* Datagrams of a message; an empty message has one. */
uint64_t floor_datagrams(uint64_t size);

#endif

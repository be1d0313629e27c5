/*
 * Declarations that the floors (floor.h) share: options, shared memory of a run's processes,
 * process control. Only tools/vipperf/floor*.c include this.
 *
 * A run measures one message size. The parent forks the processes of the run, which share memory.
 * They end before the parent reads the result. Side 0 (the client) starts and measures time; side 1
 * (the server) answers or counts.
 */
#ifndef TOOLS_VIPPERF_FLOOR_INSIDE_H
#define TOOLS_VIPPERF_FLOOR_INSIDE_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tools/vipperf/result.h"

/* Largest number of processes of a run: two applications and two relays. */
#define FLOOR_ROLES_MAX 4

/* Payload bytes of the largest datagram; a longer message takes several datagrams. */
#define FLOOR_DATAGRAM_BYTES_MAX 65507u

/* Bytes of the largest message. */
#define FLOOR_SIZE_MAX (16u << 20)

/* Largest number of latency samples; a run by duration ends when it has this many. */
#define FLOOR_SAMPLES_MAX 4000000u

/* Milliseconds after which a blocked process checks whether the run has ended. */
#define FLOOR_CHECK_MS 100

enum floor_kind { FLOOR_UDP, FLOOR_GSO, FLOOR_TCP, FLOOR_RELAY, FLOOR_MEMORY };
#define FLOOR_KINDS 5
enum floor_what { FLOOR_LAT, FLOOR_BW, FLOOR_RATE };

struct floor_opts {
    enum floor_kind kind;
    enum floor_what what;
    uint64_t size_min, size_max; /* bytes of a message; doubled from min to max */
    uint64_t iters;              /* messages to measure; 0 = measure for duration_s */
    double duration_s;           /* 0 = measure iters messages */
    bool both_ways;              /* tcp bw by duration: side 1 sends too */
    bool poll;                   /* poll and yield, instead of sleeping in the kernel */
    const char *json;            /* file, or NULL */
    const char *netns[2];        /* names under /run/netns, or NULL */
    struct in_addr address[2];   /* of the two sides */
};

/* The phase of a run; only the client advances it. */
enum floor_phase {
    FLOOR_WARM_UP = 0,
    FLOOR_MEASURE,
    FLOOR_STOP,
};

/* Shared by all processes of a run. Each word has one writer. Writers share no cache line. */
struct floor_shared {
    _Alignas(64) uint32_t phase;      /* client: enum floor_phase */
    uint32_t port[2];                 /* each side: its port, 0 = not bound yet */
    _Alignas(64) uint64_t progress;   /* client: changes while messages are sent */
    _Alignas(64) uint64_t rx_bytes;   /* server: payload received */
    uint64_t rx_last_ns;              /* server: time of the last arrival (runs by iters) */
    _Alignas(64) uint64_t back_bytes; /* client: payload that it received (both ways) */
    _Alignas(64) uint64_t cpu_ns;     /* all processes: added at their end */
    uint64_t messages;                /* client: measured, in one or both directions */
    uint64_t messages_back;           /* client: those of `messages` that the client received */
    uint64_t bytes;                   /* client: measured payload of `messages` */
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
    uint64_t cpu_from; /* processor time of this process when measuring started */
    bool cpu_started;
};

/* The main function of a process: returns 0, or 1 after a message on stderr. */
typedef int floor_role(struct floor_run *run);

struct floor_member {
    floor_role *role;
    unsigned side; /* runs in the network namespace of this side */
};

/* Fork, watch and reap the members of a run. Outcomes: 0; 1: a member failed, with a message. */
int floor_execute(struct floor_run *run, const struct floor_member *members, unsigned count);

/* Run one size and fill run->shared. Outcomes as floor_execute. */
int floor_udp(struct floor_run *run);
int floor_gso(struct floor_run *run); /* bw and rate only */
int floor_tcp(struct floor_run *run);
int floor_relay(struct floor_run *run);
int floor_memory(struct floor_run *run);

/* ---- for the processes of a run ---- */

uint64_t floor_now_ns(void);
enum floor_phase floor_phase(const struct floor_run *run);
/* Client: set the phase. */
void floor_set_phase(struct floor_run *run, enum floor_phase phase);
/*
 * All processes call this often. Starts to count processor time when measuring starts. False at
 * FLOOR_STOP.
 */
bool floor_goes_on(struct floor_run *run);
/* Each process calls this at its end: adds the process's processor time to the total. */
void floor_finish(struct floor_run *run);
/* The client of bw or rate calls this before every message: advances the phase. sent: messages so
 * far. False: enough messages are sent. */
bool floor_send_more(struct floor_run *run, uint64_t sent);
/*
 * The client of bw or rate calls this at its end: sets the result from what arrived in the measured
 * time.
 */
void floor_take_stream(struct floor_run *run, uint64_t sent);
/* The client of lat calls this: it calls round_trip until there are enough samples. */
int floor_ping(struct floor_run *run, int (*round_trip)(void *ctx), void *ctx);

/* Print a message, with the text of err if err != 0. Returns 1. */
__attribute__((format(printf, 2, 3))) int floor_failed(int err, const char *format, ...);

/*
 * Make a UDP socket on the side's address, publish its port, connect to the other side. -1: failed.
 */
int floor_udp_socket(struct floor_run *run, unsigned side);
/* Wait for the port of a side. Returns 0 after a timeout. */
uint16_t floor_wait_port(struct floor_run *run, unsigned side);

/* Payload bytes of datagram i of a message of `size` bytes. */
uint32_t floor_datagram_bytes(uint64_t size, uint64_t i);
/* Number of datagrams of a message; 1 for an empty message. */
uint64_t floor_datagrams(uint64_t size);

#endif

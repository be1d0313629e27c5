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

/* A blocked process checks after this many milliseconds whether the run has ended. */
#define FLOOR_CHECK_MS 100

enum floor_kind { FLOOR_UDP, FLOOR_GSO, FLOOR_TCP, FLOOR_RELAY, FLOOR_MEMORY };
#define FLOOR_KINDS 5
enum floor_what { FLOOR_LAT, FLOOR_BW, FLOOR_RATE };

struct floor_opts {
    enum floor_kind kind;
    enum floor_what what;
    uint64_t size_min, size_max; /* bytes of a message; the size doubles from min to max */
    uint64_t iters;              /* messages to measure; 0 = measure for duration_s */
    uint64_t every_ms;           /* lat: time from one message to the next; 0 = no pause */
    double duration_s;           /* 0 = measure iters messages */
    bool both_ways;              /* tcp bw with duration_s: side 1 sends, too */
    bool poll;                   /* poll and yield, instead of sleeping in the kernel */
    const char *json;            /* file, or NULL */
    const char *netns[2];        /* names under /run/netns, or NULL */
    struct in_addr address[2];   /* IP addresses of the two sides */
};

/* The phase of a run; only the client advances it. */
enum floor_phase {
    FLOOR_WARM_UP = 0,
    FLOOR_MEASURE,
    FLOOR_STOP,
};

/* Shared by all processes of a run. While messages are measured, a cache line has one writer. */
struct floor_shared {
    _Alignas(64) uint32_t phase;      /* enum floor_phase; the client writes it */
    uint32_t port[2];                 /* port of each side; 0 = not bound yet */
    _Alignas(64) uint64_t progress;   /* the client changes it while it sends messages */
    _Alignas(64) uint64_t rx_bytes;   /* payload that the server has received */
    uint64_t rx_last_ns;              /* time of the last arrival at the server (runs by iters) */
    _Alignas(64) uint64_t back_bytes; /* payload that the client has received (both ways) */
    _Alignas(64) uint64_t cpu_ns;     /* each process adds its processor time at its end */
    uint64_t messages;                /* measured messages, in one or both directions */
    uint64_t messages_back;           /* number of `messages` that the client received */
    uint64_t bytes;                   /* measured payload of `messages` */
    uint64_t elapsed_ns;              /* measured time */
    uint64_t sample_count;
    uint64_t samples[FLOOR_SAMPLES_MAX]; /* halves of round-trip times, in ns */
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
    unsigned side; /* the process runs in this side's network namespace */
};

/* Fork, watch and reap the members of a run. Outcomes: 0; 1: a member failed, with a message. */
int floor_execute(struct floor_run *run, const struct floor_member *members, unsigned count);

/* Measure one message size and fill run->shared. Outcomes: as floor_execute. */
int floor_udp(struct floor_run *run);
int floor_gso(struct floor_run *run); /* for bw and rate only */
int floor_tcp(struct floor_run *run);
int floor_relay(struct floor_run *run);
int floor_memory(struct floor_run *run);

/* ---- for the processes of a run ---- */

uint64_t floor_now_ns(void);
enum floor_phase floor_phase(const struct floor_run *run);
/* Set the phase; only the client calls this. */
void floor_set_phase(struct floor_run *run, enum floor_phase phase);
/*
 * All processes call this often. When the measurement starts, this function starts to count the
 * processor time. Returns false in the phase FLOOR_STOP.
 */
bool floor_goes_on(struct floor_run *run);
/* Each process calls this at its end, to add its processor time to the total. */
void floor_finish(struct floor_run *run);
/* The client of bw or rate calls this before every message, to advance the phase. sent: number of
 * messages sent so far. False: enough messages are sent. */
bool floor_send_more(struct floor_run *run, uint64_t sent);
/*
 * The client of bw or rate calls this at its end. The function computes the result from the bytes
 * that arrived in the measured time.
 */
void floor_take_stream(struct floor_run *run, uint64_t sent);
/* The client of lat calls this function, which calls round_trip until it has enough samples. */
int floor_ping(struct floor_run *run, int (*round_trip)(void *ctx), void *ctx);

/* Print a message, with the text of err if err != 0. Returns 1. */
__attribute__((format(printf, 2, 3))) int floor_failed(int err, const char *format, ...);

/*
 * Make the side's UDP socket, publish the port, connect the socket to the other side. -1: failed.
 */
int floor_udp_socket(struct floor_run *run, unsigned side);
/* Wait until a side has published its port. Returns the port; 0: timeout. */
uint16_t floor_wait_port(struct floor_run *run, unsigned side);

/* Payload bytes of datagram i, if the message has `size` bytes. */
uint32_t floor_datagram_bytes(uint64_t size, uint64_t i);
/* Number of datagrams of a message; 1 for an empty message. */
uint64_t floor_datagrams(uint64_t size);

#endif

/*
 * The plan of one measurement: all its parameters. The client chooses them. In its first note (a
 * text that the control connection carries), it sends the server those that the server needs. This
 * file also has the format of notes.
 *
 * Owns: names of the choices, the text form, limits for the plan of an unknown client. Does not
 * own: the command line (options.c), connections (meet.c).
 */
#ifndef TOOLS_VIPPERF_PLAN_H
#define TOOLS_VIPPERF_PLAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Version of the notes between two vipperf processes, which must have the same version. */
#define PLAN_PROTOCOL 3

/* Largest value of --buffers. No cache (of data or address translations) has room for so many. */
#define PLAN_BUFFERS_MAX 4096

/* Largest value of --buffers with --register each: one note has room for this many handles. */
#define PLAN_APART_MAX 128

enum plan_test {
    PLAN_LAT = 0, /* ping-pong */
    PLAN_BW,      /* one way, as many bytes as possible */
    PLAN_RATE,    /* one way, as many messages as possible */
};

enum plan_op {
    PLAN_SEND = 0,  /* each send uses up a posted receive descriptor */
    PLAN_WRITE,     /* RDMA Write; uses up no receive descriptor */
    PLAN_WRITE_IMM, /* RDMA Write with immediate data; uses up a receive descriptor */
    PLAN_READ,      /* RDMA Read by the client; the server's program is idle */
};

enum plan_level {
    PLAN_UD = 0, /* Unreliable Delivery */
    PLAN_RD,     /* Reliable Delivery */
    PLAN_RR,     /* Reliable Reception */
};

enum plan_wait {
    PLAN_ADAPTIVE = 0, /* VipXxxDone for some time, then VipXxxWait */
    PLAN_POLL,         /* VipXxxDone only */
    PLAN_BLOCK,        /* VipXxxWait only */
};

/* Names as on the command line, in the order of the enumerations; NULL-terminated. */
extern const char *const plan_test_names[];
extern const char *const plan_op_names[];
extern const char *const plan_level_names[];
extern const char *const plan_wait_names[];

/* A side's memory that the other side may write or read: its in slots. */
struct plan_target {
    uint64_t addr;         /* address of the first slot */
    uint32_t handle;       /* handle of all slots that have no entry in `handles` */
    unsigned handle_count; /* number of entries in `handles`; 0 = all slots have `handle` */
    uint32_t handles[PLAN_APART_MAX];
};

struct plan {
    enum plan_test test;
    enum plan_op op;
    enum plan_level level;
    enum plan_wait wait;
    uint64_t size_bytes;    /* size of each message; with random_sizes, the largest size */
    uint64_t window;        /* largest number of messages under way */
    uint64_t idle_vis;      /* number of other connected VIs, which have no traffic */
    uint64_t iters;         /* stop after this many messages; UINT64_MAX = no limit */
    uint64_t duration_ms;   /* stop after this time; UINT64_MAX = no limit */
    uint64_t total_bytes;   /* stop after this many bytes; UINT64_MAX = no limit */
    uint64_t every_ms;      /* lat: time from one message to the next; 0 = no pause */
    uint64_t seed;          /* seed of the contents and of random sizes */
    uint64_t segments;      /* number of data segments in a message's descriptor */
    uint64_t buffers;       /* buffers that messages use in turn; 0 = one per message under way */
    bool apart;             /* each buffer has its own registration */
    bool both_ways;         /* the server sends the same stream at the same time on the same VI */
    bool cq;                /* completions go through a completion queue */
    bool verify;            /* the receiver checks every byte */
    bool random_sizes;      /* message sizes are random, evenly distributed from 0 to size_bytes */
    struct plan_target own; /* in slots of the client, which sends this plan */
};

/* Size of message `number` of the plan. */
uint64_t plan_size(const struct plan *plan, uint64_t number);

/*
 * A note between client and server: lines of key=value. A reader ignores unknown keys, so that a
 * later version can add keys without a new protocol number.
 */
#define NOTE_BYTES_MAX 2048
struct note {
    char text[NOTE_BYTES_MAX]; /* always ends with a zero byte */
    size_t len_bytes;
};

void note_put(struct note *note, const char *key, const char *value);
void note_put_number(struct note *note, const char *key, uint64_t value);
/* Copy the value of a key. False: no such key, or (note_get_number) the value is not a number. */
bool note_get(const struct note *note, const char *key, char *ret, size_t ret_bytes);
bool note_get_number(const struct note *note, const char *key, uint64_t *ret);

void target_put(struct note *note, const struct plan_target *target);
/* False: a key is missing or its value is invalid; *ret is unchanged. */
bool target_get(const struct note *note, struct plan_target *ret);

void plan_put(struct note *note, const struct plan *plan);
/* False: this version cannot follow the plan; a sentence in why has the reason. */
bool plan_get(const struct note *note, struct plan *ret, char *why, size_t why_bytes);

#endif

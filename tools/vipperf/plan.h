/*
 * The plan of one measurement: all its parameters. The client chooses them and sends them to the
 * server in its first note (a text of the control connection). This file also has the format of
 * notes.
 *
 * Owns: names of the choices, the text form, limits for the plan of an unknown client. Does not
 * own: the command line (options.c), connections (meet.c).
 */
#ifndef TOOLS_VIPPERF_PLAN_H
#define TOOLS_VIPPERF_PLAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Version of the notes between two vipperf processes; both must have the same. */
#define PLAN_PROTOCOL 3

/* Largest --buffers: more than any cache (of data or of address translations) has room for. */
#define PLAN_BUFFERS_MAX 4096

/* Largest --buffers with --register each, so that all handles fit into one note. */
#define PLAN_APART_MAX 128

enum plan_test {
    PLAN_LAT = 0, /* ping-pong */
    PLAN_BW,      /* one way, as many bytes as possible */
    PLAN_RATE,    /* one way, as many messages as possible */
};

enum plan_op {
    PLAN_SEND = 0,  /* send into posted receives */
    PLAN_WRITE,     /* RDMA Write; consumes no receive */
    PLAN_WRITE_IMM, /* RDMA Write with immediate data, consumes a receive */
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

/* The in slots of a side, which the other side may write or read. */
struct plan_target {
    uint64_t addr;         /* of the first slot */
    uint32_t handle;       /* of the slots that are not in `handles` */
    unsigned handle_count; /* number of valid `handles`; 0 = all slots have `handle` */
    uint32_t handles[PLAN_APART_MAX];
};

struct plan {
    enum plan_test test;
    enum plan_op op;
    enum plan_level level;
    enum plan_wait wait;
    uint64_t size_bytes;    /* of a message; the largest one with random_sizes */
    uint64_t window;        /* most messages under way */
    uint64_t idle_vis;      /* connected VIs beside the measured one, without traffic */
    uint64_t iters;         /* stop after this many messages; UINT64_MAX = no limit */
    uint64_t duration_ms;   /* stop after this time; UINT64_MAX = no limit */
    uint64_t total_bytes;   /* stop after this many bytes; UINT64_MAX = no limit */
    uint64_t seed;          /* of contents and random sizes */
    uint64_t segments;      /* data segments of a message's descriptor */
    uint64_t buffers;       /* used in turn by messages; 0 = one per message under way */
    bool apart;             /* each buffer has its own registration */
    bool both_ways;         /* the server sends the same stream at the same time on the same VI */
    bool cq;                /* completions through a completion queue */
    bool verify;            /* check every byte */
    bool random_sizes;      /* 0 to size_bytes, evenly distributed */
    struct plan_target own; /* in slots of the sender of this plan */
};

/* Size of message `number` of the plan. */
uint64_t plan_size(const struct plan *plan, uint64_t number);

/*
 * A note between client and server: lines of key=value. Unknown keys are ignored, so that a later
 * version can add keys without a new protocol number.
 */
#define NOTE_BYTES_MAX 2048
struct note {
    char text[NOTE_BYTES_MAX]; /* always terminated */
    size_t len_bytes;
};

void note_put(struct note *note, const char *key, const char *value);
void note_put_number(struct note *note, const char *key, uint64_t value);
/* Copy a value; false: the key is missing, or the value is not a number (note_get_number). */
bool note_get(const struct note *note, const char *key, char *ret, size_t ret_bytes);
bool note_get_number(const struct note *note, const char *key, uint64_t *ret);

void target_put(struct note *note, const struct plan_target *target);
/* False: a key is missing or invalid; *ret is unchanged. */
bool target_get(const struct note *note, struct plan_target *ret);

void plan_put(struct note *note, const struct plan *plan);
/* False, with a sentence in why: this version cannot follow the plan. */
bool plan_get(const struct note *note, struct plan *ret, char *why, size_t why_bytes);

#endif

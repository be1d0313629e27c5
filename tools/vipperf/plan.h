/*
 * What one measurement does: all its parameters, chosen by the client and told to the server in the
 * first message. Also the little text format of the messages between the two.
 *
 * Owns: names of the choices, the text form, limits of what a server does for a stranger.
 * Does not own: the command line (options.c), connections (meet.c).
 */
#ifndef TOOLS_VIPPERF_PLAN_H
#define TOOLS_VIPPERF_PLAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Version of the conversation between two vipperf; both must be equal. */
#define PLAN_PROTOCOL 3

/* Buffers that messages may take turns in: more than any cache holds translations or bytes of. */
#define PLAN_BUFFERS_MAX 4096

/* The same with a registration each: their handles travel in one note. */
#define PLAN_APART_MAX 128

enum plan_test {
    PLAN_LAT = 0, /* ping-pong */
    PLAN_BW,      /* one way, as many bytes as possible */
    PLAN_RATE,    /* one way, as many messages as possible */
};

enum plan_op {
    PLAN_SEND = 0,  /* send into posted receives */
    PLAN_WRITE,     /* RDMA Write, nobody is told */
    PLAN_WRITE_IMM, /* RDMA Write with immediate data, consumes a receive */
    PLAN_READ,      /* RDMA Read by the client; the server's program does nothing */
};

enum plan_level {
    PLAN_UD = 0, /* Unreliable Delivery */
    PLAN_RD,     /* Reliable Delivery */
    PLAN_RR,     /* Reliable Reception */
};

enum plan_wait {
    PLAN_ADAPTIVE = 0, /* Done for a while, then Wait */
    PLAN_POLL,         /* Done only */
    PLAN_BLOCK,        /* Wait only */
};

/* Names as on the command line, in the order of the enumerations; NULL-terminated. */
extern const char *const plan_test_names[];
extern const char *const plan_op_names[];
extern const char *const plan_level_names[];
extern const char *const plan_wait_names[];

/* Where one side may write to or read from the other: its in slots. */
struct plan_target {
    uint64_t addr;         /* of the first one */
    uint32_t handle;       /* of the registration in which all of them lie, or: */
    unsigned handle_count; /* so many have handles of their own */
    uint32_t handles[PLAN_APART_MAX];
};

struct plan {
    enum plan_test test;
    enum plan_op op;
    enum plan_level level;
    enum plan_wait wait;
    uint64_t size_bytes;    /* of a message; the largest one with random_sizes */
    uint64_t window;        /* messages under way at most */
    uint64_t idle_vis;      /* connected VIs beside the measured one, without traffic */
    uint64_t iters;         /* stop after so many messages; UINT64_MAX = no such limit */
    uint64_t duration_ms;   /* stop after so long; UINT64_MAX = no such limit */
    uint64_t total_bytes;   /* stop after so many bytes; UINT64_MAX = no such limit */
    uint64_t seed;          /* of contents and random sizes */
    uint64_t segments;      /* data segments of a message's descriptor */
    uint64_t buffers;       /* messages take turns in so many; 0 = as many as can be under way */
    bool apart;             /* each of these is a registration of its own */
    bool both_ways;         /* the server sends the same at the same time on the same VI */
    bool cq;                /* completions through a completion queue */
    bool verify;            /* every byte is checked */
    bool random_sizes;      /* 0..size_bytes, evenly spread */
    struct plan_target own; /* of the sender of the text: there the other side may write */
};

/* Size of message `number` of the plan. */
uint64_t plan_size(const struct plan *plan, uint64_t number);

/*
 * A message of the conversation: lines of key=value. Unknown keys are ignored, so that a later
 * version can say more without a new protocol number.
 */
#define NOTE_BYTES_MAX 2048
struct note {
    char text[NOTE_BYTES_MAX]; /* always terminated */
    size_t len_bytes;
};

void note_put(struct note *note, const char *key, const char *value);
void note_put_number(struct note *note, const char *key, uint64_t value);
/* Copy a value out; false if the key is missing or (number) the value is none. */
bool note_get(const struct note *note, const char *key, char *ret, size_t ret_bytes);
bool note_get_number(const struct note *note, const char *key, uint64_t *ret);

void target_put(struct note *note, const struct plan_target *target);
/* Outcomes: true; false: something is missing or makes no sense, *ret untouched. */
bool target_get(const struct note *note, struct plan_target *ret);

void plan_put(struct note *note, const struct plan *plan);
/* Outcomes: true; false with a sentence in why: the text is not a plan this version can follow. */
bool plan_get(const struct note *note, struct plan *ret, char *why, size_t why_bytes);

#endif

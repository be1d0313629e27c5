/*
 * Congestion control, with a choice of algorithms: the window, that is, the limit of bytes that a
 * connection may have under way.
 *
 * Owns: the window, its reduction after losses, and the undoing of a reduction. Does not own: the
 * bytes under way, the detection of losses (loss.c), the pace within a window (pace.c), the peer's
 * limit (the caller takes the smaller of both limits). The algorithms are cc_delay.c, cc_cubic.c
 * and "fixed" in cc.c.
 */
#ifndef VIPD_ENGINE_CC_H
#define VIPD_ENGINE_CC_H

#include <stdbool.h>
#include <stdint.h>

#include "vipd/engine/engine.h"

/* Delay-based: state of cc_delay.c. */
struct eng_cc_delay {
    bool starting;         /* the window doubles in each round trip */
    bool limited;          /* the window was used up in this round */
    uint8_t drain;         /* remaining rounds of the drain, 0 = no drain */
    uint64_t share_bytes;  /* bytes that this connection wants to have in the queue of the path */
    uint64_t round_end;    /* the round ends when this number is acknowledged */
    uint64_t round_rtt_ns; /* smallest round trip time in this round, 0 = none yet */
    uint64_t round_samples;
    uint64_t round_acked, round_lost; /* bytes */
    uint64_t drain_ns;                /* time of the next drain, 0 = not decided */
    uint64_t drain_window;            /* window to restore after the drain */
};

/* CUBIC: state of cc_cubic.c. */
struct eng_cc_cubic {
    uint64_t threshold_bytes; /* slow start ends at this window */
    uint64_t top_bytes;       /* window to which the curve returns (cubic_lost) */
    uint64_t begin_ns;        /* start of the curve, 0: the next acknowledgement starts it */
    uint64_t reach_ms;        /* time from begin_ns until the curve reaches top_bytes again */
    uint64_t reno_bytes;      /* window that additive increase would have reached by now */
};

/* The state that a reduction of the window changes. With a copy, the reduction can be undone. */
struct eng_cc_state {
    uint64_t window_bytes; /* bytes that may be under way */
    union {
        struct eng_cc_delay delay;
        struct eng_cc_cubic cubic;
    };
};

struct eng_cc {
    struct eng_cc_state now;
    struct eng_cc_state before;            /* the state before the last reduction */
    uint64_t limit_bytes;                  /* largest window: the peer sets this limit */
    uint32_t packet_bytes;                 /* largest packet */
    uint32_t unproven;                     /* packets declared lost that have not arrived since */
    uint64_t recovery_begin, recovery_end; /* losses of these packet numbers are one episode */
    uint64_t silence_end;                  /* next packet number when the silence began; 0: none */
    uint8_t kind;                          /* enum eng_congestion */
};

/* Facts from an acknowledgement: packets that arrived. */
struct eng_cc_ack {
    uint64_t now_ns;
    uint64_t bytes;   /* size of all packets acknowledged for the first time */
    uint64_t rtt_ns;  /* the latest round trip time */
    uint64_t base_ns; /* smallest round trip time of the last 10 to 20 seconds */
    uint64_t newest;  /* largest packet number acknowledged for the first time */
    uint64_t next;    /* number of the next packet to be sent */
    bool limited;     /* the window or the pace held the sender back */
};

/* One packet was lost. */
struct eng_cc_loss {
    uint64_t now_ns;
    uint64_t number, next; /* of the lost packet; of the next packet to be sent */
    uint32_t bytes;
};

/* An algorithm. It sets the window by eng_cc_set, which keeps the window within its limits. */
struct eng_cc_class {
    const char *name; /* its name in the configuration */
    void (*start)(struct eng_cc *cc);
    void (*acked)(struct eng_cc *cc, const struct eng_cc_ack *ack);
    /* Handle a loss. `first`: it begins an episode (all losses within one window of packets). */
    void (*lost)(struct eng_cc *cc, const struct eng_cc_loss *loss, bool first);
    /* Handle a silence: the timer expired at least twice in a row. */
    void (*silence)(struct eng_cc *cc);
    bool paced; /* the sender spreads the window over the round trip time */
    /* Is the window still in its fast growth at the start? Then the pace is faster, too. */
    bool (*searching)(const struct eng_cc *cc);
};
extern const struct eng_cc_class eng_cc_delay, eng_cc_cubic;

/* Returns the smallest window, in bytes. It has room for four packets: a lost packet, and three
 * later packets that prove the loss. */
uint64_t eng_cc_floor(const struct eng_cc *cc);
void eng_cc_set(struct eng_cc *cc, uint64_t window_bytes);

/* The functions from here on are called by state.c, ack.c, loss.c and pace.c. */
void eng_cc_init(struct eng_cc *cc, enum eng_congestion kind, uint32_t packet_bytes,
                 uint32_t limit_bytes);
void eng_cc_acked(struct eng_cc *cc, const struct eng_cc_ack *ack);
void eng_cc_lost(struct eng_cc *cc, const struct eng_cc_loss *loss);
void eng_cc_silence(struct eng_cc *cc, uint64_t next_number);
/* A packet declared lost has arrived. If it was the last one of its episode, restore the window. */
void eng_cc_spurious(struct eng_cc *cc, uint64_t number);
/* Bytes that may be sent per round trip, in eighths of the window; 0 = no limit. */
unsigned eng_cc_pace(const struct eng_cc *cc);

#endif

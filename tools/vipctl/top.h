/*
 * `vipctl top`: takes samples of a view, and computes the rates between two samples.
 *
 * Owns: sampling, rates, sorting. Does not own: the screen (top.c).
 */
#ifndef VIPCTL_TOP_H
#define VIPCTL_TOP_H

#include <stddef.h>
#include <stdint.h>

#include "proto/stats.h"
#include "tools/vipctl/query.h"

enum top_by {
    TOP_BY_VI,
    TOP_BY_PEER,
    TOP_BY_PROGRAM,
};

/* A VI, a peer or a program, with the counts of its traffic since its start. */
struct top_item {
    char key[96];   /* identity */
    char label[96]; /* for people */
    uint64_t tx_bytes, rx_bytes, tx_messages, rx_messages, retransmits;
    uint64_t srtt_ns;
    /* p99 of the time from posting to completion, since the VI was created. For a program: the
     * largest of its VIs. 0: for a peer, or if vipd does not measure it ([stats] vi_latency). */
    uint64_t p99_ns;
};

/* The rates of an item, per second, between two samples. */
struct top_rate {
    const struct top_item *item;
    double tx_bytes, rx_bytes, messages, retransmits;
};

struct top_sample {
    struct top_item *item; /* sorted by key */
    size_t count;
    /* Latencies since vipd started, by enum vip_hist_id. Each is the largest value of all NICs. */
    uint64_t p50_ns[VIP_HISTS], p99_ns[VIP_HISTS];
    double time_s; /* CLOCK_MONOTONIC */
};

/* Take a sample (free it with top_sample_free). Outcomes: EXIT_OK; others, with a message. */
enum exit_code top_sample_take(int sock, enum top_by by, struct top_sample *ret);
void top_sample_free(struct top_sample *sample);

/*
 * The rates of all items in `now`, the busiest item first. The rate of a new item counts from its
 * start. The caller owns the array of now->count entries. NULL: out of memory.
 */
struct top_rate *top_rates(const struct top_sample *before, const struct top_sample *now);

const char *top_by_name(enum top_by by);

#endif

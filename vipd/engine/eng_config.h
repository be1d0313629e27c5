/* Configuration of an engine: times, sizes, and the place for latencies. Only engine.h includes
 * this file. */
#ifndef VIPD_ENGINE_ENG_CONFIG_H
#define VIPD_ENGINE_ENG_CONFIG_H

#include <stdint.h>

#include "proto/hist.h"

/* Algorithm that limits the bytes that a connection has under way (vipd/engine/cc.h). */
enum eng_congestion {
    ENG_CONGESTION_DELAY = 0, /* keeps queues short, tolerates losses: the default */
    ENG_CONGESTION_CUBIC,     /* RFC 9438; most traffic of the Internet uses it */
    ENG_CONGESTION_FIXED,     /* the limit is the peer's window: for paths without congestion */
};

/* Latencies in ns of the host's clock, either of all VIs of a group of engines, or of one VI. */
struct eng_latency {
    /* From a post until the medium has its packet. The host adds these latencies. */
    struct vip_hist post_to_wire;
    struct vip_hist wire_to_ack;      /* from eng_tx_pull until the acknowledgement is processed */
    struct vip_hist post_to_complete; /* from eng_post of a send to its successful completion */
};

/* Times in ns, configured per NIC; every field must be set. ENG_CONFIG_DEFAULT is a good start. */
struct eng_config {
    uint64_t rto_min_ns;        /* smallest retransmission timeout */
    uint64_t rto_max_ns;        /* largest retransmission timeout, even after back-off */
    uint64_t rto_initial_ns;    /* retransmission timeout before the first round trip is known */
    uint64_t ack_delay_ns;      /* longest delay of an acknowledgement */
    uint64_t conn_timeout_ns;   /* longest time without an answer of the peer; then CONN_LOST */
    uint32_t ack_every_packets; /* acknowledge at once after this many unacknowledged packets */
    uint32_t congestion;        /* enum eng_congestion */
    uint32_t turn_packets;      /* packets that one VI may send before the next VI has its turn */
    uint32_t turn_bytes;        /* bytes that one VI may send before the next VI has its turn */
    uint32_t held_packets_max;  /* largest number of held packets of one VI */
    uint64_t seed;              /* a secret that decides which packet numbers are skipped */
    /* Average distance of skipped packet numbers (skip.c). It must be many times ENG_BITS: until
     * ENG_BITS numbers later, each skipped number costs one more range in every acknowledgement of
     * the peer. 0: no number is skipped. */
    uint32_t skip_packets;
    struct eng_latency *latency; /* the engine adds latencies here; the host owns it; NULL: none */
    /* For tests of numbers that wrap: added to the first operation number and to the first packet
     * number of every connection. Both ends must have the same values. 0 in production. */
    uint32_t start_op;
    uint64_t start_number;
};

#define ENG_CONFIG_DEFAULT                                                                         \
    ((struct eng_config){.rto_min_ns = 2000000,                                                    \
                         .rto_max_ns = 200000000,                                                  \
                         .rto_initial_ns = 20000000,                                               \
                         .ack_delay_ns = 25000,                                                    \
                         .conn_timeout_ns = 10000000000ull,                                        \
                         .ack_every_packets = 8,                                                   \
                         .congestion = ENG_CONGESTION_DELAY,                                       \
                         .turn_packets = 64,                                                       \
                         .turn_bytes = 262144,                                                     \
                         .held_packets_max = 2048,                                                 \
                         .skip_packets = 32768,                                                    \
                         .seed = 1})

#endif

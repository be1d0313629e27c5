/* Configuration of an engine: times, sizes, and where it counts latencies (part of engine.h). */
#ifndef VIPD_ENGINE_ENG_CONFIG_H
#define VIPD_ENGINE_ENG_CONFIG_H

#include <stdint.h>

#include "proto/hist.h"

/* Algorithm that limits the bytes of a connection under way (vipd/engine/cc.h). */
enum eng_congestion {
    ENG_CONGESTION_DELAY = 0, /* keeps queues short, tolerates losses: the default */
    ENG_CONGESTION_CUBIC,     /* RFC 9438; most traffic of the Internet uses it */
    ENG_CONGESTION_FIXED,     /* the limit is the peer's window: for paths without congestion */
};

/* Latencies, in ns of the host's clock: of all VIs of a group of engines, or of one VI. */
struct eng_latency {
    struct vip_hist post_to_wire;     /* post -> the medium has the packet; the host adds these */
    struct vip_hist wire_to_ack;      /* packet pulled -> its acknowledgement processed */
    struct vip_hist post_to_complete; /* eng_post of a send -> its completion, without error */
};

/* Times in ns, configured per NIC; every field must be set. ENG_CONFIG_DEFAULT is a good start. */
struct eng_config {
    uint64_t rto_min_ns;        /* smallest retransmission timeout */
    uint64_t rto_max_ns;        /* largest one, also after back-off */
    uint64_t rto_initial_ns;    /* before the first round trip is known */
    uint64_t ack_delay_ns;      /* longest delay of an acknowledgement */
    uint64_t conn_timeout_ns;   /* longest time without an answer of the peer; then CONN_LOST */
    uint32_t ack_every_packets; /* acknowledge at once after this many unacknowledged packets */
    uint32_t congestion;        /* enum eng_congestion */
    uint32_t turn_packets;      /* packets that one VI may send before the next VI has its turn */
    uint32_t turn_bytes;        /* bytes that it may send before that */
    uint32_t held_packets_max;  /* packets held ahead of their turn per VI */
    uint64_t seed;              /* secret: decides which packet numbers are skipped */
    /* Average distance of skipped packet numbers (skip.c). It must be many times ENG_BITS: for
     * ENG_BITS numbers, each gap costs one more range in every acknowledgement of the peer. 0 = no
     * number is skipped. */
    uint32_t skip_packets;
    struct eng_latency *latency; /* the engine adds to it, the host owns it; NULL: no measurement */
    /* For tests of wrapping: offsets of the first operation and packet numbers of every connection.
     * Both ends must have the same. 0 in production. */
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

/* Configuration of an engine: times, sizes, and where it counts latencies (part of engine.h). */
#ifndef VIPD_ENGINE_ENG_CONFIG_H
#define VIPD_ENGINE_ENG_CONFIG_H

#include <stdint.h>

#include "proto/hist.h"

/* The limit of bytes that a connection may have under way (vipd/engine/cc.h). */
enum eng_congestion {
    ENG_CONGESTION_DELAY = 0, /* keeps queues short, tolerates losses: the default */
    ENG_CONGESTION_CUBIC,     /* the one that most traffic of the Internet uses */
    ENG_CONGESTION_FIXED,     /* always the peer's window: for paths that cannot be congested */
};

/* Latencies by the host's clock: of all VIs of the engines that share it, or of one VI. */
struct eng_latency {
    struct vip_hist post_to_wire;     /* eng_packet.posted_ns -> the medium has it; host adds */
    struct vip_hist wire_to_ack;      /* packet pulled -> its acknowledgement processed */
    struct vip_hist post_to_complete; /* eng_post of a send -> its completion, without error */
};

/* Times in ns, configured per NIC; every field must be set. ENG_CONFIG_DEFAULT is a good start. */
struct eng_config {
    uint64_t rto_min_ns;        /* floor of the retransmission timer */
    uint64_t rto_max_ns;        /* ceiling, after back-off */
    uint64_t rto_initial_ns;    /* before the first RTT sample */
    uint64_t ack_delay_ns;      /* longest wait of an acknowledgement for a packet to carry it */
    uint64_t conn_timeout_ns;   /* longest time without an answer of the peer; then CONN_LOST */
    uint32_t ack_every_packets; /* acknowledge at once after this many unacknowledged packets */
    uint32_t congestion;        /* enum eng_congestion */
    uint32_t turn_packets;      /* packets that one VI may send before the next VI has its turn */
    uint32_t turn_bytes;        /* bytes, likewise */
    uint32_t held_packets_max;  /* packets held ahead of their turn per VI */
    uint64_t seed;              /* secret: decides which packet numbers are skipped */
    /* Average distance of skipped packet numbers: a peer that acknowledges a skipped number did not
     * wait for packets. It must be many times ENG_BITS: each gap costs a range in the peer's
     * acknowledgements for ENG_BITS numbers. 0 = no number is skipped. */
    uint32_t skip_packets;
    struct eng_latency *latency; /* owned by the host, the engine adds; NULL: no measurement */
    /* For tests of wrapping: the first numbers of operations and packets of every connection; both
     * ends must agree. 0 in production. */
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

/* Sums of the counters of VIs. */
#include "vipd/nic/internal.h"

void nic_stats_add(struct eng_vi_stats *sum, const struct eng_vi_stats *one)
{
    sum->tx_packets += one->tx_packets;
    sum->rx_packets += one->rx_packets;
    sum->tx_bytes += one->tx_bytes;
    sum->rx_bytes += one->rx_bytes;
    sum->tx_messages += one->tx_messages;
    sum->rx_messages += one->rx_messages;
    sum->retransmits += one->retransmits;
    sum->timeouts += one->timeouts;
    sum->duplicates += one->duplicates;
    sum->held += one->held;
    sum->acks_sent += one->acks_sent;
    sum->acks_invented += one->acks_invented;
    sum->recvq_empty += one->recvq_empty;
    sum->lost += one->lost;
    sum->spurious += one->spurious;
    sum->mtu_cuts += one->mtu_cuts;
}

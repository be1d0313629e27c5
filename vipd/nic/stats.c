/*
 * Adds up the counters of VIs. The program counts what its engines have done while the VI was on
 * loan (proto/loan.h); for each loan vipd has another engine of the VI.
 */
#include <stdlib.h>

#include "proto/fetch.h"
#include "vipd/nic/internal.h"

struct nic_vi_past {
    struct eng_vi_stats sum;     /* of earlier engines, and of loans by earlier parts */
    struct vip_loan_counts seen; /* in the present part: the largest numbers seen */
};

void nic_stats_add(struct eng_vi_stats *sum, const struct eng_vi_stats *one)
{
#define VIP_STAT_OF_VI(member, name) sum->member += one->member;
#include "proto/stats.def"
}

/* Add what the program has counted. */
static void lent_add(struct eng_vi_stats *sum, const struct vip_loan_counts *lent)
{
    sum->tx_messages += lent->tx_messages;
    sum->tx_bytes += lent->tx_bytes;
    sum->rx_messages += lent->rx_messages;
    sum->rx_bytes += lent->rx_bytes;
    sum->tx_packets += lent->tx_packets;
    sum->rx_packets += lent->rx_packets;
    sum->retransmits += lent->retransmits;
    sum->lost += lent->lost;
    sum->timeouts += lent->timeouts;
}

static void raise(uint64_t *seen, const uint64_t *word)
{
    uint64_t now = vip_load64(word);

    if (now > *seen)
        *seen = now;
}

/* Look at the program's words. A word that became smaller does not count: no counter may. */
static void look(const struct nic_vi *vi)
{
    const struct vip_loan_counts *word = &vi->loan_part->counts;
    struct vip_loan_counts *seen = &vi->past->seen;

    vip_fetch_begin();
    raise(&seen->tx_messages, &word->tx_messages);
    raise(&seen->tx_bytes, &word->tx_bytes);
    raise(&seen->rx_messages, &word->rx_messages);
    raise(&seen->rx_bytes, &word->rx_bytes);
    raise(&seen->tx_packets, &word->tx_packets);
    raise(&seen->rx_packets, &word->rx_packets);
    raise(&seen->retransmits, &word->retransmits);
    raise(&seen->lost, &word->lost);
    raise(&seen->timeouts, &word->timeouts);
    vip_fetch_end();
}

bool nic_past_begin(struct nic_vi *vi)
{
    if (!vi->past)
        vi->past = calloc(1, sizeof(*vi->past));
    return vi->past != NULL;
}

void nic_past_part_ends(struct nic_vi *vi)
{
    look(vi);
    lent_add(&vi->past->sum, &vi->past->seen);
    vi->past->seen = (struct vip_loan_counts){0};
}

void nic_past_engine_ends(struct nic_session *session, uint16_t number)
{
    struct eng_vi_stats one;

    eng_vi_stats(session->eng, number, &one);
    nic_stats_add(&session->vis[number].past->sum, &one);
}

void nic_past_add(const struct nic_vi *vi, struct eng_vi_stats *sum)
{
    if (!vi->past)
        return;
    if (vi->loan_part)
        look(vi);
    nic_stats_add(sum, &vi->past->sum);
    lent_add(sum, &vi->past->seen);
}

void nic_past_free(struct nic_vi *vi)
{
    free(vi->past);
    vi->past = NULL;
}

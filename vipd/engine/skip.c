/*
 * Skipped packet numbers. Now and then the engine sends no packet with the next number. A peer
 * cannot know which number is skipped. A peer that acknowledges this number acknowledges packets
 * that did not arrive, and so its acknowledgements prove nothing.
 */
#include "vipd/engine/internal.h"
#include "proto/siphash.h"

void eng_skip_draw(struct eng_vi *vi)
{
    const struct siphash_key key = {vi->eng->config.seed, vi->conn.local_id};
    uint32_t mean = vi->eng->config.skip_packets;

    vi->tx.skip_at = mean ? vi->tx.number + mean / 2 +
                                siphash(&key, &vi->tx.number, sizeof(vi->tx.number)) % (mean + 1)
                          : 0;
}

bool eng_ack_invented(const struct eng_vi *vi, const struct vip_packet *packet)
{
    const struct vip_header *hdr = &packet->hdr;
    uint64_t skipped = vi->tx.skipped, base = hdr->ack_cumulative;

    /* ENG_BITS numbers later, a correct peer's cumulative number includes missing ones (ack.c). */
    if (!(hdr->flags & VIP_PKTF_ACK) || !skipped || vi->tx.number - skipped > ENG_BITS)
        return false;
    if (base > skipped)
        return true;
    for (unsigned i = 0; i < hdr->range_count; i++)
        if (base + packet->ranges[i].start <= skipped && base + packet->ranges[i].end > skipped)
            return true;
    return false;
}

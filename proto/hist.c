/* Quantiles of a histogram; see hist.h. */
#include "proto/hist.h"

uint64_t vip_hist_quantile_ns(const struct vip_hist *hist, double share)
{
    double wanted = share * (double)hist->count;
    uint64_t below = 0;

    for (unsigned i = 0; i < VIP_HIST_BUCKETS && hist->count > 0; i++) {
        below += hist->bucket[i];
        if (hist->bucket[i] > 0 && (double)below >= wanted) {
            uint64_t high_ns = vip_hist_low_ns(i + 1) - 1;

            return i + 1 == VIP_HIST_BUCKETS || high_ns > hist->max_ns ? hist->max_ns : high_ns;
        }
    }
    return hist->count > 0 ? hist->max_ns : 0;
}

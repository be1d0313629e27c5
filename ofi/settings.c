/*
 * For all files of the provider: the struct fi_provider, the settings (FI_VIA_* in the environment,
 * listed by `fi_info -e`), libfabric's errors for VIPL's codes, and the clock.
 */
#include <limits.h>
#include <time.h>

#include "ofi/calls.h"

/* provider.c fills the other members: the functions that libfabric calls. */
struct fi_provider via_provider = {
    .name = "via",
    .version = FI_VERSION(1, 0),
    /* libfabric ignores a provider if its version is below that of the program. */
    .fi_version = FI_VERSION(FI_MAJOR_VERSION, FI_MINOR_VERSION),
};

struct via_settings via_settings = {
    .nic = NULL,
    .credit_batch = 32,
    .inject_bytes = 256,
    .connect_timeout_ms = 30000,
    .linger_ms = 2000,
    .cm_threads = 4,
    .spin_us = 20,
    .mr_cache = 256,
    .refuse_every = 0,
    .loss_fatal = 0,
    .ring_bytes = 131072,
    .eager_bytes = 16384,
};

/* Define and read a setting. A value below `low` counts as `low`, above `high` as `high`. */
static void setting(const char *name, int low, int high, int *value, const char *help)
{
    int given;

    fi_param_define(&via_provider, name, FI_PARAM_INT, "%s (%d to %d; default %d)", help, low, high,
                    *value);
    if (fi_param_get_int(&via_provider, name, &given) != FI_SUCCESS)
        return;
    if (given < low || given > high)
        VIA_WARN(FI_LOG_CORE, "FI_VIA_%s: %d is not in %d to %d\n", name, given, low, high);
    *value = given < low ? low : given > high ? high : given;
}

void via_settings_read(void)
{
    fi_param_define(&via_provider, "nic", FI_PARAM_STRING,
                    "NIC to use, as VipOpenNic takes it; several separated by commas "
                    "(default: the first NIC of vipd)");
    fi_param_get_str(&via_provider, "nic", &via_settings.nic);
    setting("credit_batch", 1, 512, &via_settings.credit_batch,
            "receives posted before the peer is told of them; at most a quarter of the queue");
    setting("inject", 0, 4096, &via_settings.inject_bytes, "bytes that fi_inject takes");
    setting("connect_timeout", 1, 3600000, &via_settings.connect_timeout_ms,
            "milliseconds for a connection; of these 5,000 until there is a listener");
    setting("linger", 0, 3600000, &via_settings.linger_ms,
            "milliseconds that closing an endpoint waits until what it has sent has arrived");
    setting("cm_threads", 1, 64, &via_settings.cm_threads,
            "connections that can be accepted at the same time");
    setting("spin_us", 0, 1000000, &via_settings.spin_us,
            "microseconds that a blocking fi_cq_sread looks around before it sleeps");
    setting("mr_cache", 0, 65536, &via_settings.mr_cache,
            "registrations kept for the next use of the same memory, 0 = none");
    setting("refuse_every", 0, INT_MAX, &via_settings.refuse_every,
            "for tests: refuse every n-th call that posts with -FI_EAGAIN, 0 = never");
    setting(
        "loss_fatal", 0, 1, &via_settings.loss_fatal,
        "1: after the loss of a connection that its peer did not close, completion queues fail, "
        "so that no rank of a job waits for one that has gone");
    setting("ring", 4096, 1 << 26, &via_settings.ring_bytes,
            "bytes of the ring that a peer's messages lie in (rdm endpoints; the same for all)");
    /* The limit of 1 MiB is below MaxTransferSize, because one descriptor carries a record. */
    setting("eager", 64, 1 << 20, &via_settings.eager_bytes,
            "bytes up to which a message goes through the ring, and fi_tinject takes it (rdm "
            "endpoints); less than a quarter of the ring");
}

int via_errno(VIP_RETURN code)
{
    switch (code) {
    case VIP_SUCCESS:
        return 0;
    case VIP_NOT_DONE:
        return -FI_EAGAIN;
    case VIP_TIMEOUT:
        return -FI_ETIMEDOUT;
    case VIP_REJECT:
    case VIP_NO_MATCH:
        return -FI_ECONNREFUSED;
    case VIP_NOT_REACHABLE:
        return -FI_EHOSTUNREACH;
    case VIP_ERROR_RESOURCE:
        return -FI_ENOMEM;
    case VIP_INVALID_STATE:
        return -FI_EOPBADSTATE;
    case VIP_ERROR_NAMESERVICE:
        return -FI_EADDRNOTAVAIL;
    case VIP_ERROR_NOT_SUPPORTED:
        return -FI_EOPNOTSUPP;
    case VIP_DESCRIPTOR_ERROR:
        return -FI_EIO;
    case VIP_INVALID_PARAMETER:
    case VIP_INVALID_RELIABILITY_LEVEL:
    case VIP_INVALID_MTU:
    case VIP_INVALID_QOS:
    case VIP_INVALID_PTAG:
    case VIP_INVALID_RDMAREAD:
        return -FI_EINVAL;
    }
    return -FI_EOTHER;
}

uint64_t via_now_ns(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (uint64_t)ts.tv_sec * 1000000000ull + (uint64_t)ts.tv_nsec;
}

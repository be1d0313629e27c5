/*
 * The library as a whole: start and stop, limits, options from the environment.
 *
 * Options (doc/active-messages.md): VIPAM_DEVICE, VIPAM_CREDITS, VIPAM_CONNECTIONS, VIPAM_VARIANT,
 * VIPAM_RESIDENCE_MS.
 */
#include "am/internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* Maximum number of connections of one process if VIPAM_CONNECTIONS is not set. */
#define CONNECTIONS_DEFAULT 512

/* Credits per connection if VIPAM_CREDITS is not set. The paper that doc/active-messages.md names
 * uses the same number. */
#define CREDITS_DEFAULT 8

/* A connection younger than this many ms is not closed to make room. Making a connection takes
 * about 1 ms, which must be a small part of the time that the connection is used. */
#define RESIDENCE_DEFAULT_MS 20

/* ---- start and stop -------------------------------------------------------------------------- */

static unsigned option(const char *name, unsigned otherwise, unsigned min, unsigned max)
{
    const char *text = getenv(name);
    char *end;
    unsigned long value;

    if (text == NULL || *text == '\0')
        return otherwise;
    value = strtoul(text, &end, 10);
    if (*end == '\0' && value >= min && value <= max)
        return (unsigned)value;
    fprintf(stderr, "libvipam: %s=%s: a number from %u to %u is needed; using %u\n", name, text,
            min, max, otherwise);
    return otherwise;
}

static void read_options(void)
{
    am_net.depth = option("VIPAM_CREDITS", CREDITS_DEFAULT, 1, AM_DEPTH_MAX);
    am_net.live_max = option("VIPAM_CONNECTIONS", CONNECTIONS_DEFAULT, 1, 4096);
    am_net.lanes = option("VIPAM_VARIANT", 3, 1, 3) == 1 ? AM_CLASSES : 1;
    am_net.residence_ns =
        (int64_t)option("VIPAM_RESIDENCE_MS", RESIDENCE_DEFAULT_MS, 0, 10000) * 1000000;
}

/* Ignore asynchronous errors: an error that concerns the library also flushes its descriptors. */
static void ignore_error(VIP_PVOID context, VIP_ERROR_DESCRIPTOR *error)
{
    (void)context;
    (void)error;
}

static int open_nic(void)
{
    const char *device = getenv("VIPAM_DEVICE");
    VIP_UINT64 process;

    if (VipOpenNic(device != NULL ? device : "", &am_net.nic) != VIP_SUCCESS) {
        am_net.nic = NULL;
        return am_fail(AM_ERR_RESOURCE, "AM_Init: %s", VipxLastError());
    }
    if (VipErrorCallback(am_net.nic, NULL, ignore_error) != VIP_SUCCESS ||
        VipQueryNic(am_net.nic, &am_net.attrs) != VIP_SUCCESS ||
        VipNSInit(am_net.nic, NULL) != VIP_SUCCESS ||
        VipCreatePtag(am_net.nic, &am_net.ptag) != VIP_SUCCESS ||
        VipxNewDiscriminator(am_net.nic, &process) != VIP_SUCCESS)
        return am_fail(AM_ERR_RESOURCE, "AM_Init: %s", VipxLastError());
    am_net.process = process;
    return am_listen(am_net.process, &am_net.listener);
}

static void close_nic(void)
{
    if (am_net.nic == NULL)
        return;
    am_service_stop();
    am_region_flush();
    am_block_flush();
    (void)VipCloseNic(am_net.nic);
    am_net.nic = NULL;
    am_net.listener = NULL;
}

/*
 * The program exits without AM_Terminate. Wait until its posted messages have left, above all the
 * replies. Otherwise lost replies make the requests of other processes come back.
 */
static void at_exit(void)
{
    if (am_net.inits == 0 || am_net.pid != getpid() || am_in_handler > 0)
        return;
    for (struct am_bundle *bundle = am_net.bundles; bundle != NULL; bundle = bundle->next) {
        if (bundle->par && pthread_mutex_trylock(&bundle->lock) != 0)
            continue;
        for (struct am_ep *ep = bundle->eps; ep != NULL; ep = ep->next)
            am_ep_flush(ep);
        am_unlock(bundle);
    }
}

int AM_Init(void)
{
    static bool registered;
    int rc;

    if (am_net.inits > 0) {
        am_net.inits++;
        return AM_OK;
    }
    read_options();
    memset(&am_net.counts, 0, sizeof(am_net.counts));
    am_net.live = am_net.wanted = 0;
    rc = open_nic();
    if (rc == AM_OK && am_net.attrs.NicAddressLen > sizeof(((en_t *)NULL)->host))
        rc = am_fail(AM_ERR_RESOURCE, "AM_Init: host addresses of %u bytes are too long",
                     am_net.attrs.NicAddressLen);
    if (rc == AM_OK)
        rc = am_service_start();
    if (rc != AM_OK) {
        close_nic();
        return rc;
    }
    am_net.inits = 1;
    am_net.pid = getpid();
    if (!registered && atexit(at_exit) == 0)
        registered = true;
    return AM_OK;
}

int AM_Terminate(void)
{
    int rc = AM_OK;

    if (am_net.inits == 0)
        return am_fail(AM_ERR_NOT_INIT, "AM_Terminate: AM_Init was not called");
    if (am_net.inits > 1) {
        am_net.inits--;
        return AM_OK;
    }
    if (am_in_handler > 0)
        return am_fail(AM_ERR_RESOURCE, "AM_Terminate: called by a handler");
    while (am_net.bundles != NULL && rc == AM_OK)
        rc = AM_FreeBundle(am_net.bundles);
    close_nic();
    am_net.inits = 0;
    return rc;
}

int amvia_GetCounts(amvia_counts_t *counts)
{
    if (counts == NULL)
        return am_fail(AM_ERR_BAD_ARG, "amvia_GetCounts: NULL");
    pthread_mutex_lock(&am_net.lock);
    *counts = am_net.counts;
    pthread_mutex_unlock(&am_net.lock);
    return AM_OK;
}

/* ---- limits ---------------------------------------------------------------------------------- */

int AM_MaxShort(void)
{
    return AM_ARGS_MAX;
}

int AM_MaxMedium(void)
{
    return AM_MEDIUM_MAX;
}

int AM_MaxLong(void)
{
    return AM_LONG_MAX;
}

int AM_MaxNumTranslations(int *n)
{
    if (n == NULL)
        return am_fail(AM_ERR_BAD_ARG, "AM_MaxNumTranslations: NULL");
    *n = AM_TRANSLATIONS_MAX;
    return AM_OK;
}

int AM_MaxSegLength(uintptr_t *nbytes)
{
    if (nbytes == NULL)
        return am_fail(AM_ERR_BAD_ARG, "AM_MaxSegLength: NULL");
    *nbytes = UINTPTR_MAX;
    return AM_OK;
}

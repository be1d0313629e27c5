/*
 * Functions that all files of the library use: the state of the process, reasons of failures, time,
 * the number of connections.
 */
#include "am/internal.h"

#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

struct am_net am_net = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};
int am_verbose;

static __thread char error_text[500];
static __thread const char *error_now = "";

int am_fail(int code, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    vsnprintf(error_text, sizeof(error_text), format, args);
    va_end(args);
    error_now = error_text;
    if (am_verbose)
        fprintf(stderr, "libvipam: %s\n", error_text);
    return code;
}

int am_busy(void)
{
    error_now = "asynchronous request: all credits are out";
    return AM_ERR_IN_USE;
}

const char *amvia_LastError(void)
{
    return error_now;
}

int64_t am_now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000000000LL + now.tv_nsec;
}

void am_room_fill(void)
{
    am_net.live++;
    if (am_net.live > am_net.counts.live_max)
        am_net.counts.live_max = am_net.live;
}

bool am_room_take(void)
{
    if (am_net.live >= am_net.live_max)
        return false;
    am_room_fill();
    return true;
}

void am_attend_all(void)
{
    for (struct am_bundle *bundle = am_net.bundles; bundle != NULL; bundle = bundle->next)
        am_attend(bundle);
}

void am_attend(struct am_bundle *bundle)
{
    uint64_t one = 1;

    __atomic_store_n(&bundle->attention, 1, __ATOMIC_SEQ_CST);
    if (__atomic_load_n(&bundle->sleepers, __ATOMIC_SEQ_CST) > 0 &&
        write(bundle->wake_fd, &one, sizeof(one)) < 0)
        return; /* wake_fd is readable already */
}

int am_listen(uint64_t discriminator, VIPX_LISTENER *ret)
{
    char room[AM_ADDRESS_BYTES];
    VIP_NET_ADDRESS *addr = (VIP_NET_ADDRESS *)room;

    addr->HostAddressLen = am_net.attrs.NicAddressLen;
    addr->DiscriminatorLen = sizeof(discriminator);
    memcpy(addr->HostAddress, am_net.attrs.LocalNicAddress, addr->HostAddressLen);
    memcpy(addr->HostAddress + addr->HostAddressLen, &discriminator, sizeof(discriminator));
    if (VipxListen(am_net.nic, addr, VIPX_BACKLOG_MAX, ret) != VIP_SUCCESS)
        return am_fail(AM_ERR_RESOURCE, "no listener: %s", VipxLastError());
    return AM_OK;
}

int AM_MaxNumHandlers(void)
{
    return 256;
}

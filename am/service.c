/*
 * The lists of work for the service thread (accept.c): the listeners, and the callers that it must
 * serve again. Also the eventfd that wakes the thread. Any thread may add to the lists.
 */
#include "am/internal.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

static struct {
    int wake_fd;
    struct am_caller *waiting, **last; /* callers in order; am_net.lock, like all members below */
    bool wanting;                      /* callers want room; am_net.wanted counts them as 1 */
    VIPX_LISTENER known[AM_KNOWN_MAX];
    unsigned known_count;
} service = {.wake_fd = -1};

int am_service_open(void)
{
    service.waiting = NULL;
    service.last = &service.waiting;
    service.wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (service.wake_fd < 0)
        return am_fail(AM_ERR_RESOURCE, "no eventfd: %s", strerror(errno));
    return AM_OK;
}

void am_service_close(void)
{
    close(service.wake_fd);
    service.wake_fd = -1;
}

void am_service_kick(void)
{
    uint64_t one = 1;

    if (service.wake_fd >= 0 && write(service.wake_fd, &one, sizeof(one)) < 0)
        return; /* the eventfd is readable already */
}

/* ---- callers --------------------------------------------------------------------------------- */

static void put(struct am_caller *caller)
{
    caller->next = NULL;
    *service.last = caller;
    service.last = &caller->next;
}

void am_service_again(struct am_caller *caller)
{
    put(caller);
    am_service_kick();
}

void am_service_want_room(struct am_caller *caller)
{
    put(caller);
    if (!service.wanting)
        am_net.wanted++;
    service.wanting = true;
    am_attend_all();
}

bool am_service_waiting(void)
{
    return service.waiting != NULL;
}

struct am_caller *am_service_take(void)
{
    struct am_caller *list = service.waiting;

    service.waiting = NULL;
    service.last = &service.waiting;
    if (service.wanting)
        am_net.wanted--;
    service.wanting = false;
    return list;
}

void am_service_judge(struct am_ep *ep)
{
    struct am_caller *caller;

    while ((caller = ep->doubted) != NULL) {
        ep->doubted = caller->next;
        ep->doubted_count--;
        am_net.doubts--;
        caller->polled = true;
        am_service_again(caller);
    }
}

/* ---- listeners ------------------------------------------------------------------------------- */

int am_service_listen(VIPX_LISTENER listener)
{
    int rc = AM_ERR_RESOURCE;

    pthread_mutex_lock(&am_net.lock);
    if (service.known_count < AM_KNOWN_MAX) {
        service.known[service.known_count++] = listener;
        rc = AM_OK;
    }
    pthread_mutex_unlock(&am_net.lock);
    am_service_kick();
    return rc;
}

void am_service_unlisten(VIPX_LISTENER listener)
{
    pthread_mutex_lock(&am_net.lock);
    for (unsigned i = 0; i < service.known_count; i++)
        if (service.known[i] == listener)
            service.known[i] = service.known[--service.known_count];
    pthread_mutex_unlock(&am_net.lock);
    (void)VipxListenClose(listener);
    am_service_kick();
}

unsigned am_service_fds(struct pollfd *wait, VIPX_LISTENER *listener)
{
    unsigned n = 1;

    wait[0] = (struct pollfd){.fd = service.wake_fd, .events = POLLIN};
    pthread_mutex_lock(&am_net.lock);
    for (unsigned i = 0; i <= service.known_count; i++) {
        int fd;

        listener[n] = i == service.known_count ? am_net.listener : service.known[i];
        if (VipxListenGetFd(listener[n], &fd) == VIP_SUCCESS)
            wait[n++] = (struct pollfd){.fd = fd, .events = POLLIN};
    }
    pthread_mutex_unlock(&am_net.lock);
    return n;
}

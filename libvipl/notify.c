/*
 * VipSendNotify, VipRecvNotify, VipCQNotify (spec 2.6, 2.7, 3.10). Each call makes a registration:
 * the library calls the handler once, for one completion.
 *
 * A registration waits on its target, a work queue or a CQ. A completion of the target is taken off
 * the queue for the oldest registration, which then goes to the end of the `ready` list. The caller
 * of the Notify function does this if the completion exists already; otherwise the thread of this
 * file does. This thread calls the handlers one after the other, in the order of `ready`. So the
 * handlers of one queue run in the order of registrations and completions. Done and Wait calls may
 * also take completions of the same queue.
 *
 * The thread sleeps in the kernel while there is no work, for any number of targets. It waits for
 * two words at once (futex_waitv, Linux 5.16). vipd counts the first word up when it completes a
 * descriptor on a queue with VIP_APP_WAITERS_NOTIFY in its waiter word (doc/shm-abi.md). This
 * process counts the second word up when it has new work for the thread. (futex_waitv takes at most
 * 128 words, so one word per queue is not possible.) The thread does not read the event socket,
 * because handlers may call functions that wait for events (VipConnectRequest). A handler may call
 * VipCloseNic, so struct vipl__notify exists until the handler has returned, also after the end of
 * its session.
 *
 * Locks: a thread takes `lock` before every lock of the session except `table` and `call_lock`
 * (session.h). No thread holds `lock` while a handler runs.
 */
#include "libvipl/notify.h"

#include <errno.h>
#include <linux/futex.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "libvipl/direct.h"
#include "libvipl/error.h"
#include "libvipl/lent.h"
#include "libvipl/take.h"

/* Longest wait, in s, of VipDestroyVi, VipDestroyCQ and VipCloseNic for a running handler. */
#define HANDLER_WAIT_S 2

/* One Notify call; freed when its handler has returned. */
struct vipl__registration {
    struct vipl__registration *next;
    struct vipl__target *target;
    void *object;    /* struct vipl__vi or, with on_cq, struct vipl__cq */
    uint64_t handle; /* of `object` */
    VIP_NIC_HANDLE nic;
    VIP_PVOID context;
    VIP_CQ_CALLBACK on_cq; /* on_cq or on_vi is NULL */
    VIP_VI_CALLBACK on_vi;
    enum vip_queue which; /* with on_vi */
    /* The completion that was taken; set when the registration is ready. */
    VIP_VI_HANDLE vi;
    VIP_DESCRIPTOR *desc;
    VIP_BOOLEAN recv;
};

struct vipl__notify {
    pthread_mutex_t lock;
    pthread_cond_t changed; /* signalled when a handler has returned, or the thread has ended */
    struct vipl__session *session;
    pthread_t thread;
    bool started, ended, stop;
    bool asleep;                 /* the thread sleeps or is about to */
    unsigned holders;            /* the owner and the thread; the last holder frees this struct */
    unsigned count;              /* number of registrations, with the ready and running ones */
    uint32_t word;               /* futex: counted up when there is work */
    struct vipl__target targets; /* head of the circular list of targets */
    struct vipl__registration *ready, **ready_end;
    struct vipl__registration *running; /* the registration whose handler runs now */
};

/* ---- lists --------------------------------------------------------------------------------- */

/* A registration's target: its waiter word, and the VI or CQ whose rings show that word. */
struct awaited {
    uint32_t *waiters;
    struct vipl__vi *recv_of; /* if not NULL: the target is this VI's receive queue */
    struct vipl__cq *cq;      /* if not NULL: the target is this CQ */
};

static struct awaited awaited_of(const struct vipl__registration *reg)
{
    struct vipl__cq *cq = reg->object;
    struct vipl__vi *vi = reg->object;

    if (reg->on_cq != NULL)
        return (struct awaited){.waiters = &cq->app->waiters, .cq = cq};
    return (struct awaited){.waiters = vi->queue[reg->which].waiters,
                            .recv_of = reg->which == VIP_Q_RECV ? vi : NULL};
}

static void tell_rings(const struct awaited *awaited)
{
    if (awaited->cq != NULL)
        vipl__direct_asleep_cq(awaited->cq);
    else if (awaited->recv_of != NULL)
        vipl__direct_asleep_vi(awaited->recv_of);
}

/*
 * The first registration of a target sets its waiter word, so that vipd signals the target's
 * completions. target_drop clears the word after the last registration.
 */
static void target_add(struct vipl__notify *notify, struct vipl__target *target,
                       struct awaited awaited)
{
    if (target->next != NULL)
        return;
    target->next = &notify->targets;
    target->prev = notify->targets.prev;
    target->prev->next = target;
    notify->targets.prev = target;
    __atomic_or_fetch(awaited.waiters, VIP_APP_WAITERS_NOTIFY, __ATOMIC_SEQ_CST);
    tell_rings(&awaited);
}

static void target_drop(const struct vipl__notify *notify, struct vipl__target *target,
                        struct awaited awaited)
{
    if (target->next == NULL || target->first != NULL)
        return;
    target->next->prev = target->prev;
    target->prev->next = target->next;
    target->next = target->prev = NULL;
    if (notify->session->watched)
        return;
    __atomic_and_fetch(awaited.waiters, ~VIP_APP_WAITERS_NOTIFY, __ATOMIC_SEQ_CST);
    tell_rings(&awaited);
}

static void ready_add(struct vipl__notify *notify, struct vipl__registration *reg)
{
    reg->next = NULL;
    *notify->ready_end = reg;
    notify->ready_end = &reg->next;
}

static void forget(struct vipl__notify *notify, struct vipl__registration *reg)
{
    notify->count--;
    free(reg);
}

/* ---- completions for registrations ---------------------------------------------------------- */

/* Take a completion for this registration if there is one. */
static bool take(struct vipl__registration *reg)
{
    if (reg->on_cq != NULL)
        return vipl__take_entry(reg->object, reg->handle, &reg->vi, &reg->recv) == VIP_SUCCESS;
    reg->vi = (VIP_VI_HANDLE)(uintptr_t)reg->handle;
    vipl__take_desc(reg->object, reg->handle, reg->which, &reg->desc);
    return reg->desc != NULL;
}

static void match(struct vipl__notify *notify, struct vipl__target *target)
{
    struct vipl__registration *reg;
    struct awaited awaited = awaited_of(target->first);

    while ((reg = target->first) != NULL && take(reg)) {
        target->first = reg->next;
        if (target->first == NULL)
            target->last = NULL;
        ready_add(notify, reg);
    }
    target_drop(notify, target, awaited);
}

static void match_all(struct vipl__notify *notify)
{
    struct vipl__session *session = notify->session;
    struct vipl__target *next;

    for (unsigned i = 0; session->watched && i < VIP_VI_MAX; i++) {
        struct vipl__vi *vi = __atomic_load_n(&session->vi[i], __ATOMIC_ACQUIRE);

        if (vi != NULL)
            vipl__fill_ahead(vi);
    }

    for (struct vipl__target *at = notify->targets.next; at != &notify->targets; at = next) {
        next = at->next;
        match(notify, at);
    }
}

/* Wake the thread, because there is work for it; called with the lock. */
static void wake(struct vipl__notify *notify)
{
    __atomic_add_fetch(&notify->word, 1, __ATOMIC_RELEASE);
    if (notify->asleep)
        syscall(SYS_futex, &notify->word, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

/* ---- the thread ----------------------------------------------------------------------------- */

static void futex_wait_two(const uint32_t *own, uint32_t own_seen, const uint32_t *vipds,
                           uint32_t vipds_seen)
{
    struct futex_waitv waits[2] = {
        {.val = own_seen, .uaddr = (uintptr_t)own, .flags = FUTEX_32 | FUTEX_PRIVATE_FLAG},
        {.val = vipds_seen, .uaddr = (uintptr_t)vipds, .flags = FUTEX_32},
    };

    /* The caller looks again after every return, so the reason does not matter. */
    syscall(SYS_futex_waitv, waits, 2, 0, NULL, 0);
}

/*
 * Look for completions and sleep if there are none; with the lock. The order is that of every
 * sleeper (doc/shm-abi.md, wake-ups): publish, full barrier, look, sleep. If vipd is dead, do not
 * publish: the provider thread (events.c) waits until no thread sleeps on vipd's words.
 */
static void look_or_sleep(struct vipl__notify *notify)
{
    struct vipl__session *session = notify->session;
    struct vip_app_head *head = session->app_base;
    bool dead = vipl__is_dead(session);
    uint32_t own_seen = __atomic_load_n(&notify->word, __ATOMIC_RELAXED), vipds_seen;

    if (!dead)
        __atomic_add_fetch(&head->sleepers, 1, __ATOMIC_SEQ_CST);
    vipds_seen = __atomic_load_n(&session->vipd->notify, __ATOMIC_SEQ_CST);
    vip_fence_sleep(); /* [notify LOOK] */
    match_all(notify);
    if (notify->ready == NULL) {
        notify->asleep = true;
        pthread_mutex_unlock(&notify->lock);
        futex_wait_two(&notify->word, own_seen, &session->vipd->notify, vipds_seen);
        pthread_mutex_lock(&notify->lock);
        notify->asleep = false;
    }
    if (!dead)
        __atomic_sub_fetch(&head->sleepers, 1, __ATOMIC_SEQ_CST);
}

/* One holder leaves; the last one frees the object. Called with the lock; returns without it. */
static void release(struct vipl__notify *notify)
{
    bool last = --notify->holders == 0;

    pthread_mutex_unlock(&notify->lock);
    if (last) {
        pthread_cond_destroy(&notify->changed);
        pthread_mutex_destroy(&notify->lock);
        free(notify);
    }
}

/*
 * Call the handler of the first ready registration. The handler may end the session: after the call
 * check `stop` before any access to the session.
 */
static void serve(struct vipl__notify *notify)
{
    struct vipl__registration *reg = notify->ready;

    notify->ready = reg->next;
    if (notify->ready == NULL)
        notify->ready_end = &notify->ready;
    notify->running = reg;
    pthread_mutex_unlock(&notify->lock);
    if (reg->on_cq != NULL)
        reg->on_cq(reg->context, reg->nic, reg->vi, reg->recv);
    else
        reg->on_vi(reg->context, reg->nic, reg->vi, reg->desc);
    pthread_mutex_lock(&notify->lock);
    notify->running = NULL;
    forget(notify, reg);
    pthread_cond_broadcast(&notify->changed);
}

static void *run(void *arg)
{
    struct vipl__notify *notify = arg;

    pthread_mutex_lock(&notify->lock);
    while (!notify->stop) {
        if (notify->ready == NULL)
            look_or_sleep(notify);
        else
            serve(notify);
    }
    notify->ended = true;
    pthread_cond_broadcast(&notify->changed);
    release(notify);
    return NULL;
}

/* Start the thread at the first registration: many programs make none. Returns 0 or an errno. */
static int start(struct vipl__notify *notify)
{
    pthread_attr_t attr;
    sigset_t all, before;
    int rc;

    if (notify->started)
        return 0;
    /* Does the kernel have futex_waitv? If so, a call without words returns EINVAL. */
    if (syscall(SYS_futex_waitv, NULL, 0, 0, NULL, 0) < 0 && errno != EINVAL)
        return errno;
    pthread_attr_init(&attr);
    pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
    /* The new thread blocks all signals: only the application's own threads handle them. */
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    notify->holders++;
    rc = pthread_create(&notify->thread, &attr, run, notify);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attr);
    if (rc != 0)
        notify->holders--;
    notify->started = rc == 0;
    return rc;
}

int vipl__notify_watch(struct vipl__session *session)
{
    struct vipl__notify *notify = session->notify;
    int error;

    pthread_mutex_lock(&notify->lock);
    error = start(notify);
    pthread_mutex_unlock(&notify->lock);
    return error;
}

/* ---- registering ---------------------------------------------------------------------------- */

static bool object_live(const struct vipl__registration *reg)
{
    const uint64_t *live = reg->on_cq != NULL ? &((struct vipl__cq *)reg->object)->handle
                                              : &((struct vipl__vi *)reg->object)->handle;

    return __atomic_load_n(live, __ATOMIC_ACQUIRE) == reg->handle;
}

static bool queue_empty(const struct vipl__registration *reg)
{
    const struct vipl__queue *queue;

    if (reg->on_cq != NULL)
        return false; /* a wait at an empty CQ is normal */
    queue = &((struct vipl__vi *)reg->object)->queue[reg->which];
    return __atomic_load_n(&queue->posted, __ATOMIC_ACQUIRE) ==
           __atomic_load_n(&queue->reaped, __ATOMIC_ACQUIRE);
}

/* Add a registration; `asked` is copied. With the lock. */
static VIP_RETURN add(struct vipl__notify *notify, const struct vipl__registration *asked,
                      const char *call)
{
    struct vipl__target *target = asked->target;
    struct vipl__registration *reg;
    int error;

    if (notify->stop || !object_live(asked))
        return VIP_INVALID_PARAMETER;
    if (queue_empty(asked))
        return vipl__outcome(VIP_DESCRIPTOR_ERROR, "no descriptor is posted on this queue");
    if (notify->count == VIPL__NOTIFY_MAX)
        return vipl__fail(VIP_ERROR_RESOURCE,
                          "%s: %u registrations of this NIC handle wait for completions already",
                          call, VIPL__NOTIFY_MAX);
    error = start(notify);
    reg = error == 0 ? malloc(sizeof(*reg)) : NULL;
    if (reg == NULL)
        return vipl__fail(VIP_ERROR_RESOURCE, "%s: no provider thread or memory: %s%s", call,
                          strerror(error == 0 ? ENOMEM : error),
                          error == ENOSYS ? "; Linux 5.16 or later is needed" : "");
    *reg = *asked;
    reg->next = NULL;
    notify->count++;
    if (target->last != NULL)
        target->last->next = reg;
    else
        target->first = reg;
    target->last = reg;
    target_add(notify, target, awaited_of(reg));
    /* Take completions here that came before target_add marked the waiter word: vipd does not
     * signal them. */
    vip_fence_sleep(); /* [notify ADD] */
    match(notify, target);
    if (notify->ready != NULL)
        wake(notify);
    return VIP_SUCCESS;
}

static VIP_RETURN add_locked(struct vipl__session *session, struct vipl__registration *asked,
                             const char *call)
{
    struct vipl__notify *notify = session->notify;
    VIP_RETURN rc;

    asked->nic = (VIP_NIC_HANDLE)__atomic_load_n(&session->handle, __ATOMIC_RELAXED);
    pthread_mutex_lock(&notify->lock);
    rc = add(notify, asked, call);
    pthread_mutex_unlock(&notify->lock);
    /* A completion on loan signals nothing: look once more when vipd has the loans again. */
    if (rc == VIP_SUCCESS && vipl__lent_back(session, false))
        vipl__notify_poke(session);
    vipl__leave(session);
    return rc;
}

static VIP_RETURN notify_vi(VIP_VI_HANDLE vi_handle, VIP_PVOID context, VIP_VI_CALLBACK handler,
                            enum vip_queue which, const char *call)
{
    struct vipl__registration asked = {
        .handle = (uint64_t)(uintptr_t)vi_handle,
        .context = context,
        .on_vi = handler,
        .which = which,
    };
    struct vipl__vi *vi = vipl__vi_enter(vi_handle, call);
    VIP_RETURN rc;

    if (vi == NULL)
        return VIP_INVALID_PARAMETER;
    if (handler == NULL) {
        vipl__leave(vi->session);
        return vipl__fail(VIP_INVALID_PARAMETER, "%s: Handler is NULL", call);
    }
    asked.object = vi;
    asked.target = &vi->queue[which].target;
    rc = add_locked(vi->session, &asked, call);
    return rc == VIP_INVALID_PARAMETER ? vipl__bad_vi(call, vi_handle) : rc;
}

VIP_RETURN VipSendNotify(VIP_VI_HANDLE ViHandle, VIP_PVOID Context,
                         void (*Handler)(VIP_PVOID Context, VIP_NIC_HANDLE NicHandle,
                                         VIP_VI_HANDLE ViHandle, VIP_DESCRIPTOR *DescriptorPtr))
{
    return notify_vi(ViHandle, Context, Handler, VIP_Q_SEND, "VipSendNotify");
}

VIP_RETURN VipRecvNotify(VIP_VI_HANDLE ViHandle, VIP_PVOID Context,
                         void (*Handler)(VIP_PVOID Context, VIP_NIC_HANDLE NicHandle,
                                         VIP_VI_HANDLE ViHandle, VIP_DESCRIPTOR *DescriptorPtr))
{
    return notify_vi(ViHandle, Context, Handler, VIP_Q_RECV, "VipRecvNotify");
}

VIP_RETURN VipCQNotify(VIP_CQ_HANDLE CQHandle, VIP_PVOID Context,
                       void (*Handler)(VIP_PVOID Context, VIP_NIC_HANDLE NicHandle,
                                       VIP_VI_HANDLE ViHandle, VIP_BOOLEAN RecvQueue))
{
    static const char call[] = "VipCQNotify";
    struct vipl__registration asked = {
        .handle = (uint64_t)(uintptr_t)CQHandle,
        .context = Context,
        .on_cq = Handler,
    };
    struct vipl__cq *cq = vipl__cq_enter(CQHandle, call);
    VIP_RETURN rc;

    if (cq == NULL)
        return VIP_INVALID_PARAMETER;
    if (Handler == NULL) {
        vipl__leave(cq->session);
        return vipl__fail(VIP_INVALID_PARAMETER, "%s: Handler is NULL", call);
    }
    asked.object = cq;
    asked.target = &cq->target;
    rc = add_locked(cq->session, &asked, call);
    return rc == VIP_INVALID_PARAMETER ? vipl__bad_cq(call, CQHandle) : rc;
}

/* ---- the end of objects ---------------------------------------------------------------------- */

static bool concerns(const struct vipl__registration *reg, const void *object, uint64_t handle)
{
    return reg->object == object && reg->handle == handle;
}

/*
 * Remove the registrations for this handle from their target; registrations for the object's next
 * handle stay.
 */
static void cancel_target(struct vipl__notify *notify, struct vipl__target *target,
                          const void *object, uint64_t handle)
{
    struct vipl__registration *next, **end = &target->first;
    struct awaited awaited;

    if (target->first == NULL)
        return;
    awaited = awaited_of(target->first);
    target->last = NULL;
    for (struct vipl__registration *reg = target->first; reg != NULL; reg = next) {
        next = reg->next;
        if (concerns(reg, object, handle)) {
            forget(notify, reg);
            continue;
        }
        *end = reg;
        end = &reg->next;
        target->last = reg;
    }
    *end = NULL;
    target_drop(notify, target, awaited);
}

/*
 * Remove the ready registrations of this handle. If the handle is a VI, also look for ready
 * registrations of CQs whose entry names this VI. Such an entry is gone with its VI (spec 3.8), and
 * the registration must wait again, as the oldest. `back` collects these registrations, the
 * youngest first.
 */
static struct vipl__registration *cancel_ready(struct vipl__notify *notify, const void *object,
                                               uint64_t handle)
{
    struct vipl__registration *reg = notify->ready, *next, *back = NULL;

    notify->ready = NULL;
    notify->ready_end = &notify->ready;
    for (; reg != NULL; reg = next) {
        next = reg->next;
        if (concerns(reg, object, handle)) {
            forget(notify, reg);
        } else if ((uint64_t)(uintptr_t)reg->vi == handle) {
            reg->next = back;
            back = reg;
        } else {
            ready_add(notify, reg);
        }
    }
    return back;
}

static void put_back(struct vipl__notify *notify, struct vipl__registration *back)
{
    struct vipl__registration *next;

    for (struct vipl__registration *reg = back; reg != NULL; reg = next) {
        struct vipl__target *target = reg->target;

        next = reg->next;
        reg->next = target->first;
        target->first = reg;
        if (target->last == NULL)
            target->last = reg;
        target_add(notify, target, awaited_of(reg));
    }
    if (back != NULL)
        wake(notify);
}

/*
 * Wait until the running handler, if it is for the object (NULL: for any object), has returned;
 * HANDLER_WAIT_S at most.
 */
static void await_handler(struct vipl__notify *notify, const void *object, uint64_t handle)
{
    const struct vipl__registration *reg;
    struct timespec limit;

    if (!notify->started || pthread_equal(notify->thread, pthread_self()))
        return;
    clock_gettime(CLOCK_MONOTONIC, &limit);
    limit.tv_sec += HANDLER_WAIT_S;
    while ((reg = notify->running) != NULL && (object == NULL || concerns(reg, object, handle) ||
                                               (uint64_t)(uintptr_t)reg->vi == handle))
        if (pthread_cond_timedwait(&notify->changed, &notify->lock, &limit) == ETIMEDOUT)
            break;
}

void vipl__notify_cancel_vi(struct vipl__vi *vi, uint64_t handle)
{
    struct vipl__notify *notify = vi->session->notify;

    pthread_mutex_lock(&notify->lock);
    if (notify->count > 0) {
        for (unsigned q = 0; q < 2; q++)
            cancel_target(notify, &vi->queue[q].target, vi, handle);
        put_back(notify, cancel_ready(notify, vi, handle));
        await_handler(notify, vi, handle);
    }
    pthread_mutex_unlock(&notify->lock);
}

void vipl__notify_cancel_cq(struct vipl__cq *cq, uint64_t handle)
{
    struct vipl__notify *notify = cq->session->notify;

    pthread_mutex_lock(&notify->lock);
    if (notify->count > 0) {
        cancel_target(notify, &cq->target, cq, handle);
        cancel_ready(notify, cq, handle);
        await_handler(notify, cq, handle);
    }
    pthread_mutex_unlock(&notify->lock);
}

void vipl__notify_poke(struct vipl__session *session)
{
    struct vipl__notify *notify = session->notify;

    pthread_mutex_lock(&notify->lock);
    if (notify->started)
        wake(notify);
    pthread_mutex_unlock(&notify->lock);
}

/* ---- life ------------------------------------------------------------------------------------ */

struct vipl__notify *vipl__notify_new(struct vipl__session *session)
{
    struct vipl__notify *notify = calloc(1, sizeof(*notify));
    pthread_condattr_t attr;

    if (notify == NULL)
        return NULL;
    pthread_mutex_init(&notify->lock, NULL);
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&notify->changed, &attr);
    pthread_condattr_destroy(&attr);
    notify->session = session;
    notify->holders = 1;
    notify->ready_end = &notify->ready;
    notify->targets.next = notify->targets.prev = &notify->targets;
    return notify;
}

static void drop_all(struct vipl__notify *notify)
{
    struct vipl__target *target;
    struct vipl__registration *reg;

    while ((target = notify->targets.next) != &notify->targets) {
        struct awaited awaited = awaited_of(target->first);

        while ((reg = target->first) != NULL) {
            target->first = reg->next;
            forget(notify, reg);
        }
        target->last = NULL;
        target_drop(notify, target, awaited);
    }
    while ((reg = notify->ready) != NULL) {
        notify->ready = reg->next;
        forget(notify, reg);
    }
    notify->ready_end = &notify->ready;
}

void vipl__notify_stop(struct vipl__notify *notify)
{
    pthread_mutex_lock(&notify->lock);
    notify->stop = true;
    drop_all(notify);
    if (notify->started) {
        wake(notify);
        await_handler(notify, NULL, 0);
        /*
         * If the thread is in no handler, it now ends by itself. Wait for this end: the thread uses
         * the session.
         */
        while (!notify->ended && notify->running == NULL)
            pthread_cond_wait(&notify->changed, &notify->lock);
    }
    release(notify);
}

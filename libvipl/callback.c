/* Asynchronous errors (callback.h): the queue, and the thread that calls the handler. */
#include "libvipl/callback.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "libvipl/error.h"
#include "proto/status.h"

/*
 * Largest number of errors of bad descriptors that may wait for the handler. It limits the memory
 * of a program that posts bad descriptors in a loop and has a slow handler.
 */
#define POST_ERRORS_MAX 1024

/* Longest wait, in s, of VipErrorCallback and VipCloseNic for a running handler. The wait is
 * limited, because the handler may wait for a lock that their caller holds. */
#define STOP_WAIT_S 2

/* One error waiting for its handler. */
struct item {
    struct item *next;
    VIP_ERROR_DESCRIPTOR error;
    int from_post;
    char why[VIPL__REASON_BYTES];
};

struct vipl__callbacks {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    pthread_t thread;
    bool started; /* the thread exists or existed */
    bool ended;   /* the thread has left its loop */
    bool stop;
    bool running;     /* a handler of the application is being called */
    unsigned holders; /* the owner and the thread; the last holder frees this object */
    unsigned post_errors;
    struct item *head, **tail;
    VIP_ERROR_HANDLER handler;
    VIP_PVOID context;
};

static void log_error(const VIP_ERROR_DESCRIPTOR *error, const char *why)
{
    static const char *const resource[] = {"NIC", "VI", "CQ", "descriptor"};
    const void *const object[] = {error->NicHandle, error->ViHandle, error->CQHandle,
                                  error->DescriptorPtr};
    unsigned which = (unsigned)error->ResourceCode & 3;

    fprintf(stderr, "libvipl: %s on %s %p of NIC %p%s%s (no VipErrorCallback handler is set)\n",
            vip_error_code_name((enum vip_error_code)error->ErrorCode), resource[which],
            object[which], error->NicHandle, why[0] != '\0' ? ": " : "", why);
}

struct vipl__callbacks *vipl__callbacks_new(void)
{
    struct vipl__callbacks *callbacks = calloc(1, sizeof(*callbacks));
    pthread_condattr_t attr;

    if (callbacks == NULL)
        return NULL;
    pthread_mutex_init(&callbacks->lock, NULL);
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&callbacks->changed, &attr);
    pthread_condattr_destroy(&attr);
    callbacks->holders = 1;
    callbacks->tail = &callbacks->head;
    return callbacks;
}

static void discard(struct vipl__callbacks *callbacks)
{
    struct item *item;

    while ((item = callbacks->head) != NULL) {
        callbacks->head = item->next;
        free(item);
    }
    callbacks->tail = &callbacks->head;
}

/* One holder leaves; the last one frees the object. Called with the lock; returns without it. */
static void release(struct vipl__callbacks *callbacks)
{
    bool last = --callbacks->holders == 0;

    if (last)
        discard(callbacks);
    pthread_mutex_unlock(&callbacks->lock);
    if (last) {
        pthread_cond_destroy(&callbacks->changed);
        pthread_mutex_destroy(&callbacks->lock);
        free(callbacks);
    }
}

static void *run(void *arg)
{
    struct vipl__callbacks *callbacks = arg;

    pthread_mutex_lock(&callbacks->lock);
    for (;;) {
        struct item *item;
        VIP_ERROR_HANDLER handler;
        VIP_PVOID context;

        while (callbacks->head == NULL && !callbacks->stop)
            pthread_cond_wait(&callbacks->changed, &callbacks->lock);
        if (callbacks->stop)
            break;
        item = callbacks->head;
        callbacks->head = item->next;
        if (callbacks->head == NULL)
            callbacks->tail = &callbacks->head;
        if (item->from_post)
            callbacks->post_errors--;
        handler = callbacks->handler;
        context = callbacks->context;
        callbacks->running = handler != NULL;
        pthread_mutex_unlock(&callbacks->lock);

        if (handler != NULL) {
            (void)vipl__fail(VIP_SUCCESS, "%s", item->why); /* for VipxLastError in the handler */
            handler(context, &item->error);
        } else {
            log_error(&item->error, item->why);
        }
        free(item);
        pthread_mutex_lock(&callbacks->lock);
        callbacks->running = false;
        pthread_cond_broadcast(&callbacks->changed);
    }
    callbacks->ended = true;
    pthread_cond_broadcast(&callbacks->changed);
    release(callbacks);
    return NULL;
}

/* Start the thread at the first error: most programs never see an asynchronous error. */
static bool start(struct vipl__callbacks *callbacks)
{
    pthread_attr_t attr;
    sigset_t all, before;
    int rc;

    if (callbacks->started)
        return true;
    pthread_attr_init(&attr);
    pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
    /* The new thread blocks all signals: only the application's own threads handle them. */
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    callbacks->holders++;
    rc = pthread_create(&callbacks->thread, &attr, run, callbacks);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attr);
    if (rc != 0)
        callbacks->holders--;
    callbacks->started = rc == 0;
    return callbacks->started;
}

void vipl__callbacks_put(struct vipl__callbacks *callbacks, const VIP_ERROR_DESCRIPTOR *error,
                         const char *why, int from_post)
{
    struct item *item = calloc(1, sizeof(*item));

    if (item == NULL)
        return;
    item->error = *error;
    item->from_post = from_post;
    snprintf(item->why, sizeof(item->why), "%s", why == NULL ? "" : why);
    pthread_mutex_lock(&callbacks->lock);
    if (callbacks->stop || (from_post && callbacks->post_errors >= POST_ERRORS_MAX) ||
        !start(callbacks)) {
        pthread_mutex_unlock(&callbacks->lock);
        free(item);
        return;
    }
    if (from_post)
        callbacks->post_errors++;
    *callbacks->tail = item;
    callbacks->tail = &item->next;
    pthread_cond_broadcast(&callbacks->changed);
    pthread_mutex_unlock(&callbacks->lock);
}

/*
 * Wait until the thread runs no handler or, if `end` is true, has ended. Wait at most STOP_WAIT_S
 * seconds, and not at all on the thread that runs the handlers. Under the lock.
 */
static void await_thread(struct vipl__callbacks *callbacks, bool end)
{
    struct timespec limit;

    if (!callbacks->started || pthread_equal(callbacks->thread, pthread_self()))
        return;
    clock_gettime(CLOCK_MONOTONIC, &limit);
    limit.tv_sec += STOP_WAIT_S;
    while ((end ? !callbacks->ended : callbacks->running) &&
           pthread_cond_timedwait(&callbacks->changed, &callbacks->lock, &limit) != ETIMEDOUT)
        continue;
}

void vipl__callbacks_set(struct vipl__callbacks *callbacks, VIP_ERROR_HANDLER handler,
                         VIP_PVOID context)
{
    bool other;

    pthread_mutex_lock(&callbacks->lock);
    other = handler != callbacks->handler || context != callbacks->context;
    callbacks->handler = handler;
    callbacks->context = context;
    /* Wait until the old handler has returned: the program may next free memory that it uses. */
    if (other)
        await_thread(callbacks, false);
    pthread_mutex_unlock(&callbacks->lock);
}

void vipl__callbacks_stop(struct vipl__callbacks *callbacks)
{
    pthread_mutex_lock(&callbacks->lock);
    callbacks->stop = true;
    pthread_cond_broadcast(&callbacks->changed);
    await_thread(callbacks, true);
    release(callbacks);
}

void vipl__async_error(struct vipl__session *session, VIP_RESOURCE_CODE resource,
                       VIP_ERROR_CODE code, const struct vipl__vi *vi, VIP_DESCRIPTOR *desc,
                       VIP_ULONG opcode, const char *why)
{
    VIP_ERROR_DESCRIPTOR error = {
        .NicHandle = (VIP_NIC_HANDLE)__atomic_load_n(&session->handle, __ATOMIC_RELAXED),
        .DescriptorPtr = desc,
        .OpCode = opcode,
        .ResourceCode = resource,
        .ErrorCode = code,
    };

    if (vi != NULL)
        error.ViHandle = (VIP_VI_HANDLE)__atomic_load_n(&vi->handle, __ATOMIC_RELAXED);
    vipl__callbacks_put(session->callbacks, &error, why, resource == VIP_RESOURCE_DESCRIPTOR);
}

void vipl__async_completion(const struct vipl__vi *vi, const struct vipl__queue *queue,
                            VIP_DESCRIPTOR *desc, VIP_ULONG opcode, const char *why)
{
    const struct vipl__cq *cq = __atomic_load_n(&queue->cq, __ATOMIC_ACQUIRE);
    VIP_ERROR_DESCRIPTOR error = {
        .NicHandle = (VIP_NIC_HANDLE)__atomic_load_n(&vi->session->handle, __ATOMIC_RELAXED),
        .ViHandle = (VIP_VI_HANDLE)__atomic_load_n(&vi->handle, __ATOMIC_RELAXED),
        .DescriptorPtr = desc,
        .OpCode = opcode,
        .ResourceCode = cq != NULL ? VIP_RESOURCE_CQ : VIP_RESOURCE_VI,
        .ErrorCode = VIP_ERROR_COMP_PROT,
    };

    if (cq != NULL)
        error.CQHandle = (VIP_CQ_HANDLE)__atomic_load_n(&cq->handle, __ATOMIC_RELAXED);
    vipl__callbacks_put(vi->session->callbacks, &error, why, 1);
}

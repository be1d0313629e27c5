/*
 * The state of the runtime, the lock of the runtime, and rt_fatal, which ends the job with a
 * message.
 */
#include "splitc/lib/rt.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

#include "job/job.h"

struct rt rt;
int sc_myproc, sc_procs = 1, sc_procs_log;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

void rt_fatal(const char *format, ...)
{
    char text[400];
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    fflush(stdout);
    rt.ended = true;
    if (!job_abort(rt.job, 1, text))
        fprintf(stderr, "splitc: process %d: %s\n", sc_myproc, text);
    _exit(1);
}

void rt_enter(void)
{
    if (rt.threaded)
        pthread_mutex_lock(&lock);
}

void rt_leave(void)
{
    if (rt.threaded)
        pthread_mutex_unlock(&lock);
}

void rt_yield(void)
{
    rt_leave();
    rt_enter();
}

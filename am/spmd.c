/* SPMD start, barrier, all-gather and exit of am_amx.h; job/ talks to the launcher. */
#include "am/amx.h"

#include <stdarg.h>
#include <string.h>
#include <unistd.h>

#include "am/internal.h"
#include "job/job.h"

/*
 * AMX_SPMDExit(0) waits at most this many ns until all processes call AMX_SPMDExit. After that it
 * ends the job, even if some still run. The time is longer than the delays of a busy machine.
 */
#define EXIT_GRACE_NS 30000000000LL

/* When no message has come for BARRIER_AWAKE_NS, a process in a barrier sleeps between its polls,
 * at most BARRIER_SLEEP_MS each time. */
#define BARRIER_AWAKE_NS 5000000
#define BARRIER_SLEEP_MS 1

static struct {
    struct job *job;
    eb_t bundle;
    ep_t ep;
    void (*callback)(int);
    bool exiting;
} spmd;

int AMX_VerboseErrors;
int AMX_SilentMode;
const char *AMX_ProcessLabel = "AMX";
void (*AMX_SPMDkillmyprocess)(int) = _exit;

void AMX_FatalErr(const char *format, ...)
{
    char text[400];
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    fflush(stdout);
    if (!job_abort(spmd.job, 1, text))
        fprintf(stderr, "%s: fatal error in process %d: %s\n", AMX_ProcessLabel, AMX_SPMDMyProc(),
                text);
    _exit(1);
}

int AMX_SPMDIsWorker(char **argv)
{
    (void)argv;
    return 1;
}

int AMX_SPMDNumProcs(void)
{
    return spmd.job != NULL ? job_size(spmd.job) : 0;
}

int AMX_SPMDMyProc(void)
{
    return spmd.job != NULL ? job_rank(spmd.job) : -1;
}

char *AMX_SPMDgetenvMaster(const char *name)
{
    return name != NULL ? getenv(name) : NULL;
}

int AMX_SPMDSetExitCallback(void (*callback)(int))
{
    spmd.callback = callback;
    return AM_OK;
}

static int check_started(const char *call)
{
    return spmd.ep != NULL ? AM_OK
                           : am_fail(AM_ERR_NOT_INIT, "%s: AMX_SPMDStartup was not called", call);
}

/* ---- start ----------------------------------------------------------------------------------- */

/* Draw a random key and a random tag (not AM_NONE, not AM_ALL): programs outside of the job cannot
 * guess them. */
static int draw(struct am_card *mine)
{
    struct job_key random;

    if (job_key_draw(&mine->key) != 0 || job_key_draw(&random) != 0)
        return am_fail(AM_ERR_RESOURCE, "AMX_SPMDStartup: the kernel gives no random bytes");
    memcpy(&mine->tag, random.bytes, sizeof(mine->tag));
    mine->tag |= 2;
    return AM_OK;
}

static int map_all(const struct am_card *cards)
{
    int n = job_size(spmd.job), rc = AM_OK;

    if (n > AM_TRANSLATIONS_MIN)
        rc = AM_SetNumTranslations(spmd.ep, n);
    for (int i = 0; i < n && rc == AM_OK; i++)
        rc = AM_Map(spmd.ep, i, cards[i].name, cards[i].tag);
    return rc;
}

static int meet(int depth)
{
    struct am_card mine, *all = calloc((size_t)job_size(spmd.job), sizeof(*all));
    int rc;

    if (all == NULL)
        return am_fail(AM_ERR_RESOURCE, "AMX_SPMDStartup: no memory");
    memset(&mine, 0, sizeof(mine));
    mine.name = spmd.ep->name;
    rc = draw(&mine);
    am_cards_know(spmd.ep, NULL, 0);
    if (rc == AM_OK && job_allgather(spmd.job, &mine, all, sizeof(mine)) != 0)
        rc = am_fail(AM_ERR_RESOURCE, "AMX_SPMDStartup: %s", job_error());
    if (rc == AM_OK)
        rc = AM_SetTag(spmd.ep, mine.tag);
    if (rc == AM_OK)
        rc = map_all(all);
    if (rc == AM_OK)
        rc = AM_SetExpectedResources(spmd.ep, job_size(spmd.job),
                                     depth > 0 ? depth : (int)am_net.depth);
    /* Keep the cards for ever: each later connection needs them. */
    if (rc == AM_OK)
        am_cards_know(spmd.ep, all, job_size(spmd.job));
    else
        free(all);
    return rc;
}

int AMX_SPMDStartup(int *argc, char ***argv, int networkdepth, uint64_t *networkpid, eb_t *bundle,
                    ep_t *endpoint)
{
    int rc;

    (void)argc; /* nothing to remove: the launcher has removed its own arguments */
    (void)argv;
    am_verbose = AMX_VerboseErrors;
    if (spmd.job != NULL)
        return am_fail(AM_ERR_RESOURCE, "AMX_SPMDStartup: called before");
    if (bundle == NULL || endpoint == NULL)
        return am_fail(AM_ERR_BAD_ARG, "AMX_SPMDStartup: NULL");
    if (networkdepth < 0 || networkdepth > AM_DEPTH_ASK_MAX)
        return am_fail(AM_ERR_BAD_ARG, "AMX_SPMDStartup: depth %d; 0 to %d are possible",
                       networkdepth, AM_DEPTH_ASK_MAX);
    if (job_start(&spmd.job) != 0)
        return am_fail(AM_ERR_RESOURCE, "AMX_SPMDStartup: %s", job_error());
    rc = AM_Init();
    if (rc == AM_OK)
        rc = AM_AllocateBundle(AM_SEQ, &spmd.bundle);
    if (rc == AM_OK)
        rc = AM_AllocateEndpoint(spmd.bundle, &spmd.ep, NULL);
    if (rc == AM_OK)
        rc = meet(networkdepth);
    if (rc != AM_OK) {
        /* The other processes wait for this one in AMX_SPMDStartup, so end the job. */
        if (!job_abort(spmd.job, 1, amvia_LastError()))
            fprintf(stderr, "libvipam: process %d: %s\n", job_rank(spmd.job), amvia_LastError());
        return rc;
    }
    *bundle = spmd.bundle;
    *endpoint = spmd.ep;
    if (networkpid != NULL)
        *networkpid = job_number(spmd.job);
    return AM_OK;
}

/* ---- together -------------------------------------------------------------------------------- */

/*
 * Wait for the end of the launcher's barrier, and handle messages meanwhile. Returns 1 at the end,
 * 0 if the time until_ns came first (until_ns 0: no limit), or a negative errno. While messages
 * come, do not wait for the launcher's answer, so that this process answers messages without delay.
 */
static int await_all(int64_t until_ns)
{
    int rc = job_barrier_begin(spmd.job);
    int64_t active_ns = am_now_ns(), now_ns = active_ns;

    while (rc == 0) {
        uint64_t handled = spmd.bundle->handled;

        for (unsigned looks = 0; looks < 32; looks++)
            (void)AM_Poll(spmd.bundle);
        now_ns = am_now_ns();
        if (spmd.bundle->handled != handled)
            active_ns = now_ns;
        rc = job_barrier_test(spmd.job,
                              now_ns - active_ns < BARRIER_AWAKE_NS ? 0 : BARRIER_SLEEP_MS);
        if (rc == 0 && until_ns != 0 && now_ns > until_ns)
            return 0;
    }
    return rc;
}

int AMX_SPMDBarrier(void)
{
    int rc = check_started("AMX_SPMDBarrier");

    if (rc == AM_OK && await_all(0) < 0)
        rc = am_fail(AM_ERR_RESOURCE, "AMX_SPMDBarrier: %s", job_error());
    return rc;
}

int AMX_SPMDAllGather(void *source, void *dest, size_t len)
{
    int rc = AMX_SPMDBarrier(); /* unlike job_allgather, it handles messages while it waits */

    if (rc != AM_OK)
        return rc;
    if (source == NULL || dest == NULL)
        return am_fail(AM_ERR_BAD_ARG, "AMX_SPMDAllGather: NULL");
    if (job_allgather(spmd.job, source, dest, len) != 0)
        return am_fail(len > JOB_GATHER_BYTES_MAX ? AM_ERR_BAD_ARG : AM_ERR_RESOURCE,
                       "AMX_SPMDAllGather: %s", job_error());
    return AM_OK;
}

int AMX_SPMDBroadcast(void *buf, size_t len, int root)
{
    char *all;
    int rc = check_started("AMX_SPMDBroadcast");

    if (rc != AM_OK)
        return rc;
    if (buf == NULL || root < 0 || root >= AMX_SPMDNumProcs())
        return am_fail(AM_ERR_BAD_ARG, "AMX_SPMDBroadcast: buf or root");
    all = malloc(len * (size_t)AMX_SPMDNumProcs() + 1);
    if (all == NULL)
        return am_fail(AM_ERR_RESOURCE, "AMX_SPMDBroadcast: no memory");
    rc = AMX_SPMDAllGather(buf, all, len);
    if (rc == AM_OK)
        memcpy(buf, all + len * (size_t)root, len);
    free(all);
    return rc;
}

/* ---- end ------------------------------------------------------------------------------------- */

int AMX_SPMDExit(int exitcode)
{
    bool together = false;

    if (spmd.exiting)
        _exit(exitcode); /* a signal handler or the callback has called AMX_SPMDExit again */
    spmd.exiting = true;
    if (spmd.callback != NULL)
        spmd.callback(exitcode);
    fflush(NULL);
    /* Do not wait inside a handler, or in a signal handler that has interrupted a handler. */
    if (spmd.ep != NULL && exitcode == 0 && am_in_handler == 0)
        together = await_all(am_now_ns() + EXIT_GRACE_NS) > 0;
    if (together) {
        (void)AM_Terminate();
        job_finish(spmd.job);
    } else {
        char text[60];

        snprintf(text, sizeof(text), "it has called AMX_SPMDExit(%d)", exitcode);
        (void)job_abort(spmd.job, exitcode, text);
    }
    AMX_SPMDkillmyprocess(exitcode);
    _exit(exitcode);
}

/*
 * SPMD start, barrier, all-gather and exit of am_amx.h, upon job/.
 */
#include "am/amx.h"

#include <stdarg.h>
#include <string.h>
#include <unistd.h>

#include "am/internal.h"
#include "job/job.h"

/* How long an exit with code 0 waits for the others to come to theirs. */
#define EXIT_GRACE_NS 2000000000LL

/* Once no message has come for so long, the process sleeps this long at a time in a barrier. */
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
    va_list args;

    fflush(stdout);
    fprintf(stderr, "%s: fatal error in process %d: ", AMX_ProcessLabel, AMX_SPMDMyProc());
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    fprintf(stderr, "\n");
    job_abort(spmd.job, 1, "fatal error");
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

/* ---- start ------------------------------------------------------------------------------------------------- */

/* What each process tells the others. */
struct card {
    en_t name;
    tag_t tag;
};

/* A tag that differs from process to process and job to job, and is neither AM_NONE nor AM_ALL. */
static tag_t own_tag(void)
{
    return (tag_t)job_number(spmd.job) << 20 | (tag_t)(unsigned)job_rank(spmd.job) << 2 | 2;
}

static int map_all(const struct card *cards)
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
    struct card mine, *all = calloc((size_t)job_size(spmd.job), sizeof(*all));
    int rc = AM_OK;

    if (all == NULL)
        return am_fail(AM_ERR_RESOURCE, "AMX_SPMDStartup: no memory");
    memset(&mine, 0, sizeof(mine));
    mine.name = spmd.ep->name;
    mine.tag = own_tag();
    if (job_allgather(spmd.job, &mine, all, sizeof(mine)) != 0)
        rc = am_fail(AM_ERR_RESOURCE, "AMX_SPMDStartup: %s", job_error());
    if (rc == AM_OK)
        rc = AM_SetTag(spmd.ep, mine.tag);
    if (rc == AM_OK)
        rc = map_all(all);
    if (rc == AM_OK)
        rc = AM_SetExpectedResources(spmd.ep, job_size(spmd.job),
                                     depth > 0 ? depth : (int)am_net.depth);
    free(all);
    return rc;
}

int AMX_SPMDStartup(int *argc, char ***argv, int networkdepth, uint64_t *networkpid, eb_t *bundle,
                    ep_t *endpoint)
{
    int rc;

    (void)argc; /* launchers have removed their arguments */
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
        /* The others wait for this process; it cannot come. */
        fprintf(stderr, "libvipam: process %d: %s\n", job_rank(spmd.job), amvia_LastError());
        job_abort(spmd.job, 1, "a process could not start");
        return rc;
    }
    *bundle = spmd.bundle;
    *endpoint = spmd.ep;
    if (networkpid != NULL)
        *networkpid = job_number(spmd.job);
    return AM_OK;
}

/* ---- together ----------------------------------------------------------------------------------------------- */

/*
 * Wait for the launcher to let all go, handling messages; 0: until_ns (if not 0) has come before.
 * While messages come the launcher is only glanced at, so that others are answered at full speed.
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
    int rc = AMX_SPMDBarrier(); /* so that messages are handled until all have come */

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

/* ---- end ------------------------------------------------------------------------------------------------------ */

int AMX_SPMDExit(int exitcode)
{
    bool together = false;

    if (spmd.exiting)
        _exit(exitcode); /* called again by a signal handler or a callback */
    spmd.exiting = true;
    if (spmd.callback != NULL)
        spmd.callback(exitcode);
    fflush(NULL);
    /* From a handler, or from a signal handler in the middle of a call, nothing can be waited for. */
    if (spmd.ep != NULL && exitcode == 0 && am_in_handler == 0)
        together = await_all(am_now_ns() + EXIT_GRACE_NS) > 0;
    if (together) {
        (void)AM_Terminate();
        job_finish(spmd.job);
    } else {
        job_abort(spmd.job, exitcode, "AMX_SPMDExit");
    }
    AMX_SPMDkillmyprocess(exitcode);
    _exit(exitcode);
}

/*
 * Joining by PMIx: Open MPI's mpirun and Slurm's srun --mpi=pmix. libpmix is opened at run time, so
 * that only jobs of such a launcher need it. In a build without pmix.h, joining by PMIx fails.
 */
#include "job/internal.h"

#if __has_include(<pmix.h>)

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <pmix.h>

#include "job/job.h"

/* The functions of libpmix that this file calls. */
struct pmix_calls {
    pmix_status_t (*init)(pmix_proc_t *proc, pmix_info_t info[], size_t ninfo);
    pmix_status_t (*finalize)(const pmix_info_t info[], size_t ninfo);
    pmix_status_t (*abort)(int status, const char msg[], pmix_proc_t procs[], size_t nprocs);
    pmix_status_t (*put)(pmix_scope_t scope, const char key[], pmix_value_t *val);
    pmix_status_t (*commit)(void);
    pmix_status_t (*get)(const pmix_proc_t *proc, const char key[], const pmix_info_t info[],
                         size_t ninfo, pmix_value_t **val);
    pmix_status_t (*fence_nb)(const pmix_proc_t procs[], size_t nprocs, const pmix_info_t info[],
                              size_t ninfo, pmix_op_cbfunc_t cbfunc, void *cbdata);
    const char *(*error)(pmix_status_t status);
};

struct pmix {
    void *library;
    struct pmix_calls call;
    pmix_proc_t me;
    pthread_mutex_t lock; /* guards fence_done and fence_status, which libpmix's thread sets */
    pthread_cond_t changed;
    bool fencing, fence_done;
    pmix_status_t fence_status;
    pmix_info_t collect; /* tells the fence to collect the values of put */
};

static int refused(const struct pmix *pmix, const char *call, pmix_status_t status)
{
    return job_fail(-EPROTO, "%s: %s (%d)", call, pmix->call.error(status), (int)status);
}

static int pmix_way_put(void *at, const char *key, const char *text)
{
    struct pmix *pmix = at;
    pmix_value_t value = {.type = PMIX_STRING};
    pmix_status_t status;

    value.data.string = (char *)(uintptr_t)text; /* PMIx_Put copies the text */
    status = pmix->call.put(PMIX_GLOBAL, key, &value);
    return status == PMIX_SUCCESS ? 0 : refused(pmix, "PMIx_Put", status);
}

static int pmix_way_get(void *at, int rank, const char *key, char *text, size_t room)
{
    struct pmix *pmix = at;
    pmix_proc_t proc = pmix->me;
    pmix_value_t *value = NULL;
    pmix_status_t status;
    int rc = 0;

    proc.rank = (pmix_rank_t)rank;
    status = pmix->call.get(&proc, key, NULL, 0, &value);
    if (status != PMIX_SUCCESS)
        return refused(pmix, "PMIx_Get", status);
    if (value->type != PMIX_STRING || value->data.string == NULL ||
        strlen(value->data.string) >= room)
        rc = job_fail(-EPROTO, "PMIx_Get: no text under %s of process %d", key, rank);
    else
        strcpy(text, value->data.string);
    if (value->type == PMIX_STRING)
        free(value->data.string);
    free(value);
    return rc;
}

/* Note the end of a fence. Usually libpmix calls this function in its own thread. */
static void fence_over(pmix_status_t status, void *at)
{
    struct pmix *pmix = at;

    pthread_mutex_lock(&pmix->lock);
    pmix->fence_status = status;
    pmix->fence_done = true;
    pthread_cond_signal(&pmix->changed);
    pthread_mutex_unlock(&pmix->lock);
}

static int pmix_way_fence_begin(void *at)
{
    struct pmix *pmix = at;
    pmix_status_t status;

    if (pmix->fencing)
        return 0;
    status = pmix->call.commit();
    if (status != PMIX_SUCCESS)
        return refused(pmix, "PMIx_Commit", status);
    pmix->fence_done = false;
    status = pmix->call.fence_nb(NULL, 0, &pmix->collect, 1, fence_over, pmix);
    if (status != PMIX_SUCCESS && status != PMIX_OPERATION_SUCCEEDED)
        return refused(pmix, "PMIx_Fence_nb", status);
    if (status == PMIX_OPERATION_SUCCEEDED)
        fence_over(PMIX_SUCCESS, pmix);
    pmix->fencing = true;
    return 0;
}

static int pmix_way_fence_test(void *at, int timeout_ms)
{
    struct pmix *pmix = at;
    struct timespec until;
    bool done;

    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += timeout_ms / 1000;
    until.tv_nsec += timeout_ms % 1000 * 1000000L;
    if (until.tv_nsec >= 1000000000L) {
        until.tv_sec++;
        until.tv_nsec -= 1000000000L;
    }
    pthread_mutex_lock(&pmix->lock);
    while (!pmix->fence_done && timeout_ms != 0) {
        int rc = timeout_ms < 0 ? pthread_cond_wait(&pmix->changed, &pmix->lock)
                                : pthread_cond_timedwait(&pmix->changed, &pmix->lock, &until);

        if (rc == ETIMEDOUT)
            break;
    }
    done = pmix->fence_done;
    pthread_mutex_unlock(&pmix->lock);
    if (!done)
        return 0;
    pmix->fencing = false;
    return pmix->fence_status == PMIX_SUCCESS ? 1 : refused(pmix, "PMIx_Fence", pmix->fence_status);
}

static bool pmix_way_abort(void *at, int code, const char *why)
{
    struct pmix *pmix = at;

    (void)pmix->call.abort(code, why, NULL, 0);
    return false; /* some launchers print the reason, others do not */
}

static void pmix_way_finish(void *at)
{
    struct pmix *pmix = at;

    /* During a fence do not free the object: libpmix's thread will use it in fence_over. */
    if (pmix->fencing)
        return;
    (void)pmix->call.finalize(NULL, 0);
    pthread_cond_destroy(&pmix->changed);
    pthread_mutex_destroy(&pmix->lock);
    free(pmix);
}

static const struct job_way pmix_way = {
    .name = "pmix",
    .put = pmix_way_put,
    .fence_begin = pmix_way_fence_begin,
    .fence_test = pmix_way_fence_test,
    .get = pmix_way_get,
    .abort = pmix_way_abort,
    .finish = pmix_way_finish,
};

/* Load libpmix. It is never unloaded, because its threads still run after our last call. */
static int load(struct pmix *pmix)
{
    struct {
        const char *name;
        void *to;
    } wanted[] = {
        {"PMIx_Init", &pmix->call.init},         {"PMIx_Finalize", &pmix->call.finalize},
        {"PMIx_Abort", &pmix->call.abort},       {"PMIx_Put", &pmix->call.put},
        {"PMIx_Commit", &pmix->call.commit},     {"PMIx_Get", &pmix->call.get},
        {"PMIx_Fence_nb", &pmix->call.fence_nb}, {"PMIx_Error_string", &pmix->call.error},
    };

    pmix->library = dlopen("libpmix.so.2", RTLD_NOW | RTLD_LOCAL);
    if (pmix->library == NULL)
        return job_fail(-ENOENT,
                        "the launcher offers PMIx only and libpmix.so.2 cannot be loaded (%s); "
                        "install libpmix2",
                        dlerror());
    for (size_t i = 0; i < sizeof(wanted) / sizeof(wanted[0]); i++) {
        void *symbol = dlsym(pmix->library, wanted[i].name);

        if (symbol == NULL)
            return job_fail(-ENOENT, "libpmix.so.2 has no %s", wanted[i].name);
        memcpy(wanted[i].to, &symbol, sizeof(symbol));
    }
    return 0;
}

static int ask_size(struct pmix *pmix, int *ret)
{
    pmix_proc_t all = pmix->me;
    pmix_value_t *value = NULL;
    pmix_status_t status;

    all.rank = PMIX_RANK_WILDCARD;
    status = pmix->call.get(&all, PMIX_JOB_SIZE, NULL, 0, &value);
    if (status != PMIX_SUCCESS)
        return refused(pmix, "PMIx_Get of the job's size", status);
    *ret = (int)value->data.uint32;
    free(value);
    return 0;
}

static void init_sync(struct pmix *pmix)
{
    pthread_condattr_t attr;

    pthread_mutex_init(&pmix->lock, NULL);
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&pmix->changed, &attr);
    pthread_condattr_destroy(&attr);
    strncpy(pmix->collect.key, PMIX_COLLECT_DATA, PMIX_MAX_KEYLEN);
    pmix->collect.value.type = PMIX_BOOL;
    pmix->collect.value.data.flag = true;
}

int job_pmix_join(struct job_place *ret)
{
    struct pmix *pmix = calloc(1, sizeof(*pmix));
    pmix_status_t status;
    int rc;

    if (pmix == NULL)
        return job_fail(-ENOMEM, "no memory");
    init_sync(pmix);
    rc = load(pmix);
    if (rc == 0) {
        status = pmix->call.init(&pmix->me, NULL, 0);
        if (status != PMIX_SUCCESS)
            rc = refused(pmix, "PMIx_Init", status);
    }
    if (rc == 0)
        rc = ask_size(pmix, &ret->size);
    if (rc != 0) {
        free(pmix);
        return rc;
    }
    ret->rank = (int)pmix->me.rank;
    ret->value_max = PMI_VALUE_MAX;
    snprintf(ret->name, sizeof(ret->name), "%s", pmix->me.nspace);
    ret->way = &pmix_way;
    ret->at = pmix;
    return 0;
}

#else

#include <errno.h>

int job_pmix_join(struct job_place *ret)
{
    (void)ret;
    return job_fail(-ENOTSUP, "this launcher speaks PMIx, and this program was built without it; "
                              "use amrun, MPICH's mpiexec or srun --mpi=pmi2");
}

#endif

/*
 * The part of job.h that all ways to join share. job_allgather uses put, fence and get of struct
 * job_way. A value has hexadecimal digits, so job_allgather puts the bytes in pieces that fit.
 */
#include "job/job.h"

#include <errno.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "job/internal.h"

struct job {
    struct job_place place; /* place.way is NULL in a job of one process */
    unsigned gathers;       /* number of all-gathers so far; each key contains it */
    bool fencing;           /* a barrier has begun, and job_barrier_test has not returned 1 yet */
};

int job_start(struct job **ret)
{
    const char *fd = getenv("PMI_FD");
    struct job *job = calloc(1, sizeof(*job));
    int rc = 0;

    if (job == NULL)
        return job_fail(-ENOMEM, "no memory");
    job->place.size = 1;
    if (fd != NULL)
        rc = job_pmi_join(atoi(fd), &job->place);
    else if (getenv("PMIX_RANK") != NULL && getenv("PMIX_NAMESPACE") != NULL)
        rc = job_pmix_join(&job->place);
    if (rc != 0) {
        free(job);
        return rc;
    }
    *ret = job;
    return 0;
}

int job_rank(const struct job *job)
{
    return job->place.rank;
}

int job_size(const struct job *job)
{
    return job->place.size;
}

const char *job_launcher(const struct job *job)
{
    return job->place.way != NULL ? job->place.way->name : "alone";
}

unsigned long long job_number(const struct job *job)
{
    uint64_t hash = 14695981039346656037u; /* FNV-1a hash of the launcher's name for the job */

    for (const char *c = job->place.name; *c != '\0'; c++)
        hash = (hash ^ (unsigned char)*c) * 1099511628211u;
    return hash;
}

int job_barrier_begin(struct job *job)
{
    int rc = 0;

    if (job->fencing)
        return 0;
    if (job->place.way != NULL)
        rc = job->place.way->fence_begin(job->place.at);
    job->fencing = rc == 0;
    return rc;
}

int job_barrier_test(struct job *job, int timeout_ms)
{
    int rc = 1;

    if (job->fencing && job->place.way != NULL)
        rc = job->place.way->fence_test(job->place.at, timeout_ms);
    if (rc == 1)
        job->fencing = false;
    return rc;
}

int job_barrier(struct job *job)
{
    int rc = job_barrier_begin(job);

    while (rc == 0)
        rc = job_barrier_test(job, -1);
    return rc < 0 ? rc : 0;
}

/* Number of bytes whose hexadecimal digits fit into one value. */
static size_t piece_bytes(const struct job *job)
{
    return (job->place.value_max - 1) / 2;
}

static void piece_key(const struct job *job, int rank, size_t piece, char key[PMI_KEY_MAX])
{
    snprintf(key, PMI_KEY_MAX, "vip-%u-%d-%zu", job->gathers, rank, piece);
}

static int put_mine(struct job *job, const unsigned char *mine, size_t len)
{
    char key[PMI_KEY_MAX], value[PMI_VALUE_MAX + 1];
    int rc = 0;

    for (size_t piece = 0, at = 0; at < len && rc == 0; piece++) {
        size_t n = 0;

        for (; n < piece_bytes(job) && at < len; n++, at++)
            snprintf(value + 2 * n, 3, "%02x", mine[at]);
        piece_key(job, job->place.rank, piece, key);
        rc = job->place.way->put(job->place.at, key, value);
    }
    return rc;
}

static int get_one(struct job *job, int rank, unsigned char *ret, size_t len)
{
    char key[PMI_KEY_MAX], value[PMI_VALUE_MAX + 1];

    for (size_t piece = 0, at = 0; at < len; piece++) {
        size_t n = len - at < piece_bytes(job) ? len - at : piece_bytes(job);
        int rc;

        piece_key(job, rank, piece, key);
        rc = job->place.way->get(job->place.at, rank, key, value, sizeof(value));
        if (rc != 0)
            return rc;
        if (strlen(value) != 2 * n)
            return job_fail(-EPROTO, "process %d handed in %zu digits instead of %zu", rank,
                            strlen(value), 2 * n);
        for (size_t i = 0; i < n; i++, at++) {
            unsigned byte;

            if (sscanf(value + 2 * i, "%2x", &byte) != 1)
                return job_fail(-EPROTO, "process %d handed in something else than digits", rank);
            ret[at] = (unsigned char)byte;
        }
    }
    return 0;
}

int job_allgather(struct job *job, const void *mine, void *ret, size_t len)
{
    unsigned char *to = ret;
    int rc = 0;

    if (len > JOB_GATHER_BYTES_MAX)
        return job_fail(-EINVAL, "%zu bytes each; an all-gather takes up to %u", len,
                        JOB_GATHER_BYTES_MAX);
    if (job->place.way == NULL) {
        memmove(ret, mine, len);
        return 0;
    }
    rc = put_mine(job, mine, len);
    if (rc == 0)
        rc = job_barrier(job);
    for (int rank = 0; rank < job->place.size && rc == 0; rank++)
        rc = get_one(job, rank, to + (size_t)rank * len, len);
    job->gathers++;
    return rc;
}

void job_finish(struct job *job)
{
    if (job == NULL)
        return;
    if (job->place.way != NULL)
        job->place.way->finish(job->place.at);
    free(job);
}

bool job_abort(struct job *job, int code, const char *why)
{
    return job != NULL && job->place.way != NULL && job->place.way->abort(job->place.at, code, why);
}

/*
 * A job's process, for job.sh: joins the job, gathers bytes, passes barriers, ends as argv says.
 * usage: jobs good | exit RANK CODE | kill RANK | abort RANK CODE | leave RANK | complain FILE
 * complain: all processes abort with the same message when FILE exists.
 */
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "job/job.h"

/* More bytes than a value of the PMI-1 protocol can have. */
#define BYTES 1500

static int failed(const char *what)
{
    fprintf(stderr, "jobs: %s: %s\n", what, job_error());
    return 9;
}

static unsigned char byte_of(int rank, int i, int round)
{
    return (unsigned char)(rank * 31 + i + round * 7);
}

static int gather(struct job *job, int round)
{
    unsigned char mine[BYTES], *all = malloc((size_t)job_size(job) * BYTES);
    int bad = 0;

    for (int i = 0; i < BYTES; i++)
        mine[i] = byte_of(job_rank(job), i, round);
    if (all == NULL || job_allgather(job, mine, all, BYTES) != 0)
        return failed("all-gather");
    for (int r = 0; r < job_size(job); r++)
        for (int i = 0; i < BYTES; i++)
            bad |= all[r * BYTES + i] != byte_of(r, i, round);
    free(all);
    if (bad)
        fprintf(stderr, "jobs: the all-gather's bytes are wrong\n");
    return bad;
}

int main(int argc, char **argv)
{
    const char *mode = argc > 1 ? argv[1] : "good";
    int who = argc > 2 ? atoi(argv[2]) : -1, code = argc > 3 ? atoi(argv[3]) : 1;
    struct job *job = NULL;

    if (job_start(&job) != 0)
        return failed("start");
    for (int round = 0; round < 2; round++)
        if (gather(job, round) != 0)
            return 9;
    if (job_barrier_begin(job) != 0)
        return failed("barrier");
    while (job_barrier_test(job, 1) == 0)
        continue;
    if (strcmp(mode, "complain") == 0) {
        printf("ready\n"), fflush(stdout);
        while (access(argv[2], F_OK) != 0)
            usleep(1000);
        (void)job_abort(job, 3, "all of us say this");
        printf("said\n"), fflush(stdout);
        pause();
    }
    if (job_rank(job) == who) {
        if (strcmp(mode, "exit") == 0)
            _exit(code);
        if (strcmp(mode, "kill") == 0)
            raise(SIGKILL);
        if (strcmp(mode, "abort") == 0) {
            (void)job_abort(job, code, "as the test wants it");
            pause();
        }
        if (strcmp(mode, "leave") == 0) {
            job_finish(job);
            return 0;
        }
    } else if (strcmp(mode, "good") != 0) {
        if (strcmp(mode, "leave") == 0)
            (void)job_barrier(job);
        for (;;)
            pause();
    }
    printf("rank %d of %d by %s\n", job_rank(job), job_size(job), job_launcher(job));
    fflush(stdout);
    if (job_barrier(job) != 0)
        return failed("barrier");
    job_finish(job);
    return 0;
}

/*
 * Ends of a job, for ends.sh: "exit N" in one process; "zero": exit(0) in all processes; "kill": the last process kills
 * itself; "scope": processes have other spread arrays in scope; "thread": a process computes while others read from it.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <split-c/split-c.h>

static int cell, done;

static void compute_until_done(void)
{
    time_t end = time(NULL) + 60;

    /* Wait without a call of the runtime. */
    while (!*(volatile int *)&done && time(NULL) < end)
        usleep(1000);
    if (!*(volatile int *)&done)
        printf("nobody served process %d\n", MYPROC), exit(1);
}

int splitc_main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "";
    int last = PROCS - 1, i;

    cell = MYPROC;
    barrier();
    if (*toglobal(last, &cell) != last)
        exit(1);
    barrier();
    if (strcmp(what, "exit") == 0 && MYPROC == last)
        exit(atoi(argv[2]));
    if (strcmp(what, "zero") == 0) {
        printf("process %d is done\n", MYPROC);
        exit(0);
    }
    if (strcmp(what, "kill") == 0 && MYPROC == last)
        kill(getpid(), SIGKILL);
    if (strcmp(what, "scope") == 0 && MYPROC == last) {
        int A[PROCS]::;

        barrier();
        A[0] = 1;
    } else if (strcmp(what, "thread") == 0 && MYPROC == last) {
        compute_until_done();
    } else if (strcmp(what, "thread") == 0) {
        for (i = 0; i < 10; i++)
            if (*toglobal(last, &cell) != last)
                exit(1);
        on_one printf("served\n"), *toglobal(last, &done) = 1;
    } else if (strcmp(what, "exit") == 0 || strcmp(what, "kill") == 0) {
        barrier(); /* here the others wait for the process that has ended */
    } else {
        barrier();
    }
    barrier();
    return 0;
}

/*
 * A job that strangers call, for strangers.sh: waits for the file argv[1] while it serves whoever calls, then
 * each of the first argv[2] processes reads from each other one.
 */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include <split-c/split-c.h>

static int cell;

int splitc_main(int argc, char **argv)
{
    int i, count = atoi(argv[2]);

    cell = 100 + MYPROC;
    while (access(argv[1], F_OK) != 0) {
        splitc_poll();
        usleep(200);
    }
    for (i = 0; i < count; i++)
        if (*toglobal(i, &cell) != 100 + i)
            exit(1);
    printf("process %d has read from all\n", MYPROC);
    return 0;
}

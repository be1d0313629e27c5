/*
 * A job that strangers call, for strangers.sh. It serves callers until the file argv[1] exists. Then each of the first
 * argv[2] processes reads from each other one. If there is an argv[3], it serves until that file exists.
 */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include <split-c/split-c.h>

static int cell;

static void wait_for(const char *file)
{
    while (access(file, F_OK) != 0) {
        splitc_poll();
        usleep(200);
    }
}

int splitc_main(int argc, char **argv)
{
    int i, count = atoi(argv[2]);

    cell = 100 + MYPROC;
    wait_for(argv[1]);
    for (i = 0; i < count; i++)
        if (*toglobal(i, &cell) != 100 + i)
            exit(1);
    printf("process %d has read from all\n", MYPROC);
    if (argc > 3)
        wait_for(argv[3]);
    return 0;
}

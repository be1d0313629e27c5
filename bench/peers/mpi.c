/*
 * MPI as a peer of bench/run: two ranks, ping-pong or a stream of messages for a time.
 * usage: mpi lat|bw SIZE_BYTES MILLISECONDS
 * Rank 0 prints one number: the median half round trip in us, or MB/s.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SAMPLES_MAX 1000000
#define WINDOW      16

enum { TAG_DATA = 1, TAG_STOP = 2 };

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static void ping(char *bytes, int size, double seconds)
{
    double *sample_us = malloc(SAMPLES_MAX * sizeof(*sample_us));
    double start = MPI_Wtime(), now = start;
    int count = 0;

    if (!sample_us)
        MPI_Abort(MPI_COMM_WORLD, 1);
    while (now - start < seconds && count < SAMPLES_MAX) {
        double before = now;

        MPI_Send(bytes, size, MPI_BYTE, 1, TAG_DATA, MPI_COMM_WORLD);
        MPI_Recv(bytes, size, MPI_BYTE, 1, TAG_DATA, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        now = MPI_Wtime();
        sample_us[count++] = (now - before) / 2 * 1e6;
    }
    MPI_Send(bytes, 0, MPI_BYTE, 1, TAG_STOP, MPI_COMM_WORLD);
    qsort(sample_us, (size_t)count, sizeof(*sample_us), compare);
    printf("%.3f\n", sample_us[count / 2]);
    free(sample_us);
}

static void answer(char *bytes, int size)
{
    MPI_Status status;

    for (;;) {
        MPI_Recv(bytes, size, MPI_BYTE, 0, MPI_ANY_TAG, MPI_COMM_WORLD, &status);
        if (status.MPI_TAG == TAG_STOP)
            return;
        MPI_Send(bytes, size, MPI_BYTE, 0, TAG_DATA, MPI_COMM_WORLD);
    }
}

/* Windows of messages, each answered by one of no bytes. */
static void stream(char *bytes, int size, double seconds)
{
    double start = MPI_Wtime(), sent = 0;

    while (MPI_Wtime() - start < seconds) {
        MPI_Request requests[WINDOW];

        for (int i = 0; i < WINDOW; i++)
            MPI_Isend(bytes, size, MPI_BYTE, 1, TAG_DATA, MPI_COMM_WORLD, &requests[i]);
        MPI_Waitall(WINDOW, requests, MPI_STATUSES_IGNORE);
        MPI_Recv(bytes, 0, MPI_BYTE, 1, TAG_DATA, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        sent += (double)size * WINDOW;
    }
    printf("%.1f\n", sent / (MPI_Wtime() - start) / 1e6);
    MPI_Send(bytes, 0, MPI_BYTE, 1, TAG_STOP, MPI_COMM_WORLD);
}

static void swallow(char *bytes, int size)
{
    for (;;) {
        for (int i = 0; i < WINDOW; i++) {
            MPI_Status status;

            MPI_Recv(bytes, size, MPI_BYTE, 0, MPI_ANY_TAG, MPI_COMM_WORLD, &status);
            if (status.MPI_TAG == TAG_STOP)
                return;
        }
        MPI_Send(bytes, 0, MPI_BYTE, 0, TAG_DATA, MPI_COMM_WORLD);
    }
}

int main(int argc, char **argv)
{
    int rank, size = argc == 4 ? atoi(argv[2]) : -1;
    double seconds = argc == 4 ? atof(argv[3]) / 1000 : 0;
    char *bytes;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    bytes = size >= 0 ? calloc(1, (size_t)size + 1) : NULL;
    if (!bytes) {
        fprintf(stderr, "usage: mpi lat|bw SIZE_BYTES MILLISECONDS\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    if (strcmp(argv[1], "lat") == 0) {
        if (rank == 0)
            ping(bytes, size, seconds);
        else
            answer(bytes, size);
    } else {
        if (rank == 0)
            stream(bytes, size, seconds);
        else
            swallow(bytes, size);
    }
    free(bytes);
    MPI_Finalize();
    return 0;
}

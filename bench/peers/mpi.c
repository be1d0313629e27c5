/*
 * MPI as a peer of bench/run: one-way times of ping-pongs and the bandwidth of streams between
 * ranks 0 and 1. One job measures all sizes, because the start of a job takes longer than the
 * measurement.
 * usage: mpi MILLISECONDS lat SIZE... bw SIZE...     (MILLISECONDS for each size)
 * Rank 0 prints lines "lat_SIZE MICROSECONDS" (median) and "bw_SIZE MEGABYTES_PER_SECOND".
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SAMPLES_MAX 1000000
#define WARM        20 /* unmeasured first exchanges, which connect and register memory */
#define WINDOW      16 /* number of messages of a stream under way */

enum { TAG_DATA = 1, TAG_STOP = 2 };

static char *bytes;
static double *sample_us;
static double seconds;

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static void exchange(int size)
{
    MPI_Send(bytes, size, MPI_BYTE, 1, TAG_DATA, MPI_COMM_WORLD);
    MPI_Recv(bytes, size, MPI_BYTE, 1, TAG_DATA, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

static void ping(int size)
{
    double start, now;
    size_t count = 0;

    for (int i = 0; i < WARM; i++)
        exchange(size);
    start = now = MPI_Wtime();
    while (now - start < seconds && count < SAMPLES_MAX) {
        double before = now;

        exchange(size);
        now = MPI_Wtime();
        sample_us[count++] = (now - before) / 2 * 1e6;
    }
    MPI_Send(bytes, 0, MPI_BYTE, 1, TAG_STOP, MPI_COMM_WORLD);
    qsort(sample_us, count, sizeof(*sample_us), compare);
    printf("lat_%d %.3f\n", size, sample_us[count / 2]);
}

static void answer(int size)
{
    MPI_Status status;

    for (;;) {
        MPI_Recv(bytes, size, MPI_BYTE, 0, MPI_ANY_TAG, MPI_COMM_WORLD, &status);
        if (status.MPI_TAG == TAG_STOP)
            return;
        MPI_Send(bytes, size, MPI_BYTE, 0, TAG_DATA, MPI_COMM_WORLD);
    }
}

/* Send a window of messages; the peer answers with an empty message when all have arrived. */
static void window(int size)
{
    MPI_Request requests[WINDOW];

    for (int i = 0; i < WINDOW; i++)
        MPI_Isend(bytes, size, MPI_BYTE, 1, TAG_DATA, MPI_COMM_WORLD, &requests[i]);
    MPI_Waitall(WINDOW, requests, MPI_STATUSES_IGNORE);
    MPI_Recv(bytes, 0, MPI_BYTE, 1, TAG_DATA, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

static void stream(int size)
{
    double start, sent = 0;

    for (int i = 0; i < WARM / 4; i++)
        window(size);
    for (start = MPI_Wtime(); MPI_Wtime() - start < seconds; sent += (double)size * WINDOW)
        window(size);
    printf("bw_%d %.1f\n", size, sent / (MPI_Wtime() - start) / 1e6);
    MPI_Send(bytes, 0, MPI_BYTE, 1, TAG_STOP, MPI_COMM_WORLD);
}

static void swallow(int size)
{
    for (int in_window = 0;; in_window = (in_window + 1) % WINDOW) {
        MPI_Status status;

        MPI_Recv(bytes, size, MPI_BYTE, 0, MPI_ANY_TAG, MPI_COMM_WORLD, &status);
        if (status.MPI_TAG == TAG_STOP)
            return;
        if (in_window == WINDOW - 1)
            MPI_Send(bytes, 0, MPI_BYTE, 0, TAG_DATA, MPI_COMM_WORLD);
    }
}

static int usage(void)
{
    fprintf(stderr, "usage: mpi MILLISECONDS lat SIZE... bw SIZE...\n");
    MPI_Abort(MPI_COMM_WORLD, 2);
    return 2;
}

int main(int argc, char **argv)
{
    int rank, most = 1, is_stream = 0;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (argc < 4 || atof(argv[1]) <= 0)
        return usage();
    seconds = atof(argv[1]) / 1000;
    for (int i = 2; i < argc; i++)
        most = atoi(argv[i]) > most ? atoi(argv[i]) : most;
    bytes = calloc(1, (size_t)most);
    sample_us = malloc(SAMPLES_MAX * sizeof(*sample_us));
    if (bytes == NULL || sample_us == NULL)
        MPI_Abort(MPI_COMM_WORLD, 1);
    for (int i = 2; i < argc; i++) {
        int size = atoi(argv[i]);

        if (strcmp(argv[i], "lat") == 0 || strcmp(argv[i], "bw") == 0)
            is_stream = argv[i][0] == 'b';
        else if (size <= 0)
            return usage();
        else if (is_stream)
            rank == 0 ? stream(size) : swallow(size);
        else
            rank == 0 ? ping(size) : answer(size);
    }
    free(bytes);
    free(sample_us);
    MPI_Finalize();
    return 0;
}

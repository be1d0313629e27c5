/*
 * Heat in a bar whose ends have fixed temperatures: first with static spread arrays and remote
 * reads, then with automatic spread arrays and gets that overlap. Element i of a spread array is in
 * process i mod PROCS, so both neighbours of an element are in other processes.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <split-c/split-c.h>

#define N     24
#define STEPS 120

static double u[N]::, v[N]::;

static void with_static(void)
{
    int i, t;

    for_my_1d(i, N) u[i] = v[i] = i == 0 ? 100.0 : i == N - 1 ? 20.0 : 0.0;
    barrier();
    for (t = 0; t < STEPS; t++) {
        for_my_1d(i, N) if (i > 0 && i < N - 1)
            v[i] = u[i] + 0.25 * (u[i - 1] - 2.0 * u[i] + u[i + 1]);
        barrier();
        for_my_1d(i, N) u[i] = v[i];
        barrier();
    }
}

static void with_automatic(double *result)
{
    double a[N]::, b[N]::, left, right;
    int i, t;

    for_my_1d(i, N) a[i] = b[i] = i == 0 ? 100.0 : i == N - 1 ? 20.0 : 0.0;
    barrier();
    for (t = 0; t < STEPS; t++) {
        for_my_1d(i, N) {
            if (i == 0 || i == N - 1)
                continue;
            left := a[i - 1];
            right := a[i + 1];
            sync();
            b[i] = a[i] + 0.25 * (left - 2.0 * a[i] + right);
        }
        barrier();
        for_my_1d(i, N) a[i] = b[i];
        sync();
        barrier();
    }
    for (i = 0; i < N; i++)
        result[i] := a[i];
    sync();
    barrier();
}

void splitc_main(int argc, char **argv)
{
    double x[N], y[N], got[N];
    int i, t, bad = 0;

    for (i = 0; i < N; i++)
        x[i] = y[i] = i == 0 ? 100.0 : i == N - 1 ? 20.0 : 0.0;
    for (t = 0; t < STEPS; t++) {
        for (i = 1; i < N - 1; i++)
            y[i] = x[i] + 0.25 * (x[i - 1] - 2.0 * x[i] + x[i + 1]);
        for (i = 0; i < N; i++)
            x[i] = y[i];
    }
    with_static();
    with_automatic(got);
    for (i = 0; i < N; i++)
        if (fabs(u[i] - x[i]) > 1e-9 || fabs(got[i] - x[i]) > 1e-9)
            bad++;
    on_one printf("heat: the middle of the bar has %.4f%s\n", got[N / 2], bad ? "  WRONG" : "");
    if (bad)
        exit(1);
}

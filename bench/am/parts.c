/*
 * Divides the host's overhead of a short message into parts: base VI, event notification, flow
 * control, semantics. It uses vipam_parts, the library that measures the time of its own parts. It
 * prints "name value" lines for bench/run am: medians, in nanoseconds per message.
 *
 *   amrun -n 2 am_parts [ROUNDS]
 *
 * One message costs a request call with a free credit, and the poll that finds the reply and runs
 * its handler. The time between these two calls is not counted. Process 1 sleeps between requests,
 * so two processors are enough for both processes and vipd. The program measures the time that the
 * accounting itself takes, and subtracts this time from each part.
 */
#include "bench/am/pair.h"

#include <sched.h>

#include "am/parts.h"

/* Requests before the first measured request. */
#define WARM_UP 200

static const char *const part_names[AM_PARTS] = {"outside", "semantics", "flow_control", "events",
                                                 "base_vi"};

/* Ticks of the accounting's clock per nanosecond. */
static double ticks_per_ns(void)
{
    struct am_parts parts;
    double begin = now_us(), end;

    amvia_parts_reset();
    while ((end = now_us()) < begin + 50000)
        continue;
    am_part(AM_PART_OUTSIDE);
    amvia_parts_get(&parts);
    return (double)parts.ticks[AM_PART_OUTSIDE] / (end - begin) / 1e3;
}

/* Returns the ticks that the accounting itself takes for one change of the part. */
static double change_ticks(void)
{
    enum { CHANGES = 1000, TRIES = 101 };
    double sample[TRIES];
    struct am_parts parts;

    for (int i = 0; i < TRIES; i++) {
        amvia_parts_reset();
        for (int k = 0; k < CHANGES; k++)
            am_part(AM_PART_OUTSIDE);
        amvia_parts_get(&parts);
        sample[i] = (double)parts.ticks[AM_PART_OUTSIDE] / CHANGES;
    }
    return median(sample, TRIES);
}

/* Add to each part its ticks since the last reset, without the ticks of the accounting itself. */
static void take(double ticks[AM_PARTS], double change)
{
    struct am_parts now;

    amvia_parts_get(&now);
    for (int i = 0; i < AM_PARTS; i++)
        ticks[i] += (double)now.ticks[i] - change * (double)now.ends[i];
}

/* Send one message; get its ticks by part. Returns 0 if one poll was not enough, because the reply
 * came late: then the message must not count. */
static int message(double ticks[AM_PARTS], double change, double pause_us)
{
    double begin = now_us();

    for (int i = 0; i < AM_PARTS; i++)
        ticks[i] = 0;
    answers = 0;
    amvia_parts_reset();
    DO(AM_Request0(ep, 1, PING));
    take(ticks, change);
    while (now_us() < begin + pause_us)
        sched_yield();
    amvia_parts_reset();
    DO(AM_Poll(bundle));
    take(ticks, change);
    if (answers != 0)
        return 1;
    while (answers == 0)
        DO(AM_Poll(bundle));
    return 0;
}

/* Send WARM_UP requests. Returns the median round trip, in microseconds. */
static double warm_up(void)
{
    double sample[WARM_UP];

    for (int i = 0; i < WARM_UP; i++) {
        double begin = now_us();

        answers = 0;
        DO(AM_Request0(ep, 1, PING));
        while (answers == 0)
            DO(AM_Poll(bundle));
        sample[i] = now_us() - begin;
    }
    return median(sample, WARM_UP);
}

static void measure(int rounds)
{
    double per_ns = ticks_per_ns(), change = change_ticks(), pause_us = 3 * warm_up(), all = 0;
    double *sample = malloc((size_t)rounds * AM_PARTS * sizeof(double)), ticks[AM_PARTS];
    int counted = 0;

    for (int tries = 0; sample != NULL && counted < rounds && tries < 4 * rounds; tries++) {
        if (!message(ticks, change, pause_us))
            continue;
        for (int i = 0; i < AM_PARTS; i++)
            sample[i * rounds + counted] = ticks[i];
        counted++;
    }
    if (counted == 0)
        AMX_FatalErr("not one reply came in time");
    for (int i = AM_PART_SEMANTICS; i < AM_PARTS; i++) {
        double ns = median(sample + i * rounds, counted) / per_ns;

        ns = ns > 0 ? ns : 0;
        printf("%s %.1f\n", part_names[i], ns);
        all += ns;
    }
    printf("overhead %.1f\naccounting %.1f\n", all, change / per_ns);
    free(sample);
}

int main(int argc, char **argv)
{
    int rounds = pair_join(argc, argv);

    return pair_run(measure, rounds, AM_WaitSema);
}

/*
 * simrun: random runs of the engine in virtual time, judged by app.c's oracle.
 *
 *   simrun --seed N [--count C] [--loss PERCENT] [--messages M] [--trace] [--twice]
 *
 * One line per seed with the hash of its transcript; --trace prints the transcript; --twice runs
 * every seed two times and insists on the same hash. Exit status 0, or abort with the reason.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "tests/sim/app.h"

static int usage(void)
{
    fputs("usage: simrun --seed N [--count C] [--loss PERCENT] [--messages M] [--trace] "
          "[--twice] [--quiet]\n",
          stderr);
    return 2;
}

int main(int argc, char **argv)
{
    struct app_args args = {.seed = 1, .loss_ppm = UINT32_MAX, .messages = UINT32_MAX};
    uint64_t count = 1, messages = 0, lost = 0, retransmits = 0;
    bool twice = false, quiet = false;

    for (int i = 1; i < argc; i++) {
        const char *value = i + 1 < argc ? argv[i + 1] : NULL;

        if (!strcmp(argv[i], "--trace"))
            args.trace = stdout;
        else if (!strcmp(argv[i], "--twice"))
            twice = true;
        else if (!strcmp(argv[i], "--quiet"))
            quiet = true;
        else if (!value)
            return usage();
        else if (!strcmp(argv[i], "--seed"))
            args.seed = strtoull(argv[++i], NULL, 0);
        else if (!strcmp(argv[i], "--count"))
            count = strtoull(argv[++i], NULL, 0);
        else if (!strcmp(argv[i], "--loss"))
            args.loss_ppm = (uint32_t)(strtod(argv[++i], NULL) * 10000);
        else if (!strcmp(argv[i], "--messages"))
            args.messages = (uint32_t)strtoul(argv[++i], NULL, 0);
        else
            return usage();
    }
    for (; count; count--, args.seed++) {
        struct app_result result = app_run(&args);

        if (twice && app_run(&args).hash != result.hash) {
            fprintf(stderr, "seed %" PRIu64 ": two runs differ\n", args.seed);
            return 1;
        }
        messages += result.messages;
        lost += result.lost;
        retransmits += result.retransmits;
        if (!quiet)
            printf("seed %" PRIu64 " %016" PRIx64 " %s: %" PRIu64 " messages, %" PRIu64
                   " packets lost, %" PRIu64 " fragments again, %.3f ms\n",
                   args.seed, result.hash, result.kind, result.messages, result.lost,
                   result.retransmits, (double)result.now_ns / 1000000);
    }
    printf("%" PRIu64 " messages verified, %" PRIu64 " packets lost, %" PRIu64
           " fragments sent again\n",
           messages, lost, retransmits);
    return 0;
}

/* vipperf: measures VIPL, and plain sockets for comparison. This file only selects the command. */
#include <stdio.h>
#include <string.h>

#include "tools/vipperf/client.h"
#include "tools/vipperf/cost.h"
#include "tools/vipperf/floor.h"
#include "tools/vipperf/options.h"
#include "tools/vipperf/serve.h"

static int run_client(enum plan_test test, int argc, char **argv)
{
    struct client_options options;

    return options_client(test, argc, argv, &options) ? client_main(&options) : 2;
}

static int run_serve(int argc, char **argv)
{
    struct serve_options options;

    return options_serve(argc, argv, &options) ? serve_main(&options) : 2;
}

int main(int argc, char **argv)
{
    const char *command = argc > 1 ? argv[1] : "";

    for (unsigned i = 0; plan_test_names[i]; i++)
        if (strcmp(command, plan_test_names[i]) == 0)
            return run_client((enum plan_test)i, argc - 1, argv + 1);
    if (strcmp(command, "serve") == 0)
        return run_serve(argc - 1, argv + 1);
    if (strcmp(command, "floor") == 0)
        return floor_main(argc - 1, argv + 1);
    if (strcmp(command, "cost") == 0)
        return cost_main(argc - 1, argv + 1);
    if (strcmp(command, "help") == 0 || strcmp(command, "--help") == 0 ||
        strcmp(command, "-h") == 0) {
        options_help();
        return 0;
    }
    if (strcmp(command, "--version") == 0 || strcmp(command, "-V") == 0) {
        puts("vipperf " VIP_VERSION);
        return 0;
    }
    if (argc > 1)
        fprintf(stderr, "vipperf: there is no command \"%s\"; see vipperf help\n", command);
    else
        fprintf(stderr, "vipperf: which command? See vipperf help\n");
    return 2;
}

/* The command line of lat, bw, rate and serve. */
#ifndef TOOLS_VIPPERF_OPTIONS_H
#define TOOLS_VIPPERF_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

#include "tools/vipperf/plan.h"

/* The options of lat, bw or rate. */
struct client_options {
    const char *host;
    const char *nic;
    const char *json;    /* file, "-" = standard output, NULL = none */
    uint64_t size_first; /* first message size; each next size is twice as large */
    uint64_t size_last;  /* limit of all sizes; equal to size_first if there is one size */
    uint64_t window;     /* messages under way; 0 = chosen from the message size */
    struct plan plan;    /* all its members are set, except size_bytes, window and own */
};

/* The options of serve. */
struct serve_options {
    const char *nic;
    bool once; /* the server ends after its first client */
};

/* Parse the command line. False: an error was printed; the exit status must be 2. */
bool options_client(enum plan_test test, int argc, char **argv, struct client_options *ret);
bool options_serve(int argc, char **argv, struct serve_options *ret);

/* Returns the plan for one message size, with the window for this size. */
struct plan options_plan(const struct client_options *options, uint64_t size_bytes);

/* Print the help of vipperf. */
void options_help(void);

#endif

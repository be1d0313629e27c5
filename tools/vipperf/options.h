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
    uint64_t size_first; /* first size; doubled ... */
    uint64_t size_last;  /* ... up to this one; equal = one size */
    uint64_t window;     /* 0 = chosen from the size */
    struct plan plan;    /* all members except size_bytes, window and own */
};

/* The options of serve. */
struct serve_options {
    const char *nic;
    bool once; /* end after the first client */
};

/* Parse the command line. False: a message was printed, the exit status is 2. */
bool options_client(enum plan_test test, int argc, char **argv, struct client_options *ret);
bool options_serve(int argc, char **argv, struct serve_options *ret);

/* The plan for one size, with its window. */
struct plan options_plan(const struct client_options *options, uint64_t size_bytes);

/* Print the help of vipperf. */
void options_help(void);

#endif

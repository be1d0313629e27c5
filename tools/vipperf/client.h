/*
 * `vipperf lat|bw|rate HOST`: connects to the server, measures every size, prints the results
 * and, with --json, also writes them as JSON.
 */
#ifndef TOOLS_VIPPERF_CLIENT_H
#define TOOLS_VIPPERF_CLIENT_H

#include "tools/vipperf/options.h"

/* Returns the exit status; after a failure the last line on stderr has the reason. */
int client_main(const struct client_options *options);

#endif

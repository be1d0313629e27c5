/* `vipperf lat|bw|rate HOST`: connects, measures every size, prints and writes what was found. */
#ifndef TOOLS_VIPPERF_CLIENT_H
#define TOOLS_VIPPERF_CLIENT_H

#include "tools/vipperf/options.h"

/* Returns the exit status; after a failure the last line on stderr says what failed. */
int client_main(const struct client_options *options);

#endif

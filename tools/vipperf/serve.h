/* `vipperf serve`: the server of every measurement. */
#ifndef TOOLS_VIPPERF_SERVE_H
#define TOOLS_VIPPERF_SERVE_H

#include "tools/vipperf/options.h"

/* Runs until it is killed or, with --once, its first client has ended. Returns the exit status. */
int serve_main(const struct serve_options *options);

#endif

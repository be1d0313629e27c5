/* All statistics and peers as OpenMetrics text, for `vipctl metrics` and vipd-exporter. */
#ifndef VIPCTL_METRICS_H
#define VIPCTL_METRICS_H

#include <stdio.h>

#include "tools/vipctl/query.h"

/*
 * Ask the vipd on sock and write all metrics, without the closing "# EOF". Outcomes: EXIT_OK;
 * otherwise a message has been printed to stderr, and nothing is written.
 */
enum exit_code metrics_write(int sock, FILE *out);

#endif

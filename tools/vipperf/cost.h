/* vipperf cost: measures VIPL calls that are not part of a data transfer. */
#ifndef TOOLS_VIPPERF_COST_H
#define TOOLS_VIPPERF_COST_H

/* argv[0] is "cost". Returns the exit status: 0; 1 failed; 2 wrong usage; with a message. */
int cost_main(int argc, char **argv);

#endif

/* vipperf cost: what the calls beside the data path cost. */
#ifndef TOOLS_VIPPERF_COST_H
#define TOOLS_VIPPERF_COST_H

/* argv[0] is "cost". Outcomes: the exit status: 0; 1 failed (said); 2 wrong usage (said). */
int cost_main(int argc, char **argv);

#endif

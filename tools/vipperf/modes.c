/* Calls the function of the measurement that a plan names, for the client and for the server. */
#include "tools/vipperf/run.h"

int run_client(struct run *run)
{
    if (run->plan->op == PLAN_READ)
        return run_read_client(run);
    if (run->plan->both_ways)
        return run_both_client(run);
    return run->plan->test == PLAN_LAT ? run_pingpong_client(run) : run_stream_client(run);
}

int run_server(struct run *run)
{
    if (run->plan->op == PLAN_READ)
        return run_read_server(run);
    if (run->plan->both_ways)
        return run_both_server(run);
    return run->plan->test == PLAN_LAT ? run_pingpong_server(run) : run_stream_server(run);
}

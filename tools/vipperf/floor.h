/*
 * `vipperf floor udp|tcp|relay lat|bw|rate`: what plain kernel sockets, and a relay without any
 * protocol, achieve on this machine: the measure for everything else.
 *
 * Owns: its own processes, which it forks and reaps. Does not use VIPL.
 */
#ifndef TOOLS_VIPPERF_FLOOR_H
#define TOOLS_VIPPERF_FLOOR_H

/* argv[0] is "floor". Returns the exit status: 0 measured, 1 failed (said why), 2 wrong usage. */
int floor_main(int argc, char **argv);

#endif

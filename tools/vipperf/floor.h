/*
 * `vipperf floor udp|gso|tcp|relay|memory lat|bw|rate`: the performance of plain kernel sockets, of
 * a relay without a protocol, and of shared memory on this machine, for comparison.
 *
 * Owns: its own processes, which it forks and reaps. Does not use VIPL.
 */
#ifndef TOOLS_VIPPERF_FLOOR_H
#define TOOLS_VIPPERF_FLOOR_H

/* argv[0] is "floor". Returns the exit status: 0; 1 failed; 2 wrong usage; with a message. */
int floor_main(int argc, char **argv);

#endif

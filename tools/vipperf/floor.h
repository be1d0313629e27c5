/*
 * `vipperf floor udp|gso|tcp|relay|memory lat|bw|rate`: measures what this machine can do without
 * VIPL, for comparison: plain kernel sockets, a relay without a protocol, shared memory. Such a
 * measurement is a "floor".
 *
 * Owns: its own processes, which it forks and reaps. Does not use VIPL.
 */
#ifndef TOOLS_VIPPERF_FLOOR_H
#define TOOLS_VIPPERF_FLOOR_H

/* argv[0] is "floor". Returns the exit status: 0; 1 failed; 2 wrong usage; with a message. */
int floor_main(int argc, char **argv);

#endif

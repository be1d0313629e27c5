/*
 * The processors that vipd runs on: the key `cpus` of [engine].
 *
 * Owns: the format of a list of processors. Does not own: which thread does what (vipd/host.c).
 */
#ifndef VIPD_CPUS_H
#define VIPD_CPUS_H

#include <stdbool.h>
#include <stddef.h>

#define CPUS_TEXT_BYTES 128 /* size of a list of processors as text, with its terminating zero */

/* Is this a list of processors, such as 2,3,8-11, with numbers below CPU_SETSIZE? */
bool cpus_valid(const char *text);

/*
 * Run the calling thread, and threads that it makes, on these processors only; "" changes nothing.
 * text must be valid. Outcomes: 0; -errno, and err tells which processors vipd may use.
 */
int cpus_take(const char *text, char *err, size_t err_bytes);

#endif

/* Lines of a daemon's log. */
#ifndef PROTO_LINE_H
#define PROTO_LINE_H

#include <stddef.h>

/*
 * Write a line of `bytes` bytes, with its line feed, to stderr. One system call writes it, so that
 * lines of several processes do not mix. If stderr has no room now, drop the line, because the
 * calling thread must not wait. errno keeps its value. Any thread.
 */
void vip_line_write(const char *line, size_t bytes);

#endif

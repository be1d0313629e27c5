/* Lines of text for the person who reads a daemon's log. */
#ifndef PROTO_LINE_H
#define PROTO_LINE_H

#include <stddef.h>

/*
 * Write a line of `bytes` bytes, its line feed included, to stderr, in one call, so that lines of
 * several processes do not mix. If stderr takes no data now, drop the line: a thread that moves
 * messages does not wait for a reader. errno keeps its value. Any thread.
 */
void vip_line_write(const char *line, size_t bytes);

#endif

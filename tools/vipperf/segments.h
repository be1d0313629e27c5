/*
 * A message in several segments: the position of each segment in a buffer. There are gaps between
 * the segments. So two segments never share a cache line, and an error that treats the buffer as
 * one piece is detected.
 *
 * Pure; called by both ends of a measurement and by the unit test.
 */
#ifndef TOOLS_VIPPERF_SEGMENTS_H
#define TOOLS_VIPPERF_SEGMENTS_H

#include <stddef.h>
#include <stdint.h>

/* Bytes between two segments: a cache line. */
#define SEGMENTS_GAP_BYTES 64u

/* One piece of a message. */
struct segment {
    size_t offset; /* in the buffer */
    size_t len_bytes;
};

/* Iterator over the pieces of a message; set by segments_cut. */
struct segments {
    size_t least_bytes; /* size of a piece ... */
    size_t longer;      /* ... but the first `longer` pieces have one byte more */
    size_t offset;      /* of the next piece */
};

/*
 * The number of pieces for `len_bytes` bytes: `wanted` (0 counts as 1), but at most one per byte,
 * because no piece is empty.
 */
unsigned segments_count(size_t len_bytes, unsigned wanted);

/* Cut `len_bytes` bytes into `count` >= 1 nearly equal pieces, for segments_next. */
struct segments segments_cut(size_t len_bytes, unsigned count);
struct segment segments_next(struct segments *segments);

/* Bytes of a buffer for `len_bytes` bytes in `wanted` pieces, from the first piece to the last. */
size_t segments_room(size_t len_bytes, unsigned wanted);

/*
 * Copy `len_bytes` bytes between a plain message and a buffer that is cut into pieces for
 * `cut_bytes` >= len_bytes bytes. A shorter message leaves the last pieces empty.
 */
void segments_scatter(uint8_t *buffer, size_t cut_bytes, unsigned wanted, const uint8_t *message,
                      size_t len_bytes);
void segments_gather(uint8_t *message, const uint8_t *buffer, size_t cut_bytes, unsigned wanted,
                     size_t len_bytes);

#endif

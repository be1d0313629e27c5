/*
 * A message in several places: the position of each of its segments in a buffer. Gaps separate the
 * segments, so that code that treats the buffer as one piece moves wrong bytes, and no two segments
 * share a cache line.
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
 * The number of pieces for `len_bytes` bytes if `wanted` pieces (0 counts as 1) are requested. No
 * piece is empty, so the number is 0 for no bytes.
 */
unsigned segments_count(size_t len_bytes, unsigned wanted);

/* Cut `len_bytes` bytes into `count` >= 1 nearly equal pieces, for segments_next. */
struct segments segments_cut(size_t len_bytes, unsigned count);
struct segment segments_next(struct segments *segments);

/*
 * Bytes of a buffer for `len_bytes` bytes in `wanted` pieces; the buffer ends with the last piece.
 */
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

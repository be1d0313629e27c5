/*
 * A message that lies in several places: where in a buffer each of its segments is. They are apart by a
 * gap: whoever takes the buffer for one piece moves the wrong bytes, and no two share a cache line.
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

/* The way through the pieces of a message; set by segments_cut. */
struct segments {
    size_t least_bytes; /* each has so many ... */
    size_t longer;      /* ... and so many of the first ones a byte more */
    size_t offset;      /* of the next one */
};

/*
 * How many pieces `len_bytes` bytes are cut into when `wanted` (0 counts as 1) are asked for: no piece is
 * empty, so 0 for no bytes.
 */
unsigned segments_count(size_t len_bytes, unsigned wanted);

/* Cut `len_bytes` bytes into `count` >= 1 pieces, as equal as can be; segments_next gives them in turn. */
struct segments segments_cut(size_t len_bytes, unsigned count);
struct segment segments_next(struct segments *segments);

/* Bytes that a buffer needs for `len_bytes` bytes in `wanted` pieces; the last one ends there. */
size_t segments_room(size_t len_bytes, unsigned wanted);

/*
 * Copy `len_bytes` bytes between a plain message and a buffer that is cut into pieces for `cut_bytes` >=
 * len_bytes bytes (a shorter message leaves the last ones empty).
 */
void segments_scatter(uint8_t *buffer, size_t cut_bytes, unsigned wanted, const uint8_t *message,
                      size_t len_bytes);
void segments_gather(uint8_t *message, const uint8_t *buffer, size_t cut_bytes, unsigned wanted,
                     size_t len_bytes);

#endif

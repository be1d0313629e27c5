/*
 * A message in several segments: this code computes each segment's position in a buffer. There are
 * gaps between the segments. So two segments never share a cache line, and a check detects code
 * that treats the buffer as one piece.
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

/* Iterator over the pieces of a message; segments_cut sets it. */
struct segments {
    size_t least_bytes; /* size of the shorter pieces */
    size_t longer;      /* the next `longer` pieces have one byte more */
    size_t offset;      /* offset of the next piece in the buffer */
};

/*
 * Returns the number of pieces for `len_bytes` bytes: `wanted` (0 counts as 1), but at most one
 * piece per byte, because no piece is empty.
 */
unsigned segments_count(size_t len_bytes, unsigned wanted);

/* Cut `len_bytes` bytes into `count` >= 1 nearly equal pieces, which segments_next then returns. */
struct segments segments_cut(size_t len_bytes, unsigned count);
struct segment segments_next(struct segments *segments);

/* Size of a buffer for `len_bytes` bytes in `wanted` pieces, with the gaps between the pieces. */
size_t segments_room(size_t len_bytes, unsigned wanted);

/*
 * Copy `len_bytes` bytes of a message to a buffer in pieces (scatter) or back (gather). The pieces
 * are those for `cut_bytes` >= `len_bytes` bytes. A shorter message leaves the last pieces empty.
 */
void segments_scatter(uint8_t *buffer, size_t cut_bytes, unsigned wanted, const uint8_t *message,
                      size_t len_bytes);
void segments_gather(uint8_t *message, const uint8_t *buffer, size_t cut_bytes, unsigned wanted,
                     size_t len_bytes);

#endif

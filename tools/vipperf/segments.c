/* Messages in several segments; see segments.h. */
#include "tools/vipperf/segments.h"

#include <string.h>

unsigned segments_count(size_t len_bytes, unsigned wanted)
{
    if (wanted == 0)
        wanted = 1;
    return len_bytes < wanted ? (unsigned)len_bytes : wanted;
}

struct segments segments_cut(size_t len_bytes, unsigned count)
{
    return (struct segments){.least_bytes = len_bytes / count, .longer = len_bytes % count};
}

struct segment segments_next(struct segments *segments)
{
    struct segment piece = {.offset = segments->offset,
                            .len_bytes = segments->least_bytes + (segments->longer > 0)};

    segments->longer -= segments->longer > 0;
    segments->offset += piece.len_bytes + SEGMENTS_GAP_BYTES;
    return piece;
}

size_t segments_room(size_t len_bytes, unsigned wanted)
{
    unsigned count = segments_count(len_bytes, wanted);

    return count > 0 ? len_bytes + (count - 1) * (size_t)SEGMENTS_GAP_BYTES : 0;
}

/* Returns the next piece, cut to the `left` bytes that the message still has. */
static struct segment next_within(struct segments *segments, size_t left)
{
    struct segment piece = segments_next(segments);

    if (piece.len_bytes > left)
        piece.len_bytes = left;
    return piece;
}

void segments_scatter(uint8_t *buffer, size_t cut_bytes, unsigned wanted, const uint8_t *message,
                      size_t len_bytes)
{
    struct segments cut;

    if (len_bytes == 0)
        return;
    cut = segments_cut(cut_bytes, segments_count(cut_bytes, wanted));
    for (size_t done = 0; done < len_bytes;) {
        struct segment piece = next_within(&cut, len_bytes - done);

        memcpy(buffer + piece.offset, message + done, piece.len_bytes);
        done += piece.len_bytes;
    }
}

void segments_gather(uint8_t *message, const uint8_t *buffer, size_t cut_bytes, unsigned wanted,
                     size_t len_bytes)
{
    struct segments cut;

    if (len_bytes == 0)
        return;
    cut = segments_cut(cut_bytes, segments_count(cut_bytes, wanted));
    for (size_t done = 0; done < len_bytes;) {
        struct segment piece = next_within(&cut, len_bytes - done);

        memcpy(message + done, buffer + piece.offset, piece.len_bytes);
        done += piece.len_bytes;
    }
}

/* Messages in several pieces with gaps between them (tools/vipperf/segments.h). */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <string.h>
#include <cmocka.h>

#include "tools/vipperf/segments.h"

#define LEN_MAX      70
#define SEGMENTS_MAX 8
#define EMPTY        0xEE

/* The pieces have nearly the same number of bytes (not 0). A gap lies between two pieces. */
static void pieces_make_up_the_message(void **state)
{
    for (size_t len = 1; len <= LEN_MAX; len++) {
        for (unsigned wanted = 0; wanted <= SEGMENTS_MAX; wanted++) {
            unsigned count = segments_count(len, wanted);
            struct segments cut = segments_cut(len, count);
            size_t sum = 0, end = 0;

            assert_int_equal(count, wanted == 0 ? 1 : wanted > len ? len : wanted);
            for (unsigned i = 0; i < count; i++) {
                struct segment piece = segments_next(&cut);

                assert_in_range(piece.len_bytes, len / count, (len + count - 1) / count);
                assert_int_equal(piece.offset, i == 0 ? 0 : end + SEGMENTS_GAP_BYTES);
                end = piece.offset + piece.len_bytes;
                sum += piece.len_bytes;
            }
            assert_int_equal(sum, len);
            assert_int_equal(end, segments_room(len, wanted));
        }
    }
    assert_int_equal(segments_count(0, 5), 0);
    assert_int_equal(segments_room(0, 5), 0);
}

/* Gather must return the scattered message, also a short one. Scatter must not fill the gaps. */
static void scattered_is_gathered(void **state)
{
    static uint8_t buffer[LEN_MAX + SEGMENTS_MAX * SEGMENTS_GAP_BYTES];
    uint8_t message[LEN_MAX], back[LEN_MAX];

    for (size_t i = 0; i < LEN_MAX; i++)
        message[i] = (uint8_t)i;
    for (size_t len = 0; len <= LEN_MAX; len++) {
        for (unsigned wanted = 1; wanted <= SEGMENTS_MAX; wanted++) {
            size_t touched = 0;

            memset(buffer, EMPTY, sizeof(buffer));
            memset(back, EMPTY, sizeof(back));
            segments_scatter(buffer, LEN_MAX, wanted, message, len);
            segments_gather(back, buffer, LEN_MAX, wanted, len);
            assert_memory_equal(back, message, len);
            for (size_t i = len; i < LEN_MAX; i++)
                assert_int_equal(back[i], EMPTY);
            for (size_t i = 0; i < sizeof(buffer); i++)
                touched += buffer[i] != EMPTY;
            assert_int_equal(touched, len);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pieces_make_up_the_message),
        cmocka_unit_test(scattered_is_gathered),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

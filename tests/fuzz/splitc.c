/*
 * Fuzz: the translator of Split-C. It either translates the input or refuses it with a message. A
 * second translation must give the same text, so no state of the first may remain.
 */
#include "fuzz/fuzz.h"
#include "splitc/sc1/unit.h"

/* Translate without showing messages. Returns malloc'ed text; NULL: the input was refused. */
static char *translate(const char *input, size_t len, size_t *ret_len)
{
    FILE *messages = fopen("/dev/null", "w"), *out;
    char *text = NULL;
    int result;

    FUZZ_CHECK(messages);
    out = open_memstream(&text, ret_len);
    FUZZ_CHECK(out);
    result = sc1_translate(input, len, out, messages, 0);
    fclose(out);
    fclose(messages);
    FUZZ_CHECK(result == 0 || result == 1);
    if (result) {
        FUZZ_CHECK(*ret_len == 0);
        free(text);
        return NULL;
    }
    return text;
}

void fuzz_one(const uint8_t *bytes, size_t len)
{
    size_t first_len = 0, again_len = 0;
    char *first = translate((const char *)bytes, len, &first_len), *again;

    if (!first)
        return;
    again = translate((const char *)bytes, len, &again_len);
    FUZZ_CHECK(again && again_len == first_len && memcmp(first, again, first_len) == 0);
    free(first);
    free(again);
}

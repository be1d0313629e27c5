/*
 * Tests `vipctl explain` for each reason that vipd gives for a broken connection. vipctl must name
 * the faulty side. The test reads vipd's source, so the test fails if the reasons change.
 */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "tools/vipctl/explain.h"

static char last_text[2][512]; /* 0: LINE_BECAUSE, 1: LINE_DO */

void explain_add(struct explanation *to, enum line_kind kind, const char *format, ...)
{
    va_list args;

    (void)to;
    va_start(args, format);
    vsnprintf(last_text[kind == LINE_DO], sizeof(last_text[0]), format, args);
    va_end(args);
}

static void assert_in_source(const char *path, const char *reason)
{
    char full[512], *text = calloc(1, 1 << 20);
    FILE *file;

    assert_non_null(text);
    snprintf(full, sizeof(full), "%s/%s", VIP_SOURCE_DIR, path);
    file = fopen(full, "r");
    assert_non_null(file);
    assert_true(fread(text, 1, (1 << 20) - 1, file) > 0);
    fclose(file);
    if (!strstr(text, reason))
        fail_msg("%s does not say \"%s\" any more", path, reason);
    free(text);
}

static void the_side_of_the_faulty_receive_is_named(void **state)
{
    static const struct {
        const char *path, *reason, *side;
    } known[] = {
        {"vipd/engine/place.c", "a message arrived and no receive was posted", "this side"},
        {"vipd/engine/place.c", "a posted receive was faulty", "this side"},
        {"vipd/engine/place.c", "a message was longer than the receive posted for it", "this side"},
        {"vipd/engine/place.c", "a posted receive names memory that is not accessible",
         "this side"},
        {"vipd/engine/place.c",
         "a posted receive has a segment that reaches past its registered memory", "this side"},
        {"vipd/engine/place.c", "memory of a posted receive is not registered any more",
         "this side"},
        {"vipd/nic/connect.c", "the receive of the other end was missing, too short or faulty",
         "the other side"},
        {"vipd/nic/connect.c",
         "the other end does not allow an RDMA operation of this side to its memory", "this side"},
        {"vipd/nic/connect.c", "an error at the other end broke the connection", "the other side"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
        memset(last_text, 0, sizeof(last_text));
        assert_in_source(known[i].path, known[i].reason);
        explain_reason(NULL, known[i].reason);
        if (strncmp(last_text[0], known[i].side, strlen(known[i].side)) != 0)
            fail_msg("\"%s\": \"%s\" does not begin with \"%s\"", known[i].reason, last_text[0],
                     known[i].side);
        assert_true(last_text[1][0] != '\0');
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_side_of_the_faulty_receive_is_named),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

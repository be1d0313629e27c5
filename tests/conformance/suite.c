/*
 * Running and listing the tables of the conformance suite (suite.h).
 */
#include "suite.h"

static void list(const char *program, const struct conf_test *tests, size_t count)
{
    const char *base = strrchr(program, '/');

    for (size_t i = 0; i < count; i++)
        printf("%s\t%s\t%s\t%c\t%s\t%s\n", base != NULL ? base + 1 : program, tests[i].name,
               tests[i].section, tests[i].group, tests[i].doubt ? "unconfirmed" : "-",
               tests[i].sentence);
}

int conf_main(int argc, char **argv, const struct conf_test *tests, size_t count)
{
    const char *pattern = argc > 1 ? argv[1] : "";
    struct CMUnitTest *units;
    size_t chosen = 0;
    int failed;

    if (strcmp(pattern, "--list") == 0) {
        list(argv[0], tests, count);
        return 0;
    }
    units = calloc(count, sizeof(*units));
    if (units == NULL)
        return 1;
    for (size_t i = 0; i < count; i++)
        if (strstr(tests[i].name, pattern) != NULL)
            units[chosen++] = (struct CMUnitTest){.name = tests[i].name,
                                                  .test_func = tests[i].run,
                                                  .initial_state = (void *)tests[i].arg};
    failed = _cmocka_run_group_tests(argv[0], units, chosen, NULL, NULL);
    free(units);
    return failed != 0 || chosen == 0;
}

/*
 * Runs and lists the tables of the conformance suite (suite.h).
 */
#include "suite.h"

static const char *program;

static void run(void **state)
{
    const struct conf_test *test = *state;
    void *arg = (void *)test->arg;

    conf_record_begin();
    test->run(&arg);
    conf_record_end(program, test->name);
}

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');

    return slash != NULL ? slash + 1 : path;
}

static void list(const struct conf_test *tests, size_t count)
{
    for (size_t i = 0; i < count; i++)
        printf("%s\t%s\t%s\t%c\t%s\t%s\n", program, tests[i].name, tests[i].section, tests[i].group,
               tests[i].doubt ? "unconfirmed" : "-", tests[i].sentence);
}

int conf_main(int argc, char **argv, const struct conf_test *tests, size_t count)
{
    const char *pattern = argc > 1 ? argv[1] : "";
    struct CMUnitTest *units;
    size_t chosen = 0;
    int failed;

    program = base_name(argv[0]);
    if (strcmp(pattern, "--list") == 0) {
        list(tests, count);
        return 0;
    }
    if (pattern[0] == '\0' && getenv("VIP_CONF_CODES") != NULL)
        remove(getenv("VIP_CONF_CODES"));
    units = calloc(count, sizeof(*units));
    if (units == NULL)
        return 1;
    for (size_t i = 0; i < count; i++)
        if (strstr(tests[i].name, pattern) != NULL)
            units[chosen++] = (struct CMUnitTest){
                .name = tests[i].name, .test_func = run, .initial_state = (void *)&tests[i]};
    failed = _cmocka_run_group_tests(argv[0], units, chosen, NULL, NULL);
    free(units);
    return failed != 0 || chosen == 0;
}

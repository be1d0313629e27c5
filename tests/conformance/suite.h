/*
 * The tables of the conformance suite. A program has one table. Each row is one named test of one sentence of the
 * specification, and has the sentence's group in the historical suite (section 3.14).
 * `PROGRAM --list` prints the table for report.sh, `PROGRAM PATTERN` runs the tests whose
 * name contains PATTERN, `PROGRAM` runs all tests.
 */
#ifndef TESTS_CONF_SUITE_H
#define TESTS_CONF_SUITE_H

#include "conf.h"

struct conf_test {
    const char *name;       /* unique in the program */
    CMUnitTestFunction run; /* cmocka test; *state is `arg` */
    uintptr_t arg;          /* reliability level, or number of the test's variant */
    const char *section;    /* of the specification, such as "3.6" */
    char group;             /* CONF_EARLY, CONF_FUNCTIONAL, CONF_FULL */
    bool doubt;             /* the specification marks the rule as unconfirmed */
    const char *sentence;   /* the rule, in our words */
};

/* Levels of conformance, section 3.14. */
#define CONF_EARLY      'E'
#define CONF_FUNCTIONAL 'F'
#define CONF_FULL       'L'

/* A row: a test (T); a test with an argument and a suffix of its name (N); DT, DN: of an unconfirmed rule. */
#define CONF_T(section, group, fn, sentence)                                                       \
    {                                                                                              \
#fn, fn, 0, section, group, false, sentence                                                \
    }
#define CONF_N(section, group, fn, suffix, arg, sentence)                                          \
    {                                                                                              \
#fn "_" suffix, fn, arg, section, group, false, sentence                                   \
    }
#define CONF_DT(section, group, fn, sentence)                                                      \
    {                                                                                              \
#fn, fn, 0, section, group, true, sentence                                                 \
    }
#define CONF_DN(section, group, fn, suffix, arg, sentence)                                         \
    {                                                                                              \
#fn "_" suffix, fn, arg, section, group, true, sentence                                    \
    }

/* The same test at each level: three rows, *state is the level. */
#define CONF_EACH(section, group, fn, sentence)                                                    \
    CONF_N(section, group, fn, "ud", VIP_SERVICE_UNRELIABLE, sentence),                            \
        CONF_N(section, group, fn, "rd", VIP_SERVICE_RELIABLE_DELIVERY, sentence),                 \
        CONF_N(section, group, fn, "rr", VIP_SERVICE_RELIABLE_RECEPTION, sentence)
#define CONF_DEACH(section, group, fn, sentence)                                                   \
    CONF_DN(section, group, fn, "ud", VIP_SERVICE_UNRELIABLE, sentence),                           \
        CONF_DN(section, group, fn, "rd", VIP_SERVICE_RELIABLE_DELIVERY, sentence),                \
        CONF_DN(section, group, fn, "rr", VIP_SERVICE_RELIABLE_RECEPTION, sentence)
/* The same test at the two reliable levels. */
#define CONF_DRELIABLE(section, group, fn, sentence)                                               \
    CONF_DN(section, group, fn, "rd", VIP_SERVICE_RELIABLE_DELIVERY, sentence),                    \
        CONF_DN(section, group, fn, "rr", VIP_SERVICE_RELIABLE_RECEPTION, sentence)

/* The main function of a program. */
int conf_main(int argc, char **argv, const struct conf_test *tests, size_t count);
#define CONF_MAIN(tests)                                                                           \
    int main(int argc, char **argv)                                                                \
    {                                                                                              \
        return conf_main(argc, argv, tests, sizeof(tests) / sizeof((tests)[0]));                   \
    }

/* The argument in the row of the running test. */
static inline uintptr_t conf_arg(void **state)
{
    return (uintptr_t)*state;
}
static inline VIP_RELIABILITY_LEVEL conf_level(void **state)
{
    return (VIP_RELIABILITY_LEVEL)(uintptr_t)*state;
}

/* End the running test as skipped; print the reason, which also stands in the report. */
#define CONF_NOT_HERE(reason)                                                                      \
    do {                                                                                           \
        print_message("[  REASON  ] %s\n", reason);                                                \
        skip();                                                                                    \
    } while (0)

#endif

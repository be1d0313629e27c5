/*
 * The tables of the conformance suite. A program has one table. A row is one test of one rule of
 * the specification, with the rule's level of conformance (section 3.14). `PROGRAM --list` prints
 * the table for report.sh; `PROGRAM PATTERN` runs tests with such names; `PROGRAM` runs all tests.
 */
#ifndef TESTS_CONF_SUITE_H
#define TESTS_CONF_SUITE_H

#include "conf.h"

struct conf_test {
    const char *name;       /* unique in the program */
    CMUnitTestFunction run; /* cmocka test; *state is `arg` */
    uintptr_t arg;          /* reliability level, or number of a variant of the test */
    const char *section;    /* section of the specification, such as "3.6" */
    char group;             /* CONF_EARLY, CONF_FUNCTIONAL, CONF_FULL */
    bool doubt;             /* public sources of the specification do not confirm the rule */
    const char *sentence;   /* the rule, in our words */
};

/* Levels of conformance, section 3.14. */
#define CONF_EARLY      'E'
#define CONF_FUNCTIONAL 'F'
#define CONF_FULL       'L'

/* Each macro makes a row. CONF_T: a test without an argument. CONF_N: a test with an argument and a
 * suffix of its name. CONF_DT, CONF_DN: a test of an unconfirmed rule (conf_test.doubt). */
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

/* Three rows: the same test at each level; *state is the level. */
#define CONF_EACH(section, group, fn, sentence)                                                    \
    CONF_N(section, group, fn, "ud", VIP_SERVICE_UNRELIABLE, sentence),                            \
        CONF_N(section, group, fn, "rd", VIP_SERVICE_RELIABLE_DELIVERY, sentence),                 \
        CONF_N(section, group, fn, "rr", VIP_SERVICE_RELIABLE_RECEPTION, sentence)
#define CONF_DEACH(section, group, fn, sentence)                                                   \
    CONF_DN(section, group, fn, "ud", VIP_SERVICE_UNRELIABLE, sentence),                           \
        CONF_DN(section, group, fn, "rd", VIP_SERVICE_RELIABLE_DELIVERY, sentence),                \
        CONF_DN(section, group, fn, "rr", VIP_SERVICE_RELIABLE_RECEPTION, sentence)
/* Two rows: the test of an unconfirmed rule at each reliable level. */
#define CONF_DRELIABLE(section, group, fn, sentence)                                               \
    CONF_DN(section, group, fn, "rd", VIP_SERVICE_RELIABLE_DELIVERY, sentence),                    \
        CONF_DN(section, group, fn, "rr", VIP_SERVICE_RELIABLE_RECEPTION, sentence)

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

/* End the running test as skipped. Print the reason; the report has the reason, too. */
#define CONF_NOT_HERE(reason)                                                                      \
    do {                                                                                           \
        print_message("[  REASON  ] %s\n", reason);                                                \
        skip();                                                                                    \
    } while (0)

#endif

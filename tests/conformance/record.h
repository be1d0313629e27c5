/*
 * Records which VIPL call returned which code in which test. report.sh and covered.sh compare these records with
 * the specification's tables. The programs are linked with --wrap, so every call of the 41 functions passes
 * record.c. A code counts only if the test has also expected it.
 */
#ifndef TESTS_CONF_RECORD_H
#define TESTS_CONF_RECORD_H

#include <vipl.h>

/* The last VIPL call of this thread returned this code, and the test expected it. */
void conf_expected(VIP_RETURN code);
/* Do not count any earlier call of this thread. */
void conf_expect_nothing(void);
/* The error callback was called with that code and resource, as the test expected. */
void conf_expected_error(VIP_ERROR_CODE code, VIP_RESOURCE_CODE resource);

/* A descriptor of a send queue (recv 0) or receive queue (1) completed with these error bits, as expected. */
void conf_expected_status(int recv, VIP_UINT32 status);

/* Call before each test; call `end` after a passed test. `end` writes to the file that VIP_CONF_CODES names, if any. */
void conf_record_begin(void);
void conf_record_end(const char *program, const char *test);

#endif

/*
 * Which call gave which code in which test: for the tables that report.sh and covered.sh compare with
 * what the specification lists. The programs are linked with --wrap, so that every call of the 41
 * functions passes record.c; a code counts if the test has also said which one it expects.
 */
#ifndef TESTS_CONF_RECORD_H
#define TESTS_CONF_RECORD_H

#include <vipl.h>

/* The last VIPL call of this thread gave that code, as the test expected. */
void conf_expected(VIP_RETURN code);
/* Nothing that this thread has called counts, until it calls again. */
void conf_expect_nothing(void);
/* The error callback was called with that code and resource, as the test expected. */
void conf_expected_error(VIP_ERROR_CODE code, VIP_RESOURCE_CODE resource);

/* A descriptor of a send queue (0) or receive queue completed with these error bits, idem. */
void conf_expected_status(int recv, VIP_UINT32 status);

/* Around each test; end only if it passed. Writes to the file that VIP_CONF_CODES names, if any. */
void conf_record_begin(void);
void conf_record_end(const char *program, const char *test);

#endif

/*
 * Records which VIPL call returned which code in which test. report.sh and covered.sh compare these
 * records with the specification's tables. The programs are linked with --wrap, so every call of
 * the 41 functions passes record.c. A code counts as tested only if the test has expected the code.
 */
#ifndef TESTS_CONF_RECORD_H
#define TESTS_CONF_RECORD_H

#include <vipl.h>

/* Record that the test expected this code, if this thread's last VIPL call returned it. */
void conf_expected(VIP_RETURN code);
/* Forget the last VIPL call of this thread, so that its code does not count as expected. */
void conf_expect_nothing(void);
/* Record that the error callback got this code and resource, as the test expected. */
void conf_expected_error(VIP_ERROR_CODE code, VIP_RESOURCE_CODE resource);

/* Record the expected error bits of a descriptor of a send queue (recv 0) or receive queue (1). */
void conf_expected_status(int recv, VIP_UINT32 status);

/* Call conf_record_begin before each test, and conf_record_end after a passed test. conf_record_end
 * writes the records to the file that the variable VIP_CONF_CODES names, if it is set. */
void conf_record_begin(void);
void conf_record_end(const char *program, const char *test);

#endif

/* End the program if an assertion fails (assert.h). */
#include "proto/assert.h"

#include <stdio.h>
#include <stdlib.h>

void vip_assert_failed(const char *condition, const char *file, int line)
{
    fprintf(stderr, "vip: broken invariant: %s (%s:%d)\n", condition, file, line);
    abort();
}

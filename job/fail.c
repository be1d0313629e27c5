/* The text that job_error returns. */
#include <stdarg.h>
#include <stdio.h>

#include "job/internal.h"
#include "job/job.h"

static __thread char error_text[400];

int job_fail(int code, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    vsnprintf(error_text, sizeof(error_text), format, args);
    va_end(args);
    return code;
}

const char *job_error(void)
{
    return error_text;
}

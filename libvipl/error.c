/* The reason of the last failure, per thread (error.h, vipl_ext.h). */
#include "libvipl/error.h"

#include <stdarg.h>
#include <stdio.h>

#include "libvipl/vipl_ext.h"
#include "proto/status.h"

static _Thread_local char formatted[VIPL__REASON_BYTES];
static _Thread_local const char *last = "";

VIP_RETURN vipl__fail(VIP_RETURN code, const char *format, ...)
{
    char text[VIPL__REASON_BYTES];
    va_list args;

    /* Format into a second buffer first: an argument may point to the last reason. */
    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    snprintf(formatted, sizeof(formatted), "%s", text);
    last = formatted;
    return code;
}

VIP_RETURN vipl__outcome(VIP_RETURN code, const char *text)
{
    last = text;
    return code;
}

const char *vipl__rc_name(VIP_RETURN code)
{
    return vip_rc_name((enum vip_rc)code);
}

const char *VipxLastError(void)
{
    return last;
}

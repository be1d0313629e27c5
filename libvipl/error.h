/*
 * Return codes with a reason. A VIPL function that fails gets its code from here, together with the
 * text that VipxLastError returns. The text belongs to the calling thread.
 */
#ifndef LIBVIPL_ERROR_H
#define LIBVIPL_ERROR_H

#include "libvipl/vipl.h"

/* Largest size of a formatted reason, in bytes, with the terminating zero. */
#define VIPL__REASON_BYTES 512

/* Keep the formatted reason for VipxLastError and return `code`. Any thread. */
VIP_RETURN vipl__fail(VIP_RETURN code, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Keep `text`, which is static and is not copied (for the fast path). Returns code. */
VIP_RETURN vipl__outcome(VIP_RETURN code, const char *text);

/* Name of a return code, "VIP_TIMEOUT"; static, never NULL. */
const char *vipl__rc_name(VIP_RETURN code);

#endif

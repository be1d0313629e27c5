/*
 * Return codes with a reason: every VIP_RETURN that is not VIP_SUCCESS is made here, together with
 * the text that VipxLastError gives. Per thread.
 */
#ifndef LIBVIPL_ERROR_H
#define LIBVIPL_ERROR_H

#include "libvipl/vipl.h"

/* Bytes of one formatted reason, terminating zero included. */
#define VIPL__REASON_BYTES 512

/* Keep the formatted reason for VipxLastError and return code. Any thread. */
VIP_RETURN vipl__fail(VIP_RETURN code, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* The same for the fast path: `text` is static and is not copied. Returns code. */
VIP_RETURN vipl__outcome(VIP_RETURN code, const char *text);

/* Name of a return code, "VIP_TIMEOUT"; static, never NULL. */
const char *vipl__rc_name(VIP_RETURN code);

#endif

/*
 * Names from the first drafts of Active Messages II, for programs that still use them. The number
 * of bytes comes before the source in AM_ReplyMedium, and after the source in AM_ReplyI.
 */
#ifndef VIPAM_OLD_H
#define VIPAM_OLD_H

#include <am.h>

#define AM_EMPTYTONOT AM_NOTEMPTY

#define AM_Wait(bundle) AM_WaitSema(bundle)
/* Does nothing, as in the draft. */
#define AM_PostSvar(bundle) ((void)(bundle), AM_OK)

#define AM_RequestMedium4                AM_RequestI4
#define AM_RequestMedium8                AM_RequestI8
#define AM_RequestLong4                  AM_RequestXfer4
#define AM_RequestLong8                  AM_RequestXfer8
#define AM_RequestLongAsync4             AM_RequestXferAsync4
#define AM_RequestLongAsync8             AM_RequestXferAsync8
#define AM_ReplyMedium4(t, h, n, s, ...) AM_ReplyI4(t, h, s, n, __VA_ARGS__)
#define AM_ReplyMedium8(t, h, n, s, ...) AM_ReplyI8(t, h, s, n, __VA_ARGS__)
#define AM_ReplyLong4                    AM_ReplyXfer4
#define AM_ReplyLong8                    AM_ReplyXfer8
#define AM_GetXferAsynch4                AM_GetXferAsync4
#define AM_GetXferAsynch8                AM_GetXferAsync8

#endif

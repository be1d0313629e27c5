/* Programs written for AMUDP include this header: am_amx.h with AMUDP's own names. */
#ifndef VIPAM_AMUDP_H
#define VIPAM_AMUDP_H

#ifndef AMUDP
#define AMUDP 1
#endif

#include <am_amx.h>

#define AMUDP_RequestVA               AMVIA_RequestVA
#define AMUDP_RequestIVA              AMVIA_RequestIVA
#define AMUDP_RequestXferVA           AMVIA_RequestXferVA
#define AMUDP_ReplyVA                 AMVIA_ReplyVA
#define AMUDP_ReplyIVA                AMVIA_ReplyIVA
#define AMUDP_ReplyXferVA             AMVIA_ReplyXferVA
#define AMUDP_Request                 AMVIA_Request
#define AMUDP_RequestI                AMVIA_RequestI
#define AMUDP_RequestXfer             AMVIA_RequestXfer
#define AMUDP_Reply                   AMVIA_Reply
#define AMUDP_ReplyI                  AMVIA_ReplyI
#define AMUDP_ReplyXfer               AMVIA_ReplyXfer
#define AMUDP_VerboseErrors           AMX_VerboseErrors
#define AMUDP_SilentMode              AMX_SilentMode
#define AMUDP_FatalErr                AMX_FatalErr
#define AMUDP_enEqual                 AMX_enEqual
#define AMUDP_GetSourceId             AMX_GetSourceId
#define AMUDP_GetTokenInfo            AMX_GetTokenInfo
#define AMUDP_SetTranslationTag       AMX_SetTranslationTag
#define AMUDP_SetHandlerCallbacks     AMX_SetHandlerCallbacks
#define AMUDP_initial_stats           AMX_initial_stats
#define AMUDP_GetEndpointStatistics   AMX_GetEndpointStatistics
#define AMUDP_ResetEndpointStatistics AMX_ResetEndpointStatistics
#define AMUDP_AggregateStatistics     AMX_AggregateStatistics
#define AMUDP_DumpStatistics          AMX_DumpStatistics

#endif

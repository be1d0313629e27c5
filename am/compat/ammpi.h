/* Programs written for AMMPI include this header: am_amx.h with AMMPI's own names. */
#ifndef VIPAM_AMMPI_H
#define VIPAM_AMMPI_H

#ifndef AMMPI
#define AMMPI 1
#endif

#include <am_amx.h>

#define AMMPI_RequestVA               AMVIA_RequestVA
#define AMMPI_RequestIVA              AMVIA_RequestIVA
#define AMMPI_RequestXferVA           AMVIA_RequestXferVA
#define AMMPI_ReplyVA                 AMVIA_ReplyVA
#define AMMPI_ReplyIVA                AMVIA_ReplyIVA
#define AMMPI_ReplyXferVA             AMVIA_ReplyXferVA
#define AMMPI_Request                 AMVIA_Request
#define AMMPI_RequestI                AMVIA_RequestI
#define AMMPI_RequestXfer             AMVIA_RequestXfer
#define AMMPI_Reply                   AMVIA_Reply
#define AMMPI_ReplyI                  AMVIA_ReplyI
#define AMMPI_ReplyXfer               AMVIA_ReplyXfer
#define AMMPI_VerboseErrors           AMX_VerboseErrors
#define AMMPI_SilentMode              AMX_SilentMode
#define AMMPI_FatalErr                AMX_FatalErr
#define AMMPI_enEqual                 AMX_enEqual
#define AMMPI_GetSourceId             AMX_GetSourceId
#define AMMPI_GetTokenInfo            AMX_GetTokenInfo
#define AMMPI_SetTranslationTag       AMX_SetTranslationTag
#define AMMPI_SetHandlerCallbacks     AMX_SetHandlerCallbacks
#define AMMPI_initial_stats           AMX_initial_stats
#define AMMPI_GetEndpointStatistics   AMX_GetEndpointStatistics
#define AMMPI_ResetEndpointStatistics AMX_ResetEndpointStatistics
#define AMMPI_AggregateStatistics     AMX_AggregateStatistics
#define AMMPI_DumpStatistics          AMX_DumpStatistics

#endif

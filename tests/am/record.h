/*
 * Records the results of the calls of am.h. With AM_TEST_CODES=FILE in the environment, a passed
 * test appends to FILE its returned codes and the messages that came back to handler 0, as lines
 *
 *     CALL <tab> CODE <tab> TEST
 *
 * and "passed <tab> - <tab> TEST". tests/am/covered.sh compares the lines with codes.txt and
 * rows.txt. Each call is a macro here, which records the code of the function of the same name.
 */
#ifndef TESTS_AM_RECORD_H
#define TESTS_AM_RECORD_H

#include <am_amx.h>

/* A test begins: forget the earlier records. No other thread may make calls meanwhile. */
void am_test_begin(void);
/* The test has passed; `test` is "PROGRAM:NAME". */
void am_test_passed(const char *test);

/* Record that a call has returned this code. Returns code. Any thread. `call` must stay valid. */
int am_test_came(const char *call, int code);
/* Record a message that came back to handler 0; `reason` is from amvia_GetReturned. */
void am_test_returned(int status, op_t opcode, int reason);

#define AM_Init()              am_test_came("AM_Init", AM_Init())
#define AM_Terminate()         am_test_came("AM_Terminate", AM_Terminate())
#define AM_GetNumHandlers(...) am_test_came("AM_GetNumHandlers", AM_GetNumHandlers(__VA_ARGS__))
#define AM_SetNumHandlers(...) am_test_came("AM_SetNumHandlers", AM_SetNumHandlers(__VA_ARGS__))
#define AM_MaxNumTranslations(...)                                                                 \
    am_test_came("AM_MaxNumTranslations", AM_MaxNumTranslations(__VA_ARGS__))
#define AM_GetNumTranslations(...)                                                                 \
    am_test_came("AM_GetNumTranslations", AM_GetNumTranslations(__VA_ARGS__))
#define AM_SetNumTranslations(...)                                                                 \
    am_test_came("AM_SetNumTranslations", AM_SetNumTranslations(__VA_ARGS__))
#define AM_MaxSegLength(...)   am_test_came("AM_MaxSegLength", AM_MaxSegLength(__VA_ARGS__))
#define AM_AllocateBundle(...) am_test_came("AM_AllocateBundle", AM_AllocateBundle(__VA_ARGS__))
#define AM_AllocateEndpoint(...)                                                                   \
    am_test_came("AM_AllocateEndpoint", AM_AllocateEndpoint(__VA_ARGS__))
#define AM_AllocateKnownEndpoint(...)                                                              \
    am_test_came("AM_AllocateKnownEndpoint", AM_AllocateKnownEndpoint(__VA_ARGS__))
#define AM_FreeEndpoint(...) am_test_came("AM_FreeEndpoint", AM_FreeEndpoint(__VA_ARGS__))
#define AM_FreeBundle(...)   am_test_came("AM_FreeBundle", AM_FreeBundle(__VA_ARGS__))
#define AM_MoveEndpoint(...) am_test_came("AM_MoveEndpoint", AM_MoveEndpoint(__VA_ARGS__))
#define AM_SetExpectedResources(...)                                                               \
    am_test_came("AM_SetExpectedResources", AM_SetExpectedResources(__VA_ARGS__))
#define AM_SetTag(...) am_test_came("AM_SetTag", AM_SetTag(__VA_ARGS__))
#define AM_GetTag(...) am_test_came("AM_GetTag", AM_GetTag(__VA_ARGS__))
#define AM_SetSeg(...) am_test_came("AM_SetSeg", AM_SetSeg(__VA_ARGS__))
#define AM_GetSeg(...) am_test_came("AM_GetSeg", AM_GetSeg(__VA_ARGS__))
#define AM_Map(...)    am_test_came("AM_Map", AM_Map(__VA_ARGS__))
#define AM_MapAny(...) am_test_came("AM_MapAny", AM_MapAny(__VA_ARGS__))
#define AM_UnMap(...)  am_test_came("AM_UnMap", AM_UnMap(__VA_ARGS__))
#define AM_Unmap(...)  am_test_came("AM_Unmap", AM_Unmap(__VA_ARGS__))
#define AM_GetTranslationInuse(...)                                                                \
    am_test_came("AM_GetTranslationInuse", AM_GetTranslationInuse(__VA_ARGS__))
#define AM_GetTranslationTag(...)                                                                  \
    am_test_came("AM_GetTranslationTag", AM_GetTranslationTag(__VA_ARGS__))
#define AM_GetTranslationName(...)                                                                 \
    am_test_came("AM_GetTranslationName", AM_GetTranslationName(__VA_ARGS__))
#define AMVIA_SetHandler(...)    am_test_came("AM_SetHandler", AMVIA_SetHandler(__VA_ARGS__))
#define AMVIA_SetHandlerAny(...) am_test_came("AM_SetHandlerAny", AMVIA_SetHandlerAny(__VA_ARGS__))
#define AM_Poll(...)             am_test_came("AM_Poll", AM_Poll(__VA_ARGS__))
#define AM_SetEventMask(...)     am_test_came("AM_SetEventMask", AM_SetEventMask(__VA_ARGS__))
#define AM_GetEventMask(...)     am_test_came("AM_GetEventMask", AM_GetEventMask(__VA_ARGS__))
#define AM_WaitSema(...)         am_test_came("AM_WaitSema", AM_WaitSema(__VA_ARGS__))
#define AM_GetSourceEndpoint(...)                                                                  \
    am_test_came("AM_GetSourceEndpoint", AM_GetSourceEndpoint(__VA_ARGS__))
#define AM_GetDestEndpoint(...) am_test_came("AM_GetDestEndpoint", AM_GetDestEndpoint(__VA_ARGS__))
#define AM_GetMsgTag(...)       am_test_came("AM_GetMsgTag", AM_GetMsgTag(__VA_ARGS__))
#define AMVIA_Request(...)      am_test_came("AM_RequestM", AMVIA_Request(__VA_ARGS__))
#define AMVIA_RequestI(...)     am_test_came("AM_RequestIM", AMVIA_RequestI(__VA_ARGS__))
#define AMVIA_RequestXfer(ea, dest, offset, handler, source, nbytes, async, ...)                   \
    am_test_came((async) ? "AM_RequestXferAsyncM" : "AM_RequestXferM",                             \
                 AMVIA_RequestXfer(ea, dest, offset, handler, source, nbytes, async, __VA_ARGS__))
#define AMVIA_Reply(...)     am_test_came("AM_ReplyM", AMVIA_Reply(__VA_ARGS__))
#define AMVIA_ReplyI(...)    am_test_came("AM_ReplyIM", AMVIA_ReplyI(__VA_ARGS__))
#define AMVIA_ReplyXfer(...) am_test_came("AM_ReplyXferM", AMVIA_ReplyXfer(__VA_ARGS__))
#define AMVIA_GetXfer(ea, dest, offset, handler, to, nbytes, async, ...)                           \
    am_test_came((async) ? "AM_GetXferAsyncM" : "AM_GetXferM",                                     \
                 AMVIA_GetXfer(ea, dest, offset, handler, to, nbytes, async, __VA_ARGS__))
#define AMVIA_RequestVA(...)  am_test_came("AMVIA_RequestVA", AMVIA_RequestVA(__VA_ARGS__))
#define AMVIA_RequestIVA(...) am_test_came("AMVIA_RequestIVA", AMVIA_RequestIVA(__VA_ARGS__))
#define AMVIA_RequestXferVA(...)                                                                   \
    am_test_came("AMVIA_RequestXferVA", AMVIA_RequestXferVA(__VA_ARGS__))
#define AMVIA_ReplyVA(...)     am_test_came("AMVIA_ReplyVA", AMVIA_ReplyVA(__VA_ARGS__))
#define AMVIA_ReplyIVA(...)    am_test_came("AMVIA_ReplyIVA", AMVIA_ReplyIVA(__VA_ARGS__))
#define AMVIA_ReplyXferVA(...) am_test_came("AMVIA_ReplyXferVA", AMVIA_ReplyXferVA(__VA_ARGS__))
#define AMVIA_GetXferVA(...)   am_test_came("AMVIA_GetXferVA", AMVIA_GetXferVA(__VA_ARGS__))
#define amvia_KnownName(...)   am_test_came("amvia_KnownName", amvia_KnownName(__VA_ARGS__))
#define amvia_GetReturned(...) am_test_came("amvia_GetReturned", amvia_GetReturned(__VA_ARGS__))
#define amvia_GetCounts(...)   am_test_came("amvia_GetCounts", amvia_GetCounts(__VA_ARGS__))
#define AMX_SetTranslationTag(...)                                                                 \
    am_test_came("AMX_SetTranslationTag", AMX_SetTranslationTag(__VA_ARGS__))
#define AMX_GetSourceId(...)  am_test_came("AMX_GetSourceId", AMX_GetSourceId(__VA_ARGS__))
#define AMX_GetTokenInfo(...) am_test_came("AMX_GetTokenInfo", AMX_GetTokenInfo(__VA_ARGS__))
#define AMX_SetHandlerCallbacks(...)                                                               \
    am_test_came("AMX_SetHandlerCallbacks", AMX_SetHandlerCallbacks(__VA_ARGS__))
#define AMX_GetEndpointStatistics(...)                                                             \
    am_test_came("AMX_GetEndpointStatistics", AMX_GetEndpointStatistics(__VA_ARGS__))
#define AMX_ResetEndpointStatistics(...)                                                           \
    am_test_came("AMX_ResetEndpointStatistics", AMX_ResetEndpointStatistics(__VA_ARGS__))
#define AMX_AggregateStatistics(...)                                                               \
    am_test_came("AMX_AggregateStatistics", AMX_AggregateStatistics(__VA_ARGS__))
#define AMX_SPMDStartup(...)   am_test_came("AMX_SPMDStartup", AMX_SPMDStartup(__VA_ARGS__))
#define AMX_SPMDBarrier()      am_test_came("AMX_SPMDBarrier", AMX_SPMDBarrier())
#define AMX_SPMDAllGather(...) am_test_came("AMX_SPMDAllGather", AMX_SPMDAllGather(__VA_ARGS__))
#define AMX_SPMDBroadcast(...) am_test_came("AMX_SPMDBroadcast", AMX_SPMDBroadcast(__VA_ARGS__))

#endif

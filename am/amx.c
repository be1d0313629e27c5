/*
 * Statistics and small helpers of am_amx.h, for programs.
 */
#include "am/amx.h"

#include <string.h>

#include "am/internal.h"

const amx_stats_t AMX_initial_stats = {.RequestMinLatency = UINT64_MAX};

static int check(const void *a, const void *b, const char *call)
{
    if (a == NULL || b == NULL)
        return am_fail(AM_ERR_BAD_ARG, "%s: NULL", call);
    return AM_OK;
}

int AMX_GetEndpointStatistics(ep_t ea, amx_stats_t *stats)
{
    int rc = check(ea, stats, "AMX_GetEndpointStatistics");

    if (rc != AM_OK)
        return rc;
    am_lock(ea->bundle);
    *stats = ea->stats;
    am_unlock(ea->bundle);
    return AM_OK;
}

int AMX_ResetEndpointStatistics(ep_t ea)
{
    int rc = check(ea, ea, "AMX_ResetEndpointStatistics");

    if (rc != AM_OK)
        return rc;
    am_lock(ea->bundle);
    ea->stats = AMX_initial_stats;
    am_unlock(ea->bundle);
    return AM_OK;
}

int AMX_AggregateStatistics(amx_stats_t *sum, amx_stats_t *add)
{
    int rc = check(sum, add, "AMX_AggregateStatistics");

    if (rc != AM_OK)
        return rc;
    for (unsigned i = 0; i < amx_NumCategories; i++) {
        sum->RequestsSent[i] += add->RequestsSent[i];
        sum->RequestsRetransmitted[i] += add->RequestsRetransmitted[i];
        sum->RequestsReceived[i] += add->RequestsReceived[i];
        sum->RepliesSent[i] += add->RepliesSent[i];
        sum->RepliesRetransmitted[i] += add->RepliesRetransmitted[i];
        sum->RepliesReceived[i] += add->RepliesReceived[i];
        sum->RequestDataBytesSent[i] += add->RequestDataBytesSent[i];
        sum->ReplyDataBytesSent[i] += add->ReplyDataBytesSent[i];
        sum->RequestTotalBytesSent[i] += add->RequestTotalBytesSent[i];
        sum->ReplyTotalBytesSent[i] += add->ReplyTotalBytesSent[i];
    }
    sum->ReturnedMessages += add->ReturnedMessages;
    if (add->RequestMinLatency < sum->RequestMinLatency)
        sum->RequestMinLatency = add->RequestMinLatency;
    if (add->RequestMaxLatency > sum->RequestMaxLatency)
        sum->RequestMaxLatency = add->RequestMaxLatency;
    sum->RequestSumLatency += add->RequestSumLatency;
    sum->TotalBytesSent += add->TotalBytesSent;
    return AM_OK;
}

const char *AMX_DumpStatistics(void *file, amx_stats_t *stats, int global)
{
    static const char *const name[amx_NumCategories] = {"short", "medium", "long"};
    static char text[2000];
    size_t at = 0;

    for (unsigned i = 0; i < amx_NumCategories; i++)
        at += (size_t)snprintf(
            text + at, sizeof(text) - at,
            "%-6s  requests: %u sent, %u received   replies: %u sent, %u "
            "received   data: %llu bytes sent\n",
            name[i], stats->RequestsSent[i], stats->RequestsReceived[i], stats->RepliesSent[i],
            stats->RepliesReceived[i],
            (unsigned long long)(stats->RequestDataBytesSent[i] + stats->ReplyDataBytesSent[i]));
    at += (size_t)snprintf(text + at, sizeof(text) - at,
                           "all     %llu bytes sent   returned messages: %u\n",
                           (unsigned long long)stats->TotalBytesSent, stats->ReturnedMessages);
    if (global) {
        uint64_t sent = 0, received = 0;

        for (unsigned i = 0; i < amx_NumCategories; i++) {
            sent += stats->RequestsSent[i] + stats->RepliesSent[i];
            received += stats->RequestsReceived[i] + stats->RepliesReceived[i];
        }
        snprintf(text + at, sizeof(text) - at, "job     messages: %llu sent, %llu received\n",
                 (unsigned long long)sent, (unsigned long long)received);
    }
    if (file != NULL)
        fputs(text, file);
    return text;
}

int AMX_SetTranslationTag(ep_t ea, int index, tag_t tag)
{
    return am_set_translation_tag(ea, index, tag);
}

int AMX_GetSourceId(void *token, int *rank)
{
    handler_t handler;
    int category, is_request;

    if (rank == NULL)
        return am_fail(AM_ERR_BAD_ARG, "AMX_GetSourceId: NULL");
    return am_token_info(token, &handler, &category, &is_request, rank);
}

int AMX_GetTokenInfo(void *token, handler_t *handler, amx_category_t *category, int *is_request)
{
    int class = 0, rank, rc = check(handler, category, "AMX_GetTokenInfo");

    if (rc == AM_OK)
        rc = check(is_request, is_request, "AMX_GetTokenInfo");
    if (rc == AM_OK)
        rc = am_token_info(token, handler, &class, is_request, &rank);
    if (rc == AM_OK)
        *category = (amx_category_t) class;
    return rc;
}

int AMX_enEqual(en_t a, en_t b)
{
    return am_name_equal(&a, &b);
}

int AMX_SetHandlerCallbacks(ep_t ea, AMX_preHandlerCallback_t before,
                            AMX_postHandlerCallback_t after)
{
    int rc = check(ea, ea, "AMX_SetHandlerCallbacks");

    if (rc != AM_OK)
        return rc;
    am_lock(ea->bundle);
    ea->before_handler = (am_pre_handler_t)(void (*)(void))before;
    ea->after_handler = (am_post_handler_t)(void (*)(void))after;
    am_unlock(ea->bundle);
    return AM_OK;
}

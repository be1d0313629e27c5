/*
 * Counters of an endpoint for AMX programs. The index of an array is a category (amx_Short, ...).
 */
#ifndef VIPAM_AM_STATS_H
#define VIPAM_AM_STATS_H

#include <stdint.h>

typedef struct {
    uint32_t RequestsSent[3];
    uint32_t RequestsRetransmitted[3]; /* always 0: vipd repeats lost packets */
    uint32_t RequestsReceived[3];
    uint32_t RepliesSent[3];
    uint32_t RepliesRetransmitted[3]; /* always 0 */
    uint32_t RepliesReceived[3];
    uint32_t ReturnedMessages;
    uint64_t RequestMinLatency;       /* not measured: all bits 1 after a reset, before that 0 */
    uint64_t RequestMaxLatency;       /* not measured: 0 */
    uint64_t RequestSumLatency;       /* not measured: 0 */
    uint64_t RequestDataBytesSent[3]; /* arguments and payload */
    uint64_t ReplyDataBytesSent[3];
    uint64_t RequestTotalBytesSent[3]; /* also counts the heads of this library's messages */
    uint64_t ReplyTotalBytesSent[3];
    uint64_t TotalBytesSent;
} amx_stats_t;

#endif

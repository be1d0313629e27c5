/* Counts of the messages of an endpoint. */
#include "am/internal.h"

void am_stats_sent(struct am_ep *ep, const struct am_message *msg, bool request)
{
    unsigned class = am_class_of(msg->kind);
    uint64_t data = 4u * msg->numargs + (msg->kind == AM_KIND_GET ? 0 : msg->nbytes);
    uint64_t total = data + sizeof(*msg);
    amx_stats_t *stats = &ep->stats;

    if (request) {
        stats->RequestsSent[class]++;
        stats->RequestDataBytesSent[class] += data;
        stats->RequestTotalBytesSent[class] += total;
    } else {
        stats->RepliesSent[class]++;
        stats->ReplyDataBytesSent[class] += data;
        stats->ReplyTotalBytesSent[class] += total;
    }
    stats->TotalBytesSent += total;
}

void am_stats_received(struct am_ep *ep, const struct am_message *msg)
{
    if (msg->kind < AM_KIND_R_SHORT)
        ep->stats.RequestsReceived[am_class_of(msg->kind)]++;
    else
        ep->stats.RepliesReceived[am_class_of(msg->kind)]++;
}

/* One page of a view under construction. */
#include "vipd/ctl/page.h"

#include <stdlib.h>
#include <string.h>

#include "proto/assert.h"
#include "proto/limits.h"

/* Left for the reply around the rows: code, cursor, lengths. */
#define REPLY_BYTES 256

/* Every row is preceded by its tag and length. */
#define ROW_OVERHEAD_BYTES 8

#define ROWS_MAX 1024 /* of one page; a row takes some 60 bytes at least */

struct show_page {
    Vip__ShowReply reply;
    ProtobufCMessage *rows[ROWS_MAX];
    size_t count;
    size_t bytes; /* of the packed rows */
    enum page_list list;
    bool failed;
};

struct show_page *page_new(void)
{
    struct show_page *page = calloc(1, sizeof(*page));

    if (page)
        vip__show_reply__init(&page->reply);
    return page;
}

/* A deep copy, by packing and unpacking: a view is not worth another way. */
static ProtobufCMessage *copy_row(const ProtobufCMessage *row, size_t bytes)
{
    uint8_t *packed = malloc(bytes + 1);
    ProtobufCMessage *copy = NULL;

    if (packed) {
        protobuf_c_message_pack(row, packed);
        copy = protobuf_c_message_unpack(row->descriptor, NULL, bytes, packed);
    }
    free(packed);
    return copy;
}

bool page_add(struct show_page *page, const ProtobufCMessage *row, enum page_list list)
{
    size_t bytes = protobuf_c_message_get_packed_size(row);
    size_t with_head = bytes + ROW_OVERHEAD_BYTES;

    VIP_ASSERT(page->count == 0 || page->list == list);
    page->list = list;
    if (page->failed || page->count == ROWS_MAX ||
        page->bytes + with_head > VIP_CONTROL_BYTES_MAX - REPLY_BYTES)
        return false;
    page->rows[page->count] = copy_row(row, bytes);
    if (!page->rows[page->count]) {
        page->failed = true;
        return false;
    }
    page->count++;
    page->bytes += with_head;
    return true;
}

void page_summary(struct show_page *page, const Vip__Summary *row)
{
    page->reply.summary = (Vip__Summary *)copy_row(&row->base, vip__summary__get_packed_size(row));
    page->failed = !page->reply.summary;
}

void page_more(struct show_page *page, uint64_t cursor)
{
    page->reply.has_next_cursor = true;
    page->reply.next_cursor = cursor;
}

bool page_failed(const struct show_page *page)
{
    return page->failed;
}

Vip__ShowReply *show_page_reply(struct show_page *page)
{
    Vip__ShowReply *reply = &page->reply;

    switch (page->list) {
    case PAGE_NICS:
        reply->n_nics = page->count;
        reply->nics = (Vip__NicRow **)page->rows;
        break;
    case PAGE_VIS:
        reply->n_vis = page->count;
        reply->vis = (Vip__ViRow **)page->rows;
        break;
    case PAGE_MEMS:
        reply->n_mems = page->count;
        reply->mems = (Vip__MemRow **)page->rows;
        break;
    case PAGE_CLIENTS:
        reply->n_clients = page->count;
        reply->clients = (Vip__ClientRow **)page->rows;
        break;
    case PAGE_COUNTERS:
        reply->n_counters = page->count;
        reply->counters = (Vip__Counter **)page->rows;
        break;
    case PAGE_CONFIGS:
        reply->n_configs = page->count;
        reply->configs = (Vip__ConfigRow **)page->rows;
        break;
    case PAGE_CQS:
        reply->n_cqs = page->count;
        reply->cqs = (Vip__CqRow **)page->rows;
        break;
    case PAGE_PTAGS:
        reply->n_ptags = page->count;
        reply->ptags = (Vip__PtagRow **)page->rows;
        break;
    case PAGE_CONNS:
        reply->n_conns = page->count;
        reply->conns = (Vip__ConnRow **)page->rows;
        break;
    case PAGE_LISTENS:
        reply->n_listens = page->count;
        reply->listens = (Vip__ListenRow **)page->rows;
        break;
    case PAGE_PEERS:
        reply->n_peers = page->count;
        reply->peers = (Vip__PeerRow **)page->rows;
        break;
    case PAGE_ERRORS:
        reply->n_errors = page->count;
        reply->errors = (Vip__ErrorRow **)page->rows;
        break;
    case PAGE_LIMITS:
        reply->n_limits = page->count;
        reply->limits = (Vip__LimitRow **)page->rows;
        break;
    case PAGE_EVENTS:
        reply->n_events = page->count;
        reply->events = (Vip__EventRow **)page->rows;
        break;
    }
    return reply;
}

void show_page_free(struct show_page *page)
{
    if (!page)
        return;
    for (size_t i = 0; i < page->count; i++)
        protobuf_c_message_free_unpacked(page->rows[i], NULL);
    if (page->reply.summary)
        vip__summary__free_unpacked(page->reply.summary, NULL);
    free(page);
}

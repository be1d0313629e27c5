/* Makes the reply with one page of a view; see page.h. */
#include "vipd/ctl/page.h"

#include <stdlib.h>
#include <string.h>

#include "proto/assert.h"
#include "proto/limits.h"

/* Bytes of a control message that rows leave free for other fields: code, cursor, lengths. */
#define REPLY_BYTES 256

/* Before each row the reply has a tag and a length, which take at most these bytes. */
#define TAG_BYTES_MAX 2
#define LEN_BYTES_MAX 3 /* a varint below 2^21 */

/* Largest number of rows on one page. Making this number of rows takes some 0.3 ms, so a long list
 * (of 10,000 VIs) never stops a NIC for longer than this time. */
#define ROWS_MAX 384

_Static_assert(VIP_CONTROL_BYTES_MAX < 1u << 21, "a row's length takes three bytes at most");

/*
 * page_add packs a row at once, because the row points to memory of the caller. The reply has the
 * rows as "unknown fields" of protobuf-c, which protobuf-c copies unchanged: tag, then bytes.
 */
struct show_page {
    Vip__ShowReply reply;
    ProtobufCMessageUnknownField rows[ROWS_MAX]; /* data points to length and row in `packed` */
    size_t count;
    size_t used; /* number of bytes used in packed */
    bool failed;
    uint8_t packed[VIP_CONTROL_BYTES_MAX];
};

struct show_page *page_new(void)
{
    struct show_page *page = malloc(sizeof(*page));

    if (!page)
        return NULL;
    vip__show_reply__init(&page->reply);
    page->count = 0;
    page->used = 0;
    page->failed = false;
    return page;
}

/* Number of the list's field in ShowReply. */
static uint32_t field_of(enum page_list list)
{
    static const char *const name[] = {
        [PAGE_NICS] = "nics",       [PAGE_VIS] = "vis",           [PAGE_MEMS] = "mems",
        [PAGE_CLIENTS] = "clients", [PAGE_COUNTERS] = "counters", [PAGE_CONFIGS] = "configs",
        [PAGE_CQS] = "cqs",         [PAGE_PTAGS] = "ptags",       [PAGE_CONNS] = "conns",
        [PAGE_LISTENS] = "listens", [PAGE_PEERS] = "peers",       [PAGE_ERRORS] = "errors",
        [PAGE_LIMITS] = "limits",   [PAGE_EVENTS] = "events",
    };
    const ProtobufCFieldDescriptor *field =
        protobuf_c_message_descriptor_get_field_by_name(&vip__show_reply__descriptor, name[list]);

    VIP_ASSERT(field && field->type == PROTOBUF_C_TYPE_MESSAGE);
    return field->id;
}

static size_t put_varint(uint8_t *at, size_t value)
{
    size_t len = 0;

    for (; value >= 0x80; value >>= 7)
        at[len++] = (uint8_t)(value | 0x80);
    at[len++] = (uint8_t)value;
    return len;
}

bool page_add(struct show_page *page, const ProtobufCMessage *row, enum page_list list)
{
    size_t bytes = protobuf_c_message_get_packed_size(row);
    ProtobufCMessageUnknownField *field = &page->rows[page->count];
    uint32_t tag;

    if (page->count == ROWS_MAX ||
        page->used + (page->count + 1) * TAG_BYTES_MAX + LEN_BYTES_MAX + bytes >
            VIP_CONTROL_BYTES_MAX - REPLY_BYTES)
        return false;
    tag = page->count == 0 ? field_of(list) : page->rows[0].tag;
    VIP_ASSERT(page->count == 0 || tag == page->rows[0].tag);
    field->tag = tag;
    field->wire_type = PROTOBUF_C_WIRE_TYPE_LENGTH_PREFIXED;
    field->data = page->packed + page->used;
    field->len = put_varint(field->data, bytes);
    field->len += protobuf_c_message_pack(row, field->data + field->len);
    page->used += field->len;
    page->count++;
    return true;
}

void page_summary(struct show_page *page, const Vip__Summary *row)
{
    size_t bytes = vip__summary__get_packed_size(row);

    VIP_ASSERT(bytes <= sizeof(page->packed) && page->count == 0);
    page->reply.summary =
        vip__summary__unpack(NULL, vip__summary__pack(row, page->packed), page->packed);
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
    page->reply.base.n_unknown_fields = (unsigned)page->count;
    page->reply.base.unknown_fields = page->rows;
    return &page->reply;
}

void show_page_free(struct show_page *page)
{
    if (!page)
        return;
    if (page->reply.summary)
        vip__summary__free_unpacked(page->reply.summary, NULL);
    free(page);
}

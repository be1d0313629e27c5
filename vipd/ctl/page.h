/*
 * Makes one page of a view: copies rows until the next row would make the reply larger than a
 * control message. Inside vipd/ctl/ only.
 */
#ifndef VIPD_CTL_PAGE_H
#define VIPD_CTL_PAGE_H

#include <stdbool.h>
#include <stdint.h>

#include "vipd/ctl/show.h"

/* Which list of ShowReply a row belongs to. */
enum page_list {
    PAGE_NICS,
    PAGE_VIS,
    PAGE_MEMS,
    PAGE_CLIENTS,
    PAGE_COUNTERS,
    PAGE_CONFIGS,
    PAGE_CQS,
    PAGE_PTAGS,
    PAGE_CONNS,
    PAGE_LISTENS,
    PAGE_PEERS,
    PAGE_ERRORS,
    PAGE_LIMITS,
    PAGE_EVENTS,
};

/* Make an empty page. NULL: out of memory. */
struct show_page *page_new(void);

/*
 * Copy a row, with its strings, to the end of the page. All rows of a page belong to one list.
 * Outcomes: true; false: the page is full, and the row was not added.
 */
bool page_add(struct show_page *page, const ProtobufCMessage *row, enum page_list list);

/* Set the summary, a copy of `row`, in a page without other rows. */
void page_summary(struct show_page *page, const Vip__Summary *row);

/* The view has more rows: set the cursor for the next request. */
void page_more(struct show_page *page, uint64_t cursor);

/* Was there no memory for the summary? */
bool page_failed(const struct show_page *page);

#endif

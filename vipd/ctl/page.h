/*
 * One page of a view under construction: copies rows, and knows when the next one would make the
 * reply larger than a control message. Inside vipd/ctl/ only.
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

/* NULL: out of memory. */
struct show_page *page_new(void);

/*
 * Copy a row, its strings included, to the end of the page. All rows of a page go to one list.
 * Outcomes: true; false the page is full (or memory is: page_failed), the row is not in it.
 */
bool page_add(struct show_page *page, const ProtobufCMessage *row, enum page_list list);

/* The one row of the summary. */
void page_summary(struct show_page *page, const Vip__Summary *row);

/* There are more rows: set the cursor of the next request. */
void page_more(struct show_page *page, uint64_t cursor);

/* Memory ran out. */
bool page_failed(const struct show_page *page);

#endif

/*
 * The read-only views of vipctl: one page of rows per request, small enough for a control message.
 *
 * Owns: which rows and columns there are, paging. Does not own: formatting for people (tools/),
 * the objects shown. Called by vipd/client/ only; the objects may change between two pages, so a
 * row that comes or goes meanwhile may be missed, but none is shown twice.
 */
#ifndef VIPD_CTL_SHOW_H
#define VIPD_CTL_SHOW_H

#include <stdint.h>
#include <sys/types.h>

#include "proto/control.pb-c.h"
#include "vipd/daemon.h"

struct show_page;

/*
 * Build the page that starts at request->cursor, for user `viewer`. Of another user's programs the
 * page shows the counts, but nothing that tells these programs apart or helps to attack them
 * (addresses, handles, tags, discriminators, peers, process numbers, names). Administrators see
 * everything; their `viewer` is 0. Outcomes: 0 and *ret; -EINVAL unknown view; -ENOMEM. Free it
 * with show_page_free.
 */
int show_page_new(const struct vipd *vipd, const Vip__ShowRequest *request, uid_t viewer,
                  struct show_page **ret);
/* The reply with the rows of a page; it belongs to the page. */
Vip__ShowReply *show_page_reply(struct show_page *page);
/* Harmless on NULL. */
void show_page_free(struct show_page *page);

#endif

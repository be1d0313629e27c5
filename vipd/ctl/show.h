/*
 * The read-only views of vipctl: one page of rows per request, small enough for a control message.
 *
 * Owns: the rows and columns of each view, paging. Does not own: formatting for people (tools/),
 * the objects shown. Called by vipd/client/ only. If an object is made or ends between two pages,
 * the view may lack this object; but no view shows an object twice.
 */
#ifndef VIPD_CTL_SHOW_H
#define VIPD_CTL_SHOW_H

#include <stdint.h>
#include <sys/types.h>

#include "proto/control.pb-c.h"
#include "vipd/daemon.h"

struct show_page;

/*
 * Build the page that starts at request->cursor, for the user `viewer` (0: an administrator). For
 * other users' programs the page has counts, but no details that identify these programs or help to
 * attack them (addresses, handles, tags, discriminators, peers, process numbers, names).
 * Administrators see everything. Outcomes: 0, and *ret, to be freed by show_page_free; -EINVAL:
 * unknown view; -ENOMEM.
 */
int show_page_new(const struct vipd *vipd, const Vip__ShowRequest *request, uid_t viewer,
                  struct show_page **ret);
/* The reply with the rows of a page. The page owns the reply. */
Vip__ShowReply *show_page_reply(struct show_page *page);
/* NULL is harmless. */
void show_page_free(struct show_page *page);

#endif

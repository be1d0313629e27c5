/* Functions of the views outside of show.c, and parts that views share. Inside vipd/ctl/ only. */
#ifndef VIPD_CTL_PARTS_H
#define VIPD_CTL_PARTS_H

#include <stdbool.h>
#include <stdint.h>

#include "proto/stats.h"
#include "vipd/client/client.h"
#include "vipd/ctl/show.h"
#include "vipd/engine/cm.h"
#include "vipd/link/link.h"

/* Set an optional field of a row. */
#define SET(row, field, val)                                                                       \
    do {                                                                                           \
        (row)->has_##field = true;                                                                 \
        (row)->field = (val);                                                                      \
    } while (0)

/* The text that a view shows in place of another user's text. */
#define SHOW_HIDDEN "-"

/* Set the owner of a row's object. Only this owner and administrators see the program and pid. */
#define SET_OWNER(row, walk)                                                                       \
    do {                                                                                           \
        const struct client *owner_ = (walk)->client;                                              \
        bool seen_ = show_may_see((walk)->viewer, owner_->uid);                                    \
        SET(row, session, owner_->session->id);                                                    \
        SET(row, uid, owner_->uid);                                                                \
        if (seen_)                                                                                 \
            SET(row, pid, (uint64_t)owner_->pid);                                                  \
        (row)->program = seen_ ? (char *)owner_->program : (char *)SHOW_HIDDEN;                    \
    } while (0)

/* A walk over the rows of all sessions, from the cursor on. */
struct walk {
    struct show_page *page;
    const struct vipd *vipd;
    const struct client *client;
    uid_t viewer;  /* uid of the user who asks */
    uint64_t from; /* first row of this session that belongs on the page */
    uint64_t row;  /* number of the next row */
    bool full;     /* the page has no room for the row with the number `row` */

    /* The last peer's address and its text: most VIs have the same peer as the VI before them. */
    enum link_kind peer_kind;
    struct link_addr peer;
    char peer_text[LINK_TEXT_BYTES];
};

/* Calls walk_one for each session from the cursor on, until the page is full. */
void show_sessions(struct show_page *page, const struct vipd *vipd, uid_t viewer, uint64_t cursor,
                   void (*walk_one)(struct walk *walk));
/* show_sessions calls these: each adds the rows of one session (objects.c). */
void show_walk_cqs(struct walk *walk);
void show_walk_ptags(struct walk *walk);
void show_walk_conns(struct walk *walk);
void show_walk_waits(struct walk *walk);

const char *show_nic_name(const struct vipd *vipd, const struct client *client);
/* The address of a peer as text, which is valid until the next call; "": no address. */
const char *show_peer_text(struct walk *walk, const struct cm_host *host);
/* May the user `viewer` (0: administrators) see details of programs of the user `owner`? */
bool show_may_see(uid_t viewer, uid_t owner);

/* Each function adds rows to the page, from the cursor on, until the page is full. Administrators
 * see all peers, other users only peers with which their programs have connections. */
void show_peers(struct show_page *page, const struct vipd *vipd, uid_t viewer, uint64_t cursor);
void show_limits(struct show_page *page, const struct vipd *vipd, uint64_t cursor);
void show_errors(struct show_page *page, const struct vipd *vipd, uid_t viewer, uint64_t cursor);
void show_events(struct show_page *page, const struct vipd *vipd, uid_t viewer, uint64_t cursor);
/* Calls visit for every statistic of scope VIPD. */
void vipd_stats_visit(const struct vipd *vipd,
                      void (*visit)(void *ctx, enum vip_stat id, uint64_t value), void *ctx);
void show_stats(struct show_page *page, const struct vipd *vipd, uint64_t cursor);

#endif

/*
 * The changes of the last reload that wait for a restart of vipd.
 *
 * Owns: the list vipd->pending. reload.c makes it; vipd/ctl/ shows it.
 */
#ifndef VIPD_RESTART_PENDING_H
#define VIPD_RESTART_PENDING_H

#include <stdbool.h>

#include "vipd/daemon.h"

/* One key that differs between the configuration in force and the files. */
struct vipd_change {
    const char *section; /* "daemon", "nic:vip0" */
    const char *key;     /* "" for a whole NIC that was added or removed */
    const char *from, *to;
    const char *reload; /* "live", "new", "restart" */
};

typedef void vipd_change_fn(void *ctx, const struct vipd_change *change);

/* A list that pending_add builds. It starts with tail = &first. */
struct pending_list {
    struct vipd_pending *first, **tail;
    bool failed;
};

/* A vipd_change_fn; ctx: a pending_list. Adds a copy of the change, if it waits for a restart. */
void pending_add(void *ctx, const struct vipd_change *change);

/* NULL is allowed. */
void pending_free(struct vipd_pending *list);

/* Visit the changes of the last reload that wait for a restart. */
void vipd_reload_pending(const struct vipd *vipd, vipd_change_fn *visit, void *ctx);

#endif

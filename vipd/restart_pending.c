/* Changes that wait for a restart; see restart_pending.h. */
#include "vipd/restart_pending.h"

#include <stdlib.h>
#include <string.h>

struct vipd_pending {
    struct vipd_pending *next;
    char *section, *key, *from, *to;
};

void pending_free(struct vipd_pending *list)
{
    while (list) {
        struct vipd_pending *next = list->next;

        free(list->section);
        free(list->key);
        free(list->from);
        free(list->to);
        free(list);
        list = next;
    }
}

void pending_add(void *ctx, const struct vipd_change *change)
{
    struct pending_list *list = ctx;
    struct vipd_pending *one;

    if (strcmp(change->reload, "restart") != 0)
        return;
    one = calloc(1, sizeof(*one));
    if (!one) {
        list->failed = true;
        return;
    }
    one->section = strdup(change->section);
    one->key = strdup(change->key);
    one->from = strdup(change->from);
    one->to = strdup(change->to);
    list->failed |= !one->section || !one->key || !one->from || !one->to;
    *list->tail = one;
    list->tail = &one->next;
}

void vipd_reload_pending(const struct vipd *vipd, vipd_change_fn *visit, void *ctx)
{
    for (const struct vipd_pending *one = vipd->pending; one; one = one->next) {
        struct vipd_change change = {one->section, one->key, one->from, one->to, "restart"};

        visit(ctx, &change);
    }
}

/* Views of the history: distinct errors and the last events (vipd/history.h). */
#include "vipd/ctl/page.h"
#include "vipd/ctl/parts.h"
#include "vipd/history.h"

static void add_error(struct show_page *page, const struct history_error *error, uid_t viewer,
                      bool *ret_full)
{
    const struct history_event *last = &error->last;
    Vip__ErrorRow row = VIP__ERROR_ROW__INIT;

    SET(&row, count, error->count);
    SET(&row, first_ns, error->first_ns);
    SET(&row, last_ns, error->last_ns);
    row.kind = (char *)history_kind_name(last->kind);
    row.key = (char *)last->key;
    SET(&row, uid, last->uid);
    if (last->session)
        SET(&row, session, last->session);
    if (last->vi != HISTORY_NO_VI)
        SET(&row, vi, last->vi);
    row.nic = (char *)last->nic;
    row.program = (char *)SHOW_HIDDEN;
    if (show_may_see(viewer, last->uid)) {
        row.program = (char *)last->program;
        SET(&row, pid, (uint64_t)last->pid);
        row.text = (char *)last->text;
    }
    *ret_full = !page_add(page, &row.base, PAGE_ERRORS);
}

void show_errors(struct show_page *page, const struct vipd *vipd, uid_t viewer, uint64_t cursor)
{
    bool full = false;

    for (uint64_t i = cursor; vipd->history && i < vipd->history->error_count; i++) {
        add_error(page, &vipd->history->errors[i], viewer, &full);
        if (full) {
            page_more(page, i);
            return;
        }
    }
}

static bool add_event(struct show_page *page, const struct history_event *event, uid_t viewer)
{
    Vip__EventRow row = VIP__EVENT_ROW__INIT;

    SET(&row, number, event->number);
    SET(&row, time_ns, event->time_ns);
    row.kind = (char *)history_kind_name(event->kind);
    row.key = (char *)event->key;
    row.nic = (char *)event->nic;
    if (event->session)
        SET(&row, session, event->session);
    if (event->vi != HISTORY_NO_VI)
        SET(&row, vi, event->vi);
    SET(&row, uid, event->uid);
    row.program = (char *)SHOW_HIDDEN;
    if (show_may_see(viewer, event->uid)) {
        SET(&row, pid, (uint64_t)event->pid);
        row.program = (char *)event->program;
        row.text = (char *)event->text;
    }
    return page_add(page, &row.base, PAGE_EVENTS);
}

/* Fill one page. Always set next_cursor, so that a monitor can later ask for newer events. */
void show_events(struct show_page *page, const struct vipd *vipd, uid_t viewer, uint64_t cursor)
{
    const struct history_event *event;
    uint64_t next = cursor ? cursor : 1;

    while (vipd->history && (event = history_event_from(vipd->history, next)) != NULL) {
        if (!add_event(page, event, viewer))
            break;
        next = event->number + 1;
    }
    page_more(page, next);
}

/*
 * Event queues: a list in memory, and an eventfd that is readable while the list has entries. The
 * threads that make connections and libvipl's error thread fill the list.
 */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "ofi/calls.h"
#include "ofi/nosys.h"

/* One event. fi_eq_read returns a struct fi_eq_cm_entry, directly followed by `data`. */
struct via_event {
    struct via_event *next;
    uint32_t event;
    int err; /* if not 0, the event is an error */
    int prov_errno;
    fid_t fid;
    struct fi_info *info; /* of an FI_CONNREQ event; else NULL */
    bool raw;             /* the event is from fi_eq_write, and `data` is the whole entry */
    size_t bytes;
    uint8_t data[];
};

/* Free an event that the program will not read. Reject the event's connection request, if any. */
static void event_drop(struct via_event *event)
{
    if (event->info != NULL) {
        via_request_drop(event->info->handle);
        fi_freeinfo(event->info);
    }
    free(event);
}

static void append(struct via_eq *eq, struct via_event *event)
{
    uint64_t one = 1;

    pthread_mutex_lock(&eq->lock);
    event->next = NULL;
    *eq->end = event;
    eq->end = &event->next;
    /* A full counter makes the write fail. In this case fd is readable already. */
    if (__atomic_fetch_add(&eq->waiting, 1, __ATOMIC_RELEASE) == 0 &&
        write(eq->fd, &one, sizeof(one)) < 0)
        VIA_WARN(FI_LOG_CORE, "eventfd: errno %d\n", errno);
    pthread_mutex_unlock(&eq->lock);
}

static struct via_event *event_new(const void *data, size_t bytes)
{
    struct via_event *event = calloc(1, sizeof(*event) + bytes);

    if (event == NULL) {
        VIA_WARN(FI_LOG_CORE, "out of memory: an event is lost\n");
        return NULL;
    }
    event->bytes = bytes;
    if (bytes > 0)
        memcpy(event->data, data, bytes);
    return event;
}

void via_eq_put(struct via_eq *eq, uint32_t number, fid_t fid, struct fi_info *info,
                const void *data, size_t bytes)
{
    struct via_event *event = event_new(data, bytes);

    if (event == NULL) {
        if (info != NULL)
            via_request_drop(info->handle);
        fi_freeinfo(info);
        return;
    }
    event->event = number;
    event->fid = fid;
    event->info = info;
    append(eq, event);
}

void via_eq_put_error(struct via_eq *eq, fid_t fid, int err, int prov_errno, const void *data,
                      size_t bytes)
{
    struct via_event *event = event_new(data, bytes);

    if (event == NULL)
        return;
    event->err = err;
    event->prov_errno = prov_errno;
    event->fid = fid;
    append(eq, event);
}

/* Remove *link from the list and return it. Under eq->lock. */
static struct via_event *take(struct via_eq *eq, struct via_event **link)
{
    struct via_event *event = *link;
    uint64_t count;

    *link = event->next;
    if (event->next == NULL)
        eq->end = link;
    if (__atomic_sub_fetch(&eq->waiting, 1, __ATOMIC_RELEASE) == 0 &&
        read(eq->fd, &count, sizeof(count)) < 0)
        VIA_WARN(FI_LOG_CORE, "eventfd: errno %d\n", errno);
    return event;
}

void via_eq_forget(struct via_eq *eq, fid_t fid)
{
    struct via_event **link = &eq->first;

    pthread_mutex_lock(&eq->lock);
    while (*link != NULL) {
        if ((*link)->fid == fid && !(*link)->raw) {
            event_drop(take(eq, link));
        } else {
            link = &(*link)->next;
        }
    }
    pthread_mutex_unlock(&eq->lock);
}

int via_eq_trywait(struct via_eq *eq)
{
    return __atomic_load_n(&eq->waiting, __ATOMIC_ACQUIRE) != 0 ? -FI_EAGAIN : 0;
}

/* Copy an event to the program's buffer. Outcomes: number of bytes copied; -FI_ETOOSMALL. */
static ssize_t deliver(const struct via_event *event, void *buf, size_t len)
{
    struct fi_eq_cm_entry head = {.fid = event->fid, .info = event->info};
    size_t need = event->raw ? event->bytes : sizeof(head) + event->bytes;

    if (len < need) {
        /* Of `data`, only the bytes that fit are copied. The head must fit as a whole. */
        if (event->raw || len < sizeof(head))
            return -FI_ETOOSMALL;
        need = len;
    }
    if (event->raw) {
        memcpy(buf, event->data, need);
    } else {
        memcpy(buf, &head, sizeof(head));
        memcpy((char *)buf + sizeof(head), event->data, need - sizeof(head));
    }
    return (ssize_t)need;
}

static ssize_t eq_read(struct fid_eq *fid, uint32_t *number, void *buf, size_t len, uint64_t flags)
{
    struct via_eq *eq = via_container(fid, struct via_eq, fid);
    struct via_event *event;
    ssize_t rc = -FI_EAGAIN;

    if (__atomic_load_n(&eq->waiting, __ATOMIC_ACQUIRE) == 0)
        return -FI_EAGAIN;
    pthread_mutex_lock(&eq->lock);
    event = eq->first;
    if (event != NULL && event->err != 0) {
        rc = -FI_EAVAIL;
    } else if (event != NULL) {
        rc = deliver(event, buf, len);
        if (rc >= 0)
            *number = event->event;
        if (rc >= 0 && (flags & FI_PEEK) == 0)
            free(take(eq, &eq->first));
    }
    pthread_mutex_unlock(&eq->lock);
    return rc;
}

static ssize_t eq_readerr(struct fid_eq *fid, struct fi_eq_err_entry *buf, uint64_t flags)
{
    struct via_eq *eq = via_container(fid, struct via_eq, fid);
    struct via_event *event;
    ssize_t rc = -FI_EAGAIN;

    pthread_mutex_lock(&eq->lock);
    event = eq->first;
    if (event != NULL && event->err != 0) {
        size_t bytes = event->bytes < sizeof(eq->err_data) ? event->bytes : sizeof(eq->err_data);

        memcpy(eq->err_data, event->data, bytes);
        buf->fid = event->fid;
        buf->context = event->fid->context;
        buf->data = 0;
        buf->err = event->err;
        buf->prov_errno = event->prov_errno;
        /* If the caller gives no buffer for the error data, return the address of our buffer. */
        if (buf->err_data == NULL || buf->err_data_size == 0) {
            buf->err_data = bytes > 0 ? eq->err_data : NULL;
            buf->err_data_size = bytes;
        } else {
            if (buf->err_data_size > bytes)
                buf->err_data_size = bytes;
            memcpy(buf->err_data, eq->err_data, buf->err_data_size);
        }
        if ((flags & FI_PEEK) == 0)
            free(take(eq, &eq->first));
        rc = sizeof(*buf);
    }
    pthread_mutex_unlock(&eq->lock);
    return rc;
}

static ssize_t eq_write(struct fid_eq *fid, uint32_t number, const void *buf, size_t len,
                        uint64_t flags)
{
    struct via_eq *eq = via_container(fid, struct via_eq, fid);
    struct via_event *event = event_new(buf, len);

    if (event == NULL)
        return -FI_ENOMEM;
    event->event = number;
    event->raw = true;
    append(eq, event);
    return (ssize_t)len;
}

static ssize_t eq_sread(struct fid_eq *fid, uint32_t *number, void *buf, size_t len, int timeout,
                        uint64_t flags)
{
    struct via_eq *eq = via_container(fid, struct via_eq, fid);
    uint64_t end_ns = via_now_ns() + (uint64_t)(timeout < 0 ? 0 : timeout) * 1000000;
    ssize_t rc;

    while ((rc = eq_read(fid, number, buf, len, flags)) == -FI_EAGAIN) {
        struct pollfd look = {.fd = eq->fd, .events = POLLIN};
        uint64_t now_ns = via_now_ns();

        if (timeout >= 0 && now_ns >= end_ns)
            return -FI_EAGAIN;
        if (poll(&look, 1, timeout < 0 ? -1 : (int)((end_ns - now_ns) / 1000000 + 1)) < 0)
            return -errno;
    }
    return rc;
}

static const char *eq_strerror(struct fid_eq *fid, int prov_errno, const void *err_data, char *buf,
                               size_t len)
{
    const char *text = prov_errno == VIP_REJECT          ? "rejected by the other side"
                       : prov_errno == VIP_NO_MATCH      ? "no program listens there"
                       : prov_errno == VIP_NOT_REACHABLE ? "host not reachable"
                       : prov_errno == VIP_TIMEOUT       ? "no answer in time"
                                                         : "connection failed";

    if (buf != NULL && len > 0) {
        strncpy(buf, text, len - 1);
        buf[len - 1] = '\0';
    }
    return text;
}

static int eq_close(struct fid *fid)
{
    struct via_eq *eq = via_container(fid, struct via_eq, fid.fid);

    while (eq->first != NULL)
        event_drop(take(eq, &eq->first));
    close(eq->fd);
    pthread_mutex_destroy(&eq->lock);
    __atomic_sub_fetch(&eq->fabric->users, 1, __ATOMIC_RELEASE);
    free(eq);
    return 0;
}

static int eq_control(struct fid *fid, int command, void *arg)
{
    struct via_eq *eq = via_container(fid, struct via_eq, fid.fid);

    switch (command) {
    case FI_GETWAITOBJ:
        *(enum fi_wait_obj *)arg = eq->wait_obj;
        return 0;
    case FI_GETWAIT:
        *(int *)arg = eq->fd;
        return 0;
    default:
        return -FI_ENOSYS;
    }
}

static struct fi_ops eq_fid_ops = {
    .size = sizeof(struct fi_ops),
    .close = eq_close,
    .bind = via_no_bind,
    .control = eq_control,
    .ops_open = via_no_ops_open,
    .tostr = via_no_tostr,
    .ops_set = via_no_ops_set,
};

static struct fi_ops_eq eq_ops = {
    .size = sizeof(struct fi_ops_eq),
    .read = eq_read,
    .readerr = eq_readerr,
    .write = eq_write,
    .sread = eq_sread,
    .strerror = eq_strerror,
};

int via_eq_open(struct fid_fabric *fid, struct fi_eq_attr *attr, struct fid_eq **ret, void *context)
{
    struct via_eq *eq;

    if (attr != NULL && attr->wait_obj != FI_WAIT_NONE && attr->wait_obj != FI_WAIT_UNSPEC &&
        attr->wait_obj != FI_WAIT_FD)
        return -FI_ENOSYS;
    eq = calloc(1, sizeof(*eq));
    if (eq == NULL)
        return -FI_ENOMEM;
    eq->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (eq->fd < 0) {
        int rc = -errno;

        free(eq);
        return rc;
    }
    eq->wait_obj = attr != NULL && attr->wait_obj == FI_WAIT_NONE ? FI_WAIT_NONE : FI_WAIT_FD;
    eq->fabric = via_container(fid, struct via_fabric, fid);
    __atomic_add_fetch(&eq->fabric->users, 1, __ATOMIC_RELAXED);
    eq->end = &eq->first;
    pthread_mutex_init(&eq->lock, NULL);
    eq->fid.fid.fclass = FI_CLASS_EQ;
    eq->fid.fid.context = context;
    eq->fid.fid.ops = &eq_fid_ops;
    eq->fid.ops = &eq_ops;
    *ret = &eq->fid;
    return 0;
}

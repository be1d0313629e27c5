/*
 * The calls of the program on a completion queue: open, read, wait, close. A read first does other
 * work: it posts sends that wait for credits, takes completions of VIPL, and drives endpoints of
 * the second kind (via_rdm_progress).
 */
#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "ofi/nosys.h"
#include "ofi/rdm.h"

/*
 * The longest sleep, in ms, of a blocking read in two cases. Either a send waits for credits, which
 * wake no thread. Or there is an endpoint of the second kind: its channels have another queue, the
 * core, which does not wake this thread.
 */
#define WAITING_MS 1

/* ---- reading --------------------------------------------------------------------------------- */

static const size_t entry_bytes[] = {
    [FI_CQ_FORMAT_CONTEXT] = sizeof(struct fi_cq_entry),
    [FI_CQ_FORMAT_MSG] = sizeof(struct fi_cq_msg_entry),
    [FI_CQ_FORMAT_DATA] = sizeof(struct fi_cq_data_entry),
    [FI_CQ_FORMAT_TAGGED] = sizeof(struct fi_cq_tagged_entry),
};

/* Copy a completion to the program. Each format of entries is the start of the next format. */
static void deliver(const struct via_cq *cq, const struct via_comp *comp, void *buf, size_t index)
{
    struct fi_cq_tagged_entry entry = {
        .op_context = comp->context,
        .flags = comp->flags,
        .len = comp->len,
        .buf = comp->buf,
        .data = comp->data,
        .tag = comp->tag,
    };

    memcpy((char *)buf + index * entry_bytes[cq->format], &entry, entry_bytes[cq->format]);
}

/* Does nothing complete any more, because vipd has ended or after a loss (FI_VIA_LOSS_FATAL)? */
static bool is_lost(const struct via_cq *cq)
{
    return __atomic_load_n(&cq->domain->fabric->lost, __ATOMIC_RELAXED) != 0;
}

/* Is there an endpoint whose sends wait for credits? */
static bool waiting(const struct via_cq *cq)
{
    return __atomic_load_n(&cq->domain->waiting_count, __ATOMIC_ACQUIRE) != 0;
}

/* Drive the endpoint of the second kind. Its data move only while the program reads a queue. */
static void progress(struct via_cq *cq)
{
    if (__atomic_load_n(&cq->rdm, __ATOMIC_RELAXED) == NULL)
        return;
    pthread_mutex_lock(&cq->rdm_lock);
    if (cq->rdm != NULL)
        via_rdm_progress(cq->rdm);
    pthread_mutex_unlock(&cq->rdm_lock);
}

static ssize_t cq_read(struct fid_cq *fid, void *buf, size_t count)
{
    struct via_cq *cq = via_container(fid, struct via_cq, fid);
    ssize_t done = 0, rc = -FI_EAGAIN;

    progress(cq);
    pthread_mutex_lock(&cq->lock);
    if (waiting(cq))
        via_post_push_all(cq->domain);
    while ((size_t)done < count) {
        const struct via_comp *comp;

        while (cq->fifo_in == cq->fifo_out && cq->entries > 0 && via_reap_cq(cq))
            continue;
        if (cq->fifo_in == cq->fifo_out)
            break;
        comp = &cq->fifo[cq->fifo_out & (cq->fifo_size - 1)];
        if (comp->err != 0) {
            rc = -FI_EAVAIL;
            break;
        }
        deliver(cq, comp, buf, (size_t)done++);
        cq->fifo_out++;
    }
    /* With count 0 the program only asks whether there is an entry. */
    if (count == 0 && cq->fifo_in != cq->fifo_out)
        rc = 0;
    if (cq->soft_fd >= 0)
        via_cq_signal(cq);
    pthread_mutex_unlock(&cq->lock);
    if (done > 0)
        return done;
    return rc == -FI_EAGAIN && is_lost(cq) ? -FI_EIO : rc;
}

static ssize_t cq_readfrom(struct fid_cq *fid, void *buf, size_t count, fi_addr_t *src)
{
    ssize_t rc = cq_read(fid, buf, count);

    for (ssize_t i = 0; src != NULL && i < rc; i++)
        src[i] = FI_ADDR_NOTAVAIL;
    return rc;
}

static ssize_t cq_readerr(struct fid_cq *fid, struct fi_cq_err_entry *buf, uint64_t flags)
{
    struct via_cq *cq = via_container(fid, struct via_cq, fid);
    ssize_t rc = -FI_EAGAIN;

    pthread_mutex_lock(&cq->lock);
    if (cq->fifo_in != cq->fifo_out) {
        const struct via_comp *comp = &cq->fifo[cq->fifo_out & (cq->fifo_size - 1)];

        if (comp->err != 0) {
            buf->op_context = comp->context;
            buf->flags = comp->flags;
            buf->len = comp->len;
            buf->buf = comp->buf;
            buf->data = comp->data;
            buf->tag = comp->tag;
            buf->olen = comp->olen;
            buf->err = comp->err;
            buf->prov_errno = comp->prov_errno;
            buf->err_data_size = 0;
            if ((flags & FI_PEEK) == 0)
                cq->fifo_out++;
            rc = 1;
        }
    }
    if (cq->soft_fd >= 0)
        via_cq_signal(cq);
    pthread_mutex_unlock(&cq->lock);
    return rc;
}

static const char *cq_strerror(struct fid_cq *fid, int prov_errno, const void *err_data, char *buf,
                               size_t len)
{
    static const struct {
        int bit;
        const char *text;
    } texts[] = {
        {VIP_STATUS_FORMAT_ERROR, "bad descriptor"},
        {VIP_STATUS_PROTECTION_ERROR, "local memory is not registered for this"},
        {VIP_STATUS_LENGTH_ERROR, "the message is longer than the receive, or than possible"},
        {VIP_STATUS_PARTIAL_ERROR, "the message broke off"},
        {VIP_STATUS_RDMA_PROT_ERROR, "remote memory may not be accessed like this"},
        {VIP_STATUS_REMOTE_DESC_ERROR, "receive missing or faulty at the other side"},
        {VIP_STATUS_TRANSPORT_ERROR, "not delivered"},
        {VIP_STATUS_DESC_FLUSHED_ERROR, "the connection ended before"},
    };
    const char *text = "unknown error";

    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        if ((prov_errno & texts[i].bit) != 0) {
            text = texts[i].text;
            break;
        }
    }
    if (buf != NULL && len > 0) {
        strncpy(buf, text, len - 1);
        buf[len - 1] = '\0';
    }
    return text;
}

/* ---- waiting --------------------------------------------------------------------------------- */

/* Open the descriptor of FI_GETWAIT: an epoll of VIPL's descriptor and of soft_fd. Outcomes: 0;
 * negative error. */
static int open_fd(struct via_cq *cq)
{
    struct epoll_event event = {.events = EPOLLIN};
    int vipl_fd, rc = 0;

    pthread_mutex_lock(&cq->lock);
    if (cq->epoll_fd < 0) {
        int epoll_fd = epoll_create1(EPOLL_CLOEXEC);
        int soft_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);

        if (epoll_fd < 0 || soft_fd < 0 || VipxCQGetFd(cq->cq, &vipl_fd) != VIP_SUCCESS ||
            epoll_ctl(epoll_fd, EPOLL_CTL_ADD, vipl_fd, &event) < 0 ||
            epoll_ctl(epoll_fd, EPOLL_CTL_ADD, soft_fd, &event) < 0) {
            VIA_WARN(FI_LOG_CQ, "no descriptor for a completion queue: errno %d, %s\n", errno,
                     VipxLastError());
            close(epoll_fd);
            close(soft_fd);
            rc = -FI_ENOMEM;
        } else {
            cq->epoll_fd = epoll_fd;
            cq->soft_fd = soft_fd;
            via_cq_signal(cq);
        }
    }
    pthread_mutex_unlock(&cq->lock);
    return rc;
}

int via_cq_trywait(struct via_cq *cq)
{
    int rc = 0;

    if (waiting(cq) || is_lost(cq))
        return -FI_EAGAIN;
    pthread_mutex_lock(&cq->lock);
    while (cq->fifo_in == cq->fifo_out && via_reap_cq(cq))
        continue;
    if (cq->fifo_in != cq->fifo_out)
        rc = -FI_EAGAIN;
    if (cq->soft_fd >= 0)
        via_cq_signal(cq);
    pthread_mutex_unlock(&cq->lock);
    return rc;
}

static bool take_signal(struct via_cq *cq)
{
    bool was;

    if (__atomic_load_n(&cq->signaled, __ATOMIC_ACQUIRE) == 0)
        return false;
    pthread_mutex_lock(&cq->lock);
    was = __atomic_exchange_n(&cq->signaled, 0, __ATOMIC_ACQ_REL) != 0;
    via_cq_signal(cq);
    pthread_mutex_unlock(&cq->lock);
    return was;
}

static ssize_t cq_sreadfrom(struct fid_cq *fid, void *buf, size_t count, fi_addr_t *src,
                            const void *cond, int timeout)
{
    struct via_cq *cq = via_container(fid, struct via_cq, fid);
    uint64_t start_ns = via_now_ns(), now_ns = start_ns;
    uint64_t spin_ns = start_ns + (uint64_t)via_settings.spin_us * 1000;
    uint64_t end_ns = start_ns + (uint64_t)(timeout < 0 ? 0 : timeout) * 1000000;
    int rc = open_fd(cq);
    ssize_t done;

    if (rc != 0)
        return rc;
    while ((done = cq_readfrom(fid, buf, count, src)) == -FI_EAGAIN) {
        struct pollfd look = {.fd = cq->epoll_fd, .events = POLLIN};
        int wait_ms = -1;

        if (take_signal(cq))
            return -FI_EAGAIN;
        now_ns = via_now_ns();
        if (timeout >= 0 && now_ns >= end_ns)
            return -FI_EAGAIN;
        if (now_ns < spin_ns) {
            sched_yield();
            continue;
        }
        if (timeout >= 0)
            wait_ms = (int)((end_ns - now_ns) / 1000000 + 1);
        if (waiting(cq) || __atomic_load_n(&cq->rdm, __ATOMIC_RELAXED) != NULL)
            wait_ms = WAITING_MS;
        if (poll(&look, 1, wait_ms) < 0)
            return -errno;
    }
    return done;
}

static ssize_t cq_sread(struct fid_cq *fid, void *buf, size_t count, const void *cond, int timeout)
{
    return cq_sreadfrom(fid, buf, count, NULL, cond, timeout);
}

static int cq_signal(struct fid_cq *fid)
{
    struct via_cq *cq = via_container(fid, struct via_cq, fid);

    pthread_mutex_lock(&cq->lock);
    __atomic_store_n(&cq->signaled, 1, __ATOMIC_RELEASE);
    via_cq_signal(cq);
    pthread_mutex_unlock(&cq->lock);
    return 0;
}

/* ---- life ------------------------------------------------------------------------------------ */

static int cq_close(struct fid *fid)
{
    struct via_cq *cq = via_container(fid, struct via_cq, fid.fid);

    if (__atomic_load_n(&cq->users, __ATOMIC_ACQUIRE) != 0)
        return -FI_EBUSY;
    via_cq_free(cq);
    return 0;
}

static int cq_control(struct fid *fid, int command, void *arg)
{
    struct via_cq *cq = via_container(fid, struct via_cq, fid.fid);
    /* With an endpoint of the second kind there is no descriptor, because its messages would not
     * make the descriptor readable. */
    bool may = __atomic_load_n(&cq->rdm, __ATOMIC_RELAXED) == NULL;
    int rc;

    /* ofi_rxm asks for the kind of the wait object before it asks for the descriptor. */
    if (command == FI_GETWAITOBJ) {
        *(enum fi_wait_obj *)arg = cq->wait_obj == FI_WAIT_NONE ? FI_WAIT_NONE
                                   : may                        ? FI_WAIT_FD
                                                                : FI_WAIT_UNSPEC;
        return 0;
    }
    if (command != FI_GETWAIT || !may)
        return -FI_ENOSYS;
    rc = open_fd(cq);
    if (rc == 0)
        *(int *)arg = cq->epoll_fd;
    return rc;
}

static struct fi_ops cq_fid_ops = {
    .size = sizeof(struct fi_ops),
    .close = cq_close,
    .bind = via_no_bind,
    .control = cq_control,
    .ops_open = via_no_ops_open,
    .tostr = via_no_tostr,
    .ops_set = via_no_ops_set,
};

static struct fi_ops_cq cq_ops = {
    .size = sizeof(struct fi_ops_cq),
    .read = cq_read,
    .readfrom = cq_readfrom,
    .readerr = cq_readerr,
    .sread = cq_sread,
    .sreadfrom = cq_sreadfrom,
    .signal = cq_signal,
    .strerror = cq_strerror,
};

int via_cq_open(struct fid_domain *fid, struct fi_cq_attr *attr, struct fid_cq **ret, void *context)
{
    struct via_domain *domain = via_container(fid, struct via_domain, fid);
    struct via_cq *cq;
    int rc;

    if (attr->wait_obj != FI_WAIT_NONE && attr->wait_obj != FI_WAIT_UNSPEC &&
        attr->wait_obj != FI_WAIT_FD)
        return -FI_ENOSYS;
    if (attr->format > FI_CQ_FORMAT_TAGGED || attr->wait_cond != FI_CQ_COND_NONE)
        return -FI_ENOSYS;
    /* Ignore attr->size, which is often far too large (ofi_rxm: 262,144). The queue grows with each
     * endpoint that is bound to it. */
    rc = via_cq_make(domain, &cq);
    if (rc != 0)
        return rc;
    cq->format = attr->format == FI_CQ_FORMAT_UNSPEC ? FI_CQ_FORMAT_CONTEXT : attr->format;
    cq->wait_obj = attr->wait_obj;
    cq->fid.fid.context = context;
    cq->fid.fid.ops = &cq_fid_ops;
    cq->fid.ops = &cq_ops;
    *ret = &cq->fid;
    return 0;
}

/*
 * How a loan comes about (lent.h): a program polls, or often sleeps for a VI. Then a thread of the
 * session asks vipd, and vipd offers the loan.
 *
 * Requests to vipd can wait for vipd, and polls must not. So polls leave requests about loans to
 * this thread. The session has it as soon as one of its connections can be on loan.
 */
#include "libvipl/lent_internal.h"

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include "libvipl/call.h"
#include "libvipl/lent_sock.h"

/* Two looks that are further apart than this, in ns, are a pause: the program does not poll. */
#define PAUSE_NS 2000000u
/* A program must poll for this time, in ns, without a pause before the library asks for a loan. */
#define STEADY_NS 1000000u
/* The library asks again after this time, in ns, at the earliest. */
#define ASK_AGAIN_NS   100000000u
#define EAGER_AGAIN_NS 1000000u
/* A program that polls seldom, or sleeps, asks after this number of uses, none of which is later
 * than this time, in ns, after the one before: without traffic, a loan is of no use.
 * A use is a sleep, or VIPL__LENT_TAKES descriptors that polls took. */
#define USES_ENOUGH   16u
#define USES_PAUSE_NS 20000000u
/* A probe is sent this often at most, with this time, in ns, between two of them. */
#define PROBES   3u
#define PROBE_NS 20000000u

/* ---- what a loan needs ------------------------------------------------------------------- */

/* Map the parts at their address, which stays reserved: a late call may still load words there. */
static bool parts_map(struct vipl__loans *loans, int fd)
{
    int flags = fd < 0 ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED;
    void *base = mmap(loans->parts, VIP_LOANS_BYTES, PROT_READ | PROT_WRITE,
                      flags | MAP_NORESERVE | (loans->parts == NULL ? 0 : MAP_FIXED), fd, 0);

    if (base == MAP_FAILED)
        return false;
    loans->parts = base;
    return true;
}

/* Make the file of the parts, and map it. False: no memory. */
static bool parts_make(struct vipl__session *session)
{
    struct vipl__loans *loans = session->loans;
    int fd = memfd_create("vipl-loans", MFD_CLOEXEC | MFD_ALLOW_SEALING);

    session->loans_fd = fd;
    return fd >= 0 && vipl__mem_file_grow(fd, VIP_LOANS_BYTES) == 0 && parts_map(loans, fd) &&
           vipl__shared_advise(loans->parts, VIP_LOANS_BYTES) == 0 &&
           fcntl(fd, F_ADD_SEALS,
                 F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_FUTURE_WRITE | F_SEAL_SEAL) == 0;
}

/* The session's parts, with a file for vipd; NULL: no memory. Under session->lock. */
static struct vipl__loans *loans_of(struct vipl__session *session)
{
    struct vipl__loans *loans = session->loans;

    if (loans == NULL) {
        loans = calloc(1, sizeof(*loans));
        if (loans == NULL)
            return NULL;
        pthread_mutex_init(&loans->regions, NULL);
        loans->session = session;
        __atomic_store_n(&session->loans, loans, __ATOMIC_RELEASE);
    }
    if (session->loans_fd < 0 && !parts_make(session)) {
        vipl__fd_close(&session->loans_fd);
        return NULL;
    }
    return loans;
}

/* Each connection begins with words that are zero. */
static void part_begin(struct vip_loan_part *part)
{
    memset(&part->owner, 0, sizeof(part->owner));
    memset(&part->counts, 0, sizeof(part->counts));
    vip_store32_release(&part->posted, 0);
}

/* Give the VI a part, if it has none and there is a free one. Under session->lock. */
static bool part_take(struct vipl__loans *loans, struct vipl__lent *lent)
{
    for (unsigned i = 0; i < VIP_LOANS_MAX && lent->part == NULL; i++)
        if (loans->of[i] == NULL) {
            part_begin(&loans->parts[i]);
            lent->number = i;
            __atomic_store_n(&loans->of[i], lent, __ATOMIC_RELEASE);
            __atomic_store_n(&lent->part, &loans->parts[i], __ATOMIC_RELEASE);
        }
    return lent->part != NULL;
}

/* Make the VI's socket, if it has none: bound to this NIC's address. Connect it to the peer's NIC.
 * Under session->lock. */
static bool sock_ready(struct vipl__lent *lent)
{
    const struct vipl__asks *asks = &lent->vi->asks;

    if (lent->sock < 0)
        lent->sock = vipl__lent_sock(lent->vi->session->address);
    return lent->sock >= 0 &&
           vipl__lent_sock_connect(lent->sock, asks->host,
                                   __atomic_load_n(&asks->host_len, __ATOMIC_RELAXED));
}

/* Make what a loan of this VI needs. NULL: it cannot have one. Under session->lock. */
static struct vipl__lent *prepare(struct vipl__vi *vi)
{
    struct vipl__session *session = vi->session;
    struct vipl__loans *loans = loans_of(session);
    struct vipl__lent *lent = vi->asks.made;

    if (loans == NULL || !session->direct || session->watched ||
        __atomic_load_n(&vi->asks.host_len, __ATOMIC_RELAXED) == 0)
        return NULL;
    if (lent == NULL) {
        lent = calloc(1, sizeof(*lent));
        if (lent == NULL)
            return NULL;
        lent->vi = vi;
        lent->sock = -1;
        __atomic_store_n(&vi->asks.made, lent, __ATOMIC_RELEASE);
    }
    if (vipl__lent_state_of(lent) != VIPL__LENT_NONE || !part_take(loans, lent))
        return NULL;
    return sock_ready(lent) && vipl__lent_runtime(lent) && vipl__lent_rest_ready(session) &&
                   vipl__cq_list_add(vi->queue[VIP_Q_SEND].cq, vi, VIPL__CQ_LOAN + VIP_Q_SEND) &&
                   vipl__cq_list_add(vi->queue[VIP_Q_RECV].cq, vi, VIPL__CQ_LOAN + VIP_Q_RECV)
               ? lent
               : NULL;
}

/* ---- the thread ------------------------------------------------------------------------- */

/* Keep vipd's probe, which vipl__lent_ask sends; not at once if it was `sent` now. */
static void probe_keep(struct vipl__lent *lent, const Vip__LoanReply *reply, bool sent)
{
    if (reply == NULL || reply->probe.len > sizeof(lent->probe))
        return;
    if (reply->probe.len > 0)
        memcpy(lent->probe, reply->probe.data, reply->probe.len);
    lent->probe_next_ns = sent ? vipl__now_ns() + PROBE_NS : 0;
    lent->probes = PROBES;
    __atomic_store_n(&lent->probe_len, (uint16_t)reply->probe.len, __ATOMIC_RELEASE);
}

/* Send the request. It always has the file of the parts: a next vipd does not have it yet. */
static void request_send(struct vipl__session *session, struct vipl__lent *lent,
                         Vip__LoanRequest *ask, bool asleep)
{
    Vip__Request request = VIP__REQUEST__INIT;
    int fds[2] = {session->ask_sock, session->loans_fd};
    Vip__Reply *reply = NULL;

    request.body_case = VIP__REQUEST__BODY_LOAN;
    request.loan = ask;
    if (vipl__call(session, "asking for a loan", &request, fds, 2, &reply) != VIP_SUCCESS)
        return;
    __atomic_store_n(&lent->pending_ns, vipl__now_ns() + ASK_AGAIN_NS, __ATOMIC_RELEASE);
    /* If the program sleeps, no thread polls that would send the probe. */
    if (asleep && reply->loan != NULL && reply->loan->probe.len > 0)
        (void)send(session->ask_sock, reply->loan->probe.data, reply->loan->probe.len,
                   MSG_DONTWAIT | MSG_NOSIGNAL);
    probe_keep(lent, reply->loan, asleep);
    vipl__reply_free(reply);
}

static void ask_send(struct vipl__vi *vi)
{
    struct vipl__session *session = vi->session;
    bool asleep = __atomic_load_n(&vi->asks.asked_asleep, __ATOMIC_RELAXED);
    Vip__LoanRequest ask = VIP__LOAN_REQUEST__INIT;
    struct vipl__lent *lent;

    pthread_mutex_lock(&session->lock);
    lent = prepare(vi);
    if (lent != NULL) {
        ask.has_vi = ask.has_part = ask.has_steady_ns = ask.has_port = 1;
        ask.port = vipl__lent_sock_port(lent->sock);
        ask.steady_ns = __atomic_load_n(&vi->asks.asked_ns, __ATOMIC_RELAXED);
        ask.vi = vi->index;
        ask.part = lent->number;
        vipl__loan_asleep(lent->part, asleep);
        /* The request may wait for other requests. If the VI ends meanwhile, its socket is closed,
         * and another file of the program may get the number of the socket. */
        session->ask_sock = fcntl(lent->sock, F_DUPFD_CLOEXEC, 0);
    }
    pthread_mutex_unlock(&session->lock);
    if (session->ask_sock >= 0)
        request_send(session, lent, &ask, asleep);
    vipl__fd_close(&session->ask_sock);
}

static void *run(void *arg)
{
    struct vipl__session *session = arg;
    struct vipl__loans *loans = session->loans;

    for (;;) {
        struct vipl__vi *vi;

        while (sem_wait(&loans->work) != 0)
            continue;
        if (__atomic_load_n(&session->closing, __ATOMIC_SEQ_CST) != 0)
            return NULL;
        for (unsigned i = 0; i < VIP_LOANS_MAX; i++) {
            struct vipl__lent *lent = __atomic_load_n(&loans->of[i], __ATOMIC_ACQUIRE);

            if (lent != NULL && vipl__lent_state_of(lent) == VIPL__LENT_BACK)
                vipl__lent_back_send(lent);
        }
        vi = __atomic_load_n(&loans->asks, __ATOMIC_ACQUIRE);
        if (vi == NULL)
            continue;
        ask_send(vi);
        __atomic_store_n(&loans->asks, NULL, __ATOMIC_RELEASE);
    }
}

/* Start the thread. Outcomes: true; false: no memory. Under session->lock. */
static bool start(struct vipl__session *session, struct vipl__loans *loans)
{
    sigset_t all, before;

    if (loans->started)
        return true;
    if (sem_init(&loans->work, 0, 0) != 0)
        return false;
    /* The new thread blocks all signals: only the application's own threads handle them. */
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    loans->started = pthread_create(&loans->thread, NULL, run, session) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return loans->started;
}

/* ---- polls ------------------------------------------------------------------------------ */

/* While vipd tries to lend, show it that the program still polls, and send the probe. */
static void beat(struct vipl__lent *lent, uint64_t now_ns)
{
    struct vip_loan_part *part =
        lent == NULL ? NULL : __atomic_load_n(&lent->part, __ATOMIC_RELAXED);

    if (part == NULL || vipl__lent_state_of(lent) != VIPL__LENT_NONE ||
        now_ns >= __atomic_load_n(&lent->pending_ns, __ATOMIC_ACQUIRE))
        return;
    __atomic_add_fetch(&part->owner.beat, 1, __ATOMIC_RELAXED);
    if (__atomic_load_n(&lent->probe_len, __ATOMIC_ACQUIRE) == 0 || now_ns < lent->probe_next_ns)
        return;
    lent->probe_next_ns = now_ns + PROBE_NS;
    (void)send(lent->sock, lent->probe, lent->probe_len, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (--lent->probes == 0)
        __atomic_store_n(&lent->probe_len, 0, __ATOMIC_RELAXED);
}

/* Has a thread slept, or woken up, since the last look, instead of polling? Under asks->busy. */
static bool slept(struct vipl__vi *vi)
{
    uint32_t sleeps = __atomic_load_n(&vi->asks.sleeps, __ATOMIC_RELAXED), before = vi->asks.slept;

    for (unsigned q = 0; q < 2; q++) {
        const struct vipl__cq *cq = __atomic_load_n(&vi->queue[q].cq, __ATOMIC_RELAXED);

        sleeps += cq == NULL ? 0 : __atomic_load_n(&cq->sleeps, __ATOMIC_RELAXED);
    }
    vi->asks.slept = sleeps;
    return sleeps != before;
}

/* Could the VI get a loan now? Under asks->busy. */
static bool may_ask(const struct vipl__vi *vi, uint64_t now_ns)
{
    const struct vipl__lent *lent = vipl__lent_of(vi);
    const struct vipl__lent *made = __atomic_load_n(&vi->asks.made, __ATOMIC_ACQUIRE);

    return now_ns >= vi->asks.next_ns && !vipl__lent_waited(vi) &&
           (lent == NULL || vipl__lent_state_of(lent) == VIPL__LENT_NONE) &&
           !vipl__is_gone(vi->session) &&
           __atomic_load_n(&vi->session->loans_known, __ATOMIC_RELAXED) &&
           (made == NULL || now_ns >= __atomic_load_n(&made->pending_ns, __ATOMIC_ACQUIRE));
}

/* Give the thread of the session's loans this request. Under asks->busy. */
static void ask(struct vipl__vi *vi, bool asleep, uint64_t since_ns, uint64_t now_ns)
{
    struct vipl__asks *asks = &vi->asks;
    struct vipl__vi *none = NULL;

    asks->next_ns =
        now_ns + (vi->session->loans_eager ? EAGER_AGAIN_NS
                                           : __atomic_load_n(&asks->again_ns, __ATOMIC_RELAXED));
    __atomic_store_n(&asks->asked_ns, now_ns - since_ns, __ATOMIC_RELAXED);
    __atomic_store_n(&asks->asked_asleep, asleep, __ATOMIC_RELAXED);
    if (__atomic_compare_exchange_n(&vi->session->loans->asks, &none, vi, false, __ATOMIC_SEQ_CST,
                                    __ATOMIC_SEQ_CST))
        vipl__lent_work(vi->session->loans);
}

/* Has the program polled for long enough? Under asks->busy. */
static bool polls_enough(struct vipl__vi *vi, uint64_t now_ns)
{
    struct vipl__asks *asks = &vi->asks;

    if (slept(vi) || now_ns - asks->polled_ns > PAUSE_NS)
        asks->steady_ns = now_ns;
    asks->polled_ns = now_ns;
    return now_ns - asks->steady_ns >= STEADY_NS || vi->session->loans_eager;
}

void vipl__lent_ask(struct vipl__vi *vi)
{
    uint64_t now_ns = vipl__now_ns();

    if (__atomic_exchange_n(&vi->asks.busy, 1, __ATOMIC_ACQUIRE) != 0)
        return; /* another thread polls the same VI */
    beat(__atomic_load_n(&vi->asks.made, __ATOMIC_ACQUIRE), now_ns);
    if (polls_enough(vi, now_ns) && may_ask(vi, now_ns))
        ask(vi, false, vi->asks.steady_ns, now_ns);
    __atomic_store_n(&vi->asks.busy, 0, __ATOMIC_RELEASE);
}

/* The program uses this VI. Does it do so often? Under asks->busy. */
static bool uses_enough(struct vipl__vi *vi, uint64_t now_ns)
{
    struct vipl__asks *asks = &vi->asks;

    if (now_ns - asks->use_ns > USES_PAUSE_NS) {
        asks->uses = 0;
        asks->uses_ns = now_ns;
    }
    asks->use_ns = now_ns;
    asks->uses++;
    return asks->uses >= USES_ENOUGH || vi->session->loans_eager;
}

/* Could a thread rest, if the VI were on loan? An earlier version of vipd does not tell it when the
 * loan is over; this is known after the first loan. Under asks->busy. */
static bool may_rest(const struct vipl__vi *vi)
{
    const struct vipl__lent *lent = vipl__lent_of(vi);

    return __atomic_load_n(&vi->session->rest.busy, __ATOMIC_RELAXED) == 0 &&
           (lent == NULL || __atomic_load_n(&lent->tells, __ATOMIC_RELAXED));
}

static void ask_after_use(struct vipl__vi *vi, bool asleep)
{
    uint64_t now_ns = vipl__now_ns();

    if (__atomic_exchange_n(&vi->asks.busy, 1, __ATOMIC_ACQUIRE) != 0)
        return;
    if (uses_enough(vi, now_ns) && (!asleep || may_rest(vi)) && may_ask(vi, now_ns)) {
        ask(vi, asleep, vi->asks.uses_ns, now_ns);
        vi->asks.uses = 0; /* what was before counts for one request */
        vi->asks.uses_ns = now_ns;
    }
    __atomic_store_n(&vi->asks.busy, 0, __ATOMIC_RELEASE);
}

void vipl__lent_ask_asleep(struct vipl__vi *vi)
{
    ask_after_use(vi, true);
}

void vipl__lent_ask_took(struct vipl__vi *vi)
{
    const struct vipl__lent *lent = vipl__lent_of(vi);

    if (lent == NULL || vipl__lent_state_of(lent) == VIPL__LENT_NONE)
        ask_after_use(vi, false);
}

/* ---- events of vipd --------------------------------------------------------------------- */

void vipl__lent_connected(struct vipl__vi *vi, const uint8_t *host, size_t host_len)
{
    struct vipl__lent *lent = vi->asks.made;
    struct vipl__loans *loans;

    if (host_len > sizeof(vi->asks.host) || vi->session->loans_no)
        host_len = 0;
    loans = host_len == 0 ? NULL : loans_of(vi->session);
    if (loans == NULL || !start(vi->session, loans))
        host_len = 0;
    if (host_len > 0)
        memcpy(vi->asks.host, host, host_len);
    /* An offer for the connection before this one may have come late. */
    if (lent != NULL && vipl__lent_seize(lent)) {
        vipl__loan_end(lent->loan);
        vipl__lent_state_end(lent, VIPL__LENT_NONE);
    }
    if (lent != NULL) {
        __atomic_add_fetch(&lent->conns, 1, __ATOMIC_SEQ_CST);
        /* The words of the new connection may have the number of the last loan before it. */
        vipl__spin_lock(&vi->session->post_lock);
        lent->out = lent->ask = 0;
        vipl__spin_unlock(&vi->session->post_lock);
    }
    __atomic_store_n(&vi->asks.again_ns, ASK_AGAIN_NS, __ATOMIC_RELAXED);
    if (lent != NULL && lent->part != NULL)
        part_begin(lent->part);
    __atomic_store_n(&vi->asks.host_len, (uint8_t)host_len, __ATOMIC_RELEASE);
}

/* The terms of vipd's event; false: they make no sense. */
static bool terms_get(struct vipl__lent *lent, const Vip__Lent *event)
{
    struct vipl__vi *vi = lent->vi;
    struct vipl__loan_terms *terms = &lent->terms;

    if (event->number == 0 ||
        !vipl__lent_sock_connect(lent->sock, event->host.data, event->host.len) ||
        event->n_peer_reads > VIP_COUNTS_READS_MAX || event->packet_bytes < VIP_PACKET_BYTES_MIN ||
        event->packet_bytes > VIP_PACKET_BYTES_MAX)
        return false;
    *terms = (struct vipl__loan_terms){
        .number = event->number,
        .part = lent->part,
        .vipd = &vipl__lent_head(lent)->loan,
        .sock = lent->sock,
        .vi = vi->index,
        .generation = vi->generation,
        .ptag = vi->ptag,
        .attrs = {.level = (uint16_t)vi->attrs.ReliabilityLevel,
                  .max_transfer_bytes = (uint32_t)vi->attrs.MaxTransferSize,
                  .enable_rdma_write = vi->attrs.EnableRdmaWrite != 0,
                  .enable_rdma_read = vi->attrs.EnableRdmaRead != 0},
        .engine = ENG_CONFIG_DEFAULT,
        .conn = {.local_id = event->local_id,
                 .remote_id = event->remote_id,
                 .local_epoch = event->local_epoch,
                 .remote_epoch = event->remote_epoch,
                 .packet_bytes = event->packet_bytes,
                 .window_bytes = event->window_bytes,
                 .features = event->features,
                 .rtt_ns = event->rtt_ns},
        .peer = {.done = event->peer_done, .reads = (uint32_t)event->n_peer_reads},
        .receive = event->receive,
    };
    for (size_t i = 0; i < event->n_peer_reads; i++)
        terms->peer.read[i] = event->peer_reads[i];
    terms->engine.rto_min_ns = event->rto_min_ns;
    terms->engine.rto_max_ns = event->rto_max_ns;
    terms->engine.rto_initial_ns = event->rto_initial_ns;
    terms->engine.ack_delay_ns = event->ack_delay_ns;
    terms->engine.conn_timeout_ns = event->conn_timeout_ns;
    terms->engine.ack_every_packets = event->ack_every_packets;
    terms->engine.congestion = event->congestion;
    return getrandom(&terms->engine.seed, sizeof(terms->engine.seed), 0) ==
           (ssize_t)sizeof(terms->engine.seed);
}

void vipl__lent_offer(struct vipl__vi *vi, const Vip__Lent *event)
{
    struct vipl__lent *lent = vi->asks.made;
    bool good;

    /* The loan before this one is over, even if no poll has noticed it yet. */
    if (lent == NULL || lent->part == NULL || vipl__lent_state_of(lent) == VIPL__LENT_BACK ||
        __atomic_load_n(&vi->asks.host_len, __ATOMIC_RELAXED) == 0)
        return;
    if (vipl__lent_seize(lent))
        vipl__loan_end(lent->loan);
    else if (!vipl__lent_change(lent, VIPL__LENT_NONE, VIPL__LENT_BEGINS))
        return;
    vipl__spin_lock(&vi->session->post_lock);
    vipl__lent_out_ends(lent);
    good = terms_get(lent, event);
    __atomic_store_n(&lent->offered, event->number, __ATOMIC_RELAXED);
    __atomic_store_n(&lent->tells, event->tells != 0, __ATOMIC_RELAXED);
    vipl__spin_unlock(&vi->session->post_lock);
    if (!good) {
        vipl__lent_state_end(lent, VIPL__LENT_NONE);
        return;
    }
    __atomic_store_n(&lent->pending_ns, 0, __ATOMIC_RELEASE);
    __atomic_store_n(&vi->lent, lent, __ATOMIC_RELEASE);
    __atomic_store_n(&lent->state, VIPL__LENT_OFFERED, __ATOMIC_SEQ_CST);
    /* A call that ends the connection at the same time may not have found the offer. */
    if (__atomic_load_n(&vi->asks.host_len, __ATOMIC_SEQ_CST) == 0)
        vipl__lent_stop(vi);
}

/* ---- the next vipd ---------------------------------------------------------------------- */

void vipl__lent_away(struct vipl__vi *vi, struct vipl__lent_past *ret)
{
    struct vipl__lent *lent = vi->asks.made;
    const struct vip_loan_vipd *words;

    *ret = (struct vipl__lent_past){0};
    if (lent == NULL || lent->part == NULL)
        return;
    if (vipl__lent_seize(lent)) {
        vipl__loan_end(lent->loan);
        vipl__lent_state_end(lent, VIPL__LENT_NONE);
    }
    words = &vipl__lent_head(lent)->loan;
    if (vip_load32(&words->lent) == vip_load32(&words->taken))
        return;
    ret->number = vip_load32(&words->lent);
    ret->used = lent->part->owner.number == ret->number;
    ret->at = lent->part->owner.checkpoint;
}

void vipl__lent_told(struct vipl__vi *vi)
{
    struct vipl__lent *lent = vi->asks.made;

    if (lent == NULL || lent->part == NULL)
        return;
    vipl__spin_lock(&vi->session->post_lock);
    lent->out = lent->ask = 0;
    vipl__spin_unlock(&vi->session->post_lock);
    part_begin(lent->part); /* the next vipd gives the part to the VI anew */
}

/* ---- the end ---------------------------------------------------------------------------- */

void vipl__lent_dead(struct vipl__vi *vi)
{
    struct vipl__lent *lent = vi->asks.made;

    vipl__lent_stop(vi);
    if (lent == NULL)
        return;
    vipl__spin_lock(&vi->session->post_lock);
    lent->out = lent->ask = 0;
    vipl__spin_unlock(&vi->session->post_lock);
}

void vipl__lent_reset(struct vipl__vi *vi)
{
    struct vipl__lent *lent = vi->asks.made;

    vi->asks.next_ns = 0;
    vipl__lent_dead(vi);
    if (lent == NULL)
        return;
    /* The thread of the session's loans may be late: it no longer finds this loan to give back. */
    (void)vipl__lent_change(lent, VIPL__LENT_BACK, VIPL__LENT_NONE);
    vipl__cq_list_remove(vi->queue[VIP_Q_SEND].cq, vi);
    vipl__cq_list_remove(vi->queue[VIP_Q_RECV].cq, vi);
    /* A poll of another thread may now send a probe (beat). */
    while (__atomic_exchange_n(&vi->asks.busy, 1, __ATOMIC_ACQUIRE) != 0)
        sched_yield();
    vipl__fd_close(&lent->sock);
    if (lent->part != NULL)
        __atomic_store_n(&vi->session->loans->of[lent->number], NULL, __ATOMIC_RELEASE);
    lent->part = NULL;
    __atomic_store_n(&lent->pending_ns, 0, __ATOMIC_RELAXED);
    __atomic_store_n(&vi->asks.busy, 0, __ATOMIC_RELEASE);
    for (unsigned q = 0; q < 2; q++) {
        __atomic_store_n(&lent->queue[q].done, 0, __ATOMIC_RELAXED);
        lent->queue[q].taken = lent->queue[q].reported = 0;
    }
}

void vipl__lent_join(struct vipl__session *session)
{
    struct vipl__loans *loans = session->loans;

    if (loans == NULL || !loans->started)
        return;
    vipl__lent_work(loans);
    pthread_join(loans->thread, NULL);
    (void)sem_destroy(&loans->work);
    loans->started = false;
    loans->asks = NULL;
}

void vipl__lent_close(struct vipl__session *session)
{
    for (unsigned i = 0; i < VIP_VI_MAX; i++) {
        struct vipl__vi *vi = session->vi[i];

        if (vi != NULL)
            vipl__lent_reset(vi);
    }
    if (session->loans == NULL)
        return;
    if (session->loans->parts != NULL)
        (void)parts_map(session->loans, -1);
    vipl__fd_close(&session->loans_fd);
}

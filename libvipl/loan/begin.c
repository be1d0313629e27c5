/* Beginning and end of a loan, and the calls that need no stay. */
#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#include "libvipl/loan/internal.h"
#include "proto/assert.h"

static size_t lines(size_t bytes)
{
    return (bytes + 63) & ~(size_t)63;
}

/* Bytes of the object, with the engine, its VI and memory for packets that arrive and that leave.
 * Untouched pages of a mapping take no memory. */
static size_t whole_bytes(void)
{
    return lines(sizeof(struct vipl__loan)) + lines(eng_bytes()) + lines(eng_vi_bytes()) +
           2 * lines(VIP_PACKET_BYTES_MAX);
}

int vipl__loan_new(const struct vipl__loan_host *host, struct vipl__loan **ret)
{
    struct vipl__loan *loan =
        mmap(NULL, whole_bytes(), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    uint8_t *at = (uint8_t *)loan;

    if (loan == MAP_FAILED)
        return -ENOMEM;
    loan->host = *host;
    at += lines(sizeof(*loan));
    loan->eng_memory = at;
    at += lines(eng_bytes());
    loan->vi_memory = at;
    at += lines(eng_vi_bytes());
    loan->inbox.memory = at;
    loan->burst.memory = at + lines(VIP_PACKET_BYTES_MAX);
    *ret = loan;
    return 0;
}

void vipl__loan_free(struct vipl__loan *loan)
{
    if (loan == NULL)
        return;
    vipl__loan_end(loan);
    munmap(loan, whole_bytes());
}

/* Free the engine's memory. Under the lock. */
static void drop(struct vipl__loan *loan)
{
    if (loan->eng == NULL)
        return;
    vipl__loan_tell_counts(loan);
    eng_vi_destroy(loan->eng, loan->terms.vi);
    vipl__held_deinit(&loan->helds);
    loan->inbox.at = loan->inbox.end = 0;
    loan->eng = NULL;
    loan->terms.number = 0;
}

/* Build the engine where vipd's engine has paused. Outcomes: 0; -EPROTO. Under the lock. */
static int build(struct vipl__loan *loan, uint64_t now_ns)
{
    const struct vipl__loan_terms *terms = &loan->terms;
    uint32_t posted = vip_load32_acquire(&loan->terms.part->posted);

    memset(loan->eng_memory, 0, eng_bytes());
    memset(loan->vi_memory, 0, eng_vi_bytes());
    loan->eng = eng_init(loan->eng_memory, &loan->terms.engine, &vipl__loan_ops, loan, now_ns);
    eng_vi_create(loan->eng, terms->vi, loan->vi_memory, &terms->attrs);
    vipl__held_init(&loan->helds, terms->conn.packet_bytes);
    eng_vi_restore(loan->eng, terms->vi, &terms->conn, terms->checkpoint.completed,
                   terms->checkpoint.done, now_ns);
    (void)vipl__loan_take_posts(loan, now_ns);
    if ((int32_t)(loan->sends - posted) < 0)
        return -EPROTO; /* a send that has not completed is not in the table */
    return eng_vi_rebind(loan->eng, terms->vi, &terms->conn, &terms->peer, now_ns);
}

bool vipl__loan_enter(struct vipl__loan *loan, const struct vipl__loan_terms *terms)
{
    VIP_ASSERT(loan->eng == NULL && terms->number != 0);
    loan_owner_init(&loan->owner, &terms->part->owner, terms->vipd);
    return loan_enter(&loan->owner, terms->number);
}

int vipl__loan_begin(struct vipl__loan *loan, const struct vipl__loan_terms *terms, uint64_t now_ns)
{
    int rc;

    VIP_ASSERT(loan->eng == NULL && terms->engine.latency == NULL);
    loan->terms = *terms;
    if (loan->terms.engine.held_packets_max > VIPL__LOAN_HELD - 1)
        loan->terms.engine.held_packets_max = VIPL__LOAN_HELD - 1; /* one slot is always free */
    loan->before = loan->terms.part->counts;
    loan->sends = terms->checkpoint.completed;
    __atomic_store_n(&loan->may_wait, loan->sends, __ATOMIC_RELAXED);
    loan->receives = terms->receive;
    loan->received = terms->checkpoint.received;
    loan->now_ns = now_ns;
    rc = build(loan, now_ns);
    vipl__loan_leave(loan);
    loan->event_count = 0; /* the VI was Connected before, too */
    if (rc != 0)
        drop(loan);
    return rc;
}

void vipl__loan_end(struct vipl__loan *loan)
{
    vipl__loan_lock(loan);
    drop(loan);
    vipl__loan_unlock(loan);
}

bool vipl__loan_event(struct vipl__loan *loan, struct eng_event *ret)
{
    bool got;

    vipl__loan_lock(loan);
    got = loan->event_count > 0;
    if (got) {
        *ret = loan->event[loan->event_first];
        loan->event_first = (loan->event_first + 1) % VIPL__LOAN_EVENTS;
        loan->event_count--;
    }
    vipl__loan_unlock(loan);
    return got;
}

void vipl__loan_asleep(struct vip_loan_part *part, bool asleep)
{
    loan_words_asleep(&part->owner, asleep);
}

void vipl__loan_counts(struct vipl__loan *loan, struct vipl__loan_counts *ret)
{
    vipl__loan_lock(loan);
    *ret = loan->counts;
    vipl__loan_unlock(loan);
}

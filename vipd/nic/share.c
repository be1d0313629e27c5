/*
 * Processor time of a NIC: the end of a turn, and the parts of users that compete for the NIC.
 *
 * While several sessions have work in a turn, vipd measures the time of each session and adds it to
 * the session and to its user. A user that is ahead of the user with the least time waits until the
 * latter has caught up or has no work. The same rule holds among the sessions of a user. If a user
 * (session) had no work left after the last turn, vipd raises its time to the smallest time of the
 * users (sessions) with work left. So no user saves up time, and no user waits for another user
 * that needs less than its part. If only one session has work, vipd does not measure time.
 *
 * Only processor time counts: a thread that has lost the processor does not spend time.
 *
 * Owns: struct nic_user, the meter. Does not own: the work of a turn (nic.c, tx.c, rx.c).
 */
#include "vipd/nic/share.h"

#include <stdlib.h>

#include "proto/assert.h"
#include "vipd/nic/internal.h"

/* ---- users ------------------------------------------------------------------------------- */

static struct nic_user *user_find(struct nic *nic, uint32_t uid)
{
    for (struct nic_list *item = nic->users.next; item != &nic->users; item = item->next) {
        struct nic_user *user = NIC_ITEM(item, struct nic_user, link);

        if (user->uid == uid)
            return user;
    }
    return NULL;
}

static void user_free(struct nic *nic, struct nic_user *user)
{
    VIP_ASSERT(!user->rings && !user->held_count && !user->held_bytes && !user->kept_bytes);
    nic_list_del(&user->link);
    nic->user_count--;
    free(user);
}

/* Forget users without sessions, but only if there are many users: a forgotten user that returns
 * counts as a user that has used no time. */
static void users_trim(struct nic *nic)
{
    struct nic_list *next;

    if (nic->user_count < NIC_USERS_KEPT)
        return;
    for (struct nic_list *item = nic->users.next; item != &nic->users; item = next) {
        struct nic_user *user = NIC_ITEM(item, struct nic_user, link);

        next = item->next;
        if (!user->session_count)
            user_free(nic, user);
    }
}

struct nic_user *nic_user_join(struct nic *nic, uint32_t uid)
{
    struct nic_user *user = user_find(nic, uid);

    if (!user) {
        users_trim(nic);
        user = calloc(1, sizeof(*user));
        if (!user)
            return NULL;
        user->uid = uid;
        nic_list_add_tail(&nic->users, &user->link);
        nic->user_count++;
    }
    user->session_count++;
    return user;
}

void nic_user_leave(struct nic_session *session)
{
    struct nic *nic = session->nic;

    if (nic->meter.session == session)
        nic->meter.session = NULL;
    session->user->session_count--;
}

void nic_users_deinit(struct nic *nic)
{
    struct nic_list *next;

    for (struct nic_list *item = nic->users.next; item != &nic->users; item = next) {
        next = item->next;
        user_free(nic, NIC_ITEM(item, struct nic_user, link));
    }
}

bool nic_pool_room(const struct nic_pool *pool, uint64_t more)
{
    uint64_t room = pool->max > pool->used ? pool->max - pool->used : 0;

    if (more > room)
        return false;
    if (pool->have + more <= pool->small)
        return true;
    return room >= pool->reserve + more &&
           pool->have + more <= pool->times * (room - pool->reserve);
}

/* ---- the meter --------------------------------------------------------------------------- */

/* Processor time of a step that took d_ns by the clock. */
static uint64_t cpu_of(struct nic *nic, uint64_t d_ns)
{
    struct nic_meter *meter = &nic->meter;
    uint64_t cpu_ns, most_ns = NIC_TURN_NS;

    if (d_ns <= NIC_SUSPECT_NS || !nic->config.cpu_clock) {
        meter->counted_ns += d_ns;
        return d_ns;
    }
    cpu_ns = nic->config.cpu_clock();
    /* All times counted for sessions together are at most the processor time of the thread. */
    if (meter->synced)
        most_ns = cpu_ns - meter->cpu_ns > meter->counted_ns
                      ? cpu_ns - meter->cpu_ns - meter->counted_ns
                      : 0;
    meter->synced = true;
    meter->cpu_ns = cpu_ns;
    meter->counted_ns = 0;
    return d_ns < most_ns ? d_ns : most_ns;
}

static void add(struct nic_share *share, uint64_t ns)
{
    share->spent_ns += ns;
    share->time_ns += ns;
}

/* Add the time since the last mark to the session that spent it. */
static void settle(struct nic *nic)
{
    struct nic_meter *meter = &nic->meter;
    uint64_t now_ns = nic->config.clock(), ns;

    /* Another thread may have read the clock last, so now_ns may be earlier than mark_ns. */
    ns = now_ns > meter->mark_ns ? cpu_of(nic, now_ns - meter->mark_ns) : 0;
    meter->mark_ns = now_ns;
    if (!meter->session)
        return;
    nic->counts.shared_time += ns;
    add(&meter->session->share, ns);
    add(&meter->session->user->share, ns);
}

void nic_share_pass(struct nic *nic, struct nic_session *session)
{
    settle(nic);
    nic->meter.session = session;
}

void nic_charge(struct nic *nic, uint32_t uid, uint64_t cpu_ns, bool own_thread)
{
    struct nic_user *user = user_find(nic, uid);

    nic->counts.control_time += cpu_ns;
    /* Count this time now, so that the next step does not count it again. */
    if (own_thread)
        nic->meter.counted_ns += cpu_ns;
    if (nic->config.clock)
        nic->meter.mark_ns = nic->config.clock();
    if (user)
        add(&user->share, cpu_ns);
}

bool nic_has_one_user(const struct nic *nic)
{
    return nic->users.next == nic->users.prev;
}

/* ---- a turn ------------------------------------------------------------------------------ */

/* The member `one` of the group `all` has work in this turn. */
static void sharing_join(struct nic_sharing *all, struct nic_share *one, uint64_t turn)
{
    if (one->turn == turn)
        return;
    if ((one->turn + 1 != turn || !one->waits) && all->floor_ns > one->spent_ns)
        one->spent_ns = all->floor_ns;
    one->turn = turn;
    one->waits = false;
    if (all->turn != turn) {
        all->turn = turn;
        all->busy = 0;
        all->least_ns = all->left_ns = UINT64_MAX;
        all->most_ns = 0;
    }
    all->busy++;
    if (one->spent_ns < all->least_ns)
        all->least_ns = one->spent_ns;
}

/* At the end of a turn: enter the time of the member `one` into the figures of its group. */
static void sharing_leave(struct nic_sharing *all, struct nic_share *one)
{
    if (one->waits && one->spent_ns < all->left_ns)
        all->left_ns = one->spent_ns;
    if (one->spent_ns > all->most_ns)
        all->most_ns = one->spent_ns;
}

static void floor_raise(struct nic_sharing *all)
{
    uint64_t to_ns = all->left_ns != UINT64_MAX ? all->left_ns : all->most_ns;

    if (to_ns > all->floor_ns)
        all->floor_ns = to_ns;
}

static bool has_work(const struct nic_session *session)
{
    const struct nic *nic = session->nic;

    return ((!nic_list_empty(&session->asks) || nic_session_has_posts(session)) &&
            !nic_session_throttled(session)) ||
           (!nic->tx_retry_ns && eng_tx_ready(session->eng)) || eng_replay_waits(session->eng) ||
           session->spares;
}

/* Does the NIC have only one session? Then vipd neither measures nor divides time. */
static bool alone(const struct nic *nic)
{
    return nic->sessions.next == nic->sessions.prev;
}

void nic_share_begin(struct nic *nic)
{
    struct nic_meter *meter = &nic->meter;
    uint64_t turn = nic->counts.turns;
    unsigned busy = 0;

    meter->over = meter->skipped = meter->open = meter->contended = meter->several = false;
    meter->units = 0;
    meter->turn_ns = nic->now_ns;
    if (alone(nic))
        return;
    for (struct nic_list *item = nic->sessions.next; item != &nic->sessions; item = item->next) {
        struct nic_session *session = NIC_ITEM(item, struct nic_session, link);

        if (!has_work(session))
            continue;
        busy++;
        sharing_join(&session->user->sessions, &session->share, turn);
        sharing_join(&nic->sharing, &session->user->share, turn);
    }
    meter->contended = busy > 1 && nic->config.clock;
    if (!meter->contended)
        return;
    meter->several = nic->sharing.busy > 1;
    if (meter->several)
        meter->contended_ns = nic->now_ns;
    if (meter->turn + 1 != turn) {
        meter->mark_ns = nic->config.clock();
        meter->session = NULL;
        meter->counted_ns = 0;
        meter->synced = meter->several && nic->config.cpu_clock;
        if (meter->synced)
            meter->cpu_ns = nic->config.cpu_clock();
    }
    meter->turn = turn;
}

/*
 * Add to due_ns the session's fair part of the last turn in which it had work. If this turn
 * finished the work, the session needed only the time that it used in both turns: its part is at
 * most this time.
 */
static void due_settle(struct nic_share *one)
{
    uint64_t had_ns = one->time_ns - one->told_ns, asked_ns = one->had_ns + had_ns;

    one->due_ns += one->waits || asked_ns > one->left_ns ? one->left_ns : asked_ns;
    one->left_ns = 0;
    one->had_ns = had_ns;
    one->told_ns = one->time_ns;
}

/* Divide the time of the turn into equal parts for the users with work. Divide each user's part
 * into equal parts for the user's sessions with work. */
static void tell_parts(struct nic *nic)
{
    uint64_t took_ns = nic->counts.shared_time - nic->meter.split_ns;

    nic->meter.split_ns = nic->counts.shared_time;
    for (struct nic_list *item = nic->sessions.next; item != &nic->sessions; item = item->next) {
        struct nic_session *session = NIC_ITEM(item, struct nic_session, link);

        if (!nic_share_had_work(session))
            continue;
        session->share.waits = has_work(session);
        sharing_leave(&session->user->sessions, &session->share);
        due_settle(&session->share);
        if (!session->share.waits)
            continue;
        session->user->share.waits = true;
        session->share.left_ns = took_ns / nic->sharing.busy / session->user->sessions.busy;
    }
    for (struct nic_list *item = nic->users.next; item != &nic->users; item = item->next) {
        struct nic_user *user = NIC_ITEM(item, struct nic_user, link);

        if (user->share.turn != nic->counts.turns)
            continue;
        floor_raise(&user->sessions);
        sharing_leave(&nic->sharing, &user->share);
    }
    floor_raise(&nic->sharing);
}

/* The time up to the next turn, in which vipd takes packets from the link, belongs to no
 * session. */
void nic_share_end(struct nic *nic)
{
    if (nic->meter.contended) {
        nic_share_pass(nic, NULL);
        tell_parts(nic);
    }
    nic->meter.contended = false;
    if (nic->meter.over)
        nic->counts.turns_cut++;
}

bool nic_share_first(struct nic_session *session)
{
    struct nic *nic = session->nic;
    const struct nic_user *user = session->user;

    if (nic->meter.open)
        return true;
    if ((nic->meter.several && user->share.spent_ns > nic->sharing.least_ns + NIC_SLICE_NS) ||
        (nic_share_had_work(session) &&
         session->share.spent_ns > user->sessions.least_ns + NIC_SLICE_NS)) {
        nic->meter.skipped = true;
        return false;
    }
    session->share.first = nic->counts.turns;
    return true;
}

bool nic_share_ahead(const struct nic *nic)
{
    if (!nic->meter.skipped || nic->meter.over)
        return false;
    for (struct nic_list *item = nic->sessions.next; item != &nic->sessions; item = item->next) {
        struct nic_session *session = NIC_ITEM(item, struct nic_session, link);

        if (session->share.first == nic->counts.turns && has_work(session))
            return true;
    }
    return false;
}

bool nic_share_open(struct nic *nic, bool did)
{
    if (!nic->meter.skipped || nic->meter.over || (did && nic_share_ahead(nic)))
        return false;
    nic->meter.open = true;
    return true;
}

bool nic_share_look(struct nic *nic)
{
    struct nic_meter *meter = &nic->meter;
    bool shared = nic->now_ns - meter->contended_ns < NIC_SHARED_FOR_NS;

    if (meter->over || !nic->config.clock)
        return meter->over;
    meter->units = 0;
    meter->over =
        nic->config.clock() - meter->turn_ns >= (shared ? NIC_TURN_SHARED_NS : NIC_TURN_NS);
    return meter->over;
}

uint64_t nic_session_time_ns(const struct nic_session *session)
{
    return session->share.time_ns;
}

uint64_t nic_session_due_ns(const struct nic_session *session)
{
    return session->share.due_ns;
}

/*
 * Events for a program: each call of the NIC's sink becomes a message on the event socket, in
 * order. If the socket is full, the message waits in a bounded queue. If the queue is full, the
 * session ends.
 */
#include "vipd/client/client.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "proto/assert.h"
#include "vipd/client/internal.h"
#include "vipd/nic/loan.h"
#include "vipd/ticket.h"

#define PLACED_PER_CALL 64 /* largest number of PlaceDone messages of one client in a row */

static int send_now(const struct session *session, const uint8_t *bytes, size_t len)
{
    ssize_t n;

    /* MSG_DONTWAIT: vipd must not wait for a client. */
    do
        n = send(session->event_sock, bytes, len, MSG_DONTWAIT | MSG_NOSIGNAL);
    while (n < 0 && errno == EINTR);
    return n < 0 ? -errno : 0;
}

static void queue_event(struct client *client, const Vip__Event *what, const uint8_t *bytes,
                        size_t len)
{
    struct session *session = client->session;
    struct client_event *event;

    if (session->events_queued >= client->vipd->config->events_queued) {
        client_end(client, CLIENT_END_EVENTS, "[limits] events_queued are waiting");
        return;
    }
    event = malloc(sizeof(*event) + len);
    if (!event) {
        client_end(client, CLIENT_END_INTERNAL, "no memory for an event");
        return;
    }
    event->next = NULL;
    event->len = (uint32_t)len;
    event->place = what->body_case == VIP__EVENT__BODY_PLACE;
    memcpy(event->bytes, bytes, len);
    *session->events_tail = event;
    session->events_tail = &event->next;
    session->events_queued++;
}

void events_listen(struct session *session)
{
    vipd_watch_set(session->event_watch, VIPD_READ | (session->events ? VIPD_WRITE : 0));
}

void events_flush(struct client *client)
{
    struct session *session = client->session;
    int r = 0;

    while (session->events && client->end == CLIENT_END_NONE) {
        struct client_event *event = session->events;

        r = send_now(session, event->bytes, event->len);
        if (r == -EAGAIN)
            break;
        if (r < 0) {
            client_end(client, CLIENT_END_DIED, "the event socket is closed");
            break;
        }
        session->events = event->next;
        if (!session->events)
            session->events_tail = &session->events;
        session->events_queued--;
        free(event);
    }
    events_listen(session);
}

bool events_hold_data(const struct session *session)
{
    const struct client_event *event = session->events;

    while (event && !event->place)
        event = event->next;
    return event != NULL;
}

void events_drop(struct session *session)
{
    struct client_event *next;

    for (struct client_event *event = session->events; event; event = next) {
        next = event->next;
        free(event);
    }
    session->events = NULL;
    session->events_tail = &session->events;
    session->events_queued = 0;
}

static void send_event(struct client *client, const Vip__Event *event)
{
    /* The largest event has an address or a ticket, private data, and one sentence. */
    uint8_t bytes[4096];
    size_t len = vip__event__get_packed_size(event);
    struct session *session = client->session;
    int r;

    VIP_ASSERT(len > 0 && len <= sizeof(bytes));
    /* A session that has ended gets no more events. */
    if (client->end != CLIENT_END_NONE)
        return;
    vipd_count(&client->vipd->counters.events);
    vip__event__pack(event, bytes);
    /* An event that a request causes comes after the request's reply, because the event may have a
     * number that the program learns from the reply. */
    if (session->events || client->answering) {
        if (!client->answering)
            vipd_count(&client->vipd->counters.events_delayed);
        queue_event(client, event, bytes, len);
        return;
    }
    r = send_now(session, bytes, len);
    if (r == -EAGAIN) {
        vipd_count(&client->vipd->counters.events_delayed);
        queue_event(client, event, bytes, len);
        vipd_watch_set(session->event_watch, VIPD_READ | VIPD_WRITE);
    } else if (r < 0) {
        client_end(client, CLIENT_END_DIED, "the event socket is closed");
    }
}

/* Copy the text of a reason, cut to the size of the buffer. */
static char *event_reason(const char *why, char *buf, size_t buf_bytes)
{
    if (!why)
        return NULL;
    strncpy(buf, why, buf_bytes - 1);
    buf[buf_bytes - 1] = '\0';
    return buf;
}

static void fill_attributes(Vip__ViAttributes *to, const struct vip_cm_attrs *from)
{
    vip__vi_attributes__init(to);
    to->has_reliability_level = true;
    to->reliability_level = from->level;
    to->has_max_transfer_size = true;
    to->max_transfer_size = from->max_transfer_bytes;
    to->has_qos = true;
    to->qos = from->qos;
    to->has_enable_rdma_write = true;
    to->enable_rdma_write = from->rdma_write;
    to->has_enable_rdma_read = true;
    to->enable_rdma_read = from->rdma_read;
}

static void on_incoming(void *ctx, uint64_t wait_id, uint64_t conn_handle,
                        const struct vip_addr *remote, const struct vip_cm_attrs *attrs,
                        const struct vip_private *data)
{
    Vip__ConnIncoming incoming = VIP__CONN_INCOMING__INIT;
    Vip__NetAddress address = VIP__NET_ADDRESS__INIT;
    Vip__ViAttributes attributes;
    Vip__Event event = VIP__EVENT__INIT;

    fill_attributes(&attributes, attrs);
    address.has_host = true;
    address.host.len = remote->host_len;
    address.host.data = (uint8_t *)remote->host;
    address.has_discriminator = true;
    address.discriminator.len = remote->disc_len;
    address.discriminator.data = (uint8_t *)remote->disc;
    incoming.has_wait_id = true;
    incoming.wait_id = wait_id;
    incoming.has_conn_handle = true;
    incoming.conn_handle = conn_handle;
    incoming.remote = &address;
    incoming.attributes = &attributes;
    incoming.has_private_data = data->len > 0;
    incoming.private_data.len = data->len;
    incoming.private_data.data = (uint8_t *)data->bytes;
    event.body_case = VIP__EVENT__BODY_INCOMING;
    event.incoming = &incoming;
    send_event(ctx, &event);
}

/* Make a ticket for the VI's connection. Returns the ticket's size in bytes; 0: the connection
 * cannot be bound anew. */
static size_t make_ticket(const struct client *client, uint16_t vi, uint8_t ret[TICKET_BYTES])
{
    const struct vipd_nic *vn = &client->vipd->nics[client->session->nic];
    const struct link_addr *self = &nic_link(vn->nic)->self;
    struct ticket ticket;

    memset(&ticket, 0, sizeof(ticket)); /* zero the padding, too */
    if (!client->session->layout->outlives ||
        !nic_vi_identify(client->session->nic_session, vi, &ticket.vi) || !ticket.vi.connected)
        return 0;
    ticket.uid = client->uid;
    ticket.pid = (uint64_t)client->pid;
    ticket.start_ticks = client->session->start_ticks;
    snprintf(ticket.nic, sizeof(ticket.nic), "%s", vn->config->name);
    ticket.self.len = self->len;
    memcpy(ticket.self.bytes, self->bytes, sizeof(ticket.self.bytes));
    ticket_seal(&client->vipd->ticket_key, &ticket, ret);
    return TICKET_BYTES;
}

static void on_result(void *ctx, uint16_t vi, uint32_t generation, enum vip_rc rc,
                      const struct vip_cm_attrs *attrs, const struct vip_private *data,
                      const char *why)
{
    Vip__ConnResult result = VIP__CONN_RESULT__INIT;
    Vip__ViAttributes attributes;
    Vip__Event event = VIP__EVENT__INIT;
    const struct client *client = ctx;
    uint8_t ticket[TICKET_BYTES];
    char reason[REASON_BYTES];
    struct cm_host host;

    client_note(ctx, rc == VIP_RC_SUCCESS ? HISTORY_CONNECTED : HISTORY_CONN_ERROR,
                rc != VIP_RC_SUCCESS, vi, vip_rc_name(rc), rc == VIP_RC_SUCCESS ? NULL : why);
    result.has_vi = true;
    result.vi = vi;
    result.has_generation = true;
    result.generation = generation;
    result.has_code = true;
    result.code = rc;
    result.reason = rc == VIP_RC_SUCCESS ? NULL : event_reason(why, reason, sizeof(reason));
    if (attrs) {
        fill_attributes(&attributes, attrs);
        result.attributes = &attributes;
    }
    if (data && data->len > 0) {
        result.has_private_data = true;
        result.private_data.len = data->len;
        result.private_data.data = (uint8_t *)data->bytes;
    }
    if (rc == VIP_RC_SUCCESS) {
        result.ticket.len = make_ticket(ctx, vi, ticket);
        result.ticket.data = ticket;
        result.has_ticket = result.ticket.len > 0;
        result.has_host = nic_loan_host(client->session->nic_session, vi, &host);
        result.host.len = host.len;
        result.host.data = host.bytes;
    }
    event.body_case = VIP__EVENT__BODY_RESULT;
    event.result = &result;
    send_event(ctx, &event);
}

/*
 * May vipd drop this report of an error? A peer on Unreliable Delivery can cause most errors
 * without limit, and a slow or stopped program must not lose its session because of such errors. So
 * vipd drops reports when half of the queue is used. It never drops errors that come once per
 * connection or session.
 */
static bool error_may_drop(const struct client *client, enum vip_error_code code)
{
    return code != VIP_EC_CONN_LOST && code != VIP_EC_CATASTROPHIC &&
           client->session->events_queued >= client->vipd->config->events_queued / 2;
}

static void on_error(void *ctx, enum vip_resource resource, enum vip_error_code code, uint16_t vi,
                     uint32_t generation, uint32_t opcode, const char *why)
{
    Vip__AsyncError error = VIP__ASYNC_ERROR__INIT;
    Vip__Event event = VIP__EVENT__INIT;
    struct client *client = ctx;
    char reason[REASON_BYTES];

    client_note(client, HISTORY_ASYNC, true, vi, vip_error_code_name(code), why);
    if (error_may_drop(client, code)) {
        vipd_count(&client->vipd->counters.errors_dropped);
        return;
    }
    error.has_resource = true;
    error.resource = resource;
    error.has_error = true;
    error.error = code;
    error.has_vi = true;
    error.vi = vi;
    error.has_generation = true;
    error.generation = generation;
    error.has_opcode = true;
    error.opcode = opcode;
    error.reason = event_reason(why, reason, sizeof(reason));
    event.body_case = VIP__EVENT__BODY_ERROR;
    event.error = &error;
    send_event(client, &event);
}

static void tell_place(void *ctx, uint64_t number, uint32_t handle, uint64_t offset, uint64_t bytes,
                       bool out)
{
    Vip__Place place = VIP__PLACE__INIT;
    Vip__Event event = VIP__EVENT__INIT;

    place.has_number = true;
    place.number = number;
    place.has_handle = true;
    place.handle = handle;
    place.has_offset = true;
    place.offset = offset;
    place.has_bytes = true;
    place.bytes = bytes;
    place.has_out = out;
    place.out = out;
    event.body_case = VIP__EVENT__BODY_PLACE;
    event.place = &place;
    send_event(ctx, &event);
}

static void on_place(void *ctx, uint64_t number, uint32_t handle, uint64_t offset, uint64_t bytes)
{
    tell_place(ctx, number, handle, offset, bytes, false);
}

static void on_fetch(void *ctx, uint64_t number, uint32_t handle, uint64_t offset, uint64_t bytes)
{
    tell_place(ctx, number, handle, offset, bytes, true);
}

/* Send the event at once or never, because the queue of events cannot hold file descriptors. If the
 * program gets no direct ring, its messages go through vipd. */
static bool on_direct(void *ctx, uint16_t vi, uint32_t generation, uint32_t first, unsigned half,
                      int fd)
{
    Vip__Direct direct = VIP__DIRECT__INIT;
    Vip__Event event = VIP__EVENT__INIT;
    struct client *client = ctx;

    if (client->end != CLIENT_END_NONE || client->answering || client->session->events)
        return false;
    direct.has_vi = direct.has_generation = direct.has_first = direct.has_half = true;
    direct.vi = vi;
    direct.generation = generation;
    direct.first = first;
    direct.half = half;
    event.body_case = VIP__EVENT__BODY_DIRECT;
    event.direct = &direct;
    vipd_count(&client->vipd->counters.events);
    return vip_control_send(client->session->event_sock, &event.base, &fd, 1, MSG_DONTWAIT) == 0;
}

static void on_rebound(void *ctx, uint16_t vi, const char *why)
{
    struct client *client = ctx;

    (void)vi;
    VIP_ASSERT(client->session->returning > 0);
    client->session->returning--;
    return_ended(client->vipd, why);
}

static void fill_engine(Vip__Lent *lent, const struct eng_config *engine)
{
    lent->has_rto_min_ns = lent->has_rto_max_ns = lent->has_rto_initial_ns = true;
    lent->rto_min_ns = engine->rto_min_ns;
    lent->rto_max_ns = engine->rto_max_ns;
    lent->rto_initial_ns = engine->rto_initial_ns;
    lent->has_ack_delay_ns = lent->has_conn_timeout_ns = true;
    lent->ack_delay_ns = engine->ack_delay_ns;
    lent->conn_timeout_ns = engine->conn_timeout_ns;
    lent->has_ack_every_packets = lent->has_congestion = true;
    lent->ack_every_packets = engine->ack_every_packets;
    lent->congestion = engine->congestion;
}

static void on_lent(void *ctx, const struct nic_loan_terms *terms)
{
    Vip__Lent lent = VIP__LENT__INIT;
    Vip__Event event = VIP__EVENT__INIT;
    struct nic_loan_terms copy = *terms; /* protobuf-c has no const */

    lent.has_vi = lent.has_generation = lent.has_number = lent.has_receive = true;
    lent.vi = copy.vi;
    lent.generation = copy.generation;
    lent.number = copy.number;
    lent.receive = copy.receive;
    lent.has_local_id = lent.has_remote_id = lent.has_local_epoch = lent.has_remote_epoch = true;
    lent.local_id = copy.conn.local_id;
    lent.remote_id = copy.conn.remote_id;
    lent.local_epoch = copy.conn.local_epoch;
    lent.remote_epoch = copy.conn.remote_epoch;
    lent.has_packet_bytes = lent.has_window_bytes = lent.has_features = true;
    lent.packet_bytes = copy.conn.packet_bytes;
    lent.window_bytes = copy.conn.window_bytes;
    lent.features = copy.conn.features;
    lent.has_rtt_ns = true;
    lent.rtt_ns = copy.conn.rtt_ns;
    lent.has_host = lent.has_peer_done = true;
    lent.host.len = copy.to.len;
    lent.host.data = copy.to.bytes;
    lent.peer_done = copy.peer.done;
    lent.n_peer_reads = copy.peer.reads;
    lent.peer_reads = copy.peer.read;
    lent.has_tells = lent.tells = true;
    fill_engine(&lent, copy.engine);
    event.body_case = VIP__EVENT__BODY_LENT;
    event.lent = &lent;
    send_event(ctx, &event);
}

static void on_lent_over(void *ctx, uint16_t vi, uint32_t generation)
{
    Vip__LentOver over = VIP__LENT_OVER__INIT;
    Vip__Event event = VIP__EVENT__INIT;

    over.has_vi = over.has_generation = true;
    over.vi = vi;
    over.generation = generation;
    event.body_case = VIP__EVENT__BODY_LENT_OVER;
    event.lent_over = &over;
    send_event(ctx, &event);
}

static void on_broken(void *ctx)
{
    client_end(ctx, CLIENT_END_RING, NULL);
}

static void on_resumed(void *ctx)
{
    struct client *client = ctx;

    vipd_watch_set(client->session->doorbell_watch, VIPD_READ);
}

const struct nic_sink client_sink = {
    .resumed = on_resumed,
    .broken = on_broken,
    .incoming = on_incoming,
    .result = on_result,
    .error = on_error,
    .place = on_place,
    .fetch = on_fetch,
    .direct = on_direct,
    .rebound = on_rebound,
    .lent = on_lent,
    .lent_over = on_lent_over,
};

/* ---- messages from the application ------------------------------------------------------- */

/* Read one PlaceDone message. false: stop reading. */
static bool receive_one(struct client *client)
{
    struct session *session = client->session;
    ProtobufCMessage *message;
    Vip__PlaceDone *done;
    struct vip_fd_drop drop = client_fd_drop(client);
    struct vip_fds fds;
    bool good;
    int r;

    if (client_held_back(client)) {
        vipd_watch_set(session->event_watch, session->events ? VIPD_WRITE : 0);
        return false;
    }
    r = vip_control_recv_from(session->event_sock, &vip__place_done__descriptor, MSG_DONTWAIT,
                              &drop, &message, &fds);
    if (r == -EAGAIN)
        return false;
    if (r == -EBADMSG) {
        client_end(client, CLIENT_END_MALFORMED, "on the event socket");
        return false;
    }
    if (r < 0 && r != -EPIPE) {
        client_end(client, CLIENT_END_INTERNAL, strerror(-r));
        return false;
    }
    if (r < 0) {
        client_end(client, CLIENT_END_DIED, "the event socket is closed");
        return false;
    }
    done = (Vip__PlaceDone *)message;
    if (fds.count > 0) {
        vip_fds_drop(&fds, &drop);
        client_end(client, CLIENT_END_FDS, "on the event socket");
        good = false;
    } else if (!done->has_number) {
        client_end(client, CLIENT_END_MALFORMED, "on the event socket");
        good = false;
    } else {
        good = nic_placed(session->nic_session, done->number, !done->failed, client_now_ns(client));
        if (!good)
            client_end(client, CLIENT_END_PLACED, NULL);
    }
    protobuf_c_message_free_unpacked(message, NULL);
    return good && client->end == CLIENT_END_NONE;
}

void events_receive(struct client *client)
{
    for (unsigned i = 0; i < PLACED_PER_CALL && client->end == CLIENT_END_NONE; i++) {
        if (!receive_one(client))
            return;
    }
}

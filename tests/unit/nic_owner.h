/*
 * A program of nic_lend.h that runs the data path of its connection itself, as libvipl does: its
 * engine, its table of receives, its table of sends, and its socket.
 */
#ifndef TESTS_UNIT_NIC_OWNER_H
#define TESTS_UNIT_NIC_OWNER_H

#include <arpa/inet.h>
#include <sys/socket.h>

#include "unit/nic_rig.h"
#include "vipd/engine/loan_stay.h"
#include "vipd/nic/loan.h"
#include "vipd/nic/objects.h"
#include "vipd/path/post.h"
#include "vipd/path/rx.h"
#include "vipd/path/tx.h"

#define HELD     16u   /* packets that an owner can hold */
#define SLOT     2048u /* bytes of memory for one message */
#define MESSAGES 64u   /* most descriptors of a queue */

/* A program with one VI. */
struct end {
    unsigned host;
    struct rig_app *app;
    uint16_t vi;
    void *table; /* of receives */
    struct vip_loan_part *parts;
    struct rig_mem out, in;
    int out_fd, in_fd;                                 /* files of this memory */
    uint32_t receives, sends;                          /* number of posted descriptors */
    uint32_t got, sent;                                /* number of completed descriptors */
    struct vip_sq_slot send[MESSAGES], recv[MESSAGES]; /* slot of descriptor k: k modulo MESSAGES */
    unsigned loss_ppm;                                 /* of packets that the owner gets or sends */
    struct held {
        uint32_t len; /* 0: the slot is free */
        uint8_t bytes[VIP_PACKET_BYTES_MAX];
    } held[HELD];   /* packets ahead of their turn; the token is the index + 1 */
    bool failed[2]; /* per queue: a descriptor has completed with an error */
    /* The loan. */
    int sock, copy;              /* the program's socket, and vipd's descriptor of it */
    bool wants;                  /* ask for a loan again and again */
    bool asked;                  /* increase the beat with each step */
    bool polls;                  /* enter the loan in each step */
    struct nic_loan_terms terms; /* number 0: none */
    bool told;                   /* vipd has not yet said that the loan with these terms is over */
    struct loan_owner owner;
    uint32_t begun; /* number of the loan of the present engine; 0: no engine */
    struct eng *eng;
    void *vi_memory;
    uint32_t receive, received, next_send;
    const uint8_t *cur;
    unsigned stays, packets; /* stays; data packets that the engine has got from the socket */
};

static struct end ends[2];

RIG struct vip_loan_vipd *words_of(const struct end *end)
{
    return &rig_vi_head(end->app, end->vi)->loan;
}

RIG bool is_out(const struct end *end)
{
    return loan_words_out(words_of(end));
}

RIG uint8_t byte_at(unsigned host, uint32_t message, uint32_t at)
{
    return (uint8_t)(host * 101 + message * 7 + at + 1);
}

RIG uint32_t bytes_of(uint32_t message)
{
    return 1 + message * 331 % SLOT;
}

/* ---- the owner's engine ---------------------------------------------------------------- */

RIG bool own_check(void *ctx, const struct eng_access *access)
{
    return true;
}

RIG bool own_place(void *ctx, const struct eng_access *access, uint32_t payload_offset)
{
    const struct end *end = ctx;

    memcpy((void *)(uintptr_t)access->addr, end->cur + payload_offset, access->len);
    return true;
}

RIG void completed(struct end *end, enum vip_queue queue, uint32_t status, uint32_t length)
{
    uint32_t at = queue == VIP_Q_RECV ? end->got++ : end->sent++;

    if (status & VIP_ST_ERROR_MASK) {
        end->failed[queue] = true;
        return;
    }
    assert_false(end->failed[queue]);
    assert_int_equal(length, bytes_of(at));
    for (uint32_t i = 0; queue == VIP_Q_RECV && i < length; i++)
        assert_int_equal(end->in.at[at % MESSAGES * SLOT + i], byte_at(!end->host, at, i));
}

RIG void own_complete(void *ctx, uint16_t vi, enum vip_queue queue, uint32_t status,
                      uint32_t length, uint64_t imm)
{
    struct end *end = ctx;

    end->app->comp_position[end->vi][queue]++;
    end->received += queue == VIP_Q_RECV;
    completed(end, queue, status, length);
}

RIG void own_event(void *ctx, const struct eng_event *event)
{
    assert_int_equal(event->kind, ENG_EVENT_STATE);
}

RIG void own_fetch_posts(void *ctx)
{
}

/* Give the owner's engine a descriptor of one segment. */
RIG void own_post(struct end *end, const struct vip_sq_slot *slot)
{
    struct path_parts parts = {.seg_count = 1, .segs = {slot->seg[0]}};
    struct eng_post post = path_post(slot, &parts);

    post.vi = 0;
    eng_post(end->eng, &post, rig_now);
}

RIG void own_fetch_receives(void *ctx, uint16_t vi, bool all)
{
    struct end *end = ctx;

    if (end->receive != end->receives)
        own_post(end, &end->recv[end->receive++ % MESSAGES]);
}

RIG struct vip_shm_seg *own_segs(void *ctx, unsigned count)
{
    return NULL;
}

RIG void own_segs_free(void *ctx, struct vip_shm_seg *segs, unsigned count)
{
}

static const struct eng_ops own_ops = {.check = own_check,
                                       .place = own_place,
                                       .complete = own_complete,
                                       .event = own_event,
                                       .fetch_posts = own_fetch_posts,
                                       .fetch_receives = own_fetch_receives,
                                       .segs_alloc = own_segs,
                                       .segs_free = own_segs_free};

RIG void *own_memory(size_t bytes)
{
    void *memory = aligned_alloc(64, (bytes + 63) & ~(size_t)63);

    memset(memory, 0, bytes);
    return memory;
}

RIG void owner_drop(struct end *end)
{
    free(end->eng);
    free(end->vi_memory);
    end->eng = NULL;
    end->vi_memory = NULL;
    end->begun = 0;
    for (unsigned i = 0; i < HELD; i++)
        end->held[i].len = 0;
}

RIG void take_sends(struct end *end)
{
    for (; end->next_send != end->sends; end->next_send++)
        own_post(end, &end->send[end->next_send % MESSAGES]);
}

/* The program enters a loan for the first time. */
RIG void owner_begin(struct end *end)
{
    static const struct eng_vi_attrs attrs = {.level = VIP_LVL_DELIVERY,
                                              .max_transfer_bytes = VIP_TRANSFER_BYTES_MAX};
    const struct vip_loan_checkpoint *from = &words_of(end)->checkpoint;
    struct eng_config config = ENG_CONFIG_DEFAULT;

    owner_drop(end);
    end->eng = own_memory(eng_bytes());
    end->vi_memory = own_memory(eng_vi_bytes());
    eng_init(end->eng, &config, &own_ops, end, rig_now);
    eng_vi_create(end->eng, 0, end->vi_memory, &attrs);
    assert_memory_equal(from, &end->terms.checkpoint, sizeof(*from));
    eng_vi_restore(end->eng, 0, &end->terms.conn, from->completed, from->done, rig_now);
    end->received = from->received;
    end->receive = end->terms.receive;
    end->next_send = from->completed;
    /* Sends that went through the submission ring are not in the table yet. */
    for (uint32_t k = from->completed; k != end->sends; k++)
        vip_loan_send_write(&end->parts[0], k, &end->send[k % MESSAGES]);
    take_sends(end);
    assert_int_equal(eng_vi_rebind(end->eng, 0, &end->terms.conn, &end->terms.peer, rig_now), 0);
    end->begun = end->terms.number;
}

/* Give the engine the held packets whose turn it is. */
RIG void owner_replay(struct end *end)
{
    static struct vip_packet packet;
    uint16_t vi;
    uint32_t token;
    bool feed;

    while (eng_replay(end->eng, &vi, &token, &feed)) {
        struct held *held = &end->held[token - 1];

        if (feed) {
            path_decode_again(held->bytes, held->len, &packet);
            end->cur = held->bytes;
            eng_rx_replay(end->eng, 0, &packet, rig_now);
        }
        held->len = 0;
    }
}

/* Give the engine a packet, if it is one of this binding. */
RIG void owner_packet(struct end *end, const uint8_t *bytes, uint32_t len)
{
    static struct vip_packet packet;
    struct vip_header hdr;
    uint32_t token = 0;

    if (path_open(bytes, len, &hdr) != VIP_WIRE_OK || hdr.kind != VIP_PKT_DATA ||
        hdr.conn_id != end->terms.conn.local_id)
        return;
    assert_int_equal(hdr.dst_epoch, end->terms.conn.local_epoch);
    assert_int_equal(hdr.src_epoch, end->terms.conn.remote_epoch);
    assert_int_equal(vip_wire_get_data(bytes, len, &packet), VIP_WIRE_OK);
    while (token < HELD && end->held[token].len)
        token++;
    if (token == HELD)
        return;
    end->cur = bytes;
    if (eng_rx(end->eng, 0, &packet, token + 1, rig_now) == ENG_RX_HOLD) {
        memcpy(end->held[token].bytes, bytes, len);
        end->held[token].len = len;
    }
    end->packets++;
    owner_replay(end);
}

RIG void *own_address(void *ctx, const struct eng_access *access)
{
    return (void *)(uintptr_t)access->addr;
}

RIG void owner_send(struct end *end)
{
    static uint8_t copy[VIP_PACKET_BYTES_MAX];
    static struct path_tx tx;
    struct msghdr msg = {.msg_iov = tx.iov};

    tx.copy = copy;
    while (eng_tx_ready(end->eng)) {
        if (!eng_tx_pull(end->eng, &tx.packet, rig_now))
            continue;
        assert_true(path_tx_resolve(&tx, own_address, end));
        path_tx_seal(&tx);
        msg.msg_iovlen = tx.iov_count;
        if (!rig_chance(end->loss_ppm))
            (void)sendmsg(end->sock, &msg, MSG_DONTWAIT | MSG_NOSIGNAL);
    }
}

/* The body of a stay: the owner is inside. */
RIG void owner_work(struct end *end)
{
    static uint8_t bytes[VIP_PACKET_BYTES_MAX];
    ssize_t len;

    if (end->begun != end->terms.number)
        owner_begin(end);
    while ((len = recv(end->sock, bytes, sizeof(bytes), MSG_DONTWAIT)) > 0)
        if (!rig_chance(end->loss_ppm))
            owner_packet(end, bytes, (uint32_t)len);
    take_sends(end);
    while (eng_deadline(end->eng) <= rig_now)
        eng_tick(end->eng, rig_now);
    owner_replay(end);
    owner_send(end);
}

/* Leave; returns whether vipd's bell must be rung. */
RIG bool owner_leave(struct end *end)
{
    uint64_t timer_ns = eng_deadline(end->eng);
    struct vip_loan_checkpoint checkpoint = {.done = eng_vi_done(end->eng, 0),
                                             .received = end->received,
                                             .completed = eng_vi_completed(end->eng, 0)};

    return loan_leave(&end->owner, timer_ns == ENG_NEVER ? 0 : timer_ns, &checkpoint);
}

/* One stay. Returns whether the loan is not over. */
RIG bool stay(struct end *end)
{
    if (!end->terms.number || loan_offered(&end->owner) != end->terms.number ||
        !loan_enter(&end->owner, end->terms.number))
        return false;
    end->stays++;
    owner_work(end);
    if (owner_leave(end))
        nic_session_rung(end->app->session, rig_now);
    return true;
}

#endif

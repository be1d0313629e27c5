/*
 * Sends and RDMA Writes that arrive: choose the receive descriptor, place the bytes, report the
 * status (spec 3.3, 3.5, 3.6, 3.7).
 */
#include "proto/store.h"
#include "vipd/engine/internal.h"

void eng_rx_op_done(struct eng_vi *vi)
{
    vi->rx.at.op++;
    vi->rx.at.off = 0;
    vi->rx.phase = ENG_PHASE_START;
}

void eng_rx_op_commit(struct eng_vi *vi)
{
    eng_rx_op_done(vi);
    __atomic_store_n(vi->done, vi->rx.at.op, __ATOMIC_RELEASE);
    vip_store_note();
}

bool eng_scatter(struct eng_vi *vi, const struct eng_desc *desc, uint32_t offset, uint32_t len,
                 uint32_t payload)
{
    const struct vip_shm_seg *seg;

    (void)eng_desc_data(desc, &seg);
    for (; len; seg++) {
        struct eng_access access = {.vi = vi->index, .kind = ENG_ACCESS_RECV};

        if (offset >= seg->len) {
            offset -= seg->len;
            continue;
        }
        access.handle = seg->handle;
        access.addr = seg->addr + offset;
        access.len = eng_min32(seg->len - offset, len);
        if (!vi->eng->ops.place(vi->eng->ctx, &access, payload))
            return false;
        payload += access.len;
        len -= access.len;
        offset = 0;
    }
    return true;
}

/* Ignore the rest of the operation (Unreliable Delivery). */
static enum eng_step skip_rest(struct eng_vi *vi, const struct vip_frame *frame)
{
    vi->rx.phase = ENG_PHASE_SKIP;
    if (frame->flags & VIP_FRMF_LAST)
        eng_rx_op_commit(vi);
    return ENG_STEP_DONE;
}

/* The operation cannot be processed here. Unreliable Delivery: drop the message. Otherwise break
 * the connection and send op_status to the peer (spec 3.6). */
static enum eng_step fail(struct eng_vi *vi, const struct vip_frame *frame, uint32_t op_status,
                          const char *why)
{
    if (!vi->reliable)
        return skip_rest(vi, frame);
    vi->rx.phase = ENG_PHASE_START;
    vi->rx.fault = (struct eng_fault){
        .reason = VIP_CLOSE_ERROR, .op_status = op_status, .failed_op = frame->op, .why = why};
    return ENG_STEP_FAULT;
}

static enum eng_step fail_recv(struct eng_vi *vi, const struct vip_frame *frame, uint32_t status,
                               const char *why)
{
    vi->rx.phase = ENG_PHASE_START;
    eng_recv_complete(vi, status, 0, 0);
    return fail(vi, frame, VIP_ST_REMOTE_DESC_ERROR, why);
}

/* The descriptor at the head of the receive queue. If the queue is empty, fetch posted descriptors
 * first. */
static const struct eng_desc *recv_head(struct eng_vi *vi)
{
    if (vi->rq.head == vi->rq.tail && vi->eng->ops.fetch_receives)
        vi->eng->ops.fetch_receives(vi->eng->ctx, vi->index, false);
    if (vi->rq.head == vi->rq.tail)
        vi->eng->ops.fetch_posts(vi->eng->ctx);
    if (vi->rq.head != vi->rq.tail)
        return eng_desc_at(vi, VIP_Q_RECV, vi->rq.head);
    return NULL;
}

static enum eng_step recvq_empty(struct eng_vi *vi, const struct vip_frame *frame)
{
    uint32_t opcode = frame->type == VIP_FRM_SEND ? VIP_CTL_OP_SENDRECV : VIP_CTL_OP_RDMAWRITE;
    const char *why = "a message arrived and no receive was posted";

    vi->stats.recvq_empty++;
    eng_event_error(vi, VIP_EC_RECVQ_EMPTY, opcode, why);
    return fail(vi, frame, VIP_ST_REMOTE_DESC_ERROR, why);
}

/* Why eng_desc_check refused this receive descriptor: the first byte of a segment is not
 * accessible, or a segment reaches past its registered memory. */
static const char *recv_denied(struct eng_vi *vi, const struct eng_desc *desc)
{
    const struct vip_shm_seg *seg;
    unsigned count = eng_desc_data(desc, &seg);

    for (; count; count--, seg++) {
        struct eng_access first = {.vi = vi->index,
                                   .kind = ENG_ACCESS_RECV,
                                   .handle = seg->handle,
                                   .addr = seg->addr,
                                   .len = 1};

        if (seg->len && !vi->eng->ops.check(vi->eng->ctx, &first))
            return "a posted receive names memory that is not accessible";
    }
    return "a posted receive has a segment that reaches past its registered memory";
}

/* Process the first fragment of a send: choose and check the next receive descriptor. */
static enum eng_step send_begin(struct eng_vi *vi, const struct vip_frame *frame)
{
    const struct eng_desc *desc = recv_head(vi);

    if (!desc)
        return recvq_empty(vi, frame);
    if (desc->fault)
        return fail_recv(vi, frame, desc->fault, "a posted receive was faulty");
    if (frame->total > desc->sum)
        return fail_recv(vi, frame, VIP_ST_LENGTH_ERROR,
                         "a message was longer than the receive posted for it");
    if (!eng_desc_check(vi, desc, ENG_ACCESS_RECV, frame->total))
        return fail_recv(vi, frame, VIP_ST_PROTECTION_ERROR, recv_denied(vi, desc));
    vi->rx.phase = ENG_PHASE_FILL;
    return ENG_STEP_DONE;
}

static uint64_t frame_imm(const struct vip_frame *frame, uint32_t *status)
{
    if (!(frame->flags & VIP_FRMF_IMMEDIATE))
        return 0;
    *status |= VIP_ST_IMMEDIATE;
    return frame->flags & VIP_FRMF_IMM64 ? frame->imm : frame->imm & 0xffffffffu;
}

enum eng_step eng_place_send(struct eng_vi *vi, const struct vip_frame *frame, uint32_t skip)
{
    const struct eng_desc *desc;
    uint32_t len = frame->length - skip;
    uint32_t status = 0;
    uint64_t imm;

    if (vi->rx.phase == ENG_PHASE_START) {
        enum eng_step step = send_begin(vi, frame);

        if (step != ENG_STEP_DONE || vi->rx.phase != ENG_PHASE_FILL)
            return step;
    }
    VIP_ASSERT(vi->rx.phase == ENG_PHASE_FILL && vi->rq.head != vi->rq.tail);
    desc = eng_desc_at(vi, VIP_Q_RECV, vi->rq.head);
    if (len && !eng_scatter(vi, desc, vi->rx.at.off, len, frame->payload + skip))
        return fail_recv(vi, frame, VIP_ST_PROTECTION_ERROR,
                         "memory of a posted receive is not registered any more");
    vi->rx.at.off += len;
    vi->stats.rx_bytes += len;
    if (!(frame->flags & VIP_FRMF_LAST))
        return ENG_STEP_DONE;
    imm = frame_imm(frame, &status);
    vi->stats.rx_messages++;
    eng_rx_op_done(vi);
    eng_recv_complete(vi, status, frame->total, imm);
    return ENG_STEP_DONE;
}

/* May the peer write to this memory? vipd checks the whole range of the RDMA Write, without its
 * message, before it places the first byte (spec 3.5). */
static bool write_allowed(struct eng_vi *vi, const struct vip_frame *frame)
{
    uint32_t bytes = vip_frame_bulk(frame);
    struct eng_access access = {.vi = vi->index,
                                .kind = ENG_ACCESS_REMOTE_WRITE,
                                .handle = frame->handle,
                                .addr = frame->remote_addr,
                                .len = VIP_MUTANT(WRITE_RANGE) ? frame->length : bytes};

    if (!vi->attrs.enable_rdma_write || frame->remote_addr + bytes < frame->remote_addr)
        return false;
    return !bytes || vi->eng->ops.check(vi->eng->ctx, &access);
}

/* Place the message of an RDMA Write into the memory of a receive descriptor. As with a send, it
 * must fit, and access is checked first. Returns VIP_ST_* bits of the fault, or 0. */
static uint32_t message_fault(struct eng_vi *vi, const struct eng_desc *desc,
                              const struct vip_frame *frame)
{
    uint32_t payload = frame->payload + frame->length - frame->message;

    if (VIP_MUTANT(MESSAGE_PLACE))
        payload = frame->payload;
    if (frame->message > desc->sum)
        return VIP_ST_LENGTH_ERROR;
    if (!eng_desc_check(vi, desc, ENG_ACCESS_RECV, frame->message) ||
        !eng_scatter(vi, desc, 0, frame->message, payload))
        return VIP_ST_PROTECTION_ERROR;
    return 0;
}

/* Codes of a fault of an RDMA Write, one for each way to report the fault. */
struct write_fault {
    enum vip_error_code code; /* for the error callback, if the write consumes no descriptor */
    uint32_t recv_status;     /* status of the receive descriptor, if the write consumes one */
    uint32_t op_status;       /* status of the initiator's operation (Reliable Reception) */
    const char *why;          /* NULL: no fault */
};

static struct write_fault write_fault(const struct eng_vi *vi)
{
    if (vi->rx.phase == ENG_PHASE_DENIED && !VIP_MUTANT(WRITE_DENIED))
        return (struct write_fault){VIP_EC_RDMAW_PROT, VIP_ST_RDMA_PROT_ERROR,
                                    VIP_ST_RDMA_PROT_ERROR,
                                    "the peer wrote to memory it may not write to"};
    if (vi->rx.phase == ENG_PHASE_SPOILED)
        return (struct write_fault){VIP_EC_RDMAW_DATA, VIP_ST_TRANSPORT_ERROR,
                                    VIP_ST_TRANSPORT_ERROR,
                                    "memory that the peer may write to did not take the bytes"};
    return (struct write_fault){0};
}

/*
 * Process the last fragment of an RDMA Write. The write consumes a receive descriptor if this
 * fragment has immediate data or a message. Then the status of the descriptor reports a fault of
 * the write. Otherwise the error callback reports the fault (spec 3.6, 3.9).
 */
static enum eng_step write_end(struct eng_vi *vi, const struct vip_frame *frame)
{
    struct write_fault wrong = write_fault(vi);
    uint32_t status = VIP_ST_OP_REMOTE_RDMA_WRITE;
    const struct eng_desc *desc;
    uint64_t imm = frame_imm(frame, &status);
    uint32_t fault;

    if (!(frame->flags & VIP_FRMF_IMMEDIATE) && !frame->message) {
        if (wrong.why) {
            eng_event_error(vi, wrong.code, VIP_CTL_OP_RDMAWRITE, wrong.why);
            return fail(vi, frame, wrong.op_status, wrong.why);
        }
        vi->stats.rx_messages++;
        eng_rx_op_commit(vi);
        return ENG_STEP_DONE;
    }
    desc = recv_head(vi);
    if (!desc)
        return recvq_empty(vi, frame);
    if (wrong.why) {
        eng_recv_complete(vi, status | wrong.recv_status, 0, imm);
        return fail(vi, frame, wrong.op_status, wrong.why);
    }
    if (desc->fault)
        return fail_recv(vi, frame, VIP_ST_OP_REMOTE_RDMA_WRITE | desc->fault,
                         "a posted receive was faulty");
    fault = frame->message ? message_fault(vi, desc, frame) : 0;
    if (fault)
        return fail_recv(vi, frame, VIP_ST_OP_REMOTE_RDMA_WRITE | fault,
                         "the receive posted for the message of an RDMA Write cannot take it");
    vi->stats.rx_messages++;
    eng_rx_op_done(vi);
    if (frame->message)
        status |= VIP_ST_MESSAGE;
    eng_recv_complete(vi, status, frame->message ? frame->message : frame->total, imm);
    return ENG_STEP_DONE;
}

enum eng_step eng_place_write(struct eng_vi *vi, const struct vip_frame *frame, uint32_t skip)
{
    uint32_t len = frame->length - skip;
    /* A message is at the end of the last fragment. The `bulk` bytes go to registered memory. */
    uint32_t message = frame->flags & VIP_FRMF_LAST ? frame->message : 0;
    uint32_t bulk = len - message;
    struct eng_access access = {.vi = vi->index,
                                .kind = ENG_ACCESS_REMOTE_WRITE,
                                .handle = frame->handle,
                                .addr = frame->remote_addr + vi->rx.at.off,
                                .len = bulk};

    VIP_ASSERT(len >= message);

    if (vi->rx.phase == ENG_PHASE_START)
        vi->rx.phase = write_allowed(vi, frame) ? ENG_PHASE_WRITE : ENG_PHASE_DENIED;
    if (bulk && vi->rx.phase == ENG_PHASE_WRITE &&
        !vi->eng->ops.place(vi->eng->ctx, &access, frame->payload + skip))
        vi->rx.phase =
            vi->eng->ops.check(vi->eng->ctx, &access) ? ENG_PHASE_SPOILED : ENG_PHASE_DENIED;
    vi->rx.at.off += len;
    vi->stats.rx_bytes += len;
    if (!(frame->flags & VIP_FRMF_LAST))
        return ENG_STEP_DONE;
    return write_end(vi, frame);
}

void eng_place_abandon(struct eng_vi *vi)
{
    uint8_t phase = vi->rx.phase;

    vi->rx.phase = ENG_PHASE_START;
    if (phase == ENG_PHASE_FILL)
        eng_recv_complete(vi, VIP_ST_PARTIAL_ERROR, vi->rx.at.off, 0);
    else if (phase == ENG_PHASE_WRITE)
        eng_event_error(vi, VIP_EC_RDMAW_ABORT, VIP_CTL_OP_RDMAWRITE,
                        "an incoming RDMA Write broke off");
    else if (phase == ENG_PHASE_SPOILED)
        eng_event_error(vi, VIP_EC_RDMAW_DATA, VIP_CTL_OP_RDMAWRITE,
                        "memory that the peer may write to did not take the bytes");
}

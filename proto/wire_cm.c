/*
 * Connection-management messages on the wire (doc/wire.md, "Connection management").
 *
 * Owns: the bytes after the header of a VIP_PKT_CM packet. Each type has the same fixed part of 80
 * bytes. In a REQUEST two addresses follow it. REQUEST, ACCEPT and REJECT end with private data of
 * the application; SETUP, PROOF, LOAN_OFFER and LOAN_AGREE end with items. An answer without data
 * and items is never longer than its request, so a sender with a forged source address cannot
 * cause more traffic than it sends. Only an application adds private data, after its decision.
 * Called by vipd/engine/cm*.c.
 */
#include "proto/wire.h"

#include <sys/uio.h>

#include "proto/assert.h"
#include "proto/status.h"
#include "proto/wire_bytes.h"

/* Offsets from the start of the packet. */
enum {
    CM_TYPE = 64,
    CM_REASON = 65,
    CM_PEER_TO_PEER = 66,
    CM_OPS_VALID = 67,
    CM_CODE = 68,
    CM_REQUEST_ID = 72,
    CM_NUMBER = 72, /* 4 bytes; CM_NUMBER and CM_OFFERED are in the place of CM_REQUEST_ID */
    CM_OFFERED = 76,
    CM_CONN_ID = 80,
    CM_PEER_CONN_ID = 88,
    CM_PACKET_BYTES = 96,
    CM_WINDOW_BYTES = 100,
    CM_OP_STATUS = 104,
    CM_WORD = 104, /* 8 bytes (word_of); in the place of CM_OP_STATUS and CM_FAILED_OP */
    CM_FAILED_OP = 108,
    CM_OPS_DONE = 112,
    CM_LEVEL = 116,
    CM_RDMA = 118, /* bit 0: rdma_write, bit 1: rdma_read */
    CM_FEATURES = 119,
    CM_MAX_TRANSFER = 120,
    CM_QOS = 128,
    CM_LOCAL_HOST_LEN = 136,
    CM_LOCAL_DISC_LEN = 137,
    CM_REMOTE_HOST_LEN = 138,
    CM_REMOTE_DISC_LEN = 139,
    CM_DATA_LEN = 140,
    CM_RESERVED_B = 141,
    CM_ITEMS_LEN = 142, /* 2 bytes */
    CM_FIXED_END = 144, /* end of the fixed part; addresses and private data, or items, follow */
};

#define ITEM_HEAD_BYTES 4 /* type and length of an item */
#define ADDR_BYTES_MAX  (VIP_HOST_ADDR_BYTES_MAX + VIP_DISCRIMINATOR_BYTES_MAX)
_Static_assert(CM_FIXED_END + 2 * ADDR_BYTES_MAX + VIP_PRIVATE_BYTES_MAX <= VIP_WIRE_CM_BYTES_MAX,
               "CM packet fits");
_Static_assert(CM_FIXED_END + VIP_ITEMS_BYTES_MAX <= VIP_WIRE_CM_BYTES_MAX, "SETUP fits");
_Static_assert(VIP_WIRE_CM_BYTES_MAX <= VIP_PACKET_BYTES_MIN, "a CM packet fits every link");

/* Groups of fields; fields_of has the groups that each type uses. */
enum {
    F_REQUEST_ID = 1 << 0,
    F_CONN_ID = 1 << 1,
    F_PEER_CONN_ID = 1 << 2,
    F_SIZES = 1 << 3, /* packet_bytes, window_bytes */
    F_ATTRS = 1 << 4,
    F_ADDRS = 1 << 5, /* local, remote, peer_to_peer */
    F_CODE = 1 << 6,
    F_CLOSE = 1 << 7, /* reason, ops_valid, ops_done, op_status, failed_op */
    F_DATA = 1 << 8,
    F_ITEMS = 1 << 9,
    F_NUMBER = 1 << 10, /* number, data_id */
    F_OFFERED = 1 << 11,
};

static const uint16_t fields_of[VIP_CM_TYPES] = {
    [VIP_CM_REQUEST] = F_REQUEST_ID | F_CONN_ID | F_SIZES | F_ATTRS | F_ADDRS | F_DATA,
    [VIP_CM_PENDING] = F_REQUEST_ID | F_PEER_CONN_ID,
    [VIP_CM_ACCEPT] = F_REQUEST_ID | F_CONN_ID | F_PEER_CONN_ID | F_SIZES | F_ATTRS | F_DATA,
    [VIP_CM_CONFIRM] = F_REQUEST_ID | F_CONN_ID | F_PEER_CONN_ID,
    [VIP_CM_REJECT] = F_REQUEST_ID | F_CODE | F_DATA,
    [VIP_CM_NO_MATCH] = F_REQUEST_ID,
    [VIP_CM_CANCEL] = F_REQUEST_ID,
    [VIP_CM_CLOSE] = F_CONN_ID | F_PEER_CONN_ID | F_CLOSE,
    [VIP_CM_CLOSE_ACK] = F_CONN_ID | F_PEER_CONN_ID,
    [VIP_CM_PING] = F_REQUEST_ID,
    [VIP_CM_PONG] = F_REQUEST_ID,
    [VIP_CM_RESET] = F_CONN_ID,
    [VIP_CM_COOKIE] = F_REQUEST_ID,
    [VIP_CM_SETUP] = F_REQUEST_ID | F_CONN_ID | F_PEER_CONN_ID | F_ITEMS,
    [VIP_CM_REBIND] = F_REQUEST_ID | F_CONN_ID,
    [VIP_CM_CHALLENGE] = F_REQUEST_ID | F_CONN_ID | F_PEER_CONN_ID,
    [VIP_CM_PROOF] = F_REQUEST_ID | F_CONN_ID | F_PEER_CONN_ID | F_SIZES | F_ITEMS,
    [VIP_CM_AWAY] = F_CONN_ID | F_PEER_CONN_ID,
    [VIP_CM_LOAN_OFFER] = F_CONN_ID | F_PEER_CONN_ID | F_SIZES | F_ITEMS | F_NUMBER,
    [VIP_CM_LOAN_AGREE] = F_CONN_ID | F_PEER_CONN_ID | F_SIZES | F_ITEMS | F_NUMBER | F_OFFERED,
    [VIP_CM_LOAN_PROBE] = F_REQUEST_ID | F_CONN_ID | F_PEER_CONN_ID,
    [VIP_CM_LOAN_PROBED] = F_REQUEST_ID | F_CONN_ID | F_PEER_CONN_ID,
};

/* The member that a message of this type has at CM_WORD; NULL: it has none there. */
static uint64_t *word_of(struct vip_cm *cm)
{
    switch ((enum vip_cm_type)cm->type) {
    case VIP_CM_REQUEST:
    case VIP_CM_COOKIE:
        return &cm->cookie;
    case VIP_CM_SETUP:
        return &cm->features;
    case VIP_CM_REBIND:
        return &cm->tag;
    case VIP_CM_CHALLENGE:
    case VIP_CM_PROOF:
        return &cm->nonce;
    case VIP_CM_AWAY:
        return &cm->back_ms;
    case VIP_CM_LOAN_OFFER:
    case VIP_CM_LOAN_AGREE:
        return &cm->data_id;
    case VIP_CM_PENDING:
    case VIP_CM_ACCEPT:
    case VIP_CM_CONFIRM:
    case VIP_CM_REJECT:
    case VIP_CM_NO_MATCH:
    case VIP_CM_CANCEL:
    case VIP_CM_CLOSE:
    case VIP_CM_CLOSE_ACK:
    case VIP_CM_PING:
    case VIP_CM_PONG:
    case VIP_CM_RESET:
    case VIP_CM_LOAN_PROBE:
    case VIP_CM_LOAN_PROBED:
    case VIP_CM_TYPES:
        break;
    }
    return NULL;
}

static size_t put_bytes(uint8_t *out, size_t at, const uint8_t *bytes, uint8_t len)
{
    memcpy(out + at, bytes, len);
    return at + len;
}

static size_t put_addrs(uint8_t *out, const struct vip_cm *cm)
{
    size_t at = CM_FIXED_END;

    out[CM_PEER_TO_PEER] = cm->peer_to_peer;
    out[CM_LOCAL_HOST_LEN] = cm->local.host_len;
    out[CM_LOCAL_DISC_LEN] = cm->local.disc_len;
    out[CM_REMOTE_HOST_LEN] = cm->remote.host_len;
    out[CM_REMOTE_DISC_LEN] = cm->remote.disc_len;
    at = put_bytes(out, at, cm->local.host, cm->local.host_len);
    at = put_bytes(out, at, cm->local.disc, cm->local.disc_len);
    at = put_bytes(out, at, cm->remote.host, cm->remote.host_len);
    return put_bytes(out, at, cm->remote.disc, cm->remote.disc_len);
}

static void put_close(uint8_t *out, const struct vip_cm *cm)
{
    uint32_t op_status = cm->op_status & VIP_ST_ERROR_MASK;

    out[CM_REASON] = cm->reason;
    out[CM_OPS_VALID] = cm->ops_valid;
    if (!cm->ops_valid)
        return;
    put32(out + CM_OPS_DONE, cm->ops_done);
    put32(out + CM_OP_STATUS, op_status);
    put32(out + CM_FAILED_OP, op_status ? cm->failed_op : 0);
}

static bool addr_fits(const struct vip_addr *addr)
{
    return addr->host_len <= VIP_HOST_ADDR_BYTES_MAX &&
           addr->disc_len <= VIP_DISCRIMINATOR_BYTES_MAX;
}

/* Are the items complete, and do their types ascend? */
static bool items_are_sound(const struct vip_items *items)
{
    size_t at = 0, len = items->len;
    uint32_t least = 0; /* the smallest type that may follow */

    if (len > VIP_ITEMS_BYTES_MAX)
        return false;
    while (at < len) {
        uint16_t type;

        if (len - at < ITEM_HEAD_BYTES)
            return false;
        type = get16(items->bytes + at);
        if (type < least)
            return false;
        least = type + 1u;
        at += ITEM_HEAD_BYTES + get16(items->bytes + at + 2);
    }
    return at == len;
}

void vip_items_put(uint8_t bytes[VIP_ITEMS_BYTES_MAX], uint16_t *len, enum vip_item type,
                   const void *value, uint16_t value_bytes)
{
    VIP_ASSERT(*len + ITEM_HEAD_BYTES + value_bytes <= VIP_ITEMS_BYTES_MAX);
    put16(bytes + *len, (uint16_t)type);
    put16(bytes + *len + 2, value_bytes);
    memcpy(bytes + *len + ITEM_HEAD_BYTES, value, value_bytes);
    *len = (uint16_t)(*len + ITEM_HEAD_BYTES + value_bytes);
}

const uint8_t *vip_items_find(const struct vip_items *items, enum vip_item type, uint16_t *len)
{
    for (size_t at = 0; at < items->len;) {
        uint16_t bytes = get16(items->bytes + at + 2);

        if (get16(items->bytes + at) == type) {
            if (*len && *len != bytes)
                return NULL;
            *len = bytes;
            return items->bytes + at + ITEM_HEAD_BYTES;
        }
        at += ITEM_HEAD_BYTES + (size_t)bytes;
    }
    return NULL;
}

/* Are the values allowed for the type? Encoding asserts this. */
static bool cm_is_sound(const struct vip_cm *cm, unsigned fields)
{
    if ((fields & F_REQUEST_ID) && !cm->request_id)
        return false;
    if ((fields & F_CONN_ID) && !cm->conn_id)
        return false;
    if ((fields & F_PEER_CONN_ID) && !cm->peer_conn_id)
        return false;
    if ((cm->type == VIP_CM_COOKIE && !cm->cookie) || (cm->type == VIP_CM_REBIND && !cm->tag) ||
        ((cm->type == VIP_CM_CHALLENGE || cm->type == VIP_CM_PROOF) && !cm->nonce) ||
        (cm->type == VIP_CM_AWAY && !cm->back_ms))
        return false;
    if (((fields & F_NUMBER) && (!cm->number || !cm->data_id)) ||
        ((fields & F_OFFERED) && !cm->offered))
        return false;
    /* The engine needs packets of VIP_PACKET_BYTES_MIN; the window must have room for one. */
    if ((fields & F_SIZES) &&
        (cm->packet_bytes < VIP_PACKET_BYTES_MIN || cm->packet_bytes > VIP_PACKET_BYTES_MAX ||
         cm->window_bytes < VIP_PACKET_BYTES_MIN))
        return false;
    if ((fields & F_ATTRS) &&
        ((cm->attrs.level != VIP_LVL_UNRELIABLE && cm->attrs.level != VIP_LVL_DELIVERY &&
          cm->attrs.level != VIP_LVL_RECEPTION) ||
         cm->attrs.rdma_write > 1 || cm->attrs.rdma_read > 1))
        return false;
    if ((fields & F_ADDRS) &&
        (cm->peer_to_peer > 1 || !addr_fits(&cm->local) || !addr_fits(&cm->remote)))
        return false;
    if ((fields & F_CODE) && (cm->code == VIP_RC_SUCCESS || cm->code > VIP_RC_ERROR_NOT_SUPPORTED))
        return false;
    if ((fields & F_DATA) && cm->data.len > VIP_PRIVATE_BYTES_MAX)
        return false;
    if ((fields & F_ITEMS) && !items_are_sound(&cm->items))
        return false;
    if ((fields & F_CLOSE) && (cm->reason > VIP_CLOSE_SHUTDOWN || cm->ops_valid > 1))
        return false;
    return true;
}

size_t vip_wire_put_cm(uint8_t out[VIP_WIRE_CM_BYTES_MAX], uint64_t src_epoch, uint64_t dst_epoch,
                       const struct vip_cm *cm)
{
    const struct vip_header hdr = {
        .kind = VIP_PKT_CM, .src_epoch = src_epoch, .dst_epoch = dst_epoch};
    struct iovec iov = {.iov_base = out, .iov_len = CM_FIXED_END};
    const uint64_t *word = word_of((struct vip_cm *)(uintptr_t)cm);
    unsigned fields;

    VIP_ASSERT(cm->type >= VIP_CM_REQUEST && cm->type < VIP_CM_TYPES);
    fields = fields_of[cm->type];
    VIP_ASSERT(cm_is_sound(cm, fields));
    vip_wire_put_header(out, &hdr);
    memset(out + VIP_WIRE_HEADER_BYTES, 0, CM_FIXED_END - VIP_WIRE_HEADER_BYTES);
    out[CM_TYPE] = cm->type;
    if (fields & F_REQUEST_ID)
        put64(out + CM_REQUEST_ID, cm->request_id);
    if (fields & F_NUMBER)
        put32(out + CM_NUMBER, cm->number);
    if (fields & F_OFFERED)
        put32(out + CM_OFFERED, cm->offered);
    if (fields & F_CONN_ID)
        put64(out + CM_CONN_ID, cm->conn_id);
    if (fields & F_PEER_CONN_ID)
        put64(out + CM_PEER_CONN_ID, cm->peer_conn_id);
    if (fields & F_SIZES) {
        put32(out + CM_PACKET_BYTES, cm->packet_bytes);
        put32(out + CM_WINDOW_BYTES, cm->window_bytes);
    }
    if (fields & F_ATTRS) {
        put16(out + CM_LEVEL, cm->attrs.level);
        out[CM_RDMA] = (uint8_t)(cm->attrs.rdma_write | cm->attrs.rdma_read << 1);
        out[CM_FEATURES] = cm->attrs.features;
        put64(out + CM_MAX_TRANSFER, cm->attrs.max_transfer_bytes);
        put64(out + CM_QOS, cm->attrs.qos);
    }
    if (word)
        put64(out + CM_WORD, *word);
    if (fields & F_CODE)
        put32(out + CM_CODE, cm->code);
    if (fields & F_CLOSE)
        put_close(out, cm);
    if (fields & F_ADDRS)
        iov.iov_len = put_addrs(out, cm);
    if (fields & F_DATA) {
        out[CM_DATA_LEN] = cm->data.len;
        iov.iov_len = put_bytes(out, iov.iov_len, cm->data.bytes, cm->data.len);
    }
    if (fields & F_ITEMS) {
        put16(out + CM_ITEMS_LEN, cm->items.len);
        if (cm->items.len)
            memcpy(out + CM_FIXED_END, cm->items.bytes, cm->items.len);
        iov.iov_len += cm->items.len;
    }
    vip_wire_seal(&iov, 1);
    return iov.iov_len;
}

static void get_fixed(const uint8_t *in, struct vip_cm *ret)
{
    memset(ret, 0, sizeof(*ret));
    ret->type = in[CM_TYPE];
    ret->reason = in[CM_REASON];
    ret->peer_to_peer = in[CM_PEER_TO_PEER];
    ret->ops_valid = in[CM_OPS_VALID];
    ret->code = get32(in + CM_CODE);
    ret->request_id = get64(in + CM_REQUEST_ID);
    ret->conn_id = get64(in + CM_CONN_ID);
    ret->peer_conn_id = get64(in + CM_PEER_CONN_ID);
    ret->packet_bytes = get32(in + CM_PACKET_BYTES);
    ret->window_bytes = get32(in + CM_WINDOW_BYTES);
    ret->op_status = get32(in + CM_OP_STATUS);
    ret->failed_op = get32(in + CM_FAILED_OP);
    ret->ops_done = get32(in + CM_OPS_DONE);
    ret->attrs.level = get16(in + CM_LEVEL);
    ret->attrs.rdma_write = in[CM_RDMA] & 1;
    ret->attrs.rdma_read = in[CM_RDMA] >> 1 & 1;
    ret->attrs.features = in[CM_FEATURES];
    ret->attrs.max_transfer_bytes = get64(in + CM_MAX_TRANSFER);
    ret->attrs.qos = get64(in + CM_QOS);
    ret->local.host_len = in[CM_LOCAL_HOST_LEN];
    ret->local.disc_len = in[CM_LOCAL_DISC_LEN];
    ret->remote.host_len = in[CM_REMOTE_HOST_LEN];
    ret->remote.disc_len = in[CM_REMOTE_DISC_LEN];
    ret->data.len = in[CM_DATA_LEN];
    ret->items.len = get16(in + CM_ITEMS_LEN);
}

/* Is a field set that the type does not use? Such a field must be zero, so that each message has
 * only one encoding. */
static bool has_foreign_fields(const struct vip_cm *cm, unsigned fields)
{
    if (!(fields & F_REQUEST_ID) && cm->request_id)
        return true;
    if (!(fields & F_OFFERED) && cm->offered)
        return true;
    if (!(fields & F_CONN_ID) && cm->conn_id)
        return true;
    if (!(fields & F_PEER_CONN_ID) && cm->peer_conn_id)
        return true;
    if (!(fields & F_SIZES) && (cm->packet_bytes | cm->window_bytes))
        return true;
    if (!(fields & F_ATTRS) && (cm->attrs.level | cm->attrs.rdma_write | cm->attrs.rdma_read |
                                cm->attrs.features | cm->attrs.max_transfer_bytes | cm->attrs.qos))
        return true;
    if (!(fields & F_ADDRS) && (cm->peer_to_peer | cm->local.host_len | cm->local.disc_len |
                                cm->remote.host_len | cm->remote.disc_len))
        return true;
    if (!(fields & F_CODE) && cm->code)
        return true;
    if (!(fields & F_DATA) && cm->data.len)
        return true;
    if (!(fields & F_ITEMS) && cm->items.len)
        return true;
    if (!(fields & F_CLOSE) && (cm->reason | cm->ops_valid))
        return true;
    /* If ops_valid of a CLOSE is 0, ops_done and op_status must be 0. If op_status is 0,
     * failed_op must be 0. */
    if (!cm->ops_valid && (cm->ops_done | cm->op_status))
        return true;
    if (cm->op_status & ~VIP_ST_ERROR_MASK)
        return true;
    return !cm->op_status && cm->failed_op;
}

static const uint8_t *get_bytes(const uint8_t *in, uint8_t *ret, uint8_t len)
{
    memcpy(ret, in, len);
    return in + len;
}

enum vip_wire_verdict vip_wire_get_cm(const uint8_t *packet, size_t len_bytes, struct vip_cm *ret)
{
    struct vip_header hdr;
    enum vip_wire_verdict verdict = vip_wire_get_header(packet, len_bytes, &hdr);
    const uint8_t *at = packet + CM_FIXED_END;
    size_t want_bytes = CM_FIXED_END;
    uint64_t *word;
    unsigned fields;

    if (verdict != VIP_WIRE_OK)
        return verdict;
    if (hdr.kind != VIP_PKT_CM)
        return VIP_WIRE_KIND_BAD;
    if (len_bytes < want_bytes)
        return VIP_WIRE_SHORT;
    get_fixed(packet, ret);
    if (ret->type < VIP_CM_REQUEST || ret->type >= VIP_CM_TYPES)
        return VIP_WIRE_CM_BAD;
    if (packet[CM_RDMA] >> 2 || packet[CM_RESERVED_B])
        return VIP_WIRE_RESERVED;
    fields = fields_of[ret->type];
    word = word_of(ret);
    if (word) {
        *word = get64(packet + CM_WORD);
        ret->op_status = ret->failed_op = 0;
    }
    if (fields & F_NUMBER) {
        ret->number = get32(packet + CM_NUMBER);
        ret->offered = get32(packet + CM_OFFERED);
        ret->request_id = 0;
    }
    if (fields & F_ITEMS) {
        if (ret->items.len > VIP_ITEMS_BYTES_MAX)
            return VIP_WIRE_CM_BAD;
        if (len_bytes < CM_FIXED_END + (size_t)ret->items.len)
            return VIP_WIRE_SHORT;
        ret->items.bytes = at;
    }
    if (has_foreign_fields(ret, fields) || !cm_is_sound(ret, fields))
        return VIP_WIRE_CM_BAD;
    want_bytes += (size_t)ret->local.host_len + ret->local.disc_len + ret->remote.host_len +
                  ret->remote.disc_len + ret->data.len + ret->items.len;
    if (len_bytes != want_bytes)
        return len_bytes < want_bytes ? VIP_WIRE_SHORT : VIP_WIRE_TRAILING;
    at = get_bytes(at, ret->local.host, ret->local.host_len);
    at = get_bytes(at, ret->local.disc, ret->local.disc_len);
    at = get_bytes(at, ret->remote.host, ret->remote.host_len);
    at = get_bytes(at, ret->remote.disc, ret->remote.disc_len);
    get_bytes(at, ret->data.bytes, ret->data.len);
    return VIP_WIRE_OK;
}

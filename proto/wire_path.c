/* Messages between the paths of two hosts; see wire_path.h. */
#include "proto/wire_path.h"

#include <sys/uio.h>

#include "proto/assert.h"
#include "proto/wire.h"
#include "proto/wire_bytes.h"

enum {
    PATH_TYPE = 1,
    PATH_NUMBER = 2,
    PATH_COUNT = 3,
    PATH_NONCE = 8,
    PATH_TS = 16,
    PATH_ACCEPTS = 20,
    PATH_HOST = 24, /* the three bytes before it are zero */
    PATH_ADDRS = PATH_HOST + 1 + VIP_HOST_ADDR_BYTES_MAX,
    PATH_END = PATH_ADDRS + (VIP_PATHS_MAX - 1) * (1 + VIP_HOST_ADDR_BYTES_MAX),
};

_Static_assert(PATH_END <= VIP_WIRE_PATH_BYTES, "the addresses fit");

#define VERSION_KIND (VIP_WIRE_VERSION << 4 | VIP_PKT_PATH)

bool vip_wire_is_path(const uint8_t *packet, size_t len_bytes)
{
    return len_bytes > 0 && packet[OFF_VERSION_KIND] == VERSION_KIND;
}

static void put_addr(uint8_t *out, const struct vip_path_addr *addr)
{
    VIP_ASSERT(addr->len <= VIP_HOST_ADDR_BYTES_MAX);
    *out = addr->len;
    memcpy(out + 1, addr->bytes, addr->len);
}

/* Only an answer by path 0 has addresses. */
static bool may_have_addresses(const struct vip_path_message *message)
{
    return message->type == VIP_PATH_ECHO && message->path == 0;
}

void vip_wire_put_path(uint8_t out[VIP_WIRE_PATH_BYTES], const struct vip_path_message *message)
{
    struct iovec iov = {out, VIP_WIRE_PATH_BYTES};

    VIP_ASSERT(message->count == 0 || may_have_addresses(message));
    VIP_ASSERT(message->count < VIP_PATHS_MAX && message->path < VIP_PATHS_MAX);
    memset(out, 0, VIP_WIRE_PATH_BYTES);
    out[OFF_VERSION_KIND] = VERSION_KIND;
    out[PATH_TYPE] = message->type;
    out[PATH_NUMBER] = message->path;
    out[PATH_COUNT] = message->count;
    put64(out + PATH_NONCE, message->nonce);
    put32(out + PATH_TS, message->ts);
    out[PATH_ACCEPTS] = message->accepts;
    put_addr(out + PATH_HOST, &message->host);
    for (unsigned i = 0; i < message->count; i++)
        put_addr(out + PATH_ADDRS + i * sizeof(message->addr[0]), &message->addr[i]);
    vip_wire_seal(&iov, 1);
}

static bool get_addr(const uint8_t *in, struct vip_path_addr *ret)
{
    ret->len = *in;
    if (ret->len > VIP_HOST_ADDR_BYTES_MAX)
        return false;
    memcpy(ret->bytes, in + 1, ret->len);
    return true;
}

bool vip_wire_get_path(const uint8_t *packet, size_t len_bytes, struct vip_path_message *ret)
{
    uint8_t again[VIP_WIRE_PATH_BYTES];

    if (len_bytes != VIP_WIRE_PATH_BYTES || packet[OFF_VERSION_KIND] != VERSION_KIND)
        return false;
    memset(ret, 0, sizeof(*ret));
    ret->type = packet[PATH_TYPE];
    ret->path = packet[PATH_NUMBER];
    ret->count = packet[PATH_COUNT];
    ret->nonce = get64(packet + PATH_NONCE);
    ret->ts = get32(packet + PATH_TS);
    ret->accepts = packet[PATH_ACCEPTS] != 0;
    if (ret->type < VIP_PATH_PROBE || ret->type > VIP_PATH_ECHO || ret->path >= VIP_PATHS_MAX ||
        ret->count >= VIP_PATHS_MAX || ret->nonce == 0)
        return false;
    if ((ret->count > 0 && !may_have_addresses(ret)) ||
        (ret->accepts && ret->type != VIP_PATH_ECHO))
        return false;
    if (!get_addr(packet + PATH_HOST, &ret->host) || ret->host.len == 0)
        return false;
    for (unsigned i = 0; i < ret->count; i++) {
        if (!get_addr(packet + PATH_ADDRS + i * sizeof(ret->addr[0]), &ret->addr[i]))
            return false;
    }
    /* Encode again and compare: this also checks the checksum and the unused bytes. */
    vip_wire_put_path(again, ret);
    return memcmp(again, packet, sizeof(again)) == 0;
}

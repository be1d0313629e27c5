/*
 * Helpers for the files about connections: waits for the provider thread, addresses, private data.
 */
#include <errno.h>
#include <string.h>
#include <time.h>

#include "libvipl/connect.h"
#include "libvipl/error.h"

/* ---- waiting for the provider thread ------------------------------------------------------ */

bool vipl__closing(const struct vipl__session *session)
{
    return __atomic_load_n(&session->closing, __ATOMIC_SEQ_CST) != 0;
}

bool vipl__await_change(struct vipl__session *session, uint64_t deadline_ns)
{
    struct timespec limit;

    if (deadline_ns == VIPL__NEVER) {
        pthread_cond_wait(&session->changed, &session->lock);
        return true;
    }
    limit.tv_sec = (time_t)(deadline_ns / 1000000000ull);
    limit.tv_nsec = (long)(deadline_ns % 1000000000ull);
    return pthread_cond_timedwait(&session->changed, &session->lock, &limit) != ETIMEDOUT;
}

VIP_RETURN vipl__gone(const struct vipl__session *session, const char *call)
{
    if (vipl__closing(session))
        return vipl__fail(VIP_ERROR_RESOURCE, "%s: the NIC handle was closed meanwhile", call);
    return vipl__fail(VIP_ERROR_RESOURCE,
                      "%s: vipd (%s) has ended; close this NIC handle and open the NIC again", call,
                      session->socket_path);
}

/* ---- addresses ---------------------------------------------------------------------------- */

/*
 * Split an address of the application. The discriminator follows the host part without any
 * alignment. The address is copied, because it may be unaligned and the caller may change it.
 */
VIP_RETURN vipl__read_address(const struct vipl__session *session, const char *call,
                              const char *which, const VIP_NET_ADDRESS *address,
                              struct vip_addr *ret)
{
    memset(ret, 0, sizeof(*ret));
    if (address == NULL)
        return vipl__fail(VIP_INVALID_PARAMETER, "%s: %s is NULL", call, which);
    if (address->HostAddressLen > VIP_HOST_ADDR_BYTES_MAX)
        return vipl__fail(VIP_INVALID_PARAMETER,
                          "%s: HostAddressLen of %s is %u; this NIC's is %u "
                          "(VIP_NIC_ATTRIBUTES.NicAddressLen)",
                          call, which, address->HostAddressLen, session->nic.NicAddressLen);
    if (address->DiscriminatorLen > session->nic.MaxDiscriminatorLen ||
        address->DiscriminatorLen > VIP_DISCRIMINATOR_BYTES_MAX)
        return vipl__fail(VIP_INVALID_PARAMETER,
                          "%s: DiscriminatorLen of %s is %u; at most %u are possible "
                          "(VIP_NIC_ATTRIBUTES.MaxDiscriminatorLen)",
                          call, which, address->DiscriminatorLen, session->nic.MaxDiscriminatorLen);
    ret->host_len = (uint8_t)address->HostAddressLen;
    ret->disc_len = (uint8_t)address->DiscriminatorLen;
    memcpy(ret->host, address->HostAddress, ret->host_len);
    memcpy(ret->disc, (const uint8_t *)address->HostAddress + ret->host_len, ret->disc_len);
    return VIP_SUCCESS;
}

/*
 * Read a local address: use its discriminator, but take the host part of this NIC. Programs may
 * leave the host part uninitialised (spec 3.11).
 */
VIP_RETURN vipl__read_local(const struct vipl__session *session, const char *call,
                            const VIP_NET_ADDRESS *address, struct vip_addr *ret)
{
    VIP_RETURN rc = vipl__read_address(session, call, "LocalAddr", address, ret);

    if (rc != VIP_SUCCESS)
        return rc;
    memset(ret->host, 0, sizeof(ret->host));
    ret->host_len = (uint8_t)session->nic.NicAddressLen;
    memcpy(ret->host, session->address, ret->host_len);
    return VIP_SUCCESS;
}

void vipl__put_address(Vip__NetAddress *out, struct vip_addr *address)
{
    vip__net_address__init(out);
    out->has_host = out->has_discriminator = 1;
    out->host.data = address->host;
    out->host.len = address->host_len;
    out->discriminator.data = address->disc;
    out->discriminator.len = address->disc_len;
}

/* Write no bytes beyond the two lengths: a program's buffer may be short, for example 40 bytes. */
void vipl__write_address(VIP_NET_ADDRESS *out, const struct vip_addr *address)
{
    out->HostAddressLen = address->host_len;
    out->DiscriminatorLen = address->disc_len;
    memcpy(out->HostAddress, address->host, address->host_len);
    memcpy((uint8_t *)out->HostAddress + address->host_len, address->disc, address->disc_len);
}

/* ---- private data ------------------------------------------------------------------------- */

VIP_RETURN vipl__read_private(const char *call, const VIPX_PRIVATE_DATA *given,
                              struct vip_private *ret)
{
    VIP_ULONG length = given == NULL ? 0 : given->Length;

    memset(ret, 0, sizeof(*ret));
    if (length > VIPX_PRIVATE_DATA_MAX)
        return vipl__fail(VIP_INVALID_PARAMETER,
                          "%s: private data of %lu bytes; at most %d are possible "
                          "(VIPX_PRIVATE_DATA_MAX)",
                          call, length, VIPX_PRIVATE_DATA_MAX);
    ret->len = (uint8_t)length;
    if (length > 0)
        memcpy(ret->bytes, given->Data, length);
    return VIP_SUCCESS;
}

void vipl__write_private(VIPX_PRIVATE_DATA *out, const struct vip_private *data)
{
    out->Length = data->len;
    memcpy(out->Data, data->bytes, sizeof(out->Data));
}

void vipl__get_private(struct vip_private *out, const ProtobufCBinaryData *data)
{
    memset(out, 0, sizeof(*out));
    if (data->len == 0 || data->len > VIP_PRIVATE_BYTES_MAX)
        return;
    out->len = (uint8_t)data->len;
    memcpy(out->bytes, data->data, data->len);
}

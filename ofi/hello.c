/*
 * The private data of a connection request and of its accept: a struct via_hello, then data of the
 * program. The hello has the address of the sender's control page and its count of posted receives.
 */
#include <string.h>

#include "ofi/calls.h"

void via_hello_write(struct via_ep *ep, const void *param, size_t bytes, VIPX_PRIVATE_DATA *ret)
{
    struct via_hello hello = {
        .version = VIA_HELLO_VERSION,
        .user_bytes = (uint8_t)bytes,
        .handle = ep->control_handle,
        .control = (uintptr_t)ep->control,
    };

    pthread_mutex_lock(&ep->lock);
    hello.posted = (uint16_t)ep->rx_in;
    ep->published = ep->rx_in;
    __atomic_store_n(&ep->state, VIA_EP_PENDING, __ATOMIC_RELEASE);
    pthread_mutex_unlock(&ep->lock);
    ret->Length = sizeof(hello) + bytes;
    memcpy(ret->Data, &hello, sizeof(hello));
    if (bytes > 0)
        memcpy(ret->Data + sizeof(hello), param, bytes);
}

bool via_hello_read(const VIPX_PRIVATE_DATA *data, struct via_hello *ret)
{
    struct via_hello hello;

    if (data->Length < sizeof(hello) || data->Length > VIPX_PRIVATE_DATA_MAX)
        return false;
    memcpy(&hello, data->Data, sizeof(hello));
    if (hello.version != VIA_HELLO_VERSION || hello.user_bytes > data->Length - sizeof(hello))
        return false;
    *ret = hello;
    return true;
}

/*
 * VipQuerySystemManagementInfo with VIP_SMI_AUTODISCOVERY (spec 1.10, 2.8): addresses of NICs that
 * can be reached, as vipd knows them (vipd/client/discover.c).
 *
 * The specification gives the caller an array of pointers and no call to free it. Here the array
 * and the addresses belong to the library and stay unchanged until VipCloseNic; threads that ask at
 * the same time do not disturb each other. If the list has not changed, the caller gets the same
 * memory as before, so a program that asks often does not grow.
 */
#include "libvipl/discover.h"

#include <stdlib.h>
#include <string.h>

#include "libvipl/call.h"
#include "libvipl/error.h"

/* Largest number of lists of one NIC handle. Each change of the known hosts makes a new list, which
 * takes memory until VipCloseNic. */
#define LISTS_MAX 4096

/* Number of hops in every entry of the list: each host counts as one network away. */
#define HOPS 1

/* One address as the application sees it. */
union address {
    VIP_NET_ADDRESS net;
    uint8_t bytes[4 + VIP_HOST_ADDR_BYTES_MAX];
};

/* One list that the application got. */
struct vipl__discovered {
    struct vipl__discovered *next;
    size_t count;
    VIP_NET_ADDRESS **array;  /* pointers into `addresses` */
    union address *addresses; /* this NIC's address first, the others in ascending order */
};

static int compare(const void *a, const void *b)
{
    return memcmp(a, b, sizeof(union address));
}

/* Append the addresses of one reply. False if there is no memory. */
static bool collect(const Vip__DiscoverReply *reply, struct vipl__discovered *list)
{
    union address *bigger =
        realloc(list->addresses, (list->count + reply->n_host + 1) * sizeof(*bigger));

    if (bigger == NULL)
        return false;
    list->addresses = bigger;
    for (size_t i = 0; i < reply->n_host; i++) {
        const ProtobufCBinaryData *host = &reply->host[i];
        union address *to = &bigger[list->count];

        if (host->len == 0 || host->len > VIP_HOST_ADDR_BYTES_MAX)
            continue;
        memset(to, 0, sizeof(*to));
        to->net.HostAddressLen = (VIP_UINT16)host->len;
        memcpy(to->bytes + 4, host->data, host->len);
        list->count++;
    }
    return true;
}

/* Sort the list: each address once, this NIC's address first. */
static void put_in_order(const struct vipl__session *session, struct vipl__discovered *list)
{
    union address own = {.net = {.HostAddressLen = session->nic.NicAddressLen}};
    size_t kept = 0;

    memcpy(own.bytes + 4, session->address, session->nic.NicAddressLen);
    qsort(list->addresses, list->count, sizeof(own), compare);
    for (size_t i = 0; i < list->count; i++)
        if (compare(&list->addresses[i], &own) != 0 &&
            (kept == 0 || compare(&list->addresses[i], &list->addresses[kept - 1]) != 0))
            list->addresses[kept++] = list->addresses[i];
    /* collect() left room for one more address. */
    memmove(list->addresses + 1, list->addresses, kept * sizeof(own));
    list->addresses[0] = own;
    list->count = kept + 1;
}

static void list_free(struct vipl__discovered *list)
{
    if (list == NULL)
        return;
    free(list->array);
    free(list->addresses);
    free(list);
}

/* Ask vipd for all pages of the list. Does not make the list's array. Outcomes as vipl__call. */
static VIP_RETURN ask(struct vipl__session *session, const char *call,
                      struct vipl__discovered *list)
{
    Vip__DiscoverRequest discover = VIP__DISCOVER_REQUEST__INIT;
    Vip__Request request = VIP__REQUEST__INIT;
    VIP_RETURN rc;

    discover.has_cursor = 1;
    request.body_case = VIP__REQUEST__BODY_DISCOVER;
    request.discover = &discover;
    do {
        Vip__Reply *reply = NULL;

        rc = vipl__call(session, call, &request, NULL, 0, &reply);
        if (rc == VIP_SUCCESS && (reply->discover == NULL || !collect(reply->discover, list)))
            rc = vipl__fail(VIP_ERROR_RESOURCE, "%s: out of memory", call);
        discover.cursor = rc == VIP_SUCCESS && reply->discover->has_next_cursor
                              ? reply->discover->next_cursor
                              : 0;
        vipl__reply_free(reply);
    } while (discover.cursor != 0);
    return rc;
}

/* Keep the list, or return an equal list that was kept before. NULL if there are too many lists. */
static struct vipl__discovered *keep(struct vipl__session *session, struct vipl__discovered *list)
{
    struct vipl__discovered *at;
    unsigned count = 0;

    pthread_mutex_lock(&session->lock);
    for (at = session->discovered; at != NULL; at = at->next, count++)
        if (at->count == list->count &&
            memcmp(at->addresses, list->addresses, at->count * sizeof(*at->addresses)) == 0)
            break;
    if (at == NULL && count < LISTS_MAX) {
        list->next = session->discovered;
        session->discovered = at = list;
    }
    pthread_mutex_unlock(&session->lock);
    return at;
}

static VIP_RETURN autodiscovery(struct vipl__session *session, const char *call,
                                VIP_AUTODISCOVERY_LIST *ret)
{
    struct vipl__discovered *list = calloc(1, sizeof(*list)), *kept = NULL;
    VIP_RETURN rc = VIP_ERROR_RESOURCE;

    if (list != NULL)
        rc = ask(session, call, list);
    if (list != NULL && rc == VIP_SUCCESS) {
        put_in_order(session, list);
        list->array = malloc(list->count * sizeof(VIP_NET_ADDRESS *));
        for (size_t i = 0; list->array != NULL && i < list->count; i++)
            list->array[i] = &list->addresses[i].net;
        if (list->array != NULL)
            kept = keep(session, list);
        if (kept == NULL)
            rc =
                vipl__fail(VIP_ERROR_RESOURCE,
                           "%s: out of memory, or %d different lists were given out already, which "
                           "stay until VipCloseNic",
                           call, LISTS_MAX);
    }
    if (kept != NULL) {
        ret->NumberOfHops = HOPS;
        ret->ADAddrArray = kept->array;
        ret->NumAdAddrs = (VIP_ULONG)kept->count;
    }
    if (kept != list)
        list_free(list);
    return rc;
}

VIP_RETURN VipQuerySystemManagementInfo(VIP_NIC_HANDLE NicHandle, VIP_ULONG InfoType,
                                        VIP_PVOID SysManInfo)
{
    static const char call[] = "VipQuerySystemManagementInfo";
    struct vipl__session *session = vipl__nic_enter(NicHandle, call);
    VIP_RETURN rc;

    if (session == NULL)
        return VIP_INVALID_PARAMETER;
    if (InfoType != VIP_SMI_AUTODISCOVERY || SysManInfo == NULL)
        rc = vipl__fail(VIP_INVALID_PARAMETER,
                        "%s: InfoType %lu is not VIP_SMI_AUTODISCOVERY, or SysManInfo is NULL",
                        call, InfoType);
    else
        rc = autodiscovery(session, call, SysManInfo);
    vipl__leave(session);
    return rc;
}

void vipl__discovered_free(struct vipl__session *session)
{
    struct vipl__discovered *list;

    while ((list = session->discovered) != NULL) {
        session->discovered = list->next;
        list_free(list);
    }
}

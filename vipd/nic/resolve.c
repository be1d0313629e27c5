/* Finds the addresses in registered memory for the pieces of a packet that leaves. */
#include "vipd/nic/internal.h"

struct reach {
    struct registry *registry;
    struct registry_vi vi;
};

static void *address(void *ctx, const struct eng_access *access)
{
    const struct reach *reach = ctx;

    return registry_access(reach->registry, &reach->vi, access, NULL);
}

bool nic_tx_resolve(struct nic_session *session, struct path_tx *tx)
{
    struct reach reach = {.registry = session->registry,
                          .vi = nic_registry_vi(&session->vis[tx->packet.vi])};

    return path_tx_resolve(tx, address, &reach);
}

/*
 * VipQuerySystemManagementInfo: the addresses of NICs that this NIC may reach. They are this NIC
 * itself, the NICs in the table [names] of the configuration, and the NICs that have a connection
 * with this NIC. On Ethernet, they also include NICs on the segment that have answered a look-up of
 * a name. vipd sends nothing for this request, so a host of [names] may be switched off.
 *
 * The cursor of a page is a place in the table [names], where place 0 is the own address. With the
 * bit CURSOR_PEERS the cursor is an index into the NIC's table of connections. With the bit
 * CURSOR_KNOWN the cursor is a place among the NICs that have answered.
 */
#include <stdlib.h>

#include "vipd/client/internal.h"

/* Largest number of addresses in one reply. An address takes at most 32 bytes, so the reply is far
 * below the size limit of a message. */
#define HOSTS_PER_REPLY 1024

#define CURSOR_PEERS (1ull << 32)
#define CURSOR_KNOWN (1ull << 33)

/* The addresses that request_discover collects for one reply. */
struct page {
    /* [HOSTS_PER_REPLY]. Addresses stay valid until the reply, because the NIC stands still. */
    ProtobufCBinaryData *host;
    size_t count;
    uint8_t len;         /* length of an address of this NIC's medium */
    enum link_kind kind; /* kind of this NIC's link */
};

/* Add an address to the page. false: the page is full. */
static bool add(void *ctx, const struct link_addr *addr)
{
    struct page *page = ctx;

    if (page->count == HOSTS_PER_REPLY)
        return false;
    if (addr->len == page->len)
        page->host[page->count++] =
            (ProtobufCBinaryData){.len = addr->len, .data = (uint8_t *)addr->bytes};
    return true;
}

/* Add addresses from place `cursor` on. Returns the place for the next call; 0: there are no more
 * addresses. */
static uint64_t add_names(const struct vipd_config *config, const struct link_addr *self,
                          uint64_t cursor, struct page *page)
{
    uint64_t place = 0;

    if (place++ >= cursor)
        add(page, self);
    for (unsigned i = 0; i < config->name_count; i++)
        for (unsigned k = 0; k < config->names[i].addr_count; k++, place++)
            if (place >= cursor && config->names[i].kind[k] == page->kind &&
                !add(page, &config->names[i].addr[k]))
                return place;
    return 0;
}

/* The cursor for an index that nic_peers or nic_known gave; 0: there are no more addresses. */
static uint64_t place(uint64_t which, uint32_t index)
{
    return index == UINT32_MAX ? 0 : which | index;
}

void request_discover(struct client *client, const Vip__Request *request, struct vip_fds *fds,
                      struct answer *answer)
{
    const struct nic *nic = session_nic(client);
    const struct link *link = nic_link(nic);
    struct page page = {.len = link->self.len, .kind = link->kind};
    uint64_t cursor = request->discover->cursor, next = 0;

    (void)fds;
    page.host = malloc(HOSTS_PER_REPLY * sizeof(*page.host));
    if (!page.host) {
        answer_set(answer, VIP_RC_ERROR_RESOURCE, "vipd has no memory for the list");
        return;
    }
    if ((cursor & (CURSOR_PEERS | CURSOR_KNOWN)) == 0) {
        next = add_names(client->vipd->config, &link->self, cursor, &page);
        cursor = CURSOR_PEERS;
    }
    if (next == 0 && (cursor & CURSOR_PEERS) != 0) {
        next = place(CURSOR_PEERS, nic_peers(nic, (uint32_t)cursor, add, &page));
        cursor = CURSOR_KNOWN;
    }
    if (next == 0)
        next = place(CURSOR_KNOWN, nic_known(nic, (uint32_t)cursor,
                                             vipd_loop_now(client->vipd->loop), add, &page));
    vip__discover_reply__init(&answer->discover);
    answer->discover.host = page.host;
    answer->discover.n_host = page.count;
    answer->discover.has_next_cursor = next != 0;
    answer->discover.next_cursor = next;
    answer->reply.discover = &answer->discover;
}

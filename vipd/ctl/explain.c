/* How each NIC would reach a host (vipd/ctl/explain.h). */
#include "vipd/ctl/explain.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "vipd/link/kinds.h"
#include "vipd/names.h"
#include "vipd/nic/nic.h"

/* Bytes of the longest name or address that vipd looks up. */
#define PEER_BYTES_MAX 255

/* Retry interval in ms for the tool while vipd asks the hosts on a medium. */
#define AGAIN_MS 20

struct explain {
    Vip__ExplainReply reply;
    Vip__ExplainRow rows[VIPD_NICS_MAX], *row[VIPD_NICS_MAX];
    char address[VIPD_NICS_MAX][LINK_TEXT_BYTES];
    char name[VIPD_NICS_MAX][LINK_NAME_BYTES];
    char state[VIPD_NICS_MAX][LINK_WHY_BYTES + 16];
};

/* Why nic_find, with the result r, has found no address. */
static const char *why_not(int r)
{
    switch (r) {
    case -EAGAIN:
        return "the hosts on the segment are being asked";
    case -ENOENT:
        return "not in [names], and no host on the segment answers to this name";
    case -ENETDOWN:
        return "not in [names], and no host can be asked while the NIC is down";
    case -EBUSY:
        return "not in [names], and too many other names are being asked for";
    default:
        return "no address of this medium in [names]";
    }
}

/* Find the name of the host with this address, in [names] or by asking the host. Outcomes: 0;
 * -EAGAIN: no answer yet, call again later; another negative errno: no name. */
static int look_name(const struct vipd *vipd, const struct vipd_nic *nic,
                     const struct link_addr *addr, char name[LINK_NAME_BYTES], Vip__ExplainRow *row)
{
    const char *in_table = vipd_host_name(vipd->config, nic_link(nic->nic)->kind, addr);
    int r = 0;

    if (in_table)
        snprintf(name, LINK_NAME_BYTES, "%s", in_table);
    else
        r = nic_host_name(nic->nic, addr, vipd_loop_now(vipd->loop), name);
    if (r == 0)
        row->name = name;
    return r;
}

/* Find address and name of `peer` on one NIC. true: an answer is missing, so call again later. */
static bool look(const struct vipd *vipd, const struct vipd_nic *nic, const char *peer,
                 char address[LINK_TEXT_BYTES], char name[LINK_NAME_BYTES], Vip__ExplainRow *row)
{
    const struct link *link = nic_link(nic->nic);
    const struct link_kind_row *kind = link_kind_row(link->kind);
    struct link_addr addr;
    bool again = false;
    int r = 0;

    row->why = (char *)"from [names], or an address itself";
    if (vipd_host_find(vipd->config, nic->config, peer, 0, &addr)) {
        again = look_name(vipd, nic, &addr, name, row) == -EAGAIN;
    } else {
        r = nic_find(nic->nic, peer, vipd_loop_now(vipd->loop), &addr);
        row->why = (char *)(r == 0 ? "answered on the segment" : why_not(r));
    }
    if (r == 0) {
        link_addr_format_as(link->kind, &addr, address, LINK_TEXT_BYTES);
        row->address = address;
        row->has_this_host = true;
        row->this_host = link_addr_equal(&addr, &link->self);
    } else if (kind->ip_version != 0) {
        row->has_ip_version = true;
        row->ip_version = kind->ip_version;
        row->has_port = true;
        row->port = (uint32_t)nic->config->keys.port;
    } else if (kind->only_host) {
        row->why = (char *)kind->only_host_why;
    }
    return again || r == -EAGAIN;
}

static void fill_mtu(const struct link *link, Vip__ExplainRow *row)
{
    uint32_t overhead = link_kind_row(link->kind)->overhead;

    row->has_mtu = true;
    row->mtu = link->packet_bytes;
    /* With packets of vipd's largest size, the interface's MTU is unknown: it may be larger. */
    row->has_link_mtu =
        overhead > 0 && link->packet_bytes > 0 && link->packet_bytes < VIP_PACKET_BYTES_MAX;
    row->link_mtu = link->packet_bytes + overhead;
}

int explain_new(const struct vipd *vipd, const char *peer, struct explain **ret)
{
    struct explain *explain;

    if (!peer || peer[0] == '\0' || strnlen(peer, PEER_BYTES_MAX + 1) > PEER_BYTES_MAX)
        return -EINVAL;
    explain = calloc(1, sizeof(*explain));
    if (!explain)
        return -ENOMEM;
    vip__explain_reply__init(&explain->reply);
    explain->reply.nics = explain->row;
    for (unsigned i = 0; i < vipd->nic_count; i++) {
        const struct link *link = nic_link(vipd->nics[i].nic);
        Vip__ExplainRow *row = explain->row[i] = &explain->rows[i];

        vip__explain_row__init(row);
        row->nic = (char *)vipd->nics[i].config->name;
        row->link = (char *)(link->how ? link->how : link_kind_name(link->kind));
        row->has_up = true;
        row->up = !link->down;
        snprintf(explain->state[i], sizeof(explain->state[i]), link->down ? "down (%s)" : "up%s",
                 link->why_down);
        row->state = explain->state[i];
        fill_mtu(link, row);
        if (look(vipd, &vipd->nics[i], peer, explain->address[i], explain->name[i], row)) {
            explain->reply.has_again_ms = true;
            explain->reply.again_ms = AGAIN_MS;
        }
    }
    explain->reply.n_nics = vipd->nic_count;
    *ret = explain;
    return 0;
}

Vip__ExplainReply *explain_reply(struct explain *explain)
{
    return &explain->reply;
}

void explain_free(struct explain *explain)
{
    free(explain);
}

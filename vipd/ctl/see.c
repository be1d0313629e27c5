/* Decides which details a user may see; makes texts of NICs' names and peers' addresses. */
#include <string.h>
#include <unistd.h>

#include "vipd/client/client.h"
#include "vipd/ctl/parts.h"
#include "vipd/nic/nic.h"

bool show_may_see(uid_t viewer, uid_t owner)
{
    return viewer == 0 || viewer == owner || viewer == geteuid();
}

const char *show_nic_name(const struct vipd *vipd, const struct client *client)
{
    return vipd->nics[client->session->nic].config->name;
}

const char *show_peer_text(struct walk *walk, const struct cm_host *host)
{
    enum link_kind kind = nic_link(walk->vipd->nics[walk->client->session->nic].nic)->kind;
    uint8_t len = host->len;

    if (len == 0 || len > sizeof(walk->peer.bytes))
        return "";
    if (!show_may_see(walk->viewer, walk->client->uid))
        return SHOW_HIDDEN;
    if (walk->peer.len == len && walk->peer_kind == kind &&
        memcmp(walk->peer.bytes, host->bytes, len) == 0)
        return walk->peer_text;
    walk->peer_kind = kind;
    walk->peer.len = len;
    memcpy(walk->peer.bytes, host->bytes, len);
    link_addr_format_as(kind, &walk->peer, walk->peer_text, sizeof(walk->peer_text));
    return walk->peer_text;
}

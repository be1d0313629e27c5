/* Requests about registered memory and protection tags. */
#include <errno.h>
#include <linux/sockios.h>
#include <string.h>
#include <sys/ioctl.h>

#include "vipd/client/internal.h"
#include "vipd/registry/mapping.h"
#include "vipd/registry/memfile.h"
#include "vipd/registry/registry.h"
#include "vipd/registry/taken.h"

static struct registry_attrs read_attrs(const Vip__MemAttributes *attributes)
{
    struct registry_attrs attrs = {0};

    if (attributes) { /* without attributes: no tag, no RDMA (spec 2.3) */
        attrs.ptag = attributes->ptag;
        attrs.enable_rdma_write = attributes->enable_rdma_write;
        attrs.enable_rdma_read = attributes->enable_rdma_read;
    }
    return attrs;
}

void request_create_ptag(struct client *client, const Vip__Request *request, struct vip_fds *fds,
                         struct answer *answer)
{
    struct registry *registry = client->session->registry;
    uint32_t ptag = request->create_ptag->ptag;
    bool past = request->create_ptag->has_ptag;
    struct registry_usage usage;
    enum vip_rc rc;

    (void)fds;
    if (past && !answer_claimed(client, answer))
        return;
    rc = past ? registry_ptag_restore(registry, ptag) : registry_ptag_create(registry, &ptag);
    if (rc == VIP_RC_SUCCESS) {
        answer->reply.has_number = true;
        answer->reply.number = ptag;
        return;
    }
    if (rc == VIP_RC_INVALID_PARAMETER) {
        answer_set(answer, rc,
                   "protection tag %u is in use, is no tag, or is above the limit of [limits] "
                   "ptags = %llu",
                   ptag, (unsigned long long)client->vipd->config->ptags);
        return;
    }
    registry_usage(registry, &usage);
    answer_set(answer, rc,
               "one protection tag more than the %u there are: the limit is [limits] ptags = %llu",
               usage.ptags, (unsigned long long)client->vipd->config->ptags);
}

void request_destroy_ptag(struct client *client, const Vip__Request *request, struct vip_fds *fds,
                          struct answer *answer)
{
    uint32_t ptag = request->destroy_ptag->ptag;
    enum vip_rc rc = registry_ptag_destroy(client->session->registry, ptag);

    (void)fds;
    answer_set(answer, rc,
               rc == VIP_RC_ERROR_RESOURCE
                   ? "protection tag %u is still carried by a region or a VI"
                   : "there is no protection tag %u",
               ptag);
}

/* Check the limits here, so that the answer can name their configuration keys. The registry checks
 * the limits, too. */
static bool within_quota(struct client *client, const struct registry_region *region,
                         struct answer *answer)
{
    const struct vipd_config *config = client->vipd->config;
    uint64_t bytes = region->bytes;
    struct registry_usage usage;

    taken_look(client->vipd->taken, 0); /* stop counting files that have been freed */
    registry_usage(client->session->registry, &usage);
    if (usage.regions >= config->register_regions) {
        answer_set(answer, VIP_RC_ERROR_RESOURCE,
                   "%u regions are registered: the limit is [limits] register_regions = %llu",
                   usage.regions, (unsigned long long)config->register_regions);
        return false;
    }
    if (usage.bytes > config->register_bytes || bytes > config->register_bytes - usage.bytes) {
        answer_set(answer, VIP_RC_ERROR_RESOURCE,
                   "%llu bytes beside the %llu registered: the limit is [limits] "
                   "register_bytes = %llu",
                   (unsigned long long)bytes, (unsigned long long)usage.bytes,
                   (unsigned long long)config->register_bytes);
        return false;
    }
    if (!answer_room(client, QUOTA_REGIONS, 1, answer) ||
        !answer_room(client, QUOTA_REGISTER_BYTES, registry_held_bytes(region), answer))
        return false;
    /* The registry checks these two limits, because only the registry knows whether the file is
     * mapped already. */
    registry_set_mapping_room(client->session->registry, quota_left(client, QUOTA_MAPPED_BYTES),
                              quota_left(client, QUOTA_MAPPED_FILES));
    return true;
}

/*
 * Has the program read all replies? The kernel limits the number of vipd's descriptors that wait
 * unread in sockets, for all programs together.
 */
static bool has_read_all(const struct client *client)
{
    int unread = 0;

    return ioctl(client->sock, SIOCOUTQ, &unread) == 0 && unread == 0;
}

void request_make_memory(struct client *client, const Vip__Request *request, struct vip_fds *fds,
                         struct answer *answer)
{
    uint64_t bytes = request->make_memory->bytes;
    int fd;

    (void)fds;
    /* Always make the file of an arena: RLIMIT_FSIZE may forbid the program to make such a file. */
    if (!memfile_protects() && bytes != VIP_ARENA_BYTES)
        return; /* no file in the answer: the program makes its own file */
    if (!client->session && !client_may_open(client, answer))
        return;
    if (!has_read_all(client)) {
        answer_set(answer, VIP_RC_INVALID_STATE,
                   "a memory file is for a program that has read vipd's replies to its other "
                   "requests: read them first");
        return;
    }
    if (bytes == 0 || bytes > MAPPING_BYTES_MAX) {
        answer_set(answer, VIP_RC_INVALID_PARAMETER,
                   "a memory file of %llu bytes: it may have 1 to %llu", (unsigned long long)bytes,
                   (unsigned long long)MAPPING_BYTES_MAX);
        return;
    }
    fd = memfile_make("via-memory", bytes, 0);
    if (fd < 0 && !memfile_protects())
        return; /* no file in the answer: the program makes the arena itself */
    if (fd < 0) {
        answer_set(answer, VIP_RC_ERROR_RESOURCE,
                   "vipd cannot make a memory file of %llu bytes: %s%s", (unsigned long long)bytes,
                   strerror(-fd),
                   fd == -EFBIG ? " (RLIMIT_FSIZE of vipd; ulimit -f, LimitFSIZE=)" : "");
        return;
    }
    answer->fds.fd[0] = fd;
    answer->fds.count = 1;
}

void request_register_mem(struct client *client, const Vip__Request *request, struct vip_fds *fds,
                          struct answer *answer)
{
    const Vip__RegisterMemRequest *r = request->register_mem;
    struct registry_region region = {
        .addr = r->address,
        .bytes = r->bytes,
        .attrs = read_attrs(r->attributes),
        .offset = r->offset,
    };
    unsigned fds_wanted = r->kind == VIP__MEM_KIND__MEM_ADOPTED ? 0 : 1;
    uint32_t handle;
    enum vip_rc rc;
    int fd = -1;

    switch (r->kind) {
    case VIP__MEM_KIND__MEM_SHARED:
        region.kind = REGISTRY_SHARED;
        break;
    case VIP__MEM_KIND__MEM_ADOPTED:
        region.kind = REGISTRY_ADOPTED;
        break;
    case VIP__MEM_KIND__MEM_STAGED:
        region.kind = REGISTRY_STAGED;
        break;
    default:
        client_end(client, CLIENT_END_MALFORMED, "a kind of memory that does not exist");
        return;
    }
    if (!r->has_kind || !r->has_address || !r->has_bytes) {
        client_end(client, CLIENT_END_MALFORMED, "register_mem without kind, address or size");
        return;
    }
    if (fds->count != fds_wanted) {
        client_end(client, CLIENT_END_FDS, "register_mem");
        return;
    }
    if ((r->has_handle && !answer_claimed(client, answer)) ||
        !within_quota(client, &region, answer))
        return;
    if (fds_wanted > 0) {
        fd = fds->fd[0];
        fds->fd[0] = -1;
    }
    answer->reason[0] = '\0';
    handle = r->handle;
    rc = r->has_handle ? registry_restore(client->session->registry, &region, fd, handle,
                                          answer->reason, sizeof(answer->reason))
                       : registry_add(client->session->registry, &region, fd, &handle,
                                      answer->reason, sizeof(answer->reason));
    answer->reply.code = rc;
    if (rc == VIP_RC_SUCCESS && !memory_within_limit(client, answer)) {
        registry_remove(client->session->registry, handle, region.addr);
    } else if (rc == VIP_RC_SUCCESS) {
        answer->reply.has_number = true;
        answer->reply.number = handle;
    } else {
        answer->reply.reason = answer->reason;
    }
}

void request_deregister_mem(struct client *client, const Vip__Request *request, struct vip_fds *fds,
                            struct answer *answer)
{
    const Vip__MemRequest *r = request->deregister_mem;

    (void)fds;
    answer_set(answer, registry_remove(client->session->registry, r->handle, r->address),
               "no region has the handle 0x%x and was registered at 0x%llx", r->handle,
               (unsigned long long)r->address);
}

void request_set_mem_attributes(struct client *client, const Vip__Request *request,
                                struct vip_fds *fds, struct answer *answer)
{
    const Vip__MemRequest *r = request->set_mem_attributes;
    struct registry_attrs attrs = read_attrs(r->attributes);
    enum vip_rc rc = registry_set_attrs(client->session->registry, r->handle, r->address, &attrs);

    (void)fds;
    if (rc == VIP_RC_INVALID_PTAG)
        answer_set(answer, rc, "there is no protection tag %u", attrs.ptag);
    else
        answer_set(answer, rc, "no region has the handle 0x%x and was registered at 0x%llx",
                   r->handle, (unsigned long long)r->address);
}

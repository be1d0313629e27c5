/* Resources of the machine that this vipd uses at this moment; see gauges.h. */
#include "vipd/ctl/gauges.h"

#include <dirent.h>
#include <malloc.h>
#include <stdbool.h>
#include <stdio.h>
#include <unistd.h>

#include "vipd/client/client.h"

/* Open descriptors of this process, without the descriptor that the counting needs. */
static bool count_descriptors(uint64_t *ret)
{
    DIR *dir = opendir("/proc/self/fd");
    const struct dirent *entry;
    uint64_t count = 0;

    if (!dir)
        return false;
    while ((entry = readdir(dir)) != NULL)
        count += entry->d_name[0] != '.';
    (void)closedir(dir);
    *ret = count > 0 ? count - 1 : 0;
    return true;
}

/* Address space and resident memory, in bytes, as the kernel accounts them. */
static bool read_memory(uint64_t *ret_mapped, uint64_t *ret_resident)
{
    uint64_t page_bytes = (uint64_t)sysconf(_SC_PAGESIZE);
    unsigned long long mapped, resident;
    FILE *file = fopen("/proc/self/statm", "re");
    bool good;

    if (!file)
        return false;
    good = fscanf(file, "%llu %llu", &mapped, &resident) == 2;
    (void)fclose(file);
    if (!good)
        return false;
    *ret_mapped = mapped * page_bytes;
    *ret_resident = resident * page_bytes;
    return true;
}

static void count_clients(const struct vipd *vipd, uint64_t *ret_clients, uint64_t *ret_sessions)
{
    *ret_clients = *ret_sessions = 0;
    for (const struct client *c = vipd->clients; c; c = c->next) {
        (*ret_clients)++;
        *ret_sessions += c->session != NULL;
    }
}

void vipd_gauges(const struct vipd *vipd,
                 void (*visit)(void *ctx, enum vip_stat id, uint64_t value), void *ctx)
{
    struct mallinfo2 heap = mallinfo2();
    uint64_t clients, sessions, fds, mapped, resident;

    count_clients(vipd, &clients, &sessions);
    visit(ctx, VIP_STAT_VIPD_clients, clients);
    visit(ctx, VIP_STAT_VIPD_sessions, sessions);
    if (count_descriptors(&fds))
        visit(ctx, VIP_STAT_VIPD_fds_open, fds);
    if (read_memory(&mapped, &resident)) {
        visit(ctx, VIP_STAT_VIPD_memory_mapped, mapped);
        visit(ctx, VIP_STAT_VIPD_memory_resident, resident);
    }
    visit(ctx, VIP_STAT_VIPD_memory_heap, heap.uordblks + heap.hblkhd);
}

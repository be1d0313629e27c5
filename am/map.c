/*
 * Maps: the pairs of endpoints, found by the name of the other endpoint. The first request makes
 * the connection of a pair (call.c), unless the other side makes it (accept.c). The connection ends
 * when it breaks (end.c), or when other pairs need a connection and there is no room (attend.c).
 */
#include "am/internal.h"

#include <stdlib.h>

static struct am_map **bucket(struct am_ep *ep, const en_t *name)
{
    uint64_t hash = (name->process ^ name->number) * 0x9E3779B97F4A7C15u;

    return &ep->map_bucket[hash >> 56];
}

struct am_map *am_map_find(struct am_ep *ep, const en_t *name)
{
    struct am_map *map = *bucket(ep, name);

    while (map != NULL && !am_name_equal(&map->name, name))
        map = map->next;
    return map;
}

struct am_map *am_map_get(struct am_ep *ep, const en_t *name)
{
    struct am_map *map = am_map_find(ep, name);

    if (map != NULL)
        return map;
    map = calloc(1, sizeof(*map));
    if (map == NULL)
        return NULL;
    map->ep = ep;
    map->name = *name;
    map->entry = -1;
    map->next = *bucket(ep, name);
    *bucket(ep, name) = map;
    return map;
}

void am_map_drop(struct am_map *map)
{
    struct am_map **at = bucket(map->ep, &map->name);

    if (map == &map->ep->self || map->entries > 0 || map->waiters > 0 || map->conns > 0 ||
        map->again != NULL || map->phase != AM_PHASE_NONE)
        return;
    while (*at != map)
        at = &(*at)->next;
    *at = map->next;
    free(map);
}

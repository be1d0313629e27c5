/* The parts of an endpoint: translation table, handler table, tag, segment. */
#include "am/internal.h"

#include <stdlib.h>
#include <string.h>

static int check(const struct am_ep *ep, const void *out, const char *call)
{
    if (am_net.inits == 0)
        return am_fail(AM_ERR_NOT_INIT, "%s: AM_Init was not called", call);
    if (ep == NULL || out == NULL)
        return am_fail(AM_ERR_BAD_ARG, "%s: NULL", call);
    return AM_OK;
}

static int check_entry(const struct am_ep *ep, int index, const void *out, const char *call)
{
    int rc = check(ep, out, call);

    if (rc == AM_OK && (index < 0 || index >= ep->trans_count))
        rc = am_fail(AM_ERR_BAD_ARG, "%s: index %d; 0 to %d are possible", call, index,
                     ep->trans_count - 1);
    if (rc == AM_OK && ep->trans[index].map == NULL)
        rc = am_fail(AM_ERR_RESOURCE, "%s: index %d is not mapped", call, index);
    return rc;
}

/* ---- sizes ----------------------------------------------------------------------------------- */

int AM_GetNumHandlers(ep_t ep, int *n)
{
    int rc = check(ep, n, "AM_GetNumHandlers");

    if (rc == AM_OK)
        *n = AM_MaxNumHandlers();
    return rc;
}

int AM_SetNumHandlers(ep_t ep, int n)
{
    int rc = check(ep, ep, "AM_SetNumHandlers");

    if (rc == AM_OK && n != AM_MaxNumHandlers())
        rc = am_fail(AM_ERR_RESOURCE, "AM_SetNumHandlers: %d; there are always %d", n,
                     AM_MaxNumHandlers());
    return rc;
}

int AM_GetNumTranslations(ep_t ep, int *n)
{
    int rc = check(ep, n, "AM_GetNumTranslations");

    if (rc == AM_OK)
        *n = ep->trans_count;
    return rc;
}

static int resize(struct am_ep *ep, int n)
{
    struct am_translation *table;

    for (int i = n; i < ep->trans_count; i++)
        if (ep->trans[i].map != NULL)
            return am_fail(AM_ERR_RESOURCE, "AM_SetNumTranslations: index %d is mapped", i);
    table = realloc(ep->trans, (size_t)n * sizeof(*table));
    if (table == NULL)
        return am_fail(AM_ERR_RESOURCE, "AM_SetNumTranslations: no memory for %d", n);
    for (int i = ep->trans_count; i < n; i++)
        table[i] = (struct am_translation){.map = NULL};
    ep->trans = table;
    ep->trans_count = n;
    return AM_OK;
}

int AM_SetNumTranslations(ep_t ep, int n)
{
    int rc = check(ep, ep, "AM_SetNumTranslations");

    if (rc != AM_OK)
        return rc;
    if (n > AM_TRANSLATIONS_MAX)
        return am_fail(AM_ERR_RESOURCE, "AM_SetNumTranslations: %d; at most %d are possible", n,
                       AM_TRANSLATIONS_MAX);
    am_lock(ep->bundle);
    rc = resize(ep, n < AM_TRANSLATIONS_MIN ? AM_TRANSLATIONS_MIN : n);
    am_unlock(ep->bundle);
    return rc;
}

/* ---- translations ---------------------------------------------------------------------------- */

/* Find the lowest entry of a map. Its index is the rank for AMX programs; replies carry its tag. */
static void find_lowest(struct am_ep *ep, struct am_map *map)
{
    map->entry = -1;
    for (int i = 0; i < ep->trans_count && map->entries > 0 && map->entry < 0; i++)
        if (ep->trans[i].map == map)
            map->entry = i;
}

static int map_locked(struct am_ep *ep, int index, const en_t *name, tag_t tag)
{
    struct am_map *map = &ep->self;

    if (ep->trans[index].map != NULL)
        return am_fail(AM_ERR_RESOURCE, "AM_Map: index %d is mapped already", index);
    if (!am_name_equal(name, &ep->name)) {
        pthread_mutex_lock(&am_net.lock);
        map = am_map_get(ep, name);
        pthread_mutex_unlock(&am_net.lock);
    }
    if (map == NULL)
        return am_fail(AM_ERR_RESOURCE, "AM_Map: no memory");
    ep->trans[index] = (struct am_translation){.map = map, .tag = tag};
    map->entries++;
    if (map->entry < 0 || index < map->entry)
        map->entry = index;
    return AM_OK;
}

int AM_Map(ep_t ep, int index, en_t name, tag_t tag)
{
    int rc = check(ep, ep, "AM_Map");

    if (rc != AM_OK)
        return rc;
    if (index < 0 || index >= ep->trans_count)
        return am_fail(AM_ERR_BAD_ARG, "AM_Map: index %d; 0 to %d are possible", index,
                       ep->trans_count - 1);
    if (name.host_bytes > sizeof(name.host))
        return am_fail(AM_ERR_BAD_ARG, "AM_Map: that is not the name of an endpoint");
    am_lock(ep->bundle);
    rc = map_locked(ep, index, &name, tag);
    am_unlock(ep->bundle);
    return rc;
}

int AM_MapAny(ep_t ep, int *index, en_t name, tag_t tag)
{
    int rc = check(ep, index, "AM_MapAny"), i = 0;

    if (rc != AM_OK)
        return rc;
    am_lock(ep->bundle);
    while (i < ep->trans_count && ep->trans[i].map != NULL)
        i++;
    am_unlock(ep->bundle);
    if (i == ep->trans_count)
        return am_fail(AM_ERR_RESOURCE, "AM_MapAny: all %d translations are in use", i);
    rc = AM_Map(ep, i, name, tag);
    if (rc == AM_OK)
        *index = i;
    return rc;
}

/* Are requests to this index under way? */
static bool in_use(const struct am_map *map, int index)
{
    const struct am_conn *conn = map->conn;

    if (map->waiters > 0)
        return true;
    for (unsigned id = 0; conn != NULL && id < conn->k; id++)
        if (conn->request[id].used && conn->request[id].dest == index)
            return true;
    return false;
}

static int unmap_locked(struct am_ep *ep, int index)
{
    struct am_map *map = ep->trans[index].map;
    unsigned empty = 0;

    while (in_use(map, index)) {
        if (am_in_handler > 0)
            return am_fail(AM_ERR_RESOURCE, "AM_UnMap: requests to index %d are under way", index);
        if (am_poll(ep->bundle) == 0)
            am_pause(ep->bundle, empty++);
    }
    ep->trans[index].map = NULL;
    map->entries--;
    if (map->entry == index)
        find_lowest(ep, map);
    pthread_mutex_lock(&am_net.lock);
    am_map_drop(map);
    pthread_mutex_unlock(&am_net.lock);
    return AM_OK;
}

int AM_UnMap(ep_t ep, int index)
{
    int rc = check_entry(ep, index, ep, "AM_UnMap");

    if (rc != AM_OK)
        return rc;
    am_lock(ep->bundle);
    rc = unmap_locked(ep, index);
    am_unlock(ep->bundle);
    return rc;
}

int AM_Unmap(ep_t ep, int index)
{
    return AM_UnMap(ep, index);
}

/* Prints no error: programs call the function to test whether an index is in use. */
int AM_GetTranslationInuse(ep_t ep, int index)
{
    if (am_net.inits == 0)
        return AM_ERR_NOT_INIT;
    if (ep == NULL || index < 0 || index >= ep->trans_count)
        return AM_ERR_BAD_ARG;
    return ep->trans[index].map != NULL ? AM_OK : AM_ERR_RESOURCE;
}

int AM_GetTranslationTag(ep_t ep, int index, tag_t *tag)
{
    int rc = check_entry(ep, index, tag, "AM_GetTranslationTag");

    if (rc == AM_OK)
        *tag = ep->trans[index].tag;
    return rc;
}

int AM_GetTranslationName(ep_t ep, int index, en_t *name)
{
    int rc = check_entry(ep, index, name, "AM_GetTranslationName");

    if (rc == AM_OK)
        *name = ep->trans[index].map->name;
    return rc;
}

int am_set_translation_tag(struct am_ep *ep, int index, tag_t tag)
{
    int rc = check_entry(ep, index, ep, "AMX_SetTranslationTag");

    if (rc != AM_OK)
        return rc;
    am_lock(ep->bundle);
    ep->trans[index].tag = tag;
    am_unlock(ep->bundle);
    return AM_OK;
}

/* ---- handlers -------------------------------------------------------------------------------- */

int AMVIA_SetHandler(ep_t ep, handler_t handler, amvia_handler_fn_t function)
{
    int rc = check(ep, ep, "AM_SetHandler");

    if (rc != AM_OK)
        return rc;
    if (function == NULL && handler == 0)
        function = (amvia_handler_fn_t)am_default_returned;
    am_lock(ep->bundle);
    /* If the program removes a handler, end the permissions for direct writes, which name it. */
    if (function == NULL && ep->handler[handler] != NULL)
        am_segment_revoke(ep);
    ep->handler[handler] = function;
    am_unlock(ep->bundle);
    return AM_OK;
}

int AMVIA_SetHandlerAny(ep_t ep, handler_t *handler, amvia_handler_fn_t function)
{
    int rc = check(ep, handler, "AM_SetHandlerAny");

    if (rc != AM_OK)
        return rc;
    if (function == NULL)
        return am_fail(AM_ERR_BAD_ARG, "AM_SetHandlerAny: the function is NULL");
    am_lock(ep->bundle);
    rc = AM_ERR_RESOURCE;
    for (int i = 1; i < AM_MaxNumHandlers() && rc != AM_OK; i++)
        if (ep->handler[i] == NULL) {
            ep->handler[i] = function;
            *handler = (handler_t)i;
            rc = AM_OK;
        }
    am_unlock(ep->bundle);
    return rc == AM_OK ? rc : am_fail(rc, "AM_SetHandlerAny: all handlers are in use");
}

/* ---- tag and segment ------------------------------------------------------------------------- */

int AM_SetTag(ep_t ep, tag_t tag)
{
    int rc = check(ep, ep, "AM_SetTag");

    if (rc != AM_OK)
        return rc;
    am_lock(ep->bundle);
    /* The permissions for direct writes hold only for the old tag. */
    if (tag != ep->tag)
        am_segment_revoke(ep);
    __atomic_store_n(&ep->tag, tag, __ATOMIC_RELAXED); /* the service thread may read the tag */
    am_unlock(ep->bundle);
    return AM_OK;
}

int AM_GetTag(ep_t ep, tag_t *tag)
{
    int rc = check(ep, tag, "AM_GetTag");

    if (rc == AM_OK)
        *tag = ep->tag;
    return rc;
}

/* Wait until the other sides have agreed that they no longer write into the segment. */
static void await_writers(struct am_ep *ep)
{
    unsigned empty = 0;

    while (am_segment_writers(ep) > 0)
        if (am_poll(ep->bundle) == 0)
            am_pause(ep->bundle, empty++);
}

int AM_SetSeg(ep_t ep, void *addr, uintptr_t nbytes)
{
    int rc = check(ep, ep, "AM_SetSeg");

    if (rc != AM_OK)
        return rc;
    if (addr == NULL && nbytes != 0 && nbytes != UINTPTR_MAX)
        return am_fail(AM_ERR_BAD_ARG, "AM_SetSeg: %zu bytes at NULL", (size_t)nbytes);
    am_lock(ep->bundle);
    if (am_in_handler > 0 && am_segment_granted(ep)) {
        am_unlock(ep->bundle);
        return am_fail(AM_ERR_RESOURCE, "AM_SetSeg: not in handlers");
    }
    /* End all direct writes to the old segment: after AM_SetSeg the program may free it. */
    am_segment_revoke(ep);
    await_writers(ep);
    am_segment_drop(ep);
    ep->seg.base = addr;
    ep->seg.len = nbytes;
    am_unlock(ep->bundle);
    return AM_OK;
}

int AM_GetSeg(ep_t ep, void **addr, uintptr_t *nbytes)
{
    int rc = check(ep, addr, "AM_GetSeg");

    if (rc == AM_OK && nbytes == NULL)
        rc = am_fail(AM_ERR_BAD_ARG, "AM_GetSeg: NULL");
    if (rc != AM_OK)
        return rc;
    *addr = ep->seg.base;
    *nbytes = ep->seg.len;
    return AM_OK;
}

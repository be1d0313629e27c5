/* The end of a connection. First the map forgets the connection. Later, when nothing refers to the
 * connection any more, it is freed. */
#include "am/internal.h"

void am_conn_broken(struct am_conn *conn)
{
    struct am_map *map = conn->map;

    if (conn->state == AM_CONN_DEAD)
        return;
    conn->state = AM_CONN_DEAD;
    am_conn_unlist(conn);
    if (conn->counted_closing)
        conn->bundle->closing--;
    am_control_set(conn, false);
    if (map->conn == conn)
        map->conn = NULL;
    conn->next = conn->bundle->dead;
    conn->bundle->dead = conn;
    pthread_mutex_lock(&am_net.lock);
    if (map->passive == conn)
        map->passive = NULL;
    map->phase = AM_PHASE_NONE;
    if (map->again != NULL) {
        am_service_again(map->again);
        map->again = NULL;
    }
    pthread_mutex_unlock(&am_net.lock);
}

void am_map_bury(struct am_conn *conn)
{
    struct am_map *map = conn->map;
    bool stranger = conn->stranger;

    am_conn_free(conn);
    pthread_mutex_lock(&am_net.lock);
    map->conns--;
    map->ep->strangers -= stranger;
    am_net.live--;
    am_net.counts.live--;
    am_map_drop(map);
    if (am_net.wanted > 0) /* wake the threads that sleep until there is room */
        am_attend_all();
    pthread_mutex_unlock(&am_net.lock);
    am_service_kick();
}

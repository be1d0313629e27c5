/*
 * The VIs of an engine, and their lists (enum eng_list_id).
 */
#include "vipd/engine/internal.h"

struct eng_vi *eng_vi_get(const struct eng *eng, uint16_t vi)
{
    VIP_ASSERT(vi < VIP_VI_MAX && eng->vi[vi]);
    return eng->vi[vi];
}

void eng_list_add(struct eng_vi *vi, enum eng_list_id id)
{
    struct eng *eng = vi->eng;

    if (vi->listed[id])
        return;
    vi->listed[id] = true;
    vi->next[id] = ENG_NONE;
    vi->prev[id] = eng->list[id].tail;
    if (eng->list[id].tail == ENG_NONE)
        eng->list[id].head = vi->index;
    else
        eng_vi_get(eng, eng->list[id].tail)->next[id] = vi->index;
    eng->list[id].tail = vi->index;
}

void eng_list_del(struct eng_vi *vi, enum eng_list_id id)
{
    struct eng *eng = vi->eng;

    if (!vi->listed[id])
        return;
    vi->listed[id] = false;
    if (id == ENG_LIST_READY && eng->list[id].head == vi->index)
        eng->turn_packets = eng->turn_bytes = 0;
    if (vi->prev[id] == ENG_NONE)
        eng->list[id].head = vi->next[id];
    else
        eng_vi_get(eng, vi->prev[id])->next[id] = vi->next[id];
    if (vi->next[id] == ENG_NONE)
        eng->list[id].tail = vi->prev[id];
    else
        eng_vi_get(eng, vi->next[id])->prev[id] = vi->prev[id];
}

struct eng_vi *eng_list_first(const struct eng *eng, enum eng_list_id id)
{
    return eng->list[id].head == ENG_NONE ? NULL : eng_vi_get(eng, eng->list[id].head);
}

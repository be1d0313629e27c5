/* The lists of vipd/nic. The links are inside the objects, so adding and removing cannot fail. */
#ifndef VIPD_NIC_LIST_H
#define VIPD_NIC_LIST_H

#include <stdbool.h>
#include <stddef.h>

/* Doubly linked list with a head. The head of an empty list points to itself. */
struct nic_list {
    struct nic_list *next, *prev;
};

static inline void nic_list_init(struct nic_list *head)
{
    head->next = head->prev = head;
}

static inline bool nic_list_empty(const struct nic_list *head)
{
    return head->next == head;
}

static inline void nic_list_add_tail(struct nic_list *head, struct nic_list *item)
{
    item->next = head;
    item->prev = head->prev;
    head->prev->next = item;
    head->prev = item;
}

/* Remove an item; removing it again is harmless. */
static inline void nic_list_del(struct nic_list *item)
{
    item->prev->next = item->next;
    item->next->prev = item->prev;
    nic_list_init(item);
}

#define NIC_ITEM(ptr, type, member) ((type *)(void *)((char *)(ptr)-offsetof(type, member)))

#endif

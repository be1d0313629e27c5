/*
 * The ring of a completion queue: an entry says in which completion ring the next completion is.
 *
 *   vipd()   vipd/nic/complete.c: complete_now, cq_put, cq_room; proto/ring.h: vip_cq_write
 *   reader() libvipl/cq.c: next_entry; proto/ring.h: vip_cq_read, vip_comp_read
 *
 * Shown: every entry is read once, in order, and its completion is there; a slot is written again only after it was
 * read. The ring has two slots, so that slots are used again. completion.pml shows how a reader sleeps, and cq_fd.pml
 * how it waits with a descriptor. A completion is one word here; completion.pml has its parts.
 */
#define VIPD   0
#define READER 1
#define CPUS   2

#define ENTRIES 4

#define COMP(n)  (n)
#define ENTRY(n) (ENTRIES + ((n) & 1))
#define CONS     (ENTRIES + 2)
#define WORDS    (ENTRIES + 3)

#include "memory.pml"

#define SLOTS 2

/* The completion is visible before the entry. */
#ifndef NO_ENTRY
#define STORE_ENTRY STORE_RELEASE
#else
#define STORE_ENTRY STORE
#endif
/* The completion is loaded after the entry. */
#ifndef NO_READ
#define LOAD_ENTRY LOAD_ACQUIRE
#else
#define LOAD_ENTRY LOAD
#endif

proctype vipd()
{
    byte position;

    do
    :: position < ENTRIES ->
        /* If the ring is full, entries wait in vipd, which looks at the ring again at intervals. */
        position < memory[CONS] + SLOTS;
        STORE_RELEASE(VIPD, COMP(position), 1);
        STORE_ENTRY(VIPD, ENTRY(position), position + 1);
        position++
    :: else -> break
    od
}

proctype reader()
{
    byte position, entry, comp;

    do
    :: position < ENTRIES ->
        memory[ENTRY(position)] == position + 1;
        LOAD_ENTRY(READER, ENTRY(position), entry);
        if
        :: entry == position + 1 ->
            STORE_RELEASE(READER, CONS, position + 1);
            LOAD(READER, COMP(position), comp);
            assert(comp);
            position++
        :: else
        fi
    :: else -> break
    od
}

init
{
    atomic { run store_buffer(VIPD); run store_buffer(READER); run vipd(); run reader() }
}

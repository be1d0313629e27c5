/*
 * The two completion rings of a work queue: completions lie in the short ring until it is full, then in the long one.
 *
 *   vipd()   proto/comps.h: vip_comps_slot; proto/ring.h: vip_comp_fill, vip_comp_stamp
 *   reader() proto/comps.h: vip_comps_read; proto/comps.c: vip_comps_read_long
 *
 * Shown: the reader gets every completion once, whole, in order; if the word AT names the long
 * ring, every earlier completion is in the short ring. Here the short ring has one slot.
 * completion.pml shows how a reader sleeps.
 */
#define VIPD   0
#define READER 1
#define CPUS   2

#define COMPLETIONS 3
#define SINCE       1 /* position of the first completion in the long ring */

#define BODY(n) (n)
#define SHORT   COMPLETIONS
#define LONG(n) (COMPLETIONS + (n)) /* completions from number SINCE on */
#define AT      (2 * COMPLETIONS)   /* 0: the short ring is in use; SINCE: the long one */
#define WORDS   (2 * COMPLETIONS + 1)

#include "memory.pml"

/* All completions in the short ring are visible before the word AT names the long ring. */
#ifndef NO_AT
#define STORE_AT STORE_RELEASE
#else
#define STORE_AT STORE
#endif
/* The reader looks into both rings after it has loaded the word. */
#ifndef NO_RING
#define LOAD_AT LOAD_ACQUIRE
#else
#define LOAD_AT LOAD
#endif

proctype vipd()
{
    byte position;

    do
    :: position < COMPLETIONS ->
        if
        :: position == SINCE -> STORE_AT(VIPD, AT, SINCE)
        :: else
        fi;
        STORE(VIPD, BODY(position), position + 1);
        if
        :: position < SINCE -> STORE_RELEASE(VIPD, SHORT, position + 1)
        :: else -> STORE_RELEASE(VIPD, LONG(position), position + 1)
        fi;
        position++
    :: else -> break
    od
}

inline take()
{
    LOAD(READER, BODY(position), body);
    assert(body == position + 1);
    position++
}

proctype reader()
{
    byte position, stamp, body, at;

    do
    :: position < COMPLETIONS && !at ->
        LOAD_ACQUIRE(READER, SHORT, stamp);
        if
        :: stamp == position + 1 -> take()
        :: else ->
            LOAD_AT(READER, AT, at);
            if
            :: at && position < at ->
                LOAD_ACQUIRE(READER, SHORT, stamp);
                assert(stamp == position + 1);
                take()
            :: else
            fi
        fi
    :: position < COMPLETIONS && at ->
        LOAD_ACQUIRE(READER, LONG(position), stamp);
        if
        :: stamp == position + 1 -> take()
        :: else
        fi
    :: else -> break
    od
}

init
{
    atomic { run store_buffer(VIPD); run store_buffer(READER); run vipd(); run reader() }
}

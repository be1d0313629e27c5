/*
 * The table of receives (doc/shm-abi.md, 7): a program posts receives into the table and does not
 * wake vipd. vipd looks into the table when a message needs a receive, and again when the VI has
 * failed. In this model an earlier VI has used the slot with the same stamp.
 *
 *   post()    libvipl/post.c: post_to_table, tell_tabled; proto/direct.h: vip_recv_write
 *   vipd()    vipd/nic/direct.c: table_holds, take_one; proto/direct.h: vip_recv_read; vipd/nic/session.c: op_event
 *
 * Shown: whenever vipd looks, it takes the whole receive of the present VI or nothing. A receive
 * that is posted while the VI fails is flushed: vipd finds it, or the program asks for it
 * (VIP_ASK_FLUSH).
 */
#define APP  0
#define VIPD 1
#define CPUS 2

#define STAMP  0
#define GEN    1
#define SEG    2
#define POSTED 3
#define STATE  4
#define WORDS  5

#include "memory.pml"

#define LIFE  2 /* generation of the present VI; the earlier VI has left a 1 in the slot */
#define ERROR 1

/* The receive is visible before the program loads the state. */
#ifndef NO_TABLED
#define FENCE_TABLED FENCE(APP)
#else
#define FENCE_TABLED skip
#endif
/* The state is visible before vipd looks into the table once more. */
#ifndef NO_ERROR
#define FENCE_ERROR FENCE(VIPD)
#else
#define FENCE_ERROR skip
#endif
/* The body of the slot is visible before `posted`. (STAMP is a release store for long
 * descriptors.) */
#ifndef NO_TELL
#define STORE_POSTED STORE_RELEASE
#else
#define STORE_POSTED STORE
#endif
/* The slot is loaded after `posted`. Without NO_POSTED's fence vipd looks only at the stamp, which
 * the earlier VI may have written. */
#ifndef NO_POSTED
#define LOAD_POSTED(r) LOAD_ACQUIRE(VIPD, POSTED, r)
#else
#define LOAD_POSTED(r) r = 1
#endif

bit asked;   /* the program has posted VIP_ASK_FLUSH */
bit flushed; /* vipd has given the receive to the engine */

proctype post()
{
    byte state;

    STORE(APP, GEN, LIFE);
    STORE(APP, SEG, LIFE);
    STORE_RELEASE(APP, STAMP, 1);
    STORE_POSTED(APP, POSTED, 1);
    FENCE_TABLED;
    LOAD(APP, STATE, state);
    if
    :: state == ERROR -> SYSCALL(APP); asked = 1
    :: else
    fi
}

/* as take_one in vipd/nic/direct.c */
inline look()
{
    LOAD_POSTED(posted);
    if
    :: posted == 1 ->
        LOAD_ACQUIRE(VIPD, STAMP, word);
        assert(word == 1);
        LOAD(VIPD, GEN, word);
        if
        :: word == LIFE ->
            LOAD(VIPD, SEG, word);
            assert(word == LIFE);
            flushed = 1
        :: else
        fi
    :: else
    fi;
    posted = 0;
    word = 0
}

proctype vipd()
{
    byte posted, word;

    /* A message arrives and needs a receive. */
    look();
    if
    :: !flushed ->
        STORE_RELEASE(VIPD, STATE, ERROR);
        FENCE_ERROR;
        look();
        if
        :: !flushed ->
            asked;
            SYSCALL(VIPD);
            look();
            assert(flushed)
        :: else
        fi
    :: else
    fi
}

init
{
    atomic {
        memory[STAMP] = 1;
        memory[GEN] = 1;
        memory[SEG] = 1;
        cpu[APP].seen[STAMP] = 1;
        cpu[APP].seen[GEN] = 1;
        cpu[APP].seen[SEG] = 1;
        cpu[VIPD].seen[STAMP] = 1;
        cpu[VIPD].seen[GEN] = 1;
        cpu[VIPD].seen[SEG] = 1;
        run store_buffer(APP);
        run store_buffer(VIPD);
        run post();
        run vipd()
    }
}

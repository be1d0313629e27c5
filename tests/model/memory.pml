/*
 * A processor whose stores and loads are not in order, for the models of this folder.
 *
 * What it may do, as arm64 may and x86 partly:
 *   stores    wait in a buffer of the processor (BUF of them) and become visible to all others at once, one by
 *             one, in any order, except: two to the same word stay in order; a release store comes after all
 *             stores and loads before it (but not before those behind it).
 *   loads     may be satisfied early: LOAD takes any value that the word has had since this processor's last
 *             acquire or fence. Or late: LOAD_LATE is satisfied at any time before a release store or a fence
 *             behind it, or before LATE_DONE, the first use of the value.
 *   acquire   no load behind it is satisfied before it. It may itself be satisfied before stores in front of it,
 *             release stores too; then loads behind it see nothing older than the time at which the processor comes to
 *             it, which is more than arm64 promises.
 *   FENCE     the buffer is empty and no load is late; no load behind it is satisfied before it.
 * A system call (eventfd, futex) has the order that the kernel's own lock gives it: SYSCALL is release and acquire.
 *
 * A model defines CPUS, WORDS and includes this file. Processor p is the process that passes p; its stores
 * drain by the process store_buffer(p), which is started with it.
 */
#ifndef BUF
#define BUF 3
#endif

typedef processor {
    byte used;       /* stores that wait */
    byte word[BUF];
    byte value[BUF];
    bit release[BUF];
    byte seen[WORDS]; /* oldest value that a load may still take */
    byte late;        /* a load that is not satisfied yet: its word + 1, or 0 */
    byte late_value;
}

processor cpu[CPUS];
byte memory[WORDS];

/* May the store in place i of the buffer become visible next? */
#define DRAINS0(p) (cpu[p].used > 0)
#define DRAINS1(p) (cpu[p].used > 1 && !cpu[p].release[1] && cpu[p].word[0] != cpu[p].word[1])
#define DRAINS2(p)                                                                                                     \
    (cpu[p].used > 2 && !cpu[p].release[2] && cpu[p].word[0] != cpu[p].word[2] && cpu[p].word[1] != cpu[p].word[2])

/*
 * The store in place i becomes visible. A processor that could still see an older value than the one before may
 * keep it, or have satisfied its load in between.
 */
inline drain(p, i)
{
    q = 0;
    do
    :: q < CPUS ->
        if
        :: q == p -> cpu[q].seen[cpu[p].word[i]] = cpu[p].value[i]
        :: q != p && cpu[q].seen[cpu[p].word[i]] != memory[cpu[p].word[i]] ->
            if
            :: true
            :: cpu[q].seen[cpu[p].word[i]] = memory[cpu[p].word[i]]
            fi
        :: else
        fi;
        q++
    :: else -> break
    od;
    memory[cpu[p].word[i]] = cpu[p].value[i];
    q = i;
    do
    :: q + 1 < cpu[p].used ->
        cpu[p].word[q] = cpu[p].word[q + 1];
        cpu[p].value[q] = cpu[p].value[q + 1];
        cpu[p].release[q] = cpu[p].release[q + 1];
        q++
    :: else -> break
    od;
    cpu[p].used--;
    cpu[p].word[cpu[p].used] = 0;
    cpu[p].value[cpu[p].used] = 0;
    cpu[p].release[cpu[p].used] = 0;
    q = 0
}

/* The newest own store that waits is what a load sees; else `from` is. */
#define FORWARD(p, w, r, from)                                                                                         \
    if                                                                                                                 \
    :: cpu[p].used > 2 && cpu[p].word[2] == (w) -> r = cpu[p].value[2]                                                 \
    :: !(cpu[p].used > 2 && cpu[p].word[2] == (w)) && cpu[p].used > 1 && cpu[p].word[1] == (w) ->                      \
        r = cpu[p].value[1]                                                                                            \
    :: !(cpu[p].used > 2 && cpu[p].word[2] == (w)) && !(cpu[p].used > 1 && cpu[p].word[1] == (w)) &&                   \
            cpu[p].used > 0 && cpu[p].word[0] == (w) ->                                                                \
        r = cpu[p].value[0]                                                                                            \
    :: else -> r = from                                                                                                \
    fi

#define LOAD_NOW(p, w, r)                                                                                              \
    FORWARD(p, w, r, memory[w]);                                                                                       \
    cpu[p].seen[w] = memory[w]

proctype store_buffer(byte p)
{
    byte q;

end:
    do
    :: atomic { DRAINS0(p) -> drain(p, 0) }
    :: atomic { DRAINS1(p) -> drain(p, 1) }
    :: atomic { DRAINS2(p) -> drain(p, 2) }
    :: atomic {
        cpu[p].late != 0 ->
        LOAD_NOW(p, cpu[p].late - 1, cpu[p].late_value);
        cpu[p].late = 0
    }
    od
}

/* No load from now on sees anything older than what is in memory. */
#define REFRESH(p)                                                                                                     \
    d_step {                                                                                                           \
        word_i = 0;                                                                                                    \
        do                                                                                                             \
        :: word_i < WORDS -> cpu[p].seen[word_i] = memory[word_i]; word_i++                                            \
        :: else -> break                                                                                               \
        od;                                                                                                            \
        word_i = 0                                                                                                     \
    }

hidden byte word_i;

#define PUT(p, w, v, rel)                                                                                              \
    cpu[p].word[cpu[p].used] = w;                                                                                      \
    cpu[p].value[cpu[p].used] = v;                                                                                     \
    cpu[p].release[cpu[p].used] = rel;                                                                                 \
    cpu[p].used++

/* A plain or relaxed store. */
#define STORE(p, w, v)                                                                                                 \
    atomic { cpu[p].used < BUF -> PUT(p, w, v, 0) }

#define STORE_RELEASE(p, w, v)                                                                                         \
    atomic { cpu[p].used < BUF && cpu[p].late == 0 -> PUT(p, w, v, 1) }

/* A plain or relaxed load into r. */
#define LOAD(p, w, r)                                                                                                  \
    atomic {                                                                                                           \
        if                                                                                                             \
        :: true -> LOAD_NOW(p, w, r)                                                                                   \
        :: cpu[p].seen[w] != memory[w] -> FORWARD(p, w, r, cpu[p].seen[w])                                             \
        fi                                                                                                             \
    }

#define LOAD_ACQUIRE(p, w, r)                                                                                          \
    atomic {                                                                                                           \
        if                                                                                                             \
        :: true -> LOAD_NOW(p, w, r)                                                                                   \
        :: cpu[p].seen[w] != memory[w] -> FORWARD(p, w, r, cpu[p].seen[w])                                             \
        fi;                                                                                                            \
        REFRESH(p)                                                                                                     \
    }

/* A load, early or late: satisfied at the latest when LATE_DONE brings its value. One at a time; not of a word that
 * this processor writes. */
#define LOAD_LATE(p, w)                                                                                                \
    atomic {                                                                                                           \
        if                                                                                                             \
        :: cpu[p].late = (w) + 1                                                                                       \
        :: cpu[p].seen[w] != memory[w] -> cpu[p].late_value = cpu[p].seen[w]                                           \
        fi                                                                                                             \
    }
#define LATE_DONE(p, r)                                                                                                \
    atomic { cpu[p].late == 0 -> r = cpu[p].late_value; cpu[p].late_value = 0 }

/* An atomic exchange with acquire order: no other processor comes between its load and its store. */
#define EXCHANGE_ACQUIRE(p, w, v, r)                                                                                   \
    atomic { EXCHANGE(p, w, v, r); REFRESH(p) }
#define EXCHANGE(p, w, v, r)                                                                                           \
    atomic {                                                                                                           \
        !OWN_STORE(p, w);                                                                                              \
        r = memory[w];                                                                                                 \
        memory[w] = v;                                                                                                 \
        cpu[p].seen[w] = v                                                                                             \
    }
#define OWN_STORE(p, w)                                                                                                \
    (cpu[p].used > 0 && cpu[p].word[0] == (w) || cpu[p].used > 1 && cpu[p].word[1] == (w) ||                           \
     cpu[p].used > 2 && cpu[p].word[2] == (w))

#define FENCE(p)                                                                                                       \
    atomic { cpu[p].used == 0 && cpu[p].late == 0 -> REFRESH(p) }

/* The parts of a system call: what comes before is visible when it takes effect; what follows sees its effect. */
#define SYSCALL(p) FENCE(p)

/*
 * A processor whose stores and loads are not in order, for the models of this folder.
 *
 * The reordering that is allowed, as on arm64 and partly on x86:
 *   stores    wait in a buffer of the processor with BUF places. They become visible one by one, each to all other
 *             processors at once, in any order, with two exceptions. Two stores to the same word
 *             stay in order. A release store becomes visible after all earlier stores and loads;
 *             later stores may become visible before it.
 *   loads     may be satisfied early: LOAD takes any value that the word has had since this processor's last
 *             acquire or fence. They may also be satisfied late: LOAD_LATE is satisfied at any time
 *             before the next release store, the next fence, or LATE_DONE (the first use of the
 *             value).
 *   acquire   no later load is satisfied before the acquire load. The acquire load may be satisfied
 *             before earlier stores, also before release stores. A later load sees no value older
 *             than those in memory at the time of the acquire load. arm64 promises less.
 *   FENCE     waits until the buffer is empty and no load is late; no later load is satisfied
 *             before the fence.
 * A system call (eventfd, futex) takes a lock of the kernel, so SYSCALL is release and acquire.
 *
 * A model defines CPUS and WORDS and includes this file. A process passes its processor's number p to the macros. The
 * process store_buffer(p), which the model starts, makes the stores of processor p visible.
 */
#ifndef BUF
#define BUF 3
#endif

typedef processor {
    byte used;       /* number of stores that wait */
    byte word[BUF];
    byte value[BUF];
    bit release[BUF];
    byte seen[WORDS]; /* an older value that a load may still take */
    byte late;        /* word + 1 of the load that is not satisfied yet, or 0 */
    byte late_value;
}

processor cpu[CPUS];
byte memory[WORDS];

/* May the store in place i of the buffer become visible next? */
#define DRAINS0(p) (cpu[p].used > 0)
#define DRAINS1(p) (cpu[p].used > 1 && !cpu[p].release[1] && cpu[p].word[0] != cpu[p].word[1])
#define DRAINS2(p)                                                                                                     \
    (cpu[p].used > 2 && !cpu[p].release[2] && cpu[p].word[0] != cpu[p].word[2] && cpu[p].word[1] != cpu[p].word[2])

/* The store in place i becomes visible. `seen` of each other processor keeps one older value: the
 * value that it has, or the value that was in memory until now. */
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

/* A load sees the newest waiting store of its own processor to this word; without such a store, `from`. */
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

/* From now on no load sees a value older than the one that is in memory now. */
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

/* A load that is satisfied early or late, but before LATE_DONE, which returns its value. A
 * processor has one such load at a time, and only of words that it does not write. */
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

/* Use it before and after a system call, which sees earlier stores; later loads see its effect. */
#define SYSCALL(p) FENCE(p)

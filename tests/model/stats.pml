/*
 * The mapped file of statistics, with a sequence number that is odd while vipd writes values.
 *
 *   vipd()   vipd/ctl/stats_file.c: write_file
 *   reader() tools/vipctl/mapped.c: read_values
 *
 * Shown: the values that a reader accepts are from one write of vipd.
 */
#define VIPD   0
#define READER 1
#define CPUS   2

#define SEQUENCE 0
#define VALUE    1
#define OTHER    2
#define WORDS    3

#include "memory.pml"

#define WRITES 2

/* The odd number is visible before the first value. */
#ifndef NO_ODD
#define FENCE_ODD FENCE(VIPD)
#else
#define FENCE_ODD skip
#endif
/* The last value is visible before the even number. */
#ifndef NO_EVEN
#define STORE_EVEN STORE_RELEASE
#else
#define STORE_EVEN STORE
#endif
/* The number is loaded before the values. */
#ifndef NO_BEFORE
#define FENCE_BEFORE FENCE(READER)
#else
#define FENCE_BEFORE skip
#endif
/* The number is loaded again after the values. */
#ifndef NO_AFTER
#define FENCE_AFTER FENCE(READER)
#else
#define FENCE_AFTER skip
#endif

proctype vipd()
{
    byte sequence;

    do
    :: sequence < 2 * WRITES ->
        sequence++;
        STORE(VIPD, SEQUENCE, sequence);
        FENCE_ODD;
        STORE(VIPD, VALUE, sequence);
        STORE(VIPD, OTHER, sequence);
        sequence++;
        STORE_EVEN(VIPD, SEQUENCE, sequence)
    :: else -> break
    od
}

proctype reader()
{
    byte before, value, other, after;

    LOAD(READER, SEQUENCE, before);
    FENCE_BEFORE;
    LOAD_LATE(READER, OTHER);
    LOAD(READER, VALUE, value);
    FENCE_AFTER;
    LOAD(READER, SEQUENCE, after);
    LATE_DONE(READER, other);
    assert(before != after || before % 2 == 1 || value == other)
}

init
{
    atomic { run store_buffer(VIPD); run store_buffer(READER); run vipd(); run reader() }
}

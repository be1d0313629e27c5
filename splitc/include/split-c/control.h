/*
 * Prefixes and loops that select statements and elements by process.
 */
#ifndef SPLIT_C_CONTROL_H
#define SPLIT_C_CONTROL_H

/* "on_one statement": only process 0 runs the statement. */
#define on_one     if (MYPROC == 0)
#define on_proc(p) if (MYPROC == (p))

/* Loop over this process's elements of a spread array of n elements (for_my_2d: n by m). */
#define for_my_1d(i, n) for ((i) = MYPROC; (i) < (n); (i) += PROCS)
#define for_my_2d(i, j, n, m)                                                                      \
    for ((i) = MYPROC / (m), (j) = MYPROC % (m); (i) < (n);                                        \
         (j) += PROCS, (i) += (j) / (m), (j) %= (m))

#endif

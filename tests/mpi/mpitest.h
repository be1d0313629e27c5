/* Shared by the files of mpitest. */
#ifndef MPITEST_H
#define MPITEST_H

#include <mpi.h>
#include <stddef.h>

extern int rank, ranks;

/* Print the reason on stderr and end the job. */
void fail(const char *format, ...) __attribute__((format(printf, 1, 2), noreturn));
/* Fill memory with bytes that depend on position and seed, or check them. what: text for fail(). */
void pattern_fill(void *buf, size_t bytes, unsigned seed);
void pattern_check(const void *buf, size_t bytes, unsigned seed, const char *what);
/* malloc; ends the job if there is no memory. */
void *memory(size_t bytes);

/* point.c */
void part_sizes(void);
void part_wildcard(void);
void part_order(void);
void part_modes(void);
void part_flood(void);
void part_big_flood(void);
void part_truncation(void);
void part_cancel(void);
void part_probe(void);
void part_reuse(void);
void part_pieces(void);
void part_long(void);
/* group.c */
void part_collectives(void);
void part_many_collectives(void);
void part_onesided(void);
void part_splits(void);
void part_threads(void);
void part_endless(void);

#endif

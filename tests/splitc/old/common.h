/* Shared by all files, as it was done then: tentative definitions, extern inline functions, macros. */
#ifndef _COMMON_H
#define _COMMON_H

#include <split-c/split-c.h>
#include <split-c/control.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <math.h>

#define TRUE  1
#define FALSE 0
#define DIVPROCS(x)  ((x) / PROCS)
#define MODPROCS(x)  ((x) % PROCS)
#define assert_malloc(p) \
  if ((p) == NULL) { \
    fprintf(stderr,"PE %d: malloc failed\n",MYPROC); \
    exit(1); \
  }
#define barrier0() barrier()

typedef double vect_t;
typedef struct chpair {
  int label, count;
  double weight;
} chPair_t;
typedef chPair_t *CHPAIR;
typedef int *spread spread_int;

struct list {
  int value;
  struct list *global next;
};

/* Tentative: every file that includes this defines them. */
int v, w, q, r;
int verbose;
double *spread scratch;
struct list *global list_head;
int shared_counts[PROCS]::;
char *prog_name;

extern int errors;
extern double elapsed();

extern inline int log_2(int number) {
  int cumulative = 1, out = 0, done = FALSE;

  while ((cumulative < number) && (!done)) {
    if (cumulative < 0) done = TRUE;
    else {
      cumulative <<= 1;
      out++;
    }
  }
  return (out);
}

extern inline int ilog(int pos) { return (pos < 2) ? 0 : 1 + log_2(pos) - 1; }

static inline void swap_ints(int *global a, int *global b) {
  int t = *a;
  *a = *b;
  *b = t;
}

/* An automatic spread array inside an inline function. */
extern inline int all_sum(int x) {
  int parts[PROCS]::;
  int i, sum = 0;

  parts[MYPROC] = x;
  barrier();
  for (i = 0; i < PROCS; i++) sum += parts[i];
  barrier();
  return sum;
}

void all_histogram();
int all_check_histogram(int v, int w, int q, int r, int X[v][w]::[q][r], int k, int Histo[1]::[k]);
void all_transpose(int q, double *spread A, double *spread B);
void all_fill(int, int, int, int, int [v][w]::[q][r], int (*f)(int, int));
int all_image(void);
int all_transposes(void), all_pointers(void), all_lists(void);

#endif

/* Bodies that attract each other: three ways to read the bodies of the other processes. */
#include "collect.inc"
#include <split-c/atomic.h>

#define DIM 3
#define BODIES 3                        /* per process */

typedef struct body {
  double x[DIM], v[DIM], force[DIM];
  double mass;
  char name[16];
} body_t, *BODY;

/* Bodies of each process, and locks for changing them. Static data have the same address in all processes. */
static body_t bodies[BODIES];
static int locks[BODIES];

static void make_body(b, k)
BODY b;
int k;
{
  int d;

  for (d = 0; d < DIM; d++) b->x[d] = mix(k * DIM + d) % 1000 / 10.0, b->v[d] = d - 1, b->force[d] = 0;
  b->mass = 1 + k % 5;
  sprintf(b->name, "b%d", k);
}

/* Adds to f the force of b on a; the force of a on b is the negative of it. */
static void attract(a, b, f)
BODY a, b;
double f[DIM];
{
  double r = 0.5, d[DIM];
  int i;

  for (i = 0; i < DIM; i++) {
    d[i] = b->x[i] - a->x[i];
    r += d[i] * d[i];
  }
  for (i = 0; i < DIM; i++) f[i] = a->mass * b->mass * d[i] / (r * sqrt(r));
}

static void add_forces(mine, theirs, same)
BODY mine, theirs;
int same;
{
  double f[DIM];
  int i, j, d;

  for (i = 0; i < BODIES; i++)
    for (j = 0; j < BODIES; j++) {
      if (same && i == j) continue;
      attract(&mine[i], &theirs[j], f);
      for (d = 0; d < DIM; d++) mine[i].force[d] += f[d];
    }
}

/* The bodies travel round a ring of processes; while one set is used, the next one is under way. */
static void all_forces_ring()
{
  body_t Travel[2][PROCS]::[BODIES];
  BODY here;
  int hop, turn = 0;

  memcpy(tolocal(Travel[0][MYPROC]), bodies, sizeof(bodies));
  for (hop = 0; hop < PROCS; hop++, turn = 1 - turn) {
    here = (BODY)Travel[turn][MYPROC];
    barrier();
    bulk_put(&Travel[1 - turn][RIGHT][0], here, sizeof(bodies));
    add_forces(bodies, here, hop == 0);
    sync();
  }
  barrier();
}

/* Reads whole structures through global pointers. */
static void all_forces_read()
{
  body_t *global g, theirs[BODIES];
  int p, i, hop;

  barrier();
  for (hop = 0; hop < PROCS; hop++) {
    p = MODPROCS(MYPROC + PROCS - hop);
    g = toglobal(p, bodies);
    for (i = 0; i < BODIES; i++)
      if (i & 1) theirs[i] = *g++;
      else theirs[i] := *g++;
    sync();
    add_forces(bodies, theirs, hop == 0);
  }
  barrier();
}

/* Adds f to the force on body k, or subtracts it, under the body's lock. */
static void add_locked(k, f, sign)
int k, sign;
double f[DIM];
{
  body_t *global b = (body_t *global)toglobal(k / BODIES, &bodies[k % BODIES]);
  int *global lock = toglobal(k / BODIES, locks + k % BODIES);
  int d;

  splitc_lock(lock);
  for (d = 0; d < DIM; d++)
    if (sign > 0) b->force[d] += f[d];
    else (*b).force[d] -= f[d];
  splitc_unlock(lock);
}

/* Computes each pair of bodies once, in the process of its first body. */
static void all_forces_pairs()
{
  int i, k, d, n = PROCS * BODIES;
  double f[DIM];
  body_t other;

  barrier();
  for (i = MYPROC * BODIES; i < (MYPROC + 1) * BODIES; i++)
    for (k = i + 1; k < n; k++) {
      body_t *global b = toglobal(k / BODIES, &bodies[k % BODIES]);

      for (d = 0; d < DIM; d++) other.x[d] := b->x[d];
      other.mass := b->mass;
      sync();
      attract(&bodies[i % BODIES], &other, f);
      add_locked(i, f, 1);
      add_locked(k, f, -1);
    }
  barrier();
}

static int check_bodies()
{
  body_t all[PROCS * BODIES];
  double f[DIM], sum[DIM];
  int i, j, d, bad = 0, n = PROCS * BODIES;

  for (i = 0; i < n; i++) make_body(&all[i], i);
  for (i = 0; i < BODIES; i++) {
    for (d = 0; d < DIM; d++) sum[d] = 0;
    for (j = 0; j < n; j++) {
      if (j == MYPROC * BODIES + i) continue;
      attract(&all[MYPROC * BODIES + i], &all[j], f);
      for (d = 0; d < DIM; d++) sum[d] += f[d];
    }
    for (d = 0; d < DIM; d++) bad += differ(bodies[i].force[d], sum[d]);
  }
  return bad;
}

/* Reads the name of the left neighbour's last body, character by character. */
static int check_names()
{
  char *global s = toglobal(LEFT, &bodies[BODIES - 1])->name, name[16], want[16];
  char *t = name;

  while (*t++ = *s++) ;
  sprintf(want, "b%d", (LEFT + 1) * BODIES - 1);
  return strcmp(name, want) != 0;
}

int all_bodies()
{
  static void (*ways[])() = {all_forces_ring, all_forces_read, all_forces_pairs, 0}, (**way)();
  int i, bad = 0;

  for (way = ways; *way; way++) {
    for (i = 0; i < BODIES; i++) make_body(&bodies[i], MYPROC * BODIES + i);
    (**way)();
    bad += check_bodies() + check_names();
    barrier();
  }
  return all_sum(bad);
}

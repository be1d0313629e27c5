/* Irregular programs: list ranking, components, breadth first search, a sparse matrix with ghost values. */
#include "collect.inc"
#include <split-c/atomic.h>

#define CELLS  20                       /* per process */
#define DEGREE 3

struct cell {
  struct cell *global next;
  int rank;                             /* cells behind this one */
  int place;                            /* of this one, for the check */
};

/* ---- list ranking by pointer jumping ---- */

static struct cell *global cell_at(struct cell *spread C, int place, int step)
{
  int i = (int)((long)place * step % (PROCS * CELLS));

  return ((struct cell *global)(C + i / CELLS) + i % CELLS);
}

/* Builds a list through all cells; neighbours in the list are far from each other. */
static void all_build_list(C, step)
struct cell *spread C;
int step;
{
  int place, n = PROCS * CELLS;

  for (place = MYPROC; place < n; place += PROCS) {
    struct cell *global c = cell_at(C, place, step);

    c->next := place + 1 < n ? cell_at(C, place + 1, step) : NULL;
    c->rank := place + 1 < n;
    c->place := place;
  }
  sync();
  barrier();
}

static void all_rank_list(struct cell *spread C)
{
  struct cell *mine = (struct cell *)(C + MYPROC), next[CELLS];
  int i, more = 1;

  while (more) {
    for (i = 0; i < CELLS; i++)
      if (mine[i].next != NULL) next[i] := *mine[i].next;
    sync();
    barrier();                          /* all have read, now all write */
    for (more = i = 0; i < CELLS; i++) {
      if (mine[i].next == NULL) continue;
      mine[i].rank += next[i].rank;
      mine[i].next = next[i].next;
      more |= mine[i].next != NULL;
    }
    more = all_reduce_to_all_or(more);
  }
}

static int test_list()
{
  struct cell *spread C, *mine;
  int step, i, bad = 0, n = PROCS * CELLS;

  C = all_spread_malloc(PROCS, CELLS * sizeof(struct cell));
  assert_malloc(C);
  for (step = 7; n % step == 0; step += 2) ;
  all_build_list(C, step);
  all_rank_list(C);
  mine = (struct cell *)(C + MYPROC);
  for (i = 0; i < CELLS; i++) bad += mine[i].rank != n - 1 - mine[i].place;
  barrier();
  all_spread_free(C);
  return bad;
}

/* ---- a random graph that every process can compute ---- */

static int nodes;                       /* of the graph; node i is in process i mod PROCS */

static int neighbour(node, k)
{
  /* No edge joins the first two thirds of the nodes with the last third. */
  int low = node < 2 * nodes / 3 ? 0 : 2 * nodes / 3;
  int high = low ? nodes : 2 * nodes / 3;

  return (low + mix(node * DEGREE + k) % (high - low));
}

/* ---- components: every edge lowers the labels of its ends, until nothing changes ---- */

static int lower(void *arg, int value)
{
  int *label = (int *)arg;

  if (value >= *label) return 0;
  *label = value;
  return 1;
}

static void all_components(int label[nodes]::)
{
  int i, k, changed, other, mine, theirs;

  for_my_1d(i, nodes) label[i] = i;
  do {
    barrier();
    changed = 0;
    for_my_1d(i, nodes)
      for (k = 0; k < DEGREE; k++) {
        int *global g;

        other = neighbour(i, k);
        g = &label[other];
        theirs = *g;
        mine = label[i];
        if (mine < theirs) changed += atomic(toproc(g), lower, tolocal(g), mine);
        else if (theirs < mine) changed += lower(tolocal(&label[i]), theirs);
      }
    changed = all_reduce_to_all_max(changed);
  } while (changed);
}

static int test_components()
{
  int Label[nodes]::, *want, i, k, again, bad = 0;

  all_components(Label);
  want = (int *)malloc(nodes * sizeof(int));
  assert_malloc(want);
  for (i = 0; i < nodes; i++) want[i] = i;
  do
    for (i = again = 0; i < nodes; i++)
      for (k = 0; k < DEGREE; k++) {
        again += lower(&want[i], want[neighbour(i, k)]);
        again += lower(&want[neighbour(i, k)], want[i]);
      }
  while (again);
  for_my_1d(i, nodes) bad += Label[i] != want[i];
  barrier();
  free(want);
  return bad;
}

/* ---- breadth first search: a process that reaches a node puts it into the queue of the node's owner ---- */

static int queue_length;                /* at the same address in every process */

static void all_search(int root, int *spread Queue, int distance[nodes]::)
{
  int *mine = (int *)(Queue + MYPROC), *frontier, n, i, k, level, slot, node;

  frontier = (int *)malloc(nodes * DEGREE * sizeof(int));
  assert_malloc(frontier);
  for_my_1d(i, nodes) distance[i] = -1;
  queue_length = 0;
  if (MYPROC == root % PROCS) mine[queue_length++] = root;
  barrier();
  for (level = 0; all_reduce_to_all_max(queue_length) > 0; level++) {
    for (i = n = 0; i < queue_length; i++) {
      if (distance[mine[i]] >= 0) continue;
      distance[mine[i]] = level;
      frontier[n++] = mine[i];
    }
    queue_length = 0;
    barrier();
    for (i = 0; i < n; i++)
      for (k = 0; k < DEGREE; k++) {
        int *global q;

        node = neighbour(frontier[i], k);
        slot = fetch_and_add(toglobal(MODPROCS(node), &queue_length), 1);
        q = (int *global)(Queue + MODPROCS(node)) + slot;
        *q :- node;
      }
    all_store_sync();
  }
  free(frontier);
}

/* The same search by one process with one queue. */
static void search_alone(root, distance)
int root, *distance;
{
  int *queue = (int *)malloc(nodes * sizeof(int)), head, tail = 0, k, to;

  assert_malloc(queue);
  for (k = 0; k < nodes; k++) distance[k] = -1;
  distance[queue[tail++] = root] = 0;
  for (head = 0; head < tail; head++)
    for (k = 0; k < DEGREE; k++) {
      to = neighbour(queue[head], k);
      if (distance[to] >= 0) continue;
      distance[to] = distance[queue[head]] + 1;
      queue[tail++] = to;
    }
  free(queue);
}

static int test_search()
{
  int Distance[nodes]::;
  int *spread Queue = all_spread_malloc(PROCS, nodes * DEGREE * sizeof(int));
  int *want = (int *)malloc(nodes * sizeof(int)), i, turn, bad = 0;

  assert_malloc(Queue);
  assert_malloc(want);
  for (turn = 0; turn < 2; turn++) {
    all_search(turn ? nodes - 1 : 1, Queue, Distance);
    search_alone(turn ? nodes - 1 : 1, want);
    for_my_1d(i, nodes) bad += Distance[i] != want[i];
  }
  barrier();
  free(want);
  all_spread_free(Queue);
  return bad;
}

/* ---- a sparse matrix times a vector; as in em3d, values are stored where they are used ---- */

struct ghost {
  int node;                             /* in this process, whose value goes there */
  double *global there;
};

static struct row {
  double value, coeff[DEGREE];
  double *from[DEGREE];                 /* local: a value of ours or a ghost */
} *rows;
static double *ghosts;
static struct ghost *goes;
static int n_ghosts, n_goes, n_rows;

/* Makes a ghost for each neighbour in another process; the owner learns where to store its value. */
static void all_make_ghosts(struct ghost *spread List, int Length[PROCS]::)
{
  int i, k, at, to, slot;

  n_rows = nodes / PROCS + (MYPROC < nodes % PROCS);
  rows = (struct row *)calloc(n_rows + 1, sizeof(struct row));
  ghosts = (double *)calloc(n_rows * DEGREE + 1, sizeof(double));
  assert_malloc(rows);
  assert_malloc(ghosts);
  n_ghosts = 0;
  Length[MYPROC] = 0;
  barrier();
  for (i = 0; i < n_rows; i++) {
    rows[i].value = 1.0 + MYPROC + i * PROCS;
    for (k = 0; k < DEGREE; k++) {
      struct ghost new;

      at = neighbour(MYPROC + i * PROCS, k);
      to = MODPROCS(at);
      rows[i].coeff[k] = (k + 1) / 8.0;
      rows[i].from[k] = to == MYPROC ? &rows[at / PROCS].value : &ghosts[n_ghosts];
      if (to == MYPROC) continue;
      new.node = at / PROCS;
      new.there = (double *global)&ghosts[n_ghosts++];
      slot = fetch_and_add(&Length[to], 1);
      ((struct ghost *global)(List + to))[slot] = new;
    }
  }
  barrier();
  goes = (struct ghost *)(List + MYPROC);
  n_goes = Length[MYPROC];
}

static void all_multiply()
{
  double *new = (double *)malloc((n_rows + 1) * sizeof(double));
  int i, k;

  assert_malloc(new);
  for (i = 0; i < n_goes; i++) *goes[i].there :- rows[goes[i].node].value;
  store_sync(n_ghosts * sizeof(double));
  for (i = 0; i < n_rows; i++)
    for (k = 0, new[i] = 0; k < DEGREE; k++) new[i] += rows[i].coeff[k] * *rows[i].from[k];
  barrier();                            /* before any process stores the next values */
  for (i = 0; i < n_rows; i++) rows[i].value = new[i];
  free(new);
}

static int test_sparse()
{
  struct ghost *spread List = all_spread_malloc(PROCS, nodes * DEGREE * sizeof(struct ghost));
  int Length[PROCS]::, turn, i, k, bad = 0;
  double *x, *y;

  assert_malloc(List);
  x = (double *)malloc(2 * nodes * sizeof(double));
  assert_malloc(x);
  y = x + nodes;
  all_make_ghosts(List, Length);
  reset_store_sync();
  barrier();
  for (i = 0; i < nodes; i++) x[i] = 1.0 + i;
  for (turn = 0; turn < 5; turn++) {
    all_multiply();
    for (i = 0; i < nodes; i++)
      for (k = 0, y[i] = 0; k < DEGREE; k++) y[i] += (k + 1) / 8.0 * x[neighbour(i, k)];
    memcpy(x, y, nodes * sizeof(double));
  }
  for (i = 0; i < n_rows; i++) bad += rows[i].value != x[MYPROC + i * PROCS];
  barrier();
  free(ghosts);
  free(rows);
  free(x);
  all_spread_free(List);
  return bad;
}

int all_graphs()
{
  int bad;

  nodes = 11 * PROCS + 5;
  bad = test_list() + test_components() + test_search() + test_sparse();
  return all_sum(bad);
}

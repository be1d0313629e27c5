/* The collective operations, and a test of each: its result must equal that of one process alone. */
#include "collect.inc"

void all_gather(value, out)
int value;
int *out;
{
  int box[PROCS]::;
  int p;

  box[MYPROC] = value;
  barrier();
  each_proc(p) out[p] := box[p];
  sync();
  barrier();
}

void all_gather_d(value, out)
double value;
double *out;
{
  double box[PROCS]::;
  double *global g;
  int i;

  *tolocal(&box[MYPROC]) = value;
  barrier();
  /* Each process starts with itself, so that not all ask process 0 at once. */
  for (i = 0; i < PROCS; i++) {
    g = &box[MODPROCS(MYPROC + i)];
    out[toproc(g)] := *g;
  }
  sync();
  barrier();
}

void all_concat(int q, int A[PROCS]::[q], int *out)
{
  register int i, p;

  barrier();
  for (i = 0; i < PROCS; i++) {
    p = MODPROCS(MYPROC + i);
    bulk_get(out + p * q, &A[p][0], q * sizeof(int));
  }
  sync();
  barrier();
}

/* A binomial tree whose root may be any process; an inner process stores on what was stored to it. */
void all_bcast_array(root, n, S)
int root, n;
double *spread S;
{
  int me = MODPROCS(MYPROC + PROCS - root), mask;
  double *mine = (double *)(S + MYPROC);

  reset_store_sync();
  barrier();
  if (me != 0) {
    store_sync(n * sizeof(double));
    mask = me & -me;
  } else
    for (mask = 1; mask < PROCS; mask <<= 1) ;
  for (mask >>= 1; mask > 0; mask >>= 1)
    if (me + mask < PROCS)
      bulk_store((double *global)(S + MODPROCS(me + mask + root)), mine, n * sizeof(double));
  barrier();
}

/* Each process adds up one part, in the order of the processes, and puts the sums to all processes. */
void all_sum_array(n, S)
int n;
double *spread S;
{
  int lo = part_lo(MYPROC, n), size = part_size(MYPROC, n), p, k;
  double *piece, *sum;

  piece = (double *)malloc((PROCS + 1) * size * sizeof(double) + 1);
  assert_malloc(piece);
  sum = piece + PROCS * size;
  barrier();
  each_proc(p) bulk_get(piece + p * size, (double *global)(S + p) + lo, size * sizeof(double));
  sync();
  for (k = 0; k < size; k++)
    for (p = 0, sum[k] = 0.0; p < PROCS; p++) sum[k] += piece[p * size + k];
  barrier();
  each_proc(p) bulk_put(&((double *global)(S + p))[lo], sum, size * sizeof(double));
  sync();
  barrier();
  free(piece);
}

/* Reads at doubling distances; each process has two blocks, which take turns. */
void all_prefix(n, in, out)
int n, *in, *out;
{
  int T[2][PROCS]::[n];
  int got[n], k, step, turn = 0, *old, *new;

  for (k = 0; k < n; k++) T[0][MYPROC][k] = in[k];
  for (step = 1; step < PROCS; step <<= 1) {
    barrier();
    memset(got, 0, sizeof got);
    if (MYPROC >= step) bulk_read(got, &T[turn][MYPROC - step][0], n * sizeof(int));
    old = (int *)T[turn][MYPROC];
    new = (int *)T[1 - turn][MYPROC];
    for (k = 0; k < n; k++) new[k] = old[k] + got[k];
    turn = !turn;
  }
  for (k = 0; k < n; k++) out[k] = T[turn][MYPROC][k] - in[k];
  barrier();
}

void all_shift(int n, double *spread S)
{
  double Old[PROCS]::[n];
  double *spread mine = S + MYPROC, *global to;
  int i;

  for (i = 0; i < n; i++) Old[MYPROC][i] = ((double *)mine)[i];
  barrier();
  /* The last process's right neighbour is process 0; the pointer arithmetic would give its next block. */
  to = (double *global)(MYPROC == PROCS - 1 ? mine + 1 - PROCS : mine + 1);
  for (i = 0; i < n; i++) to[i] := tolocal(Old[MYPROC])[i];
  sync();
  barrier();
}

int all_exchange(void *from, int *count, void *to, int room, int size)
{
  int Counts[PROCS]::[PROCS];
  void *global Dest[PROCS]::;
  int *matrix, i, p, q, offset, before, total, full;

  matrix = (int *)malloc(PROCS * PROCS * sizeof(int));
  assert_malloc(matrix);
  each_proc(q) Counts[MYPROC][q] = count[q];
  Dest[MYPROC] = (void *global)to;
  all_concat(PROCS, Counts, matrix);
  full = total = 0;
  each_proc(p) total += matrix[p * PROCS + MYPROC];
  each_proc(q) {
    for (p = 0, i = 0; p < PROCS; p++) i += matrix[p * PROCS + q];
    full |= (i > room);
  }
  for (q = 0, before = 0; !full && q < PROCS; before += count[q++]) {
    char *global there;

    for (p = 0, offset = 0; p < MYPROC; p++) offset += matrix[p * PROCS + q];
    there = (char *global)Dest[q];
    bulk_store(there + offset * size, (char *)from + before * size, count[q] * size);
  }
  all_store_sync();
  free(matrix);
  return full ? -1 : total;
}

/* ---- the tests ---- */

static test_gathers()
{
  int bad = 0, p, k, out[PROCS], q = 3, all[PROCS * 3];
  double outd[PROCS];
  int A[PROCS]::[q];

  all_gather(MYPROC * 10 + 1, out);
  all_gather_d(MYPROC / 4.0, outd);
  for (k = 0; k < q; k++) A[MYPROC][k] = MYPROC * q + k;
  all_concat(q, A, all);
  each_proc(p) bad += out[p] != p * 10 + 1 || outd[p] != p / 4.0;
  for (k = 0; k < PROCS * q; k++) bad += all[k] != k;
  return bad;
}

static test_arrays()
{
  double *spread S, *mine;
  int n = 700, root, k, bad = 0;       /* more than one message */

  S = all_spread_malloc(PROCS, n * sizeof(double));
  assert_malloc(S);
  mine = (double *)(S + MYPROC);
  each_proc(root) {
    for (k = 0; k < n; k++) mine[k] = MYPROC == root ? root * 1000 + k : -1;
    all_bcast_array(root, n, S);
    for (k = 0; k < n; k++) bad += mine[k] != root * 1000 + k;
  }
  for (k = 0; k < n; k++) mine[k] = MYPROC + k;
  all_sum_array(n, S);
  for (k = 0; k < n; k++) bad += mine[k] != PROCS * (PROCS - 1) / 2 + (double)PROCS * k;
  for (k = 0; k < 9; k++) mine[k] = MYPROC * 9 + k;
  for (root = 0; root < 2; root++) all_shift(9, S);
  for (k = 0; k < 9; k++) bad += mine[k] != MODPROCS(MYPROC + 2 * PROCS - 2) * 9 + k;
  all_spread_free(S);
  return bad;
}

static test_prefix()
{
  int in[5], out[5], k, p, sum, bad = 0;

  for (k = 0; k < 5; k++) in[k] = mix(MYPROC * 5 + k) % 1000;
  all_prefix(5, in, out);
  for (k = 0; k < 5; k++) {
    for (p = 0, sum = 0; p < MYPROC; p++) sum += mix(p * 5 + k) % 1000;
    bad += out[k] != sum;
    bad += all_scan_add(in[k]) != sum + in[k];
  }
  return bad;
}

/* Process p sends (p + q) % 3 items to process q; then the room is too small. */
static test_exchange()
{
  struct item { short from, to; char tag; } *out, *in, *next;
  int count[PROCS], p, k, n, bad = 0;

  out = (struct item *)malloc(PROCS * 3 * sizeof(struct item));
  in = (struct item *)malloc(PROCS * 3 * sizeof(struct item));
  assert_malloc(out);
  assert_malloc(in);
  next = out;
  each_proc(p) {
    count[p] = (MYPROC + p) % 3;
    for (k = 0; k < count[p]; k++, next++) next->from = MYPROC, next->to = p, next->tag = 'a' + k;
  }
  n = all_exchange(out, count, in, PROCS * 3, sizeof(struct item));
  next = in;
  each_proc(p)
    for (k = 0; k < (MYPROC + p) % 3; k++, next++)
      bad += next->from != p || next->to != MYPROC || next->tag != 'a' + k;
  bad += next - in != n;
  if (PROCS > 1) bad += all_exchange(out, count, in, 0, sizeof(struct item)) != -1;
  free(in);
  free(out);
  return bad;
}

int all_collectives()
{
  int bad, i, p;

  bad = test_gathers() + test_arrays() + test_prefix() + test_exchange();
  for (i = 0; i < 50; i++) {
    p = part_owner(i, 50);
    bad += i < part_lo(p, 50) || i >= part_lo(p, 50) + part_size(p, 50);
  }
  return all_sum(bad);
}

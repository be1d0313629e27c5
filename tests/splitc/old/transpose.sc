/* Matrix transposition by blocks, in four styles. */
#include "common.inc"

void all_transpose(int q, double *spread A, double *spread B)
{
  double *locA = (double *)(A + MYPROC), *locB;
  int p, i, j;

  locB = (double *)(B + MYPROC);
  barrier();
  for (i = 0; i < PROCS; i++) {
    p = MODPROCS(MYPROC + i);
    bulk_get(locB + p * q, (double *global)(A + p) + MYPROC * q, q * sizeof(double));
  }
  sync();
  barrier();
}

static void all_transpose_put(q, A, B)
int q;
double *spread A, *spread B;
{
  double *locA = tolocal(A + MYPROC);
  int p;

  for (p = 0; p < PROCS; p++) {
    double *global dst = (double *global)(B + p);
    bulk_put(dst + MYPROC * q, locA + p * q, q * sizeof(double));
  }
  sync();
  barrier();
}

static void all_transpose_store(int q, double A[PROCS]::[PROCS][q], double *spread B)
{
  int p, k;

  for (p = MYPROC; p < MYPROC + PROCS; p++) {
    double *global dst;

    dst = (double *global)(B + MODPROCS(p)) + MYPROC * q;
    for (k = 0; k < q; k++)
      *(dst++) :- A[MYPROC][MODPROCS(p)][k];
  }
  store_sync(PROCS * q * sizeof(double));
  reset_store_sync();
  barrier();
}

static double number(int from, int to, int k) { return from * 10000.0 + to * 100 + k; }

static int wrong(int q, double *spread B)
{
  int p, k, bad = 0;
  double *b = (double *)(B + MYPROC);

  for (p = 0; p < PROCS; p++)
    for (k = 0; k < q; k++) {
      if (b[p * q + k] != number(p, MYPROC, k)) bad++;
      b[p * q + k] = -1;
    }
  bad = all_reduce_to_all_add(bad);
  barrier();
  return bad;
}

int all_transposes(void)
{
  double *spread A, *spread B, *spread C;
  int k, p, q = 7, bad = 0;

  A = all_spread_malloc(PROCS, PROCS * q * sizeof(double));
  B = all_spread_malloc(PROCS, PROCS * q * sizeof(double));
  assert_malloc(A);
  assert_malloc(B);
  for (p = 0; p < PROCS; p++)
    for (k = 0; k < q; k++)
      *((double *)(A + MYPROC) + p * q + k) = number(MYPROC, p, k);
  all_transpose(q, A, B);
  bad += wrong(q, B);
  all_transpose_put(q, A, B);
  bad += wrong(q, B);
  all_transpose_store(q, (double (*spread)[PROCS][q])A, B);
  bad += wrong(q, B);
  C = A, A = B, B = C;
  if (A - B != 0 ? toproc(A) != toproc(B) : 0) bad++;
  scratch = B;
  return bad;
}

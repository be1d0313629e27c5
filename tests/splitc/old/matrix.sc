/* Dense matrices: blocked product, LU by columns, matrix and vector, transposition of blocks. */
#include "collect.inc"

#define SIDE 3                          /* of a block of the product */

/* ---- product of matrices of n by n blocks, which are dealt out to the processes ---- */

static void block_multiply(b, x, y, z)
int b;
double x[b][b], y[b][b], z[b][b];
{
  register int i, j, k;

  for (i = 0; i < b; i++)
    for (k = 0; k < b; k++)
      for (j = 0; j < b; j++) z[i][j] += x[i][k] * y[k][j];
}

/* C = A B. The blocks of the next step are under way while the present blocks are multiplied. */
void all_product(n, m, p, b, A, B, C)
int n, m, p, b;
double A[n][m]::[b][b], B[m][p]::[b][b], C[n][p]::[b][b];
{
  double bufa[2][b][b], bufb[2][b][b];
  int i, j, k, turn, size = b * b * sizeof(double);

  for_my_2d(i, j, n, p) {
    double (*c)[b] = tolocal(C[i][j]);

    memset(c, 0, size);
    bulk_get(bufa[0], &A[i][0][0][0], size);
    bulk_get(bufb[0], &B[0][j][0][0], size);
    for (k = turn = 0; k < m; k++, turn ^= 1) {
      sync();
      if (k + 1 < m) {
        bulk_get(bufa[!turn], &A[i][k + 1][0][0], size);
        bulk_get(bufb[!turn], (void *global)B[k + 1][j], size);
      }
      block_multiply(b, bufa[turn], bufb[turn], c);
    }
  }
  barrier();
}

static double entry(which, i, j) { return ((int)(mix(which * 10000 + i * 100 + j) % 19) - 9); }

/* Fills a matrix of n by m blocks with entries that every process can compute. */
static void all_fill_matrix(int which, int n, int m, int b, double X[n][m]::[b][b])
{
  int i, j, x, y;

  for_my_2d(i, j, n, m)
    for (x = 0; x < b; x++)
      for (y = 0; y < b; y++) tolocal(X[i][j])[x][y] = entry(which, i * b + x, j * b + y);
  barrier();
}

static int check_product(int n, int m, int p, int b, double C[n][p]::[b][b])
{
  int i, j, k, bad = 0;
  double sum;

  for (i = MYPROC; i < n * b; i += PROCS)
    for (j = 0; j < p * b; j++) {
      for (k = 0, sum = 0; k < m * b; k++) sum += entry(1, i, k) * entry(2, k, j);
      bad += C[i / b][j / b][i % b][j % b] != sum;
    }
  return bad;
}

static test_product()
{
  int n = 2, m = 3, p = 4, bad = 0;
  double A[n][m]::[SIDE][SIDE], B[m][p]::[SIDE][SIDE];
  double C[n][p]::[SIDE][SIDE];

  all_fill_matrix(1, n, m, SIDE, A);
  all_fill_matrix(2, m, p, SIDE, B);
  all_product(n, m, p, SIDE, A, B, C);
  bad = check_product(n, m, p, SIDE, C);
  barrier();
  return bad;
}

/* ---- LU with row pivots; column j is a block of the process j mod PROCS ---- */

static void swap_doubles(a, b)
double *a, *b;
{
  double t = *a;

  *a = *b, *b = t;
}

static void all_lu(n, M, pivot)
int n;
double M[n]::[n];
int *pivot;
{
  double column[n], *c;
  int i, j, k;

  for (k = 0; k < n; k++) {
    on_proc(k % PROCS) {
      c = (double *)M[k];
      for (i = pivot[k] = k; i < n; i++)
        if (fabs(c[i]) > fabs(c[pivot[k]])) pivot[k] = i;
      swap_doubles(&c[k], &c[pivot[k]]);
      for (i = k + 1; i < n; i++) c[i] /= c[k];
    }
    barrier();
    bulk_read(&column[k], &M[k][k], (n - k) * sizeof(double));
    /* all_bcast sends only from process 0; so add the number of one process and zeros. */
    pivot[k] = all_reduce_to_all_add(MYPROC == k % PROCS ? pivot[k] : 0);
    for_my_1d(j, n) {
      if (j == k) continue;
      c = tolocal(M[j]);
      swap_doubles(&c[k], &c[pivot[k]]);
      if (j > k)
        for (i = k + 1; i < n; i++) c[i] -= column[i] * c[k];
    }
  }
  barrier();
}

/* Solves in place: x contains the right side before. Every process reads all columns. */
static void all_solve(int n, double M[n]::[n], int *pivot, double *x)
{
  double column[n];
  int i, k;

  for (k = 0; k < n; k++) swap_doubles(&x[k], &x[pivot[k]]);
  for (k = 0; k < n; k++) {
    bulk_read(column, &M[k][0], n * sizeof(double));
    for (i = k + 1; i < n; i++) x[i] -= column[i] * x[k];
  }
  for (k = n - 1; k >= 0; k--) {
    bulk_read(column, M[k], sizeof(column));
    x[k] /= column[k];
    for (i = 0; i < k; i++) x[i] -= column[i] * x[k];
  }
  barrier();
}

static test_lu()
{
  int n = 13, i, j, bad = 0;
  int pivot[n];
  double M[n]::[n], x[n], sum;

  for_my_1d(j, n)
    for (i = 0; i < n; i++) M[j][i] = entry(3, i, j);
  barrier();
  for (i = 0; i < n; i++) x[i] = entry(4, i, 0);
  all_lu(n, M, pivot);
  all_solve(n, M, pivot, x);
  for (i = 0; i < n; i++) {
    for (j = 0, sum = 0; j < n; j++) sum += entry(3, i, j) * x[j];
    bad += differ(sum, entry(4, i, 0));
  }
  return bad;
}

/* ---- matrix and vector: rows in contiguous parts, the vector is gathered each time ---- */

static double all_power(n, rounds)
int n, rounds;
{
  double *spread V = all_spread_malloc(PROCS, (n / PROCS + 1) * sizeof(double));
  double *all, *mine, sum, norm = 0;
  int lo = part_lo(MYPROC, n), size = part_size(MYPROC, n), i, j, p;

  all = (double *)malloc(n * sizeof(double));
  assert_malloc(V);
  assert_malloc(all);
  mine = tolocal(V + MYPROC);
  for (i = 0; i < size; i++) mine[i] = 1.0;
  while (rounds-- > 0) {
    barrier();
    each_proc(p) bulk_get(all + part_lo(p, n), (double *global)(V + p), part_size(p, n) * sizeof(double));
    sync();
    barrier();
    for (i = 0, norm = 0; i < size; i++) {
      for (j = 0, sum = 0; j < n; j++) sum += (20 + entry(5, lo + i, j)) * all[j];
      mine[i] = sum;
      if (fabs(sum) > norm) norm = fabs(sum);
    }
    norm = all_reduce_to_all_dmax(norm);
    for (i = 0; i < size; i++) mine[i] /= norm;
  }
  barrier();
  i = n / 2;
  norm += *part_double(V, i, n);
  barrier();
  free(all);
  all_spread_free(V);
  return norm;
}

static double power_alone(n, rounds)
int n, rounds;
{
  double *x = (double *)malloc(2 * n * sizeof(double)), *y, norm = 0;
  int i, j;

  assert_malloc(x);
  y = x + n;
  for (i = 0; i < n; i++) x[i] = 1.0;
  while (rounds-- > 0) {
    for (i = 0, norm = 0; i < n; i++) {
      for (j = 0, y[i] = 0; j < n; j++) y[i] += (20 + entry(5, i, j)) * x[j];
      if (fabs(y[i]) > norm) norm = fabs(y[i]);
    }
    for (i = 0; i < n; i++) x[i] = y[i] / norm;
  }
  norm += x[n / 2];
  free(x);
  return norm;
}

/* ---- Y is X transposed: whole blocks are sent, and transposed where they arrive ---- */

static void all_turn(int v, int w, int q, int r, short X[v][w]::[q][r], short Y[w][v]::[r][q])
{
  int i, j, a, b;

  for_my_2d(i, j, w, v) {
    short block[q][r];

    bulk_read(block, &X[j][i][0][0], sizeof(block));
    for (a = 0; a < r; a++)
      for (b = 0; b < q; b++) tolocal(Y[i][j])[a][b] = block[b][a];
  }
  barrier();
}

static test_turn()
{
  int v = 3, w = 5, q = 2, r = 4, i, j, a, b, bad = 0;
  short X[v][w]::[q][r];
  short (*spread Y)[r][q], (*spread mine)[r][q], (*spread e)[r][q];

  Y = all_spread_malloc(v * w, q * r * sizeof(short));
  assert_malloc(Y);
  for_my_2d(i, j, v, w)
    for (a = 0; a < q; a++)
      for (b = 0; b < r; b++) X[i][j][a][b] = (i * q + a) * 100 + j * r + b;
  barrier();
  all_turn(v, w, q, r, X, Y);
  /* My blocks of Y, by walking over it with a spread pointer. */
  for (mine = Y + MYPROC; mine - Y < v * w; mine += PROCS) {
    i = (mine - Y) / v, j = (mine - Y) % v;
    for (a = 0; a < r; a++)
      for (b = 0; b < q; b++) bad += (*mine)[a][b] != (j * q + b) * 100 + i * r + a;
  }
  /* The corners of all blocks, backwards. */
  for (e = Y + v * w; --e >= Y;) {
    i = (e - Y) / v, j = (e - Y) % v;
    bad += e[0][r - 1][q - 1] != (j * q + q - 1) * 100 + i * r + r - 1;
  }
  barrier();
  all_spread_free(Y);
  return bad;
}

int all_matrices()
{
  int bad;

  bad = test_product() + test_lu() + test_turn();
  bad += differ(all_power(17, 6), power_alone(17, 6));
  return all_sum(bad);
}

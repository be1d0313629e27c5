/* Grids: relaxation with ghost rows, the game of life in blocks, red and black points of a line. */
#include "collect.inc"

/* ---- relaxation; each process has some rows, and a ghost row above and below ---- */

struct grid {
  int rows, cols;                       /* of this process, without the ghosts */
  int first;                            /* number of its first row */
  double *spread where;                 /* blocks of all processes */
  double *mine;
};

#define ROW(g, i) ((g)->mine + (i) * (g)->cols)

static double border(i, j, n)
int i, j, n;
{
  return (i == 0 ? 10.0 + j : i == n - 1 ? 5.0 : j == 0 ? 1.0 : 0.0);
}

static void all_make_grid(g, n)
struct grid *g;
int n;
{
  int i, j;

  g->rows = part_size(MYPROC, n);
  g->first = part_lo(MYPROC, n);
  g->cols = n;
  g->where = all_spread_malloc(PROCS, (n / PROCS + 3) * n * sizeof(double));
  assert_malloc(g->where);
  g->mine = tolocal(g->where + MYPROC);
  for (i = 0; i < g->rows; i++)
    for (j = 0; j < n; j++) ROW(g, i + 1)[j] = border(g->first + i, j, n);
  barrier();
}

/* My first row becomes the lower ghost row of the process above, my last row the upper one of the process below. */
static void all_send_rows(g, n)
struct grid *g;
int n;
{
  int bytes = g->cols * sizeof(double), comes = 0;

  if (MYPROC > 0) {
    bulk_store((double *global)(g->where + (MYPROC - 1)) + (part_size(MYPROC - 1, n) + 1) * g->cols,
               ROW(g, 1), bytes);
    comes += bytes;
  }
  if (MYPROC < PROCS - 1) {
    bulk_store(toglobal(RIGHT, tolocal(g->where)), ROW(g, g->rows), bytes);
    comes += bytes;
  }
  store_sync(comes);
}

static double all_relax(n, steps)
int n, steps;
{
  struct grid old, new, t;
  double change = 0, sum = 0;
  int i, j;

  all_make_grid(&old, n);
  all_make_grid(&new, n);
  reset_store_sync();
  barrier();
  while (steps-- > 0) {
    all_send_rows(&old, n);
    for (i = 1, change = 0; i <= old.rows; i++) {
      if (old.first + i - 1 == 0 || old.first + i - 1 == n - 1) continue;
      for (j = 1; j < n - 1; j++) {
        ROW(&new, i)[j] = 0.25 * (ROW(&old, i - 1)[j] + ROW(&old, i + 1)[j] +
                                  ROW(&old, i)[j - 1] + ROW(&old, i)[j + 1]);
        if (fabs(ROW(&new, i)[j] - ROW(&old, i)[j]) > change) change = fabs(ROW(&new, i)[j] - ROW(&old, i)[j]);
      }
    }
    change = all_reduce_to_all_dmax(change);
    t = old, old = new, new = t;
  }
  for (i = 1; i <= old.rows; i++)
    for (j = 0; j < n; j++) sum += ROW(&old, i)[j] * (old.first + i);
  sum = all_reduce_to_all_dadd(sum);
  all_spread_free(new.where);
  all_spread_free(old.where);
  return sum + change;
}

static double relax_alone(n, steps)
int n, steps;
{
  double old[n][n], new[n][n], change = 0, sum = 0;
  int i, j;

  for (i = 0; i < n; i++)
    for (j = 0; j < n; j++) old[i][j] = new[i][j] = border(i, j, n);
  while (steps-- > 0) {
    for (i = 1, change = 0; i < n - 1; i++)
      for (j = 1; j < n - 1; j++) {
        new[i][j] = 0.25 * (old[i - 1][j] + old[i + 1][j] + old[i][j - 1] + old[i][j + 1]);
        if (fabs(new[i][j] - old[i][j]) > change) change = fabs(new[i][j] - old[i][j]);
      }
    memcpy(old, new, sizeof(old));
  }
  for (i = 0; i < n; i++)
    for (j = 0; j < n; j++) sum += old[i][j] * (i + 1);
  return sum + change;
}

/* ---- life on a torus of v by w blocks of q by r bytes ---- */

static char born(i, j) { return (mix(i * 64 + j) % 3 == 0); }

/* Fetches a block with its surroundings: rows in bulk, columns and corners element by element. */
static void fetch_around(v, w, q, r, X, ii, jj, a)
int v, w, q, r;
char X[v][w]::[q][r];
int ii, jj;
char a[q + 2][r + 2];
{
  int up = (ii + v - 1) % v, down = (ii + 1) % v, left = (jj + w - 1) % w, right = (jj + 1) % w;
  char *global g;
  int i;

  bulk_get(&a[0][1], &X[up][jj][q - 1][0], r);
  bulk_get(&a[q + 1][1], &X[down][jj][0][0], r);
  for (i = 0; i < q; i++) {
    memcpy(&a[i + 1][1], tolocal(X[ii][jj])[i], r);
    g = &X[ii][left][i][0];
    a[i + 1][0] := g[r - 1];
    a[i + 1][r + 1] := X[ii][right][i][0];
  }
  a[0][0] := X[up][left][q - 1][r - 1];
  a[0][r + 1] := X[up][right][q - 1][0];
  a[q + 1][0] := X[down][left][0][r - 1];
  a[q + 1][r + 1] := X[down][right][0][0];
  sync();
}

void all_life(int v, int w, int q, int r, char X[v][w]::[q][r], int steps)
{
  char Next[v][w]::[q][r];
  char a[q + 2][r + 2];
  int ii, jj, i, j, n;

  while (steps--) {
    for_my_2d(ii, jj, v, w) {
      fetch_around(v, w, q, r, X, ii, jj, a);
      for (i = 1; i <= q; i++)
        for (j = 1; j <= r; j++) {
          n = a[i - 1][j - 1] + a[i - 1][j] + a[i - 1][j + 1] + a[i][j - 1] + a[i][j + 1];
          n += a[i + 1][j - 1] + a[i + 1][j] + a[i + 1][j + 1];
          Next[ii][jj][i - 1][j - 1] = n == 3 || (n == 2 && a[i][j]);
        }
    }
    barrier();
    for_my_2d(ii, jj, v, w) X[ii][jj][0][0] = 0, memcpy(tolocal(X[ii][jj]), tolocal(Next[ii][jj]), q * r);
    barrier();
  }
}

static int check_life(int v, int w, int q, int r, char X[v][w]::[q][r], int steps)
{
  int n = v * q, m = w * r, i, j, x, y, around, bad = 0;
  char a[n][m], b[n][m];

  for (i = 0; i < n; i++) for (j = 0; j < m; j++) a[i][j] = born(i, j);
  while (steps--) {
    for (i = 0; i < n; i++)
      for (j = 0; j < m; j++) {
        for (around = -a[i][j], x = n - 1; x <= n + 1; x++)
          for (y = m - 1; y <= m + 1; y++) around += a[(i + x) % n][(j + y) % m];
        b[i][j] = around == 3 || (around == 2 && a[i][j]);
      }
    memcpy(a, b, sizeof(a));
  }
  for (i = MYPROC; i < n; i += PROCS)
    for (j = 0; j < m; j++) bad += X[i / q][j / r][i % q][j % r] != a[i][j];
  return bad;
}

static test_life()
{
  int v = 3, w = 4, q = 4, r = 3, i, j, x, y, bad;
  char X[v][w]::[q][r];

  for_my_2d(i, j, v, w)
    for (x = 0; x < q; x++)
      for (y = 0; y < r; y++) X[i][j][x][y] = born(i * q + x, j * r + y);
  barrier();
  all_life(v, w, q, r, X, 4);
  bad = check_life(v, w, q, r, X, 4);
  barrier();
  return bad;
}

/* ---- red and black: a static array; neighbours are always in other processes ---- */

#define POINTS 24
static float line[POINTS]::;

static void colour(parity)
int parity;
{
  float a, b;
  int i;

  for_my_1d(i, POINTS) {
    if (i == 0 || i == POINTS - 1 || i % 2 != parity) continue;
    a := line[i - 1];
    b := line[i + 1];
    sync();
    line[i] += (a + b - 2 * line[i]) / 2;
  }
  barrier();
}

static test_line()
{
  float alone[POINTS], *global last = &line[POINTS - 1];
  int i, t, bad = 0;

  for (i = 0; i < POINTS; i++) alone[i] = 0;
  for_my_1d(i, POINTS) line[i] = 0;
  alone[POINTS - 1] = 8;
  on_proc(toproc(last)) *last = 8;
  barrier();
  for (t = 0; t < 12; t++) {
    colour(t & 1);
    for (i = 1; i < POINTS - 1; i++)
      if (i % 2 == (t & 1)) alone[i] += (alone[i - 1] + alone[i + 1] - 2 * alone[i]) / 2;
  }
  for (i = 0; i < POINTS; i++) bad += line[i] != alone[i];
  barrier();
  return bad;
}

int all_stencils()
{
  int bad = test_life() + test_line();

  bad += differ(all_relax(19, 10), relax_alone(19, 10));
  return all_sum(bad);
}

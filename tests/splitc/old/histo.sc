/* Histogram of an image that is spread over a v by w grid of processes in blocks of q by r. */
#include "common.inc"

#define BLOCK(X, i, j) ((int (*)[r])tolocal(X[i][j]))

/* K&R definition with spread array parameters, whose bounds refer to parameters declared later. */
void all_histogram(v, w, q, r, X, k, Histo)
int v, w, q, r;
int X[v][w]::[q][r];
int k;
int Histo[1]::[k];
{
  register int i, j;
  int *locHist, ii, jj;
  int Counts[PROCS]::[k];

  ii = MYPROC / w;
  jj = MYPROC % w;
  locHist = (int *)Counts[MYPROC];

  for (i = 0; i < k; i++) locHist[i] = 0;
  if (MYPROC < v * w)
    for (i = 0; i < q; i++)
      for (j = 0; j < r; j++) {
        int (*blk)[r] = BLOCK(X, ii, jj);

        (*(locHist + blk[i][j]))++;
      }
  barrier();

  /* Each process adds up its share of the bins and writes the sums to process 0. */
  for (i = MYPROC; i < k; i += PROCS) {
    int part[PROCS], sum;

    for (j = 0; j < PROCS; j++) part[j] := Counts[j][i];
    sync();
    for (j = sum = 0; j < PROCS; j++) sum += part[j];
    Histo[0][i] :- sum;
  }
  all_store_sync();
}

int all_check_histogram(int v, int w, int q, int r, int X[v][w]::[q][r], int k, int Histo[1]::[k])
{
  int i, total = 0, *mine, wrong = 0;

  on_one {
    mine = tolocal(Histo[0]);
    for (i = 0; i < k; i++) total += mine[i];
    if (total != v * w * q * r) wrong++;
    for (i = 0; i < k; i++) {
      int x, y, a, b, n = 0;

      for (x = 0; x < v; x++) for (y = 0; y < w; y++)
        for (a = 0; a < q; a++) {
          int row[r];

          bulk_read(row, &X[x][y][a][0], r * sizeof(int));
          for (b = 0; b < r; b++) n += row[b] == i;
        }
      if (n != mine[i]) wrong++;
    }
  }
  return all_bcast(wrong);
}

void all_fill(int v, int w, int q, int r, int X[v][w]::[q][r], int (*f)(int, int))
{
  int i, j, x, y;

  for_my_2d(i, j, v, w)
    for (x = 0; x < q; x++)
      for (y = 0; y < r; y++)
        X[i][j][x][y] = (*f)(i * q + x, j * r + y);
  barrier();
}

static gray(i, j) { return (i * 31 + j * 17) % 13; }

/* Sends an edge of each block to a neighbour, through pointers to elements inside a block. */
static int all_edges(int v, int w, int q, int r, int X[v][w]::[q][r])
{
  int ii, jj, i, bad = 0, edge[q];
  int Ghost[v][w]::[q];

  for_my_2d(ii, jj, v, w) {
    if (jj + 1 < w)
      for (i = 0; i < q; i++)
        *(&Ghost[ii][jj + 1][0] + i) :- X[ii][jj][i][r - 1];
  }
  all_store_sync();
  for_my_2d(ii, jj, v, w) {
    if (jj == 0) continue;
    for (i = 0; i < q; i++) edge[i] := X[ii][jj - 1][i][r - 1];
    sync();
    for (i = 0; i < q; i++)
      if (edge[i] != Ghost[ii][jj][i] || edge[i] != gray(ii * q + i, jj * r - 1)) bad++;
  }
  return all_reduce_to_all_add(bad);
}

int all_image(void)
{
  int bad, again;

  v = 1 << (ilog(PROCS) / 2);
  w = PROCS / v;
  q = 6, r = 5;
  bad = 0;
  for (again = 0; again < 2; again++) {
    int X[v][w]::[q][r];
    int Histo[1]::[13];
    int (*spread P)[q][r];

    all_fill(v, w, q, r, X, gray);
    all_histogram(v, w, q, r, X, 13, Histo);
    bad += all_check_histogram(v, w, q, r, X, 13, Histo);
    bad += all_edges(v, w, q, r, X);
    /* The same through a pointer, as the programs did with all_spread_malloc. */
    P = all_spread_malloc(PROCS, q * r * sizeof(int));
    assert_malloc(P);
    all_fill(v, w, q, r, P, gray);
    if ((*(P + MYPROC))[q - 1][r - 1] != (*(X[0] + MYPROC))[q - 1][r - 1] && MYPROC < v * w) bad++;
    all_histogram(v, w, q, r, P, 13, Histo);
    bad += all_check_histogram(v, w, q, r, P, 13, Histo);
    all_spread_free(P);
  }
  return bad;
}

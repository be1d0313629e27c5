/* Uses of pointers in old programs. */
#include "common.inc"

static int cell = 77;

static char message[] = "a string that runs
over two lines";

struct box {
  char name[12];
  chPair_t pair[2];
  struct { short x, y; } at;
  double *global far;
  int (*spread rows)[4];
  unsigned flag : 3, level : 9;
} boxes[2], *boxp = boxes;

/* Walks a list that goes round the processes. */
static int walk(struct list *global l)
{
  int sum = 0;

  for (; l; l = l->next) sum += l->value;
  return sum;
}

int all_lists(void)
{
  struct list *mine = (struct list *)malloc(sizeof(struct list));
  struct list *global heads[PROCS]::;
  int p, sum;

  assert_malloc(mine);
  mine->value = MYPROC + 1;
  mine->next = NULL;
  heads[MYPROC] = (struct list *global)mine;
  barrier();
  if (MYPROC + 1 < PROCS) mine->next = heads[MYPROC + 1];
  barrier();
  list_head = heads[0];
  sum = walk(list_head);
  p = PROCS * (PROCS + 1) / 2;
  barrier();
  free(mine);
  return sum != p;
}

static void fill_box(struct box *global b, int k)
{
  int i;

  for (i = 0; i < 12; i++) b->name[i] = 'a' + (k + i) % 26;
  b->pair[0].label = k;
  b->pair[1].count = k * 2;
  (*b).pair[1].weight = k / 2.0;
  b->at.x = k, b->at.y = -k;
  b->far = &b->pair[1].weight;
  b->flag = k;
  b->level = 100 + k;
  b->level++;
  b->pair[0].label += 5;
  b->pair[k % 2].count--;
}

static int check_box(struct box *b, int k)
{
  int bad = 0, i;

  for (i = 0; i < 12; i++) bad += b->name[i] != 'a' + (k + i) % 26;
  bad += b->pair[0].label != k + 5;
  bad += b->pair[1].count != k * 2 - (k % 2);
  bad += *b->far != k / 2.0 || tolocal(b->far) != &b->pair[1].weight;
  bad += b->at.x != k || b->at.y != -k;
  bad += b->flag != (k & 7) || b->level != 101 + k;
  return bad;
}

static int sums(chPair_t *spread pairs, int n)
{
  chPair_t one, *global g;
  int i, sum = 0;

  for (i = 0; i < n; i++) {
    one = pairs[i];
    sum += one.label;
    g = (chPair_t *global)(pairs + i);
    sum += g->count;
    one := *g;
    sync();
    sum += (int)one.weight;
  }
  return sum;
}

static int test(chPair_t *spread pairs)
{
  int i, n = 3 * PROCS;
  chPair_t *mine = (chPair_t *)(pairs + MYPROC), p = {1, 2, 3.0};

  for (i = 0; i < 3; i++) mine[i] = p, mine[i].label = MYPROC;
  barrier();
  i = sums(pairs, n) != 3 * PROCS * (PROCS - 1) / 2 + 5 * n;
  barrier();
  return i;
}

int rt_wait(x) { return x + rt; }
int exchange(x, y) { return x * y; }

int all_pointers(void)
{
  int bad = 0, i, tmp, *spread s, *global g, *local, *global *gp = &g;
  int n[PROCS]::;
  int right = (MYPROC + 1) % PROCS;
  chPair_t L[PROCS]::[2 * PROCS];
  void *spread raw;

  if (strlen(message) != 33 || message[18] != '\n') bad++;
  /* Static data are at the same address everywhere. */
  cell = 1000 + MYPROC;
  barrier();
  g = toglobal(right, &cell);
  if (*g != 1000 + right || **gp != *g || toproc(*gp) != right) bad++;
  fill_box(toglobal(right, &boxes[1]), right + 3);
  barrier();
  bad += check_box(&boxp[1], MYPROC + 3);
  s = all_spread_malloc(PROCS, 8 * sizeof(int));
  local = (int *)(s + MYPROC);
  for (i = 0; i < 8; i++) local[i] = MYPROC * 8 + i;
  barrier();
  g = (int *global)(s + right);
  for (i = 0; i < 4; i++) swap_ints(g + i, &g[7 - i]);
  barrier();
  for (i = 0; i < 8; i++) bad += local[i] != MYPROC * 8 + 7 - i;
  for (i = 0; (1 << i) < PROCS; i++) {
    tmp := *(s + (1 << i));
    sync();
    bad += tmp != (1 << i) * 8 + 7;
  }
  n[MYPROC] = all_sum(MYPROC);
  barrier();
  on_proc(PROCS - 1) for (i = 0; i < PROCS; i++) bad += n[i] != PROCS * (PROCS - 1) / 2;
  for (i = 0; i < 2 * PROCS; i++) {
    L[right][i].label = i;
    L[right][i].weight := i * 0.5;
  }
  sync();
  barrier();
  for (i = 0; i < 2 * PROCS; i++) {
    CHPAIR lp = &tolocal(L[MYPROC])[i];
    bad += lp->label != i || lp->weight != i * 0.5;
  }
  raw = all_spread_malloc(PROCS, 3 * sizeof(chPair_t));
  bad += test(raw);
  shared_counts[right] = right;
  barrier();
  if (shared_counts[MYPROC] != MYPROC || sizeof(*s) != sizeof(int) || sizeof *g != 4) bad++;
  rt = 2, job_size = 3;
  if (rt_wait(1) != 3 || exchange(rt, job_size) != 6) bad++;
  barrier();
  if (rt != 2 || job_size != 3) bad++;
  return all_sum(bad);
}

/* Sorting: radix sort by single stores, sample sort, odd-even merge, and finding the k-th key. */
#include "collect.inc"

typedef unsigned int KEY;

#define KEYS   60                       /* per process */
#define DIGIT  4                        /* bits per pass of the radix sort */
#define BINS   (1 << DIGIT)
#define KEYBITS 16

/* Tentative, and here only. */
KEY *sorted;                            /* all keys, as one process sorts them */
static int passes;

static compare_keys(a, b)
void *a, *b;
{
  KEY x = *(KEY *)a, y = *(KEY *)b;

  return (x < y ? -1 : x > y);
}

static void make_keys(seed, keys)
int seed;
KEY *keys;
{
  int i;

  for (i = 0; i < KEYS; i++) {
    keys[i] = mix(seed * 1000 + MYPROC * KEYS + i) & ((1 << KEYBITS) - 1);
    if (seed == 2) keys[i] %= 7;        /* many equal ones */
    if (seed == 3) keys[i] = PROCS * KEYS - (MYPROC * KEYS + i);
  }
}

/* The sorted keys of this seed, computed by this process alone. */
static KEY *sort_alone(seed)
{
  int i, n = PROCS * KEYS;
  KEY *all = (KEY *)malloc(n * sizeof(KEY));

  assert_malloc(all);
  for (i = 0; i < n; i++) {
    all[i] = mix(seed * 1000 + i) & ((1 << KEYBITS) - 1);
    if (seed == 2) all[i] %= 7;
    if (seed == 3) all[i] = n - i;
  }
  qsort(all, n, sizeof(KEY), compare_keys);
  return all;
}

/* ---- radix sort ---- */

/* Counts this digit of my keys; first[d] becomes the place of my first key with digit d. */
static void rank_digits(keys, shift, first)
KEY *keys;
int shift, *first;
{
  int count[BINS], i, below = 0;

  for (i = 0; i < BINS; i++) count[i] = 0;
  for (i = 0; i < KEYS; i++) count[(keys[i] >> shift) & (BINS - 1)]++;
  all_prefix(BINS, count, first);
  for (i = 0; i < BINS; i++) {
    first[i] += below;
    below += all_reduce_to_all_add(count[i]);
  }
}

/* A radix sort from the least significant digit on; each key is stored at its place. */
static void all_radix_sort(KEY *spread A, KEY *spread B)
{
  KEY *spread from = A, *spread to = B, *spread t;
  KEY *mine;
  int shift, i, at, first[BINS];

  for (shift = 0; shift < KEYBITS; shift += DIGIT) {
    mine = (KEY *)(from + MYPROC);
    rank_digits(mine, shift, first);
    for (i = 0; i < KEYS; i++) {
      KEY *global g;

      at = first[(mine[i] >> shift) & (BINS - 1)]++;
      g = (KEY *global)(to + at / KEYS);
      *(g + at % KEYS) :- mine[i];
    }
    all_store_sync();
    passes++;
    t = from, from = to, to = t;
  }
  if (from != A)
    for (i = 0; i < KEYS; i++) ((KEY *)(A + MYPROC))[i] = ((KEY *)(from + MYPROC))[i];
  barrier();
}

/* ---- sample sort ---- */

/* PROCS - 1 keys that divide all keys into about equal parts: process 0 sorts samples and sends the result. */
static void all_splitters(KEY *mine, KEY *splitter)
{
  KEY Sample[PROCS]::[PROCS];
  KEY Chosen[PROCS]::[PROCS];
  KEY all[PROCS * PROCS];
  int i, p;

  qsort(mine, KEYS, sizeof(KEY), compare_keys);
  for (i = 0; i < PROCS; i++)
    bulk_put(&Sample[MYPROC][i], &mine[i * KEYS / PROCS], sizeof(KEY));
  sync();
  barrier();
  on_one {
    each_proc(p) bulk_get(all + p * PROCS, (void *global)Sample[p], PROCS * sizeof(KEY));
    sync();
    qsort(all, PROCS * PROCS, sizeof(KEY), compare_keys);
    each_proc(p)
      for (i = 1; i < PROCS; i++) Chosen[p][i] := all[i * PROCS];
    sync();
  }
  barrier();
  for (i = 1; i < PROCS; i++) splitter[i - 1] = Chosen[MYPROC][i];
}

/* Returns the number of keys in this process afterwards; `out` has room for all keys. */
static int all_sample_sort(mine, out)
KEY *mine, *out;
{
  KEY splitter[PROCS];
  int count[PROCS], i, p = 0, n;

  all_splitters(mine, splitter);
  memset(count, 0, sizeof(count));
  for (i = 0; i < KEYS; i++) {
    while (p < PROCS - 1 && mine[i] >= splitter[p]) p++;
    count[p]++;
  }
  n = all_exchange(mine, count, out, PROCS * KEYS, sizeof(KEY));
  qsort(out, n, sizeof(KEY), compare_keys);
  return n;
}

/* ---- odd-even merge ---- */

static void merge_low(a, b, out, n)     /* the n lowest of two sorted lists of n */
KEY *a, *b, *out;
{
  while (n--) *out++ = *a <= *b ? *a++ : *b++;
}

static void merge_high(a, b, out, n)
KEY *a, *b, *out;
{
  a += n, b += n, out += n;
  while (n--) *--out = a[-1] > b[-1] ? *--a : *--b;
}

static void all_merge_sort(KEY S[PROCS]::[KEYS])
{
  KEY theirs[KEYS], out[KEYS], *mine = tolocal(S[MYPROC]);
  int round, other;

  qsort(mine, KEYS, sizeof(KEY), compare_keys);
  for (round = 0; round < PROCS; round++) {
    other = ((MYPROC + round) & 1) ? MYPROC - 1 : MYPROC + 1;
    barrier();
    if (other >= 0 && other < PROCS) bulk_read(theirs, S[other], sizeof theirs);
    barrier();
    if (other < 0 || other >= PROCS) continue;
    (MYPROC < other ? merge_low : merge_high)(mine, theirs, out, KEYS);
    memcpy(mine, out, sizeof(out));
  }
  barrier();
}

/* ---- the k-th key, counted from 0, by halving the range ---- */

static KEY all_select(k, mine)
int k;
KEY *mine;
{
  KEY low = 0, high = 1 << KEYBITS, middle;
  int i, n;

  while (high - low > 1) {
    middle = (low + high) / 2;
    for (i = 0, n = 0; i < KEYS; i++) n += mine[i] < middle;
    if (all_reduce_to_all_add(n) > k) high = middle;
    else low = middle;
  }
  return low;
}

/* ---- the tests ---- */

static int check_blocks(KEY *spread S)
{
  KEY theirs[KEYS];
  int i, bad = 0, p = RIGHT;

  barrier();
  bulk_read(theirs, (void *global)(S + p), KEYS * sizeof(KEY));
  for (i = 0; i < KEYS; i++) bad += theirs[i] != sorted[p * KEYS + i];
  barrier();
  return bad;
}

static int check_sample(KEY *mine)
{
  KEY *out = (KEY *)malloc(PROCS * KEYS * sizeof(KEY));
  int n, i, before, bad = 0;

  assert_malloc(out);
  n = all_sample_sort(mine, out);
  before = all_scan_add(n) - n;
  for (i = 0; i < n; i++) bad += out[i] != sorted[before + i];
  bad += all_reduce_to_all_add(n) != PROCS * KEYS;
  free(out);
  return bad;
}

int all_sorts()
{
  KEY *spread A, *spread B;
  KEY *mine;
  int seed, bad = 0, k;

  A = all_spread_malloc(PROCS, KEYS * sizeof(KEY));
  B = all_spread_malloc(PROCS, KEYS * sizeof(KEY));
  assert_malloc(A);
  assert_malloc(B);
  mine = (KEY *)(A + MYPROC);
  for (seed = 1; seed <= 3; seed++) {
    sorted = sort_alone(seed);
    make_keys(seed, mine);
    for (k = 0; k < PROCS * KEYS; k += PROCS * KEYS / 3) bad += all_select(k, mine) != sorted[k];
    barrier();
    all_radix_sort(A, B);
    bad += check_blocks(A);
    make_keys(seed, mine);
    bad += check_sample(mine);
    barrier();
    make_keys(seed, mine);
    all_merge_sort((KEY (*spread)[KEYS])A);
    bad += check_blocks(A);
    free(sorted);
  }
  bad += passes != 3 * KEYBITS / DIGIT;
  all_spread_free(B);
  all_spread_free(A);
  return all_sum(bad);
}

/* Counts words in a table of chains that run through all processes. */
#include "collect.inc"
#include <split-c/atomic.h>

#define BUCKETS 13
#define WORD 12

struct word {
  char text[WORD];
  int count;
  struct word *global next;
};

static struct word *global table[BUCKETS]::;
static int busy[BUCKETS]::;
static int made;                        /* entries that this process has made */

static char text[] = "the owl and the pussy cat went to sea in a beautiful pea green boat they took some
honey and plenty of money wrapped up in a five pound note the owl looked up to the stars above
and sang to a small guitar";

static unsigned hash(s)
char *s;
{
  unsigned h = 0;

  while (*s) h = h * 31 + *s++;
  return (h % BUCKETS);
}

/* The entry of a word, or NULL. */
static struct word *global find(s)
char *s;
{
  struct word *global e;
  char there[WORD];

  for (e = table[hash(s)]; e != NULL; e = e->next) {
    bulk_read(there, e->text, WORD);
    if (!strcmp(there, s)) break;
  }
  return e;
}

/* Counts a word once more; a new one gets an entry in this process, in front of the chain. */
static void add(s)
char *s;
{
  int b = hash(s);
  struct word *global e, *new;

  splitc_lock(&busy[b]);
  if (e = find(s)) e->count++;
  else {
    new = (struct word *)malloc(sizeof(struct word));
    assert_malloc(new);
    strcpy(new->text, s);
    new->count = 1;
    new->next = table[b];
    table[b] = (struct word *global)new;
    made++;
  }
  splitc_unlock(&busy[b]);
}

/* The i-th word of the text, or NULL. */
static char *word_of(i, buffer)
int i;
char *buffer;
{
  char *s = text, *to = buffer;

  while (i-- > 0 && *s) {
    while (*s && *s != ' ' && *s != '\n') s++;
    if (*s) s++;
  }
  if (!*s) return NULL;
  while (*s && *s != ' ' && *s != '\n') *to++ = *s++;
  *to = '\0';
  return buffer;
}

static int count_alone(s)
char *s;
{
  char other[WORD];
  int i, n = 0;

  for (i = 0; word_of(i, other); i++) n += !strcmp(other, s);
  return n;
}

/* One process empties each bucket; the process that has made an entry frees it. */
static int free_here(void *arg, int unused)
{
  free(arg);
  return --made;
}

static int all_free_table()
{
  struct word *global e, *global next;
  int b, n = 0;

  for_my_1d(b, BUCKETS) {
    for (e = table[b]; e; e = next, n++) {
      next = e->next;
      atomic(toproc(e), free_here, tolocal(e), 0);
    }
    table[b] = NULL;
  }
  barrier();
  return n;
}

int all_words()
{
  struct word *global e;
  char buffer[WORD];
  int i, n, bad = 0;

  for_my_1d(i, BUCKETS) table[i] = NULL, busy[i] = 0;
  made = 0;
  barrier();
  for (i = MYPROC; word_of(i, buffer); i += PROCS) add(buffer);
  barrier();
  for (i = MYPROC; word_of(i, buffer); i += PROCS) {
    e = find(buffer);
    bad += e == NULL || e->count != count_alone(buffer);
  }
  bad += find("dog") != NULL;
  for_my_1d(i, 12) marks[i][1] = 100 + i;
  barrier();
  for (i = MYPROC % 12, n = 0; n < 12; i = (i + 1) % 12, n++) bad += marks[i][1] != 100 + i;
  n = all_reduce_to_all_add(made);
  barrier();
  i = all_free_table();
  if (all_sum(i) != n || made != 0) bad++;
  return all_sum(bad);
}

/* Written as the programs of 1995 were: one main file that calls the tests of the others. */
#define EXTERN_INLINE
#include "collect.inc"

int errors = 0;
short marks[12]::[2];

static struct {
  char *name;
  int (*f)();
} tests[] = {"image", all_image, "transposes", all_transposes, "pointers", all_pointers,
             "lists", all_lists, "collectives", all_collectives, "sorts", all_sorts,
             "graphs", all_graphs, "matrices", all_matrices, "stencils", all_stencils,
             "bodies", all_bodies, "words", all_words, NULL};

double elapsed() { return get_seconds(); }

usage(name)
char *name;
{
  on_one fprintf(stderr, "usage: %s [-v]\n", name);
  exit(2);
}

splitc_main(argc, argv)
int argc;
char **argv;
{
  int i;
  double start;
  extern char *prog_name;

  prog_name = argv[0];
  for (i = 1; i < argc; i++)
    if (!strcmp(argv[i], "-v")) verbose = TRUE;
    else usage(prog_name);
  for (i = 0; tests[i].name; i++) {
    int bad;

    start = elapsed();
    bad = (*tests[i].f)();
    errors += bad;
    barrier();
    if (verbose || bad) on_one printf("%-12s %3d wrong, %g s\n", tests[i].name, bad, elapsed() - start);
  }
  if (errors) exit(1);
  on_one printf("old: %d tests on %d processes\n", i, PROCS);
}

struct s { int x, y; };
int f(struct s *global g)
{   int r = g->y;
    struct s { char c; } own = {1};
    r = g->y + own.c;
    return r;
}
/* want: 6:5: error: 'struct s' is hidden here by another declaration of that name, so that this access cannot be translated; rename one of them */

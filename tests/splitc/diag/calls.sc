int f(int *global g, int *l)
{   l = tolocal(g, l);
    *l = toproc(l);
    g = toglobal(*l,    *l);
    l = tolocal(g), *l = toproc(g), g = toglobal(1, l);
    return 0;
}
/* want: 2:9: error: 'tolocal' takes one global pointer */
/* want: 3:17: error: the argument of 'toproc' is no global pointer */
/* want: 4:25: error: the second argument of 'toglobal' is no pointer */

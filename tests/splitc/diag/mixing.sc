int h(int *);
int *f(int *global g, int *spread s)
{
    int *l, i;
    double *global d;
    void *spread v;

    l = &i;
    l = g;
    l = s;
    g = l;
    s = g;
    g = i;
    i = g;
    g = s, v = s, s = v, g = (int *global)l, l = (int *)s, i = (int)g;
    h(g);
    d = g;
    return s;
}
/* want: 9:9: error: a local pointer is made from 'int *global' without a cast; use tolocal() or a cast */
/* want: 10:9: error: a local pointer is made from 'int *spread' without a cast; use tolocal() or a cast */
/* want: 11:9: warning: a global pointer is made from a local pointer without a cast; it will point into this process */
/* want: 12:9: warning: a spread pointer is made from a global pointer without a cast */
/* want: 13:9: error: 'int *global' is made from 'int' without a cast */
/* want: 14:9: error: 'int' is made from 'int *global' without a cast */
/* want: 16:7: error: a local pointer is made from 'int *global' without a cast; use tolocal() or a cast */
/* want: 17:9: warning: 'int *global' is converted to the incompatible type 'double *global' */
/* want: 18:12: error: a local pointer is made from 'int *spread' without a cast; use tolocal() or a cast */

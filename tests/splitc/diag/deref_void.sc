int f(void *global g, void *spread s)
{
    int x;

    x = (int)(1, *g);
    *s = 1;
    return x;
}
/* want: 5:18: error: dereference of a 'void *global' pointer */
/* want: 6:5: error: dereference of a 'void *spread' pointer */

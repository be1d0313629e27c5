int f(int *global g, int l)
{
    int x = (l := *g);

    return x;
}
/* want: 3:13: error: void value not ignored as it ought to be */

int *global f(int *global g, int *global h)
{   h = g ? g : h;
    h = g ?: h;
    return g ? 0 : h;
}
/* want: 3:11: error: '?:' without its middle is not supported for global pointers; write the condition twice */

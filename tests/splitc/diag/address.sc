struct s { int b : 3; int y; };
void f(struct s *global t, int n)
{   int A[n]::; int *global g; void *global v; long x;
    g = &t->y;
    v = g ? &t->b : 0;
    v = &A;
    x = sizeof A;
    t->z = 1;
    x = sizeof A[0];
}
/* want: 5:13: error: cannot take the address of a bit-field */
/* want: 6:9: error: the address of a spread array cannot be taken; its name is a spread pointer */
/* want: 7:9: error: 'sizeof' of a spread array, which has no size in one process; take that of an element */
/* want: 8:8: error: 'struct s' has no member named 'z' */

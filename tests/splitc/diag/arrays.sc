struct t { int a[3]; };
void f(struct t *global t, const int *global c, void (*global p)(void), int n)
{   int A[n]::;
    t->a   = 0;
    *c += 1;
    p();
    t->a[n] = A[0];
}
/* want: 4:12: error: assignment to an expression with array type */
/* want: 5:8: error: assignment of a read-only object in global space */
/* want: 6:6: error: a function cannot be called through a 'void () *global' pointer */

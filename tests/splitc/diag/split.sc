struct s { int a[4]; int b : 3; };
void f(int *global g, int *global h, struct s *global t)
{
    int x, *p; register int r; double d; int a[4];

    a[0] :- 1;
    x := 2;
    *g := *h;
    d := *g;
    r := *g;
    t->a    := 0;
    t->b := 1;
    a := t->a;
    p = &x, *p := *g, x = x ? 1 :-1;
}
/* want: 6:10: error: ':-' stores only through a global pointer, and its left side is local */
/* want: 7:7: warning: neither side of ':=' is global; this is an ordinary assignment */
/* want: 8:8: warning: both sides of ':=' are global; the right one is read before the put starts */
/* want: 9:7: warning: this get needs a conversion or has no address to go to; it waits for the value */
/* want: 10:7: warning: this get needs a conversion or has no address to go to; it waits for the value */
/* want: 11:13: error: assignment to an expression with array type */
/* want: 12:10: error: a bit-field cannot be put or stored; assign to it with '=' */
/* want: 13:7: error: an array cannot be got; get its elements or use bulk_get() */

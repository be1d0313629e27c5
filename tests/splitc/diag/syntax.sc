int f(int a)
{
    a = 1 +;
    return a;
}
int g(int *global b)
{
    *b = 1
return 2;
}
/* want: 3:12: error: expected expression before ';' */
/* want: 9:1: error: expected ';' before 'return' */

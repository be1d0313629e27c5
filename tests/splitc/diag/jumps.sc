void f(int n)
{
    goto in;
    {
        int A[n]::;
    again:
    in:
        A[0] = 1;
        if (n--)
            goto again;
    }
    switch (n) {
        int B[n]::;
    case 1:
        B[0] = 1;
    }
}
/* want: 14:5: error: this case jumps into the scope of a spread array */
/* want: 13:13: note: 'B' is declared here */
/* want: 3:10: error: this 'goto' jumps into the scope of a spread array */
/* want: 5:13: note: 'A' is declared here */

int f(int *global g)
{   for (int *global p = g; p; p = 0) ;
    for (int *global p = g, i = 0; p; i++) ;
    for (int A[3]::; g; g = 0) ;
    return 0;
}
/* want: 3:29: error: this declaration mixes global pointers with other types, which is not possible in the head of a 'for' */
/* want: 4:15: error: a spread array cannot be declared here; use a spread pointer */

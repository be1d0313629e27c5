struct s { int a[3]::; };
typedef int t[3]::;
int (*p[3]::)[4], (*q)[3]::;
int A[4][]::[2];
int (*B)[PROCS], (*global G)[PROCS], C[]::[PROCS], D[];
int E[PROCS]:: = 1;
int *global    spread z;
int F[2]::[3]::;
/* want: 1:17: error: a spread array cannot be declared here; use a spread pointer */
/* want: 2:14: error: a spread array cannot be declared here; use a spread pointer */
/* want: 3:23: error: a spread array cannot be part of another type; use a spread pointer */
/* want: 4:9: error: only the first bound of a spread array can be left out */
/* want: 5:18: error: a type with a bound that is not constant, at file scope */
/* want: 5:39: error: the first bound of this spread array is missing */
/* want: 6:5: error: a spread array cannot have an initialiser */
/* want: 7:16: error: a pointer cannot be both 'global' and 'spread' */
/* want: 8:14: error: a second '::' in one declarator */

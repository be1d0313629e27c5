static int x, A[4]::, *spread ok = A, *global null = 0;
struct { int *global p[2]; } init = {{0, (int *global)0}};
int *global g = &x;
int *spread h = A;
/* want: 3:17: error: a global pointer of static storage can only be initialised with NULL or a spread array of constant size */

/* Plain C with the words of Split-C as names, and its tokens in other places: nothing to say. */
int *global;
static int *spread = 0;
int f(int c, int spread)
{
    int x = c ? 1 :-1, y = (c ? x :-x), z;

    switch (c) {
    case 1:-x;
    default:-y;
    }
    __asm__("" :: "r"(x));
    z = c ?:-1;
    return *global * spread + z;
}
static int toproc(int x) { return x + 1; }
static int tolocal(void) { return 2; }
static int *toglobal;
int own(void) { return toproc(3) + tolocal() + *toglobal; }

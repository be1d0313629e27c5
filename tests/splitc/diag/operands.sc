int f(int *global g, int *spread s, int i)
{   i = g * 2;
    i = g + g;
    i = g - s;
    i = -g;
    g *= 2;
    return g - g + (s - s) + (g == 0) + (s < s + 1);
}
/* want: 2:11: error: invalid operands to binary * (have 'int *global' and 'int') */
/* want: 3:11: error: invalid operands to binary + (have 'int *global' and 'int *global') */
/* want: 4:11: error: invalid operands to binary - (have 'int *global' and 'int *spread') */
/* want: 5:9: error: wrong type argument to unary - (have 'int *global') */
/* want: 6:7: error: invalid operands to binary *= (have 'int *global' and 'int') */

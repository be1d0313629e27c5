/* The manual page vipd-statistics(7). Called by main.c only. */
#ifndef VIPD_STATS_PRINT_H
#define VIPD_STATS_PRINT_H

#include <stdio.h>

/* Print every statistic with its kind, unit and meaning, as source text for scdoc. */
void vipd_print_statistics(FILE *out);

#endif

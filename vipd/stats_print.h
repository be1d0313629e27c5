/* The manual page vipd-statistics(7). Called by main.c only. */
#ifndef VIPD_STATS_PRINT_H
#define VIPD_STATS_PRINT_H

#include <stdio.h>

/* Every statistic with kind, unit and meaning, as scdoc's source. */
void vipd_print_statistics(FILE *out);

#endif

/* Old programs include this header for input and output. Split-C uses the C library for both. */
#ifndef SPLIT_C_IO_H
#define SPLIT_C_IO_H

#include <stdio.h>

#endif

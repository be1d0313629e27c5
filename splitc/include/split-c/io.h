/* Old programs include this header for input and output. Split-C uses the functions of C. */
#ifndef SPLIT_C_IO_H
#define SPLIT_C_IO_H

#include <stdio.h>

#endif

/* Old programs include this header for input and output, which are those of C. */
#ifndef SPLIT_C_IO_H
#define SPLIT_C_IO_H

#include <stdio.h>

#endif

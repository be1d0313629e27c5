/* Old programs include this header to use the collective operations. */
#ifndef SPLIT_C_COM_H
#define SPLIT_C_COM_H

#include <split-c/split-c.h>

#endif

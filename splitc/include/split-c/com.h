/* Old programs include this header for the collective operations. */
#ifndef SPLIT_C_COM_H
#define SPLIT_C_COM_H

#include <split-c/split-c.h>

#endif

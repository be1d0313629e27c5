/*
 * Inside libvipam: includes am_amx.h by its path in the source tree.
 */
#ifndef AM_AMX_INSIDE_H
#define AM_AMX_INSIDE_H

#include <stdio.h>
#include <stdlib.h>

#include "am/am_amx.h"

#endif

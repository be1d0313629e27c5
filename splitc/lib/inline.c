/*
 * The functions of split-c/runtime.h as ordinary functions, for calls that gcc does not inline
 * (without optimisation, for example).
 */
#define SC_INLINE
#include "splitc/include/split-c/runtime.h"

/*
 * The functions of split-c/runtime.h as ordinary functions, for calls that gcc does not inline, for
 * example without optimisation.
 */
#define SC_INLINE
#include "splitc/include/split-c/runtime.h"

/*
 * Compiles the inline functions of split-c/runtime.h as ordinary functions. gcc uses these if it
 * does not inline a call, for example without optimisation.
 */
#define SC_INLINE
#include "splitc/include/split-c/runtime.h"

/*
 * The functions of split-c/runtime.h once more, as ordinary ones: for calls that gcc does not inline,
 * without optimisation for instance.
 */
#define SC_INLINE
#include "splitc/include/split-c/runtime.h"

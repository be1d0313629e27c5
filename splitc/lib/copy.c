/* Copies to memory that another thread may read at the same time. */
#include "splitc/lib/rt.h"

#include <string.h>

/* Write an aligned word with one store. memcpy does not guarantee a single store. */
void rt_copy(void *to, const void *from, size_t bytes)
{
    uintptr_t at = (uintptr_t)to;

    if (bytes == 8 && at % 8 == 0) {
        uint64_t word;

        memcpy(&word, from, 8);
        __atomic_store_n((uint64_t *)to, word, __ATOMIC_RELEASE);
    } else if (bytes == 4 && at % 4 == 0) {
        uint32_t word;

        memcpy(&word, from, 4);
        __atomic_store_n((uint32_t *)to, word, __ATOMIC_RELEASE);
    } else if (bytes == 2 && at % 2 == 0) {
        uint16_t word;

        memcpy(&word, from, 2);
        __atomic_store_n((uint16_t *)to, word, __ATOMIC_RELEASE);
    } else {
        memcpy(to, from, bytes);
    }
}

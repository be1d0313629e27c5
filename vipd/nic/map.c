/* Maps memory that takes no pages until it is used. */
#include <sys/mman.h>

#include "vipd/nic/internal.h"

void *nic_map(size_t bytes)
{
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

    return memory == MAP_FAILED ? NULL : memory;
}

/* Bulk transfers: RDMA or messages carry data between processes, memmove within this process. */
#include "splitc/lib/library.h"

#include <string.h>

static void check(int bytes)
{
    if (bytes < 0)
        rt_fatal("a bulk transfer of %d bytes", bytes);
}

void bulk_read(void *to, sc_ptr from, int bytes)
{
    check(bytes);
    sc_read(to, from, (size_t)bytes);
}

void bulk_get(void *to, sc_ptr from, int bytes)
{
    check(bytes);
    sc_get(to, from, (size_t)bytes);
}

void bulk_write(sc_ptr to, void *from, int bytes)
{
    check(bytes);
    sc_write(to, from, (size_t)bytes);
}

/* bulk_put copies the data before it returns, so the program may change `from` at once. */
void bulk_put(sc_ptr to, void *from, int bytes)
{
    check(bytes);
    sc_put(to, from, (size_t)bytes);
}

void bulk_store(sc_ptr to, void *from, int bytes)
{
    check(bytes);
    sc_store(to, from, (size_t)bytes);
}

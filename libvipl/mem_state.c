/* The state of registered memory, one for the whole process, and its growing arrays. */
#include "libvipl/mem_internal.h"

#include <errno.h>
#include <sys/mman.h>
#include <sys/stat.h>

struct mem_switches vipl__mem_switches;

static struct mem_state *the_state;
static pthread_once_t state_once = PTHREAD_ONCE_INIT;

static void make_state(void)
{
    struct mem_state *st = mmap(NULL, mem_page_up(sizeof(*st)), PROT_READ | PROT_WRITE,
                                MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (st == MAP_FAILED)
        return;
    pthread_mutex_init(&st->lock, NULL);
    st->arena_fd = -1;
    st->uffd = -1;
    st->maps_fd = -1;
    st->fork_pipe[0] = -1;
    st->fork_pipe[1] = -1;
    __atomic_store_n(&the_state, st, __ATOMIC_RELEASE);
}

struct mem_state *vipl__mem_state(void)
{
    pthread_once(&state_once, make_state);
    return the_state;
}

struct mem_state *vipl__mem_state_peek(void)
{
    return __atomic_load_n(&the_state, __ATOMIC_ACQUIRE);
}

int vipl__mem_vec_reserve(struct mem_vec *vec, size_t n, size_t item_bytes)
{
    size_t want = vec->bytes_mapped != 0 ? vec->bytes_mapped : MEM_PAGE_BYTES;
    void *map;

    if (n * item_bytes <= vec->bytes_mapped)
        return 0;
    while (want < n * item_bytes)
        want *= 2;
    map = vec->items == NULL
              ? mmap(NULL, want, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)
              : mremap(vec->items, vec->bytes_mapped, want, MREMAP_MAYMOVE);
    if (map == MAP_FAILED)
        return -ENOMEM;
    vec->items = map;
    vec->bytes_mapped = want;
    return 0;
}

bool vipl__mem_arena_alive(const struct mem_state *st)
{
    struct stat file;

    return st->arena_fd >= 0 && fstat(st->arena_fd, &file) == 0 && file.st_ino == st->arena_ino &&
           file.st_dev == st->arena_dev;
}

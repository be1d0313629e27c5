/*
 * The extension VipxCheckMem tells whether a region's addresses still have the registered memory.
 */
#include "suite.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#define PAGE  4096
#define BYTES (16 * PAGE)

enum kind { HEAP, ANONYMOUS, FILE_MAPPED, EXTENSION };

static char *map(char *at, int fd)
{
    int flags = fd >= 0 ? MAP_SHARED : MAP_PRIVATE | MAP_ANONYMOUS;
    char *got =
        mmap(at, BYTES, PROT_READ | PROT_WRITE, flags | (at != NULL ? MAP_FIXED : 0), fd, 0);

    assert_ptr_not_equal(got, MAP_FAILED);
    return got;
}

static int file(void)
{
    char name[] = "/tmp/conf_check_mem.XXXXXX";
    int fd = mkstemp(name);

    assert_true(fd >= 0);
    unlink(name);
    assert_int_equal(ftruncate(fd, BYTES), 0);
    return fd;
}

/* VipxCheckMem succeeds until VipDeregisterMem, also when the program has written to the memory. */
static void untouched(void **state)
{
    enum kind kind = (enum kind)conf_arg(state);
    int fd = kind == FILE_MAPPED ? file() : -1;
    VIP_MEM_HANDLE handle;
    VIP_PVOID memory;
    struct end a;

    conf_open(&a, 'A');
    if (kind == HEAP)
        memory = malloc(BYTES);
    else if (kind == EXTENSION)
        CONF_OK(VipxAllocMem(BYTES, &memory));
    else
        memory = map(NULL, fd);
    assert_non_null(memory);
    CONF_OK(VipRegisterMem(a.nic, (char *)memory + 100, BYTES - 200, NULL, &handle));
    CONF_OK(VipxCheckMem(a.nic, (char *)memory + 100, handle));
    memset(memory, 0x5A, BYTES);
    CONF_OK(VipxCheckMem(a.nic, (char *)memory + 100, handle));
    CONF_RETURNS(VIP_INVALID_PARAMETER, VipxCheckMem(a.nic, memory, handle));
    CONF_RETURNS(VIP_INVALID_PARAMETER, VipxCheckMem(NULL, (char *)memory + 100, handle));
    CONF_OK(VipDeregisterMem(a.nic, (char *)memory + 100, handle));
    CONF_RETURNS(VIP_INVALID_PARAMETER, VipxCheckMem(a.nic, (char *)memory + 100, handle));
    if (kind == HEAP)
        free(memory);
    else if (kind == EXTENSION)
        CONF_OK(VipxFreeMem(memory));
    else
        assert_int_equal(munmap(memory, BYTES), 0);
    if (fd >= 0)
        close(fd);
    conf_close(&a);
}

/* VipxCheckMem fails if memory (one page or all pages) was unmapped or replaced. */
static void unmapped(void **state)
{
    VIP_MEM_HANDLE handle;
    struct end a;
    char *memory;

    conf_open(&a, 'A');
    memory = map(NULL, -1);
    memset(memory, 1, BYTES);
    CONF_OK(VipRegisterMem(a.nic, memory, BYTES, NULL, &handle));
    assert_int_equal(munmap(memory + 7 * PAGE, PAGE), 0);
    CONF_RETURNS(VIP_INVALID_STATE, VipxCheckMem(a.nic, memory, handle));
    assert_int_equal(munmap(memory, BYTES), 0);
    CONF_RETURNS(VIP_INVALID_STATE, VipxCheckMem(a.nic, memory, handle));
    map(memory, -1);
    memset(memory, 2, BYTES);
    CONF_RETURNS(VIP_INVALID_STATE, VipxCheckMem(a.nic, memory, handle));
    CONF_OK(VipDeregisterMem(a.nic, memory, handle));
    for (size_t i = 0; i < BYTES; i++)
        assert_int_equal(memory[i], 2);
    CONF_OK(VipRegisterMem(a.nic, memory, BYTES, NULL, &handle));
    CONF_OK(VipxCheckMem(a.nic, memory, handle));
    CONF_OK(VipDeregisterMem(a.nic, memory, handle));
    assert_int_equal(munmap(memory, BYTES), 0);
    conf_close(&a);
}

#define KIND(suffix, kind, what)                                                                   \
    CONF_N("ext", CONF_FULL, untouched, suffix, kind, what " that stays where it is stays good")

static const struct conf_test tests[] = {
    KIND("heap", HEAP, "memory of the heap"),
    KIND("anonymous", ANONYMOUS, "an anonymous mapping"),
    KIND("file", FILE_MAPPED, "a mapped file"),
    KIND("extension", EXTENSION, "memory of VipxAllocMem"),
    CONF_T("ext", CONF_FULL, unmapped,
           "a region whose memory was unmapped or mapped anew is told from a good one"),
};

CONF_MAIN(tests)

/*
 * Section 2.3: registered memory of every kind carries data, and registration does not change the
 * contents of memory, the memory map or child processes.
 */
#include "suite.h"

#include <spawn.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define CONF_SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) ||                         \
    __has_feature(memory_sanitizer)
#define CONF_SANITIZED 1
#endif
#endif
#ifndef CONF_SANITIZED
#define CONF_SANITIZED 0
#endif

enum kind { STACK, HEAP, BSS, ANONYMOUS, FILE_SHARED, FILE_PRIVATE, READ_ONLY, EXTENSION, EARLY };

#define BYTES 20000
static char in_bss[BYTES];

/* Carry data from `from` at a to `to` at b. If `to` is NULL (read-only memory), use b's buffer. */
static void carry_kind(struct end *a, struct end *b, char *from, char *to, unsigned seed)
{
    VIP_MEM_HANDLE handle_from, handle_to, handle_back;
    char *back;
    VIP_MEM_ATTRIBUTES open = {NULL, VIP_TRUE, VIP_TRUE};

    CONF_OK(VipRegisterMem(a->nic, from + 1, BYTES - 1, NULL, &handle_from));
    if (to != NULL) {
        CONF_OK(VipRegisterMem(b->nic, to + 1, BYTES - 1, &open, &handle_to));
        back = from;
        handle_back = handle_from;
    } else {
        to = b->buffer;
        handle_to = b->handle;
        back = a->buffer - 1;
        handle_back = a->handle;
    }
    for (unsigned op = 0; op < 3; op++) { /* message, RDMA Write, RDMA Read */
        VIP_DESCRIPTOR *desc =
            op == 0 ? conf_desc(a, 0, 0, BYTES - 1) : conf_write(a, 0, 0, BYTES - 1, b, 0);

        memset(to, 0, BYTES);
        if (op == 0) {
            VIP_DESCRIPTOR *recv = conf_desc(b, 0, 0, BYTES - 1);

            recv->DS[0].Local.Data.Address = to + 1;
            recv->DS[0].Local.Handle = handle_to;
            desc->DS[0].Local.Data.Address = from + 1;
            desc->DS[0].Local.Handle = handle_from;
            conf_post_recv(b, recv);
            CONF_OK(conf_carry(a, desc, b, recv, NULL));
            assert_memory_equal(to + 1, from + 1, BYTES - 1);
            continue;
        }
        desc->DS[0].Remote.Data.Address = to + 1;
        desc->DS[0].Remote.Handle = handle_to;
        desc->DS[1].Local.Data.Address = from + 1;
        desc->DS[1].Local.Handle = handle_from;
        if (op == 2) { /* read from b into the buffer of a */
            conf_fill(to + 1, BYTES - 1, 99);
            desc->CS.Control = VIP_CONTROL_OP_RDMAREAD;
            desc->DS[1].Local.Data.Address = back + 1;
            desc->DS[1].Local.Handle = handle_back;
        }
        conf_post_send(a, desc);
        conf_sent(a, desc);
        assert_memory_equal(to + 1, op == 2 ? back + 1 : from + 1, BYTES - 1);
    }
    if (back == from) /* the RDMA Read has written to `from` */
        conf_fill(from, BYTES, seed);
    CONF_OK(VipDeregisterMem(a->nic, from + 1, handle_from));
    if (to != b->buffer)
        CONF_OK(VipDeregisterMem(b->nic, to + 1, handle_to));
}

static char *map(int prot, int flags, FILE *file)
{
    char *at = mmap(NULL, BYTES, prot, flags, file == NULL ? -1 : fileno(file), 0);

    assert_ptr_not_equal(at, MAP_FAILED);
    return at;
}

static void kind_of_memory(void **state)
{
    enum kind kind = (enum kind)conf_arg(state);
    struct end a, b;
    char on_stack[BYTES], *from = NULL, *to = NULL;
    FILE *file = tmpfile(), *other = tmpfile();
    VIP_PVOID extra[2] = {NULL, NULL};

    conf_pair(&a, &b, VIP_SERVICE_RELIABLE_RECEPTION);
    assert_int_equal(ftruncate(fileno(file), BYTES), 0);
    assert_int_equal(ftruncate(fileno(other), BYTES), 0);
    switch (kind) {
    case STACK:
        from = on_stack;
        break;
    case HEAP:
        from = malloc(BYTES);
        to = malloc(BYTES);
        break;
    case BSS:
        from = in_bss;
        break;
    case ANONYMOUS:
        from = map(PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, NULL);
        to = map(PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, NULL);
        break;
    case FILE_SHARED:
        from = map(PROT_READ | PROT_WRITE, MAP_SHARED, file);
        to = map(PROT_READ | PROT_WRITE, MAP_SHARED, other);
        break;
    case FILE_PRIVATE:
        from = map(PROT_READ | PROT_WRITE, MAP_PRIVATE, file);
        to = map(PROT_READ | PROT_WRITE, MAP_PRIVATE, other);
        break;
    case READ_ONLY:
        from = map(PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, NULL);
        break;
    case EARLY:
        setenv("VIPD_RUNTIME_DIR", "/nonexistent/place", 1); /* conf_open sets it again */
        /* fall through */
    case EXTENSION:
        CONF_OK(VipxAllocMem(BYTES, &extra[0]));
        CONF_OK(VipxAllocMem(BYTES, &extra[1]));
        from = extra[0];
        to = extra[1];
        break;
    }
    conf_fill(from, BYTES, kind);
    if (kind == READ_ONLY)
        mprotect(from, BYTES, PROT_READ);
    carry_kind(&a, &b, from, to, kind);
    conf_same(from, BYTES, kind);
    if (kind == HEAP) {
        free(from);
        free(to);
    } else if (kind == EXTENSION || kind == EARLY) {
        CONF_OK(VipxFreeMem(extra[0]));
        CONF_OK(VipxFreeMem(extra[1]));
    } else if (kind != STACK && kind != BSS) {
        munmap(from, BYTES);
        if (to != NULL)
            munmap(to, BYTES);
    }
    fclose(file);
    fclose(other);
    conf_close_pair(&a, &b);
}

static void read_only_memory_is_not_a_target(void **state)
{
    struct end a, b;
    char *page = map(PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, NULL);
    VIP_MEM_ATTRIBUTES open = {NULL, VIP_TRUE, VIP_FALSE};
    VIP_DESCRIPTOR *write;
    VIP_MEM_HANDLE handle;
    VIP_RETURN rc;

    (void)state;
    conf_pair(&a, &b, VIP_SERVICE_RELIABLE_DELIVERY);
    rc = VipRegisterMem(b.nic, page, 4096, &open, &handle);
    if (rc == VIP_SUCCESS) { /* an RDMA Write to the page must do no harm */
        memset(a.buffer, 0xAA, 64);
        write = conf_write(&a, 0, 0, 64, &b, 0);
        write->DS[0].Remote.Data.Address = page;
        write->DS[0].Remote.Handle = handle;
        conf_post_send(&a, write);
        conf_take(&a, false, write);
        CONF_OK(VipDeregisterMem(b.nic, page, handle));
    }
    for (unsigned i = 0; i < 64; i++)
        assert_int_equal(page[i], 0);
    munmap(page, BYTES);
    conf_close_pair(&a, &b);
}

static void the_same_bytes_many_times(void **state)
{
    enum { N = 50 };
    struct end a;
    VIP_MEM_HANDLE handles[N];

    (void)state;
    conf_open(&a, 'A');
    conf_fill(a.buffer, 100000, 5);
    for (unsigned i = 0; i < N; i++) {
        VIP_MEM_ATTRIBUTES mem = {NULL, i & 1, i >> 1 & 1}, got;

        CONF_OK(VipRegisterMem(a.nic, a.buffer, 5000, &mem, &handles[i]));
        assert_int_not_equal(handles[i], 0);
        assert_int_not_equal(handles[i], 0xFFFFFFFFu);
        for (unsigned k = 0; k < i; k++)
            assert_int_not_equal(handles[i], handles[k]);
        CONF_OK(VipQueryMem(a.nic, a.buffer, handles[i], &got));
        assert_int_equal(got.EnableRdmaWrite, i & 1);
        assert_int_equal(got.EnableRdmaRead, i >> 1 & 1);
    }
    for (unsigned i = 0; i < N; i++)
        CONF_OK(VipDeregisterMem(a.nic, a.buffer, handles[N - 1 - i]));
    conf_same(a.buffer, 100000, 5);
    conf_close(&a);
}

static void overlapping_regions(void **state)
{
    enum { N = 20 };
    struct end a, b;
    char *heap = malloc(400000);
    VIP_MEM_HANDLE handles[N];

    (void)state;
    conf_pair(&a, &b, VIP_SERVICE_RELIABLE_DELIVERY);
    conf_fill(heap, 400000, 8);
    for (unsigned i = 0; i < N; i++)
        CONF_OK(VipRegisterMem(a.nic, heap + i * 7001, 200000, NULL, &handles[i]));
    for (unsigned i = 0; i < N; i++) { /* each region is in use while others are deregistered */
        VIP_DESCRIPTOR *send = conf_desc(&a, 0, 0, 200000);

        send->DS[0].Local.Data.Address = heap + i * 7001;
        send->DS[0].Local.Handle = handles[i];
        conf_post_recv(&b, conf_desc(&b, 0, 0, 200000));
        CONF_OK(conf_carry(&a, send, &b, conf_at(&b, 0), NULL));
        assert_memory_equal(b.buffer, heap + i * 7001, 200000);
        CONF_OK(VipDeregisterMem(a.nic, heap + i * 7001, handles[i]));
    }
    conf_same(heap, 400000, 8);
    free(heap);
    conf_close_pair(&a, &b);
}

/* ---- nothing remains ----------------------------------------------------------------------- */

static unsigned maps_lines(void)
{
    FILE *file = fopen("/proc/self/maps", "r");
    unsigned lines = 0;
    int c;

    assert_non_null(file);
    while ((c = fgetc(file)) != EOF)
        lines += c == '\n';
    fclose(file);
    return lines;
}

/* ./check --long sets VIP_LONG. */
static unsigned registrations(void)
{
    if (getenv("VIP_LONG"))
        return 100000;
    print_message("[  REASON  ] 2000 rounds; all 100000 with VIP_LONG=1\n");
    return 2000;
}

static void registering_100000_times(void **state)
{
    bool staged = conf_arg(state) != 0;
    unsigned rounds = registrations();
    struct end a;
    FILE *file = tmpfile();
    char *memory = malloc(64 * 4096), *mapped;
    unsigned lines;
    VIP_MEM_HANDLE handle;

    assert_int_equal(ftruncate(fileno(file), 64 * 4096), 0);
    mapped = mmap(NULL, 64 * 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fileno(file), 0);
    conf_open(&a, 'A');
    conf_fill(memory, 64 * 4096, 3);
    conf_fill(mapped, 64 * 4096, 4);
    CONF_OK(VipRegisterMem(a.nic, memory, 100, NULL, &handle));
    CONF_OK(VipDeregisterMem(a.nic, memory, handle));
    lines = maps_lines();
    for (unsigned i = 0; i < rounds; i++) {
        char *at = (staged ? mapped : memory) + i % 60 * 4096 + i % 97;

        CONF_OK(VipRegisterMem(a.nic, at, 1 + i % 10000, NULL, &handle));
        CONF_OK(VipDeregisterMem(a.nic, at, handle));
    }
    assert_in_range(maps_lines(), lines >= 2 ? lines - 2 : 0, lines + 2);
    conf_same(memory, 64 * 4096, 3);
    conf_same(mapped, 64 * 4096, 4);
    munmap(mapped, 64 * 4096);
    fclose(file);
    free(memory);
    conf_close(&a);
}

/* ---- huge pages ------------------------------------------------------------------------------ */

#define HUGE_BYTES ((size_t)8 << 20)

/* True if the setting shmem_enabled is one of these words. False if there is no such setting. */
static bool shmem_huge_is(const char *const *words)
{
    FILE *file = fopen("/sys/kernel/mm/transparent_hugepage/shmem_enabled", "r");
    char line[128] = "";
    bool is = false;

    if (file == NULL)
        return false;
    if (fgets(line, sizeof(line), file) == NULL)
        line[0] = '\0';
    fclose(file);
    for (; *words != NULL; words++)
        is = is || strstr(line, *words) != NULL;
    return is;
}

/* Returns the number after `name` in a file with lines "NAME[:] NUMBER". If `from` is not NULL, the
 * search begins at the line that begins with `from`. */
static unsigned long number_in(const char *path, const char *from, const char *name)
{
    FILE *file = fopen(path, "r");
    char line[512];
    bool there = from == NULL;
    unsigned long number = 0;

    assert_non_null(file);
    while (fgets(line, sizeof(line), file) != NULL) {
        there = there || strncmp(line, from, strlen(from)) == 0;
        if (there && strncmp(line, name, strlen(name)) == 0) {
            number = strtoul(line + strlen(name) + strspn(line + strlen(name), ": "), NULL, 10);
            break;
        }
    }
    fclose(file);
    return number;
}

static void huge_pages_when_they_can_be_had(void **state)
{
    static const char *const on[] = {"[always]", "[advise]", "[within_size]", "[force]", NULL};
    unsigned long fallbacks, kib;
    char start[32];
    VIP_PVOID memory;
    struct end a;
    VIP_MEM_HANDLE handle;

    (void)state;
    if (!shmem_huge_is(on))
        CONF_NOT_HERE("this system gives shared memory no huge pages (transparent_hugepage/"
                      "shmem_enabled)");
    conf_open(&a, 'A');
    fallbacks = number_in("/proc/vmstat", NULL, "thp_file_fallback ");
    CONF_OK(VipxAllocMem(HUGE_BYTES, &memory));
    CONF_OK(VipRegisterMem(a.nic, memory, HUGE_BYTES, NULL, &handle));
    conf_fill(memory, HUGE_BYTES, 5);
    snprintf(start, sizeof(start), "%lx-", (unsigned long)(uintptr_t)memory);
    kib = number_in("/proc/self/smaps", start, "ShmemPmdMapped");
    conf_same(memory, HUGE_BYTES, 5);
    if (kib == 0 && number_in("/proc/vmstat", NULL, "thp_file_fallback ") != fallbacks)
        print_message("[  REASON  ] the system has no huge page free; ordinary ones were taken\n");
    else
        assert_true(kib >= 2048);
    CONF_OK(VipDeregisterMem(a.nic, memory, handle));
    CONF_OK(VipxFreeMem(memory));
    conf_close(&a);
}

static void opening_and_closing_leaves_nothing(void **state)
{
    struct end a;
    unsigned lines = 0;

    (void)state;
    for (unsigned i = 0; i < 40; i++) {
        conf_ready(&a, 'A', VIP_SERVICE_UNRELIABLE);
        conf_post_recv(&a, conf_desc(&a, 0, 0, 64));
        conf_close(&a);
        if (i == 10)
            lines = maps_lines();
    }
    assert_in_range(maps_lines(), lines >= 4 ? lines - 4 : 0, lines + 4);
}

/* ---- fork ---------------------------------------------------------------------------------- */

/* A child exits, writes its memory, or calls exec: the parent's regions must still work. */
static void forked_child(void **state)
{
    unsigned what = (unsigned)conf_arg(state);
    struct end a, b;
    char *heap = malloc(100000);
    VIP_MEM_HANDLE handle;
    int status = 0;

    conf_pair(&a, &b, VIP_SERVICE_RELIABLE_DELIVERY);
    CONF_OK(VipRegisterMem(a.nic, heap, 100000, NULL, &handle));
    for (unsigned round = 0; round < 3; round++) {
        VIP_DESCRIPTOR *send = conf_desc(&a, 0, 0, 100000);
        pid_t child;

        conf_fill(heap, 100000, round);
        child = fork();
        assert_true(child >= 0);
        if (child == 0) {
            if (what == 1) {
                memset(heap, 0xEE, 100000);
                memset(a.memory, 0xEE, a.memory_bytes);
            } else if (what == 2) {
                execl("/bin/true", "true", (char *)NULL);
            } else if (what == 3) {
                VIP_NIC_ATTRIBUTES attrs;

                _exit(VipQueryNic(a.nic, &attrs) == VIP_INVALID_PARAMETER ? 0 : 1);
            }
            _exit(0);
        }
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_int_equal(status, 0);
        conf_same(heap, 100000, round);
        send->DS[0].Local.Data.Address = heap;
        send->DS[0].Local.Handle = handle;
        conf_post_recv(&b, conf_desc(&b, 0, 0, 100000));
        CONF_OK(conf_carry(&a, send, &b, conf_at(&b, 0), NULL));
        conf_same(b.buffer, 100000, round);
    }
    CONF_OK(VipDeregisterMem(a.nic, heap, handle));
    conf_alive(&a, &b);
    conf_close_pair(&a, &b);
    free(heap);
}

#define KIND(suffix, kind, sentence)                                                               \
    CONF_N("2.3", CONF_EARLY, kind_of_memory, suffix, kind, sentence " carries every operation")

static const struct conf_test tests[] = {
    KIND("stack", STACK, "memory of the stack"),
    KIND("heap", HEAP, "memory of the heap"),
    KIND("bss", BSS, "static memory"),
    KIND("anonymous", ANONYMOUS, "anonymous mappings"),
    KIND("file_shared", FILE_SHARED, "a shared mapping of a file"),
    KIND("file_private", FILE_PRIVATE, "a private mapping of a file"),
    KIND("read_only", READ_ONLY, "read-only memory, as a source,"),
    KIND("extension", EXTENSION, "memory of VipxAllocMem"),
    KIND("early", EARLY, "memory of VipxAllocMem that was made without vipd"),
    CONF_T("2.3", CONF_FUNCTIONAL, read_only_memory_is_not_a_target,
           "read-only memory is not changed by anybody"),
    CONF_T("2.3", CONF_EARLY, the_same_bytes_many_times,
           "the same bytes may be registered several times with different attributes; each handle "
           "differs, none is 0 or 0xFFFFFFFF"),
    CONF_T("2.3", CONF_EARLY, overlapping_regions, "regions may overlap; each ends by itself"),
    CONF_T("ext", CONF_FULL, huge_pages_when_they_can_be_had,
           "VipxAllocMem takes huge pages when the system gives them to shared memory"),
    CONF_N("2.3", CONF_EARLY, registering_100000_times, "heap", 0,
           "100000 registrations leave memory map and contents as they were"),
    CONF_N("2.3", CONF_EARLY, registering_100000_times, "file", 1,
           "100000 registrations of a mapped file leave memory map and contents as they were"),
    CONF_T("2.1", CONF_EARLY, opening_and_closing_leaves_nothing,
           "opening and closing NICs leaves no mapping behind"),
    CONF_N("3.5", CONF_FUNCTIONAL, forked_child, "exits", 0, "a child that exits does no harm"),
    CONF_N("3.5", CONF_FUNCTIONAL, forked_child, "writes", 1,
           "a child that writes its memory does not change the parent's"),
    CONF_N("3.5", CONF_FUNCTIONAL, forked_child, "execs", 2, "a child that execs does no harm"),
    CONF_N("3.5", CONF_FUNCTIONAL, forked_child, "calls", 3,
           "the parent's handles are not valid in a child"),
};

CONF_MAIN(tests)

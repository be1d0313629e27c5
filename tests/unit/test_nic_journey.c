/*
 * The journey of one received packet: which files of vipd read its bytes, in order. The packet lies
 * in a page of its own without access. Each access raises a signal. The handler records the
 * instruction and allows the access. If a library function reads the packet, the handler lets the
 * function run to its end. Accesses to results (the decoded header) are not recorded.
 *
 * Only for x86-64, and not for builds with a sanitizer, which reads memory on its own.
 */
#include <signal.h>
#include <ucontext.h>

#include "unit/nic_rig.h"

#define PAGE        4096u
#define TOUCHES_MAX 4096
#define TRAP_FLAG   0x100

static uint8_t *page;
static bool armed;
static bool in_library;              /* a library (libc, ISA-L) reads the packet for its caller */
static uintptr_t touch[TOUCHES_MAX]; /* addresses of the instructions that access the page */
static unsigned touches;

#ifdef __x86_64__

extern const char __executable_start[], etext[];

static bool ours(uintptr_t at)
{
    return at >= (uintptr_t)__executable_start && at < (uintptr_t)etext;
}

static uintptr_t *pc(ucontext_t *context)
{
    return (uintptr_t *)&context->uc_mcontext.gregs[REG_RIP];
}

static void note(uintptr_t at)
{
    if (touches < TOUCHES_MAX && (!touches || touch[touches - 1] != at))
        touch[touches++] = at;
}

static void on_access(int signal, siginfo_t *info, void *ctx)
{
    ucontext_t *context = ctx;

    if ((uintptr_t)info->si_addr - (uintptr_t)page >= PAGE)
        abort();
    if (ours(*pc(context)))
        note(*pc(context));
    else
        in_library = true;
    (void)mprotect(page, PAGE, PROT_READ | PROT_WRITE);
    context->uc_mcontext.gregs[REG_EFL] |= TRAP_FLAG;
}

static void on_step(int signal, siginfo_t *info, void *ctx)
{
    ucontext_t *context = ctx;

    /* The access was in a function of a library: continue until this function returns. */
    if (in_library && !ours(*pc(context)))
        return;
    if (in_library)
        note(*pc(context) - 1);
    in_library = false;
    context->uc_mcontext.gregs[REG_EFL] &= ~TRAP_FLAG;
    (void)mprotect(page, PAGE, armed ? PROT_NONE : PROT_READ | PROT_WRITE);
}

/* Write the source file of the instruction at `at`, relative to the top of the project. For an
 * inlined function: the file of the function that contains it. */
static void file_of(uintptr_t at, char *ret, size_t bytes)
{
    char exe[256] = "", line[512], command[512];
    ssize_t len = readlink("/proc/self/exe", exe, sizeof(exe) - 1);
    FILE *out;

    assert_true(len > 0);
    snprintf(command, sizeof(command), "addr2line -i -e %s %#lx", exe,
             (unsigned long)(at - (uintptr_t)__executable_start));
    out = popen(command, "r");
    assert_non_null(out);
    ret[0] = 0;
    while (fgets(line, sizeof(line), out)) {
        const char *top = strstr(line, VIP_SOURCE_DIR "/");

        line[strcspn(line, ":\n")] = 0;
        snprintf(ret, bytes, "%s", top ? top + strlen(VIP_SOURCE_DIR "/") : line);
    }
    assert_int_equal(pclose(out), 0);
}

static void watch(bool on)
{
    armed = on;
    assert_int_equal(mprotect(page, PAGE, on ? PROT_NONE : PROT_READ | PROT_WRITE), 0);
}

/* Receive like rig_recv, but put the bytes of the packet into the watched page. */
static unsigned watched_recv(struct link *link, struct link_rx *packets, unsigned count,
                             uint64_t now_ns)
{
    unsigned n = rig_recv(link, packets, armed ? 1 : count, now_ns);

    if (!armed || !n)
        return n;
    watch(false);
    memcpy(page, packets->bytes, packets->len);
    packets->bytes = page;
    watch(true);
    return n;
}

/* Returns the files of all accesses in order, "a b c". Accesses in a row by one file count once. */
static const char *journey(void)
{
    static char ret[2048];
    char before[256] = "", file[256];

    ret[0] = 0;
    for (unsigned i = 0; i < touches; i++) {
        file_of(touch[i], file, sizeof(file));
        if (strcmp(file, before) != 0)
            snprintf(ret + strlen(ret), sizeof(ret) - strlen(ret), "%s%s", *ret ? " " : "", file);
        snprintf(before, sizeof(before), "%s", file);
    }
    return ret;
}

static void watch_begin(void)
{
    struct sigaction access = {.sa_sigaction = on_access, .sa_flags = SA_SIGINFO};
    struct sigaction step = {.sa_sigaction = on_step, .sa_flags = SA_SIGINFO};

    if (!page)
        page = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(page != MAP_FAILED);
    assert_int_equal(sigaction(SIGSEGV, &access, NULL), 0);
    assert_int_equal(sigaction(SIGTRAP, &step, NULL), 0);
    touches = 0;
}

/* The handlers record an access by this file, and a copy that libc makes for this file. */
static void test_watch(void **state)
{
    volatile uint8_t *bytes;
    char copy[100];

    watch_begin();
    bytes = page;
    watch(true);
    (void)bytes[7];
    assert_int_equal(touches, 1);
    memcpy(copy, page + PAGE / 2, sizeof(copy));
    watch(false);
    assert_true(touches > 1);
    assert_string_equal(journey(), "tests/unit/test_nic_journey.c");
}

/* vipd reads a message of one packet for the checksum, for header and frames, and for the copy. */
static void test_message(void **state)
{
    static struct link_class class;
    struct rig_app *a, *b;
    struct rig_mem from, to;
    uint16_t va, vb;
    struct vip_comp comp;

    class = rig_class;
    class.recv = watched_recv;
    a = rig_app(rig_nic(0));
    b = rig_app(rig_nic_class(1, &class));
    va = rig_vi(a, VIP_LVL_DELIVERY);
    vb = rig_vi(b, VIP_LVL_DELIVERY);
    from = rig_mem(a, 1000, REGISTRY_SHARED);
    to = rig_mem(b, 1000, REGISTRY_SHARED);
    rig_fill(from.at, 1000, 3);
    rig_connect(a, va, 0, b, vb, 1);
    rig_pass(RIG_SECOND / 10);

    rig_post_recv(b, vb, rig_seg(&to, 0, 1000));
    rig_post_send(a, va, rig_seg(&from, 0, 1000));
    rig_now += RIG_STEP_NS;
    nic_turn(rig_nics[0], rig_now);
    watch_begin();
    watch(true);
    nic_turn(rig_nics[1], rig_now);
    watch(false);
    assert_true(rig_done(b, vb, VIP_Q_RECV, &comp));
    assert_int_equal(comp.length, 1000);
    assert_memory_equal(to.at, from.at, 1000);
    assert_string_equal(journey(), "proto/wire.c proto/crc.c proto/wire.c vipd/nic/source.c");
    rig_mem_free(&from);
    rig_mem_free(&to);
}

#else

static void test_watch(void **state)
{
    print_message("skipped: instructions are watched one by one on x86-64 only\n");
    skip();
}

static void test_message(void **state)
{
    skip();
}

#endif

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(test_watch, rig_teardown),
        cmocka_unit_test_teardown(test_message, rig_teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

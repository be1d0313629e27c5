/*
 * Memory of users' files: files that are mapped, shared by sessions, left (not mapped), ended.
 */
#include "vipd/registry/taken.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#define MIB (1ul << 20)

struct file {
    int fd;
    struct stat st;
};

/* A file of 8 MiB without pages. */
static struct file file_new(void)
{
    struct file file = {.fd = memfd_create("test", MFD_CLOEXEC)};

    assert_true(file.fd >= 0 && ftruncate(file.fd, 8 * MIB) == 0 && fstat(file.fd, &file.st) == 0);
    return file;
}

static void fill(const struct file *file, unsigned long bytes)
{
    assert_int_equal(fallocate(file->fd, 0, 0, (off_t)bytes), 0);
}

static struct taken_file *get(struct taken *taken, uint32_t owner, const struct file *file)
{
    int fd = dup(file->fd);
    struct taken_file *got;
    struct stat now;

    assert_int_equal(fstat(fd, &now), 0);
    got = taken_get(taken, owner, &fd, file->st.st_dev, file->st.st_ino,
                    (unsigned long)now.st_blocks * TAKEN_BLOCK_BYTES);
    assert_non_null(got);
    if (fd >= 0)
        close(fd);
    return got;
}

static void test_a_file_counts_once_per_user(void **state)
{
    struct taken *taken = taken_new();
    struct file a = file_new(), b = file_new();
    struct taken_file *first, *second, *of_other, *of_b;

    (void)state;
    fill(&a, MIB);
    first = get(taken, 1, &a);
    second = get(taken, 1, &a);
    of_other = get(taken, 2, &a);
    of_b = get(taken, 1, &b);
    assert_ptr_equal(first, second);
    assert_int_equal(taken_by(taken, 1), MIB);
    assert_int_equal(taken_by(taken, 2), MIB);
    assert_int_equal(taken_by(taken, 3), 0);
    fill(&b, 2 * MIB);
    assert_int_equal(taken_by(taken, 1), MIB);
    taken_look(taken, 10);
    assert_int_equal(taken_by(taken, 1), 3 * MIB);
    assert_int_equal(taken_file_bytes(of_b), 2 * MIB);
    taken_put(taken, first);
    assert_int_equal(taken_by(taken, 1), 3 * MIB);
    taken_put(taken, second); /* the file has not grown while it was mapped, so taken forgets it */
    assert_int_equal(taken_by(taken, 1), 2 * MIB);
    assert_int_equal(taken_left(taken, 1), 0);
    taken_put(taken, of_other);
    taken_put(taken, of_b);
    close(a.fd);
    close(b.fd);
    taken_look(taken, 1);
    assert_int_equal(taken_by(taken, 1), 0);
    taken_free(taken);
}

/* Each call looks at a limited number of files, and a few calls look at all files. */
static void test_looks_are_bounded(void **state)
{
    struct taken *taken = taken_new();
    struct taken_file *got[10];
    struct file file[10];

    (void)state;
    for (unsigned i = 0; i < 10; i++) {
        file[i] = file_new();
        got[i] = get(taken, 7, &file[i]);
        fill(&file[i], MIB);
    }
    for (unsigned i = 0; i < 5; i++) {
        assert_int_equal(taken_by(taken, 7), 2 * i * MIB);
        taken_look(taken, 2);
    }
    assert_int_equal(taken_by(taken, 7), 10 * MIB);
    for (unsigned i = 0; i < 10; i++) {
        taken_put(taken, got[i]);
        close(file[i].fd);
    }
    taken_free(taken);
}

/* A file that grew while it was mapped counts until its last descriptor and mapping are gone. */
static void test_left_files_count_until_they_are_gone(void **state)
{
    struct taken *taken = taken_new();
    struct file file = file_new();
    struct taken_file *got = get(taken, 1, &file);
    void *map = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file.fd, 0);

    (void)state;
    assert_true(map != MAP_FAILED);
    fill(&file, 3 * MIB);
    taken_put(taken, got);
    assert_int_equal(taken_by(taken, 1), 3 * MIB);
    assert_int_equal(taken_left(taken, 1), 1);
    close(file.fd);
    taken_look(taken, 1);
    assert_int_equal(taken_by(taken, 1), 3 * MIB);
    munmap(map, 4096);
    taken_look(taken, 1);
    assert_int_equal(taken_by(taken, 1), 0);
    assert_int_equal(taken_left(taken, 1), 0);
    taken_free(taken);
}

/* A left file is registered again. It stays one file and counts, although it has not grown. */
static void test_a_left_file_comes_back(void **state)
{
    struct taken *taken = taken_new();
    struct file file = file_new();
    struct taken_file *got = get(taken, 1, &file);

    (void)state;
    fill(&file, 2 * MIB);
    taken_put(taken, got);
    got = get(taken, 1, &file);
    assert_int_equal(taken_left(taken, 1), 0);
    assert_int_equal(taken_by(taken, 1), 2 * MIB);
    taken_put(taken, got);
    assert_int_equal(taken_by(taken, 1), 2 * MIB);
    /* Pages that the program has freed do not count when it maps the file again. */
    assert_int_equal(fallocate(file.fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 2 * MIB), 0);
    got = get(taken, 1, &file);
    assert_int_equal(taken_by(taken, 1), 0);
    taken_put(taken, got);
    assert_int_equal(taken_left(taken, 1), 0);
    close(file.fd);
    taken_free(taken);
}

/* Two users have left a file. If one of them registers it again, it stays a left file of the other
 * user. When the file ends, it ends for both users. */
static void test_a_file_left_by_two_users(void **state)
{
    struct taken *taken = taken_new();
    struct file file = file_new();
    struct taken_file *one = get(taken, 1, &file), *two = get(taken, 2, &file);

    (void)state;
    fill(&file, MIB);
    taken_put(taken, one);
    taken_put(taken, two);
    for (uint32_t owner = 1; owner <= 2; owner++) {
        one = get(taken, owner, &file);
        assert_int_equal(taken_left(taken, owner), 0);
        assert_int_equal(taken_left(taken, 3 - owner), 1);
        taken_put(taken, one);
        assert_int_equal(taken_left(taken, owner), 1);
    }
    one = get(taken, 1, &file);
    fill(&file, 2 * MIB);
    taken_put(taken, one);
    close(file.fd);
    taken_look(taken, 1);
    for (uint32_t owner = 1; owner <= 2; owner++) {
        assert_int_equal(taken_by(taken, owner), 0);
        assert_int_equal(taken_left(taken, owner), 0);
    }
    taken_free(taken);
}

static unsigned setting(const char *name)
{
    char path[64];
    unsigned value;
    FILE *file;

    snprintf(path, sizeof(path), "/proc/sys/fs/inotify/%s", name);
    file = fopen(path, "re");
    assert_non_null(file);
    assert_int_equal(fscanf(file, "%u", &value), 1);
    fclose(file);
    return value;
}

/* More files end at once than the kernel queues events. A file that has not ended still counts. */
static void test_lost_events(void **state)
{
    enum { FILES_MAX = 50000 };
    static void *map[FILES_MAX];
    struct taken *taken = taken_new();
    struct file kept = file_new();
    struct taken_file *got = get(taken, 2, &kept);
    unsigned files = setting("max_queued_events") / 2 + 100; /* the end of a file is two events */
    unsigned most = setting("max_user_watches") / 2;
    struct rlimit was, none;

    (void)state;
    if (files > (most < FILES_MAX ? most : FILES_MAX)) {
        print_message("the limits of this machine let no event be lost\n");
        skip();
    }
    fill(&kept, 3 * MIB);
    taken_put(taken, got);
    for (unsigned i = 0; i < files; i++) {
        struct file file = file_new();

        map[i] = mmap(NULL, 4096, PROT_READ, MAP_SHARED, file.fd, 0);
        assert_true(map[i] != MAP_FAILED);
        got = get(taken, 1, &file);
        fill(&file, 4096);
        taken_put(taken, got);
        close(file.fd);
    }
    assert_int_equal(taken_left(taken, 1), files);
    munmap(map[0], 4096);
    taken_look(taken, 1);
    assert_int_equal(taken_left(taken, 1), files - 1);
    for (unsigned i = 1; i < files; i++)
        munmap(map[i], 4096);
    /* vipd has no free descriptor to open the list of watches: it forgets no file meanwhile. */
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &was), 0);
    none = (struct rlimit){.rlim_cur = 3, .rlim_max = was.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
    taken_look(taken, 1);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &was), 0);
    assert_int_equal(taken_by(taken, 2), 3 * MIB);
    taken_look(taken, 1);
    assert_int_equal(taken_left(taken, 1), 0);
    assert_int_equal(taken_by(taken, 1), 0);
    assert_int_equal(taken_left(taken, 2), 1);
    assert_int_equal(taken_by(taken, 2), 3 * MIB);
    close(kept.fd);
    taken_look(taken, 1);
    assert_int_equal(taken_by(taken, 2), 0);
    taken_free(taken);
}

/* Freeing `taken` with left files frees everything. Also, all functions accept NULL. */
static void test_end_with_left_files(void **state)
{
    struct taken *taken = taken_new();
    struct file file = file_new();

    (void)state;
    for (uint32_t owner = 1; owner < 4; owner++) {
        struct taken_file *got = get(taken, owner, &file);

        fill(&file, owner * MIB);
        taken_put(taken, got);
        assert_int_equal(taken_left(taken, owner), 1);
    }
    taken_free(taken);
    close(file.fd);
    assert_null(taken_get(NULL, 1, &(int){0}, 0, 1, 0));
    taken_put(NULL, NULL);
    taken_look(NULL, 1);
    assert_int_equal(taken_by(NULL, 1), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_file_counts_once_per_user),
        cmocka_unit_test(test_looks_are_bounded),
        cmocka_unit_test(test_left_files_count_until_they_are_gone),
        cmocka_unit_test(test_a_left_file_comes_back),
        cmocka_unit_test(test_a_file_left_by_two_users),
        cmocka_unit_test(test_lost_events),
        cmocka_unit_test(test_end_with_left_files),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

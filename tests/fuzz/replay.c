/*
 * Runs a fuzz target once for each input of its corpus, for ctest. With -DFUZZ_LIBFUZZER this file
 * has the entry points of libFuzzer instead.
 */
#include "fuzz/fuzz.h"
#include "fuzz/hex.h"

#ifdef FUZZ_LIBFUZZER

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len);

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    setenv("CMOCKA_TEST_ABORT", "1", 1); /* failed cmocka checks of tests/unit must abort */
    if (fuzz_begin)
        fuzz_begin();
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
    fuzz_one(bytes, len);
    return 0;
}

#else

static void run(void *ctx, const uint8_t *bytes, size_t len)
{
    fuzz_one(bytes, len);
}

/* Run a binary file with one input. libFuzzer writes such a file when it finds a bug. */
static int run_raw(const char *path)
{
    FILE *file = fopen(path, "rb");
    uint8_t *bytes = NULL;
    long len = -1;

    if (file && fseek(file, 0, SEEK_END) == 0)
        len = ftell(file);
    if (len >= 0) {
        rewind(file);
        bytes = malloc((size_t)len + 1);
        len = (long)fread(bytes, 1, (size_t)len, file);
        bytes = realloc(bytes, (size_t)len ? (size_t)len : 1);
        fuzz_one(bytes, (size_t)len);
    }
    free(bytes);
    if (file)
        fclose(file);
    return len < 0 ? -1 : 0;
}

int main(int argc, char **argv)
{
    long total = 0;

    setenv("CMOCKA_TEST_ABORT", "1", 1);
    if (fuzz_begin)
        fuzz_begin();
    for (int i = 1; i < argc; i++) {
        const char *dot = strrchr(argv[i], '.');
        long count;

        if (dot && strcmp(dot, ".hex") == 0)
            count = hex_each(argv[i], run, NULL);
        else
            count = run_raw(argv[i]) < 0 ? -1 : 1;
        if (count < 0) {
            fprintf(stderr, "%s: cannot be read\n", argv[i]);
            return 1;
        }
        total += count;
    }
    printf("%ld inputs\n", total);
    return total > 0 ? 0 : 1;
}

#endif

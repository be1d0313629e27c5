/*
 * Converts between libFuzzer's folders (one file per input) and the corpora of tests/fuzz/corpus:
 *
 *   fuzz_hex unpack FILE.hex... DIR     write each input to a file of its own
 *   fuzz_hex pack DIR BYTES             print a corpus of at most BYTES bytes, small inputs first
 */
#include "fuzz/hex.h"

#include <dirent.h>

struct input {
    uint8_t *bytes;
    size_t len;
};

struct folder {
    const char *path;
    unsigned number;
};

static void write_one(void *ctx, const uint8_t *bytes, size_t len)
{
    struct folder *folder = ctx;
    char path[4096];
    FILE *file;

    snprintf(path, sizeof(path), "%s/seed-%05u", folder->path, folder->number++);
    file = fopen(path, "wb");
    if (!file || fwrite(bytes, 1, len, file) != len || fclose(file) != 0) {
        fprintf(stderr, "cannot write %s\n", path);
        exit(1);
    }
}

static int smaller(const void *a, const void *b)
{
    const struct input *x = a, *y = b;
    size_t common = x->len < y->len ? x->len : y->len;

    if (x->len != y->len)
        return x->len < y->len ? -1 : 1;
    return common ? memcmp(x->bytes, y->bytes, common) : 0;
}

static struct input read_one(const char *folder, const char *name)
{
    struct input input = {.bytes = malloc(1 << 20)};
    char path[4096];
    FILE *file;

    snprintf(path, sizeof(path), "%s/%s", folder, name);
    file = fopen(path, "rb");
    if (file) {
        input.len = fread(input.bytes, 1, 1 << 20, file);
        fclose(file);
    }
    input.bytes = realloc(input.bytes, input.len ? input.len : 1);
    return input;
}

static int pack(const char *folder, size_t room)
{
    struct input *inputs = NULL;
    size_t count = 0;
    DIR *dir = opendir(folder);

    if (!dir) {
        fprintf(stderr, "cannot open %s\n", folder);
        return 1;
    }
    for (struct dirent *entry; (entry = readdir(dir));) {
        if (entry->d_name[0] == '.')
            continue;
        inputs = realloc(inputs, (count + 1) * sizeof(*inputs));
        inputs[count++] = read_one(folder, entry->d_name);
    }
    closedir(dir);
    if (count)
        qsort(inputs, count, sizeof(*inputs), smaller);
    for (size_t i = 0; i < count; i++) {
        if (inputs[i].len && 2 * inputs[i].len + 1 <= room) {
            for (size_t k = 0; k < inputs[i].len; k++)
                printf("%02x", inputs[i].bytes[k]);
            putchar('\n');
            room -= 2 * inputs[i].len + 1;
        }
        free(inputs[i].bytes);
    }
    free(inputs);
    return 0;
}

int main(int argc, char **argv)
{
    if (argc >= 4 && strcmp(argv[1], "unpack") == 0) {
        struct folder folder = {.path = argv[argc - 1]};

        for (int i = 2; i < argc - 1; i++)
            if (hex_each(argv[i], write_one, &folder) < 0)
                return 1;
        return 0;
    }
    if (argc == 4 && strcmp(argv[1], "pack") == 0)
        return pack(argv[2], strtoul(argv[3], NULL, 10));
    fprintf(stderr, "usage: %s unpack FILE.hex... DIR | pack DIR BYTES\n", argv[0]);
    return 2;
}

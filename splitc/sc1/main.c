/*
 * sc1: translates preprocessed Split-C to C. Run by splitcc.
 *
 *   sc1 [-w] [-e] [-o OUTPUT] [INPUT]
 *
 * -w: no warnings; -e: warnings are errors. INPUT is the output of "gcc -E" (default: standard
 * input). Exit status 0: translated; 1: errors in the program, reported on standard error; 2: wrong
 * arguments, or a file cannot be read or written.
 */
#include "splitc/sc1/unit.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Read a whole file. Returns NULL after an error; errno has the reason. */
static char *read_all(FILE *f, size_t *ret_len)
{
    size_t cap = 1 << 16, len = 0, got;
    char *data = malloc(cap);

    while (data && (got = fread(data + len, 1, cap - len, f)) > 0) {
        len += got;
        if (len == cap) {
            char *more = realloc(data, cap * 2);

            if (!more)
                free(data);
            data = more;
            cap *= 2;
        }
    }
    if (data && ferror(f)) {
        free(data);
        data = NULL;
    }
    *ret_len = len;
    return data;
}

/* Remove an incomplete output file, as gcc does. Does not remove a device or a pipe. */
static void remove_output(const char *name)
{
    struct stat about;

    if (lstat(name, &about) == 0 && S_ISREG(about.st_mode))
        unlink(name);
}

int main(int argc, char **argv)
{
    const char *output = NULL, *input = NULL;
    unsigned options = 0;
    FILE *in = stdin, *out = stdout;
    char *data;
    size_t len;
    int option, result;

    while ((option = getopt(argc, argv, "weo:")) != -1) {
        if (option == 'w')
            options |= SC1_NO_WARNINGS;
        else if (option == 'e')
            options |= SC1_WARNINGS_ARE_ERRORS;
        else if (option == 'o')
            output = optarg;
        else
            return 2;
    }
    if (optind < argc - 1) {
        fprintf(stderr, "usage: sc1 [-w] [-e] [-o OUTPUT] [INPUT]\n");
        return 2;
    }
    if (optind < argc)
        input = argv[optind];
    if (input && !(in = fopen(input, "r"))) {
        fprintf(stderr, "sc1: cannot read %s: %s\n", input, strerror(errno));
        return 2;
    }
    data = read_all(in, &len);
    if (!data) {
        fprintf(stderr, "sc1: cannot read %s: %s\n", input ? input : "input", strerror(errno));
        return 2;
    }
    if (output && !(out = fopen(output, "w"))) {
        fprintf(stderr, "sc1: cannot write %s: %s\n", output, strerror(errno));
        free(data);
        return 2;
    }
    result = sc1_translate(data, len, out, stderr, options);
    if (fflush(out) || ferror(out)) {
        fprintf(stderr, "sc1: cannot write %s: %s\n", output ? output : "output", strerror(errno));
        result = 2;
    }
    if (output) {
        fclose(out);
        if (result)
            remove_output(output);
    }
    if (input)
        fclose(in);
    free(data);
    return result;
}

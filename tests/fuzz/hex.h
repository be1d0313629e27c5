/*
 * Corpora: text files with one input per line in hexadecimal, so that a few files hold thousands of
 * inputs. '#' starts a comment.
 */
#ifndef TESTS_FUZZ_HEX_H
#define TESTS_FUZZ_HEX_H

#include <ctype.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Call take() for each input of the file. Each input is in a block of its own, freed after the
 * call. Returns the number of inputs, or -1 with a message on stderr if the file is no corpus. */
static inline long hex_each(const char *path,
                            void (*take)(void *ctx, const uint8_t *bytes, size_t len), void *ctx)
{
    FILE *file = fopen(path, "r");
    char *line = NULL;
    size_t room = 0;
    long count = 0;

    if (!file) {
        fprintf(stderr, "cannot open %s\n", path);
        return -1;
    }
    while (getline(&line, &room, file) > 0) {
        size_t digits, len;
        uint8_t *bytes;

        line[strcspn(line, "#\r\n")] = '\0';
        digits = strlen(line);
        if (digits == 0)
            continue;
        len = digits / 2;
        bytes = malloc(len ? len : 1);
        for (size_t i = 0; i < len; i++) {
            char two[3] = {line[2 * i], line[2 * i + 1], 0};

            if (!isxdigit((unsigned char)two[0]) || !isxdigit((unsigned char)two[1])) {
                fprintf(stderr, "%s: not hexadecimal: %s\n", path, line);
                free(bytes);
                free(line);
                fclose(file);
                return -1;
            }
            bytes[i] = (uint8_t)strtoul(two, NULL, 16);
        }
        take(ctx, bytes, len);
        free(bytes);
        count++;
    }
    free(line);
    fclose(file);
    return count;
}

#endif

/*
 * Lines of the PMI-1 wire protocol: words "key=value" with blanks between them, then a newline.
 * Both ends use these functions: a process of a job (pmi.c) and amrun.
 */
#include "job/internal.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

int pmi_next_line(struct pmi_input *input, char *line)
{
    char *end = memchr(input->bytes, '\n', input->used);
    size_t len;

    if (end == NULL)
        return input->used == sizeof(input->bytes) ? -EPROTO : 0;
    len = (size_t)(end - input->bytes);
    memcpy(line, input->bytes, len);
    line[len] = '\0';
    input->used -= len + 1;
    memmove(input->bytes, end + 1, input->used);
    return 1;
}

int pmi_receive(struct pmi_input *input, int fd)
{
    ssize_t got;

    do
        got = read(fd, input->bytes + input->used, sizeof(input->bytes) - input->used);
    while (got < 0 && errno == EINTR);
    if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
        return 0;
    if (got <= 0)
        return -ECONNRESET;
    input->used += (size_t)got;
    return 1;
}

bool pmi_word(const char *line, const char *key, char *ret, size_t room)
{
    size_t key_len = strlen(key), len;
    const char *at = line;

    for (;;) {
        at += strspn(at, " ");
        if (*at == '\0')
            return false;
        if (strncmp(at, key, key_len) == 0 && at[key_len] == '=')
            break;
        at += strcspn(at, " ");
    }
    at += key_len + 1;
    len = strcmp(key, "value") == 0 ? strlen(at) : strcspn(at, " ");
    if (len >= room)
        return false;
    memcpy(ret, at, len);
    ret[len] = '\0';
    return true;
}

int pmi_send(int fd, const char *format, ...)
{
    char line[PMI_LINE_BYTES];
    size_t sent = 0;
    va_list args;
    int len;

    va_start(args, format);
    len = vsnprintf(line, sizeof(line), format, args);
    va_end(args);
    if (len < 0 || (size_t)len >= sizeof(line))
        return -EMSGSIZE;
    while (sent < (size_t)len) {
        ssize_t n = send(fd, line + sent, (size_t)len - sent, MSG_NOSIGNAL);

        if (n < 0 && errno == ENOTSOCK)
            n = write(fd, line + sent, (size_t)len - sent);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return -ECONNRESET;
        sent += (size_t)n;
    }
    return 0;
}

int pmi_send_abort(int fd, int code, const char *why)
{
    size_t len = strcspn(why, "\n");

    if (len >= PMI_REASON_BYTES)
        len = PMI_REASON_BYTES - 1;
    return pmi_send(fd, "cmd=abort exitcode=%d value=%.*s\n", code, (int)len, why);
}

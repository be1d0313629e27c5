/* Lines of a daemon's log; see line.h. */
#include "proto/line.h"

#include <errno.h>
#include <poll.h>
#include <unistd.h>

void vip_line_write(const char *line, size_t bytes)
{
    struct pollfd out = {.fd = STDERR_FILENO, .events = POLLOUT};
    int saved_errno = errno;

    /* If a pipe is ready for output, it has room for a whole line. */
    if (poll(&out, 1, 0) == 1 && (out.revents & POLLOUT) && write(STDERR_FILENO, line, bytes) < 0) {
    }
    errno = saved_errno;
}

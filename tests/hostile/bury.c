/*
 * Sends vipd many descriptors, which the undertaker must close. But the undertaker waits at a gate
 * (tests/lib/slow_unmap.c, bury.sh). vipd must stop reading from this program, and resume later.
 *
 *   bury DIR      The file DIR/begun exists when the undertaker waits at the gate. bury makes
 *                 DIR/held when vipd no longer reads. bury ends when vipd has answered all
 *                 requests, or when vipd has ended.
 */
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/hostile/raw.h"

#define REQUESTS 400u
#define FULL     240u /* vipd answers at least 240 requests: 256 descriptors may wait */
#define QUIET_MS 2000

/* Send a file without seals. vipd refuses to register it, and must close the file's descriptor. */
static bool ask(int sock)
{
    Vip__RegisterMemRequest mem = VIP__REGISTER_MEM_REQUEST__INIT;
    Vip__MemAttributes attributes = VIP__MEM_ATTRIBUTES__INIT;
    Vip__Request request = VIP__REQUEST__INIT;
    int fd = memfd_create("bury", MFD_CLOEXEC), r;

    if (fd < 0 || ftruncate(fd, 4096) < 0) {
        perror("memfd");
        exit(1);
    }
    mem.has_address = mem.has_bytes = mem.has_kind = mem.has_offset = true;
    mem.address = 0x10000;
    mem.bytes = 4096;
    mem.kind = VIP__MEM_KIND__MEM_SHARED;
    mem.attributes = &attributes;
    request.body_case = VIP__REQUEST__BODY_REGISTER_MEM;
    request.register_mem = &mem;
    r = vip_control_send(sock, &request.base, &fd, 1, MSG_DONTWAIT);
    close(fd);
    return r == 0;
}

/* Send a PlaceDone with a descriptor. This breaks the rules, so vipd must end the session. */
static bool say_wrong(int events)
{
    Vip__PlaceDone done = VIP__PLACE_DONE__INIT;
    int fd = open("/dev/null", O_RDONLY | O_CLOEXEC), r;

    done.has_number = true;
    r = vip_control_send(events, &done.base, &fd, 1, MSG_DONTWAIT);
    close(fd);
    return r == 0;
}

/* True if vipd ends the session within wait_ms; -1 waits without a limit. */
static bool hung_up(int sock, int wait_ms)
{
    struct pollfd at = {.fd = sock, .events = POLLRDHUP};

    return poll(&at, 1, wait_ms) > 0;
}

static void make(const char *dir, const char *name)
{
    char path[512];

    snprintf(path, sizeof(path), "%s/%s", dir, name);
    close(open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
}

static void await(const char *dir, const char *name)
{
    char path[512];

    snprintf(path, sizeof(path), "%s/%s", dir, name);
    while (access(path, F_OK) < 0)
        usleep(1000);
}

int main(int argc, char **argv)
{
    struct raw first, dies, says, asks;
    unsigned sent = 0, answered = 0, held = 0;
    char buf[4096];

    if (argc != 2 || raw_open(&first) < 0 || raw_open(&dies) < 0 || raw_open(&says) < 0 ||
        raw_open(&asks) < 0) {
        printf("FAILED: no session\n");
        return 1;
    }
    raw_close(&first);
    await(argv[1], "begun");
    while (answered < REQUESTS) {
        struct pollfd at = {.fd = asks.sock, .events = POLLIN};

        while (sent < REQUESTS && ask(asks.sock))
            sent++;
        if (poll(&at, 1, answered < FULL || held ? -1 : QUIET_MS) == 0) {
            held = answered;
            raw_close(&dies); /* the sockets of this session wait for the undertaker, too */
            /* vipd must not even read a message that ends a session: the end adds descriptors. */
            if (!say_wrong(says.events) || hung_up(says.events, QUIET_MS)) {
                printf("FAILED: vipd read the event socket of a user who is held back\n");
                return 1;
            }
            make(argv[1], "held");
            continue;
        }
        if (recv(asks.sock, buf, sizeof(buf), 0) <= 0) {
            printf("vipd has ended after %u answers, held at %u\n", answered, held);
            return held ? 2 : 1;
        }
        answered++;
    }
    printf("%u requests answered, held at %u\n", answered, held);
    (void)hung_up(says.events, -1);
    if (held == 0)
        printf("FAILED: vipd took all descriptors\n");
    return held == 0;
}

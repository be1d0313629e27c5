/* What the kernel tells about UDP sockets, by their addresses (vipd/nic/sock_find.h). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include <arpa/inet.h>
#include <errno.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "vipd/nic/sock_find.h"

static const uint8_t peer_name[SOCK_NAME_BYTES] = {127, 0, 0, 9, 0x30, 0x39};
static const uint8_t other_name[SOCK_NAME_BYTES] = {127, 0, 0, 9, 0x30, 0x3a};

/* A socket at this address and a free port. */
static int sock_at(const char *address, uint8_t ret_name[SOCK_NAME_BYTES])
{
    int sock = socket(AF_INET, SOCK_DGRAM, 0);
    struct sockaddr_in name = {.sin_family = AF_INET};
    socklen_t len = sizeof(name);

    (void)inet_pton(AF_INET, address, &name.sin_addr);
    assert_int_equal(bind(sock, (struct sockaddr *)&name, sizeof(name)), 0);
    assert_int_equal(getsockname(sock, (struct sockaddr *)&name, &len), 0);
    memcpy(ret_name, &name.sin_addr, 4);
    memcpy(ret_name + 4, &name.sin_port, 2);
    return sock;
}

static void connect_to(int sock, const uint8_t to[SOCK_NAME_BYTES])
{
    struct sockaddr_in name = {.sin_family = AF_INET};

    memcpy(&name.sin_addr, to, 4);
    memcpy(&name.sin_port, to + 4, 2);
    assert_int_equal(connect(sock, (struct sockaddr *)&name, sizeof(name)), 0);
}

static ino_t inode_of(int sock)
{
    struct stat st;

    assert_int_equal(fstat(sock, &st), 0);
    return st.st_ino;
}

static void test_one_of_many(void **state)
{
    static const uint8_t no_peer[SOCK_NAME_BYTES];
    int kernel = sock_find_open(), sock[16];
    uint8_t name[16][SOCK_NAME_BYTES];
    struct sock_found found;

    if (kernel == -EOPNOTSUPP) {
        print_message("this kernel has no udp_diag\n");
        skip();
    }
    assert_true(kernel >= 0);
    for (unsigned i = 0; i < 16; i++)
        sock[i] = sock_at("127.0.0.8", name[i]);
    for (unsigned i = 0; i < 16; i += 2)
        connect_to(sock[i], peer_name);
    for (unsigned i = 0; i < 16; i++) {
        assert_int_equal(sock_find(kernel, name[i], peer_name, &found), 0);
        assert_true(found.inode == inode_of(sock[i]));
        assert_memory_equal(found.own, name[i], SOCK_NAME_BYTES);
        assert_memory_equal(found.peer, i % 2 ? no_peer : peer_name, SOCK_NAME_BYTES);
        /* A connected socket gets packets of its peer only. */
        assert_int_equal(sock_find(kernel, name[i], other_name, &found), i % 2 ? 0 : -ENOENT);
        close(sock[i]);
        assert_int_equal(sock_find(kernel, name[i], peer_name, &found), -ENOENT);
    }
    close(kernel);
    (void)state;
}

/* A socket without an address of its own gets packets to any address: it must say so. */
static void test_any_address(void **state)
{
    int kernel = sock_find_open(), sock;
    uint8_t name[SOCK_NAME_BYTES], asked[SOCK_NAME_BYTES] = {127, 0, 0, 8};
    struct sock_found found;

    if (kernel == -EOPNOTSUPP)
        skip();
    sock = sock_at("0.0.0.0", name);
    memcpy(asked + 4, name + 4, 2);
    assert_int_equal(sock_find(kernel, asked, peer_name, &found), 0);
    assert_true(found.inode == inode_of(sock));
    assert_memory_equal(found.own, name, SOCK_NAME_BYTES);
    close(sock);
    close(kernel);
    (void)state;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_of_many),
        cmocka_unit_test(test_any_address),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

/*
 * A program that claims its session with the segment of an earlier vipd. Tests can make such
 * segments, because they run as vipd's user. A test includes this file instead of vipd_app.h.
 */
#ifndef TESTS_UNIT_VIPD_CLAIM_H
#define TESTS_UNIT_VIPD_CLAIM_H

#define DAEMON_CONFIG(config) ((config)->outlive_ns = 1000000000)

#include <sys/stat.h>

#include "unit/vipd_app.h"

#define SEALS_OUTLIVE (F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW)

/* Start time of this process, from the fields after the last bracket of its stat file. */
static inline uint64_t own_start(void)
{
    char text[1024] = "";
    FILE *file = fopen("/proc/self/stat", "re");
    unsigned long long start = 0;

    assert_non_null(file);
    assert_true(fread(text, 1, sizeof(text) - 1, file) > 0);
    fclose(file);
    assert_int_equal(
        sscanf(strrchr(text, ')') + 1,
               " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %*d "
               "%*d %llu",
               &start),
        1);
    return start;
}

static inline struct vip_vipd_head good_head(void)
{
    return (struct vip_vipd_head){.magic = VIP_SHM_VIPD_MAGIC,
                                  .abi = VIP_SHM_ABI,
                                  .bytes = VIP_VIPD_BYTES,
                                  .epoch = 7,
                                  .start_ticks = own_start(),
                                  .pid = (uint32_t)getpid(),
                                  .uid = geteuid()};
}

static inline int make_segment(const struct vip_vipd_head *head, mode_t mode, int seals)
{
    int fd = make_memfd(VIP_VIPD_BYTES, 0);

    assert_int_equal(pwrite(fd, head, sizeof(*head), 0), sizeof(*head));
    assert_int_equal(fchmod(fd, mode), 0);
    assert_int_equal(fcntl(fd, F_ADD_SEALS, seals), 0);
    return fd;
}

/* Offer the segment to vipd. Returns the connection; *ret: the reply; *ret_fds: its descriptors. */
static inline int offer(int segment, Vip__Reply **ret, struct vip_fds *ret_fds)
{
    Vip__Claim claim = VIP__CLAIM__INIT;
    Vip__OpenRequest open = VIP__OPEN_REQUEST__INIT;
    Vip__Request request = VIP__REQUEST__INIT;
    int fds[3] = {make_app_segment(VIP_APP_BYTES, APP_SEALS, VIP_SHM_APP_MAGIC), make_arena(),
                  segment};
    int sock = connect_daemon();

    open.has_abi = true;
    open.abi = VIP_SHM_ABI;
    open.device = (char *)"vip0";
    open.claim = &claim;
    request.body_case = VIP__REQUEST__BODY_OPEN;
    request.open = &open;
    assert_int_equal(vip_control_send(sock, &request.base, fds, 3, 0), 0);
    close(fds[0]);
    close(fds[1]);
    *ret = receive(sock, ret_fds);
    assert_int_equal(ret_fds->count, (*ret)->code == VIP_RC_SUCCESS ? 3 : 0);
    return sock;
}

#endif

/*
 * A daemon in a child process, and raw control messages to it, for the tests of vipd's control
 * socket. The daemon is vipd without the command line of main.c, with one NIC on 127.0.0.1. After
 * SIGTERM it must end with exit code 0, under the sanitizers, too. A test that needs other settings
 * defines DAEMON_CONFIG(config) before it includes this file.
 */
#ifndef TESTS_UNIT_VIPD_DAEMON_H
#define TESTS_UNIT_VIPD_DAEMON_H

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "proto/control.h"
#include "proto/control.pb-c.h"
#include "proto/ring.h"
#include "proto/shm.h"
#include "proto/status.h"
#include "vipd/client/client.h"
#include "vipd/host.h"
#include "vipd/runtime.h"
#include "vipd/start.h"

#ifndef F_SEAL_FUTURE_WRITE
#define F_SEAL_FUTURE_WRITE 0x0010
#endif

#define APP_SEALS    (F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_FUTURE_WRITE)
#define SESSIONS_MAX 3 /* sessions_per_uid of the daemon under test */
#define EVENTS_MAX   16
#define VIS_MAX      4200

static char dir[] = "/tmp/vip-control-XXXXXX";
static char socket_path[64];
static pid_t daemon_pid;

/* ---- the daemon -------------------------------------------------------------------------- */

static inline uint16_t free_port(void)
{
    struct sockaddr_in addr = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof(addr);
    int sock = socket(AF_INET, SOCK_DGRAM, 0);

    assert_int_equal(bind(sock, (struct sockaddr *)&addr, len), 0);
    assert_int_equal(getsockname(sock, (struct sockaddr *)&addr, &len), 0);
    close(sock);
    return ntohs(addr.sin_port);
}

static inline int run_daemon(uint16_t port)
{
    static struct runtime runtime;
    static struct vipd vipd;
    struct client_listener *listener;
    struct vipd_config *config = vipd_config_default();
    char err[512] = "";

    snprintf(config->nics[0].keys.address, sizeof(config->nics[0].keys.address), "127.0.0.1");
    config->nics[0].keys.port = port;
    config->sessions_per_uid = SESSIONS_MAX;
    config->events_queued = EVENTS_MAX;
    config->register_bytes = 1 << 20;
    config->vis_per_uid = VIS_MAX;
#ifdef DAEMON_CONFIG
    DAEMON_CONFIG(config);
#endif
    vipd_log_set_level(VIPD_LOG_ERROR);
    if (runtime_open(dir, geteuid(), &runtime, err, sizeof(err)) < 0 ||
        vipd_start(config, dir, NULL, &vipd, err, sizeof(err)) < 0 ||
        runtime_listen(&runtime, 0600, err, sizeof(err)) < 0 ||
        client_listen(&vipd, runtime.sock, &listener) < 0) {
        fprintf(stderr, "daemon: %s\n", err);
        return 1;
    }
    if (vipd_host_run(vipd.loop) < 0)
        return 1;
    client_listener_free(listener);
    vipd_stop(&vipd);
    runtime_close(&runtime);
    vipd_config_free(config);
    return 0;
}

static inline int start_daemon(void **state)
{
    uint16_t port = free_port();
    int sock = -1;

    (void)state;
    assert_non_null(mkdtemp(dir));
    snprintf(socket_path, sizeof(socket_path), "%s/vipd.sock", dir);
    daemon_pid = fork();
    if (daemon_pid == 0)
        exit(run_daemon(port));
    /* Try until the daemon listens, or until its process has ended. */
    while (sock < 0 && waitpid(daemon_pid, NULL, WNOHANG) == 0) {
        sock = vip_control_connect(socket_path);
        if (sock < 0)
            usleep(1000);
    }
    assert_true(sock >= 0);
    close(sock);
    return 0;
}

static inline int stop_daemon(void **state)
{
    char path[64];
    int status;

    (void)state;
    kill(daemon_pid, SIGTERM);
    assert_int_equal(waitpid(daemon_pid, &status, 0), daemon_pid);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
    assert_int_equal(access(socket_path, F_OK), -1);
    snprintf(path, sizeof(path), "%s/vipd.lock", dir);
    unlink(path);
    return rmdir(dir);
}

/* ---- messages ---------------------------------------------------------------------------- */

static inline int connect_daemon(void)
{
    int sock = vip_control_connect(socket_path);

    assert_true(sock >= 0);
    return sock;
}

static inline Vip__Reply *receive(int sock, struct vip_fds *fds)
{
    ProtobufCMessage *message;

    assert_int_equal(vip_control_recv(sock, &vip__reply__descriptor, 0, &message, fds), 0);
    return (Vip__Reply *)message;
}

static inline Vip__Reply *ask(int sock, const Vip__Request *request, const int *send_fds,
                              unsigned count)
{
    struct vip_fds fds;
    Vip__Reply *reply;

    assert_int_equal(vip_control_send(sock, &request->base, send_fds, count, 0), 0);
    reply = receive(sock, &fds);
    assert_int_equal(fds.count, 0);
    return reply;
}

/* Send a request. Check the code of the reply, and that the reason contains `word` (NULL: any
 * reason). Return the reply's number. */
static inline uint32_t ask_code(int sock, const Vip__Request *request, enum vip_rc code,
                                const char *word)
{
    Vip__Reply *reply = ask(sock, request, NULL, 0);
    uint32_t number = reply->number;

    if (reply->code != code)
        fail_msg("code %u instead of %u: %s", reply->code, code, reply->reason);
    if (code == VIP_RC_SUCCESS)
        assert_null(reply->reason);
    else
        assert_non_null(reply->reason);
    if (word && !strstr(reply->reason, word))
        fail_msg("no '%s' in: %s", word, reply->reason);
    vip__reply__free_unpacked(reply, NULL);
    return number;
}

static inline void assert_closed(int sock)
{
    ProtobufCMessage *message;
    struct vip_fds fds;

    assert_int_equal(vip_control_recv(sock, &vip__reply__descriptor, 0, &message, &fds), -EPIPE);
    close(sock);
}

#endif

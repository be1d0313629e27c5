/* Asks a running vipd; see query.h. */
#include "tools/vipctl/query.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>

#include "proto/control.h"
#include "proto/status.h"

/* Largest number of pages of a view, ten times what vipd's limits allow. This number ends the loop
 * if a faulty vipd always sends another page. */
#define PAGES_MAX 100000

static double timeout_s = QUERY_TIMEOUT_S;

void query_set_timeout(double new_timeout_s)
{
    timeout_s = new_timeout_s;
}

static enum exit_code say_unreachable(const char *path, int error)
{
    switch (error) {
    case EACCES:
    case EPERM:
        fprintf(stderr, "vipctl: no permission to talk to vipd on %s\n", path);
        return EXIT_PERMISSION;
    case ENOENT:
    case ENOTDIR:
    case ECONNREFUSED:
        fprintf(stderr,
                "vipctl: no vipd on %s (%s)\n"
                "Start one:  vipd --runtime-dir DIR   and point VIPD_RUNTIME_DIR to the same DIR,\n"
                "or as the system's service:  systemctl start vipd\n",
                path, error == ECONNREFUSED ? "no process listens" : strerror(error));
        return EXIT_NO_VIPD;
    default:
        fprintf(stderr, "vipctl: cannot talk to vipd on %s: %s\n", path, strerror(error));
        return EXIT_FAILED;
    }
}

/* Set time limits on the socket: if vipd hangs, vipctl must not hang. */
static void limit_waits(int sock)
{
    struct timeval limit = {.tv_sec = (time_t)timeout_s};

    limit.tv_usec = (suseconds_t)((timeout_s - (double)limit.tv_sec) * 1e6);
    (void)setsockopt(sock, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
    (void)setsockopt(sock, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
}

bool query_try_connect(int *ret_sock)
{
    char path[sizeof(((struct sockaddr_un *)NULL)->sun_path)];
    int sock;

    if (vip_control_socket_path(path, sizeof(path)) < 0)
        return false;
    sock = vip_control_connect(path);
    if (sock < 0)
        return false;
    limit_waits(sock);
    *ret_sock = sock;
    return true;
}

enum exit_code query_connect(int *ret_sock)
{
    char path[sizeof(((struct sockaddr_un *)NULL)->sun_path)];
    int sock;

    if (vip_control_socket_path(path, sizeof(path)) < 0) {
        fprintf(stderr, "vipctl: the path in VIPD_RUNTIME_DIR is too long for a socket\n");
        return EXIT_USAGE;
    }
    sock = vip_control_connect(path);
    if (sock < 0)
        return say_unreachable(path, -sock);
    limit_waits(sock);
    *ret_sock = sock;
    return EXIT_OK;
}

static enum exit_code say_failed(int error)
{
    if (error == EAGAIN) {
        fprintf(stderr, "vipctl: vipd did not answer within %g s\n", timeout_s);
        return EXIT_TIMEOUT;
    }
    if (error == EPIPE || error == ECONNRESET)
        fprintf(stderr, "vipctl: vipd closed the connection\n");
    else if (error == EBADMSG)
        fprintf(stderr, "vipctl: vipd's answer makes no sense; is it of another version?\n");
    else
        fprintf(stderr, "vipctl: talking to vipd failed: %s\n", strerror(error));
    return EXIT_FAILED;
}

static enum exit_code say_refused(const Vip__Reply *reply)
{
    fprintf(stderr, "vipctl: vipd refuses: %s\n",
            reply->reason ? reply->reason : vip_rc_name((enum vip_rc)reply->code));
    switch (reply->has_refusal ? (int)reply->refusal : VIP__REFUSAL__REFUSAL_OTHER) {
    case VIP__REFUSAL__REFUSAL_DENIED:
        return EXIT_PERMISSION;
    case VIP__REFUSAL__REFUSAL_NO_SUCH:
        return EXIT_NO_OBJECT;
    default:
        return EXIT_FAILED;
    }
}

enum exit_code query_ask_fds(int sock, const Vip__Request *request, Vip__Reply **ret_reply,
                             struct vip_fds *ret_fds)
{
    ProtobufCMessage *message;
    int r;

    *ret_reply = NULL;
    r = vip_control_ask(sock, &request->base, NULL, 0, &vip__reply__descriptor, &message, ret_fds);
    if (r < 0)
        return say_failed(-r);
    *ret_reply = (Vip__Reply *)message;
    return (*ret_reply)->code == VIP_RC_SUCCESS ? EXIT_OK : say_refused(*ret_reply);
}

enum exit_code query_ask(int sock, const Vip__Request *request, Vip__Reply **ret_reply)
{
    struct vip_fds fds = VIP_FDS_NONE;
    enum exit_code code = query_ask_fds(sock, request, ret_reply, &fds);

    vip_fds_close(&fds);
    return code;
}

enum exit_code query_page(int sock, Vip__ShowRequest__What what, uint64_t cursor,
                          Vip__Reply **ret_reply)
{
    Vip__ShowRequest show = VIP__SHOW_REQUEST__INIT;
    Vip__Request request = VIP__REQUEST__INIT;
    enum exit_code code;

    show.has_what = true;
    show.what = what;
    show.has_cursor = true;
    show.cursor = cursor;
    request.body_case = VIP__REQUEST__BODY_SHOW;
    request.show = &show;
    code = query_ask(sock, &request, ret_reply);
    if (code == EXIT_OK && !(*ret_reply)->show)
        code = say_failed(EBADMSG);
    if (code != EXIT_OK && *ret_reply) {
        vip__reply__free_unpacked(*ret_reply, NULL);
        *ret_reply = NULL;
    }
    return code;
}

enum exit_code query_show(int sock, Vip__ShowRequest__What what, struct query_pages *ret)
{
    struct query_pages pages = {0};
    uint64_t cursor = 0;
    enum exit_code code;

    for (;;) {
        Vip__Reply **grown = reallocarray(pages.reply, pages.page_count + 1, sizeof(*grown));
        const Vip__ShowReply *show;

        if (!grown) {
            code = say_failed(ENOMEM);
            break;
        }
        pages.reply = grown;
        code = query_page(sock, what, cursor, &pages.reply[pages.page_count]);
        if (code != EXIT_OK)
            break;
        show = pages.reply[pages.page_count++]->show;
        /* The view of events always has a next page, for later events: stop at an empty page. */
        if (!show->has_next_cursor ||
            (what == VIP__SHOW_REQUEST__WHAT__EVENT && show->n_events == 0)) {
            *ret = pages;
            return EXIT_OK;
        }
        if (pages.page_count >= PAGES_MAX) {
            code = say_failed(EBADMSG);
            break;
        }
        cursor = show->next_cursor;
    }
    query_free(&pages);
    return code;
}

void query_free(struct query_pages *pages)
{
    for (size_t i = 0; i < pages->page_count; i++)
        protobuf_c_message_free_unpacked(&pages->reply[i]->base, NULL);
    free(pages->reply);
    *pages = (struct query_pages){0};
}

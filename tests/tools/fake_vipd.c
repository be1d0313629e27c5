/*
 * A vipd for vipctl's tests: answers Show requests with invented rows in two pages, or wrongly.
 * usage: fake_vipd SOCKET pages|refuse|garbage|gone|hang     runs until killed
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "proto/control.h"
#include "proto/control.pb-c.h"
#include "proto/status.h"

/* Make the row of one of two pages. vipctl must ask twice and print both rows. */
static void fill_vi(Vip__ViRow *row, uint64_t cursor)
{
    row->nic = (char *)"vip0";
    row->has_vi = true;
    row->vi = cursor == 0 ? 0 : 17;
    row->state = (char *)(cursor == 0 ? "VIP_STATE_CONNECTED" : "VIP_STATE_ERROR");
    row->level = (char *)"VIP_SERVICE_RELIABLE_DELIVERY";
    row->peer = cursor == 0 ? (char *)"127.0.0.2:4000" : NULL;
    row->has_tx_bytes = true;
    row->tx_bytes = cursor == 0 ? 1536 : 0;
    row->has_srtt_ns = cursor == 0;
    row->srtt_ns = 41234;
    row->has_session = true;
    row->session = 3;
    row->program = (char *)"evil\x1b[31m\"name\xff";
    row->error = cursor == 0 ? NULL : (char *)"the peer did not answer";
}

static void answer_page(int sock, const Vip__ShowRequest *request)
{
    Vip__Reply reply = VIP__REPLY__INIT;
    Vip__ShowReply show = VIP__SHOW_REPLY__INIT;
    Vip__ViRow vi = VIP__VI_ROW__INIT;
    Vip__NicRow nic = VIP__NIC_ROW__INIT;
    Vip__Summary summary = VIP__SUMMARY__INIT;
    Vip__ViRow *vis = &vi;
    Vip__NicRow *nics = &nic;

    reply.show = &show;
    if (request->what == VIP__SHOW_REQUEST__WHAT__VI) {
        fill_vi(&vi, request->cursor);
        show.n_vis = 1;
        show.vis = &vis;
        show.has_next_cursor = request->cursor == 0;
        show.next_cursor = 99;
    } else if (request->what == VIP__SHOW_REQUEST__WHAT__NIC) {
        nic.name = (char *)"vip0";
        nic.state = (char *)"up";
        nic.has_mtu = true;
        nic.mtu = 65507;
        show.n_nics = 1;
        show.nics = &nics;
    } else if (request->what == VIP__SHOW_REQUEST__WHAT__SUMMARY) {
        summary.version = (char *)"9.9";
        summary.has_pid = true;
        summary.pid = 4711;
        summary.has_epoch = true;
        summary.epoch = UINT64_MAX;
        show.summary = &summary;
    }
    (void)vip_control_send(sock, &reply.base, NULL, 0, 0);
}

static void answer(int sock, const char *mode, const Vip__Request *request)
{
    Vip__Reply reply = VIP__REPLY__INIT;

    if (strcmp(mode, "pages") == 0 && request->show) {
        answer_page(sock, request->show);
    } else if (strcmp(mode, "refuse") == 0) {
        reply.has_code = true;
        reply.code = VIP_RC_ERROR_RESOURCE;
        reply.reason = (char *)"the moon is full";
        (void)vip_control_send(sock, &reply.base, NULL, 0, 0);
    } else if (strcmp(mode, "garbage") == 0) {
        (void)send(sock, "\xff\xff\xff\xff", 4, MSG_NOSIGNAL);
    }
}

int main(int argc, char **argv)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

    if (argc != 3 || listener < 0)
        return 2;
    snprintf(address.sun_path, sizeof(address.sun_path), "%s", argv[1]);
    if (bind(listener, (struct sockaddr *)&address, sizeof(address)) < 0 ||
        listen(listener, 8) < 0) {
        perror("fake_vipd");
        return 1;
    }
    for (;;) {
        int sock = accept(listener, NULL, NULL);
        ProtobufCMessage *message;
        struct vip_fds fds = VIP_FDS_NONE;

        while (sock >= 0 && strcmp(argv[2], "gone") != 0 &&
               vip_control_recv(sock, &vip__request__descriptor, 0, &message, &fds) == 0) {
            vip_fds_close(&fds);
            answer(sock, argv[2], (Vip__Request *)message);
            protobuf_c_message_free_unpacked(message, NULL);
        }
        if (sock >= 0)
            close(sock);
    }
}

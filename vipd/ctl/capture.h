/*
 * `vipctl capture`: what passes the NICs, told to a tool over a socket as it happens (proto/capture.h).
 *
 * Owns: the one capture that may go on, its filter, which bytes of a packet are told, the socket. Does not
 * own: who may ask (vipd/client/), files (tools/). vipd never waits for the tool: what its socket has no room
 * for is counted. Both functions are for the control loop, while the NICs stand still; what passes them is
 * told by whichever thread drives them.
 */
#ifndef VIPD_CTL_CAPTURE_H
#define VIPD_CTL_CAPTURE_H

#include <stdbool.h>
#include <stdint.h>

#include "vipd/daemon.h"
#include "vipd/engine/cm.h"

struct capture;

/* What is wanted; all that is set must hold. */
struct capture_filter {
    bool has_session, has_vi, has_peer;
    uint64_t session;
    uint32_t vi;
    struct cm_host peer;
    bool payload; /* bytes of messages, too; otherwise there are none */
};

/*
 * Begin. *ret_sock is the tool's end, the caller's to close; the capture ends when the tool closes it.
 * Outcomes: 0; -EBUSY another one goes on; -ENOMEM, or what socketpair said.
 */
int capture_begin(struct vipd *vipd, const struct capture_filter *filter, int *ret_sock);

/* End it; harmless if there is none. */
void capture_end(struct vipd *vipd);

#endif

/*
 * `vipctl capture`: packets and descriptors that pass the NICs, sent to a tool over a socket at
 * once (proto/capture.h).
 *
 * Owns: the one capture that may run, its filter, the choice of a packet's bytes, the socket. Does
 * not own: access rights (vipd/client/), files (tools/). vipd never waits for the tool: it counts
 * the messages that the socket has no room for. Only the control loop calls the two functions,
 * while the NICs stand still. The threads that drive the NICs send the messages.
 */
#ifndef VIPD_CTL_CAPTURE_H
#define VIPD_CTL_CAPTURE_H

#include <stdbool.h>
#include <stdint.h>

#include "vipd/daemon.h"
#include "vipd/engine/cm.h"

struct capture;

/* Conditions for what is captured; all conditions that are set must hold. */
struct capture_filter {
    bool has_session, has_vi, has_peer;
    uint64_t session;
    uint32_t vi;
    struct cm_host peer;
    bool payload; /* capture the bytes of messages, too */
};

/*
 * Begin. *ret_sock is the tool's end, which the caller closes; the capture ends when the tool
 * closes it. Outcomes: 0; -EBUSY another one runs; -ENOMEM; the negative errno of socketpair.
 */
int capture_begin(struct vipd *vipd, const struct capture_filter *filter, int *ret_sock);

/* End it; harmless if there is none. */
void capture_end(struct vipd *vipd);

#endif

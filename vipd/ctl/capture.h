/*
 * `vipctl capture`: vipd sends the tool a record of each packet and descriptor, over a socket
 * (proto/capture.h).
 *
 * Owns: the capture (one at a time), its filter, the choice of a packet's bytes, the socket. Does
 * not own: access rights (vipd/client/), files (tools/). vipd never waits for the tool: if the
 * socket has no room for a record, vipd drops and counts the record. Only the control loop calls
 * the two functions, while the NICs stand still. The threads that drive the NICs send the records.
 */
#ifndef VIPD_CTL_CAPTURE_H
#define VIPD_CTL_CAPTURE_H

#include <stdbool.h>
#include <stdint.h>

#include "vipd/daemon.h"
#include "vipd/engine/cm.h"

struct capture;

/* Conditions for packets and descriptors: vipd sends those that fulfil all conditions set here. */
struct capture_filter {
    bool has_session, has_vi, has_peer;
    uint64_t session;
    uint32_t vi;
    struct cm_host peer;
    bool payload; /* capture the bytes of messages, too */
};

/*
 * Begin a capture. *ret_sock: the tool's end of the socket, which the caller closes. The capture
 * ends when the tool closes its descriptor. Outcomes: 0; -EBUSY: another capture runs; -ENOMEM; the
 * negative errno of socketpair.
 */
int capture_begin(struct vipd *vipd, const struct capture_filter *filter, int *ret_sock);

/* End the capture, if one runs. */
void capture_end(struct vipd *vipd);

#endif

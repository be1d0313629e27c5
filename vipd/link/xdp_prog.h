/*
 * The program at the interface (vipd/link/xdp.h) that selects our frames, in BPF instructions.
 *
 * Owns: the instructions and the map of sockets. Called when an xdp link is opened.
 */
#ifndef VIPD_LINK_XDP_PROG_H
#define VIPD_LINK_XDP_PROG_H

#include "vipd/link/ether.h"

/* The program's descriptors. A descriptor is -1 while it is not open. */
struct xdp_prog {
    int map;     /* map from queue to socket */
    int program; /* the loaded program */
    int link;    /* the attachment; closing this descriptor detaches the program */
    bool native; /* the program runs within the driver */
};

#define XDP_PROG_NONE                                                                              \
    (struct xdp_prog)                                                                              \
    {                                                                                              \
        .map = -1, .program = -1, .link = -1                                                       \
    }

/* Load the program that selects frames by `want`. Outcomes: 0; negative errno, reason in why. */
int xdp_prog_load(struct xdp_prog *prog, const struct ether_want *want, char why[LINK_WHY_BYTES]);
/* Direct our frames of a queue to this socket. Outcomes as xdp_prog_load. */
int xdp_prog_add(struct xdp_prog *prog, unsigned queue, int sock, char why[LINK_WHY_BYTES]);
/* Attach the program in the driver; if the driver does not support this, in front of the network
 * stack. Outcomes as xdp_prog_load. */
int xdp_prog_attach(struct xdp_prog *prog, unsigned interface, char why[LINK_WHY_BYTES]);
void xdp_prog_close(struct xdp_prog *prog);

#endif

/*
 * Writes the part of pcapng (draft-ietf-opsawg-pcapng) that a capture needs: a section, interfaces,
 * and packets with comments. Numbers have the byte order of the host.
 */
#ifndef VIPCTL_PCAPNG_H
#define VIPCTL_PCAPNG_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

enum pcapng_direction {
    PCAPNG_UNKNOWN = 0,
    PCAPNG_INBOUND = 1,
    PCAPNG_OUTBOUND = 2,
};

struct pcapng_packet {
    uint32_t interface; /* number from 0, in the order of the pcapng_interface calls */
    uint64_t time_ns;   /* since 1970 */
    const void *bytes;
    uint32_t captured; /* bytes captured */
    uint32_t length;   /* bytes of the packet */
    enum pcapng_direction direction;
    const char *comment;
};

/* These functions return no error: test ferror(out) at the end. */
void pcapng_begin(FILE *out, const char *program);
void pcapng_interface(FILE *out, uint16_t link_type, const char *name, const char *description);
void pcapng_packet(FILE *out, const struct pcapng_packet *packet);

#endif

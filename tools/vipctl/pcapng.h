/*
 * Writes the part of pcapng that a capture needs: a section, interfaces, packets with comments. The
 * format is that of the IETF's draft (draft-ietf-opsawg-pcapng), in the byte order of the host.
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
    uint32_t interface; /* number in the order of calls of pcapng_interface, from 0 */
    uint64_t time_ns;   /* since 1970 */
    const void *bytes;
    uint32_t captured; /* bytes captured */
    uint32_t length;   /* bytes of the packet */
    enum pcapng_direction direction;
    const char *comment;
};

/* The functions report errors by ferror(out). */
void pcapng_begin(FILE *out, const char *program);
void pcapng_interface(FILE *out, uint16_t link_type, const char *name, const char *description);
void pcapng_packet(FILE *out, const struct pcapng_packet *packet);

#endif

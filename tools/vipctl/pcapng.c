/* Writes pcapng; see pcapng.h. */
#include "tools/vipctl/pcapng.h"

#include <string.h>

#define BLOCK_SECTION   0x0a0d0d0au
#define BLOCK_INTERFACE 1u
#define BLOCK_PACKET    6u
#define BYTE_ORDER_MARK 0x1a2b3c4du
#define OPTION_COMMENT  1u
#define OPTION_NAME     2u /* in an interface block; 2 means flags in a packet block */
#define OPTION_FLAGS    2u
#define OPTION_DESC     3u
#define OPTION_PROGRAM  4u /* of a section */
#define OPTION_TSRESOL  9u
#define OPTION_HEAD     4u /* bytes of an option's code and length */

static void put(FILE *out, const void *bytes, size_t count)
{
    (void)fwrite(bytes, 1, count, out);
}

static void put16(FILE *out, uint16_t value)
{
    put(out, &value, sizeof(value));
}

static void put32(FILE *out, uint32_t value)
{
    put(out, &value, sizeof(value));
}

/* The size with padding: the size of each part of a block is a multiple of four bytes. */
static uint32_t padded(size_t bytes)
{
    return ((uint32_t)bytes + 3) & ~3u;
}

static void put_padded(FILE *out, const void *bytes, size_t count)
{
    put(out, bytes, count);
    put(out, "\0\0\0", padded(count) - count);
}

static void put_option(FILE *out, uint16_t code, const void *bytes, size_t count)
{
    put16(out, code);
    put16(out, (uint16_t)count);
    put_padded(out, bytes, count);
}

static uint32_t option_bytes(size_t count)
{
    return OPTION_HEAD + padded(count);
}

/* Write the end of the options and of the block. */
static void put_end(FILE *out, uint32_t block_bytes)
{
    put32(out, 0);
    put32(out, block_bytes);
}

void pcapng_begin(FILE *out, const char *program)
{
    uint32_t bytes = 28 + option_bytes(strlen(program)) + OPTION_HEAD;

    put32(out, BLOCK_SECTION);
    put32(out, bytes);
    put32(out, BYTE_ORDER_MARK);
    put16(out, 1); /* version 1.0 */
    put16(out, 0);
    put32(out, UINT32_MAX); /* the section's length is unknown */
    put32(out, UINT32_MAX);
    put_option(out, OPTION_PROGRAM, program, strlen(program));
    put_end(out, bytes);
}

void pcapng_interface(FILE *out, uint16_t link_type, const char *name, const char *description)
{
    const uint8_t nanoseconds = 9;
    uint32_t bytes = 20 + option_bytes(strlen(name)) + option_bytes(strlen(description)) +
                     option_bytes(sizeof(nanoseconds)) + OPTION_HEAD;

    put32(out, BLOCK_INTERFACE);
    put32(out, bytes);
    put16(out, link_type);
    put16(out, 0);
    put32(out, 0); /* no limit of captured bytes */
    put_option(out, OPTION_NAME, name, strlen(name));
    put_option(out, OPTION_DESC, description, strlen(description));
    put_option(out, OPTION_TSRESOL, &nanoseconds, sizeof(nanoseconds));
    put_end(out, bytes);
}

void pcapng_packet(FILE *out, const struct pcapng_packet *packet)
{
    const uint32_t flags = packet->direction;
    size_t comment = strlen(packet->comment);
    uint32_t bytes = 32 + padded(packet->captured) + option_bytes(comment) +
                     option_bytes(sizeof(flags)) + OPTION_HEAD;

    put32(out, BLOCK_PACKET);
    put32(out, bytes);
    put32(out, packet->interface);
    put32(out, (uint32_t)(packet->time_ns >> 32));
    put32(out, (uint32_t)packet->time_ns);
    put32(out, packet->captured);
    put32(out, packet->length);
    put_padded(out, packet->bytes, packet->captured);
    put_option(out, OPTION_COMMENT, packet->comment, comment);
    put_option(out, OPTION_FLAGS, &flags, sizeof(flags));
    put_end(out, bytes);
}

/*
 * Host addresses as text and as bytes (vipd/link/link.h).
 *
 * Owns: the spellings "127.0.0.1:4794" and "aa:bb:cc:dd:ee:ff". Called when configuration is read and when rows are shown.
 */
#include "vipd/link/link.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

/* An IPv4 address (4 bytes) and a port (2 bytes), both in network order. */
#define UDP4_ADDR_BYTES 6

#define MAC_BYTES 6

const char *link_kind_name(enum link_kind kind)
{
    switch (kind) {
    case LINK_UDP:
        return "udp";
    case LINK_ETHER:
        return "ether";
    case LINK_LOOP:
        return "loop";
    }
    return "?";
}

/* A port in decimal, 1..65535. Returns 0 or -EINVAL. */
static int parse_port(const char *text, uint16_t *ret)
{
    uint32_t port = 0;

    if (!*text)
        return -EINVAL;
    for (; *text; text++) {
        if (*text < '0' || *text > '9')
            return -EINVAL;
        port = port * 10 + (uint32_t)(*text - '0');
        if (port > 65535)
            return -EINVAL;
    }
    if (port == 0)
        return -EINVAL;
    *ret = (uint16_t)port;
    return 0;
}

int link_addr_parse(const char *text, uint16_t default_port, struct link_addr *ret)
{
    const char *colon = strchr(text, ':');
    size_t host_len = colon ? (size_t)(colon - text) : strlen(text);
    char host[INET_ADDRSTRLEN];
    struct in_addr in;
    uint16_t port = default_port;

    if (host_len >= sizeof(host))
        return -EINVAL;
    memcpy(host, text, host_len);
    host[host_len] = 0;
    if (inet_pton(AF_INET, host, &in) != 1)
        return -EINVAL;
    if (colon && parse_port(colon + 1, &port) < 0)
        return -EINVAL;
    *ret = (struct link_addr){.len = UDP4_ADDR_BYTES};
    memcpy(ret->bytes, &in, 4);
    ret->bytes[4] = (uint8_t)(port >> 8);
    ret->bytes[5] = (uint8_t)port;
    return 0;
}

void link_addr_format(const struct link_addr *addr, char *buf, size_t buf_bytes)
{
    size_t len = addr->len < sizeof(addr->bytes) ? addr->len : sizeof(addr->bytes);
    const uint8_t *b = addr->bytes;

    if (buf_bytes == 0)
        return;
    if (len == UDP4_ADDR_BYTES) {
        snprintf(buf, buf_bytes, "%u.%u.%u.%u:%u", b[0], b[1], b[2], b[3],
                 (unsigned)b[4] << 8 | b[5]);
        return;
    }
    /* Not an address of ours: show the bytes. */
    buf[0] = 0;
    for (size_t i = 0; i < len && 2 * i + 3 <= buf_bytes; i++)
        snprintf(buf + 2 * i, buf_bytes - 2 * i, "%02x", b[i]);
}

bool link_addr_equal(const struct link_addr *a, const struct link_addr *b)
{
    return a->len == b->len && a->len <= sizeof(a->bytes) &&
           memcmp(a->bytes, b->bytes, a->len) == 0;
}

/* ---- MAC addresses ---------------------------------------------------------------------- */

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    if (c >= 'A' && c <= 'F')
        return c - 'A' + 10;
    return -1;
}

static int parse_mac(const char *text, struct link_addr *ret)
{
    struct link_addr addr = {.len = MAC_BYTES};
    bool zero = true;

    if (strlen(text) != 3 * MAC_BYTES - 1)
        return -EINVAL;
    for (unsigned i = 0; i < MAC_BYTES; i++) {
        int high = hex_digit(text[3 * i]), low = hex_digit(text[3 * i + 1]);

        if (high < 0 || low < 0 || (i + 1 < MAC_BYTES && text[3 * i + 2] != ':'))
            return -EINVAL;
        addr.bytes[i] = (uint8_t)(high << 4 | low);
        zero = zero && addr.bytes[i] == 0;
    }
    /* The lowest bit of the first byte marks groups, broadcast among them. */
    if (zero || addr.bytes[0] & 1)
        return -EINVAL;
    *ret = addr;
    return 0;
}

int link_addr_parse_as(enum link_kind kind, const char *text, uint16_t default_port,
                       struct link_addr *ret)
{
    return kind == LINK_UDP ? link_addr_parse(text, default_port, ret) : parse_mac(text, ret);
}

void link_addr_format_as(enum link_kind kind, const struct link_addr *addr, char *buf,
                         size_t buf_bytes)
{
    const uint8_t *b = addr->bytes;

    if (kind == LINK_UDP || addr->len != MAC_BYTES)
        link_addr_format(addr, buf, buf_bytes);
    else
        snprintf(buf, buf_bytes, "%02x:%02x:%02x:%02x:%02x:%02x", b[0], b[1], b[2], b[3], b[4],
                 b[5]);
}

/*
 * Host addresses as text and as bytes; comparison of host names (vipd/link/link.h).
 *
 * Owns: the formats "127.0.0.1:4794", "[2001:db8::1]:4794" and "aa:bb:cc:dd:ee:ff". Called when
 * vipd reads the configuration, looks up names or shows addresses.
 */
#include "vipd/link/kinds.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

/* An IPv4 address (4 bytes) and a port (2 bytes), both in network order. */
#define UDP4_ADDR_BYTES 6

/* An IPv6 address (16 bytes) and a port (2 bytes), both in network order. */
#define UDP6_ADDR_BYTES 18
#define IPV6_BYTES      16

/* Parse a port in decimal, 1..65535. Returns 0 or -EINVAL. */
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

static void format_udp6(const uint8_t *bytes, char *buf, size_t buf_bytes)
{
    char host[INET6_ADDRSTRLEN];

    inet_ntop(AF_INET6, bytes, host, sizeof(host));
    snprintf(buf, buf_bytes, "[%s]:%u", host,
             (unsigned)bytes[IPV6_BYTES] << 8 | bytes[IPV6_BYTES + 1]);
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
    if (len == UDP6_ADDR_BYTES) {
        format_udp6(b, buf, buf_bytes);
        return;
    }
    /* The length is not that of a UDP address: write the bytes in hexadecimal. */
    buf[0] = 0;
    for (size_t i = 0; i < len && 2 * i + 3 <= buf_bytes; i++)
        snprintf(buf + 2 * i, buf_bytes - 2 * i, "%02x", b[i]);
}

bool link_addr_equal(const struct link_addr *a, const struct link_addr *b)
{
    return a->len == b->len && a->len <= sizeof(a->bytes) &&
           memcmp(a->bytes, b->bytes, a->len) == 0;
}

/* ---- IPv6 addresses --------------------------------------------------------------------- */

int link_addr_scope(const char *text, char ret_text[LINK_TEXT_BYTES],
                    char ret_scope[LINK_SCOPE_BYTES])
{
    const char *sign = strchr(text, '%');
    size_t head = sign ? (size_t)(sign - text) : strlen(text);
    size_t scope = sign ? strcspn(sign + 1, "]") : 0;

    if (strlen(text) >= LINK_TEXT_BYTES || scope >= LINK_SCOPE_BYTES || (sign && scope == 0))
        return -EINVAL;
    memcpy(ret_text, text, head);
    ret_text[head] = '\0';
    ret_scope[0] = '\0';
    if (!sign)
        return 0;
    snprintf(ret_scope, LINK_SCOPE_BYTES, "%.*s", (int)scope, sign + 1);
    snprintf(ret_text + head, LINK_TEXT_BYTES - head, "%s", sign + 1 + scope);
    return 0;
}

bool link_addr_is_local(const struct link_addr *addr)
{
    return addr->len == UDP6_ADDR_BYTES && addr->bytes[0] == 0xfe &&
           (addr->bytes[1] & 0xc0) == 0x80;
}

/* Parse an IPv6 address: without brackets and port, or in brackets with or without a port. */
int link_udp6_parse(const char *text, uint16_t default_port, struct link_addr *ret)
{
    char host[INET6_ADDRSTRLEN];
    const char *end = text + strlen(text);
    uint16_t port = default_port;
    struct in6_addr in;

    if (*text == '[') {
        text++;
        end = strchr(text, ']');
        if (!end || (end[1] != '\0' && (end[1] != ':' || parse_port(end + 2, &port) < 0)))
            return -EINVAL;
    }
    if ((size_t)(end - text) >= sizeof(host))
        return -EINVAL;
    memcpy(host, text, (size_t)(end - text));
    host[end - text] = '\0';
    if (inet_pton(AF_INET6, host, &in) != 1 || IN6_IS_ADDR_UNSPECIFIED(&in) ||
        IN6_IS_ADDR_MULTICAST(&in) || IN6_IS_ADDR_V4MAPPED(&in))
        return -EINVAL;
    *ret = (struct link_addr){.len = UDP6_ADDR_BYTES};
    memcpy(ret->bytes, &in, IPV6_BYTES);
    ret->bytes[IPV6_BYTES] = (uint8_t)(port >> 8);
    ret->bytes[IPV6_BYTES + 1] = (uint8_t)port;
    return 0;
}

/* Can a link have this IPv4 address? Peers send to the address, so it must belong to one host. */
static bool one_host(const struct link_addr *addr)
{
    struct in_addr in;

    memcpy(&in, addr->bytes, sizeof(in));
    return in.s_addr != htonl(INADDR_ANY) && in.s_addr != htonl(INADDR_BROADCAST) &&
           !IN_MULTICAST(ntohl(in.s_addr));
}

int link_addr_parse_own(const char *text, uint16_t port, enum link_kind *ret_kind,
                        struct link_addr *ret, char ret_scope[LINK_SCOPE_BYTES])
{
    enum link_kind kind = strchr(text, ':') ? LINK_UDP6 : LINK_UDP;
    char host[LINK_TEXT_BYTES];
    struct link_addr addr;

    if (link_addr_scope(text, host, ret_scope) < 0 || strchr(host, '[') ||
        (kind == LINK_UDP6 ? link_udp6_parse : link_addr_parse)(host, port, &addr) < 0 ||
        link_addr_is_local(&addr) != (ret_scope[0] != '\0') ||
        (kind == LINK_UDP && !one_host(&addr)))
        return -EINVAL;
    *ret_kind = kind;
    *ret = addr;
    return 0;
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

int link_mac_parse(const char *text, uint16_t default_port, struct link_addr *ret)
{
    struct link_addr addr = {.len = LINK_MAC_BYTES};
    bool zero = true;

    (void)default_port;
    if (strlen(text) != 3 * LINK_MAC_BYTES - 1)
        return -EINVAL;
    for (unsigned i = 0; i < LINK_MAC_BYTES; i++) {
        int high = hex_digit(text[3 * i]), low = hex_digit(text[3 * i + 1]);

        if (high < 0 || low < 0 || (i + 1 < LINK_MAC_BYTES && text[3 * i + 2] != ':'))
            return -EINVAL;
        addr.bytes[i] = (uint8_t)(high << 4 | low);
        zero = zero && addr.bytes[i] == 0;
    }
    /* The lowest bit of the first byte marks addresses of groups and the broadcast address. */
    if (zero || addr.bytes[0] & 1)
        return -EINVAL;
    *ret = addr;
    return 0;
}

void link_mac_format(const struct link_addr *addr, char *buf, size_t buf_bytes)
{
    const uint8_t *b = addr->bytes;

    if (addr->len != LINK_MAC_BYTES)
        link_addr_format(addr, buf, buf_bytes);
    else
        snprintf(buf, buf_bytes, "%02x:%02x:%02x:%02x:%02x:%02x", b[0], b[1], b[2], b[3], b[4],
                 b[5]);
}

/* ---- names of hosts --------------------------------------------------------------------- */

bool link_host_match(const char *a, const char *b)
{
    size_t a_len = strlen(a), b_len = strlen(b);
    size_t len = a_len < b_len ? a_len : b_len;
    const char *longer = a_len > b_len ? a : b;

    if (len == 0 || strncasecmp(a, b, len) != 0)
        return false;
    if (a_len == b_len)
        return true;
    /* The shorter name must have no domain, and the longer name must be no address: "10" is not the
     * short form of "10.0.0.1". */
    return longer[len] == '.' && !memchr(longer, '.', len) &&
           longer[strspn(longer, "0123456789.")] != '\0';
}

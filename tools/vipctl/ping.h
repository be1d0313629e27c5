/* Asks whether the vipd of another host answers. ping and check use it. */
#ifndef VIPCTL_PING_H
#define VIPCTL_PING_H

#include <stdint.h>

#include "tools/vipctl/query.h"

struct ping_result {
    uint64_t sent, received;
    uint64_t min_ns, max_ns, sum_ns; /* round-trip times of the answers */
    uint64_t last_ns;                /* round-trip time of the last ping; 0: it had no answer */
};

/*
 * Send one ping over a NIC (nic NULL: the first NIC); add the outcome to *result. Outcomes:
 * EXIT_OK, with or without an answer; otherwise a message has been printed.
 */
enum exit_code ping_once(int sock, const char *nic, const char *peer, double timeout_s,
                         struct ping_result *result);

#endif

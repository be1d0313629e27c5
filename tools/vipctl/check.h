/*
 * `vipctl check`: looks for problems. Prints one finding per line: PASS, WARN or FAIL, and the
 * command that helps.
 *
 * Owns: collecting and printing findings. check_vipd.c checks vipd and peers, check_host.c the
 * machine.
 */
#ifndef VIPCTL_CHECK_H
#define VIPCTL_CHECK_H

#include <stddef.h>
#include <stdint.h>

#include "tools/vipctl/options.h"
#include "tools/vipctl/query.h"

enum verdict {
    VERDICT_PASS,
    VERDICT_WARN,
    VERDICT_FAIL,
};

struct finding {
    enum verdict verdict;
    const char *subject; /* "udp buffers" */
    char text[320];
    char fix[320]; /* the command that helps; "" if there is nothing to do */
};

#define FINDINGS_MAX 64

struct findings {
    struct finding finding[FINDINGS_MAX];
    size_t count;
    unsigned warnings, failures;
};

/* Add a finding. fix: the command that helps, or NULL. */
void check_add(struct findings *to, enum verdict verdict, const char *subject, const char *fix,
               const char *format, ...) __attribute__((format(printf, 5, 6)));

/* Check the machine. wanted_buffer_bytes: largest socket buffer that a UDP NIC wants; 0: none. */
void check_host(struct findings *to, uint64_t wanted_buffer_bytes);

/* Check vipd and, if peer is not NULL, a peer. *ret_buffer_bytes: for check_host. Outcomes:
 * EXIT_OK; another exit code: vipd did not answer, and a message has been printed. */
enum exit_code check_vipd(int sock, struct findings *to, const char *peer,
                          uint64_t *ret_buffer_bytes);

#endif

/*
 * Shared by the files of am_api: two endpoints of one bundle, connected by VIs as between
 * processes, and counts of their handlers.
 */
#ifndef TESTS_AM_API_H
#define TESTS_AM_API_H

#include "tests/am/amtest.h"

/* Handler numbers of both endpoints. HELD is free: a test may set its own handler there. */
enum { REQ = 1, REP, BULK, SILENT, TO_UNSET_REPLY, HELD, LONG_ANSWER };
#define TAG_A       ((tag_t)0xA0A0)
#define TAG_B       ((tag_t)0xB0B0)
#define SEG_B_BYTES 20000

extern eb_t bundle;
extern ep_t a, b;
extern en_t name_a, name_b;
extern char seg_b[SEG_B_BYTES]; /* b's segment */

/* Counts: handlers of requests, handlers of replies, and handler 0 have run this many times.
 * last_*: the arguments with which the last handler was called. */
extern int ran, replied, returned, last_status, last_opcode, last_arg;
extern amvia_returned_t last_returned;
extern en_t returned_from;
extern tag_t returned_tag;

/* Call AM_Init and make endpoints a and b. a maps b at index 0 and itself at index 3. */
void set_up(void);
void tear_down(void);
/* Send a request from a to b and wait for the answer. */
void exchange(void);

/* Limit this process to `max` descriptors and open all of them (fd). Returns the number opened. */
int use_up_descriptors(int fd[], int max);

/* Wait until one message has come back, with this status and opcode. */
#define COMES_BACK(status, opcode)                                                                 \
    do {                                                                                           \
        WAIT_FOR(bundle, returned == 1);                                                           \
        CHECK(last_status == (status) && last_opcode == (opcode));                                 \
        returned = 0;                                                                              \
    } while (0)

/* The tests of each file, for main's list. */

/* api_returned.c */
void the_default_aborts(void);
void wrong_tags_come_back(void);
void calls_without_the_tag_get_no_connection(void);
void missing_handlers_come_back(void);
void segments_are_judged_at_delivery(void);
void gets(void);
void gone_endpoints(void);
void refused_replies_come_back(void);
void the_credit_is_back_before_handler_0(void);

/* api_codes.c */
void nothing_works_before_the_start(void);
void null_is_no_argument(void);
void a_full_table(void);
void without_resources(void);
void segments_in_handlers(void);
void variadic_twins(void);
void spent_tokens(void);
void a_new_endpoint(void);
void freeing_a_bundle_of_several(void);
void sleeping_uses_no_processor(void);
void mapping_after_the_first_traffic(void);

/* api_peers.c */
void another_variant_is_refused(void);
void no_resources_here_or_there(void);
void a_killed_peer_returns_each_once(void);
void waiting_for_room_uses_no_processor(void);
void strangers_get_half_of_the_room(void);
void tags_set_after_the_call(void);
/* main() of the second process in the tests of api_peers.c (am_api child MODE). */
int peer(const char *mode);

#endif

/*
 * What the files of am_api share: two endpoints of one bundle that are connected by a VI like any others, and
 * what their handlers have seen.
 */
#ifndef TESTS_AM_API_H
#define TESTS_AM_API_H

#include "tests/am/amtest.h"

/* Handlers of both endpoints; HELD is for the test's own. */
enum { REQ = 1, REP, BULK, SILENT, TO_UNSET_REPLY, HELD, LONG_ANSWER };
#define TAG_A       ((tag_t)0xA0A0)
#define TAG_B       ((tag_t)0xB0B0)
#define SEG_B_BYTES 20000

extern eb_t bundle;
extern ep_t a, b;
extern en_t name_a, name_b;
extern char seg_b[SEG_B_BYTES]; /* b's segment */

/* Counts of handlers: requests', replies', handler 0; and what the last of them got. */
extern int ran, replied, returned, last_status, last_opcode, last_arg;
extern amvia_returned_t last_returned;
extern en_t returned_from;
extern tag_t returned_tag;

/* AM_Init and both endpoints: a maps b at 0 and itself at 3. */
void set_up(void);
void tear_down(void);
/* One request from a to b whose answer has come. */
void exchange(void);

/* Open descriptors until this process, which gets a limit of max, may have no more; how many are in fd. */
int use_up_descriptors(int fd[], int max);

/* It came back once, for this reason. */
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
/* The other process of those: am_api child MODE. */
int peer(const char *mode);

#endif

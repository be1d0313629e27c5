/*
 * Declarations that the files of vipd/client/ share, such as struct answer and the functions of all
 * requests.
 */
#ifndef VIPD_CLIENT_INTERNAL_H
#define VIPD_CLIENT_INTERNAL_H

#include <stdbool.h>
#include <stddef.h>

#include "proto/control.h"
#include "proto/control.pb-c.h"
#include "proto/status.h"
#include "vipd/client/client.h"
#include "vipd/ctl/explain.h"
#include "vipd/ctl/show.h"
#include "vipd/nic/loan.h"
#include "vipd/nic/outlive.h"
#include "vipd/quota.h"

#define REASON_BYTES 320

/*
 * The reply that a request's function builds. It has one message of each type that a reply may
 * point to (requests.def); a request's function initialises only the message that it uses. vipd
 * closes `fds` after it has sent the reply.
 */
struct answer {
    Vip__Reply reply;
    char reason[REASON_BYTES];
#define REPLY(type, member) Vip__##type member;
#include "vipd/client/requests.def"
    struct link_addr resolved;           /* address that `resolve` points to */
    char resolved_name[LINK_NAME_BYTES]; /* name that `resolve` points to */
    struct nic_loan_probe probe;         /* packet that `loan` points to */
    struct show_page *page;              /* answer to a show request; answer_send frees it */
    Vip__ReloadReply *reload;            /* answer_send frees it */
    struct explain *explain;             /* answer_send frees it */
    struct vip_fds fds;
};

/* Set the reply's code and, unless the code is success, its reason. */
void answer_set(struct answer *answer, enum vip_rc rc, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Tell the program to send its OpenRequest again after this time. Call answer_set first. */
void answer_again(struct answer *answer, uint32_t again_ms);

/* Does this negative errno say that the kernel has no descriptors, memory or room now? */
bool lacks_resources(int rc);

/*
 * May the client's user administer this vipd? If not, the answer gives the reason and a remedy.
 * Allowed or not, vipd logs the request and its object `on` (printable; NULL: vipd itself).
 */
bool answer_admin(struct client *client, const char *verb, const char *on, struct answer *answer);

/*
 * May the client's user have `more` of `quota`? If not, the answer has ERROR_RESOURCE and the
 * reason.
 */
bool answer_room(const struct client *client, enum quota quota, uint64_t more,
                 struct answer *answer);

/* Is the client's user root, vipd's own user or an administrator? Sets no answer, logs nothing. */
bool client_is_admin(const struct client *client);

/* Does the client's session come from an earlier life of vipd? Only in such a session may a request
 * give a VI, CQ, tag or region its earlier number. If not, the answer says so. */
bool answer_claimed(const struct client *client, struct answer *answer);

void answer_init(struct answer *answer); /* success */
/* Send the reply, and free its memory. If the reply cannot be sent, end the client. */
void answer_send(struct client *client, struct answer *answer);
/* Free the memory and close the descriptors of the reply. */
void answer_free(struct answer *answer);

/* A request's function. It fills the answer. If it keeps a descriptor of fds, it stores -1 in its
 * place. For requests that need a session, client->session is not NULL. */
typedef void request_fn(struct client *client, const Vip__Request *request, struct vip_fds *fds,
                        struct answer *answer);

#define REQUEST(BODY, name, function, needs_session, fds_min, fds_max) request_fn function;
#include "vipd/client/requests.def"

/* May the client open a NIC? [daemon] open_group and vipctl drain decide. If not, the answer says
 * why. */
bool client_may_open(const struct client *client, struct answer *answer);

/* The reliability levels of every NIC of this vipd, and the levels with RDMA Read. */
#define NIC_LEVELS           (VIP_LVL_UNRELIABLE | VIP_LVL_DELIVERY | VIP_LVL_RECEPTION)
#define NIC_RDMA_READ_LEVELS (VIP_LVL_DELIVERY | VIP_LVL_RECEPTION)

/* The NIC of a session. */
struct nic *session_nic(const struct client *client);

/*
 * Read one request of the client and answer it. Outcomes: true: there may be another request;
 * false: no request waits, the client is held back, or the client has ended.
 */
bool client_serve(struct client *client);

/*
 * Do UNDERTAKER_FDS_MAX descriptors of the client's user wait for the undertaker? If true, vipd
 * reads nothing from this user's programs: the caller must stop watching the client's socket. The
 * control loop watches the socket again when the undertaker has room. Any thread.
 */
bool client_held_back(struct client *client);

/* The program has hung up: end the client. After a close request, the reason stays CLOSED. */
void client_hung_up(struct client *client);
/* Free a client without a session. Returns whether its socket is still open, because it waits for
 * the undertaker. */
bool client_free(struct client *client);

/* Charge the client's user with cpu_ns of processor time on NIC number `nic` (nic_charge). */
void client_charge(const struct client *client, unsigned nic, uint64_t cpu_ns);

/* Answer one request with one reply. The caller closes the descriptors left in fds. */
void request_dispatch(struct client *client, const Vip__Request *request, struct vip_fds *fds);
/* Answer a session's request that vipd could not receive (r: -EMFILE, -ENOMEM) with ERROR_RESOURCE;
 * the session goes on. */
void request_lost(struct client *client, int r);
/* The end of a reason, for -EMFILE. */
#define VIPD_FEW_FDS " in vipd; raise LimitNOFILE= of the service or 'ulimit -n'"

/*
 * Send a program the reason why vipd refuses its connection, before the socket is closed. The
 * program need not have sent a request.
 */
void client_refuse(int sock, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Close the socket of a refused connection; it counts for its user (undertaker_hang_up). */
void client_hang_up(const struct vipd *vipd, int sock);

/* How to close descriptors that a program has passed (vipd/registry/undertaker.h). */
struct vip_fd_drop client_fd_drop(struct client *client);

/*
 * End the client's session, in at most *ends steps, which the call subtracts from *ends
 * (nic_session_end). Outcomes: true: the client has no session any more; false: call this function
 * again after a turn.
 */
bool session_end(struct client *client, bool died, unsigned *ends);

/* Send the reply that VipCloseNic waits for. */
void request_close_done(struct client *client);

/* ---- segment.c ---- */

/* What is wrong with a segment of the application; NULL: nothing. */
const char *segment_app_fault(int fd, uint64_t bytes);
/* Count the file of a segment for the client's user. Outcomes: 0; a negative errno. */
int segment_count(const struct client *client, int fd, struct taken_file **ret);
/* Map the application's segment read-only. Outcomes: 0; a negative errno: the answer says why. */
int segment_map_app(const struct client *client, struct session *session, int fd,
                    struct answer *answer);
/* Make and map vipd's segment; the reply gets a descriptor to read the segment. Outcomes: 0; a
 * negative errno. The caller unmaps and closes session->segment, also after a failure. */
int segment_make(const struct client *client, struct session *session, struct answer *answer);
/* As segment_make, but with the segment of an earlier life of vipd, which the client offers. One
 * more outcome, -EPERM: vipd refuses the segment, and the answer has the reason. */
int segment_claim(const struct client *client, struct session *session, int offered,
                  struct answer *answer);
/* The program did not get the session that it claimed: let it offer vipd's segment again. */
void segment_hand_back(struct session *session);
/* Write into vipd's segment which process may claim the segment from the next vipd. */
void segment_own(const struct client *client, struct session *session);
/* Write into vipd's segment that the session has ended: no later vipd goes on with the session. A
 * segment that was handed back stays as it is. */
void segment_closed(const struct session *session);
/* From now on, this vipd writes to a private copy of vipd's segment, which the program and the next
 * vipd do not see. false: no memory; nothing has changed. */
bool segment_let_go(const struct session *session);
/* Start time of a process in clock ticks since boot; 0: unknown, and errno is 0 or the reason. */
uint64_t process_start(pid_t pid);

/*
 * memory.c: do the files of the client's user take at most [limits] register_bytes_per_uid? If not,
 * the answer has ERROR_RESOURCE and the reason.
 */
bool memory_within_limit(struct client *client, struct answer *answer);

/* ---- events.c ---- */

extern const struct nic_sink client_sink; /* for the functions of this sink, ctx is the client */

/* Send the waiting events, until the event socket is full. */
void events_flush(struct client *client);
/* Watch the event socket for reading, and for writing if events wait. */
void events_listen(struct session *session);
/* The event socket is readable: read PlaceDone messages, or the end of file. */
void events_receive(struct client *client);
void events_drop(struct session *session);
/* Does an event that asks to copy bytes of a message wait? At the end of vipd, other waiting
 * events may be lost: the program learns their content from the states of VIs and from repeated
 * requests. */
bool events_hold_data(const struct session *session);

#endif

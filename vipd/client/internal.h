/*
 * Shared by the files of vipd/client/: the answer to a request, and the functions of all requests.
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
#include "vipd/nic/outlive.h"
#include "vipd/quota.h"

#define REASON_BYTES 320

/*
 * One reply under construction. It has one message of each type that a reply may point to
 * (requests.def); a request's function initialises only the message that it uses. `fds` are closed
 * after the reply was sent.
 */
struct answer {
    Vip__Reply reply;
    char reason[REASON_BYTES];
#define REPLY(type, member) Vip__##type member;
#include "vipd/client/requests.def"
    struct link_addr resolved;           /* address that `resolve` points to */
    char resolved_name[LINK_NAME_BYTES]; /* name that `resolve` points to */
    struct show_page *page;              /* answer to a show request; freed after sending */
    Vip__ReloadReply *reload;            /* freed after sending */
    struct explain *explain;             /* freed after sending */
    struct vip_fds fds;
};

/* Set code and, unless it is success, the reason. */
void answer_set(struct answer *answer, enum vip_rc rc, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* After answer_set, to an OpenRequest: the program sends the request again after this time. */
void answer_again(struct answer *answer, uint32_t again_ms);

/* Does this negative errno say that the kernel has no descriptors, memory or room now? */
bool lacks_resources(int rc);

/*
 * May the client's user administer this vipd? If not, the answer says so and what would help.
 * Either way the request is logged, with its object `on` (printable; NULL: vipd itself).
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

/* Is the client's session one of an earlier life of vipd, so that a request may name an old number?
 * If not, the answer says so. */
bool answer_claimed(const struct client *client, struct answer *answer);

void answer_init(struct answer *answer); /* success */
/* Send the reply and free what it holds. If the reply cannot be sent, the client is ended. */
void answer_send(struct client *client, struct answer *answer);
/* Free the memory and close the descriptors that only the reply uses. */
void answer_free(struct answer *answer);

/* A request's function: it fills the answer and takes what it needs of fds. client->session is not
 * NULL for requests that need one. */
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
 * Read one request, work on it, answer it. Outcomes: true: there may be another request; false: no
 * request waits, the client is held back, or it has ended.
 */
bool client_serve(struct client *client);

/*
 * Do UNDERTAKER_FDS_MAX descriptors of the client's user wait for the undertaker? Then vipd reads
 * nothing from this user's programs: the caller stops watching the socket, where messages wait. The
 * control loop watches the socket again when the undertaker has room. From any thread.
 */
bool client_held_back(struct client *client);

/* The program has hung up. If a close request came before, it was VipCloseNic: client_end keeps the
 * first reason. */
void client_hung_up(struct client *client);
/* Free a client without a session. Returns whether its socket waits for the undertaker, so that
 * vipd still has the descriptor. */
bool client_free(struct client *client);

/* Charge the client's user with processor time of NIC number `nic`. A worker's NIC uses the time of
 * its own thread, not of this one. */
void client_charge(const struct client *client, unsigned nic, uint64_t cpu_ns);

/* Answer one message with one reply. The caller closes the descriptors left in fds. */
void request_dispatch(struct client *client, const Vip__Request *request, struct vip_fds *fds);

/*
 * Send a program the reason why vipd refuses its connection, before the socket is closed. The
 * program need not have sent a request.
 */
void client_refuse(int sock, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Close the socket of a refused connection, in the share of its user (undertaker_hang_up). */
void client_hang_up(const struct vipd *vipd, int sock);

/* How to close descriptors that a program has passed (vipd/registry/undertaker.h). */
struct vip_fd_drop client_fd_drop(struct client *client);

/*
 * End at most *ends VIs, waits and requests of the client's session, as nic_session_end. Outcomes:
 * true: there is no session any more; false: call it again after a turn.
 */
bool session_end(struct client *client, bool died, unsigned *ends);

/* The reply that VipCloseNic waits for. */
void request_close_done(struct client *client);

/* ---- segment.c ---- */

/* What is wrong with a segment of the application; NULL: nothing. */
const char *segment_app_fault(int fd, uint64_t bytes);
/* Count the file of a segment for the client's user. Outcomes: 0; a negative errno. */
int segment_count(const struct client *client, int fd, struct taken_file **ret);
/* Map the application's segment read-only. Outcomes: 0; a negative errno: the answer says why. */
int segment_map_app(const struct client *client, struct session *session, int fd,
                    struct answer *answer);
/* Make and map vipd's segment; a descriptor to read it goes to the reply. Outcomes: 0; a negative
 * errno. The caller closes session->segment, and unmaps, also after a failure. */
int segment_make(const struct client *client, struct session *session, struct answer *answer);
/* The same with the segment of an earlier life of vipd, which the client offers. Also -EPERM: the
 * answer says why not. */
int segment_claim(const struct client *client, struct session *session, int offered,
                  struct answer *answer);
/* The program has not got the session: it may offer vipd's segment once more. */
void segment_hand_back(struct session *session);
/* Note in vipd's segment which process may come back with it. */
void segment_own(const struct client *client, struct session *session);
/* Note in vipd's segment that the session has ended: no later vipd goes on with it. Not if it was
 * handed back. */
void segment_closed(const struct session *session);
/* From now on the program, and the next vipd, do not see what this vipd writes into vipd's segment.
 * false: no memory; nothing has changed. */
bool segment_let_go(const struct session *session);
/* When a process began, in clock ticks since boot; 0: not known, and errno is 0 or says why. */
uint64_t process_start(pid_t pid);

/*
 * memory.c: do the files of the client's user take at most [limits] register_bytes_per_uid? If not,
 * the answer has ERROR_RESOURCE and the reason.
 */
bool memory_within_limit(struct client *client, struct answer *answer);

/* ---- events.c ---- */

extern const struct nic_sink client_sink; /* its ctx is the client */

/* Send the events that wait, until the socket is full. */
void events_flush(struct client *client);
/* Watch the event socket for reading, and for writing if events wait. */
void events_listen(struct session *session);
/* The event socket is readable: PlaceDone messages, or its end. */
void events_receive(struct client *client);
void events_drop(struct session *session);
/* Does a part of a message wait among the events? The other events may be lost with this vipd: the
 * state of a VI, and the answers to requests that are sent again, say the same. */
bool events_hold_data(const struct session *session);

#endif

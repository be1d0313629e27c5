/*
 * The functions that the provider's files share; via.h has the objects.
 */
#ifndef OFI_CALLS_H
#define OFI_CALLS_H

#include "job/key.h"
#include "ofi/via.h"

#define VIA_WARN(subsys, ...) FI_WARN(&via_provider, subsys, __VA_ARGS__)
#define VIA_INFO(subsys, ...) FI_INFO(&via_provider, subsys, __VA_ARGS__)

/* ---- settings.c ---- */

/* The values of FI_VIA_* in the environment; settings.c has a help text for each. */
struct via_settings {
    char *nic;
    int credit_batch;
    int inject_bytes;
    int connect_timeout_ms;
    int linger_ms;
    int cm_threads;
    int spin_us;
    int mr_cache;
    int refuse_every;
    int loss_fatal;
    int ring_bytes;
    int eager_bytes;
};
extern struct via_settings via_settings;
void via_settings_read(void);

/* The libfabric error (negative, or 0) for a VIPL code. */
int via_errno(VIP_RETURN code);
uint64_t via_now_ns(void);

/* ---- addr.c ---- */

/*
 * The address that a program gets for an endpoint of the second kind (FI_EP_RDM): its socket
 * address, and the key that callers must have (job/key.h). An MPI library sends this address to the
 * other processes through the launcher. A key of zeros means: no key.
 */
struct via_name {
    struct sockaddr_in at;
    struct job_key key;
};
#define VIA_ADDR_FORMAT (FI_PROV_SPECIFIC | 0x561A) /* fi_info.addr_format of a struct via_name */

/* Make a socket address with port 0 from a host address of VIPL (6 bytes). */
void via_addr_from_host(const uint8_t *host, struct sockaddr_in *ret);
/* Copy an address for fi_getname and fi_getpeer. *bytes: the room; on return the full length.
 * Outcomes: 0; -FI_ETOOSMALL: only a part was copied. */
int via_addr_copy(const struct sockaddr_in *name, void *addr, size_t *bytes);
/* Like via_addr_copy, but also copies the key if the domain's addresses have one. */
int via_name_copy(const struct via_domain *domain, const struct via_name *name, void *addr,
                  size_t *bytes);
/* Room for a VIP_NET_ADDRESS with our discriminator. */
union via_net_address {
    VIP_NET_ADDRESS net;
    char room[256]; /* discriminators of other programs have up to 128 bytes */
};
void via_net_address(const struct sockaddr_in *addr, const VIP_NIC_ATTRIBUTES *own,
                     union via_net_address *ret);
/* The reverse of via_net_address; the port is 0 if the provider has not made the discriminator. */
void via_net_address_read(const VIP_NET_ADDRESS *net, struct sockaddr_in *ret);

/* ---- info.c ---- */

int via_getinfo(uint32_t version, const char *node, const char *service, uint64_t flags,
                const struct fi_info *hints, struct fi_info **ret);
void via_info_cleanup(void);

/* ---- fabric.c, domain.c, mr.c, eq.c, cq_ops.c, pep.c, ep_ops.c: what libfabric opens ---- */

int via_fabric_open(struct fi_fabric_attr *attr, struct fid_fabric **ret, void *context);
int via_domain_open(struct fid_fabric *fid, struct fi_info *info, struct fid_domain **ret,
                    void *context);
int via_eq_open(struct fid_fabric *fid, struct fi_eq_attr *attr, struct fid_eq **ret,
                void *context);
int via_cq_open(struct fid_domain *fid, struct fi_cq_attr *attr, struct fid_cq **ret,
                void *context);
int via_pep_open(struct fid_fabric *fid, struct fi_info *info, struct fid_pep **ret, void *context);
int via_ep_open(struct fid_domain *fid, struct fi_info *info, struct fid_ep **ret, void *context);
int via_av_open(struct fid_domain *fid, struct fi_av_attr *attr, struct fid_av **ret,
                void *context);
extern struct fi_ops_mr via_mr_ops;
/* Find or register a region that contains this range and has at least these rights. via_region_put
 * ends the use of the region. */
int via_region_get(struct via_domain *domain, const void *buf, size_t len, uint64_t rights,
                   struct via_region **ret);
void via_region_put(struct via_domain *domain, struct via_region *region);
void via_mr_cache_drop(struct via_domain *domain);

/* ---- eq.c ---- */

/* Put an event into the queue. The queue copies `data`, and frees `info` later. */
void via_eq_put(struct via_eq *eq, uint32_t event, fid_t fid, struct fi_info *info,
                const void *data, size_t bytes);
/* Put an error of an endpoint into the event queue. */
void via_eq_put_error(struct via_eq *eq, fid_t fid, int err, int prov_errno, const void *data,
                      size_t bytes);
/* Drop the events of an object that is being closed. */
void via_eq_forget(struct via_eq *eq, fid_t fid);
int via_eq_trywait(struct via_eq *eq);

/* ---- cq.c ---- */

/* Make a completion queue. If it is for the program, cq_ops.c adds the table of calls. Outcomes: 0;
 * negative error. */
int via_cq_make(struct via_domain *domain, struct via_cq **ret);
/* Free a queue to which no endpoint is bound any more. */
void via_cq_free(struct via_cq *cq);
/* Bind an endpoint that needs room for `operations` completions. Outcomes: 0; negative error. */
int via_cq_bind(struct via_cq *cq, size_t operations);
/* Put a completion for the program into the queue. */
void via_cq_tell(struct via_cq *cq, const struct via_comp *comp);
/* Like via_cq_tell, but under cq->lock and without a change of soft_fd. */
void via_cq_put(struct via_cq *cq, const struct via_comp *comp);
/* Make the reads of all completion queues fail from now on, because a completion or message is
 * lost, or because a peer has sent invalid data. */
void via_cqs_fail(struct via_domain *domain, const char *why);
/* Take the oldest completion out of the list of a queue without soft_fd; under cq->lock. The
 * completion is valid until the next via_cq_put. NULL: the list is empty. */
const struct via_comp *via_cq_take(struct via_cq *cq);
/* Make soft_fd readable if the list has entries or `signaled` is set, else not. Under cq->lock. */
void via_cq_signal(struct via_cq *cq);

/* ---- cq_ops.c ---- */

/* May the program sleep on the queue's descriptor? 0 or -FI_EAGAIN. */
int via_cq_trywait(struct via_cq *cq);

/* ---- reap.c ---- */

/* Handle one entry of VIPL's queue; false: the queue is empty. Under cq->lock. */
bool via_reap_cq(struct via_cq *cq);
/* Handle one completed descriptor. false: there is none. Under cq->lock and ep->lock. */
bool via_reap_ep(struct via_ep *ep, bool receive);
/* Handle all completions in ep->tx_cq. The caller holds no lock. */
void via_reap_sends(struct via_ep *ep);
/* Report as cancelled all operations that were never posted or never completed. Under the locks of
 * both queues and ep->lock. */
void via_reap_cancel(struct via_ep *ep);
void via_cqs_lock(struct via_ep *ep);
void via_cqs_unlock(struct via_ep *ep);

/* ---- cm.c ---- */

/* Outcomes: 0; negative error: then there is nothing to free. */
int via_cm_start(struct via_fabric *fabric);
/* Sleep until a connection request has come or an attempt to connect has a result, and handle these
 * requests and results. For the fabric's thread, without locks. false: via_cm_stop, or an error. */
bool via_cm_round(struct via_fabric *fabric);
/* Make via_cm_round return false, and wait for the end of the threads that accept. */
void via_cm_stop(struct via_fabric *fabric);
/* Free fabric->cm, after the last round. */
void via_cm_free(struct via_fabric *fabric);
int via_cm_listen(struct via_pep *pep);
void via_cm_unlisten(struct via_pep *pep);
/* Start to connect, with ep->cm_data as private data. An event reports the outcome. */
int via_cm_connect(struct via_ep *ep);
int via_cm_accept(struct via_ep *ep);
/* Stop connecting or accepting. On return, no other thread connects or accepts with ep. */
void via_cm_cancel(struct via_ep *ep);

/* ---- ep_state.c ---- */

/* The connection is made: set the state and queue an event. hello: from the peer. Any thread.
 * false: the connection has ended already. */
bool via_ep_connected(struct via_ep *ep, const struct via_hello *hello, const void *data);
/* The connection has ended, but not by a call of this side: set the state and queue an event. */
void via_ep_lost(struct via_ep *ep, const char *why);
void via_error_handler(VIP_PVOID context, VIP_ERROR_DESCRIPTOR *error);

/* ---- hello.c ---- */

/* Make private data for the other side: our hello, then the program's data. */
void via_hello_write(struct via_ep *ep, const void *param, size_t bytes, VIPX_PRIVATE_DATA *ret);
/* false: the private data do not come from this provider. */
bool via_hello_read(const VIPX_PRIVATE_DATA *data, struct via_hello *ret);

/* ---- request.c ---- */

/* Reject the request with this fi_info.handle, and free it. NULL: do nothing. */
void via_request_drop(fid_t handle);

/* ---- ep.c ---- */

int via_ep_enable(struct via_ep *ep);
/* Wait until all sent data have arrived, at most FI_VIA_LINGER. Then end the connection. */
void via_ep_disconnect(struct via_ep *ep);
/* End an enabled endpoint. On return, all its operations have their completions. */
void via_ep_dismantle(struct via_ep *ep);

/* ---- post.c: under ep->lock unless a comment says otherwise ---- */

/* May the program post a send now? Returns 0 or a negative error. */
ssize_t via_post_may_send(struct via_ep *ep);
/* Clear and return the next send (tx) or receive (rx) descriptor and its via_op. */
VIP_DESCRIPTOR *via_post_tx(struct via_ep *ep, struct via_op **ret_op);
VIP_DESCRIPTOR *via_post_rx(struct via_ep *ep, struct via_op **ret_op);
/* Put local memory into a descriptor, from segment `at` on. -FI_EINVAL: it is not registered. */
int via_post_segments(VIP_DESCRIPTOR *desc, unsigned at, const struct iovec *iov, void **mr,
                      size_t count);
/* Put one piece of local memory into segment `at`. */
void via_post_segment(VIP_DESCRIPTOR *desc, unsigned at, const void *addr, size_t bytes,
                      VIP_MEM_HANDLE handle);
/* Fill the address segment of an RDMA descriptor. */
void via_post_remote(VIP_DESCRIPTOR *desc, uint16_t control, uint64_t addr, uint32_t handle);
/* Copy data into the inject slot of the next send, and put the slot into segment `at`. */
void via_post_inject(struct via_ep *ep, VIP_DESCRIPTOR *desc, unsigned at, const void *buf,
                     size_t bytes);
/* Queue the last descriptor of via_post_tx, and post all queued sends that have credits. consumes:
 * the send uses up a receive descriptor of the peer. */
void via_post_send(struct via_ep *ep, bool consumes);
ssize_t via_post_recv(struct via_ep *ep, VIP_DESCRIPTOR *desc);
/* Post the queued sends that have credits. */
void via_post_push(struct via_ep *ep);
/* The list of endpoints that wait for credits, without ep->lock: add an endpoint; post all sends of
 * listed endpoints that have credits; remove an endpoint. */
void via_post_wait(struct via_ep *ep);
void via_post_push_all(struct via_domain *domain);
void via_post_wait_no_more(struct via_ep *ep);
/* Send credits to the peer if a batch is full, the peer has few left, or ep->tell_now is set. */
void via_post_credits(struct via_ep *ep);
/* The number of receive descriptors that the peer has posted, as far as we know. */
uint64_t via_post_told(const struct via_ep *ep);
void via_post_bye(struct via_ep *ep);
size_t via_iov_bytes(const struct iovec *iov, size_t count);

/* ---- transfer.c: under ep->lock ---- */

/* Post the pieces of ep->transfer that fit into the send queue. */
void via_transfer_go_on(struct via_ep *ep);

/* ---- msg.c, rma.c ---- */

extern struct fi_ops_msg via_msg_ops;
extern struct fi_ops_rma via_rma_ops;

#endif

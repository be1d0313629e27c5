/*
 * Functions for calls that VIA does not support: they return -FI_ENOSYS. libfabric does not check
 * the pointers in its tables, so each entry of a table needs a function.
 */
#ifndef OFI_NOSYS_H
#define OFI_NOSYS_H

#include "ofi/via.h"

int via_no_close(struct fid *fid);
int via_no_bind(struct fid *fid, struct fid *other, uint64_t flags);
int via_no_control(struct fid *fid, int command, void *arg);
int via_no_ops_open(struct fid *fid, const char *name, uint64_t flags, void **ops, void *context);
int via_no_ops_set(struct fid *fid, const char *name, uint64_t flags, void *ops, void *context);
int via_no_tostr(const struct fid *fid, char *buf, size_t len);

int via_no_wait_open(struct fid_fabric *fabric, struct fi_wait_attr *attr, struct fid_wait **ret);
int via_no_av_set(struct fid_av *av, struct fi_av_set_attr *attr, struct fid_av_set **ret,
                  void *context);
int via_no_sep(struct fid_domain *domain, struct fi_info *info, struct fid_ep **ret, void *context);
int via_no_cntr(struct fid_domain *domain, struct fi_cntr_attr *attr, struct fid_cntr **ret,
                void *context);
int via_no_poll(struct fid_domain *domain, struct fi_poll_attr *attr, struct fid_poll **ret);
int via_no_stx(struct fid_domain *domain, struct fi_tx_attr *attr, struct fid_stx **ret,
               void *context);
int via_no_srx(struct fid_domain *domain, struct fi_rx_attr *attr, struct fid_ep **ret,
               void *context);
int via_no_query_atomic(struct fid_domain *domain, enum fi_datatype type, enum fi_op op,
                        struct fi_atomic_attr *attr, uint64_t flags);
int via_no_query_collective(struct fid_domain *domain, enum fi_collective_op coll,
                            struct fi_collective_attr *attr, uint64_t flags);

int via_no_tx_ctx(struct fid_ep *ep, int index, struct fi_tx_attr *attr, struct fid_ep **ret,
                  void *context);
int via_no_rx_ctx(struct fid_ep *ep, int index, struct fi_rx_attr *attr, struct fid_ep **ret,
                  void *context);
int via_no_setname(fid_t fid, void *addr, size_t bytes);
int via_no_getpeer(struct fid_ep *ep, void *addr, size_t *bytes);
int via_no_connect(struct fid_ep *ep, const void *addr, const void *param, size_t bytes);
int via_no_listen(struct fid_pep *pep);
int via_no_accept(struct fid_ep *ep, const void *param, size_t bytes);
int via_no_reject(struct fid_pep *pep, fid_t handle, const void *param, size_t bytes);
int via_no_shutdown(struct fid_ep *ep, uint64_t flags);
ssize_t via_no_size_left(struct fid_ep *ep);
int via_no_join(struct fid_ep *ep, const void *addr, uint64_t flags, struct fid_mc **ret,
                void *context);

#endif

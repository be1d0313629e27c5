/*
 * A connection must be made even if the server accepts the request many seconds late, as on a busy
 * machine. Uses libfabric's calls; both ends are in this process.
 * usage: latetest; FI_PROVIDER_PATH names the provider's folder
 */
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>

#define WAIT_MS 60000 /* longest wait for an event that must come */
/* Seconds until the accept: more than the 5 s for which a request without listener is repeated. */
#define LATE_S 7

#define CHECK(what)                                                                                \
    do {                                                                                           \
        if (!(what)) {                                                                             \
            fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #what);                     \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)

static struct fid_fabric *fabric;
static struct fid_domain *domain;
static struct fid_eq *eq;
static struct fid_cq *cq;

/* Returns the provider's own entry for connected endpoints (FI_EP_MSG). */
static struct fi_info *ask(void)
{
    struct fi_info *hints = fi_allocinfo(), *list = NULL, *own;

    CHECK(hints != NULL);
    hints->caps = FI_MSG;
    hints->domain_attr->mr_mode = FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY;
    hints->ep_attr->type = FI_EP_MSG;
    hints->fabric_attr->prov_name = strdup("via");
    CHECK(fi_getinfo(FI_VERSION(1, 9), NULL, NULL, 0, hints, &list) == 0);
    own = fi_dupinfo(list);
    CHECK(own != NULL);
    fi_freeinfo(list);
    fi_freeinfo(hints);
    return own;
}

/* Wait for the next event; it must be the wanted event. */
static struct fi_info *await(uint32_t wanted)
{
    struct fi_eq_cm_entry entry = {0};
    uint32_t event = 0;
    ssize_t bytes = fi_eq_sread(eq, &event, &entry, sizeof(entry), WAIT_MS, 0);

    if (bytes < 0 || event != wanted)
        fprintf(stderr, "event %u (%zd) instead of %u\n", event, bytes, wanted);
    CHECK(bytes >= 0 && event == wanted);
    return entry.info;
}

static struct fid_ep *endpoint(struct fi_info *info)
{
    struct fid_ep *ep;

    CHECK(fi_endpoint(domain, info, &ep, NULL) == 0);
    CHECK(fi_ep_bind(ep, &eq->fid, 0) == 0);
    CHECK(fi_ep_bind(ep, &cq->fid, FI_SEND | FI_RECV) == 0);
    CHECK(fi_enable(ep) == 0);
    return ep;
}

int main(void)
{
    struct fi_eq_attr eq_attr = {.wait_obj = FI_WAIT_UNSPEC};
    struct fi_cq_attr cq_attr = {.format = FI_CQ_FORMAT_CONTEXT};
    struct fi_info *info = ask(), *request;
    struct sockaddr_in at;
    size_t bytes = sizeof(at);
    struct fid_ep *client, *server;
    struct fid_pep *listener;

    CHECK(fi_fabric(info->fabric_attr, &fabric, NULL) == 0);
    CHECK(fi_domain(fabric, info, &domain, NULL) == 0);
    CHECK(fi_eq_open(fabric, &eq_attr, &eq, NULL) == 0);
    CHECK(fi_cq_open(domain, &cq_attr, &cq, NULL) == 0);
    CHECK(fi_passive_ep(fabric, info, &listener, NULL) == 0);
    CHECK(fi_pep_bind(listener, &eq->fid, 0) == 0);
    CHECK(fi_listen(listener) == 0);
    CHECK(fi_getname(&listener->fid, &at, &bytes) == 0);
    client = endpoint(info);
    CHECK(fi_connect(client, &at, NULL, 0) == 0);
    request = await(FI_CONNREQ);
    sleep(LATE_S);
    server = endpoint(request);
    CHECK(fi_accept(server, NULL, 0) == 0);
    (void)await(FI_CONNECTED);
    (void)await(FI_CONNECTED);
    printf("   passed: an accept after %d s\n", LATE_S);
    fi_freeinfo(request);
    CHECK(fi_close(&client->fid) == 0);
    CHECK(fi_close(&server->fid) == 0);
    CHECK(fi_close(&listener->fid) == 0);
    CHECK(fi_close(&cq->fid) == 0);
    CHECK(fi_close(&eq->fid) == 0);
    CHECK(fi_close(&domain->fid) == 0);
    CHECK(fi_close(&fabric->fid) == 0);
    fi_freeinfo(info);
    return 0;
}

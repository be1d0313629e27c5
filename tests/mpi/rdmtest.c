/*
 * Tests endpoints that match tags, by libfabric's calls only: each rule separately, also functions
 * that Open MPI does not use (completion on matching, discarding, peers that have closed).
 * Endpoints of one process send messages to each other and to themselves, through the vipd of
 * VIPD_RUNTIME_DIR. Prints a line per part.
 * usage: rdmtest [strangers]; FI_PROVIDER_PATH names the provider's folder
 * strangers: prints the ports of three endpoints; strangers may connect until the input ends
 */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_tagged.h>

#define WAIT_S     60 /* longest wait for an event that must come */
#define LONG_BYTES 3000000
#define ALL_BITS   (~(uint64_t)0)

#define CHECK(what)                                                                                \
    do {                                                                                           \
        if (!(what)) {                                                                             \
            fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #what);                     \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)

/* An endpoint with its queues and addresses. In each node the address of node i has number i. */
struct node {
    struct fid_ep *ep;
    struct fid_cq *cq;
    struct fid_av *av;
    union {
        struct sockaddr_in at; /* the first part of every address */
        char bytes[64];
    } name;
    size_t name_bytes;
};

static struct fi_info *info;
static struct fid_fabric *fabric;
static struct fid_domain *domain;
static struct node a, b, c;

static double now_s(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

/* ---- set-up ---------------------------------------------------------------------------------- */

/* The provider's own entry of fi_getinfo, not an entry of ofi_rxm; NULL if there is none. */
static struct fi_info *ask_for(enum fi_progress data_progress, uint32_t addr_format,
                               const char *node, const char *service, uint64_t flags)
{
    struct fi_info *hints = fi_allocinfo(), *list = NULL, *own = NULL;

    CHECK(hints != NULL);
    hints->caps = FI_TAGGED | FI_MSG | FI_DIRECTED_RECV;
    hints->ep_attr->type = FI_EP_RDM;
    hints->domain_attr->data_progress = data_progress;
    hints->addr_format = addr_format;
    hints->fabric_attr->prov_name = strdup("via");
    if (fi_getinfo(FI_VERSION(1, 9), node, service, flags, hints, &list) != 0)
        list = NULL;
    for (struct fi_info *at = list; at != NULL && own == NULL; at = at->next)
        if (strcmp(at->fabric_attr->prov_name, "via") == 0)
            own = fi_dupinfo(at);
    fi_freeinfo(hints);
    fi_freeinfo(list);
    return own;
}

static struct fi_info *ask(enum fi_progress data_progress)
{
    return ask_for(data_progress, FI_FORMAT_UNSPEC, NULL, NULL, 0);
}

static void node_open_on(struct fid_domain *of, struct fi_info *what, enum fi_wait_obj wait_obj,
                         struct node *node)
{
    struct fi_cq_attr cq_attr = {.format = FI_CQ_FORMAT_TAGGED, .wait_obj = wait_obj};
    struct fi_av_attr av_attr = {.type = FI_AV_MAP};

    CHECK(fi_endpoint(of, what, &node->ep, NULL) == 0);
    CHECK(fi_cq_open(of, &cq_attr, &node->cq, NULL) == 0);
    CHECK(fi_av_open(of, &av_attr, &node->av, NULL) == 0);
    CHECK(fi_ep_bind(node->ep, &node->cq->fid, FI_TRANSMIT | FI_RECV) == 0);
    CHECK(fi_ep_bind(node->ep, &node->av->fid, 0) == 0);
    CHECK(fi_enable(node->ep) == 0);
    node->name_bytes = sizeof(node->name);
    CHECK(fi_getname(&node->ep->fid, &node->name, &node->name_bytes) == 0);
    CHECK(node->name.at.sin_port != 0);
}

static void node_open(struct node *node)
{
    node_open_on(domain, info, FI_WAIT_NONE, node);
}

static void node_close(struct node *node)
{
    CHECK(fi_close(&node->ep->fid) == 0);
    CHECK(fi_close(&node->cq->fid) == 0);
    CHECK(fi_close(&node->av->fid) == 0);
}

/* Give the node the addresses of all nodes: a gets number 0, b 1, c 2. */
static void introduce(struct node *node)
{
    const struct node *all[] = {&a, &b, &c};

    for (fi_addr_t i = 0; i < 3; i++) {
        char back[64];
        size_t bytes = sizeof(back);
        fi_addr_t number = FI_ADDR_UNSPEC;

        CHECK(fi_av_insert(node->av, &all[i]->name, 1, &number, 0, NULL) == 1 && number == i);
        CHECK(fi_av_lookup(node->av, number, back, &bytes) == 0);
        CHECK(bytes == all[i]->name_bytes && memcmp(back, &all[i]->name, bytes) == 0);
    }
}

/* ---- helpers --------------------------------------------------------------------------------- */

/* Let the provider make progress for all nodes. */
static void stir(void)
{
    CHECK(fi_cq_read(a.cq, NULL, 0) <= 0);
    CHECK(fi_cq_read(b.cq, NULL, 0) <= 0);
    CHECK(fi_cq_read(c.cq, NULL, 0) <= 0);
}

/* Wait for the next completion of a node. Returns 0, or the error code that *error has. */
static int next(struct node *node, struct fi_cq_tagged_entry *entry, struct fi_cq_err_entry *error)
{
    double end_s = now_s() + WAIT_S;

    for (;;) {
        ssize_t rc;

        stir();
        rc = fi_cq_read(node->cq, entry, 1);
        if (rc == 1)
            return 0;
        if (rc == -FI_EAVAIL) {
            memset(error, 0, sizeof(*error));
            CHECK(fi_cq_readerr(node->cq, error, 0) == 1);
            return error->err;
        }
        CHECK(rc == -FI_EAGAIN && now_s() < end_s);
    }
}

static void expect(struct node *node, const void *context, size_t len)
{
    struct fi_cq_tagged_entry entry;
    struct fi_cq_err_entry error;

    CHECK(next(node, &entry, &error) == 0);
    CHECK(entry.op_context == context);
    CHECK((entry.flags & FI_SEND) != 0 || entry.len == len);
}

static void expect_error(struct node *node, const void *context, int err)
{
    struct fi_cq_tagged_entry entry;
    struct fi_cq_err_entry error;

    CHECK(next(node, &entry, &error) == err);
    CHECK(error.op_context == context);
}

static void expect_nothing(struct node *node)
{
    struct fi_cq_tagged_entry entry;

    for (int i = 0; i < 2000; i++) {
        stir();
        CHECK(fi_cq_read(node->cq, &entry, 1) == -FI_EAGAIN);
    }
}

static void send_to(struct node *node, fi_addr_t dest, const void *buf, size_t len, uint64_t tag,
                    uint64_t flags, void *context)
{
    struct iovec iov = {.iov_base = (void *)buf, .iov_len = len};
    struct fi_msg_tagged msg = {
        .msg_iov = &iov, .iov_count = 1, .addr = dest, .tag = tag, .context = context, .data = 77};
    double end_s = now_s() + WAIT_S;
    ssize_t rc;

    while ((rc = fi_tsendmsg(node->ep, &msg, flags)) == -FI_EAGAIN) {
        CHECK(now_s() < end_s);
        stir();
    }
    CHECK(rc == 0);
}

static void want(struct node *node, fi_addr_t src, void *buf, size_t len, uint64_t tag,
                 uint64_t ignore, void *context)
{
    CHECK(fi_trecv(node->ep, buf, len, NULL, src, tag, ignore, context) == 0);
}

static ssize_t search_for(struct node *node, uint64_t tag, uint64_t flags, void *context)
{
    struct fi_msg_tagged msg = {.addr = FI_ADDR_UNSPEC, .tag = tag, .context = context};

    return fi_trecvmsg(node->ep, &msg, flags);
}

/* Wait until the node has got a message with this tag for which no receive is posted. */
static void await_early(struct node *node, uint64_t tag)
{
    struct fi_cq_tagged_entry entry;
    struct fi_cq_err_entry error;
    double end_s = now_s() + WAIT_S;

    do {
        CHECK(now_s() < end_s);
        CHECK(search_for(node, tag, FI_PEEK, &entry) == 0);
    } while (next(node, &entry, &error) != 0);
}

static char *pattern(size_t bytes, unsigned seed)
{
    char *buf = malloc(bytes + 1);

    CHECK(buf != NULL);
    for (size_t i = 0; i < bytes; i++)
        buf[i] = (char)(i * 7 + seed + (i >> 9));
    return buf;
}

/* ---- parts ----------------------------------------------------------------------------------- */

/* Both nodes connect at the same time: each gets a request while its own request is under way. */
static void part_cross(void)
{
    char x[8], y[8];
    ssize_t rc_a = -FI_EAGAIN, rc_b = -FI_EAGAIN;
    double end_s = now_s() + WAIT_S;

    want(&a, 1, x, sizeof(x), 1, 0, x);
    want(&b, 0, y, sizeof(y), 2, 0, y);
    while (rc_a == -FI_EAGAIN || rc_b == -FI_EAGAIN) {
        CHECK(now_s() < end_s);
        if (rc_a == -FI_EAGAIN)
            rc_a = fi_tinject(a.ep, "from a.", 8, 1, 2);
        if (rc_b == -FI_EAGAIN)
            rc_b = fi_tinject(b.ep, "from b.", 8, 0, 1);
        stir();
    }
    CHECK(rc_a == 0 && rc_b == 0);
    expect(&a, x, 8);
    expect(&b, y, 8);
    CHECK(strcmp(x, "from b.") == 0 && strcmp(y, "from a.") == 0);
}

/* Node a sends short and long messages to b and to itself, before or after a receive is posted. */
static void part_sizes(void)
{
    static const size_t sizes[] = {0, 1, 100, 16384, 16385, LONG_BYTES};
    char *to = malloc(LONG_BYTES);

    CHECK(to != NULL);
    for (unsigned i = 0; i < 4 * sizeof(sizes) / sizeof(sizes[0]); i++) {
        size_t len = sizes[i / 4];
        struct node *receiver = i % 2 ? &a : &b;
        char *from = pattern(len, i);

        memset(to, 0, len);
        if (i & 2)
            want(receiver, 0, to, LONG_BYTES, 5, 0, to);
        send_to(&a, i % 2 ? 0 : 1, from, len, 5, FI_COMPLETION, from);
        /* A message from a to a arrives at once, so wait only for a message to b. */
        if (!(i & 2) && receiver == &b)
            await_early(&b, 5);
        if (!(i & 2))
            want(receiver, 0, to, LONG_BYTES, 5, 0, to);
        if (receiver == &a) {
            struct fi_cq_tagged_entry one, two;
            struct fi_cq_err_entry error;

            CHECK(next(&a, &one, &error) == 0 && next(&a, &two, &error) == 0);
            CHECK((one.op_context == from) != (two.op_context == from));
        } else {
            expect(&b, to, len);
            expect(&a, from, len);
        }
        CHECK(memcmp(from, to, len) == 0);
        free(from);
    }
    free(to);
}

/* A send with one of these flags must complete only after a receive has matched it. */
static void part_matched(void)
{
    static const uint64_t flags[] = {FI_DELIVERY_COMPLETE, FI_MATCH_COMPLETE};
    char to[16];

    for (int i = 0; i < 4; i++) {
        fi_addr_t dest = i / 2 ? 0 : 1;
        struct node *receiver = i / 2 ? &a : &b;

        send_to(&a, dest, "matched", 8, 6, FI_COMPLETION | flags[i % 2], &a);
        expect_nothing(&a);
        want(receiver, FI_ADDR_UNSPEC, to, sizeof(to), 6, 0, to);
        if (receiver == &a) {
            struct fi_cq_tagged_entry one, two;
            struct fi_cq_err_entry error;

            CHECK(next(&a, &one, &error) == 0 && next(&a, &two, &error) == 0);
        } else {
            expect(&b, to, 8);
            expect(&a, &a, 8);
        }
    }
}

/* Tests remote data in completions, ignored bits of tags, and receives from one source only. */
static void part_matching(void)
{
    struct fi_cq_tagged_entry entry;
    struct fi_cq_err_entry error;
    char x[8], y[8], z[8];

    want(&b, 2, x, 8, 0x10, 0xf, x);
    want(&b, FI_ADDR_UNSPEC, y, 8, 0x10, 0xf, y);
    want(&b, FI_ADDR_UNSPEC, z, 8, 0, ALL_BITS, z);
    send_to(&a, 1, "first", 6, 0x1a, FI_REMOTE_CQ_DATA, NULL);
    CHECK(next(&b, &entry, &error) == 0);
    CHECK(entry.op_context == y && entry.tag == 0x1a && entry.data == 77 && entry.len == 6);
    CHECK(entry.flags == (FI_RECV | FI_TAGGED | FI_REMOTE_CQ_DATA));
    send_to(&c, 1, "second", 7, 0x1b, 0, NULL);
    CHECK(next(&b, &entry, &error) == 0);
    CHECK(entry.op_context == x && entry.tag == 0x1b && entry.flags == (FI_RECV | FI_TAGGED));
    send_to(&a, 1, "third", 6, 0x20, 0, NULL);
    expect(&b, z, 6);
    CHECK(strcmp(x, "second") == 0 && strcmp(y, "first") == 0 && strcmp(z, "third") == 0);
    for (int i = 0; i < 3; i++)
        expect(i == 2 ? &c : &a, NULL, 0);
}

/* An untagged message must match no tagged receive, a tagged message no untagged receive. */
static void part_untagged(void)
{
    char x[8], y[8];

    want(&b, FI_ADDR_UNSPEC, x, 8, 0, ALL_BITS, x);
    while (fi_inject(a.ep, "plain", 6, 1) == -FI_EAGAIN)
        stir();
    expect_nothing(&b);
    CHECK(fi_recv(b.ep, y, 8, NULL, 0, y) == 0);
    expect(&b, y, 6);
    send_to(&a, 1, "tagged", 7, 9, 0, NULL);
    expect(&b, x, 7);
    expect(&a, NULL, 0);
    CHECK(strcmp(x, "tagged") == 0 && strcmp(y, "plain") == 0);
}

static void part_peek(void)
{
    struct fi_cq_tagged_entry entry;
    struct fi_cq_err_entry error;
    struct iovec iov;
    struct fi_msg_tagged claim = {.msg_iov = &iov, .iov_count = 1, .context = &iov};
    char *one = pattern(50000, 1), *two = pattern(50000, 2), to[50000], third[4];

    CHECK(search_for(&b, 7, FI_PEEK, &b) == 0);
    expect_error(&b, &b, FI_ENOMSG);
    CHECK(fi_trecv(b.ep, to, sizeof(to), NULL, 99, 7, 0, to) == -FI_EINVAL);
    send_to(&a, 1, one, 50000, 7, 0, one);
    send_to(&a, 1, two, 50000, 7, 0, two);
    send_to(&a, 1, "gone", 5, 8, FI_DELIVERY_COMPLETE, &a);
    await_early(&b, 8);
    /* Claim the first message. Then a receive must get the second message. */
    CHECK(search_for(&b, 7, FI_PEEK | FI_CLAIM, &iov) == 0);
    CHECK(next(&b, &entry, &error) == 0 && entry.op_context == &iov && entry.len == 50000);
    want(&b, FI_ADDR_UNSPEC, to, sizeof(to), 7, 0, to);
    expect(&b, to, 50000);
    expect(&a, two, 0);
    CHECK(memcmp(to, two, 50000) == 0);
    CHECK(search_for(&b, 7, FI_PEEK, &b) == 0);
    expect_error(&b, &b, FI_ENOMSG);
    iov = (struct iovec){.iov_base = to, .iov_len = sizeof(to)};
    CHECK(fi_trecvmsg(b.ep, &claim, FI_CLAIM | FI_COMPLETION) == 0);
    expect(&b, &iov, 50000);
    expect(&a, one, 0);
    CHECK(memcmp(to, one, 50000) == 0);
    CHECK(fi_trecvmsg(b.ep, &claim, FI_CLAIM) == -FI_EINVAL);
    /* Discard a claimed message: its send with FI_DELIVERY_COMPLETE must complete. */
    CHECK(search_for(&b, 8, FI_PEEK | FI_CLAIM, third) == 0);
    expect(&b, third, 5);
    expect_nothing(&a);
    CHECK(search_for(&b, 8, FI_CLAIM | FI_DISCARD, third) == 0);
    expect(&b, third, 5);
    expect(&a, &a, 5);
    free(one);
    free(two);
}

static void part_cancel(void)
{
    char x[8] = "before", y[8];

    want(&b, FI_ADDR_UNSPEC, x, 8, 3, 0, x);
    want(&b, FI_ADDR_UNSPEC, y, 8, 3, 0, y);
    CHECK(fi_cancel(&b.ep->fid, x) == 0);
    expect_error(&b, x, FI_ECANCELED);
    CHECK(fi_cancel(&b.ep->fid, x) == -FI_ENOENT);
    send_to(&a, 1, "after", 6, 3, 0, NULL);
    expect(&b, y, 6);
    expect(&a, NULL, 0);
    CHECK(strcmp(x, "before") == 0 && strcmp(y, "after") == 0);
}

/* fi_enable must fail without an address vector or a queue, or with another endpoint's queue. */
static void part_busy(void)
{
    struct fid_ep *ep;

    CHECK(fi_endpoint(domain, info, &ep, NULL) == 0);
    CHECK(fi_enable(ep) == -FI_ENOAV);
    CHECK(fi_ep_bind(ep, &a.av->fid, 0) == 0);
    CHECK(fi_enable(ep) == -FI_ENOCQ);
    CHECK(fi_ep_bind(ep, &a.cq->fid, FI_TRANSMIT | FI_RECV) == 0);
    CHECK(fi_enable(ep) == -FI_EBUSY);
    CHECK(fi_close(&a.cq->fid) == -FI_EBUSY && fi_close(&a.av->fid) == -FI_EBUSY);
    CHECK(fi_close(&ep->fid) == 0);
}

/* If a message is longer than its receive, only bytes that fit are written; the send succeeds. */
static void part_truncation(void)
{
    static const size_t sizes[] = {1000, LONG_BYTES};
    struct fi_cq_tagged_entry entry;
    struct fi_cq_err_entry error;

    for (int i = 0; i < 4; i++) {
        size_t len = sizes[i / 2], room = i % 2 ? len / 2 : 0;
        char *from = pattern(len, 3), *to = calloc(1, len);

        CHECK(to != NULL);
        want(&b, FI_ADDR_UNSPEC, to, room, 4, 0, to);
        send_to(&a, 1, from, len, 4, 0, from);
        CHECK(next(&b, &entry, &error) == FI_ETRUNC);
        CHECK(error.op_context == to && error.len == room && error.olen == len - room);
        expect(&a, from, 0);
        CHECK(memcmp(from, to, room) == 0);
        for (size_t at = room; at < len; at++)
            CHECK(to[at] == 0);
        free(from);
        free(to);
    }
}

/* Send more messages than the rings hold, short and long ones, before a receive is posted. */
static void part_flood(void)
{
    enum { COUNT = 3000 };
    static uint32_t got[COUNT][8];
    size_t medium = info->tx_attr->inject_size < 9000 ? info->tx_attr->inject_size : 9000;
    char *big = malloc(20000);

    CHECK(big != NULL);
    for (uint32_t i = 0; i < COUNT; i++) {
        size_t len = i % 100 == 7 ? 20000 : i % 10 == 3 ? medium : 32;

        memset(big, 0, 20000);
        memcpy(big, &i, sizeof(i));
        /* The receiver fetches a long message later, so the message's buffer must stay. */
        if (len == 20000) {
            char *own = malloc(len);

            CHECK(own != NULL);
            memcpy(own, big, len);
            send_to(&a, 1, own, len, 11, 0, own);
        } else {
            send_to(&a, 1, big, len, 11, FI_INJECT, NULL);
        }
    }
    free(big);
    big = malloc(20000);
    CHECK(big != NULL);
    for (uint32_t i = 0; i < COUNT; i++) {
        struct fi_cq_tagged_entry entry;
        struct fi_cq_err_entry error;

        want(&b, FI_ADDR_UNSPEC, big, 20000, 11, 0, got[i]);
        CHECK(next(&b, &entry, &error) == 0);
        memcpy(got[i], big, sizeof(got[i]));
        CHECK(entry.op_context == got[i] && got[i][0] == i);
    }
    for (uint32_t i = 0; i < COUNT; i++) {
        struct fi_cq_tagged_entry entry;
        struct fi_cq_err_entry error;

        CHECK(next(&a, &entry, &error) == 0);
        free(entry.op_context);
    }
    free(big);
}

/* A closed endpoint cannot be reached. Operations that wait for it must fail. */
static void part_gone(void)
{
    char *from = pattern(100000, 1), x[8];
    double end_s = now_s() + WAIT_S;
    ssize_t rc;

    send_to(&a, 2, from, 100000, 12, 0, from);
    await_early(&c, 12);
    want(&c, FI_ADDR_UNSPEC, x, 8, 13, 0, x);
    CHECK(fi_close(&c.ep->fid) == 0);
    expect_error(&c, x, FI_ECANCELED);
    expect_error(&a, from, FI_ECONNRESET);
    while ((rc = fi_tinject(a.ep, x, 1, 2, 1)) == -FI_EAGAIN) {
        CHECK(now_s() < end_s);
        stir();
    }
    CHECK(rc == -FI_EHOSTUNREACH);
    CHECK(fi_close(&c.cq->fid) == 0 && fi_close(&c.av->fid) == 0);
    node_open(&c);
    free(from);
}

/* Send one message; returns the provider's error if the peer cannot be reached. */
static ssize_t try_to_send(struct node *from, fi_addr_t dest, uint64_t tag)
{
    double end_s = now_s() + WAIT_S;
    ssize_t rc;

    while ((rc = fi_tinject(from->ep, "hello", 6, dest, tag)) == -FI_EAGAIN) {
        CHECK(now_s() < end_s);
        CHECK(fi_cq_read(from->cq, NULL, 0) <= 0);
        stir();
    }
    return rc;
}

/* Each address has a key. Without the right key, a sender must not reach the peer. */
static void part_keys(void)
{
    struct node d;
    char x[8];

    CHECK(a.name_bytes == 32 && memcmp(a.name.bytes + 16, b.name.bytes + 16, 16) != 0);
    for (int form = 0; form < 2; form++) {
        char wrong[64];

        node_open(&d);
        memcpy(wrong, a.name.bytes, sizeof(wrong));
        if (form == 0)
            wrong[31] ^= 1;
        else
            memset(wrong + 16, 0, 16);
        CHECK(fi_av_insert(d.av, wrong, 1, NULL, 0, NULL) == 1);
        CHECK(try_to_send(&d, 0, 14) == -FI_EHOSTUNREACH);
        node_close(&d);
    }
    node_open(&d);
    CHECK(fi_av_insert(d.av, a.name.bytes, 1, NULL, 0, NULL) == 1);
    want(&a, FI_ADDR_UNSPEC, x, sizeof(x), 14, 0, x);
    CHECK(try_to_send(&d, 0, 14) == 0);
    expect(&a, x, 6);
    node_close(&d);
}

/* Find a free port, and write its number as text. */
static void free_port(char text[8])
{
    struct sockaddr_in addr = {.sin_family = AF_INET};
    socklen_t bytes = sizeof(addr);
    int fd = socket(AF_INET, SOCK_STREAM, 0);

    CHECK(fd >= 0 && bind(fd, (struct sockaddr *)&addr, sizeof(addr)) == 0);
    CHECK(getsockname(fd, (struct sockaddr *)&addr, &bytes) == 0);
    close(fd);
    snprintf(text, 8, "%u", (unsigned)ntohs(addr.sin_port));
}

/* A server chooses its port. A client that knows only host and port (plain address) connects. */
static void part_plain(uint32_t addr_format)
{
    char port[8], host[INET_ADDRSTRLEN], x[8];
    struct node server, client;
    struct fi_info *served, *asked;
    struct fid_domain *of = NULL;

    free_port(port);
    inet_ntop(AF_INET, &a.name.at.sin_addr, host, sizeof(host));
    served = ask_for(FI_PROGRESS_UNSPEC, addr_format, NULL, port, FI_SOURCE);
    asked = ask_for(FI_PROGRESS_UNSPEC, addr_format, host, port, 0);
    CHECK(served != NULL && asked != NULL && asked->dest_addr != NULL);
    if (addr_format != FI_FORMAT_UNSPEC) {
        CHECK(fi_domain(fabric, served, &of, NULL) == 0);
        node_open_on(of, served, FI_WAIT_NONE, &server);
        node_open_on(of, asked, FI_WAIT_NONE, &client);
        CHECK(server.name_bytes == sizeof(struct sockaddr_in));
    } else {
        node_open_on(domain, served, FI_WAIT_NONE, &server);
        node_open_on(domain, asked, FI_WAIT_NONE, &client);
    }
    CHECK(ntohs(server.name.at.sin_port) == atoi(port));
    CHECK(fi_av_insert(client.av, asked->dest_addr, 1, NULL, 0, NULL) == 1);
    want(&server, FI_ADDR_UNSPEC, x, sizeof(x), 15, 0, x);
    CHECK(try_to_send(&client, 0, 15) == 0);
    expect(&server, x, 6);
    /* The server needs the client's name. A real client would send it in a message. */
    CHECK(fi_av_insert(server.av, &client.name, 1, NULL, 0, NULL) == 1);
    want(&client, FI_ADDR_UNSPEC, x, sizeof(x), 16, 0, x);
    CHECK(try_to_send(&server, 0, 16) == 0);
    expect(&client, x, 6);
    node_close(&client);
    node_close(&server);
    CHECK(of == NULL || fi_close(&of->fid) == 0);
    fi_freeinfo(served);
    fi_freeinfo(asked);
}

static void part_known_port(void)
{
    part_plain(FI_FORMAT_UNSPEC);
}

static void part_socket_addresses(void)
{
    part_plain(FI_SOCKADDR_IN);
}

/* An endpoint must accept queues with wait objects. MPICH opens such queues on ofi_rxm, which asks
 * for the kind of their wait object before it gets their descriptors. */
static void part_waiting(void)
{
    static const enum fi_wait_obj asked[] = {FI_WAIT_NONE, FI_WAIT_UNSPEC, FI_WAIT_FD};
    struct fi_info *hints = fi_allocinfo(), *layered;
    struct fid_fabric *own_fabric;
    struct fid_domain *own_domain;
    struct node node;

    CHECK(hints != NULL);
    for (int i = 0; i < 3; i++) {
        struct fi_cq_attr cq_attr = {.format = FI_CQ_FORMAT_TAGGED, .wait_obj = asked[i]};
        struct fi_eq_attr eq_attr = {.wait_obj = asked[i]};
        enum fi_wait_obj expected = asked[i] == FI_WAIT_NONE ? FI_WAIT_NONE : FI_WAIT_FD;
        enum fi_wait_obj of_cq = FI_WAIT_POLLFD, of_eq = FI_WAIT_POLLFD;
        struct fid_cq *cq;
        struct fid_eq *eq;

        CHECK(fi_cq_open(domain, &cq_attr, &cq, NULL) == 0);
        CHECK(fi_eq_open(fabric, &eq_attr, &eq, NULL) == 0);
        CHECK(fi_control(&cq->fid, FI_GETWAITOBJ, &of_cq) == 0 && of_cq == expected);
        CHECK(fi_control(&eq->fid, FI_GETWAITOBJ, &of_eq) == 0 && of_eq == expected);
        CHECK(fi_close(&cq->fid) == 0 && fi_close(&eq->fid) == 0);
    }
    hints->caps = FI_TAGGED | FI_MSG | FI_MULTI_RECV;
    hints->ep_attr->type = FI_EP_RDM;
    hints->domain_attr->mr_mode = FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY;
    hints->fabric_attr->prov_name = strdup("via;ofi_rxm");
    CHECK(fi_getinfo(FI_VERSION(1, 9), NULL, NULL, 0, hints, &layered) == 0);
    CHECK(fi_fabric(layered->fabric_attr, &own_fabric, NULL) == 0);
    CHECK(fi_domain(own_fabric, layered, &own_domain, NULL) == 0);
    node_open_on(own_domain, layered, FI_WAIT_FD, &node);
    node_close(&node);
    CHECK(fi_close(&own_domain->fid) == 0 && fi_close(&own_fabric->fid) == 0);
    fi_freeinfo(layered);
    fi_freeinfo(hints);
}

static const struct {
    const char *name;
    void (*run)(void);
} parts[] = {
    {"both begin at once", part_cross},
    {"sizes", part_sizes},
    {"completion on matching", part_matched},
    {"matching", part_matching},
    {"untagged", part_untagged},
    {"peek, claim, discard", part_peek},
    {"cancel", part_cancel},
    {"a queue that is taken", part_busy},
    {"truncation", part_truncation},
    {"flood", part_flood},
    {"a peer that has gone", part_gone},
    {"queues to wait for", part_waiting},
    {"keys", part_keys},
    {"a port of one's own choice", part_known_port},
    {"socket addresses", part_socket_addresses},
};

/* Let strangers connect until the input ends. Then messages must arrive as usual. */
static void serve_strangers(void)
{
    struct pollfd input = {.fd = STDIN_FILENO, .events = POLLIN};

    printf("ports %u %u %u\n", (unsigned)ntohs(a.name.at.sin_port),
           (unsigned)ntohs(b.name.at.sin_port), (unsigned)ntohs(c.name.at.sin_port));
    fflush(stdout);
    while (poll(&input, 1, 1) == 0)
        stir();
    part_cross();
    part_sizes();
    printf("   passed: strangers\n");
}

int main(int argc, char **argv)
{
    setenv("FI_VIA_CONNECT_TIMEOUT", "10000", 0);
    CHECK(ask(FI_PROGRESS_AUTO) == NULL);
    info = ask(FI_PROGRESS_UNSPEC);
    CHECK(info != NULL && info->ep_attr->type == FI_EP_RDM);
    CHECK(fi_fabric(info->fabric_attr, &fabric, NULL) == 0);
    CHECK(fi_domain(fabric, info, &domain, NULL) == 0);
    node_open(&a);
    node_open(&b);
    node_open(&c);
    introduce(&a);
    introduce(&b);
    introduce(&c);
    if (argc > 1 && strcmp(argv[1], "strangers") == 0)
        serve_strangers();
    for (size_t i = 0; argc == 1 && i < sizeof(parts) / sizeof(parts[0]); i++) {
        double start_s = now_s();

        parts[i].run();
        printf("   passed: %s (%.1f s)\n", parts[i].name, now_s() - start_s);
        fflush(stdout);
    }
    node_close(&a);
    node_close(&b);
    node_close(&c);
    CHECK(fi_close(&domain->fid) == 0);
    CHECK(fi_close(&fabric->fid) == 0);
    fi_freeinfo(info);
    return 0;
}

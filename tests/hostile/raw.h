/*
 * A session with vipd without libvipl, for programs that break the rules of the interface.
 *
 * Owns: the objects that an application gets from vipd, and the messages to get them. Checks only
 * what these programs need. If vipd has ended the session, a function returns NULL or -1.
 */
#ifndef TESTS_HOSTILE_RAW_H
#define TESTS_HOSTILE_RAW_H

#include <stdbool.h>
#include <stdint.h>

#include "proto/control.h"
#include "proto/control.pb-c.h"
#include "proto/comps.h"

#define RAW_VIS     60
#define RAW_REGIONS 3

struct raw_region {
    uint64_t addr, bytes;
    uint32_t handle;
    int fd; /* the region's memfd, or the arena's */
    uint8_t *at;
};

struct raw {
    int sock, events, doorbell, arena;
    int app_fd, vipd_fd; /* the program's segment, and vipd's */
    uint8_t *app;        /* writable */
    uint8_t *vipd;       /* read-only */
    uint8_t address[24]; /* the NIC's address */
    size_t address_len;
    uint32_t position; /* position of the next submission slot */
    struct {
        uint16_t vi;
        uint32_t gen;
        uint32_t taken[2]; /* completions read from the send queue, the receive queue */
    } vi[RAW_VIS];
    unsigned vi_count;
    struct raw_region region[RAW_REGIONS];
};

uint64_t raw_random(uint64_t *state);
/* A number at which arithmetic often goes wrong, or any number. */
uint64_t raw_odd_number(uint64_t *state);

/* If true, no memory file of the program gets a seal. This needs a vipd with unsealed.c. */
extern bool raw_unsealed;

/* raw_memory_ask: ask vipd for a memory file (MakeMemory); 0 or negative. raw_memory_take: receive
 * the file's descriptor, or -1. raw_memory: does both on a new connection. */
int raw_memory_ask(int sock, uint64_t bytes);
int raw_memory_take(int sock);
int raw_memory(uint64_t bytes);
/* If true, raw_memfd does not ask vipd for a memory file. */
extern bool raw_own_memory;
/* Returns a memory file. `seal`: a file of vipd, or, if vipd makes none, a file with seals. */
int raw_memfd(uint64_t bytes, bool seal);
/* Open a session on vip0. Outcomes: 0; -1 vipd refused, or there is no vipd. */
int raw_open(struct raw *raw);
void raw_close(struct raw *raw); /* close the sockets, without a close request */
/* Make a table of receives (proto/direct.h), before the first VI. Outcomes: its memfd; -1. */
int raw_table(const struct raw *raw);
bool raw_ended(const struct raw *raw);
/* Returns the reply to a request; NULL if the session has ended. */
Vip__Reply *raw_ask(int sock, const Vip__Request *request, const int *fds, unsigned count);
/* Give each page of a view to `each`. false: vipd does not answer. */
typedef void raw_page(void *ctx, const Vip__ShowReply *page);
bool raw_view(int sock, Vip__ShowRequest__What what, raw_page *each, void *ctx);
/* The code of the reply, or -1. *ret_number gets the reply's number (ret_number may be NULL). */
int raw_code(int sock, const Vip__Request *request, const int *fds, unsigned count,
             uint32_t *ret_number);

/* Create a VI. Outcomes: the index in raw->vi, or -1. */
int raw_vi(struct raw *raw, unsigned level, int cq);
int raw_cq(struct raw *raw);
/* Register raw->region[at]. 0 or -1. */
int raw_region(struct raw *raw, unsigned at, Vip__MemKind kind, uint64_t bytes);
/* Register raw->region[at] in the caller's file; raw then owns fd. 0 or -1. */
int raw_region_of(struct raw *raw, unsigned at, Vip__MemKind kind, uint64_t bytes, int fd);
/* Deregister the region; its file and its mapping stay. 0 or -1. */
int raw_deregister(const struct raw *raw, unsigned at);
/* Disconnect the VI in raw->vi[at]. */
int raw_disconnect(const struct raw *raw, unsigned at);
/* Connect VI a of client to VI b of server through vipd. 0 or -1. */
int raw_connect(struct raw *client, int a, struct raw *server, int b);

bool raw_room(const struct raw *raw, uint32_t slots);
/* Post one descriptor without any check; the caller has called raw_room. */
void raw_post(struct raw *raw, int at, enum vip_sq_kind kind, uint16_t control,
              const struct vip_shm_seg *segs, uint16_t count);
void raw_ring(const struct raw *raw);
/* Read one completion into *ret. false: there is none. */
bool raw_reap(struct raw *raw, int at, unsigned queue, struct vip_comp *ret);

#endif

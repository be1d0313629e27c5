/*
 * Each of N threads has one VI to every other thread; they connect peer to peer. A thread writes
 * data by RDMA Write into the memory of another thread, which polls a flag there. In 1999 this was
 * the fastest way, because the target uses up no descriptor and makes no call.
 *
 *   peers [DEVICE [DEVICE ...]]   threads use the devices in turn
 *
 * In each round every thread writes a block to each other thread, and then the round number to a
 * flag there. RDMA Writes of one VI become visible in order. So when the flag has changed, the
 * block has arrived.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <pthread.h>
#include <sched.h>
#include <vipl.h>

#define N          4
#define ROUNDS     300
#define BLOCK_INTS 1500
#define ADDR_SIZE  40
#define DEVICE     "/dev/via_eth0"

/*
 * Memory for one other thread. That thread writes into an `in` window of this thread; this thread
 * writes to it from an `out` window. Rounds use the two blocks and the two flags in turn.
 */
struct window {
    int block[2][BLOCK_INTS];
    volatile int flag[2]; /* number of the round whose block is complete */
};

/* A thread's memory, one registered region. */
struct shared {
    VIP_DESCRIPTOR desc[N][4]; /* for each thread: two rounds, each with a block and a flag */
    struct window in[N], out[N];
};

static struct peer {
    int me;
    char *device;
    pthread_t thread;
    VIP_NIC_HANDLE nic;
    VIP_NIC_ATTRIBUTES attrs;
    VIP_VI_HANDLE vi[N];
    VIP_MEM_HANDLE mem;
    struct shared *shared;
} peers[N];

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t all_there = PTHREAD_COND_INITIALIZER;
static int arrived, episode;

static void die(int me, const char *what, int code)
{
    fprintf(stderr, "peers: thread %d: %s: %d\n", me, what, code);
    exit(1);
}

#define DO(p, call)                                                                                \
    do {                                                                                           \
        int do_code = (int)(call);                                                                 \
        if (do_code != VIP_SUCCESS)                                                                \
            die((p)->me, #call, do_code);                                                          \
    } while (0)

static void barrier(void)
{
    int now;

    pthread_mutex_lock(&lock);
    now = episode;
    if (++arrived == N) {
        arrived = 0;
        episode++;
        pthread_cond_broadcast(&all_there);
    }
    while (now == episode)
        pthread_cond_wait(&all_there, &lock);
    pthread_mutex_unlock(&lock);
}

static void open_all(struct peer *p)
{
    VIP_VI_ATTRIBUTES vi_attrs;
    VIP_MEM_ATTRIBUTES mem_attrs;
    VIP_PROTECTION_HANDLE ptag;
    int i;

    DO(p, VipOpenNic(p->device, &p->nic));
    DO(p, VipQueryNic(p->nic, &p->attrs));
    DO(p, VipCreatePtag(p->nic, &ptag));
    p->shared = (struct shared *)valloc(sizeof(struct shared));
    memset(p->shared, 0, sizeof(struct shared));
    mem_attrs.Ptag = ptag;
    mem_attrs.EnableRdmaWrite = VIP_TRUE;
    mem_attrs.EnableRdmaRead = VIP_FALSE;
    DO(p, VipRegisterMem(p->nic, p->shared, sizeof(struct shared), &mem_attrs, &p->mem));
    memset(&vi_attrs, 0, sizeof(vi_attrs));
    vi_attrs.ReliabilityLevel = VIP_SERVICE_RELIABLE_DELIVERY;
    vi_attrs.MaxTransferSize = sizeof(int) * BLOCK_INTS;
    vi_attrs.Ptag = ptag;
    vi_attrs.EnableRdmaWrite = VIP_TRUE;
    for (i = 0; i < N; i++)
        if (i != p->me)
            DO(p, VipCreateVi(p->nic, &vi_attrs, NULL, NULL, &p->vi[i]));
}

/* Both addresses of a pair of threads have the same discriminator, made of the threads' numbers. */
static VIP_NET_ADDRESS *make_address(char *room, struct peer *host, int a, int b)
{
    VIP_NET_ADDRESS *addr = (VIP_NET_ADDRESS *)room;
    double disc = a < b ? a * 1000.0 + b : b * 1000.0 + a;

    memset(room, 0, ADDR_SIZE);
    addr->HostAddressLen = host->attrs.NicAddressLen;
    memcpy(addr->HostAddress, host->attrs.LocalNicAddress, addr->HostAddressLen);
    addr->DiscriminatorLen = sizeof(disc);
    memcpy(addr->HostAddress + addr->HostAddressLen, &disc, sizeof(disc));
    return addr;
}

/* Start all attempts to connect, then wait until each attempt has succeeded. */
static void connect_all(struct peer *p)
{
    char local[ADDR_SIZE], remote[ADDR_SIZE];
    VIP_VI_ATTRIBUTES attrs;
    VIP_RETURN code;
    int i;

    for (i = 0; i < N; i++)
        if (i != p->me)
            DO(p, VipConnectPeerRequest(p->vi[i], make_address(local, p, p->me, i),
                                        make_address(remote, &peers[i], p->me, i), 20000));
    for (i = 0; i < N; i++) {
        if (i == p->me)
            continue;
        if (i % 2) {
            DO(p, VipConnectPeerWait(p->vi[i], &attrs));
        } else {
            while ((code = VipConnectPeerDone(p->vi[i], &attrs)) == VIP_NOT_DONE)
                sched_yield();
            DO(p, code);
        }
        if (!attrs.EnableRdmaWrite)
            die(p->me, "the other side does not allow RDMA Writes", i);
    }
}

static void post_write(struct peer *p, int to, VIP_DESCRIPTOR *d, void *from, void *target,
                       int size)
{
    memset(d, 0, sizeof(*d));
    d->CS.SegCount = 2; /* the address segment and one data segment */
    d->CS.Control = VIP_CONTROL_OP_RDMAWRITE;
    d->CS.Length = size;
    d->DS[0].Remote.Data.Address = target;
    d->DS[0].Remote.Handle = peers[to].mem;
    d->DS[1].Local.Data.Address = from;
    d->DS[1].Local.Handle = p->mem;
    d->DS[1].Local.Length = size;
    DO(p, VipPostSend(p->vi[to], d, p->mem));
}

static int value(int from, int to, int round, int i)
{
    return ((round * N + from) * N + to) * 10000 + i;
}

static void write_block(struct peer *p, int to, int round)
{
    struct window *out = &p->shared->out[to];
    struct window *in = &peers[to].shared->in[p->me];
    VIP_DESCRIPTOR *d = &p->shared->desc[to][2 * (round % 2)], *done;
    int i;

    for (i = 0; i < 2 && round > 2; i++) { /* take the completed writes of round - 2 */
        DO(p, VipSendWait(p->vi[to], 20000, &done));
        if (done != d + i)
            die(p->me, "completions are out of order", round);
    }
    for (i = 0; i < BLOCK_INTS; i++)
        out->block[round % 2][i] = value(p->me, to, round, i);
    out->flag[round % 2] = round;
    post_write(p, to, d, out->block[round % 2], in->block[round % 2], sizeof(int) * BLOCK_INTS);
    post_write(p, to, d + 1, (void *)&out->flag[round % 2], (void *)&in->flag[round % 2],
               sizeof(int));
}

/*
 * Wait for the block of this round, and check it. The other thread's block of round + 1 may come
 * meanwhile, into the other half of the window. Its block of round + 2 cannot come, because the
 * other thread needs this thread's block of round + 1 first.
 */
static void read_block(struct peer *p, int from, int round)
{
    struct window *in = &p->shared->in[from];
    int i;

    while (in->flag[round % 2] != round)
        sched_yield();
    __sync_synchronize();
    for (i = 0; i < BLOCK_INTS; i++)
        if (in->block[round % 2][i] != value(from, p->me, round, i))
            die(p->me, "the flag came before the data, or the data is wrong", round);
}

static void *run(void *arg)
{
    struct peer *p = (struct peer *)arg;
    VIP_DESCRIPTOR *done;
    int i, round;

    open_all(p);
    barrier(); /* now the addresses and handles of all threads are known */
    connect_all(p);
    for (round = 1; round <= ROUNDS; round++) {
        for (i = 0; i < N; i++)
            if (i != p->me)
                write_block(p, i, round);
        for (i = 0; i < N; i++)
            if (i != p->me)
                read_block(p, i, round);
    }
    for (i = 0; i < N; i++)
        if (i != p->me)
            for (round = 0; round < 4; round++)
                DO(p, VipSendWait(p->vi[i], 20000, &done));
    barrier(); /* all writes are done before a thread disconnects */
    for (i = 0; i < N; i++) {
        if (i == p->me)
            continue;
        DO(p, VipDisconnect(p->vi[i]));
        DO(p, VipDestroyVi(p->vi[i]));
    }
    DO(p, VipDeregisterMem(p->nic, p->shared, p->mem));
    DO(p, VipCloseNic(p->nic));
    free(p->shared);
    return NULL;
}

int main(int argc, char **argv)
{
    int i;

    for (i = 0; i < N; i++) {
        peers[i].me = i;
        peers[i].device = argc > 1 ? argv[1 + i % (argc - 1)] : DEVICE;
        if (pthread_create(&peers[i].thread, NULL, run, &peers[i]) != 0)
            die(i, "pthread_create", 0);
    }
    for (i = 0; i < N; i++)
        pthread_join(peers[i].thread, NULL);
    printf("peers: %d threads, %d rounds of %d bytes to each other, good\n", N, ROUNDS,
           (int)sizeof(int) * BLOCK_INTS);
    return 0;
}

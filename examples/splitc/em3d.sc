/*
 * EM3D: electromagnetic waves on a graph of E and H nodes, the example of the Split-C papers. In
 * each step the program computes the value of each E node from its neighbours, which are H nodes,
 * then the H nodes from the E nodes. The graph is random; some edges lead to other processes.
 *
 *   em3d [NODES PER PROCESS] [EDGES PER NODE] [PERCENT REMOTE] [STEPS]
 *
 * The program solves the same problem five times: with a read of each neighbour when it is needed
 * (simple), with one read of each remote value (ghost), with gets that overlap (get), with stores
 * by the owners (store), and with one bulk store per pair of processes (bulk). All five results
 * must equal the result of one process that computes all nodes.
 */
#include <stdio.h>
#include <stdlib.h>
#include <split-c/split-c.h>

typedef struct {
    int degree;
    int *to;        /* numbers of the neighbours; a number names a node of any process */
    double *weight; /* weight of each edge */
} node_t;

typedef struct {
    node_t *node;           /* nodes of this process */
    double *spread value;   /* of node i of process p: block p, element i */
    double *spread old;     /* values before the first step */
} side_t;

/* A remote value that this process uses. */
typedef struct {
    int number;
    double value;
} ghost_t;

static int nodes = 60, edges = 5, percent = 30, steps = 4;
static side_t side[2];

/* The process of node n, and the node's index there; n numbers the nodes of all processes. */
#define OWNER(n) ((n) / nodes)
#define INDEX(n) ((n) % nodes)

static unsigned seed;

static unsigned draw(unsigned below)
{
    seed = seed * 1664525u + 1013904223u;
    return (seed >> 8) % below;
}

/* The edges of a node depend only on its number, so every process can compute them. */
static void draw_node(int which, int number, node_t *node)
{
    int e, here = OWNER(number);

    seed = (unsigned)(number * 2 + which) * 2654435761u + 12345u;
    node->degree = edges;
    for (e = 0; e < edges; e++) {
        int process = (int)draw(100) < percent ? (int)draw((unsigned)PROCS) : here;

        node->to[e] = process * nodes + (int)draw((unsigned)nodes);
        node->weight[e] = (double)draw(1000) / 4000.0;
    }
}

static double first_value(int which, int number)
{
    return (double)((number * 37 + which * 11) % 101) - 50.0;
}

static void *need(void *memory)
{
    if (memory == NULL) {
        fprintf(stderr, "em3d: out of memory\n");
        exit(1);
    }
    return memory;
}

static void make_graph(void)
{
    int w, i;

    for (w = 0; w < 2; w++) {
        side[w].value = all_spread_malloc(PROCS, nodes * sizeof(double));
        side[w].old = all_spread_malloc(PROCS, nodes * sizeof(double));
        if (side[w].value == NULL || side[w].old == NULL)
            need(NULL);
        side[w].node = need(calloc(nodes, sizeof(node_t)));
        for (i = 0; i < nodes; i++) {
            side[w].node[i].to = need(calloc(edges, sizeof(int)));
            side[w].node[i].weight = need(calloc(edges, sizeof(double)));
            draw_node(w, MYPROC * nodes + i, &side[w].node[i]);
            ((double *)(side[w].old + MYPROC))[i] = first_value(w, MYPROC * nodes + i);
        }
    }
}

/* The place of a node's value, also in another process. */
static double *global place(int w, int number)
{
    return (double *global)(side[w].value + OWNER(number)) + INDEX(number);
}

static void restart(void)
{
    int w, i;

    barrier();
    for (w = 0; w < 2; w++)
        for (i = 0; i < nodes; i++)
            ((double *)(side[w].value + MYPROC))[i] = ((double *)(side[w].old + MYPROC))[i];
    barrier();
}

/* ---- simple: every neighbour is read when it is needed ---- */

static void simple_half(int w)
{
    double *mine = tolocal(side[w].value + MYPROC);
    int i, e;

    for (i = 0; i < nodes; i++) {
        node_t *n = &side[w].node[i];

        for (e = 0; e < n->degree; e++)
            mine[i] -= *place(!w, n->to[e]) * n->weight[e];
    }
    barrier();
}

/* ---- ghosts: one local copy of each remote value ---- */

static int ghosts[2];           /* number of ghosts */
static ghost_t *ghost[2];       /* [w]: remote nodes of side w that this process uses, by number */
static double **source[2];      /* [w]: for each edge of side !w, the address of its value here */

static int by_number(const void *a, const void *b)
{
    return ((const ghost_t *)a)->number - ((const ghost_t *)b)->number;
}

static void make_ghosts(void)
{
    int w, i, e, k;

    for (w = 0; w < 2; w++) {
        ghost_t key, *all = need(calloc(nodes * edges + 1, sizeof(ghost_t)));
        node_t *node = side[!w].node;

        for (i = k = 0; i < nodes; i++)
            for (e = 0; e < edges; e++)
                if (OWNER(node[i].to[e]) != MYPROC)
                    all[k++].number = node[i].to[e];
        qsort(all, k, sizeof(ghost_t), by_number);
        for (i = ghosts[w] = 0; i < k; i++)
            if (ghosts[w] == 0 || all[ghosts[w] - 1].number != all[i].number)
                all[ghosts[w]++] = all[i];
        ghost[w] = all;
        source[w] = need(calloc(nodes * edges, sizeof(double *)));
        for (i = 0; i < nodes; i++)
            for (e = 0; e < edges; e++) {
                key.number = node[i].to[e];
                if (OWNER(key.number) == MYPROC)
                    source[w][i * edges + e] =
                        tolocal(side[w].value + MYPROC) + INDEX(key.number);
                else
                    source[w][i * edges + e] =
                        &((ghost_t *)bsearch(&key, all, ghosts[w], sizeof(ghost_t), by_number))
                             ->value;
            }
    }
}

static void compute_half(int w)
{
    double *mine = tolocal(side[w].value + MYPROC);
    int i, e;

    for (i = 0; i < nodes; i++)
        for (e = 0; e < edges; e++)
            mine[i] -= *source[!w][i * edges + e] * side[w].node[i].weight[e];
    barrier();
}

static void ghost_half(int w)
{
    int k;

    for (k = 0; k < ghosts[!w]; k++)
        ghost[!w][k].value = *place(!w, ghost[!w][k].number);
    compute_half(w);
}

static void get_half(int w)
{
    int k;

    for (k = 0; k < ghosts[!w]; k++)
        ghost[!w][k].value := *place(!w, ghost[!w][k].number);
    sync();
    compute_half(w);
}

/* ---- stores: the owner of a node stores its value to the processes that use it ---- */

typedef struct {
    int index;              /* index of the node in its owner */
    double *global where;   /* the ghost in the process that uses the value */
} order_t;

static int orders[2];
static order_t *order[2];

/* Every process reads the lists of ghosts of all other processes. This is part of the set-up. */
static void make_orders(void)
{
    int w, p, k;
    int count[PROCS]::;
    ghost_t *table[PROCS]::;

    for (w = 0; w < 2; w++) {
        int size = 0;

        barrier();
        count[MYPROC] = ghosts[w];
        table[MYPROC] = ghost[w];
        barrier();
        orders[w] = 0;
        order[w] = NULL;
        for (p = 0; p < PROCS; p++) {
            ghost_t *global theirs = toglobal(p, table[p]);
            int n = count[p];

            for (k = 0; k < n; k++) {
                int number = theirs[k].number;

                if (OWNER(number) != MYPROC)
                    continue;
                if (orders[w] == size)
                    order[w] = need(realloc(order[w], (size = 2 * size + 16) * sizeof(order_t)));
                order[w][orders[w]].index = INDEX(number);
                order[w][orders[w]].where = &theirs[k].value;
                orders[w]++;
            }
        }
    }
    barrier();
}

static void store_half(int w)
{
    double *values = tolocal(side[!w].value + MYPROC);
    int k;

    for (k = 0; k < orders[!w]; k++)
        *order[!w][k].where :- values[order[!w][k].index];
    all_store_sync();
    compute_half(w);
}

/* ---- bulk: one block per pair of processes; its receiver distributes the values ---- */

static double *spread inbox;    /* in each process: room for the values of each other process */

static void bulk_half(int w)
{
    double *values = tolocal(side[!w].value + MYPROC), *out = need(calloc(nodes, sizeof(double)));
    double *mine = tolocal(inbox + MYPROC);
    int k, first, n, at[PROCS];

    for (first = 0; first < orders[!w]; first += n) {
        int user = toproc(order[!w][first].where);

        for (n = 0; first + n < orders[!w] && toproc(order[!w][first + n].where) == user; n++)
            out[n] = values[order[!w][first + n].index];
        bulk_store((double *global)(inbox + user) + MYPROC * nodes, out, n * sizeof(double));
    }
    all_store_sync();
    for (k = 0; k < PROCS; k++)
        at[k] = k * nodes;
    for (k = 0; k < ghosts[!w]; k++)
        ghost[!w][k].value = mine[at[OWNER(ghost[!w][k].number)]++];
    free(out);
    compute_half(w);
}

/* ---- all nodes in one process, for comparison ---- */

static double *alone(int *ret_all)
{
    int all = PROCS * nodes, w, i, e, s;
    double *value = need(calloc(2 * all, sizeof(double)));
    node_t n;

    n.to = need(calloc(edges, sizeof(int)));
    n.weight = need(calloc(edges, sizeof(double)));
    for (w = 0; w < 2; w++)
        for (i = 0; i < all; i++)
            value[w * all + i] = first_value(w, i);
    for (s = 0; s < steps; s++)
        for (w = 0; w < 2; w++)
            for (i = 0; i < all; i++) {
                draw_node(w, i, &n);
                for (e = 0; e < n.degree; e++)
                    value[w * all + i] -= value[!w * all + n.to[e]] * n.weight[e];
            }
    free(n.to);
    free(n.weight);
    *ret_all = all;
    return value;
}

static int check(const char *name, const double *right, int all, double seconds)
{
    int w, i, bad = 0;

    for (w = 0; w < 2; w++)
        for (i = 0; i < nodes; i++)
            if (((double *)(side[w].value + MYPROC))[i] != right[w * all + MYPROC * nodes + i])
                bad++;
    bad = all_reduce_to_all_add(bad);
    on_one printf("em3d %-7s %10.4f us per edge%s\n", name,
                  seconds * 1e6 / (2.0 * nodes * edges * steps), bad ? "  WRONG" : "");
    return bad;
}

int splitc_main(int argc, char **argv)
{
    static struct {
        const char *name;
        void (*half)(int);
    } version[] = {{"simple", simple_half}, {"ghost", ghost_half}, {"get", get_half},
                   {"store", store_half}, {"bulk", bulk_half}};
    int v, s, w, all, bad = 0;
    double *right, start;

    if (argc > 1) nodes = atoi(argv[1]);
    if (argc > 2) edges = atoi(argv[2]);
    if (argc > 3) percent = atoi(argv[3]);
    if (argc > 4) steps = atoi(argv[4]);
    make_graph();
    make_ghosts();
    make_orders();
    inbox = all_spread_malloc(PROCS, PROCS * nodes * sizeof(double));
    right = alone(&all);
    for (v = 0; v < 5; v++) {
        restart();
        start = get_seconds();
        for (s = 0; s < steps; s++)
            for (w = 0; w < 2; w++)
                version[v].half(w);
        bad += check(version[v].name, right, all, get_seconds() - start);
    }
    free(right);
    if (bad)
        exit(1);
    return 0;
}

/* `vipctl show clients --tree`: NICs, the programs that use them, and their VIs; see tree.h. */
#include "tools/vipctl/tree.h"

#include <errno.h>
#include <libsmartcols.h>
#include <locale.h>
#include <stdio.h>
#include <string.h>

#include "tools/vipctl/show.h"

#define CELL_BYTES 160

enum tree_column {
    TREE_WHAT, /* the column with the branches of the tree */
    TREE_STATE,
    TREE_PEER,
    TREE_SENT,
    TREE_RECEIVED,
    TREE_COLUMNS,
};

/* The rows of the views of NICs, clients and VIs. */
struct tree {
    struct show_rows nics, clients, vis;
};

static bool text_is(const char *a, const char *b)
{
    return a && b && strcmp(a, b) == 0;
}

/* Write the field with this JSON key as text, in the form of the view's table. */
static void cell(const char *view, const char *key, const void *row, char *buf, size_t buf_bytes)
{
    const struct column *column = view_column(&show_view_find(view)->view, key, strlen(key));

    if (column)
        view_format(column, row, buf, buf_bytes);
    else
        snprintf(buf, buf_bytes, "-");
}

static struct libscols_line *add_line(struct libscols_table *table, struct libscols_line *parent,
                                      const char *what, const char *state)
{
    struct libscols_line *line = scols_table_new_line(table, parent);

    if (line && (scols_line_set_data(line, TREE_WHAT, what) < 0 ||
                 scols_line_set_data(line, TREE_STATE, state) < 0))
        return NULL;
    return line;
}

static int add_vi(struct libscols_table *table, struct libscols_line *parent, const Vip__ViRow *vi)
{
    static const char *const key[TREE_COLUMNS] = {
        [TREE_PEER] = "peer", [TREE_SENT] = "tx_bytes", [TREE_RECEIVED] = "rx_bytes"};
    char what[CELL_BYTES], text[CELL_BYTES];
    struct libscols_line *line;

    snprintf(what, sizeof(what), "VI %u", vi->vi);
    cell("vi", "state", vi, text, sizeof(text));
    line = add_line(table, parent, what, text);
    for (unsigned i = TREE_PEER; line && i < TREE_COLUMNS; i++) {
        cell("vi", key[i], vi, text, sizeof(text));
        if (scols_line_set_data(line, i, text) < 0)
            return -ENOMEM;
    }
    return line ? 0 : -ENOMEM;
}

static int add_client(struct libscols_table *table, struct libscols_line *parent,
                      const struct tree *tree, const Vip__ClientRow *client)
{
    char what[CELL_BYTES], state[CELL_BYTES];
    struct libscols_line *line;
    int r = 0;

    snprintf(what, sizeof(what), "%llu %s[%llu]", (unsigned long long)client->session,
             client->program ? client->program : "?", (unsigned long long)client->pid);
    snprintf(state, sizeof(state), "%llu VIs", (unsigned long long)client->vis);
    line = add_line(table, parent, what, state);
    if (!line)
        return -ENOMEM;
    for (size_t i = 0; r == 0 && i < tree->vis.count; i++) {
        const Vip__ViRow *vi = tree->vis.row[i];

        if (vi->session == client->session)
            r = add_vi(table, line, vi);
    }
    return r;
}

static int add_nic(struct libscols_table *table, const struct tree *tree, const Vip__NicRow *nic)
{
    struct libscols_line *line =
        add_line(table, NULL, nic->name ? nic->name : "?", nic->state ? nic->state : "?");
    int r = line ? 0 : -ENOMEM;

    for (size_t i = 0; r == 0 && i < tree->clients.count; i++) {
        const Vip__ClientRow *client = tree->clients.row[i];

        if (text_is(client->nic, nic->name))
            r = add_client(table, line, tree, client);
    }
    return r;
}

static int print_table(const struct tree *tree, const struct options *options)
{
    static const char *const heading[TREE_COLUMNS] = {"NIC, CLIENT, VI", "STATE", "PEER", "SENT",
                                                      "RECEIVED"};
    struct libscols_table *table = scols_new_table();
    int r = 0;

    if (!table)
        return -ENOMEM;
    (void)setlocale(LC_CTYPE, ""); /* tells libsmartcols if the terminal has line characters */
    scols_table_enable_noheadings(table, options->no_header);
    for (unsigned i = 0; r == 0 && i < TREE_COLUMNS; i++) {
        int flags = i == TREE_WHAT ? SCOLS_FL_TREE : i >= TREE_SENT ? SCOLS_FL_RIGHT : 0;

        if (!scols_table_new_column(table, heading[i], 0, flags))
            r = -ENOMEM;
    }
    for (size_t i = 0; r == 0 && i < tree->nics.count; i++)
        r = add_nic(table, tree, tree->nics.row[i]);
    if (r == 0 && scols_print_table(table) < 0)
        r = -ENOMEM;
    scols_unref_table(table);
    return r;
}

/* ---- JSON: the rows of the three views, nested --------------------------------------------- */

static void json_row(const char *view, const void *row)
{
    view_json_members(stdout, &show_view_find(view)->view, NULL, row, ", ");
}

static void json_client(const struct tree *tree, const Vip__ClientRow *client)
{
    const char *between = "";

    fputs("{", stdout);
    json_row("clients", client);
    fputs(", \"children\": [", stdout);
    for (size_t i = 0; i < tree->vis.count; i++) {
        const Vip__ViRow *vi = tree->vis.row[i];

        if (vi->session != client->session)
            continue;
        printf("%s\n        {", between);
        json_row("vi", vi);
        fputs("}", stdout);
        between = ",";
    }
    fputs("]}", stdout);
}

static void print_json(const struct tree *tree)
{
    show_json_begin("vipd.tree/1");
    fputs(",\n  \"nics\": [", stdout);
    for (size_t i = 0; i < tree->nics.count; i++) {
        const Vip__NicRow *nic = tree->nics.row[i];
        const char *between = "";

        printf("%s\n    {", i ? "," : "");
        json_row("nic", nic);
        fputs(", \"children\": [", stdout);
        for (size_t c = 0; c < tree->clients.count; c++) {
            const Vip__ClientRow *client = tree->clients.row[c];

            if (!text_is(client->nic, nic->name))
                continue;
            printf("%s\n      ", between);
            json_client(tree, client);
            between = ",";
        }
        fputs("]}", stdout);
    }
    fputs("\n  ]", stdout);
    show_json_end();
}

enum exit_code tree_show(int sock, const struct options *options)
{
    struct tree tree = {0};
    enum exit_code code = show_fetch(sock, show_view_find("nic"), &tree.nics);

    if (code == EXIT_OK)
        code = show_fetch(sock, show_view_find("clients"), &tree.clients);
    if (code == EXIT_OK)
        code = show_fetch(sock, show_view_find("vi"), &tree.vis);
    if (code == EXIT_OK && options->json) {
        print_json(&tree);
        code = show_flushed();
    } else if (code == EXIT_OK) {
        if (print_table(&tree, options) < 0) {
            fprintf(stderr, "vipctl: out of memory\n");
            code = EXIT_FAILED;
        } else {
            code = show_flushed();
        }
    }
    show_rows_free(&tree.vis);
    show_rows_free(&tree.clients);
    show_rows_free(&tree.nics);
    return code;
}

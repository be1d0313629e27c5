/*
 * The storage of spread arrays in the output. A parameter or automatic array is a variable of type
 * sc_ptr, and generated constants have its bounds. A static array of constant size is an ordinary
 * array. Its address is the same in every process, because all processes run the same file. A
 * static array whose bounds use PROCS is a variable of type sc_ptr that gets memory at the start.
 */
#include "splitc/sc1/parse.h"

static bool is_static(const struct specs *specs, enum place place)
{
    return place == PLACE_FILE || specs->is_static || specs->is_extern;
}

/* Declare a constant for each bound, from bound number `from` on. Parameters need no bound 0. */
static void capture_dims(struct unit *u, struct declarator *d, struct text *companions, int from)
{
    const struct dims *user = d->type->dims;
    struct dims *dims = arena_alloc(&u->arena, sizeof(*dims));

    dims->count = user->count;
    dims->texts = arena_alloc(&u->arena, sizeof(*dims->texts) * (size_t)dims->count);
    for (int i = from; i < dims->count; i++) {
        dims->texts[i] = text_format(&u->arena, "__sc_dim_%d", ++u->made_up);
        text_printf(companions, "const long %s __attribute__((unused)) = (%s); ", dims->texts[i],
                    user->texts[i] ? user->texts[i] : "1");
    }
    d->type->dims = dims;
}

static const char *product(struct unit *u, const struct dims *dims)
{
    struct text t = {.arena = &u->arena};

    for (int i = 0; i < dims->count; i++)
        text_printf(&t, "%s(long)(%s)", i ? " * " : "", dims->texts[i] ? dims->texts[i] : "1");
    return t.data;
}

const char *spread_static_text(struct unit *u, const char *variable, const struct type *type,
                               bool own_variable)
{
    int n = ++u->statics;

    return text_format(
        &u->arena,
        " %s%s%s static void __sc_static_%d(void) { sc_spread_static(&%s, %s, sizeof(%s)); } "
        "static void (*const __sc_static_entry_%d)(void) "
        "__attribute__((section(\"sc_statics\"), used)) = __sc_static_%d;",
        own_variable ? "static sc_ptr " : "", own_variable ? variable : "", own_variable ? ";" : "",
        n, variable, product(u, type->dims), type_text(u, type->base), n, n);
}

void spread_declare(struct unit *u, struct declarator *d, const struct specs *specs,
                    enum place place)
{
    struct derivation *x = &d->list.items[0];
    struct text companions = {.arena = &u->arena};

    if (place == PLACE_PARAM) {
        capture_dims(u, d, &u->companions, 1);
        return;
    }
    if (d->wide != 0) { /* the output has an ordinary array */
        edit_delete(u, x->colons, x->last);
        return;
    }
    if (!x->dims->texts[0] && !specs->is_extern) {
        diag_error(u, x->first, "the first bound of this spread array is missing");
        return;
    }
    if (is_static(specs, place)) {
        d->is_static_spread = !specs->is_extern;
        return;
    }
    if (place == PLACE_BLOCK) {
        if (d->companions)
            text_puts(&companions, d->companions);
        capture_dims(u, d, &companions, 0);
        d->companions = companions.data;
        d->spread = text_format(&u->arena,
                                " __attribute__((cleanup(sc_spread_leave))) = "
                                "sc_spread_enter(%s, sizeof(%s))",
                                product(u, d->type->dims), type_text(u, d->type->base));
    }
}

/*
 * Edits the base type of each declarator. If a declaration mixes ordinary declarators with wide
 * pointers, a semicolon replaces the comma between them, and a new base type follows.
 */
#include "splitc/sc1/parse.h"

/* Returns the storage classes and attributes as text, to start another declaration with them. */
static const char *storage_text(struct unit *u, const struct specs *specs)
{
    struct text t = {.arena = &u->arena};

    for (int i = 0; i < specs->parts.count; i++) {
        const struct spec_part *part = &specs->parts.items[i];

        for (int k = part->first; part->kind == SPEC_STORAGE && k <= part->last; k++) {
            text_add(&t, u->tokens.items[k].text, u->tokens.items[k].len);
            text_puts(&t, " ");
        }
    }
    return t.data ? t.data : "";
}

/* Replace the type in the specifiers by sc_ptr. */
static void replace_specs(struct unit *u, const struct specs *specs, const struct declarator *d)
{
    bool placed = false;

    for (int i = 0; i < specs->parts.count; i++) {
        const struct spec_part *part = &specs->parts.items[i];

        if (part->kind == SPEC_STORAGE)
            continue;
        edit_delete(u, part->first, part->last);
        if (part->kind == SPEC_TYPE && !placed) {
            edit_replace(u, part->first, "sc_ptr");
            placed = true;
        }
    }
    if (!placed)
        edit_before(u, d->first, "sc_ptr ");
    if (d->companions && specs->last >= specs->first)
        edit_before(u, specs->first, d->companions);
}

/* The specifiers define a struct: keep the definition, and start a new declaration with sc_ptr. */
static void split_body(struct unit *u, const struct base_state *state, const struct specs *specs,
                       const struct declarator *d)
{
    const char *storage = storage_text(u, specs);

    if (state->place == PLACE_PARAM || state->place == PLACE_TYPE_NAME ||
        state->place == PLACE_FOR) {
        diag_error(u, specs->first,
                   "define this type in a declaration of its own, before its global pointers");
        return;
    }
    for (int i = 0; i < specs->parts.count; i++)
        if (specs->parts.items[i].kind != SPEC_TYPE)
            edit_delete(u, specs->parts.items[i].first, specs->parts.items[i].last);
    edit_before(
        u, d->first,
        text_format(&u->arena, "; %s%ssc_ptr ", d->companions ? d->companions : "", storage));
}

void decl_base(struct unit *u, struct base_state *state, const struct specs *specs,
               const struct declarator *d)
{
    bool wide = d->wide >= 0;

    if (!state->started) {
        if (wide && specs->has_body)
            split_body(u, state, specs, d);
        else if (wide)
            replace_specs(u, specs, d);
    } else if (wide != state->wide || d->companions) {
        if (state->place == PLACE_FOR) {
            diag_error(u, d->first,
                       "this declaration mixes global pointers with other types, which "
                       "is not possible in the head of a 'for'");
            return;
        }
        edit_replace(u, state->comma, ";");
        edit_before(u, d->first,
                    text_format(&u->arena, " %s%s%s ", d->companions ? d->companions : "",
                                storage_text(u, specs),
                                wide ? "sc_ptr" : type_text(u, specs->base)));
    }
    state->started = true;
    state->wide = wide;
    if (d->spread)
        edit_after(u, d->last, d->spread);
}

/* Reads one field of a protobuf-c row by its column. Tables and JSON documents both use it. */
#ifndef VIPCTL_FIELD_H
#define VIPCTL_FIELD_H

#include <stdbool.h>
#include <stdint.h>

#include <protobuf-c/protobuf-c.h>

#include "tools/vipctl/view.h"

/* Has vipd set the field? An empty text counts as absent. */
bool field_present(const struct column *column, const void *row);

/* The value of a field that is present. field_text is for FIELD_TEXT, field_number for all other
 * kinds. */
const char *field_text(const struct column *column, const void *row);
uint64_t field_number(const struct column *column, const void *row);

#endif

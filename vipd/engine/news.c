/* Events for the host. */
#include "vipd/engine/internal.h"

void eng_event_error(struct eng_vi *vi, enum vip_error_code code, uint32_t opcode, const char *why)
{
    struct eng_event event = {
        .kind = ENG_EVENT_ERROR, .vi = vi->index, .code = code, .opcode = opcode, .why = why};

    vi->eng->ops.event(vi->eng->ctx, &event);
}

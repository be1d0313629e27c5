/* The columns of every view; see views.h. The important columns come first, because narrow
 * terminals cut the last columns. */
#include "tools/vipctl/views.h"

#include <string.h>

#define COUNT_OF(array) (sizeof(array) / sizeof(*(array)))

/* Shorten a name of the specification, for tables, to the part that differs from other names. */
static const char *brief_name(const char *text)
{
    static const struct {
        const char *name, *brief;
    } names[] = {
        {"VIP_STATE_IDLE", "idle"},
        {"VIP_STATE_CONNECTED", "connected"},
        {"VIP_STATE_CONNECT_PENDING", "pending"},
        {"VIP_STATE_ERROR", "error"},
        {"VIP_SERVICE_UNRELIABLE", "UD"},
        {"VIP_SERVICE_RELIABLE_DELIVERY", "RD"},
        {"VIP_SERVICE_RELIABLE_RECEPTION", "RR"},
    };

    for (size_t i = 0; i < COUNT_OF(names); i++)
        if (strcmp(names[i].name, text) == 0)
            return names[i].brief;
    return text;
}

static const char *state_colour(const char *text)
{
    if (strncmp(text, "down", 4) == 0 || strcmp(text, "error") == 0 || strcmp(text, "lost") == 0)
        return "red";
    if (strcmp(text, "silent") == 0 || strcmp(text, "away") == 0 || strcmp(text, "rebinding") == 0)
        return "brown";
    if (strcmp(text, "up") == 0 || strcmp(text, "connected") == 0 ||
        strcmp(text, "established") == 0)
        return "green";
    return NULL;
}

static const char *error_colour(const char *text)
{
    return strcmp(text, "-") == 0 ? NULL : "red";
}

#define NIC(kind, head, key, field) COLUMN(FIELD_##kind, Vip__NicRow, head, key, field)
#define NIC_TEXT(head, key, field)  COLUMN_TEXT(Vip__NicRow, head, key, field)

static const struct column nic_columns[] = {
    NIC_TEXT("NIC", "name", name),
    {.heading = "STATE",
     .json_key = "state",
     .kind = FIELD_TEXT,
     .value_off = offsetof(Vip__NicRow, state),
     .colour = state_colour},
    NIC_TEXT("LINK", "link", link),
    NIC_TEXT("ADDRESS", "address", address),
    NIC(NUMBER, "MTU", "mtu_bytes", mtu),
    NIC(NUMBER, "PATHS", "paths", paths),
    NIC(COUNT, "CLIENTS", "clients", clients),
    NIC(COUNT, "VIS", "vis", vis),
    NIC(COUNT, "REGIONS", "regions", regions),
    NIC(BYTES, "MEMORY", "region_bytes", region_bytes),
    NIC(COUNT, NULL, "tx_packets", tx_packets),
    NIC(COUNT, NULL, "rx_packets", rx_packets),
    NIC(BYTES, "SENT", "tx_bytes", tx_bytes),
    NIC(BYTES, "RECEIVED", "rx_bytes", rx_bytes),
    NIC(COUNT, "RESENT", "retransmits", retransmits),
    NIC(COUNT, "DROPS", "drops", drops),
    NIC(COUNT, "REBOUND", "rebound", rebound),
    NIC(NS, "SINCE", "since_ns", since_ns),
    NIC_TEXT(NULL, "without", without),
    COLUMN_CUT(Vip__NicRow, "FAULTS", "faults", faults),
    COLUMN_CUT(Vip__NicRow, "ALIASES", "aliases", aliases),
};

#define VI(kind, head, key, field) COLUMN(FIELD_##kind, Vip__ViRow, head, key, field)
#define VI_TEXT(head, key, field)  COLUMN_TEXT(Vip__ViRow, head, key, field)

static const struct column vi_columns[] = {
    VI_TEXT("NIC", "nic", nic),
    VI(COUNT, "CLIENT", "client", session),
    VI(NUMBER, "VI", "vi", vi),
    {.heading = "STATE",
     .json_key = "state",
     .kind = FIELD_TEXT,
     .value_off = offsetof(Vip__ViRow, state),
     .brief = brief_name,
     .colour = state_colour},
    {.heading = "LEVEL",
     .json_key = "level",
     .kind = FIELD_TEXT,
     .value_off = offsetof(Vip__ViRow, level),
     .brief = brief_name},
    VI_TEXT("PEER", "peer", peer),
    VI(NUMBER, "PATH", "path", path),
    VI(COUNT, "REBOUND", "rebound", rebound),
    VI(NS, "SINCE", "since_ns", since_ns),
    VI(NS, "LEFT", "left_ns", left_ns),
    VI_TEXT(NULL, "waits_for", waits_for),
    VI(NS, NULL, "told_ns", told_ns),
    VI(NUMBER, "SENDQ", "send_depth", send_depth),
    VI(NUMBER, "RECVQ", "recv_depth", recv_depth),
    VI(COUNT, "TX MSGS", "tx_messages", tx_messages),
    VI(COUNT, "RX MSGS", "rx_messages", rx_messages),
    VI(BYTES, "SENT", "tx_bytes", tx_bytes),
    VI(BYTES, "RECEIVED", "rx_bytes", rx_bytes),
    VI(COUNT, "RESENT", "retransmits", retransmits),
    VI(NS, "RTT", "srtt_ns", srtt_ns),
    VI(BYTES, "WINDOW", "window_bytes", window_bytes),
    VI(BYTES, NULL, "inflight_bytes", inflight_bytes),
    VI(COUNT, NULL, "tx_packets", tx_packets),
    VI(COUNT, NULL, "rx_packets", rx_packets),
    VI(COUNT, NULL, "lost_packets", lost),
    VI(COUNT, NULL, "timeouts", timeouts),
    VI(COUNT, NULL, "recvq_empty", recvq_empty),
    VI(NS, NULL, "post_to_wire_p50_ns", post_to_wire_p50_ns),
    VI(NS, NULL, "post_to_wire_p99_ns", post_to_wire_p99_ns),
    VI(NS, NULL, "post_to_wire_max_ns", post_to_wire_max_ns),
    VI(NS, NULL, "wire_to_ack_p50_ns", wire_to_ack_p50_ns),
    VI(NS, NULL, "wire_to_ack_p99_ns", wire_to_ack_p99_ns),
    VI(NS, NULL, "wire_to_ack_max_ns", wire_to_ack_max_ns),
    VI(NS, NULL, "post_to_complete_p50_ns", post_to_complete_p50_ns),
    VI(NS, NULL, "post_to_complete_p99_ns", post_to_complete_p99_ns),
    VI(NS, NULL, "post_to_complete_max_ns", post_to_complete_max_ns),
    VI(COUNT, "PID", "pid", pid),
    VI(NUMBER, "UID", "uid", uid),
    COLUMN_CUT(Vip__ViRow, "PROGRAM", "program", program),
    {.heading = "ERROR",
     .json_key = "error",
     .kind = FIELD_TEXT,
     .value_off = offsetof(Vip__ViRow, error),
     .cut = true,
     .colour = error_colour},
};

#define MEM(kind, head, key, field) COLUMN(FIELD_##kind, Vip__MemRow, head, key, field)
#define MEM_TEXT(head, key, field)  COLUMN_TEXT(Vip__MemRow, head, key, field)

static const struct column mem_columns[] = {
    MEM_TEXT("NIC", "nic", nic),
    MEM(COUNT, "CLIENT", "client", session),
    MEM(NUMBER, "HANDLE", "handle", handle),
    MEM(HEX, "ADDRESS", "address", address),
    MEM(BYTES, "SIZE", "size_bytes", bytes),
    MEM_TEXT("KIND", "kind", kind),
    MEM(NUMBER, "PTAG", "ptag", ptag),
    MEM_TEXT("RDMA", "rdma", rdma),
    MEM(COUNT, "PID", "pid", pid),
    MEM(NUMBER, "UID", "uid", uid),
    COLUMN_CUT(Vip__MemRow, "PROGRAM", "program", program),
};

#define CLIENT(kind, head, key, field) COLUMN(FIELD_##kind, Vip__ClientRow, head, key, field)
#define CLIENT_TEXT(head, key, field)  COLUMN_TEXT(Vip__ClientRow, head, key, field)

static const struct column client_columns[] = {
    CLIENT(COUNT, "CLIENT", "client", session),
    CLIENT_TEXT("NIC", "nic", nic),
    CLIENT(COUNT, "PID", "pid", pid),
    CLIENT(NUMBER, "UID", "uid", uid),
    COLUMN_CUT(Vip__ClientRow, "PROGRAM", "program", program),
    CLIENT(COUNT, "VIS", "vis", vis),
    CLIENT(COUNT, "CQS", "cqs", cqs),
    CLIENT(COUNT, "REGIONS", "regions", regions),
    CLIENT(BYTES, "MEMORY", "region_bytes", region_bytes),
    CLIENT(MS, "AGE", "age_ms", age_ms),
    CLIENT_TEXT("LIBVIPL", "library_version", library_version),
    CLIENT(COUNT, NULL, "shared_ns", shared_ns),
    CLIENT(COUNT, NULL, "due_ns", due_ns),
    CLIENT(COUNT, NULL, "slots", slots),
};

static const struct column stats_columns[] = {
    COLUMN_TEXT(Vip__Counter, "SCOPE", "scope", scope),
    COLUMN_TEXT(Vip__Counter, "COUNTER", "name", name),
    COLUMN(FIELD_COUNT, Vip__Counter, "VALUE", "value", value),
    COLUMN_TEXT(Vip__Counter, "UNIT", "unit", unit),
    COLUMN_TEXT(Vip__Counter, NULL, "kind", kind),
    COLUMN_CUT(Vip__Counter, "WHAT IT COUNTS", "help", help),
};

#define OWNER(Row)                                                                                 \
    COLUMN(FIELD_COUNT, Row, "PID", "pid", pid), COLUMN(FIELD_NUMBER, Row, "UID", "uid", uid),     \
        COLUMN_CUT(Row, "PROGRAM", "program", program)

static const struct column cq_columns[] = {
    COLUMN_TEXT(Vip__CqRow, "NIC", "nic", nic),
    COLUMN(FIELD_COUNT, Vip__CqRow, "CLIENT", "client", session),
    COLUMN(FIELD_NUMBER, Vip__CqRow, "CQ", "cq", cq),
    COLUMN(FIELD_COUNT, Vip__CqRow, "ENTRIES", "entries_total", written),
    COLUMN(FIELD_COUNT, Vip__CqRow, "WAITING", "waiting", waiting),
    COLUMN(FIELD_COUNT, Vip__CqRow, "QUEUES", "bound_queues", bound),
    COLUMN(FIELD_BOOL, Vip__CqRow, "FD", "has_fd", has_fd),
    OWNER(Vip__CqRow),
};

static const struct column ptag_columns[] = {
    COLUMN_TEXT(Vip__PtagRow, "NIC", "nic", nic),
    COLUMN(FIELD_COUNT, Vip__PtagRow, "CLIENT", "client", session),
    COLUMN(FIELD_NUMBER, Vip__PtagRow, "PTAG", "ptag", ptag),
    COLUMN(FIELD_COUNT, Vip__PtagRow, "USERS", "users", users),
    OWNER(Vip__PtagRow),
};

static const struct column conn_columns[] = {
    COLUMN_TEXT(Vip__ConnRow, "NIC", "nic", nic),
    COLUMN(FIELD_COUNT, Vip__ConnRow, "CLIENT", "client", session),
    COLUMN(FIELD_NUMBER, Vip__ConnRow, "VI", "vi", vi),
    {.heading = "STATE",
     .json_key = "state",
     .kind = FIELD_TEXT,
     .value_off = offsetof(Vip__ConnRow, state),
     .colour = state_colour},
    COLUMN_TEXT(Vip__ConnRow, "PEER", "peer", peer),
    COLUMN_TEXT(Vip__ConnRow, "PATH", "path", path),
    COLUMN_TEXT(Vip__ConnRow, "DATA PATH", "data_path", data_path),
    COLUMN(FIELD_COUNT, Vip__ConnRow, "LENT", "lent", lent),
    COLUMN_TEXT(Vip__ConnRow, NULL, "taken_back", taken_back),
    COLUMN_TEXT(Vip__ConnRow, NULL, "not_lent", not_lent),
    OWNER(Vip__ConnRow),
};

static const struct column listen_columns[] = {
    COLUMN_TEXT(Vip__ListenRow, "NIC", "nic", nic),
    COLUMN(FIELD_COUNT, Vip__ListenRow, "CLIENT", "client", session),
    COLUMN_TEXT(Vip__ListenRow, "KIND", "kind", kind),
    COLUMN_CUT(Vip__ListenRow, "DISCRIMINATOR", "discriminator", discriminator),
    COLUMN(FIELD_COUNT, Vip__ListenRow, "GIVEN", "delivered", delivered),
    OWNER(Vip__ListenRow),
};

#define PEER(kind, head, key, field) COLUMN(FIELD_##kind, Vip__PeerRow, head, key, field)

static const struct column peer_columns[] = {
    COLUMN_TEXT(Vip__PeerRow, "NIC", "nic", nic),
    COLUMN_TEXT(Vip__PeerRow, "PEER", "peer", peer),
    COLUMN_TEXT(Vip__PeerRow, "NAME", "name", name),
    {.heading = "STATE",
     .json_key = "state",
     .kind = FIELD_TEXT,
     .value_off = offsetof(Vip__PeerRow, state),
     .colour = state_colour},
    PEER(COUNT, "CONNS", "connections", connections),
    PEER(COUNT, "REBOUND", "rebound", rebound),
    PEER(NS, "SINCE", "since_ns", since_ns),
    PEER(NS, "LEFT", "left_ns", left_ns),
    PEER(NS, NULL, "told_ns", told_ns),
    PEER(NS, "HEARD", "heard_ago_ns", heard_ago_ns),
    PEER(NUMBER, "PATH", "path", path),
    COLUMN_TEXT(Vip__PeerRow, "ANSWER", "paths_answer", paths_answer),
    PEER(NS, NULL, "path_since_ns", path_since_ns),
    PEER(COUNT, "TX MSGS", "tx_messages", tx_messages),
    PEER(COUNT, "RX MSGS", "rx_messages", rx_messages),
    PEER(BYTES, "SENT", "tx_bytes", tx_bytes),
    PEER(BYTES, "RECEIVED", "rx_bytes", rx_bytes),
    PEER(COUNT, "RESENT", "retransmits", retransmits),
    PEER(COUNT, NULL, "lost_packets", lost),
    PEER(COUNT, NULL, "timeouts", timeouts),
    PEER(NS, "RTT", "srtt_ns", srtt_ns),
    PEER(NS, NULL, "srtt_max_ns", srtt_max_ns),
    PEER(BYTES, "WINDOW", "window_bytes", window_bytes),
    PEER(BYTES, NULL, "inflight_bytes", inflight_bytes),
    PEER(ID, NULL, "epoch", epoch),
};

#define ERROR(kind, head, key, field) COLUMN(FIELD_##kind, Vip__ErrorRow, head, key, field)

static const struct column error_columns[] = {
    ERROR(COUNT, "COUNT", "count", count),
    ERROR(TIME, "FIRST", "first_ns", first_ns),
    ERROR(TIME, "LAST", "last_ns", last_ns),
    COLUMN_TEXT(Vip__ErrorRow, "KIND", "kind", kind),
    COLUMN_TEXT(Vip__ErrorRow, "WHAT", "key", key),
    COLUMN_TEXT(Vip__ErrorRow, NULL, "nic", nic),
    ERROR(COUNT, "CLIENT", "client", session),
    ERROR(NUMBER, "VI", "vi", vi),
    ERROR(COUNT, NULL, "pid", pid),
    ERROR(NUMBER, NULL, "uid", uid),
    COLUMN_CUT(Vip__ErrorRow, "PROGRAM", "program", program),
    COLUMN_CUT(Vip__ErrorRow, "LATEST REASON", "text", text),
};

#define EVENT(kind, head, key, field) COLUMN(FIELD_##kind, Vip__EventRow, head, key, field)

static const struct column event_columns[] = {
    EVENT(COUNT, NULL, "number", number),
    EVENT(TIME, "TIME", "time_ns", time_ns),
    COLUMN_TEXT(Vip__EventRow, "KIND", "kind", kind),
    COLUMN_TEXT(Vip__EventRow, "WHAT", "key", key),
    COLUMN_TEXT(Vip__EventRow, "NIC", "nic", nic),
    EVENT(COUNT, "CLIENT", "client", session),
    EVENT(NUMBER, "VI", "vi", vi),
    EVENT(COUNT, "PID", "pid", pid),
    EVENT(NUMBER, NULL, "uid", uid),
    COLUMN_TEXT(Vip__EventRow, "PROGRAM", "program", program),
    COLUMN_CUT(Vip__EventRow, "REASON", "text", text),
};

static const struct column limit_columns[] = {
    COLUMN(FIELD_NUMBER, Vip__LimitRow, "UID", "uid", uid),
    COLUMN_TEXT(Vip__LimitRow, "LIMIT", "limit", limit),
    COLUMN(FIELD_COUNT, Vip__LimitRow, "USED", "used", used),
    COLUMN(FIELD_COUNT, Vip__LimitRow, "MAX", "max", max),
    COLUMN_TEXT(Vip__LimitRow, "OF", "noun", noun),
};

static const struct column config_columns[] = {
    COLUMN_TEXT(Vip__ConfigRow, "SECTION", "section", section),
    COLUMN_TEXT(Vip__ConfigRow, "KEY", "key", key),
    COLUMN_CUT(Vip__ConfigRow, "VALUE", "value", value),
    COLUMN_CUT(Vip__ConfigRow, "DEFAULT", "default", default_),
    COLUMN_TEXT(Vip__ConfigRow, "RELOAD", "reload", reload),
    COLUMN_CUT(Vip__ConfigRow, "AFTER RESTART", "pending", pending),
    COLUMN_CUT(Vip__ConfigRow, "FILE", "file", file),
    COLUMN(FIELD_COUNT, Vip__ConfigRow, "LINE", "line", line),
};

static const struct column change_columns[] = {
    COLUMN_TEXT(Vip__ConfigRow, "SECTION", "section", section),
    COLUMN_TEXT(Vip__ConfigRow, "KEY", "key", key),
    COLUMN_CUT(Vip__ConfigRow, "WAS", "from", value),
    COLUMN_CUT(Vip__ConfigRow, "IS", "to", pending),
    COLUMN_TEXT(Vip__ConfigRow, "TAKES EFFECT", "reload", reload),
};

#define SUMMARY(kind, head, key, field) COLUMN(FIELD_##kind, Vip__Summary, head, key, field)

static const struct column summary_columns[] = {
    COLUMN_TEXT(Vip__Summary, "version", "version", version),
    SUMMARY(COUNT, "pid", "pid", pid),
    SUMMARY(MS, "up", "uptime_ms", uptime_ms),
    COLUMN_TEXT(Vip__Summary, "configuration", "config", config),
    COLUMN_TEXT(Vip__Summary, "sockets in", "runtime_dir", runtime_dir),
    SUMMARY(ID, NULL, "epoch", epoch),
    SUMMARY(NS, "polls for", "spin_ns", spin_ns),
    SUMMARY(COUNT, "turns", "turns", turns),
    SUMMARY(COUNT, "sleeps", "sleeps", sleeps),
    SUMMARY(COUNT, "NIC handles", "sessions", sessions),
    SUMMARY(BOOL, "draining", "draining", draining),
    SUMMARY(COUNT, "distinct errors", "errors", errors),
    SUMMARY(COUNT, "restart pending", "pending_keys", pending),
};

const struct view summary_view = {
    .json_list = "vipd", .columns = summary_columns, .column_count = COUNT_OF(summary_columns)};

#define SHOW_ROWS(list)                                                                            \
    .rows_off = offsetof(Vip__ShowReply, list), .count_off = offsetof(Vip__ShowReply, n_##list)
#define SHOW_VIEW(key, sentence, array)                                                            \
    .view = {.json_list = (key),                                                                   \
             .empty = (sentence),                                                                  \
             .columns = (array),                                                                   \
             .column_count = COUNT_OF(array)}

const struct view change_view = {.json_list = "changes",
                                 .empty = "Nothing differs.",
                                 .columns = change_columns,
                                 .column_count = COUNT_OF(change_columns)};

const struct show_view show_views[] = {
    {.name = "nic",
     .schema = "vipd.nic/1",
     .help = "the NICs: link, address, traffic, losses",
     .what = VIP__SHOW_REQUEST__WHAT__NIC,
     SHOW_ROWS(nics),
     SHOW_VIEW("nics", "No NIC is configured.", nic_columns)},
    {.name = "vi",
     .schema = "vipd.vi/1",
     .help = "the VIs: state, peer, queues, traffic, owner",
     .what = VIP__SHOW_REQUEST__WHAT__VI,
     SHOW_ROWS(vis),
     SHOW_VIEW("vis", "No VI exists.", vi_columns)},
    {.name = "mem",
     .schema = "vipd.mem/1",
     .help = "registered memory: size, kind, rights, owner",
     .what = VIP__SHOW_REQUEST__WHAT__MEM,
     SHOW_ROWS(mems),
     SHOW_VIEW("regions", "No memory is registered.", mem_columns)},
    {.name = "clients",
     .schema = "vipd.clients/1",
     .help = "the programs that have a NIC open",
     .what = VIP__SHOW_REQUEST__WHAT__CLIENT,
     SHOW_ROWS(clients),
     SHOW_VIEW("clients", "No program has a NIC open.", client_columns)},
    {.name = "stats",
     .schema = "vipd.stats/1",
     .help = "every counter, with what it counts",
     .what = VIP__SHOW_REQUEST__WHAT__STATS,
     SHOW_ROWS(counters),
     SHOW_VIEW("counters", "vipd has no counters.", stats_columns)},
    {.name = "cq",
     .schema = "vipd.cq/1",
     .help = "completion queues: entries, what waits, who is bound",
     .what = VIP__SHOW_REQUEST__WHAT__CQ,
     SHOW_ROWS(cqs),
     SHOW_VIEW("cqs", "No completion queue exists.", cq_columns)},
    {.name = "ptag",
     .schema = "vipd.ptag/1",
     .help = "protection tags and how many use them",
     .what = VIP__SHOW_REQUEST__WHAT__PTAG,
     SHOW_ROWS(ptags),
     SHOW_VIEW("ptags", "No protection tag exists.", ptag_columns)},
    {.name = "conn",
     .schema = "vipd.conn/1",
     .help = "connections, those that are being made too",
     .what = VIP__SHOW_REQUEST__WHAT__CONN,
     SHOW_ROWS(conns),
     SHOW_VIEW("connections", "No connection exists.", conn_columns)},
    {.name = "listen",
     .schema = "vipd.listen/1",
     .help = "servers that wait, and requests without an answer",
     .what = VIP__SHOW_REQUEST__WHAT__LISTEN,
     SHOW_ROWS(listens),
     SHOW_VIEW("waits", "Nobody waits for a connection.", listen_columns)},
    {.name = "peers",
     .schema = "vipd.peers/1",
     .help = "hosts that we have connections with: state, traffic, losses, RTT",
     .what = VIP__SHOW_REQUEST__WHAT__PEER,
     SHOW_ROWS(peers),
     SHOW_VIEW("peers", "There is no peer.", peer_columns)},
    {.name = "errors",
     .schema = "vipd.errors/1",
     .help = "each distinct error: how often, when, the latest reason",
     .what = VIP__SHOW_REQUEST__WHAT__ERROR,
     SHOW_ROWS(errors),
     SHOW_VIEW("errors", "No error has happened.", error_columns)},
    {.name = "limits",
     .schema = "vipd.limits/1",
     .help = "what each user has of what is allowed per user",
     .what = VIP__SHOW_REQUEST__WHAT__LIMIT,
     SHOW_ROWS(limits),
     SHOW_VIEW("limits", "Nobody is connected.", limit_columns)},
    {.name = "config",
     .schema = "vipd.config/1",
     .help = "every key in force, its default, and the line that set it",
     .what = VIP__SHOW_REQUEST__WHAT__CONFIG,
     SHOW_ROWS(configs),
     SHOW_VIEW("keys", "vipd told no configuration.", config_columns)},
    {.name = "events",
     .schema = "vipd.events/1",
     .help = "what happened last, in order",
     .what = VIP__SHOW_REQUEST__WHAT__EVENT,
     SHOW_ROWS(events),
     SHOW_VIEW("events", "Nothing has happened.", event_columns)},
    /* The views summary and version have no rows: show.c prints them. */
    {.name = "summary", .schema = "vipd.summary/1", .help = "vipd itself and its NICs"},
    {.name = "version",
     .schema = "vipd.version/1",
     .help = "versions of vipd, vipctl and libraries"},
};
const size_t show_view_count = COUNT_OF(show_views);

const struct show_view *show_view_find(const char *name)
{
    for (size_t i = 0; i < show_view_count; i++)
        if (strcmp(show_views[i].name, name) == 0)
            return &show_views[i];
    return NULL;
}

/* The columns of every view; see views.h. Order = importance: narrow terminals cut at the right. */
#include "tools/vipctl/views.h"

#include <string.h>

#define COUNT_OF(array) (sizeof(array) / sizeof(*(array)))

/* The specification's names are long; tables show what differs. */
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
    if (strcmp(text, "down") == 0 || strcmp(text, "error") == 0)
        return "red";
    if (strcmp(text, "up") == 0 || strcmp(text, "connected") == 0)
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
    VI(NUMBER, "SENDQ", "send_depth", send_depth),
    VI(NUMBER, "RECVQ", "recv_depth", recv_depth),
    VI(COUNT, "TX MSGS", "tx_messages", tx_messages),
    VI(COUNT, "RX MSGS", "rx_messages", rx_messages),
    VI(BYTES, "SENT", "tx_bytes", tx_bytes),
    VI(BYTES, "RECEIVED", "rx_bytes", rx_bytes),
    VI(COUNT, "RESENT", "retransmits", retransmits),
    VI(NS, "RTT", "srtt_ns", srtt_ns),
    VI(BYTES, "WINDOW", "window_bytes", window_bytes),
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
};

static const struct column stats_columns[] = {
    COLUMN_TEXT(Vip__Counter, "SCOPE", "scope", scope),
    COLUMN_TEXT(Vip__Counter, "COUNTER", "name", name),
    COLUMN(FIELD_COUNT, Vip__Counter, "VALUE", "value", value),
    COLUMN_TEXT(Vip__Counter, "UNIT", "unit", unit),
    COLUMN_CUT(Vip__Counter, "WHAT IT COUNTS", "help", help),
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
};
const size_t show_view_count = COUNT_OF(show_views);

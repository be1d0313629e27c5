-- Dissector of vipd's packets for Wireshark and tshark (doc/wire.md): in UDP on port 4794 (preferences: other
-- ports; or "Decode As"), and in Ethernet frames with the EtherTypes 0x88b5 and 0x88b6.
--
-- It shows the fields of a packet and reports too short packets. It does not check the checksum.

local vip = Proto("vipd", "Virtual Interface Architecture (vipd)")

local KINDS = { [1] = "data", [2] = "CM", [3] = "path" }
local PATH = { [1] = "PROBE", [2] = "ECHO" }
local FRAMES = { [1] = "SEND", [2] = "WRITE", [3] = "READ_REQ", [4] = "READ_RESP", [5] = "WRITE_MSG" }
local CM = {
    [1] = "REQUEST", [2] = "PENDING", [3] = "ACCEPT", [4] = "CONFIRM", [5] = "REJECT", [6] = "NO_MATCH",
    [7] = "CANCEL", [8] = "CLOSE", [9] = "CLOSE_ACK", [10] = "PING", [11] = "PONG", [12] = "RESET",
    [13] = "COOKIE", [14] = "SETUP", [15] = "REBIND", [16] = "CHALLENGE", [17] = "PROOF",
    [18] = "AWAY", [19] = "LOAN_OFFER", [20] = "LOAN_AGREE", [21] = "LOAN_PROBE", [22] = "LOAN_PROBED",
}
local REASONS = {
    [0] = "disconnect", [1] = "death of the application", [2] = "error", [3] = "time-out", [4] = "vipd stops",
}
local ETHER_KINDS = { [1] = "packet", [2] = "ANNOUNCE", [3] = "SOLICIT", [4] = "QUERY" }
local LEVELS = { [1] = "Unreliable Delivery", [2] = "Reliable Delivery", [4] = "Reliable Reception" }

local HEADER_BYTES, RANGE_BYTES, FRAME_BYTES, CM_BYTES = 64, 8, 40, 80

local f = {
    version = ProtoField.uint8("vipd.version", "Version", base.DEC, nil, 0xf0),
    kind = ProtoField.uint8("vipd.kind", "Kind", base.DEC, KINDS, 0x0f),
    flags = ProtoField.uint8("vipd.flags", "Flags", base.HEX),
    ack = ProtoField.bool("vipd.flags.ack", "ACK", 8, nil, 0x01),
    elicits = ProtoField.bool("vipd.flags.elicits", "ELICITS", 8, nil, 0x02),
    ack_now = ProtoField.bool("vipd.flags.ack_now", "ACK_NOW", 8, nil, 0x04),
    range_count = ProtoField.uint8("vipd.range_count", "Ranges"),
    frame_count = ProtoField.uint8("vipd.frame_count", "Frames"),
    checksum = ProtoField.uint32("vipd.checksum", "Checksum (CRC32C)", base.HEX),
    conn = ProtoField.uint64("vipd.conn_id", "Connection id of the receiver", base.HEX),
    src_epoch = ProtoField.uint64("vipd.src_epoch", "Epoch of the sender", base.HEX),
    dst_epoch = ProtoField.uint64("vipd.dst_epoch", "Epoch of the receiver", base.HEX),
    number = ProtoField.uint64("vipd.packet_number", "Packet number"),
    cumulative = ProtoField.uint64("vipd.ack_cumulative", "Acknowledged below"),
    ts = ProtoField.uint32("vipd.ts", "Time stamp (128 ns)"),
    ts_echo = ProtoField.uint32("vipd.ts_echo", "Echoed time stamp"),
    ack_delay = ProtoField.uint32("vipd.ack_delay", "Delay of the acknowledgement (128 ns)"),
    ops_done = ProtoField.uint32("vipd.ops_done", "Operations done"),
    range = ProtoField.string("vipd.range", "Also arrived"),
    -- a frame
    frame_type = ProtoField.uint8("vipd.frame.type", "Frame", base.DEC, FRAMES),
    frame_flags = ProtoField.uint8("vipd.frame.flags", "Flags", base.HEX),
    last = ProtoField.bool("vipd.frame.last", "LAST", 8, nil, 0x01),
    immediate = ProtoField.bool("vipd.frame.immediate", "IMMEDIATE", 8, nil, 0x02),
    imm64 = ProtoField.bool("vipd.frame.imm64", "IMM64", 8, nil, 0x04),
    message = ProtoField.uint16("vipd.frame.message", "Bytes of the message"),
    op = ProtoField.uint32("vipd.frame.op", "Operation"),
    offset = ProtoField.uint32("vipd.frame.offset", "Offset"),
    length = ProtoField.uint32("vipd.frame.length", "Bytes in this fragment"),
    total = ProtoField.uint32("vipd.frame.total", "Bytes of the operation"),
    handle = ProtoField.uint32("vipd.frame.handle", "Memory handle", base.HEX),
    addr = ProtoField.uint64("vipd.frame.remote_addr", "Remote address", base.HEX),
    imm = ProtoField.uint64("vipd.frame.imm", "Immediate data", base.HEX),
    payload = ProtoField.bytes("vipd.frame.payload", "Payload"),
    padding = ProtoField.bytes("vipd.padding", "Padding"),
    -- a message between paths
    path_type = ProtoField.uint8("vipd.path.type", "Message between paths", base.DEC, PATH),
    path = ProtoField.uint8("vipd.path.path", "Path, from 0"),
    path_count = ProtoField.uint8("vipd.path.count", "Further addresses"),
    path_nonce = ProtoField.uint64("vipd.path.nonce", "Nonce", base.HEX),
    path_ts = ProtoField.uint32("vipd.path.ts", "Time stamp (us)"),
    path_accepts = ProtoField.uint8("vipd.path.accepts", "Accepts packets by this path"),
    path_host = ProtoField.bytes("vipd.path.host", "Host that is asked"),
    path_addr = ProtoField.bytes("vipd.path.addr", "Address on a further path"),
    -- connection management
    cm_type = ProtoField.uint8("vipd.cm.type", "Message", base.DEC, CM),
    reason = ProtoField.uint8("vipd.cm.reason", "Reason", base.DEC, REASONS),
    peer_to_peer = ProtoField.bool("vipd.cm.peer_to_peer", "Peer to peer"),
    ops_valid = ProtoField.bool("vipd.cm.ops_valid", "Operations are told"),
    code = ProtoField.uint32("vipd.cm.code", "Code"),
    request = ProtoField.uint64("vipd.cm.request_id", "Request id", base.HEX),
    conn_id = ProtoField.uint64("vipd.cm.conn_id", "Connection id of the sender", base.HEX),
    peer_conn_id = ProtoField.uint64("vipd.cm.peer_conn_id", "Connection id of the receiver", base.HEX),
    packet_bytes = ProtoField.uint32("vipd.cm.packet_bytes", "Largest packet"),
    window_bytes = ProtoField.uint32("vipd.cm.window_bytes", "Window"),
    cookie = ProtoField.uint64("vipd.cm.cookie", "Cookie", base.HEX),
    op_status = ProtoField.uint32("vipd.cm.op_status", "Status of the failed operation", base.HEX),
    failed_op = ProtoField.uint32("vipd.cm.failed_op", "Failed operation"),
    cm_ops_done = ProtoField.uint32("vipd.cm.ops_done", "Operations done"),
    level = ProtoField.uint16("vipd.cm.level", "Reliability level", base.DEC, LEVELS),
    rdma_write = ProtoField.bool("vipd.cm.rdma_write", "Target of RDMA Write", 8, nil, 0x01),
    rdma_read = ProtoField.bool("vipd.cm.rdma_read", "Target of RDMA Read", 8, nil, 0x02),
    features = ProtoField.uint8("vipd.cm.features", "Features", base.HEX),
    max_transfer = ProtoField.uint64("vipd.cm.max_transfer_bytes", "MaxTransferSize"),
    qos = ProtoField.uint64("vipd.cm.qos", "QoS", base.HEX),
    local_host = ProtoField.bytes("vipd.cm.local_host", "Local host"),
    local_disc = ProtoField.bytes("vipd.cm.local_discriminator", "Local discriminator"),
    remote_host = ProtoField.bytes("vipd.cm.remote_host", "Remote host"),
    remote_disc = ProtoField.bytes("vipd.cm.remote_discriminator", "Remote discriminator"),
    private = ProtoField.bytes("vipd.cm.private_data", "Private data"),
    setup_features = ProtoField.uint64("vipd.cm.setup_features", "All features", base.HEX),
    tag = ProtoField.uint64("vipd.cm.tag", "Tag of the receiver's end", base.HEX),
    back_ms = ProtoField.uint64("vipd.cm.back_ms", "The next vipd comes within (ms)"),
    nonce = ProtoField.uint64("vipd.cm.nonce", "Nonce of the end that was asked", base.HEX),
    data_id = ProtoField.uint64("vipd.cm.data_id", "Connection id in data packets to the sender", base.HEX),
    loan_number = ProtoField.uint32("vipd.cm.number", "Number of the sender's binding"),
    offered = ProtoField.uint32("vipd.cm.offered", "Number of the offer"),
    item = ProtoField.bytes("vipd.cm.item", "Item"),
    -- Ethernet
    magic = ProtoField.uint8("vipd.ether.magic", "Magic", base.HEX),
    ether_kind = ProtoField.uint8("vipd.ether.kind", "Contents", base.DEC,
        ETHER_KINDS, 0x0f),
    ether_length = ProtoField.uint16("vipd.ether.length", "Bytes of the contents"),
}
for _, field in pairs(f) do
    vip.fields[#vip.fields + 1] = field
end

local short = ProtoExpert.new("vipd.short", "The packet ends before what it announces", expert.group.MALFORMED,
    expert.severity.ERROR)
local strange = ProtoExpert.new("vipd.strange", "Another version or kind", expert.group.UNDECODED, expert.severity.WARN)
vip.experts = { short, strange }

-- Report a packet that is too short, unless only the capture has cut it.
local function too_short(buf, tree)
    if buf:len() >= buf:reported_len() then
        tree:add_proto_expert_info(short)
    end
end
vip.prefs.ports = Pref.range("UDP ports", "4794", "Ports of NICs with link = udp", 65535)

-- Dissect one frame of a packet at `at`. Returns the offset behind it; nil: too short a packet.
local function dissect_frame(buf, tree, at, words)
    if at + FRAME_BYTES > buf:len() then
        return nil
    end
    local kind, length = buf(at, 1):uint(), buf(at + 12, 4):le_uint()
    local bytes = math.min(FRAME_BYTES + length, buf:len() - at)
    local name = FRAMES[kind] or ("type " .. kind)
    local sub = tree:add(vip, buf(at, bytes), string.format("%s, operation %u, %u bytes", name,
        buf(at + 4, 4):le_uint(), length))

    words[#words + 1] = string.format("%s op=%u %u+%u/%u", name, buf(at + 4, 4):le_uint(),
        buf(at + 8, 4):le_uint(), length, buf(at + 16, 4):le_uint())
    sub:add(f.frame_type, buf(at, 1))
    sub:add(f.frame_flags, buf(at + 1, 1))
    sub:add(f.last, buf(at + 1, 1))
    sub:add(f.immediate, buf(at + 1, 1))
    sub:add(f.imm64, buf(at + 1, 1))
    sub:add_le(f.message, buf(at + 2, 2))
    sub:add_le(f.op, buf(at + 4, 4))
    sub:add_le(f.offset, buf(at + 8, 4))
    sub:add_le(f.length, buf(at + 12, 4))
    sub:add_le(f.total, buf(at + 16, 4))
    sub:add_le(f.handle, buf(at + 20, 4))
    sub:add_le(f.addr, buf(at + 24, 8))
    sub:add_le(f.imm, buf(at + 32, 8))
    if at + FRAME_BYTES + length > buf:len() then
        return nil
    end
    if length > 0 then
        sub:add(f.payload, buf(at + FRAME_BYTES, length))
    end
    return at + FRAME_BYTES + length
end

local function dissect_data(buf, tree, words)
    local at = HEADER_BYTES
    local base_number = buf(40, 8):le_uint64()

    words[#words + 1] = "#" .. tostring(buf(32, 8):le_uint64())
    if buf(1, 1):bitfield(7, 1) == 1 then
        words[#words + 1] = "ack<" .. tostring(base_number)
    end
    for _ = 1, buf(2, 1):uint() do
        if at + RANGE_BYTES > buf:len() then
            too_short(buf, tree)
            return
        end
        tree:add(f.range, buf(at, RANGE_BYTES), string.format("%s to %s",
            tostring(base_number + buf(at, 4):le_uint()),
            tostring(base_number + buf(at + 4, 4):le_uint() - 1)))
        at = at + RANGE_BYTES
    end
    for _ = 1, buf(3, 1):uint() do
        at = dissect_frame(buf, tree, at, words)
        if not at then
            too_short(buf, tree)
            return
        end
    end
    if at < buf:len() then
        tree:add(f.padding, buf(at))
    end
end

local function dissect_cm(buf, tree, words)
    if buf:len() < HEADER_BYTES + CM_BYTES then
        too_short(buf, tree)
        return
    end
    local kind = buf(64, 1):uint()
    local sub = tree:add(vip, buf(HEADER_BYTES), "Connection management: " .. (CM[kind] or kind))

    words[#words + 1] = CM[kind] or ("type " .. kind)
    sub:add(f.cm_type, buf(64, 1))
    sub:add(f.reason, buf(65, 1))
    sub:add(f.peer_to_peer, buf(66, 1))
    sub:add(f.ops_valid, buf(67, 1))
    sub:add_le(f.code, buf(68, 4))
    if kind == 19 or kind == 20 then
        sub:add_le(f.loan_number, buf(72, 4))
        sub:add_le(f.offered, buf(76, 4))
    else
        sub:add_le(f.request, buf(72, 8))
    end
    sub:add_le(f.conn_id, buf(80, 8))
    sub:add_le(f.peer_conn_id, buf(88, 8))
    sub:add_le(f.packet_bytes, buf(96, 4))
    sub:add_le(f.window_bytes, buf(100, 4))
    if kind == 1 or kind == 13 then
        sub:add_le(f.cookie, buf(104, 8))
    elseif kind == 14 then
        sub:add_le(f.setup_features, buf(104, 8))
    elseif kind == 15 then
        sub:add_le(f.tag, buf(104, 8))
    elseif kind == 16 or kind == 17 then
        sub:add_le(f.nonce, buf(104, 8))
    elseif kind == 18 then
        sub:add_le(f.back_ms, buf(104, 8))
    elseif kind == 19 or kind == 20 then
        sub:add_le(f.data_id, buf(104, 8))
    else
        sub:add_le(f.op_status, buf(104, 4))
        sub:add_le(f.failed_op, buf(108, 4))
    end
    sub:add_le(f.cm_ops_done, buf(112, 4))
    sub:add_le(f.level, buf(116, 2))
    sub:add(f.rdma_write, buf(118, 1))
    sub:add(f.rdma_read, buf(118, 1))
    sub:add(f.features, buf(119, 1))
    sub:add_le(f.max_transfer, buf(120, 8))
    sub:add_le(f.qos, buf(128, 8))
    -- The parts behind the fixed part, in this order, each with the offset of its length.
    local at = HEADER_BYTES + CM_BYTES
    local parts = { { f.local_host, 136 }, { f.local_disc, 137 }, { f.remote_host, 138 }, { f.remote_disc, 139 },
        { f.private, 140 } }
    for _, part in ipairs(parts) do
        local length = buf(part[2], 1):uint()
        if at + length > buf:len() then
            too_short(buf, tree)
            return
        end
        if length > 0 then
            sub:add(part[1], buf(at, length))
        end
        at = at + length
    end
    -- Items: type, length, value.
    local last = at + buf(142, 2):le_uint()
    while at < last do
        if at + 4 > buf:len() or at + 4 + buf(at + 2, 2):le_uint() > buf:len() then
            too_short(buf, tree)
            return
        end
        local length = buf(at + 2, 2):le_uint()
        sub:add(f.item, buf(at + 4, length), string.format("Item %d", buf(at, 2):le_uint()))
        at = at + 4 + length
    end
end

-- Messages between the paths of two hosts have no packet header.
local function dissect_path(buf, tree, words)
    local kind, count = buf(1, 1):uint(), buf(3, 1):uint()

    words[#words + 1] = (PATH[kind] or ("type " .. kind)) .. " by path " .. (buf(2, 1):uint() + 1)
    tree:add(f.path_type, buf(1, 1))
    tree:add(f.path, buf(2, 1))
    tree:add(f.path_count, buf(3, 1))
    tree:add_le(f.checksum, buf(4, 4))
    tree:add_le(f.path_nonce, buf(8, 8))
    tree:add_le(f.path_ts, buf(16, 4))
    tree:add(f.path_accepts, buf(20, 1))
    for i = 0, math.min(count, 3) do
        local at = 24 + 25 * i
        local length = buf(at, 1):uint()

        if buf:len() < at + 25 then
            too_short(buf, tree)
            return
        end
        if length > 0 and length <= 24 then
            tree:add(i == 0 and f.path_host or f.path_addr, buf(at + 1, length))
        end
    end
end

local function dissect_packet(buf, pinfo, root)
    local tree = root:add(vip, buf())
    local words = {}

    pinfo.cols.protocol = "VIPD"
    if buf:len() < HEADER_BYTES then
        too_short(buf, tree)
        return
    end
    local version, kind = buf(0, 1):bitfield(0, 4), buf(0, 1):bitfield(4, 4)
    tree:add(f.version, buf(0, 1))
    tree:add(f.kind, buf(0, 1))
    if version ~= 1 or not KINDS[kind] then
        tree:add_proto_expert_info(strange)
        return
    end
    if kind == 3 then
        dissect_path(buf, tree, words)
        pinfo.cols.info = table.concat(words, " ")
        return
    end
    tree:add(f.flags, buf(1, 1))
    tree:add(f.ack, buf(1, 1))
    tree:add(f.elicits, buf(1, 1))
    tree:add(f.ack_now, buf(1, 1))
    tree:add(f.range_count, buf(2, 1))
    tree:add(f.frame_count, buf(3, 1))
    tree:add_le(f.checksum, buf(4, 4))
    tree:add_le(f.conn, buf(8, 8))
    tree:add_le(f.src_epoch, buf(16, 8))
    tree:add_le(f.dst_epoch, buf(24, 8))
    tree:add_le(f.number, buf(32, 8))
    tree:add_le(f.cumulative, buf(40, 8))
    tree:add_le(f.ts, buf(48, 4))
    tree:add_le(f.ts_echo, buf(52, 4))
    tree:add_le(f.ack_delay, buf(56, 4))
    tree:add_le(f.ops_done, buf(60, 4))
    if kind == 1 then
        dissect_data(buf, tree, words)
    else
        dissect_cm(buf, tree, words)
    end
    pinfo.cols.info = table.concat(words, " ")
    tree:append_text(", " .. table.concat(words, " "))
end

function vip.dissector(buf, pinfo, root)
    dissect_packet(buf, pinfo, root)
    return buf:len()
end

-- On Ethernet four bytes precede the packet; one field is its length, as short frames are padded.
local ether = Proto("vipd_ether", "vipd on Ethernet")

function ether.dissector(buf, pinfo, root)
    if buf:len() < 4 or buf(0, 1):uint() ~= 0x56 then
        return 0
    end
    local kind, length = buf(1, 1):bitfield(4, 4), buf(2, 2):le_uint()
    local tree = root:add(ether, buf(0, 4))

    tree:add(f.magic, buf(0, 1))
    tree:add(f.ether_kind, buf(1, 1))
    tree:add_le(f.ether_length, buf(2, 2))
    pinfo.cols.protocol = "VIPD"
    if length > buf:len() - 4 then
        too_short(buf, tree)
    elseif kind == 1 then
        dissect_packet(buf(4, length):tvb(), pinfo, root)
    else
        pinfo.cols.info = ETHER_KINDS[kind] or "kind " .. kind
    end
    return buf:len()
end

local registered = DissectorTable.get("udp.port")
registered:add(vip.prefs.ports, vip)
for _, ethertype in ipairs({ 0x88b5, 0x88b6 }) do
    DissectorTable.get("ethertype"):add(ethertype, ether)
end

-- Files of `vipctl capture`: packets without UDP or Ethernet headers, and events of descriptors.
local event = Proto("vipd_desc", "Descriptor of vipd")
local EVENTS = { [1] = "posted", [2] = "completed" }
local e = {
    kind = ProtoField.uint8("vipd_desc.kind", "Event", base.DEC, EVENTS),
    queue = ProtoField.uint8("vipd_desc.queue", "Queue", base.DEC, { [0] = "send", [1] = "receive" }),
    vi = ProtoField.uint16("vipd_desc.vi", "VI"),
    status = ProtoField.uint32("vipd_desc.status", "Status", base.HEX),
    bytes = ProtoField.uint32("vipd_desc.bytes", "Bytes"),
    client = ProtoField.uint32("vipd_desc.client", "Client"),
}
for _, field in pairs(e) do
    event.fields[#event.fields + 1] = field
end

function event.dissector(buf, pinfo, root)
    if buf:len() < 16 then
        return 0
    end
    local tree = root:add(event, buf())

    tree:add(e.kind, buf(0, 1))
    tree:add(e.queue, buf(1, 1))
    tree:add_le(e.vi, buf(2, 2))
    tree:add_le(e.status, buf(4, 4))
    tree:add_le(e.bytes, buf(8, 4))
    tree:add_le(e.client, buf(12, 4))
    pinfo.cols.protocol = "VIPD"
    pinfo.cols.info = string.format("%s %s, client %u VI %u, %u bytes, status 0x%x",
        buf(1, 1):uint() == 0 and "send" or "receive", EVENTS[buf(0, 1):uint()] or "?", buf(12, 4):le_uint(),
        buf(2, 2):le_uint(), buf(8, 4):le_uint(), buf(4, 4):le_uint())
    return 16
end

DissectorTable.get("wtap_encap"):add(wtap.USER0, vip)
DissectorTable.get("wtap_encap"):add(wtap.USER1, event)

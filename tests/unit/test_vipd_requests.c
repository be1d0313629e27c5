/*
 * Requests of a session and the views of vipctl, as raw messages to a daemon.
 */
#define DAEMON_CONFIG(config) ((config)->loan = 0) /* test_no_loans */

#include "unit/vipd_app.h"

/* ---- requests ---------------------------------------------------------------------------- */

/* Each request of control.proto has a row of its name in vipd's table. */
static void test_each_request_has_a_row(void **state)
{
    static const char *const rows[] = {
#define REQUEST(BODY, name, function, needs_session, fds_min, fds_max)                             \
    [VIP__REQUEST__BODY_##BODY] = #name,
#include "vipd/client/requests.def"
    };
    const ProtobufCMessageDescriptor *request = &vip__request__descriptor;

    (void)state;
    for (unsigned i = 0; i < request->n_fields; i++) {
        const ProtobufCFieldDescriptor *field = &request->fields[i];

        if (field->id >= sizeof(rows) / sizeof(*rows) || !rows[field->id])
            fail_msg("vipd/client/requests.def has no row for %s", field->name);
        assert_string_equal(rows[field->id], field->name);
    }
}

static void test_vi_attributes(void **state)
{
    struct app app = open_app("vip0");
    Vip__CreateViRequest create;
    Vip__ViAttributes attributes;
    Vip__Request request = vi_request(&create, &attributes);

    (void)state;
    ask_code(app.sock, &request, VIP_RC_SUCCESS, NULL);
    attributes.reliability_level = 0;
    ask_code(app.sock, &request, VIP_RC_INVALID_RELIABILITY_LEVEL, "0x0");
    attributes.reliability_level = VIP_LVL_DELIVERY | VIP_LVL_RECEPTION;
    ask_code(app.sock, &request, VIP_RC_INVALID_RELIABILITY_LEVEL, "0x6");
    attributes.reliability_level = VIP_LVL_UNRELIABLE;
    attributes.max_transfer_size = 0;
    ask_code(app.sock, &request, VIP_RC_INVALID_MTU, "MaxTransferSize 0");
    attributes.max_transfer_size = VIP_TRANSFER_BYTES_MAX + 1ull;
    ask_code(app.sock, &request, VIP_RC_INVALID_MTU, NULL);
    attributes.max_transfer_size = VIP_TRANSFER_BYTES_MAX;
    attributes.has_ptag = true;
    attributes.ptag = 77;
    ask_code(app.sock, &request, VIP_RC_INVALID_PTAG, NULL);
    attributes.ptag = 0;
    create.has_send_cq = true;
    create.send_cq = 0x80000000u;
    ask_code(app.sock, &request, VIP_RC_INVALID_PARAMETER, "completion queue");
    create.send_cq = 3;
    ask_code(app.sock, &request, VIP_RC_INVALID_PARAMETER, NULL);
    create.attributes = NULL;
    ask_code(app.sock, &request, VIP_RC_INVALID_RELIABILITY_LEVEL, NULL);
    close_app(&app);
}

/* The VIs of all handles of a user count together. VIs of a closed handle do not count. */
static void test_vi_quota(void **state)
{
    struct app one = open_app("vip0"), two = open_app("vip0");
    Vip__CreateViRequest create;
    Vip__ViAttributes attributes;
    Vip__Request request = vi_request(&create, &attributes);

    (void)state;
    for (unsigned i = 0; i < VIS_MAX; i++)
        ask_code(i % 2 ? one.sock : two.sock, &request, VIP_RC_SUCCESS, NULL);
    ask_code(one.sock, &request, VIP_RC_ERROR_RESOURCE, "vis_per_uid");
    ask_code(two.sock, &request, VIP_RC_ERROR_RESOURCE, "vis_per_uid");
    close_app(&one);
    ask_code(two.sock, &request, VIP_RC_SUCCESS, NULL);
    close_app(&two);
}

static void test_memory_quota(void **state)
{
    Vip__RegisterMemRequest mem = VIP__REGISTER_MEM_REQUEST__INIT;
    Vip__MemRequest other = VIP__MEM_REQUEST__INIT;
    Vip__Request request = VIP__REQUEST__INIT;
    struct app app = open_app("vip0");

    (void)state;
    request.body_case = VIP__REQUEST__BODY_REGISTER_MEM;
    request.register_mem = &mem;
    mem.has_address = mem.has_bytes = mem.has_kind = mem.has_offset = true;
    mem.kind = VIP__MEM_KIND__MEM_ADOPTED;
    mem.address = 0x7000000;
    mem.bytes = 1 << 20;
    other.has_handle = other.has_address = true;
    other.handle = ask_code(app.sock, &request, VIP_RC_SUCCESS, NULL);
    other.address = 0x7000000;
    mem.bytes = 1;
    ask_code(app.sock, &request, VIP_RC_ERROR_RESOURCE, "register_bytes");
    mem.bytes = UINT64_MAX;
    ask_code(app.sock, &request, VIP_RC_ERROR_RESOURCE, "register_bytes");

    request.body_case = VIP__REQUEST__BODY_DEREGISTER_MEM;
    request.deregister_mem = &other;
    other.address++;
    ask_code(app.sock, &request, VIP_RC_INVALID_PARAMETER, "handle");
    other.address--;
    ask_code(app.sock, &request, VIP_RC_SUCCESS, NULL);
    close_app(&app);
}

static void test_connect_addresses(void **state)
{
    Vip__ConnectWaitRequest wait = VIP__CONNECT_WAIT_REQUEST__INIT;
    Vip__NetAddress address = VIP__NET_ADDRESS__INIT;
    Vip__Request request = VIP__REQUEST__INIT;
    struct app app = open_app("vip0");
    uint8_t bytes[VIP_DISCRIMINATOR_BYTES_MAX + 1] = {1};
    Vip__Reply *reply;

    (void)state;
    request.body_case = VIP__REQUEST__BODY_CONNECT_WAIT;
    request.connect_wait = &wait;
    wait.local = &address;
    address.has_discriminator = true;
    address.discriminator.data = bytes;
    address.discriminator.len = sizeof(bytes);
    ask_code(app.sock, &request, VIP_RC_INVALID_PARAMETER, "discriminator of 129");
    address.discriminator.len--;
    address.has_host = true;
    address.host.data = bytes;
    address.host.len = VIP_HOST_ADDR_BYTES_MAX + 1;
    ask_code(app.sock, &request, VIP_RC_INVALID_PARAMETER, "address of 25");
    address.has_host = false;
    wait.has_immediate = true;
    wait.immediate = true;
    reply = ask(app.sock, &request, NULL, 0);
    assert_int_equal(reply->code, VIP_RC_SUCCESS);
    assert_non_null(reply->connect_wait);
    assert_false(reply->connect_wait->found);
    vip__reply__free_unpacked(reply, NULL);
    close_app(&app);
}

/* ---- views ------------------------------------------------------------------------------- */

/* Read all pages of a view. Returns the number of rows, and in *ret_pages the number of pages. */
static size_t count_rows(int sock, Vip__ShowRequest__What what, unsigned *ret_pages)
{
    Vip__ShowRequest show = VIP__SHOW_REQUEST__INIT;
    Vip__Request request = VIP__REQUEST__INIT;
    uint64_t last_vi = UINT64_MAX;
    size_t rows = 0;
    bool more = true;

    request.body_case = VIP__REQUEST__BODY_SHOW;
    request.show = &show;
    show.has_what = show.has_cursor = true;
    show.what = what;
    *ret_pages = 0;
    while (more) {
        Vip__Reply *reply = ask(sock, &request, NULL, 0);

        assert_int_equal(reply->code, VIP_RC_SUCCESS);
        assert_non_null(reply->show);
        assert_true(vip__reply__get_packed_size(reply) <= VIP_CONTROL_BYTES_MAX);
        rows += reply->show->n_nics + reply->show->n_vis + reply->show->n_mems +
                reply->show->n_clients + reply->show->n_counters;
        for (size_t i = 0; i < reply->show->n_vis; i++) {
            assert_int_equal(reply->show->vis[i]->vi, last_vi + 1);
            last_vi = reply->show->vis[i]->vi;
            assert_string_equal(reply->show->vis[i]->program, "test??[1m");
            assert_int_equal(reply->show->vis[i]->pid, getpid());
            assert_int_equal(reply->show->vis[i]->uid, getuid());
        }
        more = reply->show->has_next_cursor;
        show.cursor = reply->show->next_cursor;
        (*ret_pages)++;
        vip__reply__free_unpacked(reply, NULL);
    }
    return rows;
}

static void test_show(void **state)
{
    struct app app = open_app("vip0");
    Vip__CreateViRequest create;
    Vip__ViAttributes attributes;
    Vip__Request request = vi_request(&create, &attributes);
    Vip__RegisterMemRequest mem = VIP__REGISTER_MEM_REQUEST__INIT;
    int sock = connect_daemon();
    unsigned pages;

    (void)state;
    for (int i = 0; i < 1500; i++)
        ask_code(app.sock, &request, VIP_RC_SUCCESS, NULL);
    request.body_case = VIP__REQUEST__BODY_REGISTER_MEM;
    request.register_mem = &mem;
    mem.has_address = mem.has_bytes = mem.has_kind = mem.has_offset = true;
    mem.kind = VIP__MEM_KIND__MEM_ADOPTED;
    mem.bytes = 64;
    for (uint64_t i = 0; i < 2000; i++) {
        mem.address = 0x7000000 + i * 64;
        mem.offset = i * 64;
        ask_code(app.sock, &request, VIP_RC_SUCCESS, NULL);
    }
    assert_int_equal(count_rows(sock, VIP__SHOW_REQUEST__WHAT__NIC, &pages), 1);
    assert_int_equal(count_rows(sock, VIP__SHOW_REQUEST__WHAT__CLIENT, &pages), 1);
    assert_int_equal(count_rows(sock, VIP__SHOW_REQUEST__WHAT__VI, &pages), 1500);
    assert_true(pages > 1);
    assert_int_equal(count_rows(sock, VIP__SHOW_REQUEST__WHAT__MEM, &pages), 2000);
    assert_true(pages > 1);
    assert_true(count_rows(sock, VIP__SHOW_REQUEST__WHAT__STATS, &pages) > 60);
    close_app(&app);
    assert_int_equal(count_rows(sock, VIP__SHOW_REQUEST__WHAT__VI, &pages), 0);
    assert_int_equal(pages, 1);
    close(sock);
}

static void test_show_summary(void **state)
{
    Vip__ShowRequest show = VIP__SHOW_REQUEST__INIT;
    Vip__Request request = VIP__REQUEST__INIT;
    int sock = connect_daemon();
    Vip__Reply *reply;

    (void)state;
    request.body_case = VIP__REQUEST__BODY_SHOW;
    request.show = &show;
    ask_code(sock, &request, VIP_RC_INVALID_PARAMETER, "no such view");
    show.has_what = true;
    show.what = VIP__SHOW_REQUEST__WHAT__SUMMARY;
    reply = ask(sock, &request, NULL, 0);
    assert_int_equal(reply->code, VIP_RC_SUCCESS);
    assert_non_null(reply->show->summary);
    assert_int_equal(reply->show->summary->pid, daemon_pid);
    assert_string_equal(reply->show->summary->runtime_dir, dir);
    assert_true(reply->show->summary->epoch != 0);
    vip__reply__free_unpacked(reply, NULL);
    /* A cursor that vipd has never returned is not an error. */
    show.what = VIP__SHOW_REQUEST__WHAT__VI;
    show.has_cursor = true;
    for (int bit = 0; bit < 64; bit++) {
        show.cursor = ~0ull << bit;
        ask_code(sock, &request, VIP_RC_SUCCESS, NULL);
    }
    close(sock);
}

/* A vipd with `loan = no` refuses a request for a loan, and the session goes on. */
static void test_no_loans(void **state)
{
    struct app app = open_app("vip0");
    Vip__LoanRequest loan = VIP__LOAN_REQUEST__INIT;
    Vip__Request request = VIP__REQUEST__INIT;
    int sock = socket(AF_INET, SOCK_DGRAM, 0);
    Vip__Reply *reply;

    (void)state;
    request.body_case = VIP__REQUEST__BODY_LOAN;
    request.loan = &loan;
    reply = ask(app.sock, &request, &sock, 1);
    assert_int_equal(reply->code, VIP_RC_ERROR_NOT_SUPPORTED);
    assert_non_null(strstr(reply->reason, "[engine] loan"));
    vip__reply__free_unpacked(reply, NULL);
    close(sock);
    close_app(&app);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_request_has_a_row), cmocka_unit_test(test_vi_attributes),
        cmocka_unit_test(test_memory_quota),           cmocka_unit_test(test_vi_quota),
        cmocka_unit_test(test_connect_addresses),      cmocka_unit_test(test_show),
        cmocka_unit_test(test_show_summary),           cmocka_unit_test(test_no_loans),
    };

    return cmocka_run_group_tests_name("vipd_requests", tests, start_daemon, stop_daemon);
}

/*
 * The requests about loans, as raw messages to a daemon: what vipd checks before it asks the NIC
 * (test_nic_loan has the NIC's part).
 */
#define DAEMON_CONFIG(config) ((config)->loan = 1)
#include "proto/direct.h"
#include "proto/loan.h"
#include "unit/vipd_app.h"

static int udp_socket(void)
{
    int sock = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

    assert_true(sock >= 0);
    return sock;
}

/* Send a LoanRequest with a socket and, if parts is not -1, with the memory for loans. */
static void ask_loan(const struct app *app, uint32_t vi, int parts, enum vip_rc code,
                     const char *word)
{
    Vip__LoanRequest loan = VIP__LOAN_REQUEST__INIT;
    Vip__Request request = VIP__REQUEST__INIT;
    int fds[2] = {udp_socket(), parts};
    Vip__Reply *reply;

    loan.has_vi = loan.has_part = true;
    loan.vi = vi;
    request.body_case = VIP__REQUEST__BODY_LOAN;
    request.loan = &loan;
    reply = ask(app->sock, &request, fds, parts >= 0 ? 2 : 1);
    if (reply->code != code || !strstr(reply->reason, word))
        fail_msg("%u %s (want %u and '%s')", reply->code, reply->reason, code, word);
    vip__reply__free_unpacked(reply, NULL);
    close(fds[0]);
    if (parts >= 0)
        close(parts);
}

static void end_loan(const struct app *app, uint32_t vi, enum vip_rc code)
{
    Vip__LoanEndRequest body = VIP__LOAN_END_REQUEST__INIT;
    Vip__Request request = VIP__REQUEST__INIT;

    body.has_vi = true;
    body.vi = vi;
    request.body_case = VIP__REQUEST__BODY_LOAN_END;
    request.loan_end = &body;
    ask_code(app->sock, &request, code, code == VIP_RC_SUCCESS ? NULL : "no VI");
}

static void make_vi(const struct app *app)
{
    Vip__CreateViRequest create;
    Vip__ViAttributes attributes;
    Vip__Request request = vi_request(&create, &attributes);

    ask_code(app->sock, &request, VIP_RC_SUCCESS, NULL);
}

static void test_memory(void **state)
{
    struct app app = open_app("vip0");
    int table = make_memfd(VIP_RECV_BYTES, APP_SEALS);
    Vip__DirectRequest direct = VIP__DIRECT_REQUEST__INIT;
    Vip__Request request = VIP__REQUEST__INIT;
    Vip__Reply *reply;

    ask_loan(&app, 0, -1, VIP_RC_INVALID_STATE, "needs the memory");
    ask_loan(&app, 0, make_memfd(VIP_LOANS_BYTES, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL),
             VIP_RC_INVALID_PARAMETER, "lacks one of the seals");
    ask_loan(&app, 0, make_memfd(VIP_LOANS_BYTES - 4096, APP_SEALS), VIP_RC_INVALID_PARAMETER,
             "wrong size");
    ask_loan(&app, 0, udp_socket(), VIP_RC_INVALID_PARAMETER, "not a memfd");
    request.body_case = VIP__REQUEST__BODY_DIRECT;
    request.direct = &direct;
    reply = ask(app.sock, &request, &table, 1);
    assert_int_equal(reply->code, VIP_RC_SUCCESS);
    vip__reply__free_unpacked(reply, NULL);
    close(table);
    /* vipd takes the memory although the rest of the request is wrong; later it needs none. */
    ask_loan(&app, 0, make_memfd(VIP_LOANS_BYTES, APP_SEALS), VIP_RC_INVALID_PARAMETER,
             "no such VI");
    make_vi(&app);
    ask_loan(&app, 0, -1, VIP_RC_INVALID_STATE, "not connected");
    ask_loan(&app, 0, make_memfd(4096, 0), VIP_RC_INVALID_STATE, "not connected");
    end_loan(&app, 0, VIP_RC_SUCCESS);
    end_loan(&app, 1, VIP_RC_INVALID_PARAMETER);
    close_app(&app);
}

/* A session without a table of receives gets no loan. */
static void test_no_table(void **state)
{
    struct app app = open_app("vip0");

    make_vi(&app);
    ask_loan(&app, 0, make_memfd(VIP_LOANS_BYTES, APP_SEALS), VIP_RC_INVALID_STATE,
             "no table of receives");
    close_app(&app);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_memory),
        cmocka_unit_test(test_no_table),
    };

    return cmocka_run_group_tests_name("vipd_loan", tests, start_daemon, stop_daemon);
}

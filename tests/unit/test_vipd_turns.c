/* Turns of requests: users have equal parts, whatever number of connections each has. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "vipd/client/turns.h"

#define FLOOD 230

static char flood[FLOOD], victim; /* clients are only told apart */
static uint64_t now_ns;

/* A look in which the flood asks for views, and the victim (if it has a request) for something cheap, last. Returns
 * whether that was served. */
static bool look(struct turns *turns, struct turns_user *evil, struct turns_user *other,
                 unsigned cost, unsigned *ret_served)
{
    bool served = false;

    now_ns++;
    for (unsigned i = 0; i < FLOOD; i++)
        if (turns_may(turns, evil, &flood[i], false, now_ns)) {
            turns_spent(turns, evil, cost);
            ++*ret_served;
        }
    if (other && turns_may(turns, other, &victim, false, now_ns)) {
        turns_spent(turns, other, 1);
        served = true;
    }
    return served;
}

static void test_a_flood_of_views(void **state)
{
    struct turns turns = {0};
    struct turns_user *evil = turns_join(&turns, 1001), *honest = turns_join(&turns, 1000);
    unsigned served = 0, looks;

    (void)state;
    for (unsigned i = 0; i < 1000; i++)
        look(&turns, evil, NULL, TURNS_COST_MAX, &served);
    assert_int_equal(served, 1000); /* alone it has each look */
    for (unsigned i = 0; i < 100; i++) {
        for (looks = 1; !look(&turns, evil, honest, TURNS_COST_MAX, &served); looks++)
            assert_true(looks < 3);
    }
    /* A victim that asks without pause has as much as the flood. */
    served = 0;
    for (unsigned i = 0; i < 6400; i++)
        look(&turns, evil, honest, TURNS_COST_MAX, &served);
    assert_in_range(served, 80, 220);
    turns_leave(&turns, evil);
    turns_leave(&turns, honest);
    assert_null(turns.users);
}

/* Who asked for nothing for long does not keep the others waiting now. */
static void test_no_savings(void **state)
{
    struct turns turns = {0};
    struct turns_user *evil = turns_join(&turns, 1001), *honest = turns_join(&turns, 1000);
    unsigned served = 0;

    (void)state;
    for (unsigned i = 0; i < 1000; i++)
        look(&turns, evil, NULL, TURNS_COST_MAX, &served);
    served = 0;
    for (unsigned i = 0; i < 640; i++)
        look(&turns, evil, honest, TURNS_COST_MAX, &served);
    assert_in_range(served, 8, 40);
    turns_leave(&turns, evil);
    turns_leave(&turns, honest);
}

/* Cheap requests of one user: each connection has its turn, and none waits for one that has gone. */
static void test_connections_in_turn(void **state)
{
    struct turns turns = {0};
    struct turns_user *user = turns_join(&turns, 1000);
    unsigned had[FLOOD] = {0};

    (void)state;
    assert_ptr_equal(turns_join(&turns, 1000), user);
    for (unsigned i = 0; i < 40; i++) {
        now_ns++;
        for (unsigned c = 0; c < FLOOD; c++)
            if (turns_may(&turns, user, &flood[c], false, now_ns)) {
                turns_spent(&turns, user, 8);
                had[c]++;
            }
        turns_forget(user, &flood[3]);
    }
    for (unsigned c = 0; c < FLOOD; c++)
        assert_in_range(had[c], 1, 3);
    turns_leave(&turns, user);
    turns_leave(&turns, user);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_flood_of_views),
        cmocka_unit_test(test_no_savings),
        cmocka_unit_test(test_connections_in_turn),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

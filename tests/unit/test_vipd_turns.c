/* Turns of requests: users get equal parts, whatever the number of their connections. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "vipd/client/turns.h"

#define FLOOD 230

static char flood[FLOOD], victim; /* the addresses identify the clients */
static uint64_t now_ns;

/* A look at the descriptors. Each connection of the flood has a request of this cost. The victim
 * (unless `other` is NULL) is last, with a cheap request. True: the victim is served. */
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
    unsigned served = 0, looks, had = 0;

    (void)state;
    /* Both users begin in the same look. */
    for (looks = 1; !look(&turns, evil, honest, TURNS_COST_MAX, &served); looks++)
        assert_true(looks < 3);
    served = 0;
    for (unsigned i = 0; i < 1000; i++)
        look(&turns, evil, NULL, TURNS_COST_MAX, &served);
    assert_in_range(served, 999, 1000); /* without the victim, each look serves one view */
    for (unsigned i = 0; i < 100; i++) {
        for (looks = 1; !look(&turns, evil, honest, TURNS_COST_MAX, &served); looks++)
            assert_true(looks < 3);
    }
    /* The victim has a request in each look. vipd serves the victim at least in every second look,
     * and the flood in every second look. */
    served = 0;
    for (unsigned i = 0; i < 1000; i++)
        had += look(&turns, evil, honest, TURNS_COST_MAX, &served);
    assert_in_range(had, 490, 1000);
    assert_in_range(served, 490, 510);
    turns_leave(&turns, evil);
    turns_leave(&turns, honest);
    assert_null(turns.users);
}

/* An old user has spent much time. It does not wait for a user that disconnects and connects again
 * and again. It also does not wait for a user whose requests all find room. */
static void test_long_lives(void **state)
{
    struct turns turns = {0};
    struct turns_user *old = turns_join(&turns, 1000), *fresh;
    unsigned served = 0;

    (void)state;
    for (unsigned i = 0; i < 1000; i++)
        look(&turns, old, NULL, TURNS_COST_MAX, &served);
    for (unsigned i = 0; i < 100; i++) {
        fresh = turns_join(&turns, 1001);
        assert_true(turns_may(&turns, fresh, &victim, false, ++now_ns));
        turns_spent(&turns, fresh, 1);
        turns_leave(&turns, fresh);
        served = 0;
        look(&turns, old, NULL, TURNS_COST_MAX, &served);
        assert_int_equal(served, 1);
    }
    fresh = turns_join(&turns, 1001);
    served = 0;
    for (unsigned i = 0; i < 100; i++) {
        assert_true(turns_may(&turns, fresh, &victim, false, ++now_ns));
        turns_spent(&turns, fresh, 1);
        for (unsigned c = 0; c < FLOOD; c++)
            if (turns_may(&turns, old, &flood[c], false, now_ns)) {
                turns_spent(&turns, old, 1);
                served++;
            }
    }
    /* A look ends at the last connection, so each fourth look does not use up its cost. */
    assert_in_range(served, 80 * TURNS_COST_MAX, 100 * TURNS_COST_MAX);
    turns_leave(&turns, fresh);
    turns_leave(&turns, old);
}

/* Cheap requests of one user: each connection has its turn; none waits for a closed connection. */
static void test_connections_in_turn(void **state)
{
    struct turns turns = {0};
    struct turns_user *user = turns_join(&turns, 1000);
    unsigned had[FLOOD] = {0};

    (void)state;
    assert_ptr_equal(turns_join(&turns, 1000), user);
    assert_int_equal(turns_connections(&turns, 1000), 2);
    assert_int_equal(turns_connections(&turns, 1001), 0);
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
        cmocka_unit_test(test_long_lives),
        cmocka_unit_test(test_connections_in_turn),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

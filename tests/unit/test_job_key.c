/*
 * job/key: a proof is SipHash-2-4 with 128 bits. It is valid for only one key, role and claim.
 */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include <string.h>

#include "job/key.h"

static struct job_key counting_key(void)
{
    struct job_key key;

    for (unsigned char i = 0; i < sizeof(key.bytes); i++)
        key.bytes[i] = i;
    return key;
}

/* `openssl mac -macopt size:16 SIPHASH` made these proofs from the 8 bytes of role and claim. */
static void proofs_are_siphash_of_role_and_claim(void **state)
{
    static const struct {
        enum job_role role;
        const char *claim;
        unsigned char proof[16];
    } known[] = {
        {JOB_CALLS,
         "",
         {0xF2, 0x70, 0xB4, 0x84, 0xF0, 0x72, 0xAA, 0xBC, 0x01, 0x64, 0x88, 0xCB, 0x6F, 0x60, 0xA4,
          0xD4}},
        {JOB_ANSWERS,
         "",
         {0x1E, 0xD9, 0xF5, 0x18, 0xA6, 0x4B, 0x53, 0x4B, 0x63, 0x9E, 0x90, 0x68, 0x0B, 0xD2, 0x7C,
          0xE0}},
        {JOB_CALLS,
         "abc",
         {0x0E, 0x3A, 0x38, 0xE7, 0x07, 0x9B, 0x22, 0x93, 0xB7, 0xAD, 0x2B, 0xC0, 0x68, 0x6F, 0x48,
          0x39}},
        {JOB_CALLS,
         "The quick brown fox jumps over the lazy dog.....",
         {0x9A, 0x45, 0x2B, 0x01, 0xE5, 0x60, 0x1B, 0x5A, 0x1C, 0x75, 0xEF, 0x45, 0xFB, 0xB9, 0x51,
          0xCE}},
    };
    struct job_key key = counting_key();

    (void)state;
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
        struct job_proof proof =
            job_prove(&key, known[i].role, known[i].claim, strlen(known[i].claim));

        assert_memory_equal(proof.bytes, known[i].proof, sizeof(proof.bytes));
    }
}

static void nothing_else_is_proved(void **state)
{
    struct job_key key = counting_key(), other = key;
    unsigned char claim[40] = {7};
    struct job_proof proof = job_prove(&key, JOB_CALLS, claim, sizeof(claim)), none = {{0}};

    (void)state;
    assert_true(job_proved(&key, JOB_CALLS, claim, sizeof(claim), &proof));
    assert_false(job_proved(&key, JOB_ANSWERS, claim, sizeof(claim), &proof));
    assert_false(job_proved(&key, JOB_CALLS, claim, sizeof(claim) - 1, &proof));
    assert_false(job_proved(&key, JOB_CALLS, claim, sizeof(claim), &none));
    other.bytes[15] ^= 1;
    assert_false(job_proved(&other, JOB_CALLS, claim, sizeof(claim), &proof));
    for (size_t bit = 0; bit < 8 * sizeof(claim); bit++) {
        claim[bit / 8] ^= (unsigned char)(1 << bit % 8);
        assert_false(job_proved(&key, JOB_CALLS, claim, sizeof(claim), &proof));
        claim[bit / 8] ^= (unsigned char)(1 << bit % 8);
    }
    for (size_t bit = 0; bit < 8 * sizeof(proof.bytes); bit++) {
        proof.bytes[bit / 8] ^= (unsigned char)(1 << bit % 8);
        assert_false(job_proved(&key, JOB_CALLS, claim, sizeof(claim), &proof));
        proof.bytes[bit / 8] ^= (unsigned char)(1 << bit % 8);
    }
}

static void keys_differ(void **state)
{
    struct job_key keys[64];

    (void)state;
    for (size_t i = 0; i < 64; i++) {
        assert_int_equal(job_key_draw(&keys[i]), 0);
        for (size_t k = 0; k < i; k++)
            assert_memory_not_equal(keys[i].bytes, keys[k].bytes, sizeof(keys[i].bytes));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(proofs_are_siphash_of_role_and_claim),
        cmocka_unit_test(nothing_else_is_proved),
        cmocka_unit_test(keys_differ),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

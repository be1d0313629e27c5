/*
 * VIP_ASSERT checks invariants of the program, also in release builds. Input from an application, a
 * peer, a file or a clock must never make an assertion fail.
 */
#ifndef VIP_PROTO_ASSERT_H
#define VIP_PROTO_ASSERT_H

/* Print the condition and its place in the source to stderr, then abort. */
_Noreturn void vip_assert_failed(const char *condition, const char *file, int line);

#define VIP_ASSERT(cond)                                                                           \
    (__builtin_expect(!!(cond), 1) ? (void)0 : vip_assert_failed(#cond, __FILE__, __LINE__))

#endif

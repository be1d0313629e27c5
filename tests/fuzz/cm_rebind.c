/*
 * Fuzz: cm_packets, but each vipd may be killed and start again, and binds its connections anew.
 * The input chooses when, which host is named as the other end, and what happens to messages.
 */
#define FUZZ_REBIND
#include "fuzz/cm_packets.c"

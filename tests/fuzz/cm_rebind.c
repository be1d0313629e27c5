/*
 * Fuzz: cm_packets with vipd that are killed and come back, and go on with their connections. The input chooses when,
 * which host is named as the other end, and which messages are lost, repeated and forged.
 */
#define FUZZ_REBIND
#include "fuzz/cm_packets.c"

/*
 * Probes for tracers (USDT, provider "vipd"). A probe is one nop instruction in the program and a
 * note in its ELF file; the arguments are not copied. bpftrace and perf find probes by name;
 * tools/bpftrace has scripts, vipd(8) lists the arguments. A build without <sys/sdt.h> (Debian:
 * systemtap-sdt-dev) has no probes.
 */
#ifndef VIP_PROTO_PROBE_H
#define VIP_PROTO_PROBE_H

#if defined(__has_include)
#if __has_include(<sys/sdt.h>)
#include <sys/sdt.h>
#define VIP_HAVE_PROBES 1
#endif
#endif

#ifdef VIP_HAVE_PROBES
#define VIP_PROBE2(name, a, b)          DTRACE_PROBE2(vipd, name, a, b)
#define VIP_PROBE3(name, a, b, c)       DTRACE_PROBE3(vipd, name, a, b, c)
#define VIP_PROBE4(name, a, b, c, d)    DTRACE_PROBE4(vipd, name, a, b, c, d)
#define VIP_PROBE5(name, a, b, c, d, e) DTRACE_PROBE5(vipd, name, a, b, c, d, e)
#else
#define VIP_PROBE2(name, a, b)          ((void)(a), (void)(b))
#define VIP_PROBE3(name, a, b, c)       ((void)(a), (void)(b), (void)(c))
#define VIP_PROBE4(name, a, b, c, d)    ((void)(a), (void)(b), (void)(c), (void)(d))
#define VIP_PROBE5(name, a, b, c, d, e) ((void)(a), (void)(b), (void)(c), (void)(d), (void)(e))
#endif

#endif

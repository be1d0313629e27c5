/* What the command line chose, beyond the verb and its words. */
#ifndef VIPCTL_OPTIONS_H
#define VIPCTL_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

struct options {
    bool json;          /* one JSON document, or one object per line where output goes on */
    bool raw;           /* numbers without units, cells separated by tabs */
    bool no_header;     /* no line of headings */
    bool colours;       /* use them */
    bool dry_run;       /* reload: look only */
    bool nagios;        /* check: one line, that tool's exit codes */
    bool app;           /* ping: from program to program */
    bool once;          /* top: print one screen and end */
    bool wait;          /* drain: until no program is left */
    bool payload;       /* capture: also what programs send */
    bool tree;          /* show clients: below their NICs, with their VIs */
    bool mapped;        /* show stats, metrics: from the file, without asking vipd */
    bool defaults;      /* config: also what has its default */
    const char *output; /* columns, separated by commas; NULL = the usual ones */
    const char *peer;   /* check: also this peer */
    const char *vi;     /* capture: of this VI only */
    const char *write;  /* capture: into this file */
    const char *nic;    /* ping: over this NIC */
    uint64_t count;     /* ping, top, monitor: so many, 0 = until interrupted */
    double interval_s;  /* between two of them */
    double timeout_s;   /* how long vipd may take to answer, or a peer */
};

#endif

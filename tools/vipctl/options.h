/* The options of the command line, besides the verb and its words. */
#ifndef VIPCTL_OPTIONS_H
#define VIPCTL_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

struct options {
    bool json;          /* one JSON document; one object per line if output is continuous */
    bool raw;           /* numbers without units, cells separated by tabs */
    bool no_header;     /* no line of headings */
    bool colours;       /* use colours */
    bool dry_run;       /* reload: only show the changes, make none */
    bool nagios;        /* check: one line, exit codes of Nagios */
    bool app;           /* ping: from program to program */
    bool once;          /* top: print one screen and end */
    bool wait;          /* drain: wait until no program has a NIC open */
    bool payload;       /* capture: also the data of programs */
    bool tree;          /* show clients: below their NICs, with their VIs */
    bool mapped;        /* show stats, metrics: from the file, without asking vipd */
    bool defaults;      /* config: also keys that have their default */
    const char *output; /* columns, separated by commas; NULL = the default columns */
    const char *peer;   /* check: also this peer */
    const char *vi;     /* capture: only this VI */
    const char *write;  /* capture: into this file */
    const char *nic;    /* ping: over this NIC */
    uint64_t count;     /* number of questions, samples, events or records; 0: the default */
    double interval_s;  /* seconds between two questions, samples or requests for events */
    double timeout_s;   /* seconds until vipd or a peer must answer */
};

#endif

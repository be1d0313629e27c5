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
    bool nagios;        /* check: print one line, use the exit codes of Nagios */
    bool app;           /* ping: measure between programs */
    bool once;          /* top: print one screen and end */
    bool wait;          /* drain: wait until no program has a NIC open */
    bool payload;       /* capture: include the data of programs */
    bool tree;          /* show clients: as a tree of NICs, clients and VIs */
    bool mapped;        /* show stats, metrics: read the mapped file, do not ask vipd */
    bool defaults;      /* config: show also keys that have their default */
    const char *output; /* columns, separated by commas; NULL = the default columns */
    const char *peer;   /* check: check this peer, too */
    const char *vi;     /* capture: capture only this VI */
    const char *write;  /* capture: write to this file */
    const char *nic;    /* ping: use this NIC */
    uint64_t count;     /* number of pings, samples, events or records; 0: the default */
    double interval_s;  /* seconds between two pings, samples or requests for events */
    double timeout_s;   /* seconds until vipd or a peer must answer */
};

#endif

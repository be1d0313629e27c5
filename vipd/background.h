/*
 * A vipd that leaves its caller's terminal: it forks, and the second process goes on as vipd. The
 * first process ends when the second one is ready. Its exit code tells whether vipd runs.
 */
#ifndef VIPD_BACKGROUND_H
#define VIPD_BACKGROUND_H

/*
 * Fork. Outcomes: 0 in the child; negative errno in the caller. After the fork the caller's process
 * waits. It exits with 0 when the child calls background_ready, with 1 if the child ends first.
 */
int background_begin(void);

/* vipd is ready: from now on it writes its log to DIR/vipd.log, and nothing to the terminal.
 * Without background_begin this does nothing. */
void background_ready(const char *dir);

#endif

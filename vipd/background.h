/*
 * A vipd that leaves its caller's terminal. The first process ends when the second one is ready;
 * its exit code says whether vipd runs.
 */
#ifndef VIPD_BACKGROUND_H
#define VIPD_BACKGROUND_H

/*
 * Fork. Outcomes: 0 in the child; negative errno in the caller. After the fork the caller's process
 * waits: it ends with 0 when the child calls background_ready, and with 1 when the child ends
 * before.
 */
int background_begin(void);

/* Ready: from now on the log goes to DIR/vipd.log, and nothing to the terminal. Without
 * background_begin this does nothing. */
void background_ready(const char *dir);

#endif

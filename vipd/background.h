/*
 * A vipd that leaves its caller's terminal: the first process ends when the second one is ready, so
 * that its exit code tells whether vipd runs.
 */
#ifndef VIPD_BACKGROUND_H
#define VIPD_BACKGROUND_H

/*
 * Fork. Returns in the child only, with 0, or in the caller with a negative errno. The caller's process
 * ends with 0 when background_ready is called in the child, and with 1 when the child ends before.
 */
int background_begin(void);

/* Ready: from now on the log goes to DIR/vipd.log, and nothing to the terminal. Harmless without
 * background_begin. */
void background_ready(const char *dir);

#endif

/*
 * A vipd for this user alone. The first program that needs a vipd starts it if VIPD_AUTOSTART=1 is
 * set, or if the user's own vipd.conf has autostart = yes under [daemon].
 *
 * Owns: the decision to start this vipd, and its arguments. This vipd ends when it has been unused
 * for 30 s.
 */
#ifndef VIPL_AUTOSTART_H
#define VIPL_AUTOSTART_H

/*
 * Call this if no vipd answered on socket_path. If the user's settings allow it, start a vipd there
 * and connect. Any thread. Outcomes: the connected socket; -ENOENT: the settings do not allow it,
 * or vipd is not installed; another negative errno: vipd did not start (vipd has printed the reason
 * on stderr).
 */
int vipl__autostart(const char *socket_path);

#endif

/*
 * A vipd for this user alone. The first program that needs a vipd starts it, with VIPD_AUTOSTART=1
 * or with autostart = yes under [daemon] in the user's own vipd.conf.
 *
 * Owns: whether and how that vipd is started. vipd itself ends after it has been unused for 30 s.
 */
#ifndef VIPL_AUTOSTART_H
#define VIPL_AUTOSTART_H

/*
 * No vipd answered on socket_path. If the user wishes it, start a vipd there and connect. Any
 * thread. Outcomes: the connected socket; -ENOENT: not wished, or vipd is not installed; another
 * negative errno: vipd did not start (it has printed the reason on stderr).
 */
int vipl__autostart(const char *socket_path);

#endif

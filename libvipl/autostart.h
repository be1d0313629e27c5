/*
 * A vipd for this user alone, started by the first program that needs one (VIPD_AUTOSTART=1, or
 * autostart = yes under [daemon] in the user's own vipd.conf).
 *
 * Owns: whether and how it is started. vipd itself ends after it has been unused for 30 s.
 */
#ifndef VIPL_AUTOSTART_H
#define VIPL_AUTOSTART_H

/*
 * No vipd answered on socket_path. If the user wishes it, start one there and connect. Any thread.
 * Outcomes: the connected socket; -ENOENT not wished; another negative errno: it did not start (it
 * has printed the reason on stderr).
 */
int vipl__autostart(const char *socket_path);

#endif

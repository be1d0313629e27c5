/*
 * A vipd for this user alone, started by the first program that needs one (VIPD_AUTOSTART=1, or
 * autostart = yes under [daemon] in the user's own vipd.conf).
 *
 * Owns: whether and how it is started. vipd itself ends again when it has been unused for a while.
 */
#ifndef VIPL_AUTOSTART_H
#define VIPL_AUTOSTART_H

/*
 * Nobody answered on socket_path. If the user wishes it, start a vipd there and connect. Any thread.
 * Outcomes: the connected socket; -ENOENT not wished; another negative errno: it did not start (it has
 * said why on stderr).
 */
int vipl__autostart(const char *socket_path);

#endif

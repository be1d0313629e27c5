/*
 * vipd-exporter: the statistics of a vipd as OpenMetrics text over HTTP, for Prometheus. The
 * exporter asks vipd anew for each request, and handles one request at a time.
 *
 * Owns: HTTP (libmicrohttpd). Does not own: the requests to vipd, and the text
 * (tools/vipctl/metrics.c).
 */
#include <arpa/inet.h>
#include <errno.h>
#include <getopt.h>
#include <microhttpd.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tools/vipctl/metrics.h"

#define PORT_DEFAULT    9794
#define TIMEOUT_S       10 /* seconds until an idle client is disconnected */
#define CONNECTIONS_MAX 16
#define CONTENT_TYPE    "application/openmetrics-text; version=1.0.0; charset=utf-8"

/* Make the whole text; NULL: out of memory. The metric vipd_up shows if vipd has answered. */
static char *make_text(size_t *ret_bytes)
{
    char *text = NULL;
    FILE *out = open_memstream(&text, ret_bytes);
    bool up = false;
    int sock;

    if (!out)
        return NULL;
    if (query_try_connect(&sock)) {
        up = metrics_write(sock, out) == EXIT_OK;
        (void)close(sock);
    }
    fprintf(out,
            "# TYPE vipd_up gauge\n# HELP vipd_up whether vipd answered\nvipd_up %d\n"
            "# TYPE vipd_exporter info\n# HELP vipd_exporter version of the exporter\n"
            "vipd_exporter_info{version=\"" VIP_VERSION "\"} 1\n# EOF\n",
            up);
    if (fclose(out) != 0) {
        free(text);
        return NULL;
    }
    return text;
}

static enum MHD_Result answer(struct MHD_Connection *connection, unsigned status, char *text,
                              size_t bytes, const char *type, enum MHD_ResponseMemoryMode mode)
{
    struct MHD_Response *response = MHD_create_response_from_buffer(bytes, text, mode);
    enum MHD_Result result;

    if (!response)
        return MHD_NO;
    (void)MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, type);
    result = MHD_queue_response(connection, status, response);
    MHD_destroy_response(response);
    return result;
}

static enum MHD_Result say(struct MHD_Connection *connection, unsigned status, const char *text)
{
    return answer(connection, status, (char *)text, strlen(text), "text/plain; charset=utf-8",
                  MHD_RESPMEM_PERSISTENT);
}

static enum MHD_Result on_request(void *ctx, struct MHD_Connection *connection, const char *url,
                                  const char *method, const char *version, const char *upload,
                                  size_t *upload_bytes, void **request)
{
    size_t bytes;
    char *text;

    (void)ctx;
    (void)version;
    (void)upload;
    (void)request;
    *upload_bytes = 0;
    if (strcmp(method, MHD_HTTP_METHOD_GET) != 0 && strcmp(method, MHD_HTTP_METHOD_HEAD) != 0)
        return say(connection, MHD_HTTP_METHOD_NOT_ALLOWED, "only GET\n");
    if (strcmp(url, "/") == 0)
        return say(connection, MHD_HTTP_OK, "vipd-exporter: see /metrics\n");
    if (strcmp(url, "/metrics") != 0)
        return say(connection, MHD_HTTP_NOT_FOUND, "there is only /metrics\n");
    text = make_text(&bytes);
    if (!text)
        return say(connection, MHD_HTTP_INTERNAL_SERVER_ERROR, "out of memory\n");
    return answer(connection, MHD_HTTP_OK, text, bytes, CONTENT_TYPE, MHD_RESPMEM_MUST_FREE);
}

static void print_help(void)
{
    puts(
        "vipd-exporter - the statistics of vipd for Prometheus\n\n"
        "  vipd-exporter [--listen ADDRESS:PORT]\n\n"
        "  -l, --listen ADDRESS:PORT  IPv4 address and port (default 127.0.0.1:9794; port 0: any)\n"
        "  -h, --help                 this text\n"
        "  -V, --version              the version\n\n"
        "GET /metrics asks vipd (VIPD_RUNTIME_DIR chooses which) and gives OpenMetrics text.");
}

/* Parse an address such as "127.0.0.1:9794". */
static bool parse_listen(const char *text, struct sockaddr_in *ret)
{
    char host[64];
    const char *colon = strrchr(text, ':');
    char *end;
    unsigned long port;

    if (!colon || (size_t)(colon - text) >= sizeof(host))
        return false;
    snprintf(host, sizeof(host), "%.*s", (int)(colon - text), text);
    port = strtoul(colon + 1, &end, 10);
    if (colon[1] < '0' || colon[1] > '9' || *end != '\0' || port > 65535 ||
        inet_pton(AF_INET, host, &ret->sin_addr) != 1)
        return false;
    ret->sin_port = htons((uint16_t)port);
    return true;
}

/* Answer HTTP requests until SIGTERM or SIGINT comes. The caller has blocked these signals. */
static int serve(const struct sockaddr_in *at, const sigset_t *signals)
{
    struct MHD_Daemon *daemon = MHD_start_daemon(
        MHD_USE_INTERNAL_POLLING_THREAD, 0, NULL, NULL, on_request, NULL, MHD_OPTION_SOCK_ADDR, at,
        MHD_OPTION_CONNECTION_TIMEOUT, (unsigned)TIMEOUT_S, MHD_OPTION_CONNECTION_LIMIT,
        (unsigned)CONNECTIONS_MAX, MHD_OPTION_END);
    const union MHD_DaemonInfo *port;
    int number;

    if (!daemon) {
        fprintf(stderr, "vipd-exporter: cannot listen: %s\n", strerror(errno));
        return EXIT_FAILURE;
    }
    port = MHD_get_daemon_info(daemon, MHD_DAEMON_INFO_BIND_PORT);
    printf("listening on port %u\n", port ? port->port : ntohs(at->sin_port));
    (void)fflush(stdout);
    while (sigwait(signals, &number) != 0)
        continue;
    MHD_stop_daemon(daemon);
    return EXIT_SUCCESS;
}

int main(int argc, char **argv)
{
    static const struct option options[] = {{"listen", required_argument, NULL, 'l'},
                                            {"help", no_argument, NULL, 'h'},
                                            {"version", no_argument, NULL, 'V'},
                                            {0}};
    struct sockaddr_in at = {.sin_family = AF_INET,
                             .sin_port = htons(PORT_DEFAULT),
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    sigset_t signals;
    int c;

    while ((c = getopt_long(argc, argv, "l:hV", options, NULL)) != -1) {
        switch (c) {
        case 'l':
            if (parse_listen(optarg, &at))
                break;
            fprintf(stderr, "vipd-exporter: --listen %s: want ADDRESS:PORT\n", optarg);
            return EXIT_USAGE;
        case 'h':
            print_help();
            return EXIT_SUCCESS;
        case 'V':
            puts("vipd-exporter " VIP_VERSION);
            return EXIT_SUCCESS;
        default:
            fprintf(stderr, "See vipd-exporter --help\n");
            return EXIT_USAGE;
        }
    }
    /* Block the signals before the daemon's thread starts, so that this thread blocks them too. */
    sigemptyset(&signals);
    sigaddset(&signals, SIGTERM);
    sigaddset(&signals, SIGINT);
    pthread_sigmask(SIG_BLOCK, &signals, NULL);
    return serve(&at, &signals);
}

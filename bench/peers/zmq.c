/*
 * ZeroMQ as a peer of bench/run: PAIR sockets.
 * usage: zmq serve ENDPOINT      (answers or drops messages until the client sends STOP)
 *        zmq lat|bw ENDPOINT SIZE_BYTES MILLISECONDS
 * The client prints one number: the median half round trip in us, or MB/s.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <zmq.h>

#define SAMPLES_MAX 1000000

/* The first byte of a message tells the server what to do with the message. */
enum { ECHO = 1, SWALLOW = 2, COUNT = 3, STOP = 4 };

static double now_s(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static int serve(void *sock)
{
    for (;;) {
        zmq_msg_t message;
        int kind;

        zmq_msg_init(&message);
        if (zmq_msg_recv(&message, sock, 0) < 0)
            return 1;
        kind = zmq_msg_size(&message) ? *(char *)zmq_msg_data(&message) : STOP;
        if ((kind == ECHO || kind == COUNT) && zmq_msg_send(&message, sock, 0) < 0)
            return 1;
        zmq_msg_close(&message);
        if (kind == STOP)
            return 0;
    }
}

static int ping(void *sock, char *bytes, size_t size, double seconds)
{
    double *sample_us = malloc(SAMPLES_MAX * sizeof(*sample_us));
    double start = now_s(), now = start;
    size_t count = 0;

    if (!sample_us)
        return 1;
    bytes[0] = ECHO;
    while (now - start < seconds && count < SAMPLES_MAX) {
        double before = now;

        if (zmq_send(sock, bytes, size, 0) < 0 || zmq_recv(sock, bytes, size, 0) < 0)
            return 1;
        now = now_s();
        sample_us[count++] = (now - before) / 2 * 1e6;
    }
    qsort(sample_us, count, sizeof(*sample_us), compare);
    printf("%.3f\n", sample_us[count / 2]);
    free(sample_us);
    return 0;
}

static int stream(void *sock, char *bytes, size_t size, double seconds)
{
    double start = now_s(), sent = 0;
    char mark = COUNT;

    bytes[0] = SWALLOW;
    while (now_s() - start < seconds) {
        if (zmq_send(sock, bytes, size, 0) < 0)
            return 1;
        sent += (double)size;
    }
    /* The answer comes when the server has received all earlier messages. */
    if (zmq_send(sock, &mark, 1, 0) < 0 || zmq_recv(sock, &mark, 1, 0) < 0)
        return 1;
    printf("%.1f\n", sent / (now_s() - start) / 1e6);
    return 0;
}

int main(int argc, char **argv)
{
    void *context = zmq_ctx_new(), *sock = zmq_socket(context, ZMQ_PAIR);
    size_t size = argc == 5 ? strtoul(argv[3], NULL, 10) : 0;
    double seconds = argc == 5 ? atof(argv[4]) / 1000 : 0;
    char *bytes, stop = STOP;
    int rc = 2;

    if (argc == 3 && strcmp(argv[1], "serve") == 0) {
        rc = zmq_bind(sock, argv[2]) < 0 ? 1 : serve(sock);
    } else if (argc == 5 && size > 0) {
        bytes = calloc(1, size);
        rc = !bytes || zmq_connect(sock, argv[2]) < 0 ? 1
             : strcmp(argv[1], "lat") == 0            ? ping(sock, bytes, size, seconds)
                                                      : stream(sock, bytes, size, seconds);
        zmq_send(sock, &stop, 1, 0);
        free(bytes);
    } else {
        fprintf(stderr,
                "usage: zmq serve ENDPOINT | zmq lat|bw ENDPOINT SIZE_BYTES MILLISECONDS\n");
    }
    zmq_close(sock);
    zmq_ctx_term(context);
    return rc;
}

/*
 * `vipctl capture`: writes the packets and descriptors that vipd reports (proto/capture.h) to a
 * pcapng file; Wireshark shows the file with our dissector. The capture includes the messages
 * between programs of one host, which no other tool shows.
 */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "proto/capture.h"
#include "proto/control.h"
#include "proto/limits.h"
#include "tools/vipctl/commands.h"
#include "tools/vipctl/pcapng.h"
#include "tools/vipctl/target.h"

/* Link types for private use; our dissector is registered for both link types. */
#define LINKTYPE_PACKETS     147 /* USER0: packets as in doc/wire.md */
#define LINKTYPE_DESCRIPTORS 148 /* USER1: struct event */

/* Largest number of records of a capture without --count: about 50 MB without payload. */
#define COUNT_DEFAULT 200000

/* A posted or completed descriptor in the file; little-endian like all our formats. */
struct event {
    uint8_t kind;  /* 1 posted, 2 completed */
    uint8_t queue; /* 0 send, 1 receive */
    uint16_t vi;
    uint32_t status, bytes;
    uint32_t client;
};

/* Counts of a capture's records, and the time when the capture ends. */
struct tally {
    uint64_t packets, descriptors, lost;
    uint64_t until_ns; /* end of the capture, in ns since 1970; 0: not known yet */
};

static volatile sig_atomic_t signals;

static void on_signal(int number)
{
    (void)number;
    signals = signals + 1;
}

/* ---- asking ------------------------------------------------------------------------------ */

static enum exit_code begin(int sock, const struct options *options, int *ret_stream)
{
    Vip__CaptureRequest capture = VIP__CAPTURE_REQUEST__INIT;
    Vip__Request request = VIP__REQUEST__INIT;
    Vip__Reply *reply = NULL;
    struct vip_fds fds = VIP_FDS_NONE;
    struct target vi = {0};
    enum exit_code code;

    if (options->vi && !target_read(options->vi, &vi)) {
        fprintf(stderr, "vipctl: --vi %s: want a VI's number below %d, or CLIENT:VI\n", options->vi,
                VIP_VI_MAX);
        return EXIT_USAGE;
    }
    capture.has_session = vi.has_client;
    capture.session = vi.client;
    capture.has_vi = options->vi != NULL;
    capture.vi = vi.vi;
    capture.peer = (char *)options->peer;
    capture.has_payload = true;
    capture.payload = options->payload;
    request.body_case = VIP__REQUEST__BODY_CAPTURE;
    request.capture = &capture;
    code = query_ask_fds(sock, &request, &reply, &fds);
    if (code == EXIT_OK && fds.count != 1) {
        fprintf(stderr, "vipctl: vipd's answer has no socket; is it of another version?\n");
        code = EXIT_FAILED;
    }
    if (code == EXIT_OK) {
        *ret_stream = fds.fd[0];
        fds.count = 0;
    }
    vip_fds_close(&fds);
    if (reply)
        vip__reply__free_unpacked(reply, NULL);
    return code;
}

/* ---- writing ----------------------------------------------------------------------------- */

static const char *kind_name(uint32_t kind)
{
    switch (kind) {
    case VIP_CAPTURE_SENT:
        return "sent";
    case VIP_CAPTURE_RECEIVED:
        return "received";
    case VIP_CAPTURE_LOCAL:
        return "within this host";
    case VIP_CAPTURE_POSTED:
        return "posted";
    default:
        return "completed";
    }
}

static void write_one(FILE *out, const struct vip_capture_head *head, const uint8_t *bytes)
{
    bool packet = head->kind < VIP_CAPTURE_POSTED;
    struct event event = {.kind = head->kind == VIP_CAPTURE_POSTED ? 1 : 2,
                          .queue = (uint8_t)head->queue,
                          .vi = (uint16_t)head->vi,
                          .status = head->status,
                          .bytes = head->bytes,
                          .client = (uint32_t)head->session};
    char comment[256], who[64] = "connection management", lost[48] = "";

    if (head->session)
        snprintf(who, sizeof(who), "client %llu VI %u", (unsigned long long)head->session,
                 head->vi);
    if (head->lost)
        snprintf(lost, sizeof(lost), "; %llu before it were lost", (unsigned long long)head->lost);
    snprintf(comment, sizeof(comment), "%s%s, NIC %u, %s%s%.59s%s", packet ? "" : "descriptor ",
             kind_name(head->kind), head->nic, who, head->peer[0] ? ", peer " : "", head->peer,
             lost);
    pcapng_packet(out, &(struct pcapng_packet){
                           .interface = packet ? 0 : 1,
                           .time_ns = head->wall_ns,
                           .bytes = packet ? (const void *)bytes : &event,
                           .captured = packet ? head->captured : (uint32_t)sizeof(event),
                           .length = packet ? head->bytes : (uint32_t)sizeof(event),
                           .direction = head->kind == VIP_CAPTURE_RECEIVED ? PCAPNG_INBOUND
                                        : head->kind == VIP_CAPTURE_SENT   ? PCAPNG_OUTBOUND
                                                                           : PCAPNG_UNKNOWN,
                           .comment = comment});
}

/* Write one record of vipd. Outcomes: 1: written; 0: vipd has ended the capture; -1: a signal came,
 * there was no record, or the record is later than until_ns. */
static int take_one(int stream, FILE *out, struct tally *tally)
{
    static uint8_t bytes[VIP_PACKET_BYTES_MAX];
    struct vip_capture_head head;
    struct iovec iov[2] = {{&head, sizeof(head)}, {bytes, sizeof(bytes)}};
    struct msghdr msg = {.msg_iov = iov, .msg_iovlen = 2};
    struct pollfd ready = {.fd = stream, .events = POLLIN};
    ssize_t n;

    /* Flush, so that a program that reads the file during the capture sees all records. */
    if (poll(&ready, 1, tally->until_ns ? 0 : 200) <= 0) {
        (void)fflush(out);
        return -1;
    }
    n = recvmsg(stream, &msg, 0);
    if (n < 0 && errno == EINTR)
        return -1;
    if (n < (ssize_t)sizeof(head) || head.captured != (size_t)n - sizeof(head) ||
        head.captured > head.bytes)
        return 0;
    head.peer[sizeof(head.peer) - 1] = '\0';
    tally->lost += head.lost;
    if (tally->until_ns && head.wall_ns > tally->until_ns)
        return -1;
    if (head.kind < VIP_CAPTURE_POSTED)
        tally->packets++;
    else
        tally->descriptors++;
    write_one(out, &head, bytes);
    return 1;
}

/*
 * Write the records that vipd sends. The first signal sets the end of the capture; records from
 * before this end are still read, or count as lost. The second signal ends the loop at once.
 */
static int take_all(int stream, FILE *out, uint64_t most, struct tally *tally)
{
    int r = 1;

    while (signals < 2 && !ferror(out) && tally->packets + tally->descriptors < most) {
        if (signals && !tally->until_ns) {
            struct timespec now;

            clock_gettime(CLOCK_REALTIME, &now);
            tally->until_ns = (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
        }
        r = take_one(stream, out, tally);
        if (r == 0 || (r < 0 && tally->until_ns))
            break;
    }
    return r;
}

static enum exit_code run(int stream, FILE *out, const struct options *options)
{
    uint64_t most = options->count > 0 ? options->count : COUNT_DEFAULT;
    struct sigaction action = {.sa_handler = on_signal};
    struct tally tally = {0};
    int r;

    (void)sigaction(SIGINT, &action, NULL);
    (void)sigaction(SIGTERM, &action, NULL);
    pcapng_begin(out, "vipctl " VIP_VERSION);
    pcapng_interface(out, LINKTYPE_PACKETS, "vipd", "packets of vipd's NICs");
    pcapng_interface(out, LINKTYPE_DESCRIPTORS, "descriptors", "postings and completions");
    (void)fflush(out);
    r = take_all(stream, out, most, &tally);
    if (fflush(out) != 0 || ferror(out)) {
        perror("vipctl: writing the capture");
        return EXIT_FAILED;
    }
    fprintf(stderr, "vipctl: %llu packets and %llu postings and completions, %llu lost%s\n",
            (unsigned long long)tally.packets, (unsigned long long)tally.descriptors,
            (unsigned long long)tally.lost, r == 0 ? "; vipd has ended the capture" : "");
    return EXIT_OK;
}

enum exit_code run_capture(char **words, int count, const struct options *options)
{
    FILE *out = stdout;
    enum exit_code code;
    int sock, stream = -1;

    (void)words;
    (void)count;
    if (!options->write) {
        fprintf(stderr, "vipctl: say where to, with -w FILE.pcapng (-w - is standard output)\n");
        return EXIT_USAGE;
    }
    code = query_connect(&sock);
    if (code != EXIT_OK)
        return code;
    code = begin(sock, options, &stream);
    (void)close(sock);
    if (code != EXIT_OK)
        return code;
    if (strcmp(options->write, "-") != 0)
        out = fopen(options->write, "wbe");
    if (!out) {
        fprintf(stderr, "vipctl: %s: %s\n", options->write, strerror(errno));
        code = EXIT_FAILED;
    } else {
        code = run(stream, out, options);
    }
    (void)close(stream);
    if (out && out != stdout && fclose(out) != 0 && code == EXIT_OK) {
        perror("vipctl: writing the capture");
        code = EXIT_FAILED;
    }
    return code;
}

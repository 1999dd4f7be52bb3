/* replay PORT CONNECTIONS DEPTH SECONDS FILE [REQUESTS]
 *
 * Replays length-prefixed request frames from FILE against 127.0.0.1:PORT on CONNECTIONS sockets, with up to DEPTH
 * requests in flight on each, and prints one JSON object: requests, seconds, bytes both ways, latency percentiles. One
 * epoll loop in C, prebuilt requests: the client is never the bottleneck. It counts responses, it does not read them:
 * whoever runs it asks the broker afterwards what it has. With REQUESTS it stops after so many, or after SECONDS; with
 * SIGINT at once.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { DEPTH_MAX = 1024, LATENCIES_MAX = 4000000, READ_BYTES = 1 << 20 };

typedef struct {
    int fd, wanted_events;
    int frame;              /* the frame being sent, or sent next */
    size_t sent;            /* of that frame */
    int sending;            /* part of it is out already */
    long in_flight;
    unsigned char prefix[4];
    int prefix_bytes;       /* of the response's length prefix */
    size_t response_left;
    double sent_at[DEPTH_MAX];
    unsigned first_sent, last_sent;
} Connection;

static char *requests;
static size_t *frame_at, *frame_bytes;
static int frame_count, depth, poller;
static volatile sig_atomic_t stopping; /* nothing more is sent */
static long in_flight_total, requests_left;
static double bytes_out, bytes_in;

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + t.tv_nsec * 1e-9;
}

static int by_value(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

static void die(const char *what) {
    perror(what);
    exit(1);
}

static void want(Connection *c, int events) {
    if (c->wanted_events == events) return;
    c->wanted_events = events;
    struct epoll_event e = {.events = events, .data.ptr = c};
    epoll_ctl(poller, EPOLL_CTL_MOD, c->fd, &e);
}

static void load(const char *path) {
    FILE *f = fopen(path, "rb");
    if (!f) die(path);
    fseek(f, 0, SEEK_END);
    size_t size = ftell(f);
    rewind(f);
    requests = malloc(size);
    if (fread(requests, 1, size, f) != size) die(path);
    fclose(f);
    frame_at = malloc(size / 4 * sizeof *frame_at);
    frame_bytes = malloc(size / 4 * sizeof *frame_bytes);
    for (size_t at = 0; at < size; at += frame_bytes[frame_count++]) {
        unsigned length;
        memcpy(&length, requests + at, 4);
        frame_at[frame_count] = at;
        frame_bytes[frame_count] = ntohl(length) + 4;
    }
}

static void open_connection(Connection *c, int port, int first_frame) {
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int one = 1;
    c->fd = socket(AF_INET, SOCK_STREAM, 0);
    if (connect(c->fd, (struct sockaddr *)&a, sizeof a)) die("connect");
    setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    fcntl(c->fd, F_SETFL, O_NONBLOCK);
    c->frame = first_frame;
    c->wanted_events = EPOLLIN;
    struct epoll_event e = {.events = EPOLLIN, .data.ptr = c};
    epoll_ctl(poller, EPOLL_CTL_ADD, c->fd, &e);
}

/* Sends until DEPTH requests are in flight or the socket is full. */
static void send_more(Connection *c) {
    while (c->sending || c->in_flight < depth) {
        if (!c->sending) {
            if (stopping || requests_left == 0) break;
            requests_left--;
            c->sending = 1;
            c->sent = 0;
            c->in_flight++;
            in_flight_total++;
            c->sent_at[c->last_sent++ % DEPTH_MAX] = now();
        }
        size_t left = frame_bytes[c->frame] - c->sent;
        ssize_t n = send(c->fd, requests + frame_at[c->frame] + c->sent, left, MSG_NOSIGNAL);
        if (n < 0) {
            if (errno != EAGAIN) die("send");
            want(c, EPOLLIN | EPOLLOUT);
            return;
        }
        bytes_out += n;
        c->sent += n;
        if ((size_t)n == left) {
            c->sending = 0;
            c->frame = (c->frame + 1) % frame_count;
        }
    }
    want(c, EPOLLIN);
}

/* Counts the responses in what has come; their latencies go to *latencies. */
static long receive(Connection *c, char *buffer, double *latencies, size_t *latency_count) {
    long done = 0;
    ssize_t n = recv(c->fd, buffer, READ_BYTES, 0);
    if (n < 0 && errno == EAGAIN) return 0;
    if (n <= 0) die("recv: connection lost");
    bytes_in += n;
    for (char *p = buffer; n > 0;) {
        if (c->prefix_bytes < 4) {
            c->prefix[c->prefix_bytes++] = *p++;
            n--;
            unsigned length;
            memcpy(&length, c->prefix, 4);
            c->response_left = ntohl(length);
            continue;
        }
        size_t step = c->response_left < (size_t)n ? c->response_left : (size_t)n;
        c->response_left -= step;
        p += step;
        n -= step;
        if (c->response_left == 0) {
            double taken = now() - c->sent_at[c->first_sent++ % DEPTH_MAX];
            if (*latency_count < LATENCIES_MAX) latencies[(*latency_count)++] = taken;
            c->prefix_bytes = 0;
            c->in_flight--;
            in_flight_total--;
            done++;
        }
    }
    return done;
}

static void stop_now(int number) {
    (void)number;
    stopping = 1;
}

int main(int argc, char **argv) {
    if (argc != 6 && argc != 7) return fprintf(stderr, "usage: replay PORT CONNECTIONS DEPTH SECONDS FILE [REQUESTS]\n"), 2;
    requests_left = argc == 7 ? atol(argv[6]) : -1;
    int connections = atoi(argv[2]);
    depth = atoi(argv[3]);
    if (depth > DEPTH_MAX) depth = DEPTH_MAX;
    load(argv[5]);
    signal(SIGINT, stop_now);
    poller = epoll_create1(0);
    Connection *all = calloc(connections, sizeof *all);
    for (int i = 0; i < connections; i++) open_connection(&all[i], atoi(argv[1]), (long)i * frame_count / connections);

    char *buffer = malloc(READ_BYTES);
    double *latencies = malloc(LATENCIES_MAX * sizeof *latencies);
    size_t count = 0;
    long done = 0;
    double began = now(), end = began + atof(argv[4]);
    for (int i = 0; i < connections; i++) send_more(&all[i]);
    struct epoll_event events[256];
    while (!(stopping && in_flight_total == 0)) {
        double t = now();
        if (t > end || requests_left == 0) stopping = 1;
        if (t > end + 5) {
            fprintf(stderr, "no answer to %ld requests\n", in_flight_total);
            return 1;
        }
        int n = epoll_wait(poller, events, 256, 200);
        for (int i = 0; i < n; i++) {
            Connection *c = events[i].data.ptr;
            if (events[i].events & ~EPOLLOUT) done += receive(c, buffer, latencies, &count);
            send_more(c);
        }
    }
    double took = now() - began;
    if (!count) return 1;
    qsort(latencies, count, sizeof *latencies, by_value);
    printf("{\"requests\": %ld, \"seconds\": %.6f, \"bytes_out\": %.0f, \"bytes_in\": %.0f, \"p50_us\": %.1f, \"p99_us\": %.1f, \"p999_us\": %.1f}\n",
           done, took, bytes_out, bytes_in, latencies[count / 2] * 1e6, latencies[(size_t)(count * .99)] * 1e6,
           latencies[(size_t)(count * .999)] * 1e6);
    return 0;
}

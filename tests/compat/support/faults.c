/* Stands between a broker and the kernel (LD_PRELOAD): writes and syncs below one directory that fail, are late or are
 * held back, and a clock that is wrong. What happens is told by a page that the test shares with the process, so that
 * it can change at any moment. The page also counts what has happened. docs: faults.py beside this file. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

struct faults {
    int32_t write_error, sync_error;       /* errno, 0: none */
    int32_t write_delay_ms, writes_late;   /* the next so many writes take that long */
    int32_t syncs_are_held;                /* while this is set, syncs wait */
    int32_t failed_writes, failed_syncs, late_writes, held_syncs; /* counted; held_syncs: waiting now */
    int32_t unused;
    int64_t clock_ahead_ms;
    char below[1024], named[64];           /* only these paths; only names that contain this */
};

static volatile struct faults *faults;
static int syncs = -1; /* where each sync that succeeded is written down: size and path */

static int (*real_clock_gettime)(clockid_t, struct timespec *);
static ssize_t (*real_write)(int, const void *, size_t);
static int (*real_fsync)(int), (*real_fdatasync)(int);

__attribute__((constructor)) static void begin(void) {
    real_clock_gettime = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
    real_write = (ssize_t(*)(int, const void *, size_t))dlsym(RTLD_NEXT, "write");
    real_fsync = (int (*)(int))dlsym(RTLD_NEXT, "fsync");
    real_fdatasync = (int (*)(int))dlsym(RTLD_NEXT, "fdatasync");
    const char *path = getenv("FAULTS_PAGE"), *log = getenv("FAULTS_SYNCS");
    int descriptor = path ? open(path, O_RDWR | O_CLOEXEC) : -1;
    if (descriptor >= 0) {
        void *page = mmap(NULL, sizeof(struct faults), PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
        if (page != MAP_FAILED) faults = page;
        close(descriptor);
    }
    if (log) syncs = open(log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
}

static int path_of(int descriptor, char *path, size_t size) {
    char link[64];
    snprintf(link, sizeof link, "/proc/self/fd/%d", descriptor);
    ssize_t length = readlink(link, path, size - 1);
    if (length < 0) return 0;
    path[length] = 0;
    return 1;
}

static int is_meant(int descriptor) {
    char path[4096];
    const char *below = (const char *)faults->below, *named = (const char *)faults->named;
    int saved = errno, is;
    is = path_of(descriptor, path, sizeof path) && !strncmp(path, below, strlen(below)) && (!*named || strstr(path, named));
    errno = saved;
    return is;
}

static void rest(int delay_ms) {
    struct timespec time = {delay_ms / 1000, delay_ms % 1000 * 1000000L};
    while (nanosleep(&time, &time) && errno == EINTR) {}
}

ssize_t write(int descriptor, const void *data, size_t size) {
    if (faults && (faults->write_error || faults->writes_late > 0) && is_meant(descriptor)) {
        if (faults->write_error) {
            __sync_fetch_and_add(&faults->failed_writes, 1);
            errno = faults->write_error;
            return -1;
        }
        if (__sync_fetch_and_sub(&faults->writes_late, 1) > 0) {
            __sync_fetch_and_add(&faults->late_writes, 1);
            rest(faults->write_delay_ms);
        }
    }
    return real_write(descriptor, data, size);
}

static int sync_with(int (*real)(int), int descriptor) {
    if (faults && (faults->sync_error || faults->syncs_are_held) && is_meant(descriptor)) {
        if (faults->syncs_are_held) {
            __sync_fetch_and_add(&faults->held_syncs, 1);
            while (faults->syncs_are_held) rest(5);
            __sync_fetch_and_sub(&faults->held_syncs, 1);
        }
        if (faults->sync_error) {
            __sync_fetch_and_add(&faults->failed_syncs, 1);
            errno = faults->sync_error;
            return -1;
        }
    }
    struct stat status;
    char path[4096], line[4200];
    int is_known = syncs >= 0 && !fstat(descriptor, &status) && path_of(descriptor, path, sizeof path);
    int outcome = real(descriptor);
    if (!outcome && is_known) {
        int length = snprintf(line, sizeof line, "%lld %s\n", (long long)status.st_size, path);
        if (real_write(syncs, line, length) < 0) return -1;
    }
    return outcome;
}

int fsync(int descriptor) { return sync_with(real_fsync, descriptor); }

int fdatasync(int descriptor) { return sync_with(real_fdatasync, descriptor); }

int clock_gettime(clockid_t clock, struct timespec *time) {
    if (!real_clock_gettime) real_clock_gettime = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
    int outcome = real_clock_gettime(clock, time);
    if (!outcome && faults && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) {
        int64_t ahead_ms = faults->clock_ahead_ms;
        time->tv_sec += ahead_ms / 1000;
    }
    return outcome;
}

int gettimeofday(struct timeval *restrict value, void *restrict zone) {
    struct timespec time;
    (void)zone;
    if (clock_gettime(CLOCK_REALTIME, &time)) return -1;
    value->tv_sec = time.tv_sec;
    value->tv_usec = time.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *where) {
    struct timespec now;
    if (clock_gettime(CLOCK_REALTIME, &now)) return -1;
    if (where) *where = now.tv_sec;
    return now.tv_sec;
}

// Preloaded into a server, it sets the server's wall clock ahead by CLOCK_SHIFT seconds. libfaketime hangs in redis-server.
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static time_t shift(void) {
    const char *by = getenv("CLOCK_SHIFT");
    return by ? atol(by) : 0;
}

int gettimeofday(struct timeval *now, void *zone) {
    (void)zone;
    struct timespec exact;
    syscall(SYS_clock_gettime, CLOCK_REALTIME, &exact);
    now->tv_sec = exact.tv_sec + shift();
    now->tv_usec = exact.tv_nsec / 1000;
    return 0;
}

int clock_gettime(clockid_t clock, struct timespec *now) {
    int failed = (int)syscall(SYS_clock_gettime, clock, now);
    if (!failed && clock == CLOCK_REALTIME) now->tv_sec += shift();
    return failed;
}

time_t time(time_t *now) {
    struct timespec exact;
    clock_gettime(CLOCK_REALTIME, &exact);
    if (now) *now = exact.tv_sec;
    return exact.tv_sec;
}

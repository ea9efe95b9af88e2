/* Preloaded into a gate: moves its clocks by the nanoseconds written in the file $CLOCK_SHIFT.
 *
 * The file holds one line "REALTIME MONOTONIC BOOTTIME"; it is read at each question, so that a test can move the
 * clocks of a running process. Other clocks are left alone. With $CLOCK_FROZEN the monotonic clock only moves by what
 * the file says: it stands where it was when it was asked first. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static long long shift_of(clockid_t clock) {
    const char *path = getenv("CLOCK_SHIFT");
    FILE *file = path ? fopen(path, "r") : NULL;
    long long realtime = 0, monotonic = 0, boottime = 0;
    if (file) {
        if (fscanf(file, "%lld %lld %lld", &realtime, &monotonic, &boottime) != 3)
            realtime = monotonic = boottime = 0;
        fclose(file);
    }
    switch (clock) {
    case CLOCK_REALTIME:
    case CLOCK_REALTIME_COARSE: return realtime;
    case CLOCK_MONOTONIC:
    case CLOCK_MONOTONIC_RAW:
    case CLOCK_MONOTONIC_COARSE: return monotonic;
    case CLOCK_BOOTTIME: return boottime;
    default: return 0;
    }
}

int clock_gettime(clockid_t clock, struct timespec *now) {
    static int (*real)(clockid_t, struct timespec *);
    if (!real) real = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
    int result = real(clock, now);
    if (result == 0 && clock == CLOCK_MONOTONIC && getenv("CLOCK_FROZEN")) {
        static struct timespec start;
        static int state; /* 0: not asked for, 1: being written, 2: written */
        int untouched = 0;
        if (__atomic_compare_exchange_n(&state, &untouched, 1, 0, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) {
            start = *now;
            __atomic_store_n(&state, 2, __ATOMIC_RELEASE);
        }
        while (__atomic_load_n(&state, __ATOMIC_ACQUIRE) != 2) {}
        *now = start;
    }
    if (result == 0) {
        long long shift = shift_of(clock);
        long long nanos = now->tv_nsec + shift % 1000000000LL;
        now->tv_sec += shift / 1000000000LL;
        if (nanos < 0) { nanos += 1000000000LL; now->tv_sec -= 1; }
        if (nanos >= 1000000000LL) { nanos -= 1000000000LL; now->tv_sec += 1; }
        now->tv_nsec = nanos;
    }
    return result;
}

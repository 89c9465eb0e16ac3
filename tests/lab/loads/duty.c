/* duty SECONDS PERCENT CPU: one thread on that CPU that is busy for PERCENT of each 20 ms and then sleeps. */
#define _GNU_SOURCE
#include <sched.h>
#include <stdlib.h>
#include <time.h>
static double now(void) { struct timespec t; clock_gettime(CLOCK_MONOTONIC, &t); return t.tv_sec + t.tv_nsec / 1e9; }
int main(int c, char **v) {
    if (c < 4) return 2;
    double end = now() + atof(v[1]), busy = 0.02 * atof(v[2]) / 100;
    cpu_set_t set; CPU_ZERO(&set); CPU_SET(atoi(v[3]), &set); sched_setaffinity(0, sizeof set, &set);
    for (double next = now(); next < end; next += 0.02) {
        while (now() < next + busy) {}
        struct timespec t = {(time_t)(next + 0.02), (long)((next + 0.02 - (time_t)(next + 0.02)) * 1e9)};
        clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, 0);
    }
    return 0;
}

/* sched MODE COUNT SECONDS: threads that a scheduler has much work with, and their harmless counterparts.
   nanosleep: sleeps of 20 us (shorter ones end before the thread sleeps); timerfd | epoll | signals: timers of 1 us; ticks: timers of 10 ms; yield: sched_yield in a loop; spin: a plain loop;
   deadline: SCHED_DEADLINE, 9 of 10 ms, beside COUNT normal loops on the same CPUs; deadline-idle: the same, asleep. */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

static const char *mode;
static int is(const char *m) { return !strcmp(mode, m); }
static void die(const char *what) { perror(what); _exit(1); }
static void name(const char *n) { prctl(PR_SET_NAME, n, 0, 0, 0); }
static void nap(long ns) { struct timespec t = {ns / 1000000000, ns % 1000000000}; nanosleep(&t, 0); }
static void ignore(int signal) {}
static void spin(void) { for (;;) for (volatile int i = 0; i < 20000; i++); }

struct deadline { uint32_t size, policy; uint64_t flags; int32_t nice; uint32_t priority; uint64_t runtime, deadline, period; };
static void to_deadline(void) {
    struct deadline attr = {.size = sizeof attr, .policy = 6, .runtime = 9000000, .deadline = 10000000, .period = 10000000};
    if (is("deadline-idle")) attr.runtime = 1000000;
    if (syscall(SYS_sched_setattr, 0, &attr, 0)) die("sched_setattr");
}

static void *work(void *unused) {
    name("worker");
    prctl(PR_SET_TIMERSLACK, 1, 0, 0, 0);
    struct itimerspec each = {{0, 1000}, {0, 1000}};
    uint64_t n;
    struct epoll_event e = {.events = EPOLLIN};
    if (is("nanosleep")) for (;;) nap(20000);
    if (is("ticks")) for (;;) nap(10000000);
    if (is("yield")) for (;;) sched_yield();
    if (is("spin")) spin();
    if (is("timerfd") || is("epoll")) {
        int fd = timerfd_create(CLOCK_MONOTONIC, 0), ep = epoll_create1(0);
        timerfd_settime(fd, 0, &each, 0);
        epoll_ctl(ep, EPOLL_CTL_ADD, fd, &e);
        for (;;) { if (is("epoll")) epoll_wait(ep, &e, 1, -1); if (read(fd, &n, 8) < 0) die("read"); }
    }
    if (is("signals")) {
        timer_t t; struct sigevent ev = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGUSR1};
        signal(SIGUSR1, ignore);
        if (timer_create(CLOCK_MONOTONIC, &ev, &t)) die("timer_create");
        timer_settime(t, 0, &each, 0);
        spin();
    }
    if (is("deadline")) { name("deadline"); to_deadline(); spin(); }
    if (is("deadline-idle")) { name("deadline"); to_deadline(); for (;;) nap(10000000); }
    die(mode);
    return 0;
}

static void *normal(void *unused) { name("normal"); spin(); return 0; }

int main(int argc, char **argv) {
    if (argc < 4) { fprintf(stderr, "sched MODE COUNT SECONDS\n"); return 2; }
    mode = argv[1];
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    int count = atoi(argv[2]), deadline = !strncmp(mode, "deadline", 8);
    for (int i = 0; i < count; i++) { pthread_t t; if (pthread_create(&t, 0, deadline ? normal : work, 0)) die("thread"); }
    for (int i = 0; deadline && i < sysconf(_SC_NPROCESSORS_ONLN); i++) { pthread_t t; if (pthread_create(&t, 0, work, 0)) die("thread"); }
    sleep(atoi(argv[3]));
    return 0;
}

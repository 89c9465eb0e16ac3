/* load MODE FOLDER SECONDS COUNT: small loads with a known chain. One mode a test; see tests/lab/chain.rs. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/io_uring.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static const char *folder;
static int count, seconds;

static void die(const char *what) { perror(what); _exit(1); }
static void name(const char *n) { prctl(PR_SET_NAME, n, 0, 0, 0); }
static int file(const char *n, int flags) {
    char path[4096]; // each thread its own
    snprintf(path, sizeof path, "%s/%s", folder, n);
    int fd = open(path, flags | O_CREAT, 0600);
    if (fd < 0) die(n);
    return fd;
}
static void *aligned(size_t n) { void *b; if (posix_memalign(&b, 4096, n)) _exit(1); memset(b, 7, n); return b; }
static void commit(int fd) { char b[4096] = {1}; if (pwrite(fd, b, sizeof b, 0) < 0 || fsync(fd)) die("commit"); }
static void *many(void *(*work)(void *)) {
    for (long i = 0; i < count; i++) { pthread_t t; if (pthread_create(&t, 0, work, (void *)i)) die("thread"); }
    return 0;
}
static void burn(double ms) {
    struct timespec a, b; clock_gettime(CLOCK_THREAD_CPUTIME_ID, &a);
    do clock_gettime(CLOCK_THREAD_CPUTIME_ID, &b); while ((b.tv_sec - a.tv_sec) * 1e3 + (b.tv_nsec - a.tv_nsec) / 1e6 < ms);
}
static void nap(long ms) { struct timespec t = {ms / 1000, ms % 1000 * 1000000}; nanosleep(&t, 0); }

/* One process per connection and one lock file, whose holder commits. */
static void flocks(void) {
    for (int i = 0; i < count; i++) if (!fork()) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        int lock = file("lock", O_RDWR), fd = file("data", O_RDWR);
        for (;;) { if (flock(lock, LOCK_EX)) die("flock"); commit(fd); flock(lock, LOCK_UN); }
    }
}
/* The same, but the first one keeps the lock. */
static void flock_held(void) {
    int has[2]; char c; if (pipe(has)) die("pipe");
    for (int i = 0; i < count; i++) {
        if (!fork()) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            int lock = file("lock", O_RDWR), fd = file("data", O_RDWR);
            if (flock(lock, LOCK_EX) || write(has[1], "x", 1) < 1) die("flock");
            for (;;) commit(fd);
        }
        if (!i && read(has[0], &c, 1) < 1) die("its lock");
    }
}
/* Direct writes past the end of one file: the inode's lock is held over the write. */
static void *append(void *a) {
    (void)a; name("append"); int fd = file("grows", O_RDWR | O_DIRECT); void *b = aligned(4096);
    for (;;) if (pwrite(fd, b, 4096, lseek(fd, 0, SEEK_END)) < 0 && errno != EINVAL) die("append");
    return 0;
}
static void *rename_loop(void *a) {
    long id = (long)a; char x[64], y[64], p[4096], q[4096]; name("renamer"); 
    snprintf(x, 64, "r%ld", id); snprintf(y, 64, "s%ld", id);
    snprintf(p, 4096, "%s/%s", folder, x); snprintf(q, 4096, "%s/%s", folder, y);
    close(file(x, O_RDWR));
    int d = open(folder, O_RDONLY);
    for (;;) { rename(p, q); fsync(d); rename(q, p); fsync(d);}
    return 0;
}
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER, pi;
static pthread_cond_t wake = PTHREAD_COND_INITIALIZER, done = PTHREAD_COND_INITIALIZER;
static pthread_rwlock_t rwlock = PTHREAD_RWLOCK_INITIALIZER;
static long wanted, written;
static void *committer(void *a) { (void)a; name("committer"); for (;;) {
        pthread_mutex_lock(&mutex); while (wanted == written) pthread_cond_wait(&wake, &mutex);
        long upto = wanted; pthread_mutex_unlock(&mutex);
        static int fd; if (!fd) fd = file("log", O_RDWR); commit(fd);
        pthread_mutex_lock(&mutex); written = upto; pthread_cond_broadcast(&done); pthread_mutex_unlock(&mutex);
    } return 0; }
static void *client(void *a) { (void)a; name("client"); for (;;) {
        pthread_mutex_lock(&mutex); long mine = ++wanted; pthread_cond_signal(&wake);
        while (written < mine) pthread_cond_wait(&done, &mutex); pthread_mutex_unlock(&mutex); burn(0.05);
    } return 0; }
static void *hold_and_burn(void *a) { (void)a; name("burner"); for (;;) { pthread_mutex_lock(&mutex); burn(10); pthread_mutex_unlock(&mutex); sched_yield(); } return 0; }
static void *hold_pi(void *a) { (void)a; name("pi"); int fd = file("pi", O_RDWR); for (;;) { pthread_mutex_lock(&pi); commit(fd); pthread_mutex_unlock(&pi); sched_yield(); } return 0; }
static void *hold_rw(void *a) { (void)a; name("rw"); int fd = file("rw", O_RDWR); for (;;) { pthread_rwlock_wrlock(&rwlock); commit(fd); pthread_rwlock_unlock(&rwlock); sched_yield(); } return 0; }
static void *direct(void *a) { long id = (long)a; name("direct"); int fd = file("direct", O_RDWR | O_DIRECT); void *b = aligned(4096); unsigned s = id + 1;
    for (;;) if (pwrite(fd, b, 4096, rand_r(&s) % 4096 * 4096L) < 0) die("direct"); return 0; }
/* Thirty milliseconds of writes in each tenth of a second, in the beat of the clock. */
static void *beat(void *a) { (void)a; name("beat"); int fd = file("direct", O_RDWR | O_DIRECT); void *b = aligned(4096);
    struct timespec t, u; clock_gettime(CLOCK_MONOTONIC, &t);
    for (;;) { clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, 0);
        do { if (pwrite(fd, b, 4096, 0) < 0) die("beat"); clock_gettime(CLOCK_MONOTONIC, &u); } while ((u.tv_sec - t.tv_sec) * 1000 + (u.tv_nsec - t.tv_nsec) / 1000000 < 30);
        t.tv_nsec += 100000000; if (t.tv_nsec >= 1000000000) { t.tv_nsec -= 1000000000; t.tv_sec++; } }
    return 0; }
static void *faults(void *a) { long id = (long)a; name("faults"); int fd = file("mapped", O_RDWR); size_t n = 64 << 20; unsigned s = id + 1;
    volatile char *m = mmap(0, n, PROT_READ, MAP_SHARED, fd, 0); madvise((void *)m, n, MADV_RANDOM); long x = 0;
    for (;;) { for (int i = 0; i < 64; i++) x += m[rand_r(&s) % 16384 * 4096L]; madvise((void *)m, n, MADV_DONTNEED); posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED); } return 0; }
static void *dirty(void *a) { long id = (long)a; char n[64]; name("dirty"); snprintf(n, 64, "dirty%ld", id); int fd = file(n, O_RDWR | O_TRUNC); static char b[1 << 20];
    for (long at = 0;; at++) if (pwrite(fd, b, sizeof b, at % 64 << 20) < 0) die("dirty"); return 0; }
/* Clients ask one server over pipes and wait for its answer; it commits first. All are children of one parent. */
static void pipes(void) {
    int (*ask)[2] = calloc(count, sizeof *ask), (*answer)[2] = calloc(count, sizeof *answer);
    for (int i = 0; i < count; i++) if (pipe(ask[i]) || pipe(answer[i])) die("pipe");
    if (!fork()) { name("server"); prctl(PR_SET_PDEATHSIG, SIGKILL); int fd = file("data", O_RDWR); struct pollfd *p = calloc(count, sizeof *p);
        for (int i = 0; i < count; i++) { close(ask[i][1]); close(answer[i][0]); p[i] = (struct pollfd){ask[i][0], POLLIN, 0}; }
        for (;;) { poll(p, count, -1); for (int i = 0; i < count; i++) if (p[i].revents & POLLIN) { char c; if (read(ask[i][0], &c, 1) < 1) _exit(0); commit(fd); if (write(answer[i][1], &c, 1) < 1) _exit(0); } } }
    for (int i = 0; i < count; i++) if (!fork()) { prctl(PR_SET_PDEATHSIG, SIGKILL);
        for (int j = 0; j < count; j++) { if (j != i) { close(ask[j][1]); close(answer[j][0]); } close(ask[j][0]); close(answer[j][1]); }
        for (;;) { char c = 1; if (write(ask[i][1], &c, 1) < 1 || read(answer[i][0], &c, 1) < 1) _exit(0); burn(0.05); } }
}
/* The same over socket pairs. */
static void sockets(void) {
    int (*s)[2] = calloc(count, sizeof *s);
    for (int i = 0; i < count; i++) if (socketpair(AF_UNIX, SOCK_STREAM, 0, s[i])) die("socketpair");
    if (!fork()) { name("server"); prctl(PR_SET_PDEATHSIG, SIGKILL); int fd = file("data", O_RDWR); struct pollfd *p = calloc(count, sizeof *p);
        for (int i = 0; i < count; i++) { close(s[i][1]); p[i] = (struct pollfd){s[i][0], POLLIN, 0}; }
        for (;;) { poll(p, count, -1); for (int i = 0; i < count; i++) if (p[i].revents & POLLIN) { char c; if (recv(s[i][0], &c, 1, 0) < 1) _exit(0); commit(fd); if (send(s[i][0], &c, 1, 0) < 1) _exit(0); } } }
    for (int i = 0; i < count; i++) if (!fork()) { prctl(PR_SET_PDEATHSIG, SIGKILL);
        for (int j = 0; j < count; j++) { if (j != i) close(s[j][1]); close(s[j][0]); }
        for (;;) { char c = 1; if (send(s[i][1], &c, 1, 0) < 1 || recv(s[i][1], &c, 1, 0) < 1) _exit(0); burn(0.05); } }
}
/* Workers that read what a dispatcher gives them, ten jobs per second to each; one thread, one sibling do I/O of their own. */
static int jobs[2];
static void *worker(void *a) { (void)a; name("worker"); for (;;) { char c; if (read(jobs[0], &c, 1) < 1) return 0; } }
static void *dispatcher(void *a) { (void)a; name("dispatcher"); for (;;) { for (int i = 0; i < count; i++) if (write(jobs[1], "x", 1) < 1) return 0; nap(100); } }
static void *unrelated(void *a) { (void)a; name("unrelated"); int fd = file("own", O_RDWR); for (;;) commit(fd); return 0; }
static void pool(void) { if (pipe(jobs)) die("pipe"); pthread_t t; many(worker); pthread_create(&t, 0, dispatcher, 0); pthread_create(&t, 0, unrelated, 0); }
static void pool_of_processes(void) {
    if (pipe(jobs)) die("pipe");
    for (int i = 0; i < count; i++) if (!fork()) { prctl(PR_SET_PDEATHSIG, SIGKILL); close(jobs[1]); worker(0); _exit(0); }
    if (!fork()) { prctl(PR_SET_PDEATHSIG, SIGKILL); close(jobs[0]); close(jobs[1]); unrelated(0); }
    if (!fork()) { prctl(PR_SET_PDEATHSIG, SIGKILL); close(jobs[0]); dispatcher(0); }
    close(jobs[0]); close(jobs[1]);
}
/* An io_uring service that has nothing to do but wakes up ten times a second. */
static void *ring(void *a) { (void)a; name("ring"); struct io_uring_params p; memset(&p, 0, sizeof p); int fd = syscall(SYS_io_uring_setup, 8, &p); if (fd < 0) die("io_uring_setup");
    for (;;) { struct __kernel_timespec t = {0, 100000000}; struct io_uring_getevents_arg e = {.ts = (uintptr_t)&t}; syscall(SYS_io_uring_enter, fd, 0, 1, IORING_ENTER_GETEVENTS | IORING_ENTER_EXT_ARG, &e, sizeof e); } return 0; }
/* The same, woken every two seconds, with one request each that never completes: a read of an idle connection. */
static void *ring_waits(void *a) { (void)a; name("ring"); struct io_uring_params p; memset(&p, 0, sizeof p);
    int s[2], fd = syscall(SYS_io_uring_setup, 8, &p); if (fd < 0 || socketpair(AF_UNIX, SOCK_STREAM, 0, s)) die("ring");
    char *q = mmap(0, p.sq_off.array + p.sq_entries * 4, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd, IORING_OFF_SQ_RING);
    struct io_uring_sqe *e = mmap(0, p.sq_entries * sizeof *e, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd, IORING_OFF_SQES);
    if (q == MAP_FAILED || e == MAP_FAILED) die("ring");
    e->opcode = IORING_OP_POLL_ADD; e->fd = s[0]; e->poll32_events = POLLIN; ((unsigned *)(q + p.sq_off.array))[0] = 0;
    __atomic_store_n((unsigned *)(q + p.sq_off.tail), 1, __ATOMIC_RELEASE);
    for (int more = 1;; more = 0) { struct __kernel_timespec t = {2, 0}; struct io_uring_getevents_arg g = {.ts = (uintptr_t)&t};
        syscall(SYS_io_uring_enter, fd, more, 1, IORING_ENTER_GETEVENTS | IORING_ENTER_EXT_ARG, &g, sizeof g); } return 0; }
/* What an idle M of the Go runtime does, woken ten times a second; beside unrelated I/O. */
static void *idle_m(void *a) { static int notes[1024]; int *note = &notes[(long)a]; name("idle-m"); for (;;) { struct timespec t = {0, 100000000}; syscall(SYS_futex, note, 128, 0, &t, 0, 0); } return 0; }
/* Processes that do nothing but run. */
static void hogs(void) { for (int i = 0; i < count; i++) if (!fork()) { prctl(PR_SET_PDEATHSIG, SIGKILL); name("hog"); for (;;) burn(1000); } }
/* Together so many processes a second that end at once; each of eight parents makes up for what it missed. */
static void storm(void) {
    for (int i = 0; i < 8; i++) if (!fork()) {
        prctl(PR_SET_PDEATHSIG, SIGKILL); name("storm"); signal(SIGCHLD, SIG_IGN);
        struct timespec a, b; clock_gettime(CLOCK_MONOTONIC, &a);
        for (long made = 0;; nap(5)) {
            clock_gettime(CLOCK_MONOTONIC, &b);
            double due = ((b.tv_sec - a.tv_sec) + (b.tv_nsec - a.tv_nsec) / 1e9) * count / 8;
            for (; made < due; made++) if (!fork()) _exit(0);
        }
    }
}
/* What a condition variable of musl does: each waiter on a word of its own that says 2. */
static void *musl(void *a) { int word = 2; (void)a; name("musl"); for (;;) syscall(SYS_futex, &word, 128, 2, 0, 0, 0); return 0; }

int main(int c, char **v) {
    if (c < 5) return 2;
    const char *mode = v[1]; folder = v[2]; seconds = atoi(v[3]); count = atoi(v[4]);
    pthread_t t;
#define MODE(n) else if (!strcmp(mode, n))
    if (0) {}
    MODE("flock") flocks();
    MODE("flock-held") flock_held();
    MODE("append") many(append);
    MODE("rename") many(rename_loop);
    MODE("condvar") { pthread_create(&t, 0, committer, 0); many(client); }
    MODE("burn") many(hold_and_burn);
    MODE("pi") { pthread_mutexattr_t a; pthread_mutexattr_init(&a); pthread_mutexattr_setprotocol(&a, PTHREAD_PRIO_INHERIT); pthread_mutex_init(&pi, &a); many(hold_pi); }
    MODE("rwlock") many(hold_rw);
    MODE("direct") { int fd = file("direct", O_RDWR); if (ftruncate(fd, 16 << 20) || fallocate(fd, 0, 0, 16 << 20)) die("room"); fsync(fd); many(direct); }
    MODE("beat") { int fd = file("direct", O_RDWR); if (fallocate(fd, 0, 0, 4096)) die("room"); fsync(fd); many(beat); }
    MODE("faults") { int fd = file("mapped", O_RDWR); char *b = calloc(1, 1 << 20); for (int i = 0; i < 64; i++) if (write(fd, b, 1 << 20) < 0) die("room"); fsync(fd); many(faults); }
    MODE("dirty") many(dirty);
    MODE("pipe") pipes();
    MODE("socket") sockets();
    MODE("pool") pool();
    MODE("pools") pool_of_processes();
    MODE("ring") { pthread_create(&t, 0, unrelated, 0); many(ring); }
    MODE("idle-ring") many(ring);
    MODE("ring-waits") many(ring_waits);
    MODE("go") { pthread_create(&t, 0, unrelated, 0); many(idle_m); }
    MODE("hogs") hogs();
    MODE("storm") storm();
    MODE("musl") { pthread_create(&t, 0, unrelated, 0); many(musl); }
    else return 2;
    printf("ready\n"); fflush(stdout);
    sleep(seconds); kill(0, SIGKILL); return 0;
}

/* klock MODE COUNT SECONDS [FOLDER]: threads of one process that wait for locks inside the kernel, and their harmless counterparts. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static const char *folder = "/dev/shm";
static int count;

static void die(const char *what) { perror(what); _exit(1); }
static void name(const char *n) { prctl(PR_SET_NAME, n, 0, 0, 0); }
static void nap(long us) { struct timespec t = {us / 1000000, us % 1000000 * 1000}; nanosleep(&t, 0); }
static void many(void *(*work)(void *)) {
    for (long i = 0; i < count; i++) { pthread_t t; if (pthread_create(&t, 0, work, (void *)i)) die("thread"); }
}
static void map_once(void) {
    size_t size = 64 << 12;
    char *at = mmap(0, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED) die("mmap");
    for (size_t i = 0; i < size; i += 4096) at[i] = 1;
    munmap(at, size);
}
static void *mapper(void *a) { name("mapper"); for (;;) map_once(); return a; }
static void *reader(void *a) {
    name("reader");
    for (;;) {
        char b[65536]; int fd = open("/proc/self/smaps", O_RDONLY);
        if (fd < 0) die("smaps");
        while (read(fd, b, sizeof b) > 0) {}
        close(fd);
    }
    return a;
}
/* mmap_lock of one address space: mapping threads beside one that reads its own smaps. */
static void mm(void) {
    /* Memory for smaps to walk */
    size_t size = 512 << 20; char *at = mmap(0, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    if (at == MAP_FAILED) die("mmap");
    madvise(at, size, MADV_NOHUGEPAGE);
    many(mapper);
    pthread_t t; pthread_create(&t, 0, reader, 0);
}
/* The same calls in as many processes, each with its own address space, with pauses. */
static void mm_apart(void) {
    for (int i = 0; i < count; i++) if (!fork()) {
        prctl(PR_SET_PDEATHSIG, SIGKILL); name("mapper");
        for (;;) { map_once(); nap(20000); }
    }
}
/* The lock of one directory. */
static void *renamer(void *a) {
    name("renamer"); char x[4096], y[4096];
    snprintf(x, sizeof x, "%s/a%ld", folder, (long)a); snprintf(y, sizeof y, "%s/b%ld", folder, (long)a);
    close(open(x, O_CREAT | O_WRONLY, 0600));
    for (;;) { if (rename(x, y) || rename(y, x)) die("rename"); }
    return a;
}
static void rename_storm(void) { many(renamer); }
static void *forker(void *a) {
    name("forker");
    for (;;) { pid_t p = syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0); if (p < 0) die("clone"); if (!p) _exit(0); waitpid(p, 0, 0); }
    return a;
}
static void clone_exit(void) {
    size_t size = 256 << 20; char *at = mmap(0, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    if (at == MAP_FAILED) die("mmap");
    many(forker);
}
static void *grouper(void *a) {
    name("grouper"); char x[4096]; snprintf(x, sizeof x, "%s/klock%ld", folder, (long)a);
    for (;;) { if (mkdir(x, 0755)) die(x); if (rmdir(x)) die(x); }
    return a;
}
static void cgroups(void) { many(grouper); }
static void *spacer(void *a) { name("spacer"); for (;;) { if (unshare(CLONE_NEWNET)) die("unshare"); } return a; }
static void net_namespaces(void) { many(spacer); }

int main(int c, char **v) {
    if (c < 4) return 2;
    count = atoi(v[2]); if (c > 4) folder = v[4];
    struct { const char *name; void (*run)(void); } modes[] = {
        {"mm", mm}, {"mm-apart", mm_apart}, {"rename", rename_storm}, {"clone", clone_exit}, {"cgroup", cgroups}, {"netns", net_namespaces},
    };
    for (size_t i = 0; i < sizeof modes / sizeof *modes; i++) if (!strcmp(v[1], modes[i].name)) {
        modes[i].run(); sleep(atoi(v[3])); _exit(0);
    }
    return 2;
}

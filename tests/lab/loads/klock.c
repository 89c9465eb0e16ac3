/* klock MODE COUNT SECONDS [FOLDER]: threads of one process that wait for locks inside the kernel. PAUSE_US: the harmless counterpart,
 * the same threads and calls with pauses. TRUTH: a file that gets two numbers of 64 bits: the tid of the thread that holds the
 * lock nearly all the time, and how often it began and ended its call, so that this one is odd inside of the call. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/fs.h>
#include <linux/if_link.h>
#include <linux/rtnetlink.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static const char *folder = "/dev/shm";
static int count;

static void die(const char *what) { perror(what); _exit(1); }
static void name(const char *n) { prctl(PR_SET_NAME, n, 0, 0, 0); }
static long pause_us;
static void nap(long us) { struct timespec t = {us / 1000000, us % 1000000 * 1000}; nanosleep(&t, 0); }
static void rest(void) { if (pause_us) nap(pause_us); }
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
static long no_truth[2]; static volatile long *truth = no_truth;
static void open_truth(void) {
    if (!getenv("TRUTH")) return;
    int fd = open(getenv("TRUTH"), O_RDWR | O_CREAT, 0600);
    if (fd < 0 || ftruncate(fd, sizeof no_truth)) die("TRUTH");
    truth = mmap(0, sizeof no_truth, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (truth == MAP_FAILED) die("TRUTH");
    truth[0] = syscall(SYS_gettid);
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
/* mmap_lock of one address space: mapping threads beside one that changes the protection of 1 GiB, again and again, as its writer. */
static char *protected_at; static size_t protected_size = 1 << 30;
static void *protector(void *a) {
    name("protector"); open_truth();
    for (int writable = 0;; writable = !writable) {
        truth[1]++;
        if (mprotect(protected_at, protected_size, PROT_READ | (writable ? PROT_WRITE : 0))) die("mprotect");
        truth[1]++;
    }
    return a;
}
static void protect(void) {
    protected_at = mmap(0, protected_size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (protected_at == MAP_FAILED) die("mmap");
    madvise(protected_at, protected_size, MADV_NOHUGEPAGE);
    for (size_t i = 0; i < protected_size; i += 4096) protected_at[i] = 1;
    many(mapper);
    pthread_t t; pthread_create(&t, 0, protector, 0);
}
/* The lock of one file: threads that write to its page cache, behind another process that appends to it with O_DIRECT|O_SYNC. */
static int file;
static void *appender(void *a) {
    name("appender"); char b[512] = {0};
    for (;;) { if (pwrite(file, b, sizeof b, (long)a * 4096) < 0) die("pwrite"); rest(); }
    return a;
}
static void direct(void) {
    char x[4096]; snprintf(x, sizeof x, "%s/shared", folder);
    file = open(x, O_RDWR | O_CREAT, 0600);
    if (file < 0) die(x);
    if (!fork()) {
        prctl(PR_SET_PDEATHSIG, SIGKILL); name("direct"); open_truth();
        void *b; size_t size = 1 << 20;
        int fd = open(x, O_WRONLY | O_DIRECT | O_SYNC);
        if (fd < 0 || posix_memalign(&b, 4096, size)) die("O_DIRECT");
        memset(b, 1, size);
        for (off_t at = 1 << 20;; at += size) {
            if (at > 256 << 20) { if (ftruncate(fd, 1 << 20)) die("truncate"); at = 1 << 20; }
            truth[1]++;
            if (pwrite(fd, b, size, at) < 0) die("pwrite");
            truth[1]++;
        }
    }
    many(appender);
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
    for (;;) { if (rename(x, y) || rename(y, x)) die("rename"); rest(); }
    return a;
}
static void rename_storm(void) { many(renamer); }
/* One thread lists the directory, which has many files, while the others rename in it. */
static void *lister(void *a) {
    name("lister");
    for (;;) {
        char b[1 << 20]; int fd = open(folder, O_RDONLY | O_DIRECTORY);
        if (fd < 0) die(folder);
        while (syscall(SYS_getdents64, fd, b, sizeof b) > 0) {}
        close(fd); rest();
    }
    return a;
}
static void rename_list(void) {
    for (int i = 0; i < 100000; i++) { char x[4096]; snprintf(x, sizeof x, "%s/f%d", folder, i); close(open(x, O_CREAT | O_WRONLY, 0600)); }
    many(renamer);
    pthread_t t; pthread_create(&t, 0, lister, 0);
}
/* The lock of one directory: threads that look up names in it, each a new one, behind one that renames in it, with its journal
 * committed before each rename ends (chattr +D). */
static void *searcher(void *a) {
    name("searcher"); char x[4096];
    for (long i = 0;; i++) { snprintf(x, sizeof x, "%s/missing%ld-%ld", folder, (long)a, i); access(x, F_OK); rest(); }
    return a;
}
static void *dir_syncer(void *a) {
    name("dir_syncer"); char x[4096], y[4096]; int flags = FS_DIRSYNC_FL;
    snprintf(x, sizeof x, "%s/a", folder); snprintf(y, sizeof y, "%s/b", folder);
    close(open(x, O_CREAT | O_WRONLY, 0600));
    int fd = open(folder, O_RDONLY | O_DIRECTORY);
    if (fd < 0 || ioctl(fd, FS_IOC_SETFLAGS, &flags)) die("FS_IOC_SETFLAGS");
    open_truth();
    for (int there = 0;; there = !there) {
        truth[1]++;
        if (there ? rename(y, x) : rename(x, y)) die("rename");
        truth[1]++;
    }
    return a;
}
/* Others list that directory: a fatal signal ends their wait for its lock. */
static void *list_reader(void *a) {
    name("list_reader"); static __thread char b[1 << 16];
    int fd = open(folder, O_RDONLY | O_DIRECTORY);
    if (fd < 0) die(folder);
    for (;;) { lseek(fd, 0, SEEK_SET); while (syscall(SYS_getdents64, fd, b, sizeof b) > 0) {} rest(); }
    return a;
}
static void list_sync(void) { many(list_reader); pthread_t t; if (pthread_create(&t, 0, dir_syncer, 0)) die("thread"); }
static void dir_sync(void) { many(searcher); pthread_t t; pthread_create(&t, 0, dir_syncer, 0); }
/* Mounts of one mount namespace. */
static void *mounter(void *a) {
    name("mounter"); char x[4096]; snprintf(x, sizeof x, "%s/m%ld", folder, (long)a);
    mkdir(x, 0700);
    for (;;) { if (mount("none", x, "tmpfs", 0, 0) || umount2(x, MNT_DETACH)) die(x); rest(); }
    return a;
}
static void mounts(void) {
    if (unshare(CLONE_NEWNS) || mount("none", "/", 0, MS_REC | MS_PRIVATE, 0)) die("unshare");
    many(mounter);
}
/* Interfaces of one network namespace: rtnl_mutex. */
static void link_request(int fd, int type, int flags, const char *ifname) {
    struct { struct nlmsghdr h; struct ifinfomsg i; char b[128]; } m = {{sizeof m.h + sizeof m.i, type, NLM_F_REQUEST | NLM_F_ACK | flags, 1, 0}, {0}, {0}};
    struct rtattr *r = (void *)m.b; r->rta_type = IFLA_IFNAME; r->rta_len = RTA_LENGTH(strlen(ifname) + 1); strcpy(RTA_DATA(r), ifname);
    size_t at = RTA_ALIGN(r->rta_len);
    if (type == RTM_NEWLINK) {
        struct rtattr *info = (void *)(m.b + at), *kind = RTA_DATA(info);
        kind->rta_type = IFLA_INFO_KIND; kind->rta_len = RTA_LENGTH(5); memcpy(RTA_DATA(kind), "veth", 5);
        info->rta_type = IFLA_LINKINFO; info->rta_len = RTA_LENGTH(RTA_ALIGN(kind->rta_len)); at += RTA_ALIGN(info->rta_len);
    }
    m.h.nlmsg_len += at;
    char answer[4096];
    if (send(fd, &m, m.h.nlmsg_len, 0) < 0 || recv(fd, answer, sizeof answer, 0) < 0) die("netlink");
    struct nlmsgerr *e = NLMSG_DATA((struct nlmsghdr *)answer);
    if (e->error) { fprintf(stderr, "%s: %s\n", ifname, strerror(-e->error)); _exit(1); }
}
static void *linker(void *a) {
    name("linker"); char x[16]; snprintf(x, sizeof x, "klock%ld", (long)a);
    int fd = socket(AF_NETLINK, SOCK_RAW, NETLINK_ROUTE);
    for (;;) { link_request(fd, RTM_NEWLINK, NLM_F_CREATE | NLM_F_EXCL, x); link_request(fd, RTM_DELLINK, 0, x); rest(); }
    return a;
}
static void links(void) { if (unshare(CLONE_NEWNET)) die("unshare"); many(linker); }
static void *forker(void *a) {
    name("forker");
    for (;;) { pid_t p = syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0); if (p < 0) die("clone"); if (!p) _exit(0); waitpid(p, 0, 0); rest(); }
    return a;
}
static void clone_exit(void) {
    size_t size = 256 << 20; char *at = mmap(0, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    if (at == MAP_FAILED) die("mmap");
    many(forker);
}
static void *grouper(void *a) {
    name("grouper"); char x[4096]; snprintf(x, sizeof x, "%s/klock%ld", folder, (long)a);
    for (;;) { if (mkdir(x, 0755)) die(x); if (rmdir(x)) die(x); rest(); }
    return a;
}
static void cgroups(void) { many(grouper); }
/* Each in a cgroup of its own: cgroup_mutex. */
static void *subgrouper(void *a) {
    name("subgrouper"); char x[4096], y[4096];
    snprintf(x, sizeof x, "%s/klock%ld", folder, (long)a); snprintf(y, sizeof y, "%s/sub", x);
    mkdir(x, 0755);
    for (;;) { if (mkdir(y, 0755)) die(y); if (rmdir(y)) die(y); rest(); }
    return a;
}
static void cgroups_apart(void) { many(subgrouper); }
static void *spacer(void *a) { name("spacer"); for (;;) { if (unshare(CLONE_NEWNET)) die("unshare"); rest(); } return a; }
static void net_namespaces(void) { many(spacer); }

static void *syncer(void *a) {
    name("syncer");
    char path[4096]; snprintf(path, sizeof path, "%s/synced", folder);
    int fd = open(path, O_WRONLY | O_CREAT, 0600);
    if (fd < 0) die(path);
    for (;;) if (pwrite(fd, path, 512, 0) < 0 || fdatasync(fd)) die("fdatasync");
    return a;
}
/* Beside the threads that wait for mmap_lock one that is on storage, and does not hold it. */
static void mm_sync(void) { mm(); pthread_t t; if (pthread_create(&t, 0, syncer, 0)) die("thread"); }
/* The mutex of a file position: threads that ask for it behind one that reads, from the disk, with the same descriptor. */
static int shared_fd;
static void *position_asker(void *a) { name("asker"); for (;;) { lseek(shared_fd, 0, SEEK_CUR); nap(1000); } return a; }
static void *position_holder(void *a) {
    name("holder"); open_truth(); void *b; size_t size = 4096;
    if (posix_memalign(&b, size, size)) die("O_DIRECT");
    for (;;) {
        truth[1]++;
        ssize_t got = read(shared_fd, b, size);
        truth[1]++;
        if (got < 0) die("read");
        if (!got) lseek(shared_fd, 0, SEEK_SET);
    }
    return a;
}
static void position(void) {
    char x[4096]; static char block[1 << 20]; snprintf(x, sizeof x, "%s/positions", folder);
    int fd = open(x, O_CREAT | O_WRONLY, 0600);
    if (fd < 0 || write(fd, block, sizeof block) != sizeof block || fsync(fd)) die("write");
    close(fd);
    shared_fd = open(x, O_RDONLY | O_DIRECT);
    if (shared_fd < 0) die("O_DIRECT");
    pthread_t t; pthread_create(&t, 0, position_holder, 0); many(position_asker);
}
int main(int c, char **v) {
    if (c < 4) return 2;
    if (getenv("PAUSE_US")) pause_us = atol(getenv("PAUSE_US"));
    count = atoi(v[2]); if (c > 4) folder = v[4];
    struct { const char *name; void (*run)(void); } modes[] = {
        {"mm", mm}, {"mm-apart", mm_apart}, {"mm-sync", mm_sync}, {"rename", rename_storm}, {"clone", clone_exit}, {"cgroup", cgroups}, {"cgroup-apart", cgroups_apart}, {"netns", net_namespaces},
        {"rename-list", rename_list}, {"protect", protect}, {"direct", direct}, {"dir-sync", dir_sync}, {"list-sync", list_sync}, {"position", position}, {"mount", mounts}, {"link", links},
    };
    for (size_t i = 0; i < sizeof modes / sizeof *modes; i++) if (!strcmp(v[1], modes[i].name)) {
        modes[i].run(); sleep(atoi(v[3])); _exit(0);
    }
    return 2;
}

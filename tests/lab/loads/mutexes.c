// Threads behind a pthread mutex, whose holder does something else than storage.
//   mutexes MODE WAITERS SECONDS [HOST PORT]
// MODE: sleep (the holder sleeps 100 ms at a time), long-sleep (it sleeps until the end), compute (20 ms of CPU at a time), child (it
// waits for a child that sleeps), answer (it asks HOST:PORT and waits for the answer), poll-answer (the same by poll);
// deadlock (two threads, two mutexes, the others behind one of them), circle (three), self (one thread locks twice);
// followers (the holder waits for work in accept, the others for their turn: nothing is wrong), condition (the workers wait on a
// condition variable: nothing is wrong).
// sleep-behind: one thread holds the lock and waits for a second one, whose holder sleeps until the end; quick (a mutex handed over after
// 20 µs, with pauses of 5 ms: nothing is wrong).
// robust (the holder of a robust mutex sleeps 100 ms at a time); full-pipe, full-socket (the holder writes to a child process that is
// stopped); shared (a child process holds a mutex in shared memory, and is stopped).
// Prints "ready" once the lock is held. With TRUTH=FILE it writes "holder TID" each time a thread takes a lock that it keeps, and "held BEGIN
// END TID" (CLOCK_REALTIME, ns) when it releases it.
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static pthread_mutex_t locks[3] = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_MUTEX_INITIALIZER, PTHREAD_MUTEX_INITIALIZER};
static pthread_cond_t work = PTHREAD_COND_INITIALIZER;
static pthread_barrier_t held;
static const char *mode, *host;
static int port, waiters, seconds, listener;
static FILE *truth;
static pthread_mutex_t *lock = locks;
static int to_child[2];

static void holds(void)
{
	if (truth)
		fprintf(truth, "holder %ld\n", syscall(SYS_gettid));
}

static long long now_ns(void)
{
	struct timespec now;
	clock_gettime(CLOCK_REALTIME, &now);
	return now.tv_sec * 1000000000LL + now.tv_nsec;
}

static void sleep_ms(long ms)
{
	struct timespec time = {ms / 1000, ms % 1000 * 1000000};
	nanosleep(&time, NULL);
}

static void compute_us(long us)
{
	struct timespec from, now;
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &from);
	do
		clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
	while ((now.tv_sec - from.tv_sec) * 1000000 + (now.tv_nsec - from.tv_nsec) / 1000 < us);
}

static void ask(void)
{
	struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(port)};
	char answer;
	int fd = socket(AF_INET, SOCK_STREAM, 0);
	inet_pton(AF_INET, host, &to.sin_addr);
	if (connect(fd, (struct sockaddr *)&to, sizeof to) || write(fd, "?\n", 2) != 2)
		exit(1);
	if (!strcmp(mode, "poll-answer"))
		poll(&(struct pollfd){.fd = fd, .events = POLLIN}, 1, 300000);
	recv(fd, &answer, 1, 0);
	close(fd);
}

static void while_held(void)
{
	if (!strcmp(mode, "sleep") || !strcmp(mode, "robust"))
		sleep_ms(100);
	else if (!strncmp(mode, "full-", 5)) {
		static char bytes[4096];
		while (write(to_child[1], bytes, sizeof bytes) > 0)
			;
	}
	else if (!strcmp(mode, "long-sleep"))
		sleep_ms(seconds * 1000L);
	else if (!strcmp(mode, "compute"))
		compute_us(20000);
	else if (!strcmp(mode, "quick"))
		compute_us(20);
	else if (!strcmp(mode, "answer") || !strcmp(mode, "poll-answer"))
		ask();
	else if (!strcmp(mode, "child")) {
		pid_t child = fork();
		if (!child) {
			sleep_ms(500);
			_exit(0);
		}
		waitpid(child, NULL, 0);
	} else if (!strcmp(mode, "followers")) {
		int fd = accept(listener, NULL, NULL);
		close(fd);
	}
}

static void *worker(void *number)
{
	pthread_setname_np(pthread_self(), "worker");
	if (!strcmp(mode, "condition")) {
		pthread_mutex_lock(&locks[0]);
		for (;;)
			pthread_cond_wait(&work, &locks[0]);
	}
	for (;;) {
		pthread_mutex_lock(lock);
		long long begin = now_ns();
		holds();
		while_held();
		if (truth)
			fprintf(truth, "held %lld %lld %ld\n", begin, now_ns(), syscall(SYS_gettid));
		pthread_mutex_unlock(lock);
		if (!strcmp(mode, "quick"))
			sleep_ms(5);
	}
	return number;
}

// Takes its own lock, then that of the next one.
static void *knot(void *number)
{
	long own = (long)number, count = !strcmp(mode, "circle") ? 3 : 2;
	pthread_setname_np(pthread_self(), "knot");
	pthread_mutex_lock(&locks[own]);
	holds();
	if (!strcmp(mode, "self"))
		pthread_mutex_lock(&locks[own]);
	pthread_barrier_wait(&held);
	if (!strcmp(mode, "sleep-behind") && own == 1)
		sleep_ms(seconds * 1000L);
	pthread_mutex_lock(&locks[(own + 1) % count]);
	return NULL;
}

// Stopped until the end of this process. With a lock it takes it first.
static void stopped_child(int takes_lock)
{
	pid_t child = fork();
	if (!child) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		close(to_child[1]);
		if (takes_lock) {
			pthread_mutex_lock(lock);
			holds();
		}
		for (;;)
			raise(SIGSTOP);
	}
	close(to_child[0]);
	waitpid(child, NULL, WUNTRACED);
}

int main(int count, char **words)
{
	pthread_t thread;
	long knots = 0;
	mode = words[1];
	waiters = atoi(words[2]);
	seconds = atoi(words[3]);
	if (count > 5) {
		host = words[4];
		port = atoi(words[5]);
	}
	if (getenv("TRUTH")) {
		truth = fopen(getenv("TRUTH"), "w");
		setvbuf(truth, NULL, _IOLBF, 0);
	}
	if (!strcmp(mode, "followers")) {
		listener = socket(AF_INET, SOCK_STREAM, 0);
		listen(listener, 16);
	}
	if (!strcmp(mode, "robust") || !strcmp(mode, "shared")) {
		pthread_mutexattr_t kind;
		pthread_mutexattr_init(&kind);
		if (!strcmp(mode, "robust"))
			pthread_mutexattr_setrobust(&kind, PTHREAD_MUTEX_ROBUST);
		else
			pthread_mutexattr_setpshared(&kind, PTHREAD_PROCESS_SHARED);
		lock = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
		pthread_mutex_init(lock, &kind);
	}
	if (!strcmp(mode, "full-socket"))
		socketpair(AF_UNIX, SOCK_STREAM, 0, to_child);
	else if (pipe(to_child))
		exit(1);
	if (!strncmp(mode, "full-", 5) || !strcmp(mode, "shared"))
		stopped_child(!strcmp(mode, "shared"));
	if (!strcmp(mode, "deadlock") || !strcmp(mode, "sleep-behind"))
		knots = 2;
	if (!strcmp(mode, "circle"))
		knots = 3;
	if (!strcmp(mode, "self"))
		knots = 1;
	pthread_barrier_init(&held, NULL, knots ? knots : 1);
	for (long number = 0; number < knots; number++)
		pthread_create(&thread, NULL, knot, (void *)number);
	if (knots)
		sleep_ms(200);
	for (int number = 0; number < waiters; number++)
		pthread_create(&thread, NULL, worker, NULL);
	sleep_ms(200);
	puts("ready");
	fflush(stdout);
	sleep_ms(seconds * 1000L);
	return 0;
}

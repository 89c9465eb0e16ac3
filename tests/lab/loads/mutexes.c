// Threads behind a pthread mutex, whose holder does something else than storage.
//   mutexes MODE WAITERS SECONDS [HOST PORT]
// MODE: sleep (the holder sleeps 100 ms at a time), long-sleep (it sleeps until the end), compute (20 ms of CPU at a time), child (it
// waits for a child that sleeps), answer (it asks HOST:PORT and waits for the answer), poll-answer (the same by poll);
// deadlock (two threads, two mutexes, the others behind one of them), circle (three), self (one thread locks twice); ended (a thread
// ends with the mutex locked);
// followers (the holder waits for work in accept, the others for their turn: nothing is wrong), condition (the workers wait on a
// condition variable: nothing is wrong).
// sleep-behind: one thread holds the lock and waits for a second one, whose holder sleeps until the end; quick (a mutex handed over after
// 20 µs, with pauses of 5 ms: nothing is wrong).
// timed (as sleep, but the others wait with a timeout of a minute); timed-cycle (as deadlock, but one of the two waits with a timeout of
// a second, again and again: no deadlock); crowd (as deadlock, and as many further mutexes as there are WAITERS, for each of which three
// threads wait); timed-condition, timed-semaphore (the workers wait on it, with a timeout of a second, again and again: nothing is wrong).
// robust (the holder of a robust mutex sleeps 100 ms at a time); full-pipe, full-socket (the holder writes to a child process that is
// stopped); shared (a child process holds a mutex in shared memory, and is stopped);
// frozen (the same, and it sleeps once it is continued, for a test to freeze it).
// socket-answer (the holder asks a child process over a Unix socket, which sleeps 300 ms before it answers), tcp-answer (the same over
// TCP on loopback), pipe-answer (it asks one over a
// pipe, which makes a write durable in the folder HOST and answers over another pipe); requests (half of the threads wait on Unix sockets
// without a lock; of the others the holder waits for a request of a client, which sleeps between its requests: nothing is wrong).
// crowded-cpu (as compute, but all threads may use CPU 0 only, which as many processes as HOST says keep busy); memory (the holder takes
// HOST MiB of memory).
// Prints "ready" once the lock is held. With TRUTH=FILE it writes "holder TID" each time a thread takes a lock that it keeps, and "held BEGIN
// END TID" (CLOCK_REALTIME, ns) when it releases it, and "server PID" of the process that is asked.
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static pthread_mutex_t locks[3] = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_MUTEX_INITIALIZER, PTHREAD_MUTEX_INITIALIZER};
static pthread_cond_t work = PTHREAD_COND_INITIALIZER;
static sem_t jobs;
static pthread_barrier_t held;
static const char *mode, *host;
static int port, waiters, seconds, listener;
static FILE *truth;
static pthread_mutex_t *lock = locks;
static int to_child[2], from_child[2];
static volatile int is_ready;
#define LONE 6
static int lone[LONE][2];

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

static struct timespec after(long seconds)
{
	struct timespec time;
	clock_gettime(CLOCK_REALTIME, &time);
	time.tv_sec += seconds;
	return time;
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
	char byte = '?';
	if (!strcmp(mode, "sleep") || !strcmp(mode, "robust") || !strcmp(mode, "timed"))
		sleep_ms(100);
	else if (!strncmp(mode, "full-", 5)) {
		static char bytes[4096];
		while (write(to_child[1], bytes, sizeof bytes) > 0)
			;
	}
	else if (!strcmp(mode, "long-sleep"))
		sleep_ms(seconds * 1000L);
	else if (!strcmp(mode, "compute") || !strcmp(mode, "crowded-cpu"))
		compute_us(20000);
	else if (!strcmp(mode, "memory")) {
		// Any thread that needs memory then waits.
		while (!is_ready)
			sleep_ms(1);
		size_t size = (size_t)atoi(host) << 20;
		char *taken = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		for (size_t at = 0; at < size; at += 4096)
			taken[at] = 1;
	} else if (!strcmp(mode, "quick"))
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
	} else if (strstr(mode, "-answer")) {
		if (write(to_child[1], &byte, 1) != 1 || read(from_child[0], &byte, 1) != 1)
			exit(1);
	} else if (!strcmp(mode, "requests")) {
		if (recv(from_child[0], &byte, 1, 0) != 1)
			exit(1);
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
	while (!strcmp(mode, "timed-condition")) {
		struct timespec end = after(1);
		pthread_mutex_lock(&locks[0]);
		pthread_cond_timedwait(&work, &locks[0], &end);
		pthread_mutex_unlock(&locks[0]);
	}
	while (!strcmp(mode, "timed-semaphore")) {
		struct timespec end = after(1);
		sem_timedwait(&jobs, &end);
	}
	if (!strcmp(mode, "requests") && (long)number < LONE) {
		char byte;
		while (recv(lone[(long)number][0], &byte, 1, 0) == 1)
			;
	}
	for (;;) {
		struct timespec end = after(60);
		if (strcmp(mode, "timed"))
			pthread_mutex_lock(lock);
		else if (pthread_mutex_timedlock(lock, &end))
			continue;
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
	if (!strcmp(mode, "ended"))
		return NULL;
	pthread_barrier_wait(&held);
	if (!strcmp(mode, "sleep-behind") && own == 1)
		sleep_ms(seconds * 1000L);
	if (!strcmp(mode, "timed-cycle") && own == 0) {
		struct timespec end;
		do
			end = after(1);
		while (pthread_mutex_timedlock(&locks[1], &end));
	}
	pthread_mutex_lock(&locks[(own + 1) % count]);
	return NULL;
}

// Four threads take a further mutex in turn, for 20 ms each.
static void *member(void *further)
{
	pthread_setname_np(pthread_self(), "member");
	for (;;) {
		pthread_mutex_lock(further);
		sleep_ms(20);
		pthread_mutex_unlock(further);
		// Otherwise it takes the lock again before the thread that it woke runs.
		sleep_ms(1);
	}
	return NULL;
}

static void crowd(long mutexes)
{
	pthread_mutex_t *further = calloc(mutexes, sizeof *further);
	pthread_t thread;
	for (long number = 0; number < 4 * mutexes; number++)
		pthread_create(&thread, NULL, member, &further[number / 4]);
}

// Stopped until the end of this process. With a lock it takes it first.
static int is_shared(void)
{
	return !strcmp(mode, "shared") || !strcmp(mode, "frozen");
}

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
		raise(SIGSTOP);
		while (!strcmp(mode, "frozen"))
			pause();
		for (;;)
			raise(SIGSTOP);
	}
	close(to_child[0]);
	waitpid(child, NULL, WUNTRACED);
}

// This process and as many others may use one CPU only, and the others keep it busy until the end of this process.
static void share_one_cpu(int others)
{
	cpu_set_t one;
	CPU_ZERO(&one);
	CPU_SET(0, &one);
	sched_setaffinity(0, sizeof one, &one);
	while (others--)
		if (!fork()) {
			prctl(PR_SET_PDEATHSIG, SIGKILL);
			prctl(PR_SET_NAME, "spinner");
			for (;;)
				;
		}
}

// Listens at first; then makes the connection of this process to the other one, which either end opens.
static void connect_socket(int child_opens, int is_child)
{
	static int server;
	struct sockaddr_storage name = {0};
	socklen_t length = sizeof name;
	if (!server) {
		struct sockaddr_un path = {.sun_family = AF_UNIX};
		struct sockaddr_in loopback = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
		int is_tcp = !strcmp(mode, "tcp-answer");
		snprintf(path.sun_path + 1, sizeof path.sun_path - 1, "mutexes-%d", getpid());
		server = socket(is_tcp ? AF_INET : AF_UNIX, SOCK_STREAM, 0);
		if (is_tcp ? bind(server, (struct sockaddr *)&loopback, sizeof loopback) : bind(server, (struct sockaddr *)&path, sizeof path))
			exit(1);
		if (listen(server, 1))
			exit(1);
		return;
	}
	int end;
	getsockname(server, (struct sockaddr *)&name, &length);
	if (child_opens != is_child)
		end = accept(server, NULL, NULL);
	else {
		end = socket(name.ss_family, SOCK_STREAM, 0);
		if (connect(end, (struct sockaddr *)&name, length))
			exit(1);
	}
	close(server);
	if (is_child)
		to_child[0] = from_child[1] = end;
	else
		from_child[0] = to_child[1] = end;
}

// The process that is asked, or the client that asks; until the end of this process.
static void other_process(void)
{
	int is_socket = strcmp(mode, "pipe-answer"), is_client = !strcmp(mode, "requests");
	if (is_socket)
		connect_socket(is_client, 0);
	else if (pipe(to_child) || pipe(from_child))
		exit(1);
	for (int number = 0; is_client && number < LONE; number++)
		socketpair(AF_UNIX, SOCK_STREAM, 0, lone[number]);
	pid_t child = fork();
	if (child) {
		if (truth)
			fprintf(truth, "server %d\n", child);
		if (is_socket)
			connect_socket(is_client, 0);
		else {
			close(to_child[0]);
			close(from_child[1]);
		}
		for (int number = 0; is_client && number < LONE; number++)
			close(lone[number][1]);
		return;
	}
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	prctl(PR_SET_NAME, is_client ? "client" : "server");
	if (is_socket)
		connect_socket(is_client, 1);
	else {
		close(to_child[1]);
		close(from_child[0]);
	}
	for (int number = 0; is_client && number < LONE; number++)
		close(lone[number][0]);
	static char block[4096];
	char path[4096], byte = '!';
	int file = -1;
	if (!is_socket) {
		snprintf(path, sizeof path, "%s/answers", host);
		file = open(path, O_CREAT | O_WRONLY, 0600);
	}
	for (;;) {
		if (is_client || is_socket) {
			if (!is_client && read(to_child[0], &byte, 1) != 1)
				_exit(0);
			sleep_ms(300);
		} else if (read(to_child[0], &byte, 1) != 1 || pwrite(file, block, sizeof block, 0) < 0 || fsync(file))
			_exit(1);
		if (write(from_child[1], &byte, 1) != 1)
			_exit(0);
		for (int number = 0; is_client && number < LONE; number++)
			if (write(lone[number][1], &byte, 1) != 1)
				_exit(0);
	}
}

int main(int count, char **words)
{
	pthread_t thread;
	long knots = 0;
	mode = words[1];
	waiters = atoi(words[2]);
	seconds = atoi(words[3]);
	if (count > 4)
		host = words[4];
	if (count > 5)
		port = atoi(words[5]);
	if (getenv("TRUTH")) {
		truth = fopen(getenv("TRUTH"), "w");
		setvbuf(truth, NULL, _IOLBF, 0);
	}
	if (!strcmp(mode, "followers")) {
		listener = socket(AF_INET, SOCK_STREAM, 0);
		listen(listener, 16);
	}
	if (!strcmp(mode, "robust") || is_shared()) {
		pthread_mutexattr_t kind;
		pthread_mutexattr_init(&kind);
		if (!strcmp(mode, "robust"))
			pthread_mutexattr_setrobust(&kind, PTHREAD_MUTEX_ROBUST);
		else
			pthread_mutexattr_setpshared(&kind, PTHREAD_PROCESS_SHARED);
		lock = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
		pthread_mutex_init(lock, &kind);
	}
	if (!strcmp(mode, "socket-answer") || !strcmp(mode, "pipe-answer") || !strcmp(mode, "tcp-answer") ||
	    !strcmp(mode, "requests"))
		other_process();
	else if (!strcmp(mode, "full-socket"))
		socketpair(AF_UNIX, SOCK_STREAM, 0, to_child);
	else if (pipe(to_child))
		exit(1);
	if (!strncmp(mode, "full-", 5) || is_shared())
		stopped_child(is_shared());
	if (!strcmp(mode, "deadlock") || !strcmp(mode, "sleep-behind") || !strcmp(mode, "timed-cycle") || !strcmp(mode, "crowd"))
		knots = 2;
	if (!strcmp(mode, "circle"))
		knots = 3;
	if (!strcmp(mode, "self") || !strcmp(mode, "ended"))
		knots = 1;
	if (!strcmp(mode, "crowded-cpu"))
		share_one_cpu(atoi(host));
	pthread_barrier_init(&held, NULL, knots ? knots : 1);
	for (long number = 0; number < knots; number++)
		pthread_create(&thread, NULL, knot, (void *)number);
	if (knots)
		sleep_ms(200);
	if (!strcmp(mode, "crowd")) {
		crowd(waiters);
		waiters = 0;
	}
	for (long number = 0; number < waiters; number++)
		pthread_create(&thread, NULL, worker, (void *)number);
	sleep_ms(200);
	puts("ready");
	fflush(stdout);
	is_ready = 1;
	sleep_ms(seconds * 1000L);
	return 0;
}

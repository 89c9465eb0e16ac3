// Threads behind a read-write lock of glibc.
//   rwlocks MODE WAITERS SECONDS
// MODE: sleep (each of half of the threads writes in turn and sleeps 100 ms meanwhile; the others read), compute (a writer takes 20 ms of CPU
// time), timed (as sleep, but all wait with a timeout of a minute), deadlock (two threads write, two locks, the others read behind one of
// them), readers (a reader sleeps until the end, all others want to write: no word names it), condition (the threads wait on a condition
// variable: nothing is wrong).
// Prints "ready" once the lock is held. With TRUTH=FILE it writes "held BEGIN END TID" (CLOCK_REALTIME, ns) when a writer releases the lock.
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static pthread_rwlock_t locks[2] = {PTHREAD_RWLOCK_INITIALIZER, PTHREAD_RWLOCK_WRITER_NONRECURSIVE_INITIALIZER_NP};
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t work = PTHREAD_COND_INITIALIZER;
static pthread_barrier_t both;
static const char *mode;
static FILE *truth;

static int is(const char *other)
{
	return !strcmp(mode, other);
}

static long long now_ns(clockid_t clock)
{
	struct timespec now;
	clock_gettime(clock, &now);
	return now.tv_sec * 1000000000LL + now.tv_nsec;
}

static void sleep_ms(long ms)
{
	struct timespec time = {ms / 1000, ms % 1000 * 1000000};
	nanosleep(&time, NULL);
}

static void take(int writes)
{
	struct timespec limit;
	clock_gettime(CLOCK_REALTIME, &limit);
	limit.tv_sec += 60;
	if (is("timed")) {
		if (writes ? pthread_rwlock_timedwrlock(locks, &limit) : pthread_rwlock_timedrdlock(locks, &limit))
			exit(1);
	} else if (writes)
		pthread_rwlock_wrlock(locks);
	else
		pthread_rwlock_rdlock(locks);
}

static void *writer(void *unused)
{
	prctl(PR_SET_NAME, "writer");
	for (;;) {
		take(1);
		long long begin = now_ns(CLOCK_REALTIME), cpu = now_ns(CLOCK_THREAD_CPUTIME_ID);
		if (is("compute"))
			while (now_ns(CLOCK_THREAD_CPUTIME_ID) - cpu < 20000000)
				;
		else
			sleep_ms(100);
		if (truth)
			fprintf(truth, "held %lld %lld %ld\n", begin, now_ns(CLOCK_REALTIME), syscall(SYS_gettid));
		pthread_rwlock_unlock(locks);
		sleep_ms(1);
	}
}

static void *reader(void *unused)
{
	prctl(PR_SET_NAME, "reader");
	for (;;) {
		take(0);
		pthread_rwlock_unlock(locks);
		sleep_ms(1);
	}
}

static void *sleeping_reader(void *unused)
{
	prctl(PR_SET_NAME, "sleeper");
	pthread_rwlock_rdlock(locks);
	pthread_barrier_wait(&both);
	sleep_ms(1000000);
	return NULL;
}

static void *cross(void *own)
{
	int at = own == &locks[1];
	prctl(PR_SET_NAME, at ? "two" : "one");
	pthread_rwlock_wrlock(&locks[at]);
	pthread_barrier_wait(&both);
	pthread_rwlock_wrlock(&locks[!at]);
	return NULL;
}

static void *waiter(void *unused)
{
	prctl(PR_SET_NAME, "waiter");
	pthread_mutex_lock(&mutex);
	for (;;)
		pthread_cond_wait(&work, &mutex);
}

int main(int count, char **words)
{
	if (count < 4)
		return 2;
	mode = words[1];
	int waiters = atoi(words[2]);
	pthread_t thread;
	if (getenv("TRUTH"))
		truth = fopen(getenv("TRUTH"), "w");
	pthread_barrier_init(&both, NULL, 2);
	if (is("deadlock"))
		for (int at = 0; at < 2; at++)
			pthread_create(&thread, NULL, cross, &locks[at]);
	if (is("readers")) {
		pthread_create(&thread, NULL, sleeping_reader, NULL);
		pthread_barrier_wait(&both);
	}
	if (is("deadlock"))
		sleep_ms(100);
	for (int at = 0; at < waiters; at++) {
		int writes = is("readers") || (!is("deadlock") && at < waiters / 2);
		pthread_create(&thread, NULL, is("condition") ? waiter : writes ? writer : reader, NULL);
	}
	sleep_ms(200);
	puts("ready");
	fflush(stdout);
	for (int left = atoi(words[3]) * 50; left; left--) {
		sleep_ms(20);
		if (is("condition"))
			pthread_cond_broadcast(&work);
	}
	if (truth)
		fclose(truth);
	_exit(0);
}

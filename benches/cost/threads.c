// threads THREADS BUSY: one process of so many threads that sleep for ever, of which the last BUSY wake ten times a second, work
// for 0.2 ms and write a page to /dev/null. Ends with its parent.
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

static long busy_from;

static void *thread(void *number)
{
	static const char page[4096];
	const struct timespec pause_ns = {0, 100000000};
	volatile unsigned long sum = 0;
	int null = -1;

	while ((long)number < busy_from)
		pause();
	null = open("/dev/null", O_WRONLY);
	for (;;) {
		for (int i = 0; i < 200000; i++)
			sum += i;
		if (write(null, page, sizeof(page)) < 0)
			return 0;
		nanosleep(&pause_ns, 0);
	}
}

int main(int count, char **words)
{
	long threads = count > 1 ? atol(words[1]) : 10000, busy = count > 2 ? atol(words[2]) : 50;
	pthread_attr_t small;
	pthread_t one;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	busy_from = threads - busy;
	pthread_attr_init(&small);
	pthread_attr_setstacksize(&small, 16384);
	for (long i = 0; i < threads; i++)
		if (pthread_create(&one, &small, thread, (void *)i))
			return 1;
	for (;;)
		pause();
}

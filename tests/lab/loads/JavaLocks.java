import java.io.PrintStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Instant;
import java.util.concurrent.ArrayBlockingQueue;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ForkJoinPool;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.Semaphore;
import java.util.concurrent.locks.Condition;
import java.util.concurrent.locks.Lock;
import java.util.concurrent.locks.ReentrantLock;
import java.util.concurrent.locks.ReentrantReadWriteLock;

/**
 * JavaLocks KIND MODE SECONDS TRUTH: 12 workers behind one lock. Its owner sleeps (sleep), computes (compute), or waits for a second lock whose
 * owner sleeps (nested); deadlock: two threads wait for each other's lock, and the workers for one of these; idle: nothing waits for a lock,
 * beside 64 threads and more that wait for work. KIND: monitor (synchronized), concurrent (java.util.concurrent: a ReentrantLock, the second one
 * of a ReentrantReadWriteLock), or mixed (a ReentrantLock, the second one a monitor). TRUTH gets a line "BEGIN END TID" for each time that the
 * lock was owned; nested: the second one.
 */
public class JavaLocks {
    static Object first = new Object(), second = new Object();
    static volatile long sink;
    static PrintStream truth;

    public static void main(String[] words) throws Exception {
        String kind = words[0], mode = words[1];
        truth = new PrintStream(words[3]);
        // Fair: each thread owns it in turn.
        if (!kind.equals("monitor")) first = new ReentrantLock(true);
        if (kind.equals("concurrent")) second = new ReentrantReadWriteLock(true).writeLock();
        if (mode.equals("idle")) idle();
        else {
            if (mode.equals("nested")) start("nested", () -> {
                for (;;) {
                    owned(second, () -> Thread.sleep(200));
                    Thread.sleep(5);
                }
            });
            if (mode.equals("deadlock")) {
                CountDownLatch both = new CountDownLatch(2);
                start("one", () -> cross(both, first, second));
                start("two", () -> cross(both, second, first));
                both.await();
            }
            for (int i = 0; i < 12; i++) start("worker", () -> {
                for (;;) work(mode);
            });
        }
        // Nothing of a deadlock runs for longer than what counts as active.
        if (mode.equals("deadlock")) Thread.sleep(8000);
        System.out.println("ready");
        Thread.sleep(Integer.parseInt(words[2]) * 1000L);
        Runtime.getRuntime().halt(0);
    }

    static void work(String mode) throws Exception {
        switch (mode) {
            case "nested" -> locked(first, () -> owned(second, () -> sink++));
            case "compute" -> owned(first, () -> {
                long end = System.nanoTime() + 50_000_000;
                while (System.nanoTime() < end) sink++;
            });
            default -> owned(first, () -> Thread.sleep(100));
        }
    }

    static void locked(Object lock, Work work) throws Exception {
        if (lock instanceof Lock concurrent) {
            concurrent.lock();
            try {
                work.run();
            } finally {
                concurrent.unlock();
            }
        } else synchronized (lock) {
            work.run();
        }
    }

    /** Owns the lock for that work, and says so. */
    static void owned(Object lock, Work work) throws Exception {
        locked(lock, () -> {
            long begin = now();
            work.run();
            truth.println(begin + " " + now() + " " + tid.get());
        });
    }

    static void cross(CountDownLatch both, Object own, Object other) throws Exception {
        locked(own, () -> {
            both.countDown();
            both.await();
            locked(other, () -> sink++);
        });
    }

    /** Pools that get work every 20 ms, threads that wait for conditions, permits and results, and ones that sleep with a lock for which none waits. */
    static void idle() throws Exception {
        LinkedBlockingQueue<Integer> jobs = new LinkedBlockingQueue<>();
        for (int i = 0; i < 32; i++) start("consumer", () -> {
            for (;;) sink += jobs.take();
        });
        Object monitor = new Object();
        for (int i = 0; i < 31; i++) start("waiter", () -> {
            synchronized (monitor) {
                for (;;) monitor.wait();
            }
        });
        for (Object lock : new Object[] {first, new Object(), new ReentrantLock(), new ReentrantReadWriteLock().readLock()}) start("sleeper", () -> {
            for (;;) locked(lock, () -> Thread.sleep(50));
        });
        Semaphore permits = new Semaphore(0);
        for (int i = 0; i < 8; i++) start("permit", () -> {
            for (;;) permits.acquire();
        });
        ReentrantLock lock = new ReentrantLock();
        Condition condition = lock.newCondition();
        for (int i = 0; i < 8; i++) start("condition", () -> locked(lock, () -> {
            for (;;) condition.await();
        }));
        ArrayBlockingQueue<Integer> full = new ArrayBlockingQueue<>(1);
        for (int i = 0; i < 8; i++) start("full", () -> {
            for (;;) full.put(1);
        });
        CompletableFuture<Integer> never = new CompletableFuture<>();
        CountDownLatch latch = new CountDownLatch(1);
        for (int i = 0; i < 8; i++) start("result", () -> never.get());
        for (int i = 0; i < 8; i++) start("latch", () -> latch.await());
        ForkJoinPool pool = new ForkJoinPool(8);
        start("producer", () -> {
            for (;;) {
                jobs.add(1);
                pool.execute(() -> sink++);
                permits.release();
                full.poll();
                locked(lock, condition::signal);
                synchronized (monitor) {
                    monitor.notify();
                }
                Thread.sleep(20);
            }
        });
    }

    static long now() {
        Instant now = Instant.now();
        return now.getEpochSecond() * 1_000_000_000L + now.getNano();
    }

    static final ThreadLocal<String> tid = ThreadLocal.withInitial(() -> {
        try {
            return Files.readSymbolicLink(Path.of("/proc/thread-self")).getFileName().toString();
        } catch (Exception why) {
            throw new RuntimeException(why);
        }
    });

    interface Work { void run() throws Exception; }

    static void start(String name, Work work) {
        Thread thread = new Thread(() -> {
            try { work.run(); } catch (Exception why) { throw new RuntimeException(why); }
        }, name);
        thread.setDaemon(true);
        thread.start();
    }
}

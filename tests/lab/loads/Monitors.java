import java.io.PrintStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Instant;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ForkJoinPool;
import java.util.concurrent.LinkedBlockingQueue;

/**
 * Monitors MODE SECONDS TRUTH: 12 workers behind one monitor. Its owner sleeps (sleep), computes (compute), or waits for a second monitor whose
 * owner sleeps (nested); deadlock: two threads wait for each other's monitor, and the workers for one of these; idle: nothing waits for a monitor,
 * beside 64 threads that wait for work. TRUTH gets a line "BEGIN END TID" for each time that the monitor was owned; nested: the second one.
 */
public class Monitors {
    static final Object first = new Object(), second = new Object();
    static volatile long sink;
    static PrintStream truth;

    public static void main(String[] words) throws Exception {
        String mode = words[0];
        truth = new PrintStream(words[2]);
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
        Thread.sleep(Integer.parseInt(words[1]) * 1000L);
        Runtime.getRuntime().halt(0);
    }

    static void work(String mode) throws Exception {
        switch (mode) {
            case "nested" -> {
                synchronized (first) {
                    owned(second, () -> sink++);
                }
            }
            case "compute" -> owned(first, () -> {
                long end = System.nanoTime() + 50_000_000;
                while (System.nanoTime() < end) sink++;
            });
            default -> owned(first, () -> Thread.sleep(100));
        }
    }

    /** Owns the monitor for that work. */
    static void owned(Object monitor, Work work) throws Exception {
        synchronized (monitor) {
            long begin = now();
            work.run();
            truth.println(begin + " " + now() + " " + tid.get());
        }
    }

    static void cross(CountDownLatch both, Object own, Object other) throws Exception {
        synchronized (own) {
            both.countDown();
            both.await();
            synchronized (other) {
                sink++;
            }
        }
    }

    /** Pools that get work every 20 ms, threads in Object.wait, and one that sleeps with a monitor for which none waits. */
    static void idle() throws Exception {
        LinkedBlockingQueue<Integer> jobs = new LinkedBlockingQueue<>();
        for (int i = 0; i < 32; i++) start("consumer", () -> {
            for (;;) sink += jobs.take();
        });
        for (int i = 0; i < 31; i++) start("waiter", () -> {
            synchronized (second) {
                for (;;) second.wait();
            }
        });
        start("sleeper", () -> {
            for (;;) synchronized (first) {
                Thread.sleep(50);
            }
        });
        ForkJoinPool pool = new ForkJoinPool(8);
        start("producer", () -> {
            for (;;) {
                jobs.add(1);
                pool.execute(() -> sink++);
                synchronized (second) {
                    second.notify();
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

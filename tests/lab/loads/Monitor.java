import java.io.RandomAccessFile;
import java.util.concurrent.CountDownLatch;

/** Monitor FOLDER SECONDS WORKERS PARKED: workers behind one monitor whose holder commits, beside threads with nothing to do. */
public class Monitor {
    public static void main(String[] words) throws Exception {
        int seconds = Integer.parseInt(words[1]), workers = Integer.parseInt(words[2]), parked = Integer.parseInt(words[3]);
        RandomAccessFile file = new RandomAccessFile(words[0] + "/java", "rw");
        Object monitor = new Object();
        CountDownLatch never = new CountDownLatch(1);
        for (int i = 0; i < parked; i++) start("parked", () -> never.await());
        for (int i = 0; i < workers; i++) start("worker", () -> {
            for (;;) synchronized (monitor) {
                file.seek(0);
                file.write(new byte[4096]);
                file.getFD().sync();
            }
        });
        System.out.println("ready");
        Thread.sleep(seconds * 1000L);
        Runtime.getRuntime().halt(0);
    }

    interface Work { void run() throws Exception; }

    static void start(String name, Work work) {
        Thread thread = new Thread(() -> {
            try { work.run(); } catch (Exception why) { throw new RuntimeException(why); }
        }, name);
        thread.setDaemon(true);
        thread.start();
    }
}

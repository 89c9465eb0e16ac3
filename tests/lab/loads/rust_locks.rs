// Threads behind locks of Rust's standard library, which name no owner; and pools that wait for work.
//   rust_locks MODE THREADS SECONDS FOLDER
// MODE: fsync (a mutex is held for a write and an fsync to FOLDER/wal), sleep (for 20 ms), compute (for 5 ms of CPU), rwlock (the write lock
// is held for 20 ms), nested (a second mutex is taken under the first, by one more thread, too, which sleeps 20 ms under it);
// timed-pool (workers wait on a condition variable with a timeout of a second, again and again, after two notifications: no lock is waited for),
// pool (workers wait on a condition variable, a dispatcher gives one a job every 2 ms: no lock is waited for), idle (no jobs),
// constant (the same by a futex whose value is always 2: each has work for 4 ms, every 5 ms), state (a futex whose value a dispatcher sets to
// 1 and workers to 2 again at once),
// chain (workers wake the next one before they work: no lock), ring (workers pass a token on by unparking the next).
// Prints "ready"; writes "BEGIN END TID" (CLOCK_REALTIME, ns) for each hold of the (first) lock to FOLDER/truth at the end.
use std::collections::VecDeque;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, RwLock};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

extern "C" {
    fn syscall(number: i64, ...) -> i64;
}

fn tid() -> i64 {
    unsafe { syscall(if cfg!(target_arch = "aarch64") { 178 } else { 186 }) }
}

static WORD: AtomicU32 = AtomicU32::new(2);

/// FUTEX_WAIT_BITSET (9) or FUTEX_WAKE (1), private, at `WORD`.
fn futex(command: i64, value: u32) {
    let (number, no_time) = (if cfg!(target_arch = "aarch64") { 98i64 } else { 202 }, std::ptr::null::<u8>());
    unsafe { syscall(number, &WORD, command | 128, i64::from(value), no_time, no_time, 0xffff_ffffi64) };
}

fn now() -> u128 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos()
}

fn compute(time: Duration) {
    let begin = Instant::now();
    while begin.elapsed() < time {
        std::hint::spin_loop();
    }
}

fn main() {
    let words: Vec<String> = std::env::args().collect();
    let (mode, threads, seconds, folder) = (words[1].clone(), words[2].parse::<usize>().unwrap(), words[3].parse().unwrap(), words[4].clone());
    let end = Instant::now() + Duration::from_secs(seconds);
    let stop = Arc::new(AtomicBool::new(false));
    let wal = Arc::new(Mutex::new(File::create(format!("{folder}/wal")).unwrap()));
    let (inner, shared) = (Arc::new(Mutex::new(())), Arc::new(RwLock::new(())));
    let jobs = Arc::new((Mutex::new(VecDeque::new()), Condvar::new()));
    let token = Arc::new(AtomicUsize::new(0));
    let parked: Arc<Mutex<Vec<thread::Thread>>> = Arc::default();
    let workers: Vec<_> = (0..threads)
        .map(|number| {
            let (mode, wal, inner, shared, jobs, stop) =
                (mode.clone(), wal.clone(), inner.clone(), shared.clone(), jobs.clone(), stop.clone());
            let (token, unparked) = (token.clone(), parked.clone());
            let work = move || {
                let (mut holds, me) = (Vec::new(), tid());
                while Instant::now() < end {
                    match mode.as_str() {
                        "fsync" => {
                            let mut file = wal.lock().unwrap();
                            let begin = now();
                            file.write_all(&[b'x'; 4096]).unwrap();
                            file.sync_data().unwrap();
                            holds.push((begin, now()));
                        }
                        "sleep" | "compute" | "nested" => {
                            let _held = wal.lock().unwrap();
                            let begin = now();
                            match mode.as_str() {
                                "sleep" => thread::sleep(Duration::from_millis(20)),
                                "compute" => compute(Duration::from_millis(5)),
                                _ => drop(inner.lock().unwrap()),
                            }
                            holds.push((begin, now()));
                        }
                        "rwlock" => {
                            let held = shared.write().unwrap();
                            let begin = now();
                            thread::sleep(Duration::from_millis(20));
                            holds.push((begin, now()));
                            drop(held);
                            // Otherwise it takes the lock again before the thread that it woke runs.
                            thread::sleep(Duration::from_millis(1));
                        }
                        "timed-pool" => {
                            let (queue, filled) = &*jobs;
                            drop(filled.wait_timeout(queue.lock().unwrap(), Duration::from_secs(1)).unwrap());
                        }
                        "constant" | "state" => {
                            futex(9, 2);
                            if mode == "constant" {
                                thread::sleep(Duration::from_millis(4));
                            } else {
                                let _ = WORD.compare_exchange(1, 2, Ordering::AcqRel, Ordering::Relaxed);
                            }
                        }
                        "ring" => {
                            while token.load(Ordering::Acquire) != number && !stop.load(Ordering::Relaxed) {
                                thread::park();
                            }
                            thread::sleep(Duration::from_millis(5));
                            token.store((number + 1) % threads, Ordering::Release);
                            if let Some(next) = unparked.lock().unwrap().get((number + 1) % threads) {
                                next.unpark();
                            }
                        }
                        _ => {
                            let (queue, filled) = &*jobs;
                            let mut queue = queue.lock().unwrap();
                            while queue.is_empty() && !stop.load(Ordering::Relaxed) {
                                queue = filled.wait(queue).unwrap();
                            }
                            queue.pop_front();
                            if mode == "chain" && !queue.is_empty() {
                                filled.notify_one();
                            }
                            drop(queue);
                            thread::sleep(Duration::from_millis(1));
                        }
                    }
                }
                (me, holds)
            };
            let worker = thread::Builder::new().name(format!("worker/{number}")).spawn(work).unwrap();
            parked.lock().unwrap().push(worker.thread().clone());
            worker
        })
        .collect();
    if mode == "timed-pool" {
        // The value at which they wait is that of a contended mutex from now on.
        (0..2).for_each(|_| jobs.1.notify_one());
    }
    println!("ready");
    while Instant::now() < end {
        match mode.as_str() {
            "nested" => {
                let held = inner.lock().unwrap();
                thread::sleep(Duration::from_millis(20));
                drop(held);
                thread::sleep(Duration::from_millis(1));
            }
            "pool" => {
                jobs.0.lock().unwrap().push_back(());
                jobs.1.notify_one();
                thread::sleep(Duration::from_millis(2));
            }
            "constant" | "state" => {
                if mode == "state" {
                    WORD.store(1, Ordering::Release);
                }
                futex(1, 1);
                thread::sleep(Duration::from_millis(5));
            }
            "chain" => {
                jobs.0.lock().unwrap().extend(vec![(); threads]);
                jobs.1.notify_one();
                thread::sleep(Duration::from_millis(20));
            }
            _ => thread::sleep(Duration::from_millis(20)),
        }
    }
    stop.store(true, Ordering::Relaxed);
    WORD.store(0, Ordering::Release);
    futex(1, u32::MAX >> 1);
    jobs.1.notify_all();
    parked.lock().unwrap().iter().for_each(thread::Thread::unpark);
    // On a busy machine "nested" has millions of them.
    let mut truth = BufWriter::new(File::create(format!("{folder}/truth")).unwrap());
    for worker in workers {
        let (tid, holds) = worker.join().unwrap();
        for (begin, end) in holds {
            writeln!(truth, "{begin} {end} {tid}").unwrap();
        }
    }
    truth.flush().unwrap();
}

//! Paths, methods and formats; clients that are slow, many, or send anything.

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;

use crate::serve::server::Server;

/// Resident memory in KiB.
fn resident(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").trim().parse().unwrap()
}

/// A scrape that waited until a thousand silent connections have ended, a few at a time and each after 5 s, would not be answered within
/// the timeout of the client.
fn scrape_is_answered(server: &Server) {
    let (status, _, body) = server.get("/metrics", "");
    assert_eq!(status, 200);
    assert!(body.contains("stalltop_sample_timestamp_seconds"), "{body}");
}

#[test]
fn each_client_gets_the_format_that_it_asks_for() {
    let server = Server::start();
    let (status, head, body) = server.get("/metrics", "");
    assert_eq!(status, 200);
    assert!(head.contains("content-type: text/plain; version=0.0.4"), "{head}");
    assert!(!body.contains("# EOF"), "{body}");
    let (status, head, body) = server.get("/metrics", "Accept: application/openmetrics-text;version=1.0.0\r\n");
    assert_eq!(status, 200);
    assert!(head.contains("content-type: application/openmetrics-text; version=1.0.0"), "{head}");
    assert!(body.ends_with("# EOF\n"), "{body}");
    let (status, head, body) = server.request("HEAD /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    assert!(status == 200 && body.is_empty() && head.contains("content-length: "), "{head}: {body}");
    assert_eq!(server.get("/-/healthy", "").0, 200);
    assert_eq!(server.get("/", "").0, 200);
    assert_eq!(server.get("/nothing", "").0, 404);
    let (status, head, _) =
        server.request("POST /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 0\r\n\r\n");
    assert!(status == 405 && head.contains("allow: GET, HEAD"), "{head}");
}

#[test]
fn it_ends_in_order_on_sigterm_and_sigint() {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let ignored = status.lines().find_map(|line| u64::from_str_radix(line.strip_prefix("SigIgn:")?.trim(), 16).ok()).unwrap();
    for signal in [Signal::SIGTERM, Signal::SIGINT] {
        // As in a background job of a shell, from which it would be inherited.
        if ignored & (1 << (signal as u32 - 1)) != 0 {
            println!("skipped: {signal} is ignored here");
            continue;
        }
        let status = Server::start().end(signal);
        assert!(status.success(), "{signal}: {status}");
    }
}

#[test]
fn nonsense_and_huge_headers_are_refused() {
    let server = Server::start();
    let long = format!("GET /metrics HTTP/1.1\r\nHost: x\r\nX-Long: {}\r\n\r\n", "a".repeat(1_000_000));
    let many = format!("GET /metrics HTTP/1.1\r\nHost: x\r\n{}\r\n", "X-Many: 1\r\n".repeat(1000));
    let target = format!("GET /{} HTTP/1.1\r\nHost: x\r\n\r\n", "a".repeat(100_000));
    for bytes in
        [long.as_str(), &many, &target, "\0\u{1}\u{2}\u{ff}\r\n\r\n", "GET\r\n\r\n", "\u{16}\u{3}\u{1}\u{2}\0\u{1}\0\r\n\r\n"]
    {
        let (status, _, body) = server.request(bytes);
        let begin: String = bytes.chars().take(40).collect();
        // 0: closed without an answer, or with a reset because it had not read all.
        assert!([0, 400, 414, 431].contains(&status), "{status}: {begin:?}");
        assert!(!body.contains("stalltop_"), "{begin:?}");
    }
    scrape_is_answered(&server);
}

/// A body is not waited for.
#[test]
fn a_request_with_an_endless_body_is_answered_and_closed() {
    let server = Server::start();
    let mut stream = server.connect();
    stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000000000\r\n\r\n").unwrap();
    let begin = Instant::now();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    assert!(answer.starts_with(b"HTTP/1.1 200 OK") && begin.elapsed() < Duration::from_secs(20), "{:?}", begin.elapsed());
}

/// Clients that send a header byte by byte are closed, though each byte comes soon.
#[test]
fn a_slow_header_ends_the_connection() {
    let server = Server::start();
    let mut stream = server.connect();
    let begin = Instant::now();
    stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: x\r\n").unwrap();
    // A write fails after the server has closed.
    while stream.write_all(b"X-Slow: 1\r\n").is_ok() {
        assert!(begin.elapsed() < Duration::from_secs(20), "it may send for ever");
        std::thread::sleep(Duration::from_millis(250));
    }
    assert!(begin.elapsed() > Duration::from_secs(2), "closed at once: {:?}", begin.elapsed());
}

/// An idle connection is closed too, after an answer as before the first request.
#[test]
fn an_idle_connection_ends() {
    let server = Server::start();
    // Both at once.
    std::thread::scope(|scope| {
        for request in ["", "GET /-/healthy HTTP/1.1\r\nHost: x\r\n\r\n"] {
            let mut stream = server.connect();
            scope.spawn(move || {
                let begin = Instant::now();
                stream.write_all(request.as_bytes()).unwrap();
                let mut answer = Vec::new();
                let _ = stream.read_to_end(&mut answer);
                let took = begin.elapsed();
                assert!(took > Duration::from_secs(2) && took < Duration::from_secs(20), "{request:?}: {took:?}");
                assert_eq!(answer.starts_with(b"HTTP/1.1 200"), !request.is_empty());
            });
        }
    });
}

fn open_sockets(pid: u32) -> usize {
    let descriptors = std::fs::read_dir(format!("/proc/{pid}/fd")).unwrap();
    let targets = descriptors.filter_map(|entry| std::fs::read_link(entry.ok()?.path()).ok());
    targets.filter(|target| target.to_string_lossy().starts_with("socket:")).count()
}

#[test]
fn a_thousand_connections_keep_no_scrape_out() {
    // The other one has no client, and the rest in common: user stacks of threads that are stuck meanwhile.
    let (server, other) = (Server::start(), Server::start());
    scrape_is_answered(&server);
    // It has some of its own for each network namespace of the machine.
    let (before, sockets_before) = ((resident(server.pid()), resident(other.pid())), open_sockets(server.pid()));
    let mut held: Vec<TcpStream> = Vec::new();
    for number in 0..1000 {
        let mut stream = server.connect();
        // A third says nothing, a third half a header, a third does not read its answers.
        let words: &[u8] = match number % 3 {
            0 => b"",
            1 => b"GET /metrics HTTP/1.1\r\nX-",
            _ => b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n",
        };
        let _ = stream.write_all(words);
        held.push(stream);
        if number % 250 == 249 {
            scrape_is_answered(&server);
        }
    }
    scrape_is_answered(&server);
    let held_sockets = open_sockets(server.pid()).saturating_sub(sockets_before);
    assert!(held_sockets > 0 && held_sockets < 70, "{held_sockets} sockets more");
    let in_common = resident(other.pid()).saturating_sub(before.1);
    let grown = resident(server.pid()).saturating_sub(before.0 + in_common);
    assert!(grown < 16 * 1024, "{grown} KiB more");
    drop(held);
    scrape_is_answered(&server);
}

/// A client that asks again and again, and reads nothing, is not answered for ever.
#[test]
fn a_client_that_reads_nothing_costs_little_memory() {
    // The other one has no client, and the rest in common: user stacks of threads that are stuck meanwhile.
    let (server, other) = (Server::start(), Server::start());
    let before = (resident(server.pid()), resident(other.pid()));
    let mut stream = server.connect();
    stream.set_nonblocking(true).unwrap();
    let begin = Instant::now();
    let mut written = 0_usize;
    while begin.elapsed() < Duration::from_secs(1) {
        match stream.write(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n") {
            Ok(bytes) => written += bytes,
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => std::thread::sleep(Duration::from_millis(5)),
            Err(_) => break,
        }
    }
    assert!(written > 0 && written < 64 << 20, "{written} bytes of requests were taken");
    let in_common = resident(other.pid()).saturating_sub(before.1);
    let grown = resident(server.pid()).saturating_sub(before.0 + in_common);
    assert!(grown < 16 * 1024, "{grown} KiB more");
    scrape_is_answered(&server);
}

/// Requests do no sampling: the body is that of the last sample, however often it is asked for.
#[test]
fn requests_take_no_samples() {
    let server = Server::start_with("2s");
    let stamp = || {
        let body = server.get("/metrics", "").2;
        body.lines().find(|line| line.starts_with("stalltop_sample_timestamp")).unwrap().to_owned()
    };
    let requests = 100;
    let stamps: BTreeSet<String> = (0..requests).map(|_| stamp()).collect();
    // On a busy machine several samples are taken meanwhile.
    assert!(stamps.len() < requests / 2, "{} samples for {requests} requests", stamps.len());
}

//! The sums by host stay correct while connections open, close, idle and are limited.

use std::net::Ipv4Addr;

use super::super::connection::TcpTimer;
use super::super::host_entry::MIN_SEGMENTS_FOR_RTT;
use super::*;
use crate::units::Counter;

const SECOND: u64 = 1_000_000_000;

/// A connection that has sent this many segments of 100 bytes, one per millisecond.
fn connection(cookie: u8, host: u8, segments: u32) -> Connection {
    Connection {
        ports: (40000, 80),
        local_address: IpAddr::V4(Ipv4Addr::new(192, 0, 2, 254)),
        state: 1,
        timer: TcpTimer::Other,
        timer_ms: None,
        retries: 0,
        unread_bytes: 0,
        queued_bytes: 0,
        inode: 0,
        cookie: [cookie; 8],
        remote_address: IpAddr::V4(Ipv4Addr::new(192, 0, 2, host)),
        is_local: false,
        tcp_info: TcpInfo {
            last_data_sent_ms: 0,
            last_data_received_ms: 0,
            unacked: 1,
            congestion_window: 10,
            srtt_us: 500,
            segments_retransmitted: segments / 10,
            bytes_acked: Some(u64::from(segments) * 100),
            bytes_received: Some(0),
            notsent_bytes: Some(0),
            min_rtt_us: Some(100),
            data_segments_in: Some(0),
            data_segments_out: Some(segments),
            limit_times_us: Some([u64::from(segments) * 1000, 0, 0]),
        },
    }
}

fn dump(table: &mut ConnectionTable, second: u64, connections: &[Connection]) -> RemoteHosts {
    let mut update = table.begin_dump(second * SECOND);
    connections.iter().for_each(|connection| update.add_connection(connection));
    table.finish_dump()
}

fn host_of(hosts: &RemoteHosts, host: u8) -> &RemoteHost {
    hosts.rows.iter().find(|row| row.address == IpAddr::V4(Ipv4Addr::new(192, 0, 2, host))).unwrap()
}

fn acked(hosts: &RemoteHosts, host: u8) -> u64 {
    host_of(hosts, host).bytes_acked.unwrap().0
}

#[test]
fn what_was_before_the_first_dump_is_not_counted() {
    let mut table = ConnectionTable::default();
    assert_eq!(acked(&dump(&mut table, 1, &[connection(1, 1, 1000)]), 1), 0);
    let second = dump(&mut table, 2, &[connection(1, 1, 1050)]);
    assert_eq!((acked(&second, 1), host_of(&second, 1).segments_retransmitted), (5000, Counter(5)));
}

#[test]
fn after_a_first_dump_that_failed_no_connection_counts_as_new() {
    let mut table = ConnectionTable::default();
    table.begin_dump(SECOND).add_connection(&connection(1, 1, 1000));
    assert_eq!(acked(&dump(&mut table, 2, &[connection(1, 1, 1000), connection(2, 1, 1000)]), 1), 0);
}

#[test]
fn sums_do_not_fall_when_a_connection_closes_and_grow_by_all_of_one_that_opens() {
    let mut table = ConnectionTable::default();
    dump(&mut table, 1, &[connection(1, 1, 1000), connection(2, 1, 10)]);
    let closed = dump(&mut table, 2, &[connection(2, 1, 20)]);
    assert_eq!((acked(&closed, 1), host_of(&closed, 1).connections), (1000, 1));
    let opened = dump(&mut table, 3, &[connection(2, 1, 20), connection(3, 1, 30)]);
    assert_eq!((acked(&opened, 1), host_of(&opened, 1).connections), (4000, 2));
    assert_eq!(host_of(&opened, 1).data_segments_out, Some(Counter(40)));
}

#[test]
fn a_connection_that_a_dump_missed_or_showed_twice_is_not_new() {
    let mut table = ConnectionTable::default();
    let other = connection(9, 1, 0);
    dump(&mut table, 1, &[connection(1, 1, 100_000), other.clone()]);
    dump(&mut table, 2, std::slice::from_ref(&other));
    let back = dump(&mut table, 3, &[connection(1, 1, 100_020), connection(1, 1, 100_020), other]);
    assert_eq!((acked(&back, 1), host_of(&back, 1).connections, back.connection_count), (2000, 2, 2));
    // The time since the dump before is not known.
    assert_eq!(host_of(&back, 1).send_limits.unwrap().observed_us, Counter(0));
}

#[test]
fn of_connections_beyond_the_limit_only_the_number_is_counted() {
    let mut table = ConnectionTable::default();
    let numbered =
        |number: usize, host, segments| Connection { cookie: (number as u64).to_ne_bytes(), ..connection(0, host, segments) };
    let kept = || (0..MAX_CONNECTIONS).map(|number| numbered(number, 1, 0));
    let beyond = |segments| numbered(MAX_CONNECTIONS, 2, segments);
    let mut dump = |second: u64, connections: &mut dyn Iterator<Item = Connection>| {
        let mut update = table.begin_dump(second * SECOND);
        connections.for_each(|connection| update.add_connection(&connection));
        table.finish_dump()
    };
    let count = u32::try_from(MAX_CONNECTIONS).unwrap() + 1;
    for second in 1..=2 {
        let limited = dump(second, &mut kept().chain([beyond(1000)]));
        assert_eq!((limited.connection_count, limited.host_count), (count, 1));
    }
    // The others close; they are forgotten after some dumps.
    for second in 3..=7 {
        let hosts = dump(second, &mut [numbered(0, 1, 0), beyond(1000)].into_iter());
        assert!(hosts.rows.iter().all(|host| host.bytes_acked == Some(Counter(0))), "it was open before");
    }
    let hosts = dump(8, &mut [numbered(0, 1, 0), beyond(1001)].into_iter());
    assert_eq!(acked(&hosts, 2), 100);
}

#[test]
fn only_connections_that_carried_data_have_a_round_trip() {
    let mut table = ConnectionTable::default();
    // An old high round trip, and nothing moves; a few segments, which an old mean outweighs.
    let idle = |segments| {
        let mut idle = connection(1, 1, segments);
        idle.tcp_info.srtt_us = 900_000;
        idle
    };
    dump(&mut table, 1, &[idle(1000)]);
    dump(&mut table, 2, &[idle(1000)]);
    let few = dump(&mut table, 3, &[idle(1000 + MIN_SEGMENTS_FOR_RTT - 1)]);
    assert_eq!(host_of(&few, 1).active.count, Counter(0));
    let fresh = dump(&mut table, 4, &[idle(1000 + 2 * MIN_SEGMENTS_FOR_RTT)]);
    let active = host_of(&fresh, 1).active;
    assert_eq!((active.count, active.srtt_us, active.min_rtt_us), (Counter(1), Counter(900_000), Some(Counter(100))));
    assert_eq!(host_of(&fresh, 1).send_backlogged.count, Counter(0), "nothing unsent, a window that is not full");
}

#[test]
fn unacknowledged_segments_are_no_rtt_measurement() {
    let mut table = ConnectionTable::default();
    dump(&mut table, 1, &[connection(1, 1, 1000)]);
    let mut dead = connection(1, 1, 1100);
    dead.tcp_info.bytes_acked = Some(100_000);
    let dead = dump(&mut table, 2, &[dead]);
    assert_eq!((host_of(&dead, 1).active.count, host_of(&dead, 1).segments_retransmitted), (Counter(0), Counter(10)));
}

#[test]
fn a_connection_with_unsent_data_or_a_full_window_is_send_backlogged() {
    let mut table = ConnectionTable::default();
    dump(&mut table, 1, &[connection(1, 1, 0), connection(2, 1, 0), connection(3, 1, 0)]);
    let (mut unsent, mut full) = (connection(1, 1, 100), connection(2, 1, 100));
    unsent.tcp_info.notsent_bytes = Some(1);
    full.tcp_info.unacked = 10;
    let hosts = dump(&mut table, 2, &[unsent, full, connection(3, 1, 100)]);
    assert_eq!((host_of(&hosts, 1).active.count, host_of(&hosts, 1).send_backlogged.count), (Counter(3), Counter(2)));
    let limits = host_of(&hosts, 1).send_limits.unwrap();
    assert_eq!((limits.observed_us, limits.busy_us), (Counter(3_000_000), Counter(300_000)));
}

#[test]
fn limit_times_are_summed_as_the_kernel_counts_them() {
    let mut table = ConnectionTable::default();
    let busy_for = |segments, ms: u64| {
        let mut busy = connection(1, 1, segments);
        busy.tcp_info.limit_times_us = Some([ms * 1000, 0, 0]);
        busy
    };
    dump(&mut table, 1, &[busy_for(0, 0)]);
    let mut busy_us = |second, segments, ms| {
        let limits = host_of(&dump(&mut table, second, &[busy_for(segments, ms)]), 1).send_limits.unwrap();
        (limits.observed_us.0, limits.busy_us.0)
    };
    assert_eq!(busy_us(2, 100, 1004), (1_000_000, 1_004_000), "a tick of 4 ms more");
    assert_eq!(busy_us(3, 200, 2000), (2_000_000, 2_000_000), "and less");
}

#[test]
fn a_minimum_rtt_is_kept_for_an_hour() {
    let mut table = ConnectionTable::default();
    let with = |segments, minimum| {
        let mut connection = connection(1, 1, segments);
        connection.tcp_info.min_rtt_us = Some(minimum);
        connection
    };
    let minimum = |hosts: &RemoteHosts| host_of(hosts, 1).active.min_rtt_us.unwrap().0;
    let first = minimum(&dump(&mut table, 1, &[with(0, 100)]));
    let second = minimum(&dump(&mut table, 301, &[with(100, 4000)]));
    assert_eq!(second - first, 100, "the kernel now holds 4 ms");
    let third = minimum(&dump(&mut table, 3602, &[with(200, 4000)]));
    assert_eq!(third - second, 4000);
}

#[test]
fn fields_that_an_old_kernel_lacks_are_absent() {
    let mut table = ConnectionTable::default();
    let old = |retransmitted| {
        let mut old = connection(1, 1, 0);
        old.tcp_info =
            TcpInfo { srtt_us: 500, segments_retransmitted: retransmitted, congestion_window: 10, ..TcpInfo::default() };
        old
    };
    dump(&mut table, 1, &[old(3)]);
    let hosts = dump(&mut table, 2, &[old(8)]);
    let host = host_of(&hosts, 1);
    assert_eq!((host.segments_retransmitted, host.bytes_acked, host.send_limits), (Counter(5), None, None));
    assert_eq!((host.active.count, host.active.min_rtt_us), (Counter(0), None));
}

#[test]
fn a_sample_keeps_slow_hosts_and_busy_hosts() {
    let mut table = ConnectionTable::default();
    let connections = |segments: u32| -> Vec<Connection> {
        (0..200_u8)
            .map(|host| {
                let mut connection = connection(host, host, segments * u32::from(host));
                // Host 3 carries little, and is slow.
                connection.tcp_info.srtt_us = if host == 3 { 80_000 } else { 101 };
                connection
            })
            .collect()
    };
    dump(&mut table, 1, &connections(10));
    let hosts = dump(&mut table, 2, &connections(20));
    assert_eq!((hosts.rows.len(), hosts.host_count, hosts.connection_count), (MAX_HOSTS, 200, 200));
    assert!(hosts.rows.is_sorted_by_key(|host| host.address));
    let kept = |host: u8| hosts.rows.iter().any(|row| row.address == IpAddr::V4(Ipv4Addr::new(192, 0, 2, host)));
    assert!(kept(3) && kept(199) && kept(180) && !kept(100));
}

/// A program with a timeout of a second opens socket after socket to a host that is down.
#[test]
fn requests_of_one_socket_after_the_other_wait_since_the_first_one() {
    let mut table = ConnectionTable::default();
    let request = |cookie, timer_ms| Connection { state: 2, timer: TcpTimer::Retransmit, timer_ms, ..connection(cookie, 1, 0) };
    let waited = |table: &ConnectionTable, second: u64| {
        let since = |socket: &WaitingSocket| (socket.wait, (second * SECOND - socket.since_ns) / 1_000_000);
        table.waiting().iter().map(since).collect::<Vec<_>>()
    };
    let mut ages = Vec::new();
    for (second, left_ms) in (1..).zip([400, 400, 900, 300, 300]) {
        dump(&mut table, second, &[request(second as u8, Some(left_ms))]);
        ages.extend(waited(&table, second));
    }
    let connect = ConnectionWait::Connect;
    assert_eq!(ages, [(connect, 1600), (connect, 2600), (connect, 3600), (connect, 4600)], "the third has just begun");
    // One of them is answered.
    dump(&mut table, 6, &[request(6, Some(300)), connection(5, 1, 0)]);
    dump(&mut table, 7, &[request(7, Some(300)), connection(5, 1, 0)]);
    assert_eq!(waited(&table, 7), [], "the host accepts connections");
    let mut slow = ConnectionTable::default();
    for second in 1..9 {
        dump(&mut slow, second, &[request(second as u8, Some(800))]);
        assert_eq!(waited(&slow, second), [], "a path of 200 ms");
    }
}

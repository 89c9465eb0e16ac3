//! Network namespaces other than that of stalltop: the same figures for each. docs/metrics.md, "Network namespaces".

use super::{NicSpan, ProtocolSpan};
use crate::sample::Sample;
use crate::sample::network::UdpSocket;
use crate::sample::network::namespaces::NamespaceNic;
use crate::units::PerSecond;

/// One namespace, present at both samples.
#[derive(Clone, Debug, PartialEq)]
pub struct NamespaceSpan {
    /// Inode of /proc/PID/ns/net
    pub inode: u64,
    pub protocols: ProtocolSpan,
    /// Its interfaces; `NicSpan::index` is an index into `NetworkNamespaces::nics` of the newer sample
    pub nics: Vec<NicSpan>,
}

/// The namespaces that both samples contain.
pub(super) fn between(older: &Sample, newer: &Sample, seconds: f64) -> Vec<NamespaceSpan> {
    let (Ok(was), Ok(now)) = (&older.network_namespaces, &newer.network_namespaces) else { return Vec::new() };
    let span = |row: &crate::sample::network::namespaces::NetworkNamespace| {
        let before = was.namespace(row.inode)?;
        let is_inside = |(_, nic): &(usize, &NamespaceNic)| nic.namespace == row.inode;
        let nics = now.nics.iter().enumerate().filter(is_inside).filter_map(|(index, inside)| {
            let earlier = was.nics.iter().find(|nic| nic.namespace == row.inode && nic.nic.id == inside.nic.id)?;
            let span = NicSpan::between(index, &earlier.nic, &inside.nic, seconds, None)?;
            Some(NicSpan { namespace: Some(row.inode), ..span })
        });
        Some(NamespaceSpan { inode: row.inode, protocols: ProtocolSpan::between(before, row, seconds), nics: nics.collect() })
    };
    now.rows.iter().filter_map(span).collect()
}

/// Drops per second of a UDP socket that both samples have; `None` for one that only the newer sample has, whose drops are those
/// since it was opened.
pub fn drop_rate(older: &[UdpSocket], newer: &UdpSocket, seconds: f64) -> Option<PerSecond> {
    let before = older.iter().find(|socket| socket.inode == newer.inode)?;
    PerSecond::between(Some(newer.drops), Some(before.drops), seconds)
}

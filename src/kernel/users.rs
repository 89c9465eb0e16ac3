//! User names by uid, cached.
//!
//! Names come from /etc/passwd; for other users (LDAP, systemd-homed) the name service is queried on a thread of its own, since
//! getpwuid may block for minutes.

use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};

use rustc_hash::FxHashMap;

use super::fields::{lines, parse_u32};
use super::root::Root;
use crate::sample::Name;

/// The cache.
#[derive(Debug, Default)]
pub struct UserNames {
    /// `None`: queried, and no name so far.
    names: FxHashMap<u32, Option<Name>>,
    passwd_read: bool,
    name_service: Option<NameService>,
}

/// The thread that queries the name service.
#[derive(Debug)]
struct NameService {
    requests: Sender<u32>,
    responses: Receiver<(u32, Name)>,
}

impl UserNames {
    /// The name of a uid, if it is known yet.
    pub fn name(&mut self, root: &Root, uid: u32) -> Option<Name> {
        if !self.passwd_read {
            self.passwd_read = true;
            let passwd = root.read_once("etc/passwd").unwrap_or_default();
            self.names.extend(parse_passwd(&passwd).map(|(uid, name)| (uid, Some(name))));
        }
        self.receive_responses();
        if let Some(known) = self.names.get(&uid) {
            return known.clone();
        }
        self.names.insert(uid, None);
        if root.is_host() {
            self.request(uid);
        }
        None
    }

    fn receive_responses(&mut self) {
        let Some(service) = &self.name_service else { return };
        loop {
            match service.responses.try_recv() {
                Ok((uid, name)) => {
                    self.names.insert(uid, Some(name));
                }
                Err(TryRecvError::Empty | TryRecvError::Disconnected) => return,
            }
        }
    }

    fn request(&mut self, uid: u32) {
        if self.name_service.is_none() {
            self.name_service = start_name_service();
        }
        if let Some(service) = &self.name_service {
            // The thread has ended: the uid remains without a name.
            let _ = service.requests.send(uid);
        }
    }
}

/// Parses /etc/passwd, `name:password:uid:…`. The first name of a uid counts, as for getpwuid.
pub fn parse_passwd(bytes: &[u8]) -> impl Iterator<Item = (u32, Name)> {
    let mut entries: Vec<(u32, Name)> = lines(bytes)
        .filter_map(|line| {
            let mut fields = line.split(|byte| *byte == b':');
            let name = fields.next().filter(|name| !name.is_empty() && !name.starts_with(b"#"))?;
            Some((parse_u32(fields.nth(1)?)?, Name::from(name)))
        })
        .collect();
    // The first line of a uid is inserted last.
    entries.reverse();
    entries.into_iter()
}

/// Starts the thread, which ends when the requests' channel is closed.
fn start_name_service() -> Option<NameService> {
    let (requests, received) = channel::<u32>();
    let (answer, answers) = channel();
    let resolve = move || {
        for uid in received {
            let found = nix::unistd::User::from_uid(nix::unistd::Uid::from_raw(uid));
            if let Ok(Some(user)) = found
                && answer.send((uid, Name::from(user.name.as_str()))).is_err()
            {
                return;
            }
        }
    };
    std::thread::Builder::new().name("user names".to_owned()).spawn(resolve).ok()?;
    Some(NameService { requests, responses: answers })
}

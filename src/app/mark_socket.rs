//! The door at which another shell of the same user leaves marks: a socket a program, in the runtime directory.
//!
//! `stalltop mark TEXT` knocks at every door there is. Whoever knocks must be the user we are, or root; a text is bounded, and
//! nobody is waited for longer than a second. A door whose program is gone is taken away by the next who knocks, or opens one.

use std::fs::{self, DirBuilder};
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::kill;
use nix::sys::socket::{self, AddressFamily, SockFlag, SockType, UnixAddr, sockopt};
use nix::unistd::{Pid, geteuid};

use crate::kernel;
use crate::recording::{Mark, Timestamp};

/// How long either side waits for the other.
const IO_TIMEOUT: Duration = Duration::from_secs(1);

/// An open door. It closes when this is dropped.
pub struct MarkSocket {
    path: PathBuf,
}

/// What becomes of a mark that was left.
pub type MarkResult = Result<(), &'static str>;

impl MarkSocket {
    /// Opens one; `receive` is called on a thread of its own with each mark, and must not block.
    pub fn bind(receive: impl FnMut(Timestamp, String) -> MarkResult + Send + 'static) -> io::Result<MarkSocket> {
        MarkSocket::bind_in(&create_socket_directory()?, receive)
    }

    fn bind_in(
        directory: &Path,
        mut receive: impl FnMut(Timestamp, String) -> MarkResult + Send + 'static,
    ) -> io::Result<MarkSocket> {
        let path = directory.join(format!("{}.sock", std::process::id()));
        // Whoever knocks before somebody listens takes the door away: it has its name only from then on.
        let aside = path.with_extension("new");
        remove_stale_sockets(directory);
        let listener = UnixListener::bind(&aside)?;
        let ready = fs::set_permissions(&aside, fs::Permissions::from_mode(0o600)).and_then(|()| fs::rename(&aside, &path));
        ready.inspect_err(|_| drop(fs::remove_file(&aside)))?;
        let door = MarkSocket { path };
        let body = move || {
            for knocking in listener.incoming() {
                match knocking {
                    Ok(mut knocking) => {
                        let answer = serve_client(&mut knocking, &mut receive);
                        // Whoever left may have gone already.
                        let _ = knocking.write_all(answer.err().unwrap_or(ACCEPTED).as_bytes());
                    }
                    // Out of descriptors, say: not to be asked again at once.
                    Err(_) => std::thread::sleep(IO_TIMEOUT),
                }
            }
        };
        std::thread::Builder::new().name("marks".to_owned()).stack_size(128 << 10).spawn(body)?;
        Ok(door)
    }
}

impl Drop for MarkSocket {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

/// Takes away what processes that were killed have left: their doors, and those that had no name yet.
fn remove_stale_sockets(directory: &Path) {
    let own = i32::try_from(std::process::id()).unwrap_or(0);
    for path in fs::read_dir(directory).into_iter().flatten().flatten().map(|entry| entry.path()) {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let pid = name.strip_suffix(".new").or_else(|| name.strip_suffix(".sock"));
        let Some(pid) = pid.and_then(|pid| pid.parse::<i32>().ok()).filter(|&pid| pid > 0) else { continue };
        // Nobody listens at one that is being opened either: as long as there is a process of that number it stays. Of our own
        // number it is an earlier process's.
        let is_gone = || kill(Pid::from_raw(pid), None) == Err(Errno::ESRCH);
        // In another namespace there may be one.
        let is_dead = || connect(&path).is_err_and(|error| error.kind() == io::ErrorKind::ConnectionRefused);
        if pid == own || is_gone() && is_dead() {
            let _ = fs::remove_file(&path);
        }
    }
}

/// The answer to a mark that was taken.
const ACCEPTED: &str = "marked";

fn serve_client(knocking: &mut UnixStream, receive: &mut impl FnMut(Timestamp, String) -> MarkResult) -> MarkResult {
    let peer = socket::getsockopt(knocking, sockopt::PeerCredentials).map_err(|_| "nobody knows who asks")?;
    // Root may do as any user.
    if peer.uid() != geteuid().as_raw() && peer.uid() != 0 {
        return Err("refused: marks are left by the user who records");
    }
    let _ = knocking.set_write_timeout(Some(IO_TIMEOUT));
    let bytes = read_text(knocking).map_err(|_| "the mark did not come to its end")?;
    if bytes.len() > Mark::MAX_TEXT_BYTES {
        return Err("refused: a mark is at most 1024 bytes");
    }
    let text = Mark::sanitize(&String::from_utf8_lossy(&bytes)).ok_or("refused: the mark is empty")?;
    // We were stopped, say: it said "not marked", and the moment that was meant is long past.
    if peer_hung_up(knocking) {
        return Err("whoever left the mark has not waited");
    }
    receive(kernel::now().into(), text)
}

/// Whether the other side has hung up; that it sends no more says nothing.
fn peer_hung_up(knocking: &UnixStream) -> bool {
    let mut fds = [PollFd::new(knocking.as_fd(), PollFlags::empty())];
    let asked = poll(&mut fds, PollTimeout::ZERO);
    asked.is_ok() && fds[0].revents().is_some_and(|told| told.intersects(PollFlags::POLLHUP | PollFlags::POLLERR))
}

/// To its end, but no more than shows that it is too long, and no longer than we have patience.
fn read_text(from: &mut UnixStream) -> io::Result<Vec<u8>> {
    let until = Instant::now() + IO_TIMEOUT;
    let mut text = Vec::new();
    let mut part = [0; 512];
    while text.len() <= Mark::MAX_TEXT_BYTES {
        let left = until.saturating_duration_since(Instant::now());
        from.set_read_timeout(Some(left.max(Duration::from_millis(1))))?;
        match from.read(&mut part) {
            Ok(0) => break,
            Ok(count) => text.extend_from_slice(part.get(..count).unwrap_or_default()),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(text)
}

/// What came of knocking at one door.
pub struct Delivery {
    /// The process behind it
    pub pid: String,
    pub result: Result<(), String>,
}

/// Leaves a mark at every door of this user, wherever it was opened from. Those behind which nobody is any more are taken
/// away.
pub fn send_mark(text: &str) -> io::Result<Vec<Delivery>> {
    let uid = geteuid();
    let (mut knocked, mut refused) = (Vec::new(), None);
    for place in socket_directories() {
        match check_private(&place, uid.as_raw()).and_then(|()| send_mark_in(&place, text)) {
            Ok(there) => knocked.extend(there),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => refused = Some(error),
        }
    }
    // Whoever became root may still have another user's runtime directory in the environment.
    if uid.is_root() && custom_runtime_directory(runtime_directories_from_env(), uid.as_raw()).is_none() {
        knocked.extend(send_mark_in(Path::new(SERVICE_DIRECTORY), text).unwrap_or_default());
    }
    match refused {
        Some(error) if knocked.is_empty() => Err(error),
        _ => Ok(knocked),
    }
}

fn send_mark_in(directory: &Path, text: &str) -> io::Result<Vec<Delivery>> {
    let mut knocked = Vec::new();
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        let name = path.file_name().and_then(|name| name.to_str()).and_then(|name| name.strip_suffix(".sock"));
        let Some(pid) = name.filter(|pid| pid.bytes().all(|byte| byte.is_ascii_digit())).map(str::to_owned) else { continue };
        match send_to_socket(&path, text) {
            // Closed in the meantime; by now another one may stand there.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
                let _ = fs::remove_file(&path);
            }
            Err(error) => knocked.push(Delivery { pid, result: Err(error.to_string()) }),
            Ok(answer) if answer == ACCEPTED => knocked.push(Delivery { pid, result: Ok(()) }),
            Ok(answer) => knocked.push(Delivery { pid, result: Err(answer) }),
        }
    }
    Ok(knocked)
}

fn send_to_socket(path: &Path, text: &str) -> io::Result<String> {
    let mut stream = connect(path)?;
    stream.set_write_timeout(Some(IO_TIMEOUT))?;
    stream.set_read_timeout(Some(IO_TIMEOUT * 2))?;
    // Whoever refuses before it has all of it says why.
    let written = stream.write_all(text.as_bytes()).and_then(|()| stream.shutdown(std::net::Shutdown::Write));
    let mut answer = String::new();
    match stream.take(200).read_to_string(&mut answer) {
        // Whoever is not heard to the end is told why before the line is cut.
        _ if !answer.is_empty() => Ok(answer),
        Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => {
            Err(io::Error::other("it does not answer: it is stopped, or gets no CPU"))
        }
        Err(error) => Err(error),
        Ok(_) => written.and(Err(io::ErrorKind::UnexpectedEof.into())),
    }
}

/// Connects without waiting: behind the door of a program that is stopped others may stand in a row.
fn connect(path: &Path) -> io::Result<UnixStream> {
    let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
    let socket = socket::socket(AddressFamily::Unix, SockType::Stream, flags, None)?;
    match socket::connect(socket.as_raw_fd(), &UnixAddr::new(path)?) {
        Ok(()) => {}
        Err(Errno::EAGAIN) => return Err(io::Error::other("it does not answer: too many are waiting")),
        Err(error) => return Err(error.into()),
    }
    let stream = UnixStream::from(socket);
    stream.set_nonblocking(false)?;
    Ok(stream)
}

/// Where doors of this user may be, the best place first: below a runtime directory, else below /tmp. One that was chosen is
/// the only one.
fn socket_directories() -> Vec<PathBuf> {
    let uid = geteuid().as_raw();
    if let Some(chosen) = custom_runtime_directory(runtime_directories_from_env(), uid) {
        return vec![chosen.join(SUBDIRECTORY)];
    }
    let below_tmp = PathBuf::from(format!("/tmp/{SUBDIRECTORY}-{uid}"));
    Some(default_runtime_directory(uid))
        .filter(|base| is_directory_owned_by(base, uid))
        .map(|base| base.join(SUBDIRECTORY))
        .into_iter()
        .chain([below_tmp])
        .collect()
}

/// Runtime directories that somebody named: the user's environment, systemd with RuntimeDirectory=.
fn runtime_directories_from_env() -> impl Iterator<Item = PathBuf> {
    ["XDG_RUNTIME_DIR", "RUNTIME_DIRECTORY"].into_iter().filter_map(std::env::var_os).map(PathBuf::from)
}

/// The first of them that is that user's and not the usual one.
fn custom_runtime_directory(mut named: impl Iterator<Item = PathBuf>, uid: u32) -> Option<PathBuf> {
    named.find(|base| *base != default_runtime_directory(uid) && is_directory_owned_by(base, uid))
}

fn default_runtime_directory(uid: u32) -> PathBuf {
    PathBuf::from(format!("/run/user/{uid}"))
}

fn is_directory_owned_by(base: &Path, uid: u32) -> bool {
    base.is_absolute() && base.metadata().is_ok_and(|it| it.is_dir() && it.uid() == uid)
}

/// Where doors are below a runtime directory.
const SUBDIRECTORY: &str = "stalltop";

/// Where the recorder that the machine runs all the time has its door; root leaves marks there too.
const SERVICE_DIRECTORY: &str = "/run/stalltop/stalltop";

/// Where our own door is; made where it is missing, and refused where it is not ours alone.
fn create_socket_directory() -> io::Result<PathBuf> {
    let directory = socket_directories().into_iter().next().ok_or(io::ErrorKind::NotFound)?;
    match DirBuilder::new().mode(0o700).create(&directory) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
        _ => {}
    }
    check_private(&directory, geteuid().as_raw())?;
    Ok(directory)
}

/// Fails where it is not that user's alone.
fn check_private(directory: &Path, uid: u32) -> io::Result<()> {
    let there = directory.symlink_metadata()?;
    let ours = there.is_dir() && there.uid() == uid && there.mode() & 0o077 == 0;
    if ours { Ok(()) } else { Err(io::Error::other(format!("{} is not a directory of ours alone", directory.display()))) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    fn taken(knocked: &[Delivery]) -> Vec<Result<(), &str>> {
        knocked.iter().map(|knocked| knocked.result.as_ref().map(|&()| ()).map_err(String::as_str)).collect()
    }

    /// Whoever knocks all the time finds it closed, or somebody behind it.
    #[test]
    fn a_door_that_is_being_opened_is_not_taken_away() {
        let directory = tempfile::tempdir().unwrap();
        let over = std::sync::atomic::AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !over.load(std::sync::atomic::Ordering::Relaxed) {
                    send_mark_in(directory.path(), "knock").unwrap();
                }
            });
            let lost = (0..60).filter(|_| !MarkSocket::bind_in(directory.path(), |_, _| Ok(())).unwrap().path.exists()).count();
            over.store(true, std::sync::atomic::Ordering::Relaxed);
            assert_eq!(lost, 0, "of 60 doors");
        });
    }

    #[test]
    fn a_mark_is_left_cleaned_and_answered() {
        let directory = tempfile::tempdir().unwrap();
        let (sender, marks) = mpsc::sync_channel(2);
        let receive = move |_: Timestamp, text: String| sender.try_send(text).map_err(|_| "full");
        let door = MarkSocket::bind_in(directory.path(), receive).unwrap();
        assert_eq!(door.path.metadata().unwrap().mode() & 0o777, 0o600);
        assert_eq!(taken(&send_mark_in(directory.path(), "deploy 42").unwrap()), [Ok(())]);
        assert_eq!(taken(&send_mark_in(directory.path(), " \x1b]0;evil\x07 a\nb ").unwrap()), [Ok(())]);
        assert_eq!(taken(&send_mark_in(directory.path(), "third").unwrap()), [Err("full")]);
        assert_eq!(marks.try_iter().collect::<Vec<_>>(), ["deploy 42", "]0;evil  a b"]);
        let long = "x".repeat(1 << 20);
        let refused = send_mark_in(directory.path(), &long).unwrap();
        assert!(refused[0].result.is_err() && marks.try_recv().is_err());
        assert_eq!(taken(&send_mark_in(directory.path(), "\x01\n").unwrap()), [Err("refused: the mark is empty")]);
        assert_eq!(taken(&send_mark_in(directory.path(), "after all that").unwrap()), [Ok(())]);
        drop(door);
        assert!(send_mark_in(directory.path(), "nobody").unwrap().is_empty());
    }

    /// The recorder was stopped meanwhile: who was told that nobody answers finds no mark afterwards.
    #[test]
    fn a_mark_is_not_taken_from_somebody_who_has_gone() {
        let ask = |stays: bool| {
            let (mut theirs, mut ours) = UnixStream::pair().unwrap();
            theirs.write_all(b"deploy 42").unwrap();
            theirs.shutdown(std::net::Shutdown::Write).unwrap();
            let held = stays.then_some(theirs);
            let mut taken = Vec::new();
            let answer = serve_client(&mut ours, &mut |_: Timestamp, text: String| {
                taken.push(text);
                Ok(())
            });
            drop(held);
            (answer.is_ok(), taken.len())
        };
        assert_eq!((ask(true), ask(false)), ((true, 1), (false, 0)));
    }

    #[test]
    fn a_dead_door_is_taken_away_and_one_that_does_not_answer_is_said_to_be() {
        let directory = tempfile::tempdir().unwrap();
        let (dead, mute) = (directory.path().join("11.sock"), directory.path().join("12.sock"));
        drop(UnixListener::bind(&dead).unwrap());
        let _mute = UnixListener::bind(&mute).unwrap();
        fs::write(directory.path().join("notes"), "no door").unwrap();
        let knocked = send_mark_in(directory.path(), "x").unwrap();
        assert_eq!((knocked.len(), knocked[0].pid.as_str()), (1, "12"));
        assert!(knocked[0].result.is_err());
        assert!(!dead.exists() && mute.exists() && directory.path().join("notes").exists());
    }

    /// Whoever is killed takes nothing away: neither the door, nor what was about to become one.
    #[test]
    fn what_was_left_by_who_was_killed_is_taken_away_by_the_next_that_opens_one() {
        let directory = tempfile::tempdir().unwrap();
        let at = |name: String| directory.path().join(name);
        let ended = || {
            let mut child = std::process::Command::new("true").spawn().unwrap();
            child.wait().unwrap();
            child.id()
        };
        let (gone, elsewhere, own) = (ended(), ended(), std::process::id());
        let dead = [at(format!("{gone}.new")), at(format!("{gone}.sock")), at(format!("{own}.new"))];
        // Of a process that is just opening it, it may be; and of one in another namespace.
        let stays = [at("1.new".to_owned()), at(format!("{elsewhere}.sock")), at("notes.new".to_owned())];
        dead.iter().chain(&stays[..1]).for_each(|path| drop(UnixListener::bind(path).unwrap()));
        let _listens = UnixListener::bind(&stays[1]).unwrap();
        fs::write(&stays[2], "no door").unwrap();
        let door = MarkSocket::bind_in(directory.path(), |_, _| Ok(())).unwrap();
        assert!(door.path.exists());
        assert_eq!(dead.each_ref().map(|path| path.exists()), [false; 3]);
        assert_eq!(stays.each_ref().map(|path| path.exists()), [true; 3]);
    }

    /// `sudo -E` and `su` leave the user's runtime directory in root's environment.
    #[test]
    fn a_runtime_directory_of_another_user_is_not_chosen() {
        let directory = tempfile::tempdir().unwrap();
        let (ours, uid) = (directory.path().to_owned(), geteuid().as_raw());
        let link = ours.join("link");
        std::os::unix::fs::symlink(&ours, &link).unwrap();
        let first = |named: &[&Path], uid| custom_runtime_directory(named.iter().map(|path| (*path).to_owned()), uid);
        assert_eq!(first(&[&ours], uid + 1), None);
        let others =
            [Path::new("relative"), Path::new("/nonexistent"), Path::new("/dev/null"), &default_runtime_directory(uid)];
        assert_eq!(first(&others, uid), None);
        assert_eq!(first(&[others[1], &ours], uid), Some(ours.clone()));
        assert_eq!(first(&[&link], uid), Some(link), "what a link leads to counts");
    }

    #[test]
    fn a_directory_that_others_may_enter_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        let uid = geteuid().as_raw();
        let inside = directory.path().join("doors");
        DirBuilder::new().mode(0o700).create(&inside).unwrap();
        check_private(&inside, uid).unwrap();
        fs::set_permissions(&inside, fs::Permissions::from_mode(0o755)).unwrap();
        assert!(check_private(&inside, uid).is_err());
        fs::set_permissions(&inside, fs::Permissions::from_mode(0o700)).unwrap();
        assert!(check_private(&inside, uid + 1).is_err(), "another user's");
        let link = directory.path().join("link");
        std::os::unix::fs::symlink(&inside, &link).unwrap();
        assert!(check_private(&link, uid).is_err());
    }
}

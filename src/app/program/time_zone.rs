//! The time zone of this machine, from its own file.

use std::fs;
use std::path::Path;

use jiff::tz::TimeZone;

const LOCALTIME_PATH: &str = "/etc/localtime";

/// What TZ says, else what /etc/localtime does. jiff finds that one by its name, for which it keeps a list of all six hundred
/// zones in the system: a tenth of a megabyte.
pub fn local() -> TimeZone {
    let local = || std::env::var_os("TZ").is_none().then(|| read_tzif(Path::new(LOCALTIME_PATH))).flatten();
    local().unwrap_or_else(TimeZone::system)
}

/// A file of rules under the name that a link to it gives: `/usr/share/zoneinfo/Europe/Berlin`.
fn read_tzif(path: &Path) -> Option<TimeZone> {
    let target = fs::read_link(path).ok()?;
    let (_, name) = target.to_str()?.rsplit_once("zoneinfo/")?;
    TimeZone::tzif(name, &fs::read(path).ok()?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_gives_the_rules_their_name_and_whatever_is_no_such_link_is_left_to_others() {
        let folder = tempfile::tempdir().unwrap();
        let zones = folder.path().join("zoneinfo/Far");
        fs::create_dir_all(&zones).unwrap();
        let link = |name: &str, target: &Path| {
            let link = folder.path().join(name);
            std::os::unix::fs::symlink(target, &link).unwrap();
            link
        };
        // A version 2 file: an empty first part, one kind of time (an hour east, XYZ), no changes, then the rule.
        let head = |kinds: u8, letters: u8| [&b"TZif2"[..], &[0; 15], &[0; 16], &[0, 0, 0, kinds, 0, 0, 0, letters]].concat();
        let kind = [&3600_i32.to_be_bytes()[..], &[0, 0]].concat();
        let part = [head(1, 4), kind, b"XYZ\0".to_vec()].concat();
        fs::write(zones.join("East"), [part.clone(), part, b"\nXYZ-1\n".to_vec()].concat()).unwrap();
        fs::write(zones.join("Broken"), "TZ").unwrap();
        let east = read_tzif(&link("localtime", &zones.join("East"))).unwrap();
        assert_eq!(east.iana_name(), Some("Far/East"));
        assert_eq!(east.to_offset(jiff::Timestamp::UNIX_EPOCH), jiff::tz::offset(1));
        assert_eq!(read_tzif(&link("broken", &zones.join("Broken"))), None);
        assert_eq!(read_tzif(&link("nowhere", &zones.join("Nowhere"))), None);
        assert_eq!(read_tzif(&link("elsewhere", Path::new("/etc/hosts"))), None);
        assert_eq!(read_tzif(&zones.join("East")), None, "no link, so no name");
    }

    #[test]
    fn it_is_the_zone_that_others_find() {
        let (ours, theirs) = (local(), TimeZone::system());
        for second in [0, 1_700_000_000, 1_720_000_000] {
            let at = jiff::Timestamp::from_second(second).unwrap();
            assert_eq!(ours.to_offset(at), theirs.to_offset(at));
        }
    }
}

//! Thresholds, ignored devices, the size of the evaluator, and figures in sentences.

use super::formatting::{bytes, count, percent, plural, significant_digits};
use super::rule_config::BaselineOverride;
use super::{Evaluator, IgnoredDevices, Kind, RULES, RuleConfig, Subject, THRESHOLDS, Threshold, ThresholdSetting, Thresholds};
use crate::baseline::{BaselineKey, Baselines, DeviceIdentity, SizeClass};
use crate::ids::{DiskId, NicId};
use crate::interval::disk::Operation;
use crate::sample::Name;
use crate::synthetic;
use crate::units::Millis;

#[test]
fn figures_have_three_significant_digits_and_no_share_rounds_to_zero() {
    assert_eq!(percent(1.0 / 256.0), "0.39 %");
    assert_eq!(percent(0.00004), "0.0040 %");
    assert_eq!(
        [
            significant_digits(0.0),
            significant_digits(1.0),
            significant_digits(12.34),
            significant_digits(99.96),
            significant_digits(4711.2)
        ],
        ["0", "1.00", "12.3", "100", "4711"]
    );
    assert_eq!([count(63.0), count(1.0), count(0.6), count(61.7)], ["63", "1", "0.6", "62"]);
    assert_eq!([bytes(512.0), bytes(33_554_432.0), bytes(22.0 * 1_073_741_824.0)], ["512 B", "32.0 MiB", "22.0 GiB"]);
    assert_eq!([plural(1.0, "thread", "threads"), plural(2.0, "thread", "threads")], ["1 thread", "2 threads"]);
}

/// Of `record`, `w`, `R` and `check --save`.
#[test]
fn a_recording_begins_with_the_configured_baselines() {
    let latency = Millis(80.0);
    let sda = BaselineOverride { device: "sda".into(), operation: Operation::Flush, size: None, latency };
    let config = RuleConfig { baseline_overrides: vec![sda], ..RuleConfig::default() };
    let evaluator = Evaluator::new(Baselines::default()).with_rule_config(config.into());
    let disk = synthetic::disk("sda").build();
    let key = BaselineKey { device: DeviceIdentity::from_disk(&disk), operation: Operation::Flush, size: SizeClass::Small };
    let mut first = synthetic::sample(1.0).build();
    first.disks = Ok(vec![disk]);
    let known = |baselines: &Baselines| baselines.get(&key).and_then(|learned| learned.latency());
    assert_eq!(known(&evaluator.baselines_for_recording(&first)), Some(latency));
    assert_eq!(known(evaluator.baselines()), None, "before the first interval");
}

#[test]
fn thresholds_that_a_file_omits_have_their_defaults() {
    let mut some = Thresholds::default();
    let set = |some: &mut Thresholds, name, value| {
        let setting = ThresholdSetting::new(Threshold::from_name(name).expect("its name"), value);
        setting.map(|setting| setting.apply(some))
    };
    assert_eq!(set(&mut some, "blocked-ratio", 0.1), Ok(()));
    assert_eq!(some, Thresholds { blocked_ratio: 0.1, ..Thresholds::default() });
    let renamed = ["box-idle-below-ratio", "host-busy-below-ratio"].map(|name| Threshold::from_name(name).map(Threshold::name));
    assert!(renamed[0].is_some() && renamed[0] == renamed[1], "the older name is read");
    assert!(Threshold::from_name("blocked-ration").is_none(), "an unknown name is refused");
    for (name, value) in [
        ("blocked-ratio", 1.1),
        ("blocked-ratio", f64::NAN),
        ("latency-multiple", 0.5),
        ("nic-intervals", 2.5),
        ("nic-intervals", 0.0),
        ("hung-seconds", -1.0),
        ("hung-seconds", f64::INFINITY),
    ] {
        assert!(set(&mut some, name, value).is_err(), "{name} = {value}");
    }
    assert_eq!(some, Thresholds { blocked_ratio: 0.1, ..Thresholds::default() }, "a refused value changes nothing");
}

#[test]
fn each_threshold_is_one_word_and_its_default_is_valid() {
    for limit in THRESHOLDS {
        assert_eq!(limit.get(&Thresholds::default()), limit.default, "{}", limit.name());
        assert!(ThresholdSetting::new(limit, limit.default).is_ok(), "{}", limit.name());
        assert_eq!(THRESHOLDS.iter().filter(|other| other.name() == limit.name()).count(), 1);
        assert!(Kind::from_name(&limit.name()).is_none(), "{} would be a kind and a limit", limit.name());
        assert!(!limit.meaning().is_empty());
    }
    assert_eq!(Threshold::primary_for(Kind::SaturatedThread).map(Threshold::name).as_deref(), Some("thread-busy-ratio"));
    assert_eq!(Threshold::primary_for(Kind::DiskDrift).map(Threshold::name).as_deref(), Some("drift-multiple"));
    let without = RULES.iter().map(|rule| rule.kind).filter(|&kind| Threshold::primary_for(kind).is_none());
    assert_eq!(
        without.collect::<Vec<_>>(),
        [Kind::Deadlock, Kind::StuckServer, Kind::ListenOverflow, Kind::OomKill],
        "any is one"
    );
}

#[test]
fn ignored_devices_match_by_name_or_prefix() {
    let ignored = IgnoredDevices {
        disks: vec!["loop*".to_owned(), "sda".to_owned()],
        nics: vec!["*".to_owned()],
        file_systems: vec!["/mnt/*".to_owned()],
    };
    let disk = |name: &str| Subject::Disk { id: DiskId { major: 7, minor: 0 }, name: Name::from(name) };
    assert_eq!(
        ["loop", "loop12", "sda", "sdaa", "xloop"].map(|name| ignored.contains(&disk(name))),
        [true, true, true, false, false]
    );
    assert!(ignored.contains(&Subject::Nic(NicId { ifindex: 2, name: Name::from("eth0") })));
    let limit = |name: &str| ignored.contains(&Subject::Limit(Name::from(name)));
    assert_eq!(["space of /mnt/a", "inodes of /mnt/b", "space of /", "fs.file-max"].map(limit), [true, true, false, false]);
    assert!(!ignored.contains(&Subject::Host));
}

#[test]
fn an_evaluator_is_small_enough_for_many_checkpoints() {
    assert!(std::mem::size_of::<Evaluator>() <= 432, "{}", std::mem::size_of::<Evaluator>());
}

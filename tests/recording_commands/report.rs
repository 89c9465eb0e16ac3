//! `stalltop report`: the page in a real browser, its figures beside those of its JSON, hostile names, targets that must not be
//! written, and peaks that must not be lost.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use serde_json::Value;
use stalltop::ids::DiskId;
use stalltop::sample::block_latencies::BlockLatencies;
use stalltop::sample::disk::Operation;
use stalltop::sample::{Absent, Name, Sample};

use crate::program::program;
use crate::{lab, stalltop, support, synthetic};

/// Writes a report; returns its text.
pub fn report(recording: &Path, target: &Path) -> String {
    let output = stalltop(&["report", recording.to_str().unwrap(), "-o", target.to_str().unwrap()]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    fs::read_to_string(target).unwrap()
}

/// The DOM of the page in a browser, and the messages on its console; `None` without a browser.
fn browse(page: &Path, fragment: &str) -> Option<(String, String)> {
    let names = ["chromium", "chromium-browser", "google-chrome"];
    let path = std::env::var_os("PATH")?;
    let browser =
        std::env::split_paths(&path).flat_map(|folder| names.map(|name| folder.join(name))).find(|file| file.is_file());
    let Some(browser) = browser else {
        println!("skipped: no chromium");
        return None;
    };
    let profile = tempfile::tempdir().unwrap();
    let output = Command::new(browser)
        .args([
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--enable-logging=stderr",
            "--virtual-time-budget=5000",
            "--dump-dom",
        ])
        .arg(format!("--user-data-dir={}", profile.path().display()))
        .arg(format!("file://{}{fragment}", page.display()))
        .env("TZ", "UTC")
        .output()
        .unwrap();
    // The browser's own pages also write messages.
    let of_page = |line: &&str| line.contains("CONSOLE") && !line.contains("source: chrome");
    let console = String::from_utf8_lossy(&output.stderr).lines().filter(of_page).collect::<Vec<_>>().join("\n");
    Some((String::from_utf8(output.stdout).unwrap(), console))
}

/// All values of an attribute, with character references resolved.
fn attributes(dom: &str, name: &str) -> Vec<String> {
    let begin = format!(" {name}=\"");
    let values = dom.split(&begin).skip(1).map(|rest| rest.split('"').next().unwrap());
    values.map(|value| value.replace("&quot;", "\"").replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")).collect()
}

/// The text of the outputs of a chart by the number of their series.
fn outputs(figure: &str) -> BTreeMap<usize, String> {
    let said = figure.split("<output ").skip(1).map(|rest| {
        let series = attributes(&format!(" {rest}"), "data-series")[0].parse().unwrap();
        let text = rest.split_once('>').unwrap().1.split('<').next().unwrap();
        (series, text.to_owned())
    });
    said.collect()
}

#[test]
fn a_browser_shows_the_figures_of_json() {
    let folder = tempfile::tempdir().unwrap();
    let (page, json) = (folder.path().join("page.html"), folder.path().join("page.json"));
    let recording = lab("01-commit-serialised-db");
    report(&recording, &page);
    let told: Value = serde_json::from_str(&report(&recording, &json)).unwrap();
    // The fifth step, selected by its end time.
    let step = 5;
    let at = told["steps"][step]["to"].as_str().unwrap()[11..19].to_owned();
    let Some((dom, console)) = browse(&page, &format!("#at={at}")) else { return };
    assert_eq!(console, "", "the browser complains");
    let charts: Vec<Value> = attributes(&dom, "data-chart").iter().map(|text| serde_json::from_str(text).unwrap()).collect();
    assert!(charts.len() >= 5, "{}", charts.len());
    for chart in &charts {
        let id = chart["id"].as_str().unwrap();
        let same = told["charts"].as_array().unwrap().iter().find(|chart| chart["id"] == id).unwrap();
        assert_eq!(chart, same, "{id}");
    }
    // The page shows at the pointer what JSON has for that step.
    let cpu = dom.split("<figure ").find(|figure| figure.contains("id=\"title-cpu\"")).unwrap();
    let said = outputs(cpu);
    let series = told["charts"][0]["series"].as_array().unwrap();
    assert_eq!(said.len(), series.len());
    for (index, figure) in series.iter().enumerate() {
        let percent = figure["mean"][step].as_f64().unwrap() * 100.0;
        let shown: f64 = said[&index].strip_suffix(" %").unwrap().parse().unwrap();
        assert!((shown - percent).abs() <= 0.051, "{}: {shown} is not {percent}", figure["name"]);
        assert!(figure["mean"][step] != figure["mean"][step - 1] || percent == 0.0, "the step before would do as well");
    }
    assert!(dom.contains(&format!("data-time=\"{at}\"")), "the cursor stands there");
}

#[test]
fn a_page_needs_nothing_but_itself() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("page.html");
    let page = report(&lab("10-bbr"), &file);
    assert_eq!(file.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    for foreign in ["http:", "https:", "src=", "@import", "<link", "fetch(", "XMLHttp"] {
        assert!(!page.contains(foreign), "{foreign}");
    }
    // The textures are part of the page.
    assert!(page.contains("url(#blocked)") && page.matches("url(").count() == page.matches("url(#").count());
    assert!(
        page.contains("Content-Security-Policy")
            && page.contains("prefers-color-scheme: dark")
            && page.contains("@media print")
    );
    assert!(page.contains("tcp-retransmits") && page.contains("Next steps"));
}

/// The report of a recording that was not closed says that its end may be missing.
#[test]
fn an_unclosed_recording_is_reported_as_truncated() {
    let folder = tempfile::tempdir().unwrap();
    let (part, whole) = (folder.path().join("part.stalltop"), fs::read(lab("15-lock-convoy")).unwrap());
    fs::write(&part, &whole[..20_000]).unwrap();
    for (ending, said) in
        [("html", "<li>the end: the last frame is incomplete"), ("md", "- the end: the last frame is incomplete")]
    {
        let text = report(&part, &folder.path().join("cut").with_extension(ending));
        assert!(text.contains(said), "{ending}");
        let text = report(&lab("15-lock-convoy"), &folder.path().join("whole").with_extension(ending));
        assert!(!text.contains("the end: "), "{ending}");
    }
    let told: Value = serde_json::from_str(&report(&part, &folder.path().join("cut.json"))).unwrap();
    assert!(told["cut"].as_str().is_some_and(|said| said.contains("incomplete")), "{}", told["cut"]);
}

const HOSTILE: &str = "<script>alert('x')</script><img src=x onerror=alert(1)>\"&amp;'--></style></script>\u{202e}";

#[test]
fn hostile_names_are_never_markup() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("hostile.stalltop");
    let samples = support::few_samples(8).into_iter().map(|sample| {
        let mut sample = Sample::clone(&sample);
        for disk in sample.disks.iter_mut().flatten() {
            disk.name = Name::from(HOSTILE);
        }
        for nic in sample.nics.iter_mut().flatten() {
            nic.id.name = Name::from(HOSTILE);
        }
        if let Ok(tasks) = &mut sample.tasks {
            for process in &mut tasks.processes {
                Arc::make_mut(process).comm = Name::from(HOSTILE);
            }
        }
        Arc::new(sample)
    });
    support::record_into(&file, HOSTILE, &samples.collect::<Vec<_>>(), [HOSTILE, ""]);
    let page = folder.path().join("page.html");
    let text = report(&file, &page);
    assert!(text.contains("&lt;script&gt;alert("), "the names are not shown at all");
    assert_eq!(text.matches("<script").count(), 1, "only our own script");
    assert_eq!(text.matches("</script").count(), 1);
    assert_eq!(text.matches("<img").count() + text.matches('\u{202e}').count(), 0);
    let markdown = report(&file, &folder.path().join("page.md"));
    assert!(!markdown.contains("<script") && !markdown.contains("<img"), "{markdown}");
    let json: Value = serde_json::from_str(&report(&file, &folder.path().join("page.json"))).unwrap();
    assert_eq!(json["host"], HOSTILE);
    if let Some((dom, console)) = browse(&page, "") {
        assert_eq!(console, "");
        assert_eq!((dom.matches("<script").count(), dom.matches("<img").count()), (1, 0));
    }
}

/// Words without spaces are broken at the end of the line.
#[test]
fn nothing_makes_a_page_wider_than_its_window() {
    let folder = tempfile::tempdir().unwrap();
    let (file, page) = (folder.path().join("long.stalltop"), folder.path().join("page.html"));
    let long = "x".repeat(1000);
    support::record_into(&file, &long, &support::few_samples(8), [&long, ""]);
    let text = report(&file, &page);
    let measure = "<script>document.title = `${document.documentElement.scrollWidth} in ${innerWidth}`</script>";
    let measured = folder.path().join("measured.html");
    fs::write(&measured, text + measure).unwrap();
    let Some((dom, _)) = browse(&measured, "") else { return };
    let title = dom.split_once("<title>").unwrap().1.split('<').next().unwrap().to_owned();
    let (width, window) = title.split_once(" in ").unwrap_or_else(|| panic!("not measured: {title:?}"));
    assert!(width.parse::<u32>().unwrap() <= window.parse().unwrap(), "{title}");
}

/// Samples of a host with one CPU, one second apart; each second has one of these busy shares.
fn busy(shares: &[f64]) -> Vec<Arc<Sample>> {
    let (mut user, mut idle) = (0.0, 0.0);
    let samples = (0_u64..).zip(std::iter::once(&0.0).chain(shares)).map(|(second, share)| {
        user += share * 100.0;
        idle += (1.0 - share) * 100.0;
        let cpu = synthetic::cpu_times(user as u64, 0, idle as u64, 0);
        synthetic::sample_at(support::instant(second * 1000)).cpus([cpu]).shared()
    });
    samples.collect()
}

#[test]
fn a_long_recording_loses_no_peak() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("long.stalltop");
    let mut shares = vec![0.1; 1000];
    shares[500] = 0.9;
    support::record_into(&file, "long", &busy(&shares), ["the peak is near", ""]);
    let told: Value = serde_json::from_str(&report(&file, &folder.path().join("page.json"))).unwrap();
    assert_eq!((&told["intervals"], &told["intervals_per_step"]), (&1000.into(), &3.into()));
    let user = &told["charts"][0]["series"][0];
    let (mean, max) = (user["mean"].as_array().unwrap(), user["max"].as_array().unwrap());
    assert_eq!(mean.len(), told["steps"].as_array().unwrap().len());
    let step = 500 / 3;
    assert_eq!((max[step].as_f64(), user["peak"].as_f64()), (Some(0.9), Some(0.9)));
    let expected = (0.1 + 0.1 + 0.9) / 3.0;
    assert!((mean[step].as_f64().unwrap() - expected).abs() < 1e-3, "{}", mean[step]);
    assert!(max.iter().enumerate().all(|(at, most)| at == step || most.as_f64() < Some(0.12)));
    let page = report(&file, &folder.path().join("page.html"));
    assert!(page.contains("is the mean of 3 of them") && page.contains("the peak is near"));
}

/// Samples of a disk with 100 reads a second, 98 of them of about 0.56 ms and two of about 570 ms; the latencies of single requests
/// are known in that range.
fn reads_with_outliers(seconds: u64, known: std::ops::Range<u64>) -> Vec<Arc<Sample>> {
    let sample = |second: u64| {
        let disk = synthetic::disk(HOSTILE).reads(synthetic::operations(second * 100, 4, second * 100));
        let sda = DiskId { major: 8, minor: 0 };
        let bucket = |(bucket, each): (u8, u64)| synthetic::latency_bucket(sda, Operation::Read, bucket, second * each);
        let block_latencies = BlockLatencies { since_boottime_ns: 1, buckets: [(80, 98), (160, 2)].map(bucket).to_vec() };
        let is_known = known.contains(&second);
        let sample = synthetic::sample_at(support::instant(second * 1000)).cpus([synthetic::cpu_times(0, 0, second * 100, 0)]);
        sample
            .disk(disk)
            .with(|sample| sample.block_latencies = if is_known { Ok(block_latencies) } else { Err(Absent::NotRead) })
            .shared()
    };
    (0..=seconds).map(sample).collect()
}

#[test]
fn a_page_maps_the_latencies_of_single_requests() {
    let folder = tempfile::tempdir().unwrap();
    let (file, page) = (folder.path().join("long.stalltop"), folder.path().join("page.html"));
    let made = |seconds: u64, known: std::ops::Range<u64>| {
        let _ = (fs::remove_file(&file), fs::remove_file(&page));
        support::record_into(&file, "map", &reads_with_outliers(seconds, known), ["", ""]);
        report(&file, &page)
    };
    let without = made(1008, 0..0);
    assert!(!without.contains("latency of reads") && !without.contains("In a map of latency"));
    // 1008 intervals are steps of 3, and columns of 9; single requests are known from the 101st column on.
    let text = made(1008, 900..1009);
    let maps: Vec<&str> = text.split("<figure ").filter(|figure| figure.contains("class=\"chart map\"")).collect();
    let [map] = maps.as_slice() else { panic!("{} maps", maps.len()) };
    assert_eq!(text.matches("<script").count(), 1, "the disk has a hostile name");
    assert!(map.contains("latency of reads</h3>") && text.contains("In a map of latency a column is 9 intervals"));
    let whole = "10.8k reads: p50 557 µs, p99 570 ms, max 570 ms; 90.0k not measured";
    assert_eq!(attributes(map, "data-mean"), [whole]);
    let titles: Vec<&str> = map.split("<title>").skip(1).map(|rest| rest.split('<').next().unwrap()).collect();
    assert_eq!(titles.len(), 112, "a text for each column");
    assert!(titles[0].ends_with(", 900 reads: latencies not measured"), "{}", titles[0]);
    assert!(titles[101].ends_with(", 900 reads: p50 557 µs, p99 570 ms, max 570 ms"), "{}", titles[101]);
    assert_eq!(attributes(map, "title"), ["latencies not measured"], "one hatched band");
    // Two rows, and in each of them one stroke: equal cells are joined.
    let cells = map.split("class=\"cells\"").nth(1).unwrap().split("</g>").next().unwrap();
    assert_eq!(cells.matches('h').count() - cells.matches("path").count(), 2, "{cells}");
    assert!(text.len() - without.len() < 50_000, "{}", text.len() - without.len());
    if let Some((dom, console)) = browse(&page, &format!("#at={}", &titles[101][12..20])) {
        assert_eq!(console, "");
        assert!(dom.contains(&format!("{}</output>", titles[101])), "the script shows the figures of the column");
    }
}

#[test]
fn a_page_says_of_how_many_disks_it_has_no_map() {
    let folder = tempfile::tempdir().unwrap();
    let (file, page) = (folder.path().join("disks.stalltop"), folder.path().join("page.html"));
    let made = |disks: u32| {
        let _ = (fs::remove_file(&file), fs::remove_file(&page));
        let sample = |second: u64| {
            let numbers = 0..disks;
            let disk = |minor: u32| {
                let name = format!("sd{minor}");
                synthetic::disk(name.as_str()).id(8, minor).reads(synthetic::operations(second * 100, 4, second * 100))
            };
            let bucket = |minor: u32| synthetic::latency_bucket(DiskId { major: 8, minor }, Operation::Read, 80, second * 100);
            let block_latencies = BlockLatencies { since_boottime_ns: 1, buckets: numbers.clone().map(bucket).collect() };
            let sample = synthetic::sample_at(support::instant(second * 1000));
            let sample = numbers.fold(sample, |sample, minor| sample.disk(disk(minor)));
            sample.with(|sample| sample.block_latencies = Ok(block_latencies)).shared()
        };
        support::record_into(&file, "disks", &(0..=10).map(sample).collect::<Vec<_>>(), ["", ""]);
        report(&file, &page)
    };
    assert!(!made(32).contains("are kept"), "all of them");
    let sentence = |more: &str| format!("Latencies of {more}: measured, not drawn; only those of the first 32 disks are kept.");
    assert!(made(33).contains(&sentence("1 more disk")));
    let text = made(40);
    assert_eq!(text.matches(&sentence("8 more disks")).count(), 1);
}

#[test]
fn existing_files_are_never_overwritten() {
    let folder = tempfile::tempdir().unwrap();
    let recording = lab("16-idle-pool");
    let made = |target: &Path| {
        let output = stalltop(&["report", recording.to_str().unwrap(), "-o", target.to_str().unwrap()]);
        (output.status.code(), String::from_utf8(output.stderr).unwrap())
    };
    let there = folder.path().join("there.html");
    fs::write(&there, "mine").unwrap();
    let (code, said) = made(&there);
    assert_eq!((code, said.lines().count()), (Some(6), 1), "{said}");
    assert_eq!(fs::read(&there).unwrap(), b"mine");
    let link = folder.path().join("link.html");
    symlink(folder.path().join("elsewhere.html"), &link).unwrap();
    assert_eq!(made(&link).0, Some(6));
    assert_eq!(made(folder.path()).0, Some(6));
    assert_eq!(made(&folder.path().join("no/such/folder.html")).0, Some(5));
    let mut names: Vec<_> = fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, ["link.html", "there.html"]);
}

/// The format follows the file name; an unknown suffix is refused before any work is done.
#[test]
fn a_page_is_not_given_the_name_of_something_else() {
    let folder = tempfile::tempdir().unwrap();
    let recording = lab("16-idle-pool");
    let made = |name: &str, more: &[&str]| {
        let target = folder.path().join(name);
        let words = ["report", recording.to_str().unwrap(), "-o", target.to_str().unwrap()];
        let output = stalltop(&[&words, more].concat());
        let text = fs::read_to_string(&target).ok();
        (output.status.code(), String::from_utf8(output.stderr).unwrap(), text)
    };
    for (name, remedy) in [("x.pdf", "name it .html"), ("x.txt", "name it .md"), ("x.svg", "--format")] {
        let (code, said, text) = made(name, &[]);
        assert_eq!((code, said.lines().count(), text), (Some(2), 1, None), "{said}");
        assert!(said.contains(remedy), "{said}");
    }
    for (name, begin) in [("page", "<!DOCTYPE html>"), ("PAGE.HTML", "<!DOCTYPE html>"), ("PAGE.MD", "# vm")] {
        let (code, said, text) = made(name, &[]);
        assert!(code == Some(0) && text.unwrap().starts_with(begin), "{name}: {said}");
    }
    assert!(made("ticket.txt", &["--format", "md"]).2.unwrap().starts_with("# vm"), "--format overrides the suffix");
}

#[test]
fn a_disk_that_fills_leaves_nothing_behind() {
    let folder = tempfile::tempdir().unwrap();
    // Blocks of 512 bytes: far less than a page.
    let script = "ulimit -f 8; exec \"$0\" report \"$1\" -o \"$2\"";
    let target = folder.path().join("page.html");
    let output = Command::new("sh").args(["-c", script, program()]).args([&lab("16-idle-pool"), &target]).output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!((output.status.code(), said.lines().count()), (Some(5), 1), "{said}");
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn fewer_than_two_samples_are_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let (file, page) = (folder.path().join("one.stalltop"), folder.path().join("page.html"));
    support::record_into(&file, "one", &support::few_samples(1), ["", ""]);
    let output = stalltop(&["report", file.to_str().unwrap(), "-o", page.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(3));
    assert!(!page.exists());
}

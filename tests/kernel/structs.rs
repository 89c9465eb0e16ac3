//! The sizes, offsets and numbers that stalltop hands to the kernel, against the kernel's headers on this machine: a C
//! program is compiled that prints them.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use stalltop::{app, kernel};

#[test]
fn structs_have_the_layout_of_the_kernel_headers() {
    let rows: Vec<_> =
        [kernel::sys::LAYOUT, kernel::taskstats::LAYOUT, kernel::taskstats::message::LAYOUT, app::sys::LAYOUT].concat();
    let headers: BTreeSet<&str> = rows.iter().map(|(header, ..)| *header).collect();
    if let Some(missing) = headers.iter().find(|header| !Path::new("/usr/include").join(header).exists()) {
        return println!("skipped: no /usr/include/{missing} (apt-get install libc6-dev)");
    }
    let directory = tempfile::tempdir().unwrap();
    let (source, program) = (directory.path().join("structs.c"), directory.path().join("structs"));
    let includes: String = headers.iter().map(|header| format!("#include <{header}>\n")).collect();
    let values: String = rows.iter().map(|(_, value, _)| format!("  printf(\"%lld\\n\", (long long)({value}));\n")).collect();
    let text = format!("#include <stddef.h>\n#include <stdio.h>\n{includes}int main(void) {{\n{values}  return 0;\n}}\n");
    std::fs::write(&source, text).unwrap();
    let compiled = match Command::new("gcc").arg("-o").arg(&program).arg(&source).output() {
        Ok(output) => output,
        Err(why) => return println!("skipped: gcc cannot be run: {why}"),
    };
    assert!(compiled.status.success(), "{}", String::from_utf8_lossy(&compiled.stderr));
    let printed = Command::new(&program).output().unwrap();
    let printed = String::from_utf8(printed.stdout).unwrap();
    let expected: Vec<i64> = printed.lines().map(|line| line.parse().unwrap()).collect();
    assert_eq!(expected.len(), rows.len());
    for ((_, expression, ours), expected) in rows.iter().zip(expected) {
        assert_eq!(i64::try_from(*ours).unwrap(), expected, "{expression}");
    }
    println!("{} sizes, offsets and numbers agree", rows.len());
}

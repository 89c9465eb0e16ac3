//! Tells the linker to lay the functions of a live monitor side by side (`warm.ld`): what is at work each second is a third of
//! the program's code, and where it is spread over all of it, nearly all of it is in memory.

use std::env;
use std::ffi::OsString;
use std::path::Path;
use std::process::{Command, Stdio};

fn main() {
    println!("cargo:rerun-if-changed=assets/layout/build.rs");
    println!("cargo:rerun-if-changed=assets/layout/warm.ld");
    // Other builds are for those who look for faults; theirs is another code.
    if env::var("PROFILE").as_deref() != Ok("release") {
        return;
    }
    let (Some(house), Some(out)) = (env::var_os("CARGO_MANIFEST_DIR"), env::var_os("OUT_DIR")) else { return };
    let list = Path::new(&house).join("assets/layout/warm.ld");
    // What cargo is told is a line of text: a folder whose name is none cannot be said.
    match list.to_str().filter(|_| links(&list, Path::new(&out))) {
        Some(list) => println!("cargo:rustc-link-arg-bin=stalltop=-T\ncargo:rustc-link-arg-bin=stalltop={list}"),
        None => {
            println!("cargo:warning=this linker takes no {}: stalltop will need 2 MiB more, and work as well", list.display())
        }
    }
}

/// GNU ld and lld know linker scripts, mold and others do not: a program of one line says which it is.
fn links(list: &Path, out: &Path) -> bool {
    let (Some(rustc), Some(target)) = (env::var_os("RUSTC"), env::var_os("TARGET")) else { return false };
    let source = out.join("trial.rs");
    if std::fs::write(&source, "fn main() {}\n").is_err() {
        return false;
    }
    let mut trial = Command::new(rustc);
    trial.arg(&source).arg("-o").arg(out.join("trial")).arg("--target").arg(target);
    trial.arg("-Clink-arg=-T").arg(with("-Clink-arg=", list));
    if let Some(linker) = env::var_os("RUSTC_LINKER") {
        trial.arg(with("-Clinker=", Path::new(&linker)));
    }
    if let Ok(flags) = env::var("CARGO_ENCODED_RUSTFLAGS") {
        trial.args(flags.split('\x1f').filter(|flag| !flag.is_empty()));
    }
    trial.stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok_and(|status| status.success())
}

fn with(option: &str, path: &Path) -> OsString {
    let mut word = OsString::from(option);
    word.push(path);
    word
}

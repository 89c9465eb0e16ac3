//! Reads the arguments of a call. A wrong type or value is an error that names the argument.

use std::path::{Path, PathBuf};

use super::program::ToolTarget;
use super::tool::{AllowedTargets, Arguments, ToolError};
use serde_json::Value;

/// Seconds for which a machine is evaluated.
pub const DEFAULT_SECONDS: u64 = 5;
pub const MAX_SECONDS: u64 = 60;

/// A text; `None` if it is missing.
pub fn text<'a>(arguments: &'a Arguments, name: &str) -> Result<Option<&'a str>, ToolError> {
    match arguments.get(name) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text)),
        Some(_) => Err(ToolError::Argument(format!("{name}: not a string"))),
    }
}

/// A text that must be there.
pub fn required<'a>(arguments: &'a Arguments, name: &str) -> Result<&'a str, ToolError> {
    text(arguments, name)?.ok_or_else(|| ToolError::Argument(format!("{name} is missing")))
}

/// A whole number within these bounds, or `default`.
pub fn number(arguments: &Arguments, name: &str, default: u64, (least, most): (u64, u64)) -> Result<u64, ToolError> {
    match arguments.get(name) {
        None | Some(Value::Null) => Ok(default),
        Some(value) => value
            .as_u64()
            .filter(|number| (least..=most).contains(number))
            .ok_or_else(|| ToolError::Argument(format!("{name}: not a whole number from {least} to {most}"))),
    }
}

/// `true` or `false`; `false` if it is missing.
pub fn flag(arguments: &Arguments, name: &str) -> Result<bool, ToolError> {
    match arguments.get(name) {
        None | Some(Value::Null) => Ok(false),
        Some(Value::Bool(value)) => Ok(*value),
        Some(_) => Err(ToolError::Argument(format!("{name}: neither true nor false"))),
    }
}

/// Fails if there is an argument that the tool does not have.
pub fn check_names(arguments: &Arguments, properties: &Value) -> Result<(), ToolError> {
    let known = || properties.as_object().into_iter().flatten().map(|(name, _)| name.as_str());
    match arguments.keys().find(|name| !known().any(|known| known == *name)) {
        None => Ok(()),
        Some(name) => {
            let known: Vec<&str> = known().collect();
            Err(ToolError::Argument(format!("no argument '{name}': the tool has {}", known.join(", "))))
        }
    }
}

/// The machine or recording that the tool reads: `recording`, `host`, or else this machine.
pub fn target(arguments: &Arguments, allowed: &AllowedTargets) -> Result<ToolTarget, ToolError> {
    match (text(arguments, "recording")?, text(arguments, "host")?) {
        (Some(_), Some(_)) => Err(ToolError::Argument("recording and host: give one of them".into())),
        (Some(file), None) => Ok(ToolTarget::Recording(recording(Path::new(file), allowed)?)),
        (None, Some(host)) if allowed.hosts.iter().any(|known| known == host) => Ok(ToolTarget::Host(host.to_owned())),
        (None, Some(host)) => {
            Err(ToolError::Argument(format!("host '{host}' is not allowed: start 'stalltop mcp --host {host}' to allow it")))
        }
        (None, None) => Ok(ToolTarget::ThisMachine),
    }
}

/// A recording in one of the directories; a path without one is looked for in all of them.
pub fn recording(file: &Path, allowed: &AllowedTargets) -> Result<PathBuf, ToolError> {
    let candidates = allowed.directories.iter().filter_map(|directory| {
        let path = directory.join(file).canonicalize().ok()?;
        path.starts_with(directory.canonicalize().ok()?).then_some(path)
    });
    candidates.into_iter().next().ok_or_else(|| {
        let directories: Vec<String> = allowed.directories.iter().map(|directory| directory.display().to_string()).collect();
        ToolError::Argument(format!(
            "no recording '{}' in {}: the tool 'recordings' lists them; 'stalltop mcp --dir DIR' adds a directory",
            file.display(),
            directories.join(", ")
        ))
    })
}

/// `--at` and `--for` of a recording.
pub fn time_options(arguments: &Arguments) -> Result<Vec<String>, ToolError> {
    let mut options = Vec::new();
    for (name, option) in [("at", "--at"), ("for", "--for")] {
        if let Some(time) = text(arguments, name)? {
            options.push(format!("{option}={time}"));
        }
    }
    Ok(options)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn arguments(value: Value) -> Arguments {
        value.as_object().cloned().unwrap()
    }

    #[test]
    fn only_recordings_in_the_given_directories_are_read() {
        let folder = tempfile::tempdir().unwrap();
        let inside = folder.path().join("inside");
        std::fs::create_dir(&inside).unwrap();
        std::fs::write(inside.join("a.stalltop"), "").unwrap();
        std::fs::write(folder.path().join("b.stalltop"), "").unwrap();
        std::os::unix::fs::symlink(folder.path().join("b.stalltop"), inside.join("link.stalltop")).unwrap();
        let allowed = AllowedTargets { directories: vec![inside.clone()], hosts: Vec::new() };
        let target = |file: &str| target(&arguments(json!({ "recording": file })), &allowed);
        assert!(matches!(target("a.stalltop"), Ok(ToolTarget::Recording(_))));
        assert!(matches!(target(inside.join("a.stalltop").to_str().unwrap()), Ok(ToolTarget::Recording(_))));
        for outside in ["../b.stalltop", "link.stalltop", "/etc/passwd", "missing.stalltop"] {
            assert!(matches!(target(outside), Err(ToolError::Argument(_))), "{outside}");
        }
    }

    #[test]
    fn only_hosts_that_the_user_named_are_connected_to() {
        let allowed = AllowedTargets { directories: Vec::new(), hosts: vec!["db1".into()] };
        assert!(matches!(target(&arguments(json!({ "host": "db1" })), &allowed), Ok(ToolTarget::Host(_))));
        assert!(target(&arguments(json!({ "host": "-oProxyCommand=x" })), &allowed).is_err());
        assert!(target(&arguments(json!({ "host": "db1", "recording": "a" })), &allowed).is_err());
        assert!(matches!(target(&arguments(json!({})), &allowed), Ok(ToolTarget::ThisMachine)));
    }

    #[test]
    fn wrong_values_name_the_argument() {
        let error = |value: Value| number(&arguments(value), "seconds", 5, (1, 60)).unwrap_err().to_string();
        assert_eq!(error(json!({ "seconds": 0 })), "seconds: not a whole number from 1 to 60");
        assert_eq!(error(json!({ "seconds": "5" })), "seconds: not a whole number from 1 to 60");
        assert_eq!(number(&arguments(json!({})), "seconds", 5, (1, 60)).unwrap(), 5);
        assert!(flag(&arguments(json!({ "detail": true })), "detail").unwrap());
        let error = flag(&arguments(json!({ "detail": "yes" })), "detail").unwrap_err().to_string();
        assert_eq!(error, "detail: neither true nor false");
    }

    #[test]
    fn an_argument_that_the_tool_does_not_have_is_refused() {
        let properties = json!({ "page": {}, "seconds": {} });
        assert!(check_names(&arguments(json!({ "page": 2 })), &properties).is_ok());
        let error = check_names(&arguments(json!({ "page": 2, "second": 1 })), &properties).unwrap_err().to_string();
        assert_eq!(error, "no argument 'second': the tool has page, seconds");
    }
}

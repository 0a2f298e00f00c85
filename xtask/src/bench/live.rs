//! `cargo xtask bench live`: the daemon in real time against the simulator on the same scenarios, by
//! `crates/cli/benches/live`, which judges and takes the words.

use std::process::{Command, ExitStatus, Stdio};

use anyhow::{Context, Result, bail};

use super::NotJudged;
use crate::workspace::{Workspace, cargo};

/// How a program of ours exits that found the machine too busy to judge.
const NOT_JUDGED: i32 = 3;

/// Runs the command; see the module.
///
/// # Errors
/// When the program can't be built or run, or did not judge.
pub(super) fn run(words: &[String]) -> Result<bool> {
    run_bench("live", words)
}

/// Builds a bench of the command line's package and runs it: it may find the machine too busy.
///
/// # Errors
/// When the program can't be built or run, or did not judge.
pub(super) fn run_bench(name: &str, words: &[String]) -> Result<bool> {
    let workspace = Workspace::load(&std::env::current_dir()?)?;
    let mut command = Command::new(cargo());
    command.current_dir(&workspace.root).args(["bench", "-p", "disktime", "--bench", name]);
    // Cargo exits with 101 whatever the program does, so the program is run apart.
    command.args(["--no-run", "--message-format", "json"]);
    let built = command.stdin(Stdio::null()).stderr(Stdio::inherit()).output();
    let built = built.context("cargo can't be run")?;
    if !built.status.success() {
        bail!("the bench can't be built");
    }
    let program = executable(name, &String::from_utf8_lossy(&built.stdout))
        .with_context(|| format!("cargo names no program of the bench `{name}`"))?;
    let status = Command::new(program).current_dir(&workspace.root).args(words).status();
    judge(status.context("the bench can't be run")?)
}

/// The bench's program in cargo's messages, one a line.
fn executable(name: &str, messages: &str) -> Option<String> {
    messages.lines().find_map(|line| {
        let message: serde_json::Value = serde_json::from_str(line).ok()?;
        let is_ours = message["target"]["name"] == name && message["target"]["kind"][0] == "bench";
        message["executable"].as_str().filter(|_| is_ours).map(str::to_owned)
    })
}

fn judge(status: ExitStatus) -> Result<bool> {
    match status.code() {
        Some(0) => Ok(true),
        Some(NOT_JUDGED) => Err(NotJudged.into()),
        _ => Ok(false),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt as _;

    use super::*;

    /// A comparison with the simulator failed the check whenever the machine was busy.
    #[test]
    fn a_busy_machine_is_neither_a_pass_nor_a_failure() {
        let exited = |code: i32| judge(ExitStatus::from_raw(code << 8));
        assert!(exited(0).is_ok_and(|passed| passed));
        assert!(exited(1).is_ok_and(|passed| !passed));
        assert!(exited(3).is_err_and(|error| error.is::<NotJudged>()));
        assert!(judge(ExitStatus::from_raw(9)).is_ok_and(|passed| !passed), "it was killed");
    }

    #[test]
    fn the_program_is_the_benches_and_no_other_of_its_name() {
        let line = |name: &str, kind: &str, path: &str| {
            format!(
                "{{\"target\":{{\"name\":\"{name}\",\"kind\":[\"{kind}\"]}},\"executable\":\"{path}\"}}\n"
            )
        };
        let messages = [
            "no json\n".to_owned(),
            line("live", "test", "/wrong"),
            line("hostile", "bench", "/wrong"),
            line("live", "bench", "/right"),
        ];
        assert_eq!(executable("live", &messages.concat()).as_deref(), Some("/right"));
    }
}

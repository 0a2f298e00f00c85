//! `disktime manual`: the manual pages and the completions of shells, from the commands themselves.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context;
use clap::Command;
use clap_complete::Shell;

use crate::BadInput;

/// Shells that get completions, in the names that packages give the files.
const SHELLS: &[(Shell, &str)] = &[
    (Shell::Bash, "completions/bash/disktime"),
    (Shell::Fish, "completions/fish/disktime.fish"),
    (Shell::Zsh, "completions/zsh/_disktime"),
];

/// Write the manual pages and the completions of shells, for packages.
#[derive(clap::Args)]
pub struct Arguments {
    /// The directory that gets `man1` and `completions`
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    /// Print the names of the files as one JSON document
    #[arg(long)]
    json: bool,
}

/// Runs `manual`.
pub fn run(Arguments { out, json }: &Arguments, command: Command) -> anyhow::Result<ExitCode> {
    let mut names = Vec::new();
    for (name, bytes) in files(command)? {
        let path = out.join(&name);
        write(&path, &bytes).map_err(|error| {
            BadInput(format!("--out {}: {}: {error}", out.display(), path.display()))
        })?;
        names.push(name);
    }
    if *json {
        println!("{}", serde_json::to_string(&names)?);
    } else {
        println!("{} files in {}", names.len(), out.display());
    }
    Ok(ExitCode::SUCCESS)
}

fn write(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    path.parent().map_or(Ok(()), std::fs::create_dir_all)?;
    std::fs::write(path, bytes)
}

/// Every file by its name, with its bytes.
fn files(mut command: Command) -> anyhow::Result<Vec<(String, Vec<u8>)>> {
    let mut files = Vec::new();
    // Else pages would name a page of `help`, which no package has.
    let mut paged = command.clone().disable_help_subcommand(true);
    for (shell, name) in SHELLS {
        let mut bytes = Vec::new();
        clap_complete::generate(*shell, &mut command, "disktime", &mut bytes);
        files.push(((*name).to_owned(), bytes));
    }
    paged.build();
    pages(&paged, "disktime", &mut files).context("a manual page can't be rendered")?;
    Ok(files)
}

/// The page of a command, and those of its subcommands.
fn pages(command: &Command, name: &str, files: &mut Vec<(String, Vec<u8>)>) -> std::io::Result<()> {
    let mut bytes = Vec::new();
    clap_mangen::Man::new(command.clone()).render(&mut bytes)?;
    files.push((format!("man1/{name}.1"), in_lines(bytes)));
    for below in command.get_subcommands() {
        pages(below, &format!("{name}-{}", below.get_name()), files)?;
    }
    Ok(())
}

/// A page whose examples and configurations keep their lines, which have up to 80 columns: filled, a
/// comment's end became a line that is no TOML.
fn in_lines(page: Vec<u8>) -> Vec<u8> {
    const EXTRA: &str = ".SH EXTRA\n";
    let Ok(text) = std::str::from_utf8(&page) else { return page };
    let Some((before, extra)) = text.split_once(EXTRA) else { return page };
    let (extra, behind) = extra.split_once(".SH ").unwrap_or((extra, ""));
    let next = if behind.is_empty() { "" } else { ".SH " };
    format!("{before}{EXTRA}.nf\n.in 0\n{extra}.fi\n{next}{behind}").into_bytes()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use clap::CommandFactory as _;

    use super::*;

    fn names(command: &Command, name: &str) -> Vec<String> {
        let below = command.get_subcommands().filter(|it| it.get_name() != "help");
        let below = below.flat_map(|it| names(it, &format!("{name}-{}", it.get_name())));
        std::iter::once(name.to_owned()).chain(below).collect()
    }

    #[test]
    fn every_command_has_a_page_and_every_shell_completes_it() {
        let command = crate::Arguments::command();
        let files = files(command.clone()).expect("pages can be rendered");
        let files: BTreeMap<String, String> = files
            .into_iter()
            .map(|(name, bytes)| (name, String::from_utf8(bytes).expect("pages are text")))
            .collect();
        let names = names(&command, "disktime");
        assert!(names.len() > 30, "{names:?}");
        for name in &names {
            let page = &files[&format!("man1/{name}.1")];
            assert!(page.starts_with(".ie"), "{name}: {page:.60}");
            assert!(page.contains(&name.replace('-', "\\-")), "{name} is not named in its page");
            for (at, _) in page.match_indices("(1)") {
                let named = page[..at].rsplit(|it: char| it.is_whitespace()).next();
                let named = named.unwrap_or_default().replace("\\-", "-");
                assert!(names.contains(&named), "{name} names the page of {named}: there is none");
            }
        }
        // Examples were filled and justified as if they were prose.
        let (_, extra) = files["man1/disktime-serve.1"].split_once(".SH EXTRA").expect("examples");
        let lines = extra.split_once(".fi\n").expect("lines end").0;
        assert!(lines.starts_with("\n.nf\n") && lines.contains("A configuration:"), "{lines}");
        assert_eq!(files.len(), names.len() + SHELLS.len());
        for (_, file) in SHELLS {
            for below in command.get_subcommands() {
                assert!(files[*file].contains(below.get_name()), "{file}: {}", below.get_name());
            }
        }
    }
}

//! Commands in the documents are commands that there are: a test parses each line of a block that
//! begins with `disktime`, in README, CONTRIBUTING and in every page of `docs/`.

use std::path::{Path, PathBuf};

use clap::{CommandFactory as _, Parser as _};

use crate::Arguments;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// README, CONTRIBUTING and all pages below `docs/`, with their texts.
fn pages() -> Vec<(String, String)> {
    let mut paths = ["README.md", "CONTRIBUTING.md"].map(|name| root().join(name)).to_vec();
    let mut folders = vec![root().join("docs")];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).expect("docs can be read") {
            let path = entry.expect("docs can be read").path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|it| it == "md") {
                paths.push(path);
            }
        }
    }
    let read = |path: PathBuf| {
        let text = std::fs::read_to_string(&path).expect("a page can be read");
        (path.file_name().expect("a page has a name").to_string_lossy().into_owned(), text)
    };
    paths.into_iter().map(read).collect()
}

/// Lines of fenced blocks, joined where a backslash says that they go on.
fn lines_of_blocks(text: &str) -> Vec<String> {
    let mut fenced = false;
    let mut lines: Vec<String> = Vec::new();
    let mut goes_on = false;
    for line in text.lines() {
        if line.starts_with("```") {
            fenced = !fenced;
        } else if fenced {
            let part = line.trim_end_matches('\\').trim();
            match lines.last_mut().filter(|_| goes_on) {
                Some(last) => *last = format!("{last} {part}"),
                None => lines.push(part.to_owned()),
            }
            goes_on = line.ends_with('\\');
        }
    }
    lines
}

/// The words of a shell's command up to the first operator or comment; quotes are taken off.
fn words(line: &str) -> Vec<String> {
    let (mut words, mut word, mut quote) = (Vec::new(), None::<String>, None);
    for it in line.chars() {
        match (quote, it) {
            (Some(open), it) if it == open => quote = None,
            (None, '\'' | '"') => {
                quote = Some(it);
                word.get_or_insert_default();
            }
            (None, '|' | '&' | ';' | '>' | '<') => break,
            (None, '#') if word.is_none() => break,
            (None, ' ') => words.extend(word.take()),
            (_, it) => word.get_or_insert_default().push(it),
        }
    }
    words.extend(word);
    words
}

/// The command of a line, if it is one of ours.
fn command(line: &str) -> Option<Vec<String>> {
    let line = line.strip_prefix("$ ").unwrap_or(line);
    let line = line.strip_prefix("sudo ").unwrap_or(line);
    let line = line.replacen("cargo run --release -- ", "disktime ", 1);
    line.starts_with("disktime ").then(|| words(&line))
}

#[test]
fn every_command_in_a_block_is_understood() {
    let mut count = 0;
    for (page, text) in pages().iter().filter(|(page, _)| page != "commands.md") {
        for line in lines_of_blocks(text) {
            let Some(words) = command(&line) else { continue };
            count += 1;
            if let Err(error) = Arguments::try_parse_from(&words) {
                assert!(!error.use_stderr(), "{page}: {line}\n{words:?}\n{error}");
            }
        }
    }
    assert!(count > 40, "only {count} commands were found");
}

/// `cargo xtask` of the pages is there, and so are the packages and options of cargo that they name.
#[test]
fn every_cargo_command_in_a_block_is_understood() {
    let main = std::fs::read_to_string(root().join("xtask/src/main.rs")).expect("xtask is there");
    let bench = std::fs::read_to_string(root().join("xtask/src/bench.rs")).expect("xtask is there");
    let is_named = |text: &str, name: &str| text.contains(&format!("name: \"{name}\""));
    let mut count = 0;
    for (page, text) in pages() {
        for line in lines_of_blocks(&text) {
            let line = line.strip_prefix("$ ").unwrap_or(&line).to_owned();
            let words = words(&line);
            let words: Vec<&str> = words.iter().map(String::as_str).collect();
            let known = match &words[..] {
                ["cargo", "xtask", "bench", name, ..] => is_named(&bench, name),
                ["cargo", "xtask", name, ..] => is_named(&main, name),
                ["cargo", command, rest @ ..] => {
                    let package = rest.iter().skip_while(|it| **it != "-p").nth(1);
                    let folder =
                        |name: &&str| name.strip_prefix("disktime-").unwrap_or("cli").to_owned();
                    ["run", "build", "test", "nextest", "doc", "install"].contains(command)
                        && package.is_none_or(|it| root().join("crates").join(folder(it)).is_dir())
                }
                _ => continue,
            };
            assert!(known, "{page}: {line}");
            count += 1;
        }
    }
    assert!(count > 10, "only {count} commands of cargo were found");
}

#[test]
fn every_command_named_in_a_sentence_is_there() {
    let known = Arguments::command();
    let mut count = 0;
    for (page, text) in pages() {
        for span in text.split('`').filter_map(|span| span.strip_prefix("disktime ")) {
            let mut words = span.split_whitespace();
            let Some(first) =
                words.next().filter(|it| it.chars().all(|it| it.is_ascii_lowercase()))
            else {
                continue;
            };
            count += 1;
            let found = known.find_subcommand(first);
            let found = found.unwrap_or_else(|| panic!("{page}: there is no `disktime {first}`"));
            let below = words.next().filter(|it| it.chars().all(|it| it.is_ascii_lowercase()));
            if let Some(below) =
                below.filter(|_| found.get_arguments().all(|it| !it.is_positional()))
            {
                let there = found.find_subcommand(below).is_some();
                assert!(there, "{page}: there is no `disktime {first} {below}`");
            }
        }
    }
    assert!(count > 60, "only {count} commands were found");
}

/// Blocks of TOML with a server and a device are whole configurations.
#[test]
fn every_configuration_in_a_page_is_one() {
    let mut count = 0;
    for (page, text) in pages() {
        for block in text.split("```toml\n").skip(1).filter_map(|rest| rest.split("```").next()) {
            if block.contains("[server]") && block.contains("[[device]]") {
                count += 1;
                if let Err(error) = disktime_server::Config::parse(block) {
                    panic!("{page}: {error}\n{block}");
                }
            }
        }
    }
    assert!(count > 0, "no configuration was found");
}

#[test]
fn lines_are_split_as_a_shell_does() {
    let split = words("disktime plan --iops '20 k' --x=\"a b\" > out # and so on");
    assert_eq!(split, ["disktime", "plan", "--iops", "20 k", "--x=a b"]);
    assert_eq!(lines_of_blocks("```sh\na \\\n  b\nc\n```\nd\n"), ["a b", "c"]);
}

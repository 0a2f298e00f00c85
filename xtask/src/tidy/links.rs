//! Relative links in Markdown lead to files that exist, and a `#heading` of a Markdown file to a heading
//! there. Links into the web are not followed. Commands name test binaries that exist.

use std::collections::BTreeMap;
use std::path::Path;

use crate::finding::{Finding, Report};
use crate::workspace::{TextFile, Workspace};

/// Finds links of every `.md` file whose target is missing, and commands whose test is.
pub(crate) fn run(workspace: &Workspace) -> Report {
    let is_markdown = |file: &&TextFile| file.path.ends_with(".md");
    let broken =
        |file| broken_links(workspace, file).into_iter().chain(missing_tests(workspace, file));
    workspace.texts.iter().filter(is_markdown).flat_map(broken).collect::<Vec<_>>().into()
}

fn broken_links(workspace: &Workspace, file: &TextFile) -> Vec<Finding> {
    let root = &workspace.root;
    let absolute = root.join(&file.path);
    let dir = absolute.parent().unwrap_or(root);
    let leads = |target: &String| {
        leads_somewhere(dir, target) && anchored(workspace, file, target).unwrap_or(true)
    };
    prose_lines(&file.text)
        .flat_map(|(line, text)| targets(&text).into_iter().map(move |target| (line, target)))
        .filter(|(_, target)| !leads(target))
        .map(|(line, target)| Finding::at(&file.path, line, format!("link to nowhere: {target}")))
        .collect()
}

/// Commands like `cargo nextest run -p disktime-sim --test late` without that test.
fn missing_tests(workspace: &Workspace, file: &TextFile) -> Vec<Finding> {
    let lines = file.text.lines().zip(1..);
    let commands = lines.flat_map(|(text, line)| text.split('`').map(move |code| (line, code)));
    let missing = commands.filter_map(|(line, code)| {
        let words: Vec<&str> = code.split_whitespace().collect();
        let after = |option| words.windows(2).filter(move |pair| pair[0] == option).map(|it| it[1]);
        let test = after("--test").next()?;
        let is_there = |package: &str| {
            let folder = package.strip_prefix("disktime-").unwrap_or("cli");
            let tests = workspace.root.join("crates").join(folder).join("tests");
            tests.join(format!("{test}.rs")).exists() || tests.join(test).join("main.rs").exists()
        };
        let packages = || after("-p");
        let gone = packages().next().is_some() && !packages().any(is_there);
        gone.then(|| Finding::at(&file.path, line, format!("no such test: {}", code.trim())))
    });
    missing.collect()
}

/// Lines with their numbers, without fenced blocks and without `code` spans.
fn prose_lines(text: &str) -> impl Iterator<Item = (usize, String)> {
    let mut fenced = false;
    text.lines().enumerate().filter_map(move |(index, line)| {
        let is_fence = line.trim_start().starts_with("```");
        fenced ^= is_fence;
        let prose = || line.split('`').step_by(2).collect::<Vec<_>>().join("`");
        (!fenced && !is_fence).then(|| (index + 1, prose()))
    })
}

/// The targets of `[text](target)` and `[name]: target` in this line.
fn targets(line: &str) -> Vec<String> {
    let inline = line.split("](").skip(1).filter_map(|rest| rest.split([')', ' ']).next());
    let reference = line.strip_prefix('[').and_then(|rest| Some(rest.split_once("]: ")?.1.trim()));
    inline.chain(reference).map(str::to_owned).collect()
}

fn leads_somewhere(dir: &Path, target: &str) -> bool {
    let path = target.split('#').next().unwrap_or_default();
    let is_web = target.contains("://") || target.starts_with("mailto:");
    is_web || path.is_empty() || dir.join(path).exists()
}

/// Whether the heading that a target names is there; none if it names no heading of a Markdown file.
fn anchored(workspace: &Workspace, file: &TextFile, target: &str) -> Option<bool> {
    let (path, anchor) = target.split_once('#').filter(|_| !target.contains("://"))?;
    let path = if path.is_empty() { file.path.clone() } else { joined(&file.path, path) };
    let text = workspace.text(&path).filter(|_| path.ends_with(".md"))?;
    Some(anchors(&text.text).iter().any(|it| it == anchor))
}

/// The path that `target` names from the file at `from`, relative to the root.
fn joined(from: &str, target: &str) -> String {
    let mut parts: Vec<&str> = from.split('/').collect();
    parts.pop();
    for part in target.split('/') {
        match part {
            "." => {}
            ".." => {
                parts.pop();
            }
            part => parts.push(part),
        }
    }
    parts.join("/")
}

/// The anchors of a file's headings, as code hosts form them: lower case, spaces to hyphens, other marks
/// left out, and a number behind one that occurs again.
fn anchors(text: &str) -> Vec<String> {
    let mut seen: BTreeMap<String, usize> = BTreeMap::new();
    let headings = prose_headings(text);
    let anchor = |heading: &str| {
        let kept = |it: &char| it.is_alphanumeric() || matches!(it, ' ' | '-' | '_');
        let lower = heading.trim().to_lowercase();
        lower.chars().filter(kept).collect::<String>().replace(' ', "-")
    };
    let numbered = headings.map(|heading| {
        let anchor = anchor(heading);
        let count = seen.entry(anchor.clone()).and_modify(|count| *count += 1).or_insert(0);
        if *count == 0 { anchor } else { format!("{anchor}-{count}") }
    });
    numbered.collect()
}

/// The headings of a file, without their marks; fenced blocks have none.
fn prose_headings(text: &str) -> impl Iterator<Item = &str> {
    let mut fenced = false;
    text.lines().filter_map(move |line| {
        fenced ^= line.trim_start().starts_with("```");
        let heading = line.trim_start_matches('#');
        (!fenced && heading.len() < line.len() && heading.starts_with(' ')).then_some(heading)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::{failures, manifest};

    #[test]
    fn links_to_nowhere_are_found_from_where_they_stand() {
        let text = "[a](../b.md) and [c](c.md#part)\n\n[ref]: gone/\n";
        assert_eq!(
            failures(run, &[("docs/a.md", text), ("b.md", "[up](docs/a.md)")]),
            ["docs/a.md:1: link to nowhere: c.md", "docs/a.md:3: link to nowhere: gone/"]
                .map(|it| it.replace("c.md", "c.md#part"))
        );
    }

    #[test]
    fn headings_that_are_not_there_are_found() {
        let a = "# One, two: `three`\n## Same\n## Same\n```\n# code\n```\n[x](#one-two-three) [y](#code)\n";
        let b =
            "[x](a.md#same-1) [y](./a.md#same-2) [z](../docs/a.md#same) [c](../include/c.h#L1)\n";
        let files = [("docs/a.md", a), ("docs/b.md", b), ("include/c.h", "")];
        let expected =
            ["docs/a.md:7: link to nowhere: #code", "docs/b.md:1: link to nowhere: ./a.md#same-2"];
        assert_eq!(failures(run, &files), expected);
    }

    /// A page told to repeat its table with a test of another crate.
    #[test]
    fn commands_of_tests_that_are_not_there_are_found() {
        let text = "`cargo nextest run -p disktime-sim --test late` and `--test gone`\n\n\
                    cargo test -p disktime -p disktime-nbd --test e2e -- --nocapture\n\
                    (`cargo nextest run -p disktime-papers --test late --no-capture`)\n";
        let crates = ["cli", "papers", "sim"].map(|name| (name, manifest(name, "")));
        let paths = crates.each_ref().map(|(name, _)| {
            [format!("crates/{name}/Cargo.toml"), format!("crates/{name}/src/lib.rs")]
        });
        let mut files = vec![("a.md", text), ("crates/sim/tests/late.rs", "")];
        files.push(("crates/cli/tests/e2e/main.rs", "fn main() {}"));
        for ((_, manifest), [path, lib]) in crates.iter().zip(&paths) {
            files.extend([(path.as_str(), manifest.as_str()), (lib.as_str(), "")]);
        }
        let command = "cargo nextest run -p disktime-papers --test late --no-capture";
        let expected = [format!("a.md:4: no such test: {command}")];
        assert_eq!(failures(run, &files), expected);
    }

    #[test]
    fn the_web_headings_and_code_are_left_alone() {
        let text =
            "# Part\n[w](https://e.org/x#y) [h](#part) `[x](y)`\n```\n[x](y)\n```\n[d](docs)\n";
        assert_eq!(failures(run, &[("a.md", text), ("docs/b.md", "")]), Vec::<String>::new());
    }
}

//! Relative links in Markdown lead to files that exist. Links into the web are not followed, and a
//! `#heading` is not looked for.

use std::path::Path;

use crate::finding::{Finding, Report};
use crate::workspace::{TextFile, Workspace};

/// Finds links of every `.md` file whose target is missing.
pub(crate) fn run(workspace: &Workspace) -> Report {
    let is_markdown = |file: &&TextFile| file.path.ends_with(".md");
    let broken = |file| broken_links(&workspace.root, file);
    workspace.texts.iter().filter(is_markdown).flat_map(broken).collect::<Vec<_>>().into()
}

fn broken_links(root: &Path, file: &TextFile) -> Vec<Finding> {
    let absolute = root.join(&file.path);
    let dir = absolute.parent().unwrap_or(root);
    prose_lines(&file.text)
        .flat_map(|(line, text)| targets(&text).into_iter().map(move |target| (line, target)))
        .filter(|(_, target)| !leads_somewhere(dir, target))
        .map(|(line, target)| Finding::at(&file.path, line, format!("link to nowhere: {target}")))
        .collect()
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::failures;

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
    fn the_web_headings_and_code_are_left_alone() {
        let text = "[w](https://example.com/x) [h](#part) `[x](y)`\n```\n[x](y)\n```\n[d](docs)\n";
        assert_eq!(failures(run, &[("a.md", text), ("docs/b.md", "")]), Vec::<String>::new());
    }
}

//! Names that a configuration or an option may say, each with a line about it: from the registries
//! themselves, so that help and configurations never differ.

use std::fmt::Write;

use disktime_core::cost::{self, CostEntry};
use disktime_core::feedback::{self, FeedbackEntry};
use disktime_core::policy::{self, PolicyEntry};

use crate::terminal::{self, COLUMNS};

/// A name, what it stands for, and where that comes from.
type Row = [&'static str; 3];

/// Every policy, those that need `experimental = true` apart.
pub fn policies() -> String {
    let rows = |entries: &'static [PolicyEntry]| {
        entries.iter().map(|entry| [entry.name, entry.doc, entry.source])
    };
    let (own, tried) = (rows(policy::REGISTRY), rows(disktime_rivals::REGISTRY));
    list("Policies", own) + "\n" + &list("Policies, in a daemon with experimental = true", tried)
}

/// Every name of a registry that a configuration may say.
pub fn names() -> String {
    let costs = cost::REGISTRY.iter();
    let costs = costs.map(|CostEntry { name, doc, source, .. }| [*name, *doc, *source]);
    let rows = |entries: &'static [&FeedbackEntry]| {
        entries.iter().map(|entry| [entry.name, entry.doc, entry.source])
    };
    let costs = list("Cost models", costs);
    let controllers = list("Feedback", rows(feedback::REGISTRY));
    let tried = rows(disktime_rivals::CONTROLLERS);
    let tried = list("Feedback, in a daemon with experimental = true", tried);
    format!("{}\n{costs}\n{controllers}\n{tried}", policies())
}

fn list(title: &str, rows: impl Iterator<Item = Row>) -> String {
    let mut text = format!("{title}:\n");
    for [name, doc, source] in rows {
        let source = if source == "-" { String::new() } else { format!(" ({source})") };
        let about = terminal::wrapped(&format!("{doc}{source}"), COLUMNS - 18);
        let _infallible = writeln!(text, "  {name:<15} {}", about.join(&format!("\n{:18}", "")));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each registry had a line and a source for every name, and nothing ever showed them.
    #[test]
    fn help_says_what_each_name_of_a_configuration_stands_for() {
        // Lines are wrapped: texts are compared without their breaks.
        let flat = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
        let text = names();
        let all = flat(&text);
        for PolicyEntry { name, doc, source, .. } in disktime_rivals::all() {
            let found = text.lines().any(|line| line.split(' ').nth(2) == Some(name));
            assert!(found, "{name} is not listed");
            let said = flat(&format!("{name} {doc} ({source})"));
            assert!(all.contains(&said), "{said}");
        }
        let others = cost::REGISTRY.iter().map(|entry| entry.doc);
        let others = others.chain(disktime_rivals::controllers().map(|entry| entry.doc));
        others.for_each(|doc| assert!(all.contains(&flat(doc)), "{doc}"));
    }
}

//! A graph of named modules: its knots, and a circle in each.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Arrows by where they begin and end, each with the place where it was seen first.
#[derive(Debug, Default)]
pub(super) struct Graph(BTreeMap<String, BTreeMap<String, String>>);

impl Graph {
    pub(super) fn add(&mut self, from: &str, to: &str, place: impl FnOnce() -> String) {
        if from != to {
            let arrows = self.0.entry(from.to_owned()).or_default();
            arrows.entry(to.to_owned()).or_insert_with(place);
        }
    }

    /// Every arrow: where it begins, where it ends, and where it was seen first.
    pub(super) fn arrows(&self) -> impl Iterator<Item = (&str, &str, &str)> {
        self.0.iter().flat_map(|(from, arrows)| {
            arrows.iter().map(|(to, place)| (from.as_str(), to.as_str(), place.as_str()))
        })
    }

    fn next<'a>(&'a self, from: &str) -> impl Iterator<Item = &'a str> {
        self.0.get(from).into_iter().flat_map(|arrows| arrows.keys().map(String::as_str))
    }

    /// The modules that can be reached from here, this itself only if it lies on a circle.
    fn reach(&self, from: &str) -> BTreeSet<&str> {
        let (mut found, mut new) = (BTreeSet::new(), self.next(from).collect::<Vec<_>>());
        while let Some(module) = new.pop() {
            if found.insert(module) {
                new.extend(self.next(module));
            }
        }
        found
    }

    /// The sets of modules of which each reaches each.
    pub(super) fn knots(&self) -> Vec<Vec<String>> {
        let reach: BTreeMap<&str, BTreeSet<&str>> =
            self.0.keys().map(|from| (from.as_str(), self.reach(from))).collect();
        let (mut knots, mut tied) = (Vec::new(), BTreeSet::new());
        for (from, reached) in &reach {
            let back = |to: &&str| reach.get(to).is_some_and(|its| its.contains(from));
            if reached.contains(from) && !tied.contains(from) {
                let knot: Vec<&str> = reached.iter().copied().filter(back).collect();
                tied.extend(knot.iter().copied());
                knots.push(knot.into_iter().map(str::to_owned).collect());
            }
        }
        knots
    }

    /// The shortest circle through the first module of a knot, and where each names the next.
    pub(super) fn circle(&self, knot: &[String]) -> Vec<(String, String)> {
        let Some(first) = knot.first() else { return Vec::new() };
        let mut before: BTreeMap<&str, &str> = BTreeMap::new();
        let mut new = VecDeque::from([first.as_str()]);
        while let Some(module) = new.pop_front() {
            for next in self.next(module).filter(|next| knot.iter().any(|it| it == next)) {
                if !before.contains_key(next) {
                    before.insert(next, module);
                    new.push_back(next);
                }
            }
        }
        let (mut circle, mut to) = (Vec::new(), first.as_str());
        while let Some(from) = before.get(to) {
            circle.push(((*from).to_owned(), self.0[*from][to].clone()));
            to = from;
            if to == first {
                break;
            }
        }
        circle.reverse();
        circle
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn knots_are_what_reaches_itself_and_circles_lie_in_them() {
        let mut graph = Graph::default();
        for (from, to) in
            ["ab", "bc", "ca", "cd", "de", "ed", "xf", "aa", "ae"].map(|it| it.split_at(1))
        {
            graph.add(from, to, || format!("{from}{to}"));
        }
        assert_eq!(graph.knots(), [vec!["a", "b", "c"], vec!["d", "e"]]);
        let circle: Vec<_> =
            graph.circle(&graph.knots()[0]).into_iter().map(|(_, place)| place).collect();
        assert_eq!(circle, ["ab", "bc", "ca"]);
    }
}

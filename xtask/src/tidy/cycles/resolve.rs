//! Where a path leads: to which modules of its own crate.

use std::collections::{BTreeMap, BTreeSet};

use crate::source::{RustFile, Scope};

type Module = Vec<String>;

/// `use` may lead to `use`; a circle of them ends here.
const STEPS_MAX: usize = 16;

/// The modules of a crate, inline ones too.
pub(super) struct Crate<'a> {
    scopes: BTreeMap<Module, &'a Scope>,
    /// Modules that are files.
    files: BTreeSet<Module>,
}

/// A path's way so far.
struct Way {
    at: Module,
    visited: Vec<Module>,
}

impl<'a> Crate<'a> {
    pub(super) fn new(modules: &BTreeMap<Module, &'a RustFile>) -> Self {
        let scopes = modules.iter().flat_map(|(path, file)| {
            let inside = |inside: &Module| [path.as_slice(), inside].concat();
            file.scopes.iter().map(move |(it, scope)| (inside(it), scope))
        });
        Self { scopes: scopes.collect(), files: modules.keys().cloned().collect() }
    }

    /// The files' modules that a path in the module `place` goes through and ends in; none if it leads out
    /// of the crate or to what a function has of its own.
    pub(super) fn visits(&self, place: &Module, path: &[String]) -> Vec<Module> {
        let visited =
            self.follow(place, path, STEPS_MAX).map(|way| way.visited).unwrap_or_default();
        visited.into_iter().map(|module| self.file(module)).collect()
    }

    /// The module of the file that holds it.
    fn file(&self, mut module: Module) -> Module {
        while !self.files.contains(&module) && module.pop().is_some() {}
        module
    }

    fn follow(&self, place: &Module, path: &[String], steps: usize) -> Option<Way> {
        let steps = steps.checked_sub(1)?;
        let (first, mut rest) = path.split_first()?;
        let mut way = Way { at: place.clone(), visited: Vec::new() };
        match first.as_str() {
            "crate" | "$crate" => way.at = Module::new(),
            "self" => {}
            "super" => {
                way.at.pop()?;
                while let Some((_, after)) = rest.split_first().filter(|(name, _)| *name == "super")
                {
                    way.at.pop()?;
                    rest = after;
                }
            }
            // The first name must be known here: else it is another crate's, or a type's.
            name => {
                self.step(&mut way, name, steps)?;
            }
        }
        way.visited.push(way.at.clone());
        for name in rest {
            if self.step(&mut way, name, steps).is_none() {
                break;
            }
            way.visited.push(way.at.clone());
        }
        Some(way)
    }

    /// Goes on by one name, if it is a module's or an import's; stays at what is defined here.
    fn step(&self, way: &mut Way, name: &str, steps: usize) -> Option<()> {
        let child = [way.at.as_slice(), &[name.to_owned()]].concat();
        if self.scopes.contains_key(&child) {
            way.at = child;
            return Some(());
        }
        let scope = self.scopes.get(&way.at)?;
        if scope.items.contains(name) {
            return None;
        }
        if let Some(import) = scope.imports.get(name) {
            // `use name::…` names a child or another crate, not itself.
            let import = self.follow(&way.at, import, steps)?;
            way.visited.extend(import.visited);
            way.at = import.at;
            return Some(());
        }
        for glob in &scope.globs {
            let Some(mut there) = self.follow(&way.at, glob, steps) else { continue };
            if self.knows(&mut there, name, steps) {
                way.visited.extend(there.visited);
                way.at = there.at;
                return Some(());
            }
        }
        None
    }

    /// Whether a name can be had at the end of this way, which then leads to it.
    fn knows(&self, way: &mut Way, name: &str, steps: usize) -> bool {
        let defined = self.scopes.get(&way.at).is_some_and(|it| it.items.contains(name));
        way.visited.push(way.at.clone());
        steps > 0 && (defined || self.step(way, name, steps - 1).is_some())
    }
}

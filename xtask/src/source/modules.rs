//! Which file is which module, and which files are compiled for tests only: those declared by
//! `#[cfg(test)] mod name;`, and theirs.

use std::collections::{BTreeMap, BTreeSet};

use super::RustFile;

/// A declaration `mod name;` whose content is in another file.
#[derive(Debug)]
pub(super) struct ModDecl {
    /// The inline modules that it stands in, outermost first.
    pub(super) inside: Vec<String>,
    pub(super) name: String,
    /// The value of `#[path]`.
    pub(super) path: Option<String>,
    pub(super) test_only: bool,
}

/// The paths of the files among `files` that no other build than a test build compiles.
pub(crate) fn test_files(files: &[RustFile]) -> BTreeSet<String> {
    let known: BTreeMap<&str, &RustFile> = files.iter().map(|it| (it.path.as_str(), it)).collect();
    let mut found: BTreeSet<String> = files
        .iter()
        .filter(|file| is_in_tests_dir(&file.path))
        .map(|file| file.path.clone())
        .collect();
    // Each round adds at least one file or ends the search.
    loop {
        let size = found.len();
        for file in files {
            let whole = found.contains(&file.path);
            let children = file.modules.iter().filter(|it| whole || it.test_only);
            found.extend(children.filter_map(|it| locate(file, it, &known)));
        }
        if found.len() == size {
            return found;
        }
    }
}

/// The files of the crate whose root is the file `root`, by the module's path, without those of tests.
pub(crate) fn module_files<'a>(
    files: &'a [RustFile],
    root: &'a RustFile,
) -> BTreeMap<Vec<String>, &'a RustFile> {
    let known: BTreeMap<&str, &RustFile> = files.iter().map(|it| (it.path.as_str(), it)).collect();
    let (mut found, mut new) = (BTreeMap::new(), vec![(Vec::new(), root)]);
    while let Some((path, file)) = new.pop() {
        for decl in file.modules.iter().filter(|it| !it.test_only) {
            let child = locate(file, decl, &known).and_then(|path| known.get(path.as_str()));
            let path = [path.as_slice(), &decl.inside, std::slice::from_ref(&decl.name)].concat();
            new.extend(child.map(|child| (path, *child)));
        }
        found.insert(path, file);
    }
    found
}

/// A package's integration tests live in `tests/` beside its `src/`.
fn is_in_tests_dir(path: &str) -> bool {
    !path.contains("/src/") && path.split('/').rev().skip(1).any(|part| part == "tests")
}

fn locate(file: &RustFile, decl: &ModDecl, known: &BTreeMap<&str, &RustFile>) -> Option<String> {
    let (parent, name) = file.path.rsplit_once('/')?;
    let stem = name.strip_suffix(".rs")?;
    let owns_dir = matches!(stem, "lib" | "main" | "mod") || is_root_of_target(parent);
    let mut dir = if owns_dir { parent.to_owned() } else { format!("{parent}/{stem}") };
    for module in &decl.inside {
        dir = format!("{dir}/{module}");
    }
    let candidates = match &decl.path {
        Some(path) => vec![format!("{parent}/{path}")],
        None => vec![format!("{dir}/{}.rs", decl.name), format!("{dir}/{}/mod.rs", decl.name)],
    };
    candidates.into_iter().find(|path| known.contains_key(path.as_str()))
}

/// Every file directly in these directories is a program of its own.
fn is_root_of_target(dir: &str) -> bool {
    !dir.contains("/src/") && ["tests", "benches", "examples"].iter().any(|it| dir.ends_with(it))
        || dir.ends_with("/src/bin")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(files: &[(&str, &str)]) -> Vec<String> {
        let parse = |&(path, text): &(&str, &str)| RustFile::parse(path, text).ok();
        let files: Vec<RustFile> = files.iter().filter_map(parse).collect();
        test_files(&files).into_iter().collect()
    }

    #[test]
    fn test_modules_are_followed_into_their_files() {
        let files = [
            ("c/src/lib.rs", "mod a; #[cfg(test)] mod tests; #[cfg(test)] mod x { mod y; }"),
            ("c/src/a.rs", "#[cfg(test)] mod tests;"),
            ("c/src/a/tests.rs", ""),
            ("c/src/tests.rs", "mod deeper;"),
            ("c/src/tests/deeper.rs", ""),
            ("c/src/x/y.rs", ""),
            ("c/tests/e2e.rs", ""),
            ("c/tests/e2e/parts.rs", ""),
        ];
        assert_eq!(
            found(&files),
            [
                "c/src/a/tests.rs",
                "c/src/tests.rs",
                "c/src/tests/deeper.rs",
                "c/src/x/y.rs",
                "c/tests/e2e.rs",
                "c/tests/e2e/parts.rs",
            ]
        );
    }

    #[test]
    fn a_path_attribute_is_followed() {
        let files =
            [("c/src/lib.rs", "#[cfg(test)] #[path = \"odd.rs\"] mod t;"), ("c/src/odd.rs", "")];
        assert_eq!(found(&files), ["c/src/odd.rs"]);
    }

    #[test]
    fn modules_of_the_product_are_not_tests() {
        let files = [("c/src/lib.rs", "mod tests;"), ("c/src/tests.rs", "")];
        assert_eq!(found(&files), Vec::<String>::new());
    }
}

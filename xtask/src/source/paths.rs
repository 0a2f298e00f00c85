//! Names and paths in a file's product code: for each of its modules (the file itself and inline
//! ones) the names that it defines and imports, and every path with at least two segments.
//!
//! Does not know what a path leads to: `tidy::cycles` does.

use std::collections::{BTreeMap, BTreeSet};

use proc_macro2::{TokenStream, TokenTree};
use syn::spanned::Spanned as _;
use syn::visit::{self, Visit};
use syn::{Attribute, Item, UseTree};

use super::{is_test_attribute, item_attributes};

/// A path as written, its segments, and its line.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct PathUse {
    pub(crate) segments: Vec<String>,
    pub(crate) line: usize,
}

/// The contents of one module of a file.
#[derive(Debug, Default)]
pub(crate) struct Scope {
    /// Names of what is defined here.
    pub(crate) items: BTreeSet<String>,
    /// By the name that `use` gives: the path.
    pub(crate) imports: BTreeMap<String, Vec<String>>,
    /// Paths before `::*`.
    pub(crate) globs: Vec<Vec<String>>,
    /// Every path, those of `use` too.
    pub(crate) paths: Vec<PathUse>,
    /// The paths of `pub use`.
    pub(crate) exports: Vec<PathUse>,
}

/// Scopes by the inline modules that lead to them; the file's own is at the empty path.
pub(crate) type Scopes = BTreeMap<Vec<String>, Scope>;

/// Reads them off a file's syntax tree, without what is compiled for tests only.
pub(super) fn scopes(file: &syn::File) -> Scopes {
    let mut reader = Reader::default();
    if !file.attrs.iter().any(is_test_attribute) {
        reader.scopes.entry(Vec::new()).or_default();
        reader.visit_file(file);
    }
    reader.scopes
}

#[derive(Default)]
struct Reader {
    scopes: Scopes,
    inside: Vec<String>,
    /// How many function bodies are around the place being visited.
    bodies: u32,
}

impl Reader {
    fn scope(&mut self) -> &mut Scope {
        self.scopes.entry(self.inside.clone()).or_default()
    }

    fn note(&mut self, segments: Vec<String>, line: usize) {
        if segments.len() > 1 {
            self.scope().paths.push(PathUse { segments, line });
        }
    }

    fn note_use(&mut self, tree: &UseTree, before: &[String], public: bool) {
        let line = tree.span().start().line;
        let with = |name: &syn::Ident| [before, &[name.to_string()]].concat();
        match tree {
            UseTree::Path(it) => self.note_use(&it.tree, &with(&it.ident), public),
            UseTree::Group(it) => {
                it.items.iter().for_each(|item| self.note_use(item, before, public));
            }
            UseTree::Name(it) if it.ident == "self" => {
                let name = before.last().cloned().unwrap_or_default();
                self.import(name, before.to_vec(), line, public);
            }
            UseTree::Name(it) => self.import(it.ident.to_string(), with(&it.ident), line, public),
            UseTree::Rename(it) if it.ident == "self" => {
                self.import(it.rename.to_string(), before.to_vec(), line, public);
            }
            UseTree::Rename(it) => {
                self.import(it.rename.to_string(), with(&it.ident), line, public);
            }
            UseTree::Glob(_) => {
                self.scope().globs.push(before.to_vec());
                self.leads(before.to_vec(), line, public);
            }
        }
    }

    fn import(&mut self, name: String, path: Vec<String>, line: usize, public: bool) {
        self.scope().imports.insert(name, path.clone());
        self.leads(path, line, public);
    }

    /// A `use` leads here, also with one segment: `use crate as it`, `pub use sibling`.
    fn leads(&mut self, segments: Vec<String>, line: usize, public: bool) {
        let path = PathUse { segments, line };
        if public {
            self.scope().exports.push(path.clone());
        }
        self.scope().paths.push(path);
    }

    /// Paths in a macro's arguments, which the syntax tree keeps as tokens.
    fn note_tokens(&mut self, stream: TokenStream) {
        let (mut segments, mut line, mut colons) = (Vec::new(), 0, 0);
        for tree in stream {
            match &tree {
                TokenTree::Punct(punct) if punct.as_char() == ':' => colons += 1,
                TokenTree::Ident(ident) => {
                    if colons != 2 || segments.is_empty() {
                        self.note(std::mem::take(&mut segments), line);
                        line = ident.span().start().line;
                    }
                    segments.push(ident.to_string());
                    colons = 0;
                }
                _ => {
                    self.note(std::mem::take(&mut segments), line);
                    colons = 0;
                }
            }
            if let TokenTree::Group(group) = tree {
                self.note_tokens(group.stream());
            }
        }
        self.note(segments, line);
    }
}

/// The name of what an item defines; `use` and `impl` define none.
fn defines(item: &Item) -> Option<&syn::Ident> {
    match item {
        Item::Const(it) => Some(&it.ident),
        Item::Enum(it) => Some(&it.ident),
        Item::Fn(it) => Some(&it.sig.ident),
        Item::Macro(it) => it.ident.as_ref(),
        Item::Static(it) => Some(&it.ident),
        Item::Struct(it) => Some(&it.ident),
        Item::Trait(it) => Some(&it.ident),
        Item::Type(it) => Some(&it.ident),
        Item::Union(it) => Some(&it.ident),
        _ => None,
    }
}

impl<'ast> Visit<'ast> for Reader {
    fn visit_item(&mut self, item: &'ast Item) {
        if item_attributes(item).iter().any(is_test_attribute) {
            return;
        }
        if let (Some(name), 0) = (defines(item), self.bodies) {
            self.scope().items.insert(name.to_string());
        }
        visit::visit_item(self, item);
    }

    fn visit_item_mod(&mut self, module: &'ast syn::ItemMod) {
        if module.content.is_some() {
            self.inside.push(module.ident.to_string());
            self.scope();
            visit::visit_item_mod(self, module);
            self.inside.pop();
        }
    }

    fn visit_item_use(&mut self, it: &'ast syn::ItemUse) {
        let public = matches!(it.vis, syn::Visibility::Public(_));
        self.note_use(&it.tree, &[], public);
    }

    fn visit_impl_item_fn(&mut self, function: &'ast syn::ImplItemFn) {
        if !function.attrs.iter().any(is_test_attribute) {
            visit::visit_impl_item_fn(self, function);
        }
    }

    fn visit_block(&mut self, block: &'ast syn::Block) {
        self.bodies += 1;
        visit::visit_block(self, block);
        self.bodies -= 1;
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        let segments = path.segments.iter().map(|it| it.ident.to_string()).collect();
        self.note(segments, path.span().start().line);
        visit::visit_path(self, path);
    }

    fn visit_macro(&mut self, it: &'ast syn::Macro) {
        self.visit_path(&it.path);
        self.note_tokens(it.tokens.clone());
    }

    /// `pub(in crate::place)` and attributes use nothing.
    fn visit_visibility(&mut self, _: &'ast syn::Visibility) {}

    fn visit_attribute(&mut self, _: &'ast Attribute) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Scopes {
        scopes(&syn::parse_file(text).expect("the text is Rust"))
    }

    fn paths(scope: &Scope) -> Vec<String> {
        scope.paths.iter().map(|it| it.segments.join("::")).collect()
    }

    #[test]
    fn paths_are_seen_in_uses_types_expressions_patterns_and_macros() {
        let scopes = read(
            "use crate::a::{self, b::C, d as e};\nuse super::x::*;\n\
             fn f(t: crate::t::T) -> self::r::R<crate::g::G> { match crate::e::f() { crate::p::P => {} }\n\
             assert!(vec![crate::m::M { n: 1 }] == crate::v::V); }\n\
             #[cfg(test)] mod tests { use crate::hidden::H; }",
        );
        assert_eq!(
            paths(&scopes[&Vec::new()]),
            [
                "crate::a",
                "crate::a::b::C",
                "crate::a::d",
                "super::x",
                "crate::t::T",
                "self::r::R",
                "crate::g::G",
                "crate::e::f",
                "crate::p::P",
                "crate::m::M",
                "crate::v::V"
            ]
        );
        assert_eq!(scopes.len(), 1, "tests are left out");
    }

    #[test]
    fn names_belong_to_the_module_that_they_stand_in() {
        let scopes = read("pub use a::B; struct C; mod inner { use super::C as D; fn f() {} }");
        let [own, inner] = [&scopes[&Vec::new()], &scopes[&vec!["inner".to_owned()]]];
        assert_eq!(own.exports[0].segments, ["a", "B"]);
        assert!(own.items.contains("C") && own.imports.contains_key("B"));
        assert_eq!(inner.imports["D"], ["super", "C"]);
        assert!(inner.items.contains("f") && inner.exports.is_empty());
    }
}

//! A Rust file as the gates see it: its tokens with their places, what of it is compiled for tests
//! only, its functions and its modules.
//!
//! Gates look at tokens, so that what stands in a macro's arguments is seen too and what stands in
//! a comment or a string is not. The syntax tree says where items begin and end.

mod modules;
mod paths;
pub(crate) mod prose;

pub(crate) use modules::{module_files, test_files};
pub(crate) use paths::{Scope, Scopes};

use std::ops::Range;

use proc_macro2::{Delimiter, LineColumn, Span, TokenStream, TokenTree};
use syn::spanned::Spanned as _;
use syn::visit::{self, Visit};
use syn::{Attribute, Item, Meta};

use crate::finding::Finding;
use modules::ModDecl;

/// A parsed file.
pub(crate) struct RustFile {
    pub(crate) path: String,
    pub(crate) text: String,
    pub(crate) tokens: Vec<Token>,
    pub(crate) functions: Vec<Function>,
    /// The structs of its product code.
    pub(crate) structs: Vec<Struct>,
    /// Attributes of the file itself, as `forbid(unsafe_code)`, without spaces.
    pub(crate) inner_attributes: Vec<String>,
    /// Names and paths in its product code.
    pub(crate) scopes: Scopes,
    modules: Vec<ModDecl>,
    test_spans: Vec<Range<LineColumn>>,
}

/// A token; groups are flattened into their opening, content and closing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Token {
    pub(crate) kind: TokenKind,
    pub(crate) at: LineColumn,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum TokenKind {
    Ident(String),
    Float(String),
    Punct(char),
    Open(char),
    Close(char),
    /// Any other literal.
    Literal,
}

/// A function, method or default method of a trait.
#[derive(Debug)]
pub(crate) struct Function {
    pub(crate) name: String,
    pub(crate) span: Range<LineColumn>,
}

/// A struct and the number of its fields.
#[derive(Debug, Clone)]
pub(crate) struct Struct {
    pub(crate) name: String,
    pub(crate) line: usize,
    pub(crate) fields: usize,
}

impl RustFile {
    /// Parses `text`.
    ///
    /// # Errors
    /// A finding that says where `text` is not Rust.
    pub(crate) fn parse(path: &str, text: &str) -> Result<Self, Finding> {
        let refuse = |error: syn::Error| {
            Finding::at(path, error.span().start().line, format!("does not parse: {error}"))
        };
        let stream: TokenStream = text.parse().map_err(|error| refuse(syn::Error::from(error)))?;
        let mut tokens = Vec::new();
        flatten(stream.clone(), &mut tokens);
        let syntax: syn::File = syn::parse2(stream).map_err(refuse)?;
        let mut outline = Outline::default();
        outline.visit_file(&syntax);
        if syntax.attrs.iter().any(is_test_attribute) {
            outline.test_spans.push(LineColumn { line: 0, column: 0 }..END);
        }
        Ok(Self {
            path: path.to_owned(),
            text: text.to_owned(),
            tokens,
            functions: outline.functions,
            structs: outline.structs,
            inner_attributes: syntax.attrs.iter().map(|it| spaceless(&it.meta)).collect(),
            scopes: paths::scopes(&syntax),
            modules: outline.modules,
            test_spans: outline.test_spans,
        })
    }

    /// Whether `at` lies in an item under `#[cfg(test)]` or `#[test]`.
    pub(crate) fn is_test(&self, at: LineColumn) -> bool {
        self.test_spans.iter().any(|span| span.contains(&at))
    }

    /// The token `back` places before the one at `index`.
    pub(crate) fn before(&self, index: usize, back: usize) -> Option<&TokenKind> {
        Some(&self.tokens.get(index.checked_sub(back)?)?.kind)
    }

    /// The token after the one at `index`.
    pub(crate) fn after(&self, index: usize) -> Option<&TokenKind> {
        Some(&self.tokens.get(index + 1)?.kind)
    }
}

const END: LineColumn = LineColumn { line: usize::MAX, column: 0 };

fn flatten(stream: TokenStream, out: &mut Vec<Token>) {
    for tree in stream {
        let at = tree.span().start();
        let kind = match tree {
            TokenTree::Group(group) => {
                let (open, close) = brackets(group.delimiter());
                out.push(Token { kind: TokenKind::Open(open), at });
                flatten(group.stream(), out);
                out.push(Token { kind: TokenKind::Close(close), at: group.span_close().start() });
                continue;
            }
            TokenTree::Ident(ident) => TokenKind::Ident(ident.to_string()),
            TokenTree::Punct(punct) => TokenKind::Punct(punct.as_char()),
            TokenTree::Literal(literal) => {
                let text = literal.to_string();
                match syn::Lit::new(literal) {
                    syn::Lit::Float(_) => TokenKind::Float(text),
                    _ => TokenKind::Literal,
                }
            }
        };
        out.push(Token { kind, at });
    }
}

fn brackets(delimiter: Delimiter) -> (char, char) {
    match delimiter {
        Delimiter::Brace => ('{', '}'),
        Delimiter::Bracket => ('[', ']'),
        Delimiter::Parenthesis | Delimiter::None => ('(', ')'),
    }
}

/// Collects what [`RustFile`] keeps of the syntax tree.
#[derive(Default)]
struct Outline {
    functions: Vec<Function>,
    structs: Vec<Struct>,
    modules: Vec<ModDecl>,
    test_spans: Vec<Range<LineColumn>>,
    /// Names of the inline modules around the place being visited.
    inside: Vec<String>,
}

impl Outline {
    fn note_test(&mut self, attributes: &[Attribute], span: Span) {
        if attributes.iter().any(is_test_attribute) {
            self.test_spans.push(range(span));
        }
    }

    fn note_function(&mut self, signature: &syn::Signature, body: &syn::Block) {
        let span = signature.span().start()..body.span().end();
        self.functions.push(Function { name: signature.ident.to_string(), span });
    }

    fn note_module(&mut self, module: &syn::ItemMod) {
        let at = module.span().start();
        let test_only = module.attrs.iter().any(is_test_attribute)
            || self.test_spans.iter().any(|span| span.contains(&at));
        let name = module.ident.to_string();
        let path = path_attribute(&module.attrs);
        self.modules.push(ModDecl { inside: self.inside.clone(), name, path, test_only });
    }
}

impl<'ast> Visit<'ast> for Outline {
    fn visit_item(&mut self, item: &'ast Item) {
        self.note_test(item_attributes(item), item.span());
        visit::visit_item(self, item);
    }

    fn visit_item_mod(&mut self, module: &'ast syn::ItemMod) {
        if module.content.is_none() {
            return self.note_module(module);
        }
        self.inside.push(module.ident.to_string());
        visit::visit_item_mod(self, module);
        self.inside.pop();
    }

    fn visit_item_struct(&mut self, item: &'ast syn::ItemStruct) {
        let at = item.ident.span().start();
        if !self.test_spans.iter().any(|span| span.contains(&at)) {
            let (name, fields) = (item.ident.to_string(), item.fields.len());
            self.structs.push(Struct { name, line: at.line, fields });
        }
    }

    fn visit_item_fn(&mut self, function: &'ast syn::ItemFn) {
        self.note_function(&function.sig, &function.block);
        visit::visit_item_fn(self, function);
    }

    fn visit_impl_item_fn(&mut self, function: &'ast syn::ImplItemFn) {
        self.note_test(&function.attrs, function.span());
        self.note_function(&function.sig, &function.block);
        visit::visit_impl_item_fn(self, function);
    }

    fn visit_trait_item_fn(&mut self, function: &'ast syn::TraitItemFn) {
        self.note_test(&function.attrs, function.span());
        if let Some(body) = &function.default {
            self.note_function(&function.sig, body);
        }
        visit::visit_trait_item_fn(self, function);
    }
}

fn range(span: Span) -> Range<LineColumn> {
    span.start()..span.end()
}

fn item_attributes(item: &Item) -> &[Attribute] {
    match item {
        Item::Const(it) => &it.attrs,
        Item::Enum(it) => &it.attrs,
        Item::ExternCrate(it) => &it.attrs,
        Item::Fn(it) => &it.attrs,
        Item::ForeignMod(it) => &it.attrs,
        Item::Impl(it) => &it.attrs,
        Item::Macro(it) => &it.attrs,
        Item::Mod(it) => &it.attrs,
        Item::Static(it) => &it.attrs,
        Item::Struct(it) => &it.attrs,
        Item::Trait(it) => &it.attrs,
        Item::Type(it) => &it.attrs,
        Item::Use(it) => &it.attrs,
        _ => &[],
    }
}

/// `#[test]` and each `#[cfg(…)]` that holds in test builds only.
fn is_test_attribute(attribute: &Attribute) -> bool {
    match &attribute.meta {
        Meta::Path(path) => path.is_ident("test"),
        Meta::List(list) if list.path.is_ident("cfg") => {
            list.parse_args::<Meta>().is_ok_and(|condition| implies_test(&condition))
        }
        _ => false,
    }
}

fn implies_test(condition: &Meta) -> bool {
    match condition {
        Meta::Path(path) => path.is_ident("test"),
        Meta::List(list) => {
            let parser = syn::punctuated::Punctuated::<Meta, syn::Token![,]>::parse_terminated;
            let Ok(inner) = list.parse_args_with(parser) else { return false };
            match list.path.get_ident().map(ToString::to_string).as_deref() {
                Some("all") => inner.iter().any(implies_test),
                Some("any") => !inner.is_empty() && inner.iter().all(implies_test),
                _ => false,
            }
        }
        Meta::NameValue(_) => false,
    }
}

/// The string of `#[path = "…"]`.
fn path_attribute(attributes: &[Attribute]) -> Option<String> {
    attributes.iter().find_map(|attribute| match &attribute.meta {
        Meta::NameValue(pair) if pair.path.is_ident("path") => match &pair.value {
            syn::Expr::Lit(syn::ExprLit { lit: syn::Lit::Str(text), .. }) => Some(text.value()),
            _ => None,
        },
        _ => None,
    })
}

/// An attribute's content as `name` or `name(arguments)`.
fn spaceless(meta: &Meta) -> String {
    let name = meta.path().get_ident().map(ToString::to_string).unwrap_or_default();
    match meta {
        Meta::List(list) => {
            let arguments: String =
                list.tokens.to_string().chars().filter(|it| !it.is_whitespace()).collect();
            format!("{name}({arguments})")
        }
        Meta::Path(_) | Meta::NameValue(_) => name,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> RustFile {
        RustFile::parse("a.rs", text).expect("the text is Rust")
    }

    fn place_of(file: &RustFile, name: &str) -> LineColumn {
        let wanted = TokenKind::Ident(name.to_owned());
        file.tokens.iter().find(|token| token.kind == wanted).expect("the name occurs").at
    }

    #[test]
    fn only_what_needs_a_test_build_counts_as_test() {
        let file = parse(
            "#[cfg(test)] mod a { fn one() {} }\n\
             #[cfg(all(unix, test))] use two;\n\
             impl X { #[test] fn three() {} fn product() {} }\n\
             #[cfg(not(test))] fn four() {}\n\
             #[cfg(any(test, unix))] fn five() {}\n",
        );
        for name in ["one", "two", "three"] {
            assert!(file.is_test(place_of(&file, name)), "{name}");
        }
        for name in ["product", "four", "five"] {
            assert!(!file.is_test(place_of(&file, name)), "{name}");
        }
        let whole = parse("#![cfg(test)]\nfn six() {}");
        assert!(whole.is_test(place_of(&whole, "six")));
    }

    #[test]
    fn tokens_reach_into_macros_but_not_into_comments_and_strings() {
        let file = parse("// hidden\nfn f() { m!(seen, 1.5, \"hidden\") }");
        let has = |kind: &TokenKind| file.tokens.iter().any(|token| token.kind == *kind);
        assert!(has(&TokenKind::Ident("seen".to_owned())));
        assert!(has(&TokenKind::Float("1.5".to_owned())));
        assert!(!has(&TokenKind::Ident("hidden".to_owned())));
    }

    #[test]
    fn functions_of_every_kind_are_found() {
        let file =
            parse("fn a() {}\nimpl X { fn b() {} }\ntrait T { fn c() { fn d() {} } fn e(); }");
        let names: Vec<_> = file.functions.iter().map(|it| it.name.as_str()).collect();
        assert_eq!(names, ["a", "b", "c", "d"]);
    }

    #[test]
    fn text_that_is_not_rust_is_refused_with_its_line() {
        let refusal = RustFile::parse("a.rs", "fn a() {}\nfn ?").err().expect("this is not Rust");
        assert!(refusal.to_string().starts_with("a.rs:2: does not parse"), "{refusal}");
    }
}

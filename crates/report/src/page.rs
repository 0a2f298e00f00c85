//! A page as data, and its HTML: one file that needs nothing else.
//!
//! Every page of the project is a [`Page`]; `templates/page.html` is the only place with markup, and
//! escapes whatever text it is given.
//!
//! Does not know: directories. It answers names and contents; the caller writes them.

use askama::Template;

/// A file to write.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct File {
    /// Its name.
    pub name: String,
    /// Its content.
    pub text: String,
}

/// A page: a heading, an introduction, sections.
#[derive(Clone, PartialEq, Eq, Debug, Template)]
#[template(path = "page.html")]
pub struct Page {
    /// The name in the browser's title bar.
    pub title: String,
    /// The heading above everything.
    pub heading: String,
    /// The introduction.
    pub lead: Vec<Part>,
    /// The rest, in order.
    pub sections: Vec<Section>,
}

impl Page {
    /// The page as an HTML file of that name.
    ///
    /// # Panics
    /// Never: text can always be appended to.
    #[must_use]
    pub fn file(&self, name: String) -> File {
        let text = self.render().expect("a page is rendered into memory");
        File { name, text: text + "\n" }
    }
}

/// A section of a page.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Section {
    /// The name that a link to the section uses, if the section has one.
    pub id: Option<String>,
    /// Its heading.
    pub heading: String,
    /// Its content.
    pub parts: Vec<Part>,
}

impl Section {
    /// A section that no link leads to.
    #[must_use]
    pub fn new(heading: impl Into<String>, parts: Vec<Part>) -> Self {
        Self { id: None, heading: heading.into(), parts }
    }

    /// How a reader repeats the measurement, as names and values.
    #[must_use]
    pub fn origin(rows: Vec<Vec<Cell>>) -> Self {
        Self::new("Origin", vec![Part::Table(Table::new(&[], rows))])
    }
}

/// A piece of a section.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Part {
    /// A paragraph.
    Paragraph(Vec<Word>),
    /// A paragraph in smaller importance.
    Note(Vec<Word>),
    /// An SVG document.
    Drawing(String),
    /// SVG documents side by side.
    Drawings(Vec<String>),
    /// A table.
    Table(Table),
    /// A table that is shown when its summary is clicked.
    Folded {
        /// The line that is always shown.
        summary: String,
        /// The table.
        table: Table,
    },
}

impl Part {
    /// A note.
    #[must_use]
    pub fn note(text: impl Into<String>) -> Self {
        Self::Note(vec![Word::plain(text)])
    }
}

/// A stretch of text.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Word {
    /// Prose, in which names stand between backticks, as in Markdown.
    Plain(String),
    /// A name as the command line or the configuration has it.
    Code(String),
}

impl Word {
    /// Prose.
    #[must_use]
    pub fn plain(text: impl Into<String>) -> Self {
        Self::Plain(text.into())
    }

    /// A name as the command line or the configuration has it.
    #[must_use]
    pub fn code(text: impl Into<String>) -> Self {
        Self::Code(text.into())
    }
}

/// Prose in stretches: every second one stood between backticks. Texts are shared with Markdown. A
/// backtick without another one behind it is text.
fn stretches(text: &str) -> impl Iterator<Item = (bool, &str)> {
    let paired = text.matches('`').count() / 2 * 2;
    let parts = text.splitn(paired + 1, '`').enumerate();
    parts.map(|(at, part)| (at % 2 == 1, part))
}

/// A table: a line of headings, if there are any, and rows.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Table {
    head: Vec<Cell>,
    rows: Vec<Vec<Cell>>,
}

impl Table {
    /// A table under these headings; without headings, rows alone.
    #[must_use]
    pub fn new(head: &[&str], rows: Vec<Vec<Cell>>) -> Self {
        let head = head.iter().map(|text| Cell::Heading((*text).to_owned())).collect();
        Self { head, rows }
    }

    /// A table of texts in which every column from the third one on holds numbers.
    #[must_use]
    pub fn of_figures(head: &[&str], rows: Vec<Vec<String>>) -> Self {
        let cell = |(column, text)| if column > 1 { Cell::Number(text) } else { Cell::Text(text) };
        let row = |row: Vec<String>| row.into_iter().enumerate().map(cell).collect();
        Self::new(head, rows.into_iter().map(row).collect())
    }

    /// The line of headings, if there is one, and the rows.
    fn rows(&self) -> impl Iterator<Item = &Vec<Cell>> {
        Some(&self.head).filter(|head| !head.is_empty()).into_iter().chain(&self.rows)
    }
}

/// A cell of a table.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Cell {
    /// The name of a column or of a row.
    Heading(String),
    /// Words.
    Text(String),
    /// A number, aligned to the right.
    Number(String),
    /// Whether a check holds.
    Verdict(bool),
    /// Words that lead to another page, or to a section of it.
    Link {
        /// The page's file name, and the section's name behind a `#`.
        to: String,
        /// The words.
        text: String,
    },
}

/// A value with up to three digits after the point.
#[must_use]
pub fn number(value: f64) -> String {
    let rounded = (value * 1e3).round() / 1e3;
    // No minus before a zero.
    format!("{}", rounded + 0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rendered(parts: Vec<Part>) -> String {
        let sections = vec![Section::new("S", parts)];
        let page = Page { title: "T".to_owned(), heading: "H".to_owned(), lead: vec![], sections };
        let file = page.file("t.html".to_owned());
        let body = file.text.split_once("<h2>S</h2>\n").expect("the section").1;
        body.strip_suffix("</body></html>\n").expect("the end").to_owned()
    }

    /// A machine's name or a command with `<` or `&` once had to be escaped by each page itself.
    #[test]
    fn every_text_is_escaped_and_drawings_are_not() {
        let table = Table::of_figures(&["a&b"], vec![vec!["<x>".to_owned()]]);
        let parts = vec![
            Part::note("1 < 2"),
            Part::Paragraph(vec![Word::plain("by "), Word::code("a<b")]),
            Part::Drawing("<svg/>\n".to_owned()),
            Part::Folded { summary: "2 > 1".to_owned(), table },
        ];
        assert_eq!(
            rendered(parts),
            "<p class=\"note\">1 &#60; 2</p>\n<p>by <code>a&#60;b</code></p>\n<svg/>\n\
             <details><summary>2 &#62; 1</summary>\n<div class=\"wide\"><table><tr><th>a&#38;b</th></tr>\n\
             <tr><td>&#60;x&#62;</td></tr>\n</table></div>\n</details>\n"
        );
    }

    /// Notes, headings and cells of the papers' pages showed backticks.
    #[test]
    fn names_between_backticks_are_code_wherever_they_stand() {
        let table = Table::new(&["`a`"], vec![vec![Cell::Text("by `<b>`, not `c".to_owned())]]);
        let parts = vec![Part::note("`d` and more"), Part::Table(table)];
        let section = Section::new("Part `e`", parts);
        let page = Page {
            title: "T".to_owned(),
            heading: "`f`".to_owned(),
            lead: vec![],
            sections: vec![section],
        };
        let text = page.file("t.html".to_owned()).text;
        for shown in [
            "<h1><code>f</code></h1>",
            "<h2>Part <code>e</code></h2>",
            "<p class=\"note\"><code>d</code> and more</p>",
            "<th><code>a</code></th>",
            "<td>by <code>&#60;b&#62;</code>, not `c</td>",
        ] {
            assert!(text.contains(shown), "{shown} is not in {text}");
        }
    }

    #[test]
    fn a_table_without_headings_has_rows_alone_and_numbers_from_its_third_column_on() {
        let row = ["a", "b", "1"].map(str::to_owned).to_vec();
        assert_eq!(
            rendered(vec![Part::Table(Table::of_figures(&[], vec![row]))]),
            "<div class=\"wide\"><table><tr><td>a</td><td>b</td><td class=\"number\">1</td></tr>\n\
             </table></div>\n"
        );
        let row = vec![Cell::Heading("a".to_owned()), Cell::Verdict(true), Cell::Verdict(false)];
        assert_eq!(
            rendered(vec![Part::Table(Table::new(&[], vec![row]))]),
            "<div class=\"wide\"><table><tr><th>a</th><td class=\"holds\">holds</td>\
             <td class=\"missed\">missed</td></tr>\n</table></div>\n"
        );
    }

    #[test]
    fn a_link_leads_to_another_page() {
        let link = Cell::Link { to: "a.html#b".to_owned(), text: "c<d".to_owned() };
        assert_eq!(
            rendered(vec![Part::Table(Table::new(&[], vec![vec![link]]))]),
            "<div class=\"wide\"><table><tr><td><a href=\"a.html#b\">c&#60;d</a></td></tr>\n\
             </table></div>\n"
        );
    }

    #[test]
    fn drawings_lie_side_by_side() {
        let svgs = ["<svg>1</svg>\n", "<svg>2</svg>\n"].map(str::to_owned).to_vec();
        assert_eq!(
            rendered(vec![Part::Drawings(svgs)]),
            "<div class=\"plots\">\n<svg>1</svg>\n<svg>2</svg>\n</div>\n"
        );
    }

    #[test]
    fn numbers_have_up_to_three_digits_and_zero_has_no_sign() {
        assert_eq!([1.0, 0.12345, -0.0001].map(number), ["1", "0.123", "0"]);
    }
}

//! One test, as nextest and cargo name it.

/// A test of a program that holds tests.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct TestName {
    /// nextest's name of the program that holds the test.
    pub(super) binary: String,
    pub(super) test: String,
    /// How cargo selects that program.
    pub(super) selector: Vec<String>,
}

impl TestName {
    /// The name that nextest prints.
    pub(super) fn text(&self) -> String {
        format!("{} {}", self.binary, self.test)
    }

    /// The expression that selects this test alone in nextest's language.
    pub(super) fn filter(&self) -> String {
        format!("binary_id(={}) & test(={})", self.binary, self.test)
    }
}

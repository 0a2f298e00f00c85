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
}

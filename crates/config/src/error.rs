//! A value that is not allowed, and where it stands.

use std::fmt;

/// A table of a file, by its name if it has one: `vdisk db`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Named {
    /// The kind of the table: `device`, `vdisk`, `stream`.
    pub table: &'static str,
    /// The name that it states; a table that is the only one of its kind has none.
    pub name: Option<String>,
}

impl Named {
    /// A table of that kind and name.
    #[must_use]
    pub fn new(table: &'static str, name: &str) -> Self {
        Self { table, name: Some(name.to_owned()) }
    }

    /// The only table of its kind.
    #[must_use]
    pub fn only(table: &'static str) -> Self {
        Self { table, name: None }
    }

    /// A value of this table that is not allowed.
    #[must_use]
    pub fn wrong(
        &self,
        key: &str,
        value: impl fmt::Display,
        allowed: impl Into<String>,
    ) -> ValueError {
        let error = ValueError::new(self.table, key, value, allowed);
        ValueError { name: self.name.clone(), ..error }
    }

    /// The value of a key if it is stated, read by a function that knows the allowed values.
    ///
    /// # Errors
    /// If the function refuses the text.
    pub fn read<T>(
        &self,
        key: &str,
        text: Option<&str>,
        read: impl FnOnce(&str) -> Result<T, String>,
    ) -> Result<Option<T>, ValueError> {
        text.map(|text| read(text).map_err(|allowed| self.wrong(key, text, allowed))).transpose()
    }
}

impl fmt::Display for Named {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.name {
            Some(name) => write!(f, "{} {name}", self.table),
            None => f.write_str(self.table),
        }
    }
}

/// A value that is not allowed.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{}{key} = \"{value}\": {allowed}", place(.table, .name.as_deref()))]
pub struct ValueError {
    /// In what kind of table.
    pub table: &'static str,
    /// The table's name, if it has one of its own.
    pub name: Option<String>,
    /// Which key.
    pub key: String,
    /// The value of the key, as the file states it.
    pub value: String,
    /// The values that are allowed, and what to do.
    pub allowed: String,
}

impl ValueError {
    /// In a table that is the only one of its kind, or whose name itself is wrong.
    #[must_use]
    pub fn new(
        table: &'static str,
        key: &str,
        value: impl fmt::Display,
        allowed: impl Into<String>,
    ) -> Self {
        let (key, value) = (key.to_owned(), value.to_string());
        Self { table, name: None, key, value, allowed: allowed.into() }
    }
}

fn place(table: &str, name: Option<&str>) -> String {
    name.map_or_else(|| format!("{table}."), |name| format!("{table} {name}: "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_says_the_table_the_name_the_key_the_value_and_what_is_allowed() {
        let error = Named::new("vdisk", "db").wrong("weight", 0, "a weight is 1 to 10000");
        assert_eq!(error.to_string(), "vdisk db: weight = \"0\": a weight is 1 to 10000");
        let error = ValueError::new("server", "nbd", "[]", "name a listener");
        assert_eq!(error.to_string(), "server.nbd = \"[]\": name a listener");
    }
}

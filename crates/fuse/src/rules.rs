//! Contracts by the user and the program that open a file: `user=backup class=background`.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use disktime_config::read_contract;
use disktime_core::Contract;

use crate::file_system::Caller;

/// The longest name of a program that the kernel keeps.
const NAME_MAX: usize = 15;

/// A contract for files that are opened by a user, by programs of a name, or both.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Rule {
    user: Option<u32>,
    process: Option<String>,
    contract: Contract,
}

impl Rule {
    /// Reads a rule; users are names or numbers.
    ///
    /// # Errors
    /// The first word that can't be used, and what is allowed.
    pub fn read(text: &str) -> Result<Self, String> {
        let (mut user, mut process, mut rest) = (None, None, Vec::new());
        for word in text.split_ascii_whitespace() {
            match word.split_once('=') {
                Some(("user", name)) => user = Some(user_id(name)?),
                Some(("process", name)) if (1..=NAME_MAX).contains(&name.len()) => {
                    process = Some(name.to_owned());
                }
                Some(("process", name)) => {
                    let why = "the kernel keeps 1 to 15 bytes of a program's name";
                    return Err(format!("process = \"{name}\": {why}: name these"));
                }
                _ => rest.push(word),
            }
        }
        if user.is_none() && process.is_none() {
            return Err(format!("\"{text}\": begin with `user=NAME`, `process=NAME` or both"));
        }
        let contract = read_contract(&rest.join(" ")).map_err(|error| error.to_string())?;
        Ok(Self { user, process, contract })
    }

    /// The contract, if the rule is about this caller.
    pub(crate) fn contract(&self, caller: Caller) -> Option<Contract> {
        let user = self.user.is_none_or(|user| user == caller.uid);
        let process = || match &self.process {
            None => true,
            Some(name) => is_named(caller.pid, name),
        };
        (user && process()).then_some(self.contract)
    }
}

/// Whether the program of a thread has that name, as the kernel keeps it.
fn is_named(pid: u32, name: &str) -> bool {
    let found = std::fs::read(format!("/proc/{pid}/comm"));
    found.is_ok_and(|found| found.strip_suffix(b"\n").unwrap_or(&found) == name.as_bytes())
}

/// The number of a user.
fn user_id(name: &str) -> Result<u32, String> {
    if let Ok(number) = name.parse() {
        return Ok(number);
    }
    let users = std::fs::read("/etc/passwd").unwrap_or_default();
    let lines = users.split(|byte| *byte == b'\n');
    let named = lines.map(|line| line.split(|byte| *byte == b':').collect::<Vec<_>>());
    let mut named = named.filter(|fields| fields.first() == Some(&name.as_bytes()));
    let number = named.find_map(|fields| OsStr::from_bytes(fields.get(2)?).to_str()?.parse().ok());
    number.ok_or_else(|| {
        format!("user = \"{name}\": /etc/passwd has no such user: name another one, or its number")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rule_holds_for_its_user_and_program() {
        let own = std::fs::read_to_string("/proc/self/comm").unwrap();
        let caller = |uid| Caller { uid, gid: 0, pid: std::process::id() };
        let said = |rule: &str, uid| Rule::read(rule).unwrap().contract(caller(uid)).is_some();
        assert!(said("user=root weight=5", 0));
        assert!(!said("user=root weight=5", 1));
        assert!(said("user=7 class=background", 7));
        assert!(said(&format!("process={} weight=5", own.trim()), 3));
        assert!(!said("process=other weight=5", 3));
        assert!(!said(&format!("user=7 process={} weight=5", own.trim()), 3));
        for wrong in ["weight=5", "user=nobody-has-this weight=5", "user=0 weight=x", "process="] {
            Rule::read(wrong).unwrap_err();
        }
    }
}

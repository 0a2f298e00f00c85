//! The rights of callers over TCP: tokens of a file, and sessions of browsers that have shown one.
//!
//! The file has a line for each token: `view TOKEN` or `operate TOKEN`, and after it `until DATE` if it
//! ends. It is read again when it changes. Does not know: HTTP.

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use disktime_server::{Quiet, clock, replace};

/// Bytes of a token that is made here.
const BYTES: usize = 32;
/// The shortest token that a person may choose, in characters.
const SHORTEST: usize = 32;
/// The longest file in bytes.
const FILE_MAX: u64 = 64 << 10;
/// How long a browser stays logged in: half a day.
const SESSION_MS: u64 = 12 * 3600 * 1000;
/// Browsers that are logged in at once; the oldest is logged out for one more.
const SESSIONS_MAX: usize = 256;

/// The things that a caller may do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Role {
    /// Look.
    View,
    /// Look and change.
    Operate,
}

impl Role {
    /// Its name in the file of tokens.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::View => "view",
            Self::Operate => "operate",
        }
    }
}

/// Why tokens can't be used.
#[derive(Debug, thiserror::Error)]
pub enum TokenError {
    /// The file can't be read or made.
    #[error("tokens {}: {error}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// Others may read it.
    #[error(
        "tokens {}: its mode is {mode:04o}, and others could read it: `chmod 600` it",
        path.display()
    )]
    Mode {
        /// The file.
        path: PathBuf,
        /// Its mode.
        mode: u32,
    },
    /// A line is none of a token.
    #[error("tokens {}: line {line}: {reason}", path.display())]
    Line {
        /// The file.
        path: PathBuf,
        /// Which line, from 1.
        line: usize,
        /// The lines that are allowed. The token itself is not told.
        reason: &'static str,
    },
}

/// A token of the file.
#[derive(Clone, Debug)]
struct Token {
    role: Role,
    text: String,
    until_ms: Option<u64>,
}

/// A browser that has logged in.
struct Session {
    id: String,
    role: Role,
    until_ms: u64,
}

/// All that may be shown by a caller.
pub struct Tokens {
    path: Option<PathBuf>,
    kept: Mutex<Kept>,
    refused: Mutex<Quiet<Shut>>,
}

#[derive(Default)]
struct Kept {
    tokens: Vec<Token>,
    /// The file's change that was read.
    read: Option<(i64, i64, u64)>,
    /// The file's fault, as it was told.
    wrong: Option<String>,
    sessions: Vec<Session>,
    /// Tokens that are good for one login.
    once: Vec<Token>,
}

/// Why a token or a session opens nothing.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Shut {
    /// It is none of ours.
    Unknown,
    /// Its time is over.
    Expired,
}

impl Tokens {
    /// The tokens of a file. One that is not there or empty is made, for its owner alone, with a token of each
    /// role.
    ///
    /// # Errors
    /// If the file can't be used; one that others may read is refused.
    pub fn of_file(path: &Path) -> Result<Self, TokenError> {
        let failed = |error| TokenError::File { path: path.to_owned(), error };
        // An empty one opens nothing: an earlier version left it on a full file system.
        let is_there = match std::fs::metadata(path) {
            Ok(about) => !about.is_file() || about.len() > 0,
            Err(error) if error.kind() == io::ErrorKind::NotFound => false,
            Err(error) => return Err(failed(error)),
        };
        if !is_there {
            let text = format!(
                "# Who may use the control API and its page over TCP: role, token, `until DATE` if it \
                 ends.\noperate {}\nview {}\n",
                random().map_err(failed)?,
                random().map_err(failed)?
            );
            replace(path, text.as_bytes()).map_err(failed)?;
        }
        let tokens = Self { path: Some(path.to_owned()), ..Self::none() };
        tokens.read_again(&mut tokens.kept())?;
        Ok(tokens)
    }

    /// Whether a file of tokens can be used, without making one.
    ///
    /// # Errors
    /// As [`of_file`](Self::of_file), and if there is none.
    pub fn look(path: &Path) -> Result<(), TokenError> {
        let tokens = Self { path: Some(path.to_owned()), ..Self::none() };
        let mut kept = tokens.kept();
        tokens.read_again(&mut kept)
    }

    /// No tokens but those for one login.
    #[must_use]
    pub fn none() -> Self {
        Self { path: None, kept: Mutex::default(), refused: Mutex::default() }
    }

    /// A new token that is good for one login.
    ///
    /// # Errors
    /// If the system has no randomness.
    pub fn once(&self, role: Role) -> io::Result<String> {
        let text = random()?;
        self.kept().once.push(Token { role, text: text.clone(), until_ms: None });
        Ok(text)
    }

    /// The role of a token.
    ///
    /// # Errors
    /// If it is none, or has expired.
    pub fn role(&self, text: &str, now_ms: u64) -> Result<Role, Shut> {
        let mut kept = self.kept();
        if let Some(error) = self.read_or_shut(&mut kept) {
            tracing::error!(error, "no token is accepted");
        }
        role_of(&kept.tokens, text, now_ms)
    }

    /// Logs a browser in by a token; answers the session's name.
    ///
    /// # Errors
    /// If the token is none, or has expired.
    pub fn log_in(&self, text: &str, now_ms: u64) -> Result<(String, Role), Shut> {
        let found = self.role(text, now_ms);
        let mut kept = self.kept();
        let role = match (found, kept.once.iter().position(|it| same(&it.text, text))) {
            (Ok(role), _) => role,
            (Err(_), Some(at)) => kept.once.remove(at).role,
            (Err(shut), None) => return Err(shut),
        };
        let id = random().map_err(|_| Shut::Unknown)?;
        if kept.sessions.len() >= SESSIONS_MAX {
            kept.sessions.remove(0);
        }
        kept.sessions.push(Session { id: id.clone(), role, until_ms: now_ms + SESSION_MS });
        Ok((id, role))
    }

    /// Notes a refused login; if it is to be logged now, how many were not since the last one that was.
    pub fn refused(&self, shut: Shut) -> Option<u64> {
        let mut refused = self.refused.lock().unwrap_or_else(PoisonError::into_inner);
        refused.note(clock::now(), shut)
    }

    /// The role of a session.
    ///
    /// # Errors
    /// If it is none, or has expired.
    pub fn session(&self, id: &str, now_ms: u64) -> Result<Role, Shut> {
        let mut kept = self.kept();
        let at = kept.sessions.iter().position(|it| same(&it.id, id)).ok_or(Shut::Unknown)?;
        if kept.sessions[at].until_ms > now_ms {
            return Ok(kept.sessions[at].role);
        }
        kept.sessions.remove(at);
        Err(Shut::Expired)
    }

    /// Ends a session.
    pub fn log_out(&self, id: &str) {
        self.kept().sessions.retain(|it| !same(&it.id, id));
    }

    /// Reads the file if it has changed. If it can't be used, nobody is let in by it; those who are in stay
    /// until they log out. Answers why, once: anybody can ask without a token as often as they like.
    fn read_or_shut(&self, kept: &mut Kept) -> Option<String> {
        let wrong = self.read_again(kept).err().map(|error| error.to_string());
        if wrong.is_some() {
            kept.tokens.clear();
            kept.read = None;
        }
        let news = wrong.clone().filter(|_| wrong != kept.wrong);
        kept.wrong = wrong;
        news
    }

    /// Reads the file if it has changed.
    fn read_again(&self, kept: &mut Kept) -> Result<(), TokenError> {
        let Some(path) = &self.path else { return Ok(()) };
        let failed = |error| TokenError::File { path: path.clone(), error };
        let about = std::fs::metadata(path).map_err(failed)?;
        // The time of any change: one of the mode counts, too.
        let change = (about.ctime(), about.ctime_nsec(), about.ino());
        if kept.read == Some(change) {
            return Ok(());
        }
        // A device has no end, and a pipe may have nobody who writes to it.
        if !about.is_file() {
            return Err(failed(io::Error::other("no regular file: name one")));
        }
        if about.len() > FILE_MAX {
            return Err(failed(io::Error::other(format!("it has more than {FILE_MAX} bytes"))));
        }
        let mode = about.mode() & 0o777;
        if mode & 0o077 != 0 {
            return Err(TokenError::Mode { path: path.clone(), mode });
        }
        let mut text = String::new();
        File::open(path)
            .map_err(failed)?
            .take(FILE_MAX)
            .read_to_string(&mut text)
            .map_err(failed)?;
        kept.tokens = parse(path, &text)?;
        kept.read = Some(change);
        Ok(())
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn parse(path: &Path, text: &str) -> Result<Vec<Token>, TokenError> {
    let mut tokens = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let wrong = |reason| TokenError::Line { path: path.to_owned(), line: index + 1, reason };
        let words: Vec<&str> = line.split_whitespace().collect();
        let (role, text, until) = match words[..] {
            [] => continue,
            [first, ..] if first.starts_with('#') => continue,
            [role, text] => (role, text, None),
            [role, text, "until", date] => (role, text, Some(date)),
            _ => return Err(wrong("`view TOKEN` or `operate TOKEN`, and `until DATE` if it ends")),
        };
        let role = match role {
            "view" => Role::View,
            "operate" => Role::Operate,
            _ => return Err(wrong("the role is `view` or `operate`")),
        };
        if text.len() < SHORTEST {
            return Err(wrong(
                "a token has 32 characters or more: `openssl rand -hex 32` makes one",
            ));
        }
        let until = until.map(|date| {
            let date = if date.len() == 10 { format!("{date}T00:00:00Z") } else { date.to_owned() };
            let time = humantime::parse_rfc3339(&date).ok()?;
            u64::try_from(time.duration_since(std::time::UNIX_EPOCH).ok()?.as_millis()).ok()
        });
        let until_ms = match until {
            Some(None) => return Err(wrong("a date is `2027-01-31` or `2027-01-31T12:00:00Z`")),
            until => until.flatten(),
        };
        tokens.push(Token { role, text: text.to_owned(), until_ms });
    }
    Ok(tokens)
}

fn role_of(tokens: &[Token], text: &str, now_ms: u64) -> Result<Role, Shut> {
    let token = tokens.iter().find(|it| same(&it.text, text)).ok_or(Shut::Unknown)?;
    if token.until_ms.is_some_and(|until| until <= now_ms) {
        Err(Shut::Expired)
    } else {
        Ok(token.role)
    }
}

/// Whether two secrets are the same, in a time that does not tell where they differ.
fn same(a: &str, b: &str) -> bool {
    a.len() == b.len() && a.bytes().zip(b.bytes()).fold(0, |differ, (a, b)| differ | (a ^ b)) == 0
}

/// A secret: 256 random bits in hexadecimal.
fn random() -> io::Result<String> {
    let mut bytes = [0; BYTES];
    File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    /// Refused logins wrote 51 MB of log in four seconds.
    #[test]
    fn a_refused_login_is_told_now_and_then() {
        let tokens = Tokens::none();
        assert_eq!(tokens.refused(Shut::Unknown), Some(0));
        assert_eq!(tokens.refused(Shut::Unknown), None);
        assert_eq!(tokens.refused(Shut::Expired), Some(0));
    }

    const LONG: &str = "0123456789abcdef0123456789abcdef";

    fn file(text: &str, mode: u32) -> (tempfile::TempDir, PathBuf) {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("tokens");
        std::fs::write(&path, text).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
        (directory, path)
    }

    #[test]
    fn a_new_file_is_for_its_owner_alone_and_has_a_token_of_each_role() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("tokens");
        let tokens = Tokens::of_file(&path).unwrap();
        assert_eq!(std::fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
        let text = std::fs::read_to_string(&path).unwrap();
        let of = |role: &str| {
            let line = text.lines().find(|line| line.starts_with(role)).unwrap();
            line.split(' ').nth(1).unwrap().to_owned()
        };
        assert_eq!(tokens.role(&of("operate"), 0), Ok(Role::Operate));
        assert_eq!(tokens.role(&of("view"), 0), Ok(Role::View));
        assert_eq!(tokens.role("", 0), Err(Shut::Unknown));
        assert_eq!(tokens.role(&of("view")[1..], 0), Err(Shut::Unknown));
    }

    /// A first start on a full file system left an empty file, and no later one made tokens: nobody could log in.
    #[test]
    fn an_empty_file_gets_tokens_and_one_with_a_line_is_left_alone() {
        let (directory, path) = file("", 0o600);
        Tokens::of_file(&path).unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        assert!(text.contains("\noperate ") && text.contains("\nview "), "{text}");
        Tokens::of_file(&path).unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), text);
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 1);
        std::fs::write(&path, "# nobody\n").unwrap();
        Tokens::of_file(&path).unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "# nobody\n");
    }

    #[test]
    fn tokens_expire_and_a_changed_file_counts_at_once() {
        let (_directory, path) = file(&format!("view {LONG} until 1970-01-02\n"), 0o600);
        let tokens = Tokens::of_file(&path).unwrap();
        assert_eq!(tokens.role(LONG, 1000), Ok(Role::View));
        assert_eq!(tokens.role(LONG, 86_400_000), Err(Shut::Expired));
        let other = path.with_extension("new");
        std::fs::write(&other, format!("operate {LONG}\n")).unwrap();
        std::fs::set_permissions(&other, std::fs::Permissions::from_mode(0o600)).unwrap();
        std::fs::rename(&other, &path).unwrap();
        assert_eq!(tokens.role(LONG, 86_400_000), Ok(Role::Operate));
        std::fs::remove_file(&path).unwrap();
        assert_eq!(tokens.role(LONG, 0), Err(Shut::Unknown), "what can't be read opens nothing");
    }

    /// A file that had been read could be opened to everybody, and its tokens were still accepted.
    #[test]
    fn a_change_of_the_mode_counts_at_once() {
        let (_directory, path) = file(&format!("view {LONG}\n"), 0o600);
        let tokens = Tokens::of_file(&path).unwrap();
        let read = tokens.kept().read.unwrap();
        // Another tick of the clock by which the file's changes are stamped.
        while std::fs::metadata(&path).map(|it| (it.ctime(), it.ctime_nsec(), it.ino())).unwrap()
            == read
        {
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)).unwrap();
        }
        assert_eq!(tokens.role(LONG, 0), Err(Shut::Unknown));
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
        assert_eq!(tokens.role(LONG, 0), Ok(Role::View));
    }

    /// Each request without a login wrote a line while the file could not be read.
    #[test]
    fn a_file_that_can_not_be_used_is_told_once() {
        let (_directory, path) = file(&format!("view {LONG}\n"), 0o600);
        let tokens = Tokens::of_file(&path).unwrap();
        let told = || tokens.read_or_shut(&mut tokens.kept());
        assert_eq!(told(), None);
        std::fs::remove_file(&path).unwrap();
        assert!(told().is_some_and(|it| it.contains("No such file")));
        assert_eq!(told(), None);
        std::fs::write(&path, "view short\n").unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
        assert!(told().is_some_and(|it| it.contains("line 1")));
    }

    #[test]
    fn files_that_others_may_read_and_lines_that_are_no_tokens_are_refused() {
        let (_directory, path) = file(&format!("view {LONG}\n"), 0o640);
        assert!(matches!(Tokens::of_file(&path), Err(TokenError::Mode { mode: 0o640, .. })));
        for text in [
            "view short",
            "admin 0123456789abcdef0123456789abcdef",
            "view 0123456789abcdef0123456789abcdef until tomorrow",
            "view 0123456789abcdef0123456789abcdef forever",
            "0123456789abcdef0123456789abcdef",
        ] {
            let (_directory, path) = file(text, 0o600);
            let error = Tokens::of_file(&path).err().expect(text).to_string();
            assert!(error.contains("line 1") && !error.contains(LONG), "{error}");
        }
    }

    /// A pipe was waited for without end, and of a file that is too long the rest was left out without a word.
    #[test]
    fn a_file_of_tokens_is_a_regular_one_of_bounded_length() {
        let (directory, path) = file(&format!("view {LONG}\n"), 0o600);
        let pipe = directory.path().join("pipe");
        assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        for wrong in [pipe.as_path(), Path::new("/dev/zero"), directory.path()] {
            let looked = Tokens::look(wrong).unwrap_err().to_string();
            assert_eq!(looked, format!("tokens {}: no regular file: name one", wrong.display()));
            assert!(Tokens::of_file(wrong).is_err());
        }
        std::fs::write(&path, format!("view {LONG}\n").repeat(3000)).unwrap();
        let said = Tokens::look(&path).unwrap_err().to_string();
        assert!(said.ends_with("it has more than 65536 bytes"), "{said}");
    }

    #[test]
    fn a_token_for_one_login_is_good_for_one() {
        let tokens = Tokens::none();
        let once = tokens.once(Role::Operate).unwrap();
        assert_eq!(tokens.role(&once, 0), Err(Shut::Unknown), "it is none for requests");
        let (session, role) = tokens.log_in(&once, 0).unwrap();
        assert_eq!(role, Role::Operate);
        assert_eq!(tokens.log_in(&once, 0), Err(Shut::Unknown));
        assert_eq!(tokens.session(&session, SESSION_MS - 1), Ok(Role::Operate));
        assert_eq!(tokens.session(&session, SESSION_MS), Err(Shut::Expired));
        let again = tokens.once(Role::View).unwrap();
        let (session, _) = tokens.log_in(&again, 0).unwrap();
        tokens.log_out(&session);
        assert_eq!(tokens.session(&session, 0), Err(Shut::Unknown));
    }

    #[test]
    fn sessions_are_bounded() {
        let (_directory, path) = file(&format!("view {LONG}\n"), 0o600);
        let tokens = Tokens::of_file(&path).unwrap();
        let first = tokens.log_in(LONG, 0).unwrap().0;
        (0..SESSIONS_MAX).for_each(|_| drop(tokens.log_in(LONG, 0).unwrap()));
        assert_eq!(tokens.kept().sessions.len(), SESSIONS_MAX);
        assert_eq!(tokens.session(&first, 0), Err(Shut::Unknown));
    }
}

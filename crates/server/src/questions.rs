//! Questions to a running daemon over its own socket, and their answers.

use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::bitmap::{BitmapStep, BitmapView};
use crate::daemon_socket::{AskError, Caller};

/// A question.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(tag = "ask", rename_all = "kebab-case", deny_unknown_fields)]
pub(crate) enum Question {
    /// How a virtual disk's bitmaps are, after a step of one of them if any is named.
    Bitmap { vdisk: String, bitmap: Option<String>, step: Option<BitmapStep> },
    /// Take the asker in as a guest of a device, with packets of this version, for files of the file
    /// system with that number. The connection is the guest's from then on. People know it by its name.
    Guest {
        version: u32,
        device: String,
        medium: u64,
        #[serde(default)]
        name: String,
    },
    /// Hand everything over to the asker, in packets of this version.
    TakeOver { version: u32 },
}

/// Asks the daemon of a state directory. Answers its bitmaps, if any were asked for, and the connection.
///
/// # Errors
/// If there is no daemon, or it refuses.
pub(crate) fn ask(
    state: &Path,
    question: &Question,
) -> Result<(Vec<BitmapView>, Caller), AskError> {
    let caller = Caller::dial(state)?;
    let heard = caller.say(question).and_then(|()| caller.hear::<Answer>());
    let answer = heard.map_err(|error| AskError::Io { path: state.to_owned(), error })?;
    Ok((answer.taken()?, caller))
}

/// An answer.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Answer {
    /// Whether it was done. An answer is never empty: an empty packet is the end of a connection.
    done: bool,
    /// Why it was not done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    error: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    bitmap: Vec<BitmapView>,
}

impl Answer {
    /// The bitmaps of a virtual disk.
    pub(crate) fn of(bitmap: Vec<BitmapView>) -> Self {
        Self { done: true, error: None, bitmap }
    }

    /// A refusal.
    pub(crate) fn no(why: String) -> Self {
        Self { done: false, error: Some(why), bitmap: Vec::new() }
    }

    /// The bitmaps that were asked for, or why the question was refused.
    fn taken(self) -> Result<Vec<BitmapView>, AskError> {
        self.error.map_or(Ok(self.bitmap), |error| Err(AskError::Refused(error)))
    }
}

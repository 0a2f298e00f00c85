//! A headless Chromium, told what to do by its own protocol over a pipe: JSON texts that end with a 0.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::{now, sleep};

/// How long an answer or a condition may take.
const WAIT_MAX: Duration = Duration::from_secs(30);

/// A browser with one page.
pub struct Browser {
    child: Child,
    to: ChildStdin,
    from: BufReader<ChildStdout>,
    session: String,
    last: u64,
    /// Errors that the page has said.
    pub errors: Vec<String>,
    _profile: TempDir,
}

impl Browser {
    pub fn start() -> Self {
        let profile = TempDir::new().unwrap();
        // The protocol speaks over descriptors 3 and 4.
        let script = "exec 3<&0 4>&1; exec chromium \"$@\" </dev/null >/dev/null 2>/dev/null";
        let mut child = Command::new("sh")
            .args(["-c", script, "chromium", "--headless=new", "--remote-debugging-pipe"])
            .args(["--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--no-first-run"])
            .args([
                "--disable-dev-shm-usage",
                "--disable-background-networking",
                "--force-color-profile=srgb",
            ])
            .arg(format!("--user-data-dir={}", profile.path().display()))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let to = child.stdin.take().unwrap();
        let from = BufReader::new(child.stdout.take().unwrap());
        let session = String::new();
        let errors = Vec::new();
        let mut browser = Self { child, to, from, session, last: 0, errors, _profile: profile };
        let target = browser.call("Target.createTarget", json!({"url": "about:blank"}));
        let target = &target["targetId"];
        let attached =
            browser.call("Target.attachToTarget", json!({"targetId": target, "flatten": true}));
        browser.session = attached["sessionId"].as_str().unwrap().to_owned();
        for domain in ["Page", "Runtime", "Log"] {
            browser.call(&format!("{domain}.enable"), json!({}));
        }
        browser
    }

    /// Sends a command and waits for its answer; notes errors of the page that come in between.
    pub fn call(&mut self, method: &str, params: Value) -> Value {
        self.last += 1;
        let id = self.last;
        let mut message = json!({"id": id, "method": method});
        message["params"] = params;
        if !self.session.is_empty() {
            message["sessionId"] = json!(self.session);
        }
        self.to.write_all(format!("{message}\0").as_bytes()).unwrap();
        loop {
            let mut text = Vec::new();
            self.from.read_until(0, &mut text).unwrap();
            assert_eq!(text.pop(), Some(0), "the browser has ended");
            let mut message: Value = serde_json::from_slice(&text).unwrap();
            if message["id"] == json!(id) {
                assert!(message["error"].is_null(), "{method}: {}", message["error"]);
                return message["result"].take();
            }
            self.note(&message);
        }
    }

    fn note(&mut self, message: &Value) {
        let params = &message["params"];
        let said = match message["method"].as_str() {
            Some("Runtime.exceptionThrown") => &params["exceptionDetails"],
            Some("Runtime.consoleAPICalled") if params["type"] == "error" => &params["args"],
            Some("Log.entryAdded") if params["entry"]["level"] == "error" => &params["entry"],
            _ => return,
        };
        self.errors.push(said.to_string());
    }

    /// The value of an expression in the page, awaited.
    pub fn value(&mut self, expression: &str) -> Value {
        let params = json!({"expression": expression, "awaitPromise": true, "returnByValue": true});
        let mut answer = self.call("Runtime.evaluate", params);
        assert!(answer["exceptionDetails"].is_null(), "{expression}: {answer}");
        answer["result"]["value"].take()
    }

    /// Waits until an expression is true; answers how long that took.
    pub fn wait(&mut self, expression: &str) -> Duration {
        let begun = now();
        while self.value(expression) != json!(true) {
            let body = "document.body.innerText";
            assert!(
                now() - begun < WAIT_MAX,
                "{expression}: {}\n{:?}",
                self.value(body),
                self.errors
            );
            sleep(50);
        }
        now() - begun
    }

    pub fn open(&mut self, url: &str) {
        self.call("Page.navigate", json!({"url": url}));
    }

    /// Writes into a field as a person does.
    pub fn write(&mut self, field: &str, text: &str) {
        self.value(&format!(
            "document.querySelector('{field}').focus(), document.querySelector('{field}').select()"
        ));
        self.call("Input.insertText", json!({"text": text}));
    }

    /// A picture of the page at this width, as PNG.
    pub fn picture(&mut self, (width, height): (u32, u32), scheme: &str) -> Vec<u8> {
        let media = json!({"features": [{"name": "prefers-color-scheme", "value": scheme}]});
        self.call("Emulation.setEmulatedMedia", media);
        let metrics =
            json!({"width": width, "height": height, "deviceScaleFactor": 1, "mobile": false});
        self.call("Emulation.setDeviceMetricsOverride", metrics);
        // The next second draws everything at its new size.
        sleep(1500);
        let shot = self.call("Page.captureScreenshot", json!({"format": "png"}));
        decode(shot["data"].as_str().unwrap())
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        let _ended_already = self.child.kill();
        let _status = self.child.wait();
    }
}

/// Bytes of a text in base 64.
fn decode(text: &str) -> Vec<u8> {
    let value = |byte: u8| match byte {
        b'A'..=b'Z' => Some(byte - b'A'),
        b'a'..=b'z' => Some(byte - b'a' + 26),
        b'0'..=b'9' => Some(byte - b'0' + 52),
        b'+' => Some(62),
        b'/' => Some(63),
        _ => None,
    };
    let values: Vec<u32> = text.bytes().filter_map(value).map(u32::from).collect();
    let mut bytes = Vec::new();
    for part in values.chunks(4) {
        let all = part.iter().fold(0, |all, it| all << 6 | it) << (6 * (4 - part.len()));
        bytes.extend_from_slice(&all.to_be_bytes()[1..part.len()]);
    }
    bytes
}

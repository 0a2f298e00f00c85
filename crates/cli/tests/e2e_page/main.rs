//! The page in a headless Chromium, with the demo behind it.
//!
//! `DISKTIME_PICTURES=DIR` keeps the pictures that it takes; the one of README is `page.png`.
#![allow(clippy::unwrap_used, reason = "a test's helper may fail the test")]

mod browser;

use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use browser::Browser;
use serde_json::json;

#[expect(clippy::disallowed_methods, reason = "a browser runs in real time")]
fn now() -> Instant {
    Instant::now()
}

#[expect(clippy::disallowed_methods, reason = "nothing tells how far a browser is")]
fn sleep(millis: u64) {
    std::thread::sleep(Duration::from_millis(millis));
}

/// Tells that a test can't run here.
fn skip(test: &str, reason: &str) {
    let line = format!("SKIP: {test}: {reason}");
    eprintln!("{line}");
    if let Ok(path) = std::env::var("DISKTIME_SKIPS") {
        let file = std::fs::OpenOptions::new().append(true).create(true).open(path);
        writeln!(file.unwrap(), "{line}").unwrap();
    }
}

fn has_chromium() -> bool {
    let mut command = Command::new("chromium");
    let command = command.arg("--version").stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

/// A demo with its page.
struct Demo {
    child: Child,
    link: String,
    /// Its standard output stays open: it has more to say.
    _said: std::io::Lines<BufReader<std::process::ChildStdout>>,
}

impl Demo {
    fn start() -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_disktime"))
            .args(["demo", "--web", "--for", "3m"])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut said = BufReader::new(child.stdout.take().unwrap()).lines();
        let link = said.by_ref().map(Result::unwrap).find(|line| line.contains("#token="));
        Self { child, link: link.expect("a link").trim().to_owned(), _said: said }
    }
}

impl Drop for Demo {
    fn drop(&mut self) {
        let _ended_already = self.child.kill();
        let _status = self.child.wait();
    }
}

/// A daemon that is told what to serve, with its page.
struct Served {
    child: Child,
    state: tempfile::TempDir,
    page: String,
}

impl Served {
    /// On a port of 127.0.0.1; 0 is any that is free.
    fn start(state: tempfile::TempDir, port: &str) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_disktime"))
            .args(["serve", "--control", &format!("tcp:127.0.0.1:{port}"), "--state"])
            .arg(state.path())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut said = BufReader::new(child.stderr.take().unwrap()).lines().map(Result::unwrap);
        let line = said.find(|line| line.contains("the page is at ")).expect("an address");
        // The log goes on.
        std::thread::spawn(move || said.for_each(drop));
        let page = line.split_once("the page is at ").unwrap().1.trim().to_owned();
        Self { child, state, page }
    }

    /// The same daemon anew, which knows no session.
    fn again(mut self) -> Self {
        let mut kill = Command::new("kill");
        assert!(kill.arg(self.child.id().to_string()).status().unwrap().success());
        assert!(self.child.wait().unwrap().success());
        let state = std::mem::replace(&mut self.state, tempfile::TempDir::new().unwrap());
        let port = self.page.trim_end_matches('/').rsplit(':').next().unwrap().to_owned();
        Self::start(state, &port)
    }

    fn token(&self) -> String {
        let text = std::fs::read_to_string(self.state.path().join("tokens")).unwrap();
        let line = text.lines().find_map(|line| line.strip_prefix("operate "));
        line.unwrap().to_owned()
    }

    /// The answer of a command.
    fn told(&self, words: &[&str]) -> serde_json::Value {
        let mut command = Command::new(env!("CARGO_BIN_EXE_disktime"));
        let command = command.args(words).arg("--json").arg("--state").arg(self.state.path());
        let output = command.output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success(), "{words:?}: {said}");
        serde_json::from_str(&said).unwrap_or_default()
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ended_already = self.child.kill();
        let _status = self.child.wait();
    }
}

/// Where pictures go.
fn pictures() -> PathBuf {
    let place = std::env::var_os("DISKTIME_PICTURES").map(PathBuf::from);
    let place = place.unwrap_or_else(|| PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("page"));
    std::fs::create_dir_all(&place).unwrap();
    place
}

/// Requests per second of a virtual disk over the last ten seconds.
fn iops(browser: &mut Browser, vdisk: &str) -> f64 {
    let ask = format!("fetch('/v1/vdisks/{vdisk}').then(it => it.json()).then(it => it.iops)");
    browser.value(&ask).as_f64().unwrap()
}

/// Changes a reservation by the form of a virtual disk.
fn reserve(browser: &mut Browser, vdisk: &str, share: &str) {
    browser.value(&format!("location.hash = '#/vdisks/{vdisk}'"));
    browser.wait(&format!("document.querySelector('h1')?.textContent === '{vdisk}' && !!document.querySelector('form.contract')"));
    browser.write("input[name=reserve]", share);
    browser.wait("document.querySelector('output.fits')?.textContent.startsWith('It fits')");
    browser.value("document.querySelector('form.contract').requestSubmit()");
    browser.wait("document.querySelector('output').textContent.startsWith('Changed')");
}

#[test]
fn the_page_shows_a_live_demo_and_a_contract_changed_by_its_form_counts() {
    let name = "the_page_shows_a_live_demo_and_a_contract_changed_by_its_form_counts";
    if !has_chromium() {
        return skip(name, "chromium is not installed");
    }
    let demo = Demo::start();
    let mut browser = Browser::start();
    browser.open(&demo.link);
    let shown = "Number(document.documentElement?.dataset.samples ?? 0) > 0 \
                 && document.querySelectorAll('tbody tr .meter').length === 2 \
                 && !!document.querySelector('.chart canvas')";
    let took = browser.wait(shown);
    assert!(took < Duration::from_secs(3), "{took:?}");
    assert_eq!(browser.value("location.hash"), json!(""), "the token stays in no address");

    sleep(20_000);
    let place = pictures();
    let keep = |browser: &mut Browser, size, scheme: &str, file: &str| {
        let picture = browser.picture(size, scheme);
        assert!(picture.starts_with(b"\x89PNG"), "{file}");
        std::fs::write(place.join(file), picture).unwrap();
        let wide = "document.documentElement.scrollWidth <= innerWidth";
        assert_eq!(browser.value(wide), json!(true), "{file}: it is wider than the window");
    };
    keep(&mut browser, (1200, 1060), "light", "page.png");
    keep(&mut browser, (1200, 900), "dark", "device-dark.png");
    keep(&mut browser, (400, 1400), "light", "device-400.png");
    keep(&mut browser, (1200, 900), "light", "device.png");

    // The sequential virtual disk has 70 %: 40 % more do not fit, and can't be sent.
    let before = iops(&mut browser, "random");
    browser.value("location.hash = '#/vdisks/random'");
    browser.wait("!!document.querySelector('form.contract')");
    browser.write("input[name=reserve]", "40%");
    browser.wait("document.querySelector('output.no')?.textContent.includes('does not fit')");
    assert_eq!(browser.value("document.querySelector('button.main').disabled"), json!(true));
    keep(&mut browser, (1200, 900), "light", "vdisk.png");
    keep(&mut browser, (400, 1400), "dark", "vdisk-400-dark.png");
    reserve(&mut browser, "sequential", "20%");
    reserve(&mut browser, "random", "80%");
    // Its rate follows: 80 % for 30 %, once the rates of ten seconds are of the new contract.
    let until = now() + Duration::from_secs(40);
    while iops(&mut browser, "random") < 2.0 * before {
        assert!(now() < until, "{} IOPS, {before} before", iops(&mut browser, "random"));
        sleep(500);
    }
    browser.value("location.hash = '#/devices/disk'");
    browser.wait("document.querySelectorAll('.events li').length >= 2");
    assert_eq!(browser.errors, [] as [String; 0]);
}

/// Waits for a view by its heading.
fn shows(browser: &mut Browser, heading: &str) {
    browser.wait(&format!("document.querySelector('h1')?.textContent === '{heading}'"));
}

/// Writes a limit that fits into the form, and sends it.
fn limit(browser: &mut Browser, share: &str) {
    browser.write("input[name=limit]", share);
    browser.wait("document.querySelector('output.fits')?.textContent.startsWith('It fits')");
    browser.value("document.querySelector('form.contract').requestSubmit()");
}

/// The page stayed at what was there when it was loaded, and a form put back what others had changed meanwhile.
#[test]
fn the_page_follows_what_others_do() {
    if !has_chromium() {
        return skip("the_page_follows_what_others_do", "chromium is not installed");
    }
    let mut daemon = Served::start(tempfile::TempDir::new().unwrap(), "0");
    let pool = format!("file:{}", daemon.state.path().join("pool").display());
    let mut browser = Browser::start();
    browser.open(&format!("{}#token={}", daemon.page, daemon.token()));
    shows(&mut browser, "No device yet");
    daemon.told(&["device", "add", "disk", "--back-end", &pool, "--create"]);
    shows(&mut browser, "disk");
    daemon.told(&["vdisk", "create", "db", "--device", "disk", "--size", "1MiB"]);
    browser.wait("!!document.querySelector('[data-vdisk=db]')");
    browser.value("location.hash = '#/vdisks/db'");
    shows(&mut browser, "db");

    browser.write("input[name=limit]", "90%");
    browser.wait("document.querySelector('output.fits')?.textContent.startsWith('It fits')");
    daemon.told(&["vdisk", "set", "db", "--reserve", "10%"]);
    browser.wait("document.querySelector('.facts').innerText.includes('10.0 %')");
    limit(&mut browser, "70%");
    browser.wait("document.querySelector('output').textContent.startsWith('Somebody else')");
    limit(&mut browser, "70%");
    browser.wait("document.querySelector('output').textContent.startsWith('Changed')");
    let now = daemon.told(&["vdisk", "show", "db"]);
    assert_eq!((&now["reserve"], &now["limit"]), (&json!(0.1), &json!(0.7)), "{now}");

    // A tab that was hidden for a while has a hole in its past.
    let loads = "performance.getEntriesByType('resource').filter(it => it.name.includes('/history')).length";
    let before = browser.value(loads);
    for hidden in ["true", "false"] {
        let hide = "Object.defineProperty(document, 'hidden', {configurable: true, value: HIDDEN}), \
                    document.dispatchEvent(new Event('visibilitychange'))";
        browser.value(&hide.replace("HIDDEN", hidden));
    }
    browser.wait(&format!("{loads} >= {before} + 2"));
    daemon.told(&["vdisk", "delete", "db"]);
    shows(&mut browser, "disk");
    browser.value("location.hash = '#/devices/%E0'");
    shows(&mut browser, "disk");

    // The browser shows the cookie of a session that ended with the daemon.
    daemon = daemon.again();
    browser.wait("document.querySelector('#state').textContent.startsWith('logged out')");
    browser.open(&daemon.page);
    browser.wait("!!document.querySelector('input[name=token]')");
    browser.write("input[name=token]", &daemon.token());
    browser.value("document.querySelector('form').requestSubmit()");
    shows(&mut browser, "disk");
    let uncaught = browser.errors.iter().find(|it| it.contains("Uncaught"));
    assert_eq!(uncaught, None);
}

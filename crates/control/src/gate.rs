//! The caller of a request, and whether it may ask: users of the Unix socket, tokens and sessions over TCP, and no page of
//! another site.
//!
//! Does not know: what requests do.

use std::sync::Arc;

use axum::extract::{ConnectInfo, Request, State};
use axum::http::{HeaderMap, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use disktime_server::clock::wall_ms;

use crate::door::Peer;
use crate::problem::Refusal;
use crate::tokens::{Role, Shut, Tokens};

/// The one who asks.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Caller {
    /// The things that it may do.
    pub role: Role,
    /// Its name for the audit: a user and a process, or a token's role and an address.
    pub who: String,
}

/// The check before everything.
pub async fn gate(
    State(tokens): State<Arc<Tokens>>,
    ConnectInfo(peer): ConnectInfo<Peer>,
    mut request: Request,
    next: Next,
) -> Response {
    match admit(&tokens, &peer, &request) {
        Ok(caller) => {
            if let Some(caller) = caller {
                request.extensions_mut().insert(caller);
            }
            next.run(request).await
        }
        Err(refusal) => refusal.into_response(),
    }
}

/// Finds out who asks; nobody is known where that does not matter.
fn admit(tokens: &Tokens, peer: &Peer, request: &Request) -> Result<Option<Caller>, Refusal> {
    let (from, headers) = match peer {
        Peer::Unix { uid, pid } => {
            let pid = pid.map_or_else(String::new, |pid| format!(" pid {pid}"));
            return Ok(Some(Caller { role: Role::Operate, who: format!("uid {uid}{pid}") }));
        }
        Peer::Tcp { from, .. } => (from, request.headers()),
    };
    let origin = own_origin(peer, headers)?;
    if is_public(request) {
        return Ok(None);
    }
    let now = wall_ms();
    let (role, what) = if let Some(token) = bearer(headers) {
        (tokens.role(token, now).map_err(shut)?, "token")
    } else if request.uri().path() == SESSION {
        // Before its session: a browser still shows the cookie of one that has ended.
        same_site(request.method(), headers, &origin)?;
        return Ok(None);
    } else if let Some(session) = session(peer, headers) {
        // Only a browser has a session, and another site's page may use it: what such a page asks for
        // says where it comes from.
        same_site(request.method(), headers, &origin)?;
        (tokens.session(session, now).map_err(shut)?, "session")
    } else {
        return Err(Refusal::unknown_caller("log in, or send `authorization: Bearer TOKEN`"));
    };
    let looks = request.method() == Method::GET || request.method() == Method::HEAD;
    let asks = looks || ["/v1/plan", SESSION].contains(&request.uri().path());
    if role == Role::View && !asks {
        let detail = "this token is of role `view` and changes nothing: use one of role `operate`";
        return Err(Refusal::read_only(detail.to_owned()));
    }
    Ok(Some(Caller { role, who: format!("{what} {} from {from}", role.name()) }))
}

/// Where browsers log in and out.
pub const SESSION: &str = "/v1/session";

/// Whether anybody may have it: the page's files tell nothing.
fn is_public(request: &Request) -> bool {
    let path = request.uri().path();
    let looks = request.method() == Method::GET || request.method() == Method::HEAD;
    looks && (path == "/" || path.starts_with("/page/"))
}

fn shut(shut: Shut) -> Refusal {
    match shut {
        Shut::Unknown => Refusal::unknown_caller("this token or session is none: log in again"),
        Shut::Expired => Refusal::unknown_caller("this token or session has expired: log in again"),
    }
}

fn bearer(headers: &HeaderMap) -> Option<&str> {
    let (kind, token) = headers.get(header::AUTHORIZATION)?.to_str().ok()?.split_once(' ')?;
    kind.eq_ignore_ascii_case("bearer").then_some(token.trim())
}

/// The name of the cookie: browsers keep one jar for all ports of a machine.
pub fn cookie_name(peer: &Peer) -> String {
    match peer {
        Peer::Tcp { tls: true, .. } => "__Host-disktime".to_owned(),
        Peer::Tcp { to, .. } => format!("disktime-{}", to.port()),
        Peer::Unix { .. } => "disktime".to_owned(),
    }
}

/// The session that a browser names.
pub fn session<'a>(peer: &Peer, headers: &'a HeaderMap) -> Option<&'a str> {
    let name = cookie_name(peer);
    let all = headers.get_all(header::COOKIE).iter().filter_map(|it| it.to_str().ok());
    all.flat_map(|line| line.split(';')).find_map(|pair| {
        let (key, value) = pair.trim().split_once('=')?;
        (key == name).then_some(value)
    })
}

/// The origin of our own page. A name that leads here without our doing is refused: a site can have its
/// own name lead to 127.0.0.1, and would then be of one origin with us. Under TLS the certificate says
/// the same.
fn own_origin(peer: &Peer, headers: &HeaderMap) -> Result<String, Refusal> {
    let Peer::Tcp { to, tls, .. } = peer else { return Ok(String::new()) };
    let host = headers.get(header::HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
    if *tls {
        return Ok(format!("https://{host}"));
    }
    let port = to.port();
    let known = [to.to_string(), format!("localhost:{port}"), format!("127.0.0.1:{port}")];
    if !known.iter().any(|it| it.eq_ignore_ascii_case(host)) {
        let detail = format!("host \"{}\": this is {to}: use that address", host.escape_default());
        return Err(Refusal::misdirected(detail));
    }
    Ok(format!("http://{host}"))
}

/// A browser's request with a session comes from our own page.
fn same_site(method: &Method, headers: &HeaderMap, own: &str) -> Result<(), Refusal> {
    let text = |name: &str| headers.get(name).map(|it| it.to_str().unwrap_or("?"));
    let refused = |what: &str| {
        Err(Refusal::read_only(format!("{what}: requests with a session come from this page only")))
    };
    if let Some(origin) = text("origin") {
        return if origin.eq_ignore_ascii_case(own) {
            Ok(())
        } else {
            refused(&format!("origin \"{}\"", origin.escape_default()))
        };
    }
    match text("sec-fetch-site") {
        Some("same-origin" | "none") => Ok(()),
        Some(site) => refused(&format!("sec-fetch-site \"{}\"", site.escape_default())),
        None if *method == Method::GET || *method == Method::HEAD => Ok(()),
        None => refused("no origin"),
    }
}

/// Headers of every answer to a browser: nothing of another site, no guessing, no frames.
pub async fn harden(request: Request, next: Next) -> Response {
    let mut response = next.run(request).await;
    let headers = response.headers_mut();
    for (name, value) in [
        (
            "content-security-policy",
            "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; \
             base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
        ),
        ("x-content-type-options", "nosniff"),
        ("referrer-policy", "no-referrer"),
        ("cross-origin-resource-policy", "same-origin"),
        ("cross-origin-opener-policy", "same-origin"),
    ] {
        headers.insert(name, value.parse().expect("these are headers' texts"));
    }
    if !headers.contains_key(header::CACHE_CONTROL) {
        headers.insert(header::CACHE_CONTROL, "no-store".parse().expect("a header's text"));
    }
    response
}

impl Refusal {
    /// Nobody that is known.
    pub fn unknown_caller(detail: &str) -> Self {
        Self::new(StatusCode::UNAUTHORIZED, detail.to_owned())
    }

    /// The request was for another server.
    pub fn misdirected(detail: String) -> Self {
        Self::new(StatusCode::MISDIRECTED_REQUEST, detail)
    }
}

#[cfg(test)]
mod tests {
    use axum::body::Body;

    use super::*;

    const TOKEN: &str = "0123456789abcdef0123456789abcdef";

    fn peer(tls: bool) -> Peer {
        let (from, to) = ("127.0.0.1:5000".parse().unwrap(), "127.0.0.1:8080".parse().unwrap());
        Peer::Tcp { from, to, tls }
    }

    /// The status of a request with these headers; 200 if it is let through.
    fn status(tokens: &Tokens, (method, path): (&str, &str), headers: &[(&str, &str)]) -> u16 {
        let mut request = Request::builder().method(method).uri(path);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.body(Body::empty()).unwrap();
        admit(tokens, &peer(false), &request).map_or_else(|it| it.0.status, |_| 200)
    }

    fn tokens() -> (Tokens, tempfile::TempDir) {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("tokens");
        let made = Tokens::of_file(&path).unwrap();
        std::fs::write(&path, format!("view {TOKEN}\noperate {TOKEN}x\n")).unwrap();
        (made, directory)
    }

    const HERE: (&str, &str) = ("host", "127.0.0.1:8080");

    #[test]
    fn without_a_token_there_is_only_the_page() {
        let (tokens, _directory) = tokens();
        let ask = |method, path| status(&tokens, (method, path), &[HERE]);
        assert_eq!((ask("GET", "/"), ask("GET", "/page/main.js")), (200, 200));
        for path in ["/v1", "/v1/vdisks", "/metrics", "/v1/live", "/v1/openapi.json"] {
            assert_eq!(ask("GET", path), 401, "{path}");
        }
        assert_eq!((ask("PATCH", "/v1/vdisks/db"), ask("POST", "/")), (401, 401));
    }

    #[test]
    fn a_token_has_its_role() {
        let (tokens, _directory) = tokens();
        let ask = |token: &str, method, path| {
            let bearer = format!("Bearer {token}");
            status(&tokens, (method, path), &[HERE, ("authorization", &bearer)])
        };
        let operate = format!("{TOKEN}x");
        assert_eq!(ask(TOKEN, "GET", "/v1/vdisks"), 200);
        assert_eq!(ask(TOKEN, "POST", "/v1/plan"), 200);
        assert_eq!(ask(TOKEN, "PATCH", "/v1/vdisks/db"), 403);
        assert_eq!(ask(TOKEN, "DELETE", "/v1/devices/disk"), 403);
        assert_eq!(ask(&operate, "PATCH", "/v1/vdisks/db"), 200);
        assert_eq!(ask("nonsense", "GET", "/v1/vdisks"), 401);
        assert_eq!(ask("", "GET", "/v1/vdisks"), 401);
    }

    #[test]
    fn requests_of_other_sites_are_refused() {
        let (tokens, _directory) = tokens();
        let (session, _) = tokens.log_in(&format!("{TOKEN}x"), wall_ms()).unwrap();
        let cookie = format!("other=1; disktime-8080={session}");
        let ask = |method, more: &[(&str, &str)]| {
            let headers = [&[HERE, ("cookie", &cookie)], more].concat();
            status(&tokens, (method, "/v1/vdisks/db"), &headers)
        };
        assert_eq!(ask("PATCH", &[("origin", "http://127.0.0.1:8080")]), 200);
        assert_eq!(ask("PATCH", &[("origin", "http://evil.example")]), 403);
        assert_eq!(ask("PATCH", &[("origin", "http://127.0.0.1:8081")]), 403);
        assert_eq!(ask("PATCH", &[("origin", "null")]), 403);
        assert_eq!(ask("PATCH", &[]), 403, "a browser says where a change comes from");
        assert_eq!(ask("GET", &[("sec-fetch-site", "cross-site")]), 403);
        assert_eq!(ask("GET", &[("sec-fetch-site", "same-origin")]), 200);
        let login = |origin| status(&tokens, ("POST", SESSION), &[HERE, ("origin", origin)]);
        assert_eq!((login("http://127.0.0.1:8080"), login("http://evil.example")), (200, 403));
    }

    /// The cookie of a session that had ended kept its browser from logging in again.
    #[test]
    fn a_browser_whose_session_has_ended_may_log_in_and_out() {
        let (tokens, _directory) = tokens();
        let ask = |method, path, origin| {
            let headers = [HERE, ("cookie", "disktime-8080=ended"), ("origin", origin)];
            status(&tokens, (method, path), &headers)
        };
        let (ours, other) = ("http://127.0.0.1:8080", "http://evil.example");
        assert_eq!((ask("POST", SESSION, ours), ask("DELETE", SESSION, ours)), (200, 200));
        assert_eq!((ask("POST", SESSION, other), ask("DELETE", SESSION, other)), (403, 403));
        assert_eq!(ask("GET", "/v1", ours), 401);
    }

    #[test]
    fn a_foreign_name_that_leads_here_is_refused() {
        let (tokens, _directory) = tokens();
        let bearer = format!("Bearer {TOKEN}");
        let ask =
            |host| status(&tokens, ("GET", "/v1"), &[("host", host), ("authorization", &bearer)]);
        assert_eq!((ask("127.0.0.1:8080"), ask("localhost:8080")), (200, 200));
        assert_eq!(
            (ask("evil.example"), ask("evil.example:8080"), ask("127.0.0.1")),
            (421, 421, 421)
        );
        assert_eq!(status(&tokens, ("GET", "/"), &[("host", "evil.example")]), 421);
        assert_eq!(status(&tokens, ("GET", "/"), &[]), 421);
    }

    #[test]
    fn a_user_of_the_socket_may_operate_and_has_a_name() {
        let request = Request::builder().method("DELETE").uri("/v1/vdisks/db");
        let request = request.body(Body::empty()).unwrap();
        let peer = Peer::Unix { uid: 7, pid: Some(9) };
        let caller = admit(&Tokens::none(), &peer, &request).unwrap().unwrap();
        assert_eq!((caller.role, caller.who.as_str()), (Role::Operate, "uid 7 pid 9"));
    }
}

//! The page: files that are part of the program, and a browser's login.

use std::sync::Arc;

use axum::extract::{ConnectInfo, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Extension, Json, Router};
use disktime_api::Problem;
use disktime_server::clock::wall_ms;
use serde::Deserialize;
use utoipa::ToSchema;

use crate::ask::Api;
use crate::door::Peer;
use crate::gate::{SESSION, cookie_name, session};
use crate::problem::{Body, Name, Refusal};
use crate::tokens::{Shut, Tokens};

const HTML: &str = "text/html; charset=utf-8";
const CSS: &str = "text/css; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";

/// Each file: its name, its kind, its text.
const FILES: &[(&str, &str, &str)] = &[
    ("page.css", CSS, include_str!("../web/page.css")),
    ("icon.svg", "image/svg+xml", include_str!("../web/icon.svg")),
    ("main.js", SCRIPT, include_str!("../web/main.js")),
    ("api.js", SCRIPT, include_str!("../web/api.js")),
    ("dom.js", SCRIPT, include_str!("../web/dom.js")),
    ("past.js", SCRIPT, include_str!("../web/past.js")),
    ("charts.js", SCRIPT, include_str!("../web/charts.js")),
    ("heat.js", SCRIPT, include_str!("../web/heat.js")),
    ("device.js", SCRIPT, include_str!("../web/device.js")),
    ("vdisk.js", SCRIPT, include_str!("../web/vdisk.js")),
    ("contract.js", SCRIPT, include_str!("../web/contract.js")),
    ("uplot.js", SCRIPT, include_str!("../web/vendor/uplot/uPlot.iife.min.js")),
    ("uplot.css", CSS, include_str!("../web/vendor/uplot/uPlot.min.css")),
    ("uplot.txt", "text/plain; charset=utf-8", include_str!("../web/vendor/uplot/LICENSE")),
];

/// Its addresses.
pub fn routes(tokens: Arc<Tokens>) -> Router<Api> {
    let index = async || ([(header::CONTENT_TYPE, HTML)], include_str!("../web/index.html"));
    Router::new()
        .route("/", get(index))
        .route("/page/{name}", get(file))
        .route(SESSION, post(log_in).delete(log_out))
        .layer(Extension(tokens))
}

async fn file(Name(name): Name) -> Response {
    match FILES.iter().find(|(known, ..)| *known == name) {
        Some((_, kind, text)) => ([(header::CONTENT_TYPE, *kind)], *text).into_response(),
        None => Refusal::not_found(format!("no file {}", name.escape_default())).into_response(),
    }
}

/// A login.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Login {
    /// The token of a link to log in, or of the file of tokens.
    token: String,
}

/// Logs a browser in: it gets a cookie.
#[utoipa::path(post, path = "/v1/session", request_body = Login, responses((status = 201),
    (status = "4XX", body = Problem, content_type = "application/problem+json"),
    (status = "5XX", body = Problem, content_type = "application/problem+json")))]
pub(crate) async fn log_in(
    State(_): State<Api>,
    Extension(tokens): Extension<Arc<Tokens>>,
    ConnectInfo(peer): ConnectInfo<Peer>,
    Body(body): Body,
) -> Result<Response, Refusal> {
    let login: Login = serde_json::from_slice(&body)
        .map_err(|error| Refusal::bad_request(format!("a login is {{\"token\": …}}: {error}")))?;
    let (id, role) = tokens.log_in(login.token.trim(), wall_ms()).map_err(|shut| {
        if let Some(left_out) = tokens.refused(shut) {
            tracing::warn!(target: "disktime::audit", ?peer, ?shut, left_out, "a login was refused");
        }
        Refusal::unknown_caller(match shut {
            Shut::Unknown => {
                "this token opens nothing: a link to log in is good once, a token of the \
                              daemon's file of tokens until its end"
            }
            Shut::Expired => {
                "this token has expired: use another one of the daemon's file of tokens"
            }
        })
    })?;
    tracing::info!(target: "disktime::audit", ?peer, role = role.name(), "a browser has logged in");
    let cookie = cookie(&peer, &id, "");
    let role = Json(serde_json::json!({ "role": role.name() }));
    Ok((StatusCode::CREATED, [(header::SET_COOKIE, cookie)], role).into_response())
}

/// Logs the browser out that shows its cookie.
#[utoipa::path(delete, path = "/v1/session", responses((status = 204),
    (status = "4XX", body = Problem, content_type = "application/problem+json")))]
pub(crate) async fn log_out(
    Extension(tokens): Extension<Arc<Tokens>>,
    ConnectInfo(peer): ConnectInfo<Peer>,
    headers: HeaderMap,
) -> Response {
    if let Some(id) = session(&peer, &headers) {
        tokens.log_out(id);
    }
    let cookie = cookie(&peer, "", "; Max-Age=0");
    (StatusCode::NO_CONTENT, [(header::SET_COOKIE, cookie)]).into_response()
}

/// The header that gives a browser its session's cookie, or takes it away. Browsers ignore one of a name with
/// `__Host-` that is not `Secure`.
fn cookie(peer: &Peer, id: &str, more: &str) -> String {
    let secure = if matches!(peer, Peer::Tcp { tls: true, .. }) { "; Secure" } else { "" };
    format!("{}={id}; Path=/; HttpOnly; SameSite=Strict{secure}{more}", cookie_name(peer))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The cookie of a page under TLS stayed in the browser after *Log out*.
    #[test]
    fn a_cookie_is_taken_away_as_it_was_given() {
        let (from, to) = ("127.0.0.1:5000".parse().unwrap(), "127.0.0.1:8080".parse().unwrap());
        for (tls, start) in [(true, "__Host-disktime="), (false, "disktime-8080=")] {
            let peer = Peer::Tcp { from, to, tls };
            for cookie in [cookie(&peer, "id", ""), cookie(&peer, "", "; Max-Age=0")] {
                assert!(cookie.starts_with(start), "{cookie}");
                assert_eq!(cookie.contains("; Secure"), tls, "{cookie}");
            }
        }
    }
}

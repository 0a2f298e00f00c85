//! `/v1`: requests become questions to the server's thread, answers become JSON.

use std::sync::Arc;

use axum::extract::rejection::QueryRejection;
use axum::extract::{DefaultBodyLimit, Query, State};
use axum::http::{HeaderMap, Method, StatusCode, header};
use axum::response::{IntoResponse, Json, Response};
use axum::routing::{get, post};
use axum::{Extension, Router};
use disktime_api::{
    Contract, Device, DeviceSpec, Event, Figures, Held, History, Latency, Live, LiveDevice,
    LiveVdisk, Mount, MountStream, Plan, Problem, Promises, Server as About, Track, Vdisk,
    VdiskChange, VdiskSpec, Waited,
};
use disktime_server::Server;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use utoipa::OpenApi;

use crate::ask::Api;
use crate::events::ANSWER_MAX;
use crate::gate::{self, Caller};
use crate::live;
use crate::plane::{Made, Plane, tag};
use crate::problem::{Body, Name, Refusal};
use crate::sampler::Sampler;
use crate::tokens::Tokens;

/// The longest body of a request in bytes.
const BODY_MAX: usize = 64 << 10;

#[derive(OpenApi)]
#[openapi(
    info(
        title = "disktime",
        description = "Virtual disks that each own a share of a device's time"
    ),
    paths(
        about,
        devices,
        put_device,
        delete_device,
        history,
        vdisks,
        vdisk,
        put_vdisk,
        change_vdisk,
        delete_vdisk,
        snapshot_vdisk,
        why,
        mounts,
        mount_sums,
        plan,
        live::events,
        live::live,
        kept_events,
        crate::metrics::metrics,
        crate::page::log_in,
        crate::page::log_out
    ),
    components(schemas(
        About,
        Contract,
        Device,
        DeviceSpec,
        Event,
        Figures,
        Held,
        History,
        Latency,
        Live,
        LiveDevice,
        LiveVdisk,
        crate::page::Login,
        Mount,
        MountStream,
        Plan,
        Problem,
        Promises,
        Track,
        Vdisk,
        VdiskChange,
        VdiskSpec,
        Waited
    ))
)]
struct Document;

/// The OpenAPI document.
pub fn document() -> utoipa::openapi::OpenApi {
    Document::openapi()
}

/// All addresses.
pub fn router(api: Api, tokens: Arc<Tokens>) -> Router {
    Router::new()
        .route("/v1", get(about))
        .route("/v1/openapi.json", get(async || Json(document())))
        .route("/v1/devices", get(devices))
        .route("/v1/devices/{name}", axum::routing::put(put_device).delete(delete_device))
        .route("/v1/devices/{name}/history", get(history))
        .route("/v1/vdisks", get(vdisks))
        .route(
            "/v1/vdisks/{name}",
            get(vdisk).put(put_vdisk).patch(change_vdisk).delete(delete_vdisk),
        )
        .route("/v1/vdisks/{name}/snapshot", post(snapshot_vdisk))
        .route("/v1/vdisks/{name}/why", get(why))
        .route("/v1/mounts", get(mounts))
        .route("/v1/mounts/sums", get(mount_sums))
        .route("/v1/plan", post(plan))
        .route("/v1/events", get(live::events))
        .route("/v1/live", get(live::live))
        .route("/v1/events/kept", get(kept_events))
        .merge(crate::metrics::routes())
        .merge(crate::page::routes(Arc::clone(&tokens)))
        .fallback(async || {
            Refusal::not_found("nothing is at this address: see /v1/openapi.json".into())
        })
        .method_not_allowed_fallback(async |method: Method| Refusal::not_allowed(&method))
        .layer(DefaultBodyLimit::max(BODY_MAX))
        .layer(axum::middleware::from_fn_with_state(tokens, gate::gate))
        .layer(axum::middleware::from_fn(gate::harden))
        .with_state(api)
}

/// An object of a body, or what is wrong with it.
fn read<T: DeserializeOwned>(Body(body): Body) -> Result<T, Refusal> {
    // A list would be taken for an object, its values for those of the first keys.
    if !body.trim_ascii_start().starts_with(b"{") {
        return Err(Refusal::bad_request("the body is no object: it begins with `{`".to_owned()));
    }
    serde_json::from_slice(&body).map_err(|error| {
        let reason = error.to_string();
        let remedy = disktime_config::remedy(&reason).unwrap_or_default();
        Refusal::bad_request(format!("the body is no such object: {reason}{remedy}"))
    })
}

/// The tag that a caller has seen, if it says so. One that is no text is none of ours.
fn seen(headers: &HeaderMap) -> Option<String> {
    let tag = headers.get(header::IF_MATCH)?;
    Some(String::from_utf8_lossy(tag.as_bytes()).into_owned())
}

fn matches_name(name: &str, of: &str) -> Result<(), Refusal> {
    if name == of {
        return Ok(());
    }
    let detail =
        format!("name = \"{of}\" in the body, \"{name}\" in the address: they are the same");
    Err(Refusal::bad_request(detail))
}

fn status(made: Made) -> StatusCode {
    if made == Made::New { StatusCode::CREATED } else { StatusCode::OK }
}

/// The daemon.
#[utoipa::path(get, path = "/v1", responses((status = 200, body = About), (status = "4XX", body = Problem, content_type = "application/problem+json"),
    (status = "5XX", body = Problem, content_type = "application/problem+json")))]
async fn about(
    State(api): State<Api>,
    Extension(by): Extension<Caller>,
) -> Result<Json<About>, Refusal> {
    Ok(Json(api.ask(move |_, plane| plane.about(by.role)).await?))
}

/// All devices.
#[utoipa::path(get, path = "/v1/devices", responses((status = 200, body = [Device]), (status = "4XX", body = Problem, content_type = "application/problem+json"),
    (status = "5XX", body = Problem, content_type = "application/problem+json")))]
async fn devices(State(api): State<Api>) -> Result<Json<Vec<Device>>, Refusal> {
    Ok(Json(api.ask(|server, plane| plane.devices(server)).await?))
}

/// Serves a device. Repeating a request does nothing.
#[utoipa::path(put, path = "/v1/devices/{name}", params(("name" = String, Path)),
    request_body = DeviceSpec, responses((status = 201), (status = 200),
    (status = "4XX", body = Problem, content_type = "application/problem+json"),
    (status = "5XX", body = Problem, content_type = "application/problem+json")))]
async fn put_device(
    State(api): State<Api>,
    Extension(by): Extension<Caller>,
    Name(name): Name,
    body: Body,
) -> Result<Response, Refusal> {
    let spec: DeviceSpec = read(body)?;
    matches_name(&name, &spec.name)?;
    let answer = spec.clone();
    let made = api.create_device(spec, by).await?;
    Ok((status(made), Json(answer)).into_response())
}

/// Serves a device no longer. Its contents stay.
#[utoipa::path(delete, path = "/v1/devices/{name}", params(("name" = String, Path)),
    responses((status = 204), (status = "4XX", body = Problem, content_type = "application/problem+json"),
    (status = "5XX", body = Problem, content_type = "application/problem+json")))]
async fn delete_device(
    State(api): State<Api>,
    Extension(by): Extension<Caller>,
    Name(name): Name,
) -> Result<StatusCode, Refusal> {
    api.ask(move |server, plane| plane.remove_device(server, &name, &by)).await??;
    Ok(StatusCode::NO_CONTENT)
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Since {
    after_ms: Option<u64>,
    step: Option<u32>,
}

/// The past of a device: each second of the last ten minutes, or each ten seconds of the last six hours.
#[utoipa::path(get, path = "/v1/devices/{name}/history", params(("name" = String, Path),
    ("after_ms" = Option<u64>, Query), ("step" = Option<u32>, Query)),
    responses((status = 200, body = History), (status = "4XX", body = Problem, content_type = "application/problem+json"),
    (status = "5XX", body = Problem, content_type = "application/problem+json")))]
async fn history(
    State(api): State<Api>,
    Name(name): Name,
    since: Result<Query<Since>, QueryRejection>,
) -> Result<Json<History>, Refusal> {
    let Query(since) = since?;
    let after_ms = signed("after_ms", since.after_ms)?;
    let long = match since.step {
        None | Some(1) => false,
        Some(10) => true,
        Some(step) => {
            return Err(Refusal::bad_request(format!("step = {step}: 1 or 10 seconds are kept")));
        }
    };
    let found = api.seen().history(&name, long, after_ms);
    if let Some(history) = found {
        return Ok(Json(history));
    }
    // A new one was not looked at yet.
    let is_there = move |server: &mut Server, _: &mut Plane| {
        let found = server.config().devices.iter().any(|device| device.name == name);
        if found { Ok(Json(History::default())) } else { Err(Refusal::no_device(&name)) }
    };
    api.ask(is_there).await?
}

/// All virtual disks.
#[utoipa::path(get, path = "/v1/vdisks", responses((status = 200, body = [Vdisk]), (status = "4XX", body = Problem, content_type = "application/problem+json"),
    (status = "5XX", body = Problem, content_type = "application/problem+json")))]
async fn vdisks(State(api): State<Api>) -> Result<Json<Vec<Vdisk>>, Refusal> {
    Ok(Json(api.ask_seen(|server, plane, seen| plane.vdisks(server, seen)).await?))
}

/// The streams of all mounts that are guests of devices.
#[utoipa::path(get, path = "/v1/mounts", responses((status = 200, body = [MountStream]), (status = "4XX", body = Problem, content_type = "application/problem+json"),
    (status = "5XX", body = Problem, content_type = "application/problem+json")))]
async fn mounts(State(api): State<Api>) -> Result<Json<Vec<MountStream>>, Refusal> {
    Ok(Json(api.ask_seen(|server, plane, seen| plane.mounts(server, seen)).await?))
}

/// All mounts that are guests of devices, each with the sums of its streams since the first of them.
#[utoipa::path(get, path = "/v1/mounts/sums", responses((status = 200, body = [Mount]), (status = "4XX", body = Problem, content_type = "application/problem+json"),
    (status = "5XX", body = Problem, content_type = "application/problem+json")))]
async fn mount_sums(State(api): State<Api>) -> Result<Json<Vec<Mount>>, Refusal> {
    Ok(Json(api.ask_seen(|server, plane, seen| plane.mount_sums(server, seen)).await?))
}

/// A virtual disk; its tag is the ETag.
#[utoipa::path(get, path = "/v1/vdisks/{name}", params(("name" = String, Path)),
    responses((status = 200, body = Vdisk), (status = "4XX", body = Problem, content_type = "application/problem+json"),
    (status = "5XX", body = Problem, content_type = "application/problem+json")))]
async fn vdisk(State(api): State<Api>, Name(name): Name) -> Result<Response, Refusal> {
    let found = api.ask_seen(move |server, plane, seen| plane.vdisk(server, seen, &name)).await??;
    let tag = found.spec.as_ref().map(tag);
    let mut answer = Json(found).into_response();
    if let Some(tag) = tag.and_then(|tag| tag.parse().ok()) {
        answer.headers_mut().insert(header::ETAG, tag);
    }
    Ok(answer)
}

/// Makes a virtual disk. Repeating a request does nothing.
#[utoipa::path(put, path = "/v1/vdisks/{name}", params(("name" = String, Path)),
    request_body = VdiskSpec, responses((status = 201, body = VdiskSpec), (status = 200),
    (status = "4XX", body = Problem, content_type = "application/problem+json"),
    (status = "5XX", body = Problem, content_type = "application/problem+json")))]
async fn put_vdisk(
    State(api): State<Api>,
    Extension(by): Extension<Caller>,
    Name(name): Name,
    body: Body,
) -> Result<Response, Refusal> {
    let spec: VdiskSpec = read(body)?;
    matches_name(&name, &spec.name)?;
    let answer = spec.clone();
    let made = api.create(spec, by).await?;
    Ok((status(made), [(header::ETAG, tag(&answer))], Json(answer)).into_response())
}

/// Changes a virtual disk: its contract, or a larger size. With If-Match, only if it is still the one
/// that was seen.
#[utoipa::path(patch, path = "/v1/vdisks/{name}", params(("name" = String, Path),
    ("If-Match" = Option<String>, Header)), request_body = VdiskChange,
    responses((status = 200, body = VdiskSpec), (status = "4XX", body = Problem, content_type = "application/problem+json"),
    (status = "5XX", body = Problem, content_type = "application/problem+json")))]
async fn change_vdisk(
    State(api): State<Api>,
    Extension(by): Extension<Caller>,
    Name(name): Name,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Refusal> {
    let (change, seen): (VdiskChange, _) = (read(body)?, seen(&headers));
    let change = move |server: &mut Server, plane: &mut Plane| {
        plane.change_vdisk(server, &name, (change, seen.as_deref()), &by)
    };
    let spec = api.ask(change).await??;
    Ok(([(header::ETAG, tag(&spec))], Json(spec)).into_response())
}

/// Makes another virtual disk with the data that this one has now: each write that was acknowledged before
/// is in it. `name` is its name; it is as large, and best effort but for what the body says. Repeating a
/// request does nothing.
#[utoipa::path(post, path = "/v1/vdisks/{name}/snapshot", params(("name" = String, Path)),
    request_body = VdiskChange, responses((status = 201, body = VdiskSpec),
    (status = 200, body = VdiskSpec),
    (status = "4XX", body = Problem, content_type = "application/problem+json"),
    (status = "5XX", body = Problem, content_type = "application/problem+json")))]
async fn snapshot_vdisk(
    State(api): State<Api>,
    Extension(by): Extension<Caller>,
    Name(name): Name,
    body: Body,
) -> Result<Response, Refusal> {
    let (made, spec) = api.snapshot(name, read(body)?, by).await?;
    Ok((status(made), [(header::ETAG, tag(&spec))], Json(spec)).into_response())
}

/// Deletes a virtual disk and its data.
#[utoipa::path(delete, path = "/v1/vdisks/{name}", params(("name" = String, Path),
    ("If-Match" = Option<String>, Header)),
    responses((status = 204), (status = "4XX", body = Problem, content_type = "application/problem+json"),
    (status = "5XX", body = Problem, content_type = "application/problem+json")))]
async fn delete_vdisk(
    State(api): State<Api>,
    Extension(by): Extension<Caller>,
    Name(name): Name,
    headers: HeaderMap,
) -> Result<StatusCode, Refusal> {
    api.remove((name, seen(&headers)), by).await?;
    Ok(StatusCode::NO_CONTENT)
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Last {
    seconds: Option<f64>,
}

/// Reasons that held a virtual disk back.
#[utoipa::path(get, path = "/v1/vdisks/{name}/why", params(("name" = String, Path),
    ("seconds" = Option<f64>, Query)),
    responses((status = 200, body = Held), (status = "4XX", body = Problem, content_type = "application/problem+json"),
    (status = "5XX", body = Problem, content_type = "application/problem+json")))]
async fn why(
    State(api): State<Api>,
    Name(name): Name,
    last: Result<Query<Last>, QueryRejection>,
) -> Result<Json<Held>, Refusal> {
    let seconds = last?.seconds.unwrap_or(10.0);
    if !(seconds.is_finite() && seconds >= 0.0) {
        let why = format!("seconds = {seconds}: a number of seconds, 0 or more, is possible");
        return Err(Refusal::bad_request(why));
    }
    let find = move |server: &mut Server, _: &mut Plane, seen: &Sampler| {
        let vdisk = server.vdisks().iter().find(|vdisk| vdisk.name == name);
        let vdisk = vdisk.ok_or_else(|| Refusal::no_vdisk(&name))?;
        Ok(Json(seen.held(vdisk.id(), seconds)))
    };
    api.ask_seen(find).await?
}

/// Whether a virtual disk would fit. Changes nothing.
#[utoipa::path(post, path = "/v1/plan", request_body = VdiskSpec,
    responses((status = 200, body = Plan), (status = "4XX", body = Problem, content_type = "application/problem+json"),
    (status = "5XX", body = Problem, content_type = "application/problem+json")))]
async fn plan(State(api): State<Api>, body: Body) -> Result<Json<Plan>, Refusal> {
    let spec: VdiskSpec = read(body)?;
    Ok(Json(api.ask(move |server, plane| plane.plan(server, &spec)).await??))
}

/// A number that the document says is one of 63 bits.
fn signed(key: &str, value: Option<u64>) -> Result<u64, Refusal> {
    let value = value.unwrap_or(0);
    if i64::try_from(value).is_ok() {
        return Ok(value);
    }
    Err(Refusal::bad_request(format!("{key} = {value}: 0 to {} is possible", i64::MAX)))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct AfterEvent {
    after: Option<u64>,
}

/// The first 512 of the events that are kept, after the one of a number: the next ones are after the last one of
/// these.
#[utoipa::path(get, path = "/v1/events/kept", params(("after" = Option<u64>, Query)),
    responses((status = 200, body = [Event]), (status = "4XX", body = Problem, content_type = "application/problem+json"),
    (status = "5XX", body = Problem, content_type = "application/problem+json")))]
async fn kept_events(
    State(api): State<Api>,
    after: Result<Query<AfterEvent>, QueryRejection>,
) -> Result<Json<Vec<Event>>, Refusal> {
    let after = signed("after", after?.after)?;
    Ok(Json(api.events.after(after, ANSWER_MAX)))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A condition that could not be read was left out, and the change was made whatever had happened.
    #[test]
    fn a_tag_that_is_no_text_is_not_left_out() {
        let mut headers = HeaderMap::new();
        assert_eq!(seen(&headers), None);
        headers.insert(header::IF_MATCH, header::HeaderValue::from_bytes(b"\xff").unwrap());
        assert!(seen(&headers).is_some_and(|tag| tag != "*"));
    }
}

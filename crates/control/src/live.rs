//! Streams of events and of live figures (SSE). A reader takes what is there when it comes: one that is
//! stuck holds up nobody, and no more than one message waits for it here.

use std::convert::Infallible;
use std::sync::Arc;

use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::sse::{Event as SseEvent, KeepAlive, Sse};
use disktime_api::Event;
use futures_util::stream::{self, Stream, StreamExt};
use tokio::sync::watch;

use crate::ask::Api;
use crate::events::{Events, Second};

/// Events of one answer.
const EVENTS_MOST: usize = 16;

/// Events as they happen, after the one that `Last-Event-ID` names.
#[utoipa::path(get, path = "/v1/events", params(("Last-Event-ID" = Option<String>, Header)),
    responses((status = 200, body = String, content_type = "text/event-stream")))]
pub async fn events(
    State(api): State<Api>,
    headers: HeaderMap,
) -> Sse<impl Stream<Item = Result<SseEvent, Infallible>>> {
    let last = headers.get("last-event-id").and_then(|id| id.to_str().ok()?.parse().ok());
    let last = last.unwrap_or_else(|| api.events.last());
    Sse::new(happening(&api.events, last).map(Ok)).keep_alive(KeepAlive::default())
}

/// The last second of all devices, each second (`sample`, a `Live`), and events as they happen.
#[utoipa::path(get, path = "/v1/live",
    responses((status = 200, body = String, content_type = "text/event-stream")))]
pub async fn live(State(api): State<Api>) -> Sse<impl Stream<Item = Result<SseEvent, Infallible>>> {
    let next = async move |mut seconds: watch::Receiver<Second>| {
        loop {
            seconds.changed().await.ok()?;
            let second = seconds.borrow_and_update().clone();
            if let Some(second) = second {
                return Some((SseEvent::default().event("sample").data(&*second), seconds));
            }
        }
    };
    let samples = stream::unfold(api.seconds.subscribe(), next);
    let events = happening(&api.events, api.events.last());
    let both = stream::select(samples.boxed(), events.boxed());
    Sse::new(both.map(Ok)).keep_alive(KeepAlive::default())
}

fn happening(events: &Arc<Events>, last: u64) -> impl Stream<Item = SseEvent> + use<> {
    let next = async move |(events, mut news, last): (Arc<Events>, watch::Receiver<u64>, u64)| {
        loop {
            // Marked before it is read: an event that comes in between is news.
            news.mark_unchanged();
            let found = events.after(last, EVENTS_MOST);
            if let Some(newest) = found.last() {
                let last = newest.id;
                return Some((stream::iter(found), (events, news, last)));
            }
            news.changed().await.ok()?;
        }
    };
    let news = events.news();
    stream::unfold((Arc::clone(events), news, last), next).flatten().map(|event: Event| {
        let data = serde_json::to_string(&event).unwrap_or_default();
        SseEvent::default().id(event.id.to_string()).event(event.kind).data(data)
    })
}

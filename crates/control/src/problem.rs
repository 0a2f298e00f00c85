//! Refusals, and how they look over HTTP: problem+json with the field, its value and what is allowed.

use std::time::Duration;

use axum::body::Bytes;
use axum::extract::rejection::{BytesRejection, QueryRejection};
use axum::extract::{FromRequest, FromRequestParts, Path, Request};
use axum::http::request::Parts;
use axum::http::{Method, StatusCode, header};
use axum::response::{IntoResponse, Response};
use disktime_api::Problem;
use disktime_server::{AlterError, ConfigError, ReloadError, StartError, VdiskError};

use crate::state::StateError;

/// How long a request's body may take.
const BODY: Duration = Duration::from_secs(10);

/// A request's body that was neither too long nor took too long.
pub(crate) struct Body(pub Bytes);

impl<S: Send + Sync> FromRequest<S> for Body {
    type Rejection = Refusal;

    async fn from_request(request: Request, state: &S) -> Result<Self, Refusal> {
        match tokio::time::timeout(BODY, Bytes::from_request(request, state)).await {
            Ok(body) => Ok(Self(body?)),
            Err(_) => Err(Refusal::new(
                StatusCode::REQUEST_TIMEOUT,
                format!("the body: it took more than {} s: send it again", BODY.as_secs()),
            )),
        }
    }
}

/// The name in an address.
pub(crate) struct Name(pub String);

impl<S: Send + Sync> FromRequestParts<S> for Name {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Refusal> {
        match Path::from_request_parts(parts, state).await {
            Ok(Path(name)) => Ok(Self(name)),
            Err(error) => Err(Refusal::bad_request(format!("the address: {}", error.body_text()))),
        }
    }
}

/// Why something was not done.
#[derive(Clone, PartialEq, Debug)]
pub struct Refusal(pub Box<Problem>);

impl Refusal {
    /// A refusal with this status and text.
    pub fn new(status: StatusCode, detail: String) -> Self {
        let title = status.canonical_reason().unwrap_or_default().to_owned();
        let status = status.as_u16();
        Self(Box::new(Problem { status, title, detail, ..Problem::default() }))
    }

    /// The request can't be read.
    pub fn bad_request(detail: String) -> Self {
        Self::new(StatusCode::BAD_REQUEST, detail)
    }

    /// Nothing can be changed here.
    pub fn read_only(detail: String) -> Self {
        Self::new(StatusCode::FORBIDDEN, detail)
    }

    /// Something else is there.
    pub fn conflict(detail: String) -> Self {
        Self::new(StatusCode::CONFLICT, detail)
    }

    /// Nothing of this name is there.
    pub fn no_vdisk(name: &str) -> Self {
        AlterError::NoVdisk(name.to_owned()).into()
    }

    /// Nothing of this name is there.
    pub fn no_device(name: &str) -> Self {
        Self::not_found(format!(
            "no device {name}: `disktime device list` shows those that there are"
        ))
    }

    /// The caller has seen an older state.
    pub fn stale(name: &str, now: &str) -> Self {
        Self::new(
            StatusCode::PRECONDITION_FAILED,
            format!("vdisk {name} has changed since: its tag is {now}; look again and repeat"),
        )
    }

    /// A size that would lose data.
    pub fn smaller(name: &str, size: &str, now: u64) -> Self {
        let detail = format!(
            "vdisk {name}: size = \"{size}\": it has {now} bytes, and data beyond would be lost: if they \
             may be, ask with \"shrink\": true"
        );
        let mut refusal = Self::new(StatusCode::UNPROCESSABLE_ENTITY, detail);
        refusal.0.field = Some("size".to_owned());
        refusal.0.value = Some(size.to_owned());
        refusal.0.allowed = Some(format!("at least {now} bytes"));
        refusal
    }

    /// Too much is asked at once.
    pub fn busy() -> Self {
        let detail = "the daemon has too many requests waiting: repeat this one in a moment";
        Self::new(StatusCode::SERVICE_UNAVAILABLE, detail.to_owned())
    }

    /// The address is there for other methods.
    pub fn not_allowed(method: &Method) -> Self {
        let detail = format!("{method} is not for this address: see /v1/openapi.json");
        Self::new(StatusCode::METHOD_NOT_ALLOWED, detail)
    }

    /// Nothing has this address.
    pub fn not_found(detail: String) -> Self {
        Self::new(StatusCode::NOT_FOUND, detail)
    }

    /// As an error says, with the largest reservation that would fit, if it is one of admission.
    pub fn with_room(error: AlterError, room: impl FnOnce() -> f64) -> Self {
        let is_admission = matches!(
            &error,
            AlterError::Refused { error: VdiskError::Refused(_), .. }
                | AlterError::Config(ConfigError::Overbooked { .. })
                | AlterError::Start(StartError::Engine { .. })
                | AlterError::Change(ReloadError::Refused { .. })
        );
        let mut refusal = Self::from(error);
        if is_admission {
            let room = room();
            refusal.0.would_fit = Some(room);
            refusal.0.detail =
                format!("{}; a reservation of {:.4}% would fit", refusal.0.detail, room * 100.0);
        }
        refusal
    }

    /// A device is not as it should be.
    pub fn of_start(error: StartError) -> Self {
        AlterError::Start(error).into()
    }

    fn of_config(error: &ConfigError) -> Self {
        let mut refusal = Self::new(StatusCode::UNPROCESSABLE_ENTITY, error.to_string());
        if let ConfigError::Value(error) = error {
            refusal.0.field = Some(error.key.clone());
            refusal.0.value = Some(error.value.clone());
            refusal.0.allowed = Some(error.allowed.clone());
        }
        refusal
    }
}

impl From<QueryRejection> for Refusal {
    fn from(error: QueryRejection) -> Self {
        Self::bad_request(format!("the part of the address after `?`: {}", error.body_text()))
    }
}

impl From<BytesRejection> for Refusal {
    fn from(error: BytesRejection) -> Self {
        Self::new(error.status(), format!("the body: {}", error.body_text()))
    }
}

impl From<ConfigError> for Refusal {
    fn from(error: ConfigError) -> Self {
        Self::of_config(&error)
    }
}

impl From<AlterError> for Refusal {
    fn from(error: AlterError) -> Self {
        let status = match &error {
            AlterError::NoDevice { .. } | AlterError::NoVdisk(_) => StatusCode::NOT_FOUND,
            AlterError::Taken { .. }
            | AlterError::NotEmpty { .. }
            | AlterError::Connected { .. } => StatusCode::CONFLICT,
            AlterError::Config(error) => return Self::of_config(error),
            AlterError::Silent(_)
            | AlterError::Deaf(_)
            | AlterError::Slow { .. }
            | AlterError::Coming(_) => StatusCode::SERVICE_UNAVAILABLE,
            AlterError::Refused { error: VdiskError::Ends, .. } => StatusCode::SERVICE_UNAVAILABLE,
            AlterError::Refused { error: VdiskError::Connected(_) | VdiskError::Held, .. } => {
                StatusCode::CONFLICT
            }
            AlterError::Start(error) if error.lacks_room() => {
                let detail =
                    format!("{error}: make room there, or make it writable, and repeat this");
                return Self::new(StatusCode::INSUFFICIENT_STORAGE, detail);
            }
            AlterError::Start(StartError::Descriptors { .. }) => StatusCode::SERVICE_UNAVAILABLE,
            AlterError::Change(ReloadError::Tls(_)) => StatusCode::INTERNAL_SERVER_ERROR,
            AlterError::Start(error) if !error.is_input() => StatusCode::INTERNAL_SERVER_ERROR,
            AlterError::Start(_)
            | AlterError::Fixed { .. }
            | AlterError::Refused { .. }
            | AlterError::Change(_) => StatusCode::UNPROCESSABLE_ENTITY,
        };
        Self::new(status, error.to_string())
    }
}

impl From<StateError> for Refusal {
    fn from(error: StateError) -> Self {
        Self::new(StatusCode::INSUFFICIENT_STORAGE, error.to_string())
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let status = StatusCode::from_u16(self.0.status);
        let status = status.unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let body = serde_json::to_vec(&*self.0).unwrap_or_default();
        let kind = [(header::CONTENT_TYPE, "application/problem+json")];
        if status == StatusCode::UNAUTHORIZED {
            // RFC 9110, 15.5.2: an answer of 401 says how to ask.
            return (status, kind, [(header::WWW_AUTHENTICATE, "Bearer realm=\"disktime\"")], body)
                .into_response();
        }
        (status, kind, body).into_response()
    }
}

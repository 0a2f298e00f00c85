//! The page.

use axum::Router;

use crate::http::Api;

/// Its addresses.
pub fn routes() -> Router<Api> {
    Router::new()
}

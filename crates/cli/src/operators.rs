//! The control API's sockets and thread, as `serve` and `demo --web` start them.

use std::io::ErrorKind;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::anyhow;
use disktime_control::{Control, Plane, Sockets, TokenError, Tokens, Truth, Web};
use disktime_server::config::WebConfig;
use disktime_server::{Config, Server, Tls, TlsFiles, bind_control, bind_web};

use crate::BadInput;

/// The running control API.
pub struct Operators {
    /// Its thread.
    pub control: Control,
    /// Its part beside the server.
    pub plane: Plane,
    /// The address of its page.
    pub page: Option<Page>,
}

/// The address where browsers find the page.
pub struct Page {
    /// The address.
    pub address: SocketAddr,
    /// Its protection, if it has one.
    pub tls: Option<Arc<Tls>>,
    /// The tokens that callers show.
    pub tokens: Arc<Tokens>,
}

impl Page {
    /// Its URL.
    #[must_use]
    pub fn url(&self) -> String {
        let scheme = if self.tls.is_some() { "https" } else { "http" };
        format!("{scheme}://{}/", self.address)
    }
}

/// The sockets that a configuration asks for.
pub struct Wanted {
    control: Option<PathBuf>,
    web: Option<WebConfig>,
    tls_files: Option<TlsFiles>,
}

impl Wanted {
    /// The sockets of a configuration, which then may go to the server.
    pub fn of(config: &Config) -> Self {
        let Config { control, web, tls_files, .. } = config;
        Self { control: control.clone(), web: web.clone(), tls_files: tls_files.clone() }
    }
}

/// Whether the file of tokens that a configuration names can be used; a start makes one that is not there.
///
/// # Errors
/// If it can't.
pub fn check(config: &Config) -> Result<(), TokenError> {
    let Some(WebConfig { tokens, .. }) = &config.web else { return Ok(()) };
    let parent = tokens.parent();
    let can_be_made = parent == config.state.as_deref() || parent.is_some_and(Path::is_dir);
    match Tokens::look(tokens) {
        Err(TokenError::File { error, .. })
            if error.kind() == ErrorKind::NotFound && can_be_made =>
        {
            Ok(())
        }
        seen => seen,
    }
}

/// Lets operators in at the sockets that are wanted; `None` if there are none.
///
/// # Errors
/// If a socket, a certificate or the file of tokens can't be used.
pub fn open(
    config: &Wanted,
    server: &mut Server,
    truth: Truth,
) -> anyhow::Result<Option<Operators>> {
    if config.control.is_none() && config.web.is_none() {
        return Ok(None);
    }
    let unix = match &config.control {
        Some(path) => {
            let listener = bind_control(path).map_err(|error| {
                BadInput(format!("control = \"unix:{}\": {error}", path.display()))
            })?;
            Some((listener, path.as_path()))
        }
        None => None,
    };
    let (mut web, mut page) = (None, None);
    if let Some(at) = &config.web {
        let tokens = Tokens::of_file(&at.tokens).map_err(|error| BadInput(error.to_string()))?;
        let tokens = Arc::new(tokens);
        let listener = bind_web(at.address)
            .map_err(|error| BadInput(format!("control = \"tcp:{}\": {error}", at.address)))?;
        let address = listener.local_addr()?;
        let tls = config.tls_files.as_ref().map(Tls::load).transpose();
        let tls = tls.map_err(|error| BadInput(error.to_string()))?.map(Arc::new);
        page = Some(Page { address, tls: tls.clone(), tokens: Arc::clone(&tokens) });
        web = Some(Web { listener, tls, tokens });
    }
    let (control, mut plane) = Control::start(Sockets { unix, web }, truth)?;
    plane.recover(server).map_err(|refusal| anyhow!(refusal.0.detail))?;
    Ok(Some(Operators { control, plane, page }))
}

//! NBD URIs, right and wrong. The examples of `doc/uri.md` are among them.

use disktime_client::{Address, Uri, UriError};
use proptest::prelude::*;

fn parse(uri: &str) -> Result<Uri, UriError> {
    uri.parse()
}

fn tcp(host: &str, port: u16, export: &str) -> Uri {
    Uri { address: Address::Tcp { host: host.into(), port }, export: export.into() }
}

fn unix(path: &str, export: &str) -> Uri {
    Uri { address: Address::Unix { path: path.into() }, export: export.into() }
}

#[test]
fn every_form_is_understood() {
    for (text, uri) in [
        ("nbd://example.com:10809/export", tcp("example.com", 10809, "export")),
        ("nbd://example.com/disk", tcp("example.com", 10809, "disk")),
        ("nbd://example.com/", tcp("example.com", 10809, "")),
        ("nbd://example.com", tcp("example.com", 10809, "")),
        ("nbd://example.com:/x", tcp("example.com", 10809, "x")),
        ("nbd://example.com//disk", tcp("example.com", 10809, "/disk")),
        ("nbd://example.com/hello%20world", tcp("example.com", 10809, "hello world")),
        ("NBD://127.0.0.1:1/a/b", tcp("127.0.0.1", 1, "a/b")),
        ("nbd://[::1]:65535/d", tcp("::1", 65535, "d")),
        ("nbd://[fe80::1]", tcp("fe80::1", 10809, "")),
        ("nbd+unix:///disk?socket=sock", unix("sock", "disk")),
        ("nbd+unix://?socket=/run/d.sock", unix("/run/d.sock", "")),
        ("nbd+unix:///%ce%b1%2f?socket=/a%20b%26c", unix("/a b&c", "α/")),
        ("nbd+unix:///?&socket=/s&", unix("/s", "")),
    ] {
        assert_eq!(parse(text).as_ref(), Ok(&uri), "{text}");
        assert_eq!(parse(&uri.to_string()).as_ref(), Ok(&uri), "{text}, displayed");
    }
}

#[test]
fn every_fault_is_named_with_its_value() {
    let long = "x".repeat(4097);
    for (text, message) in [
        ("disk", "\"disk\" has no scheme: begin with nbd:// or nbd+unix://"),
        ("nbds://h/", "scheme \"nbds\": allowed are nbd and nbd+unix (TLS isn't spoken)"),
        ("http://h/", "scheme \"http\": allowed are nbd and nbd+unix (TLS isn't spoken)"),
        (
            "nbd:///disk",
            "host \"\": a name, an IPv4 address or an IPv6 address in brackets is needed",
        ),
        (
            "nbd://[::1",
            "host \"[::1\": a name, an IPv4 address or an IPv6 address in brackets is needed",
        ),
        (
            "nbd://[::1]9",
            "host \"[::1]9\": a name, an IPv4 address or an IPv6 address in brackets is needed",
        ),
        (
            "nbd://[x]",
            "host \"[x]\": a name, an IPv4 address or an IPv6 address in brackets is needed",
        ),
        ("nbd://h:0/", "port \"0\": allowed are 1 to 65535"),
        ("nbd://h:65536/", "port \"65536\": allowed are 1 to 65535"),
        ("nbd://h:nbd/", "port \"nbd\": allowed are 1 to 65535"),
        (
            "nbd://al@h/",
            "user \"al\": users belong to TLS, which isn't spoken; leave out up to the @",
        ),
        ("nbd://h/?socket=/s", "parameter \"socket\": allowed is socket, with nbd+unix"),
        ("nbd+unix:///?tls-type=psk", "parameter \"tls-type\": allowed is socket, with nbd+unix"),
        (
            "nbd+unix://h/d?socket=/s",
            "host \"h\": must be empty for nbd+unix, as in nbd+unix:///disk?socket=/path",
        ),
        ("nbd+unix:///d", "socket: nbd+unix needs it, as in nbd+unix:///disk?socket=/path"),
        ("nbd+unix:///d?socket=", "socket: nbd+unix needs it, as in nbd+unix:///disk?socket=/path"),
        ("nbd+unix:///?socket=%00a", "socket \"%00a\": a path without NUL is allowed, once"),
        ("nbd+unix:///?socket=a&socket=b", "socket \"b\": a path without NUL is allowed, once"),
        ("nbd://h/a#b", "fragment \"b\": not allowed; a # in a name is written %23"),
        ("nbd://h/100%", "export \"100%\": a % is followed by two hexadecimal digits"),
        ("nbd://h/%+1", "export \"%+1\": a % is followed by two hexadecimal digits"),
        ("nbd+unix:///?socket=%zz", "socket \"%zz\": a % is followed by two hexadecimal digits"),
        ("nbd://h/%ff", "export \"%ff\": allowed is UTF-8 without NUL of up to 4096 bytes"),
        ("nbd://h/a%00", "export \"a%00\": allowed is UTF-8 without NUL of up to 4096 bytes"),
    ] {
        assert_eq!(parse(text).map_err(|error| error.to_string()), Err(message.into()), "{text}");
    }
    assert_eq!(parse(&format!("nbd://h/{long}")), Err(UriError::Export { value: long }));
}

proptest! {
    #[test]
    fn a_displayed_uri_is_parsed(export in "[^\0]{0,40}", path in "[^\0]{1,40}", port in 1..=u16::MAX) {
        for uri in [unix(&path, &export), tcp("h", port, &export), tcp("::1", port, &export)] {
            prop_assert_eq!(parse(&uri.to_string()), Ok(uri));
        }
    }

    #[test]
    fn no_string_panics(text in ".{0,60}", rest in ".{0,60}") {
        let _ = parse(&text);
        let _ = parse(&format!("nbd+unix://{rest}"));
        let _ = parse(&format!("nbd://{rest}"));
    }
}

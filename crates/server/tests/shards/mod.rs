//! How many threads the devices of a suite have: one, or several where the suite runs once more for these
//! (`e2e_shards.rs`).
#![allow(dead_code, unreachable_pub, reason = "each test crate uses its part")]

use disktime_server::Config;
use disktime_server::config::ConfigError;

/// A configuration of a suite.
pub fn parse(text: &str) -> Result<Config, ConfigError> {
    if env!("CARGO_CRATE_NAME") == "e2e_shards" {
        let text = text.replace("[[device]]\n", "[[device]]\nshards = 3\n");
        // Two threads more need 16 MiB more for themselves.
        return Config::parse(&text.replace("memory = \"20MiB\"", "memory = \"37MiB\""));
    }
    Config::parse(text)
}

//! Which proxy the environment names for a server: what we decide and what Go decides, case by case.

/// Variables of the environment, a server, and the proxy on the way to it; empty without one.
pub type Rule = (&'static [(&'static str, &'static str)], &'static str, &'static str);

const PROXY: &str = "http://proxy:3128";

/// With one proxy for `https` and these exceptions.
const fn excepted(no_proxy: &'static [(&'static str, &'static str)], server: &'static str) -> Rule {
    (no_proxy, server, "")
}

const fn proxied(no_proxy: &'static [(&'static str, &'static str)], server: &'static str) -> Rule {
    (no_proxy, server, PROXY)
}

macro_rules! except {
    ($text:literal) => {
        &[("HTTPS_PROXY", "http://proxy:3128"), ("NO_PROXY", $text)]
    };
}

pub const RULES: &[Rule] = &[
    // Which variable counts.
    (&[], "https://api:6443", ""),
    (&[("HTTPS_PROXY", "http://proxy:3128")], "https://api:6443", PROXY),
    (&[("https_proxy", "http://proxy:3128")], "https://api:6443", PROXY),
    (&[("HTTPS_PROXY", "http://proxy:3128"), ("https_proxy", "http://other:1")], "https://api:6443", PROXY),
    (&[("HTTPS_PROXY", ""), ("https_proxy", "http://proxy:3128")], "https://api:6443", PROXY),
    (&[("HTTPS_PROXY", "http://proxy:3128")], "http://api:8080", ""),
    (&[("HTTP_PROXY", "http://proxy:3128")], "https://api:6443", ""),
    (&[("HTTP_PROXY", "http://proxy:3128")], "http://api:8080", PROXY),
    (&[("http_proxy", "http://proxy:3128")], "http://api:8080", PROXY),
    (&[("ALL_PROXY", "http://proxy:3128")], "https://api:6443", ""),
    (&[("HTTPS_PROXY", "http://proxy:3128"), ("no_proxy", "api")], "https://api:6443", ""),
    (
        &[("HTTPS_PROXY", "http://proxy:3128"), ("NO_PROXY", "other"), ("no_proxy", "api")],
        "https://api:6443",
        PROXY,
    ),
    // How a proxy is written.
    (&[("HTTPS_PROXY", "proxy:3128")], "https://api:6443", PROXY),
    (&[("HTTPS_PROXY", "127.0.0.1:3128")], "https://api:6443", "http://127.0.0.1:3128"),
    (&[("HTTPS_PROXY", "https://proxy:3129")], "https://api:6443", "https://proxy:3129"),
    (&[("HTTPS_PROXY", "socks5://proxy:1080")], "https://api:6443", "socks5://proxy:1080"),
    (&[("HTTPS_PROXY", "HTTP://proxy:3128")], "https://api:6443", PROXY),
    (&[("HTTPS_PROXY", "http://[fd00::1]:3128")], "https://api:6443", "http://[fd00::1]:3128"),
    // This machine is never behind a proxy.
    proxied(except!(""), "https://api:6443"),
    excepted(except!(""), "https://localhost:6443"),
    excepted(except!(""), "https://127.0.0.1:6443"),
    excepted(except!(""), "https://127.8.9.10:6443"),
    excepted(except!(""), "https://[::1]:6443"),
    excepted(except!(""), "https://[::ffff:127.0.0.1]:6443"),
    proxied(except!(""), "https://LOCALHOST:6443"),
    proxied(except!(""), "https://localhost.example:6443"),
    // Everything.
    excepted(except!("*"), "https://api:6443"),
    excepted(except!("a, * ,b"), "https://10.0.0.1:6443"),
    // Lists.
    excepted(except!("a,api"), "https://api:6443"),
    excepted(except!(" a , API "), "https://api:6443"),
    excepted(except!("a,,api,"), "https://api:6443"),
    proxied(except!("a,"), "https://api:6443"),
    proxied(except!(","), "https://api:6443"),
    proxied(except!("a api"), "https://api:6443"),
    // Domains.
    excepted(except!("example.io"), "https://example.io:6443"),
    excepted(except!("example.io"), "https://api.example.io:6443"),
    excepted(except!("example.io"), "https://API.EXAMPLE.IO:6443"),
    proxied(except!("example.io"), "https://myexample.io:6443"),
    proxied(except!(".example.io"), "https://example.io:6443"),
    excepted(except!(".example.io"), "https://a.api.example.io:6443"),
    proxied(except!("*.example.io"), "https://example.io:6443"),
    excepted(except!("*.example.io"), "https://api.example.io:6443"),
    proxied(except!("*example.io"), "https://api.example.io:6443"),
    proxied(except!("api.*"), "https://api.example.io:6443"),
    proxied(except!("https://example.io"), "https://example.io:6443"),
    // Ports.
    excepted(except!("example.io:6443"), "https://api.example.io:6443"),
    proxied(except!("example.io:443"), "https://api.example.io:6443"),
    excepted(except!("example.io:443"), "https://example.io"),
    excepted(except!("example.io:"), "https://example.io:6443"),
    proxied(except!(":6443"), "https://example.io:6443"),
    excepted(except!("10.0.0.1:6443"), "https://10.0.0.1:6443"),
    proxied(except!("10.0.0.1:443"), "https://10.0.0.1:6443"),
    excepted(except!("[fd00::1]:6443"), "https://[fd00::1]:6443"),
    proxied(except!("[fd00::1]:443"), "https://[fd00::1]:6443"),
    // Addresses and ranges.
    excepted(except!("10.0.0.1"), "https://10.0.0.1:6443"),
    proxied(except!("10.0.0.1"), "https://10.0.0.11:6443"),
    excepted(except!("fd00::1"), "https://[fd00:0::1]:6443"),
    proxied(except!("[fd00::1]"), "https://[fd00::1]:6443"),
    excepted(except!("10.0.0.0/8"), "https://10.96.0.1:6443"),
    excepted(except!("10.1.2.3/8"), "https://10.96.0.1:6443"),
    proxied(except!("10.0.0.0/8"), "https://11.0.0.1:6443"),
    proxied(except!("10.0.0.0/8"), "https://api:6443"),
    proxied(except!("10.0.0.0/33"), "https://10.96.0.1:6443"),
    excepted(except!("fd00::/8"), "https://[fd12::1]:6443"),
    excepted(except!("0.0.0.0/0"), "https://10.96.0.1:6443"),
    excepted(except!("::ffff:10.0.0.1"), "https://10.0.0.1:6443"),
    excepted(except!("10.0.0.1"), "https://[::ffff:10.0.0.1]:6443"),
    proxied(except!("10.0"), "https://10.0.0.1:6443"),
    proxied(except!("0.0.1"), "https://10.0.0.1:6443"),
];

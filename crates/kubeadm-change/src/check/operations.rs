//! What kubeadm refuses of the documents that describe one run of it on one node: InitConfiguration, JoinConfiguration,
//! UpgradeConfiguration, ResetConfiguration. Owns the rules over their values; must not know a change. Tokens and keys are not in
//! its words.
//!
//! Source: kubeadm 1.36.3 `apis/kubeadm/validation/validation.go` (`ValidateInitConfiguration`, `ValidateJoinConfiguration`,
//! `ValidateUpgradeConfiguration`, `ValidateResetConfiguration`, `ValidateIgnorePreflightErrors`), after the defaults of
//! `apis/kubeadm/v1beta4/defaults.go`, `apis/bootstraptoken/v1/defaults.go` and `util/config/initconfiguration.go`
//! (`SetNodeRegistrationDynamicDefaults`, `SetAPIEndpointDynamicDefaults`).

use std::net::IpAddr;

use serde_json::Value;

use super::super::document::DocumentKind;
use super::super::go_url;
use super::super::network::{is_dns_name, parse_ip};
use super::document_check::DocumentCheck;

const PULL_POLICIES: [&str; 4] = ["", "Always", "IfNotPresent", "Never"];
const USAGES: [&str; 2] = ["signing", "authentication"];
const UNMOUNT_FLAGS: [&str; 4] = ["MNT_FORCE", "MNT_DETACH", "MNT_EXPIRE", "UMOUNT_NOFOLLOW"];
const GROUPS: &str = "system:bootstrappers:";
const GROUP_LENGTH_MAX: usize = 256;
/// A key of 32 bytes in digits of base 16.
const CERTIFICATE_KEY_LENGTH: usize = 64;
const TOKEN: &str = "is not a token; expected 6 letters or digits, a dot, and 16 more, in lower case";

pub(super) fn check(check: &mut DocumentCheck<'_>) {
    match check.document.kind {
        DocumentKind::Init => check.init(),
        DocumentKind::Join => check.join(),
        DocumentKind::Upgrade => check.upgrade(),
        DocumentKind::Reset => check.reset(),
        DocumentKind::Cluster | DocumentKind::Kubelet | DocumentKind::Proxy => {}
    }
}

impl DocumentCheck<'_> {
    fn init(&mut self) {
        self.node_registration();
        let tokens = self.value(&["bootstrapTokens"]).as_array().cloned().unwrap_or_default();
        for (index, token) in tokens.iter().enumerate() {
            self.bootstrap_token(&format!("bootstrapTokens[{index}]"), token);
        }
        self.endpoint(&["localAPIEndpoint"]);
        self.certificate_key(&["certificateKey"]);
    }

    fn join(&mut self) {
        self.discovery();
        self.node_registration();
        if self.value(&["controlPlane"]).is_object() {
            self.endpoint(&["controlPlane", "localAPIEndpoint"]);
            self.certificate_key(&["controlPlane", "certificateKey"]);
        }
        let authority = ["caCertPath"];
        if self.text(&authority).is_some_and(|path| !path.starts_with('/') || !path.ends_with(".crt")) {
            self.error(&authority, "an absolute path that ends with .crt");
        }
    }

    fn upgrade(&mut self) {
        for part in ["apply", "node"] {
            // An empty folder is refused too.
            let is_wrong = self.value(&[part, "patches"]).is_object()
                && !self.text(&[part, "patches", "directory"]).is_some_and(|path| path.starts_with('/'));
            if is_wrong {
                self.error(&[part, "patches", "directory"], "an absolute path");
            }
            self.pull_policy(&[part, "imagePullPolicy"]);
        }
        for part in ["apply", "node", "plan"] {
            self.preflight_errors(&[part, "ignorePreflightErrors"]);
        }
    }

    fn reset(&mut self) {
        self.socket(&["criSocket"]);
        let folder = ["certificatesDir"];
        if self.text(&folder).is_some_and(|path| !path.starts_with('/')) {
            self.error(&folder, "an absolute path");
        }
        for (index, flag) in self.texts(&["unmountFlags"]).iter().enumerate() {
            if !UNMOUNT_FLAGS.contains(&flag.as_str()) {
                let words = UNMOUNT_FLAGS.join(", ");
                self.refuse(
                    &format!("unmountFlags[{index}]"),
                    &format!("is `{flag}`; expected one of {words}"),
                );
            }
        }
        self.preflight_errors(&["ignorePreflightErrors"]);
    }

    fn node_registration(&mut self) {
        let name = ["nodeRegistration", "name"];
        // kubeadm cuts off blanks and lowers it before it looks at it.
        if self.text(&name).is_some_and(|name| !is_dns_name(&name.trim().to_lowercase())) {
            self.error(&name, "a DNS name");
        }
        self.socket(&["nodeRegistration", "criSocket"]);
        self.pull_policy(&["nodeRegistration", "imagePullPolicy"]);
        self.preflight_errors(&["nodeRegistration", "ignorePreflightErrors"]);
        let flags =
            self.value(&["nodeRegistration", "kubeletExtraArgs"]).as_array().cloned().unwrap_or_default();
        for (index, _) in
            flags.iter().enumerate().filter(|(_, flag)| flag["name"].as_str().is_none_or(str::is_empty))
        {
            let path = format!("nodeRegistration.kubeletExtraArgs[{index}]");
            self.refuse(&path, "has no name; expected name and value");
        }
    }

    /// kubeadm puts `unix://` before what does not begin with `unix`.
    fn socket(&mut self, path: &[&str]) {
        let is_socket = |text: &str| {
            let url = if text.starts_with("unix") { text.to_owned() } else { format!("unix://{text}") };
            go_url::scheme_of(&url).is_some_and(|scheme| scheme == "unix")
        };
        if self.text(path).is_some_and(|text| !is_socket(text)) {
            self.error(path, "a socket such as unix:///run/containerd/containerd.sock");
        }
    }

    fn pull_policy(&mut self, path: &[&str]) {
        if self.text(path).is_some_and(|policy| !PULL_POLICIES.contains(&policy)) {
            self.error(path, &format!("one of {}", PULL_POLICIES[1..].join(", ")));
        }
    }

    fn preflight_errors(&mut self, path: &[&str]) {
        let mut names: Vec<String> = self.texts(path).iter().map(|name| name.to_lowercase()).collect();
        names.sort_unstable();
        // kubeadm gathers them in a set: `all` twice is `all` alone.
        names.dedup();
        if names.len() > 1 && names.iter().any(|name| name == "all") {
            self.refuse(&path.join("."), "has `all` beside others; expected `all` alone, or single checks");
        }
    }

    fn endpoint(&mut self, path: &[&str]) {
        let address = [path, &["advertiseAddress"]].concat();
        let is_usable = |text: &str| parse_ip(text).is_some_and(is_bindable);
        if self.text(&address).is_some_and(|text| !is_usable(text)) {
            self.error(&address, "an IP address of the node that others can reach");
        }
        let port = [path, &["bindPort"]].concat();
        // 0 stands for the default.
        if let Some(number) = self.value(&port).as_i64().filter(|number| !(0..=65535).contains(number)) {
            self.refuse(&port.join("."), &format!("is {number}; expected a port from 1 to 65535"));
        }
    }

    fn certificate_key(&mut self, path: &[&str]) {
        let is_key = |text: &str| {
            text.len() == CERTIFICATE_KEY_LENGTH && text.bytes().all(|byte| byte.is_ascii_hexdigit())
        };
        if self.text(path).is_some_and(|text| !is_key(text)) {
            self.refuse(
                &path.join("."),
                "is not a key; expected 64 digits of base 16 (`kubeadm certs certificate-key`)",
            );
        }
    }

    fn bootstrap_token(&mut self, at: &str, token: &Value) {
        // kubeadm makes a token where none is given.
        if !token["token"].is_null() && !token["token"].as_str().is_some_and(is_token) {
            self.refuse(&format!("{at}.token"), TOKEN);
        }
        let texts = |field: &str| -> Vec<&str> {
            token[field].as_array().into_iter().flatten().filter_map(Value::as_str).collect()
        };
        let (usages, groups) = (texts("usages"), texts("groups"));
        if let Some(unknown) = usages.iter().find(|usage| !USAGES.contains(usage)) {
            self.refuse(
                &format!("{at}.usages"),
                &format!("has `{unknown}`; expected {}", USAGES.join(" or ")),
            );
        }
        // Without groups a token gets kubeadm's own.
        if !usages.is_empty() && !usages.contains(&"authentication") {
            self.refuse(
                &format!("{at}.usages"),
                "lacks authentication, which a token with groups needs; kubeadm gives it a group of its own",
            );
        }
        if let Some(wrong) = groups.iter().find(|group| !is_group(group)) {
            self.refuse(
                &format!("{at}.groups"),
                &format!("has `{wrong}`; expected a name that begins with {GROUPS}"),
            );
        }
        // kubeadm gives a token a ttl before it looks.
        if !token["expires"].is_null() {
            self.refuse(
                &format!("{at}.expires"),
                "is refused beside ttl, which kubeadm sets to 24h where it is not given; give ttl alone",
            );
        }
    }

    fn discovery(&mut self) {
        let is_given = |check: &Self, part: &str| check.value(&["discovery", part]).is_object();
        let (token, file) = (is_given(self, "bootstrapToken"), is_given(self, "file"));
        if token == file {
            self.refuse("discovery", "has to have one of bootstrapToken and file, and not both");
        }
        let tls = ["discovery", "tlsBootstrapToken"];
        // Without one of both kubeadm does not look at this token.
        if self.text(&tls).is_some_and(|token| !is_token(token)) && (token || file) {
            self.refuse(&tls.join("."), TOKEN);
        }
        if token {
            self.token_discovery();
        }
        if file {
            self.file_discovery();
        }
    }

    fn token_discovery(&mut self) {
        let of = |name: &'static str| ["discovery", "bootstrapToken", name];
        if !self.text(&of("token")).is_some_and(is_token) {
            self.refuse(&of("token").join("."), TOKEN);
        }
        let endpoint = of("apiServerEndpoint");
        if !self.text(&endpoint).is_some_and(is_host_and_port) {
            self.error(&endpoint, "HOST:PORT");
        }
        let is_unsafe = *self.value(&of("unsafeSkipCAVerification")) == true;
        if self.texts(&of("caCertHashes")).is_empty() && !is_unsafe {
            self.refuse(
                &of("caCertHashes").join("."),
                "is empty; expected the hash of the authority's key, or unsafeSkipCAVerification: true",
            );
        }
    }

    fn file_discovery(&mut self) {
        let path = ["discovery", "file", "kubeConfigPath"];
        let scheme = self.text(&path).and_then(go_url::scheme_of);
        // Whether the file is there only the node knows.
        if !scheme.is_some_and(|scheme| matches!(scheme.as_str(), "" | "file" | "https")) {
            self.error(&path, "the path of a kubeconfig, or its URL with https");
        }
    }
}

/// Source: cluster-bootstrap `token/api/types.go` (`BootstrapTokenPattern`).
fn is_token(text: &str) -> bool {
    let is_part = |part: &str, length: usize| {
        part.len() == length && part.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit())
    };
    text.split_once('.').is_some_and(|(id, secret)| is_part(id, 6) && is_part(secret, 16))
}

/// Source: the same (`BootstrapGroupPattern`).
fn is_group(text: &str) -> bool {
    let is_letter = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    text.strip_prefix(GROUPS).is_some_and(|rest| {
        rest.len() <= GROUP_LENGTH_MAX
            && rest.bytes().all(|byte| is_letter(byte) || matches!(byte, b':' | b'-'))
            && rest.bytes().last().is_some_and(is_letter)
    })
}

/// Can an API server listen there? Loopback and no address at all stand for one that kubeadm looks for.
/// Source: kubeadm `util/config/common.go` (`VerifyAPIServerBindAddress`), which `kubeadm init` and `join` ask.
fn is_bindable(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => !(address.is_multicast() || address.is_link_local() || address.is_broadcast()),
        IpAddr::V6(address) => !(address.is_multicast() || address.is_unicast_link_local()),
    }
}

/// Source: Go `net.SplitHostPort`: the port may be empty.
fn is_host_and_port(text: &str) -> bool {
    match text.strip_prefix('[') {
        Some(rest) => rest.split_once(']').is_some_and(|(host, after)| {
            !host.contains('[') && after.strip_prefix(':').is_some_and(|port| !port.contains([':', '[', ']']))
        }),
        None => text.matches(':').count() == 1 && !text.contains(['[', ']']),
    }
}

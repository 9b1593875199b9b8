//! What kubeadm refuses although every field has its type: ranges, names, paths, what excludes each other. Owns
//! the rules about values of one document; must not know a change.

use std::collections::BTreeSet;

use serde_json::Value;

use super::super::accepted::flag_adds_up;
use super::super::accepted::{GateOwner, gate_refused};
use super::super::document::DocumentKind;
use super::super::go_url;
use super::super::image;
use super::super::network::{self, Cidr};
use super::super::render::Release;
use super::FindingSeverity;
use super::document_check::DocumentCheck;

/// Where each component stands in a ClusterConfiguration, with its flags and volumes below it.
pub(super) const COMPONENTS: [&[&str]; 4] =
    [&["apiServer"], &["controllerManager"], &["scheduler"], &["etcd", "local"]];
/// Volume names that kubeadm uses itself.
const OWN_VOLUMES: [&str; 10] = [
    "k8s-certs",
    "ca-certs",
    "etc-ca-certificates",
    "usr-share-ca-certificates",
    "usr-local-share-ca-certificates",
    "etc-pki",
    "kubeconfig",
    "flexvolume-dir",
    "etcd-data",
    "etcd-certs",
];
const P384: &str = "ECDSA-P384";
const ALGORITHMS: [&str; 5] = ["RSA-2048", "RSA-3072", "RSA-4096", "ECDSA-P256", P384];
/// The minor release from which on kubeadm makes such keys.
const P384_SINCE: u64 = 34;
const PATH_TYPES: [&str; 8] =
    ["", "DirectoryOrCreate", "Directory", "FileOrCreate", "File", "Socket", "CharDevice", "BlockDevice"];
/// kubeadm allows a range of at most 2^20 Service addresses.
const SERVICE_BITS_MAX: u8 = 20;
/// The minor release from which on an external etcd needs an endpoint.
const ENDPOINTS_NEEDED_SINCE: u64 = 35;
/// kubeadm allows a range of pod addresses to hold at most 2^16 ranges of nodes.
const NODE_BITS_MAX: u8 = 16;

pub(super) fn check(check: &mut DocumentCheck<'_>, minor: Option<u64>) {
    if check.document.kind != DocumentKind::Cluster {
        return;
    }
    check.networking();
    check.names();
    check.paths();
    check.etcd(minor);
    check.images();
    check.words(minor);
    check.gates(minor);
    for component in COMPONENTS {
        check.flags(component);
        check.volumes(component);
    }
}

impl DocumentCheck<'_> {
    fn networking(&mut self) {
        // kubeadm demands ten addresses, since DNS gets the tenth: 2^3 would be too few.
        for (name, least_bits) in [("serviceSubnet", 4), ("podSubnet", 4)] {
            let path = ["networking", name];
            let Some(text) = self.text(&path) else { continue };
            match Cidr::parse_pair(text) {
                None => self.error(
                    &path,
                    "one range such as 10.96.0.0/12, or one of each address family behind a comma",
                ),
                Some(ranges) if ranges.iter().any(|range| range.host_bits() < least_bits) => {
                    self.error(&path, "a larger range: kubeadm wants ten addresses and more");
                }
                Some(ranges)
                    if name == "serviceSubnet" && ranges.iter().any(|r| r.host_bits() > SERVICE_BITS_MAX) =>
                {
                    self.error(&path, "a range of at most 2^20 addresses (IPv4 /12, IPv6 /108)");
                }
                Some(_) if text.contains(char::is_whitespace) => {
                    self.error(&path, "no blank: kubeadm does not cut it off");
                }
                Some(ranges) if name == "podSubnet" => self.node_masks(&path, &ranges),
                Some(_) => {}
            }
        }
        let domain = ["networking", "dnsDomain"];
        if self.text(&domain).is_some_and(|domain| !network::is_dns_name(domain)) {
            self.error(&domain, "a DNS name in lower case");
        }
        let endpoint = ["controlPlaneEndpoint"];
        if self.text(&endpoint).is_some_and(|endpoint| network::host_of(endpoint).is_none()) {
            self.error(&endpoint, "HOST or HOST:PORT");
        }
    }

    /// Each node gets a part of the range, of a size that has to fit. Source: `ValidatePodSubnetNodeMask`.
    fn node_masks(&mut self, path: &[&str], ranges: &[Cidr]) {
        let flag = |name: &str| {
            let mut flags =
                self.document.value["controllerManager"]["extraArgs"].as_array().into_iter().flatten();
            flags.rfind(|flag| flag["name"] == name).and_then(|flag| flag["value"].as_str())
        };
        // No node gets a part of the range then, so that no size is wrong.
        if flag("allocate-node-cidrs") == Some("false") {
            return;
        }
        let is_wrong = |range: &Cidr| {
            let (name, default) = if range.address.is_ipv4() {
                ("node-cidr-mask-size-ipv4", "24")
            } else {
                ("node-cidr-mask-size-ipv6", "64")
            };
            let mask = flag(name).filter(|value| !value.is_empty()).unwrap_or(default).parse::<u8>();
            // A mask that is not a number is refused like one that does not fit.
            mask.map_or(true, |mask| mask < range.prefix || mask - range.prefix > NODE_BITS_MAX)
        };
        if ranges.iter().any(is_wrong) {
            self.error(path, "a range that holds 1 to 2^16 ranges of nodes (/24 and /64 unless the controller manager has node-cidr-mask-size-ipv4, -ipv6)");
        }
    }

    /// Gates that this kubeadm does not have stop each of its commands.
    fn gates(&mut self, minor: Option<u64>) {
        let gates = self.document.value["featureGates"].as_object().into_iter().flatten();
        let refused = |(name, on): (&String, &Value)| {
            let problem = gate_refused(GateOwner::Kubeadm, minor?, name, on == true)?;
            Some((name.clone(), problem))
        };
        let refused: Vec<(String, String)> = gates.filter_map(refused).collect();
        for (name, problem) in refused {
            self.add(
                FindingSeverity::Error,
                &format!("featureGates.{name}"),
                format!("featureGates.{name}: kubeadm refuses it: {problem}"),
            );
        }
    }

    fn names(&mut self) {
        for path in [
            &["apiServer", "certSANs"][..],
            &["etcd", "local", "serverCertSANs"],
            &["etcd", "local", "peerCertSANs"],
        ] {
            let names = self.texts(path);
            // kubeadm lowers those of the API server before it looks at them.
            let is_lowered = path[0] == "apiServer";
            let is_fine = |name: &str| {
                let name = if is_lowered { name.to_lowercase() } else { name.to_owned() };
                network::is_certificate_name(&name)
            };
            for (index, name) in names.iter().enumerate().filter(|(_, name)| !is_fine(name)) {
                let path = format!("{}[{index}]", path.join("."));
                let message = format!(
                    "{path} is `{name}`; expected an address, or a DNS name in lower case (`*.` may stand before it)"
                );
                self.add(FindingSeverity::Error, &path, message);
            }
        }
    }

    fn paths(&mut self) {
        for path in [
            &["certificatesDir"][..],
            &["etcd", "local", "dataDir"],
            &["etcd", "external", "caFile"],
            &["etcd", "external", "certFile"],
            &["etcd", "external", "keyFile"],
        ] {
            if self.text(path).is_some_and(|text| !text.starts_with('/')) {
                self.error(path, "an absolute path");
            }
        }
    }

    fn etcd(&mut self, minor: Option<u64>) {
        let etcd = &self.document.value["etcd"];
        if etcd["local"].is_object() && etcd["external"].is_object() {
            self.add(
                FindingSeverity::Error,
                "etcd",
                "etcd.local and etcd.external exclude each other; expected one of them".to_owned(),
            );
        }
        let Some(external) = self.document.value["etcd"]["external"].as_object() else { return };
        let has =
            |name: &str| external.get(name).and_then(Value::as_str).is_some_and(|text| !text.is_empty());
        let (ca, certificate, key) = (has("caFile"), has("certFile"), has("keyFile"));
        let endpoints = self.texts(&["etcd", "external", "endpoints"]);
        if certificate != key {
            self.add(
                FindingSeverity::Error,
                "etcd.external",
                "expected both etcd.external.certFile and keyFile, or neither".to_owned(),
            );
        } else if certificate && !ca {
            self.add(
                FindingSeverity::Error,
                "etcd.external",
                "etcd.external.certFile and keyFile need caFile beside them".to_owned(),
            );
        }
        // An unknown release is judged as the newest one.
        if endpoints.is_empty() && minor.is_none_or(|minor| minor >= ENDPOINTS_NEEDED_SINCE) {
            self.add(
                FindingSeverity::Error,
                "etcd.external",
                "expected at least one of etcd.external.endpoints".to_owned(),
            );
        }
        self.endpoints("endpoints", ca || certificate || key);
        self.endpoints("httpEndpoints", false);
    }

    /// Source: `ValidateURLs`.
    fn endpoints(&mut self, list: &str, needs_tls: bool) {
        let is_fine = |url: &str| match go_url::scheme_of(url) {
            Some(scheme) => !scheme.is_empty() && (scheme == "https" || !needs_tls),
            None => false,
        };
        let begin = if needs_tls { "https://" } else { "https:// or http://" };
        let urls = self.texts(&["etcd", "external", list]);
        for (index, url) in urls.iter().enumerate().filter(|(_, url)| !is_fine(url)) {
            let path = format!("etcd.external.{list}[{index}]");
            self.refuse(&path, &format!("is `{url}`; expected a URL that begins with {begin}"));
        }
    }

    /// What images are named by, and a container runtime could not read.
    fn images(&mut self) {
        for folder in [&[][..], &["dns"], &["etcd", "local"]] {
            let repository = [folder, &["imageRepository"]].concat();
            if self.text(&repository).is_some_and(|text| !image::is_repository(text)) {
                self.error(&repository, "a repository such as registry.example:5000/k8s, in lower case");
            }
            let tag = [folder, &["imageTag"]].concat();
            if self.text(&tag).is_some_and(|text| !image::is_tag(text)) {
                self.error(&tag, "the tag of an image: letters, digits, `.`, `-` and `_`, at most 128");
            }
        }
    }

    fn words(&mut self, minor: Option<u64>) {
        let algorithm = ["encryptionAlgorithm"];
        let is_old = minor.is_some_and(|minor| minor < P384_SINCE);
        let known: Vec<&str> = ALGORITHMS.into_iter().filter(|name| !is_old || *name != P384).collect();
        if self.text(&algorithm).is_some_and(|text| !known.contains(&text)) {
            self.error(&algorithm, &format!("one of {}", known.join(", ")));
        }
        let version = ["kubernetesVersion"];
        // kubeadm looks labels such as `stable-1` up itself.
        let is_label = |text: &str| !text.starts_with(|c: char| c == 'v' || c.is_ascii_digit());
        if self.text(&version).is_some_and(|text| {
            // `Release` takes a version without a patch, which kubeadm refuses.
            !is_label(text) && Release::of(text).is_none_or(|_| text.matches('.').count() < 2)
        }) {
            self.error(&version, "a version such as v1.31.0");
        }
    }

    fn flags(&mut self, component: &[&str]) {
        let at = component.join(".");
        let list = component.iter().try_fold(&self.document.value, |value, name| value.get(*name));
        let flags =
            list.and_then(|c| c.get("extraArgs")).and_then(Value::as_array).cloned().unwrap_or_default();
        let mut seen = BTreeSet::new();
        for (index, item) in flags.iter().enumerate() {
            let name = item["name"].as_str().unwrap_or_default();
            let path = format!("{at}.extraArgs[{index}]");
            if name.is_empty() {
                self.add(
                    FindingSeverity::Error,
                    &path,
                    format!("{path} has no name; expected name and value"),
                );
            } else if !matches!(item["mergeMethod"].as_str(), None | Some("" | "append" | "prepend")) {
                self.refuse(&path, "has a mergeMethod other than append and prepend");
            } else if name.starts_with('-') {
                // kubeadm puts two dashes before every name, also before one that has its own.
                let bare = name.trim_start_matches('-');
                self.add(
                    FindingSeverity::Error,
                    &path,
                    format!("{path} is `{name}`; expected the name without dashes: `{bare}`"),
                );
            } else if !seen.insert(name.to_owned()) && !flag_adds_up(component, name) {
                let message = format!("{path}: `{name}` stands twice; {at} takes the last one");
                self.add(FindingSeverity::Warning, &path, message);
            }
        }
    }

    fn volumes(&mut self, component: &[&str]) {
        let at = component.join(".");
        let list = component.iter().try_fold(&self.document.value, |value, name| value.get(*name));
        let volumes =
            list.and_then(|c| c.get("extraVolumes")).and_then(Value::as_array).cloned().unwrap_or_default();
        let mut seen = BTreeSet::new();
        for (index, volume) in volumes.iter().enumerate() {
            let text = |field: &str| volume[field].as_str().unwrap_or_default();
            let (name, path) = (text("name"), format!("{at}.extraVolumes[{index}]"));
            // Volumes of folders of authorities are named after their paths, which differ between
            // distributions.
            if OWN_VOLUMES.contains(&name) || name.starts_with("etc-pki") {
                let message = format!(
                    "{path} is named `{name}`, which kubeadm uses itself: it takes the place of that volume"
                );
                self.add(FindingSeverity::Warning, &path, message);
            }
            if !seen.insert(name.to_owned()) {
                self.add(
                    FindingSeverity::Warning,
                    &path,
                    format!("{path}: `{name}` stands twice; kubeadm takes the last one"),
                );
            }
            for field in ["hostPath", "mountPath"] {
                if !text(field).starts_with('/') {
                    let message = format!("{path}.{field} is `{}`; expected an absolute path", text(field));
                    self.add(FindingSeverity::Error, &path, message);
                }
            }
            if !PATH_TYPES.contains(&text("pathType")) {
                let message = format!(
                    "{path}.pathType is `{}`; expected one of {}",
                    text("pathType"),
                    PATH_TYPES[1..].join(", ")
                );
                self.add(FindingSeverity::Error, &path, message);
            }
        }
    }
}

//! The manifests of API server, controller manager and scheduler.
//!
//! Source: kubeadm `phases/controlplane/manifests.go`, `volumes.go`.

use std::collections::BTreeSet;

use super::flags::{self, Flags, UserFlag};
use super::static_pod::{self, DIRECTORY_OR_CREATE, FILE_OR_CREATE, Volumes};
use super::{API_SERVER, CONTROLLER_MANAGER, ClusterSettings, HostFacts, SCHEDULER, StaticPod};
use crate::network::join_host_port;

const AUTHORIZATION_MODES: [&str; 6] = ["Node", "RBAC", "Webhook", "ABAC", "AlwaysAllow", "AlwaysDeny"];
const CA_VOLUME: (&str, &str) = ("ca-certs", "/etc/ssl/certs");
const CA_FOLDERS: [&str; 5] = [
    "/etc/pki/ca-trust",
    "/etc/pki/tls/certs",
    "/etc/ca-certificates",
    "/usr/share/ca-certificates",
    "/usr/local/share/ca-certificates",
];
const CA_FOLDERS_BEFORE_31: [&str; 4] =
    ["/etc/pki", "/usr/share/ca-certificates", "/usr/local/share/ca-certificates", "/etc/ca-certificates"];
const FLEXVOLUME_FOLDER: &str = "/usr/libexec/kubernetes/kubelet-plugins/volume/exec";

pub(super) fn api_server(settings: &ClusterSettings<'_>, host: &HostFacts) -> StaticPod {
    let mut user = flags::read(settings.at(&["apiServer", "extraArgs"]));
    let mut own = api_server_flags(settings, host);
    own.extend(etcd_flags(settings, host));
    let mode = authorization_mode(flags::last(&user, "authorization-mode"));
    if settings.release.filters_authorization_modes() {
        // Before 1.30 kubeadm writes the modes that it knows over the user's flag; later it leaves
        // that flag as it is.
        user.retain(|flag| flag.name != "authorization-mode");
        user.push(UserFlag::new("authorization-mode", &mode));
    } else if flags::last(&user, "authorization-config").is_none() {
        own.push(("authorization-mode".to_owned(), mode));
    }
    let mut volumes = certificate_volumes(settings, host);
    for (index, folder) in external_etcd_folders(settings).into_iter().enumerate() {
        volumes.add_same(&format!("etcd-certs-{index}"), &folder, true, DIRECTORY_OR_CREATE);
    }
    pod(settings, host, API_SERVER, "apiServer", own, &user, volumes)
}

fn api_server_flags(settings: &ClusterSettings<'_>, host: &HostFacts) -> Flags {
    let file = |name: &str| settings.certificate(name);
    let text = |text: &str| text.to_owned();
    let flags = [
        ("advertise-address", host.address.clone()),
        ("enable-admission-plugins", text("NodeRestriction")),
        ("service-cluster-ip-range", text(settings.service_subnet())),
        ("service-account-key-file", file("sa.pub")),
        ("service-account-signing-key-file", file("sa.key")),
        ("service-account-issuer", format!("https://kubernetes.default.svc.{}", settings.dns_domain())),
        ("client-ca-file", file("ca.crt")),
        ("tls-cert-file", file("apiserver.crt")),
        ("tls-private-key-file", file("apiserver.key")),
        ("kubelet-client-certificate", file("apiserver-kubelet-client.crt")),
        ("kubelet-client-key", file("apiserver-kubelet-client.key")),
        ("enable-bootstrap-token-auth", text("true")),
        ("secure-port", host.port.to_string()),
        ("allow-privileged", text("true")),
        ("kubelet-preferred-address-types", text("InternalIP,ExternalIP,Hostname")),
        ("requestheader-username-headers", text("X-Remote-User")),
        ("requestheader-group-headers", text("X-Remote-Group")),
        ("requestheader-extra-headers-prefix", text("X-Remote-Extra-")),
        ("requestheader-client-ca-file", file("front-proxy-ca.crt")),
        ("requestheader-allowed-names", text("front-proxy-client")),
        ("proxy-client-cert-file", file("front-proxy-client.crt")),
        ("proxy-client-key-file", file("front-proxy-client.key")),
    ];
    flags.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

/// How the API server reaches etcd.
fn etcd_flags(settings: &ClusterSettings<'_>, host: &HostFacts) -> Flags {
    let mut found: Vec<(&str, String)> = Vec::new();
    if settings.has_local_etcd() {
        let local = flags::read(settings.at(&["etcd", "local", "extraArgs"]));
        let own = format!("https://{}", join_host_port(host.loopback(), "2379"));
        // kubeadm points the API server at the URL that the member advertises, also where the user
        // gives it.
        let advertised = flags::last(&local, "advertise-client-urls").map(|flag| flag.over(&own));
        found.push(("etcd-servers", advertised.unwrap_or(own)));
        found.push(("etcd-cafile", settings.certificate("etcd/ca.crt")));
        found.push(("etcd-certfile", settings.certificate("apiserver-etcd-client.crt")));
        found.push(("etcd-keyfile", settings.certificate("apiserver-etcd-client.key")));
    } else {
        let file = |name: &str| settings.text(&["etcd", "external", name]).map(str::to_owned);
        found.push(("etcd-servers", settings.texts(&["etcd", "external", "endpoints"]).join(",")));
        found.extend(file("caFile").map(|ca| ("etcd-cafile", ca)));
        // kubeadm writes the pair or neither.
        if let (Some(certificate), Some(key)) = (file("certFile"), file("keyFile")) {
            found.push(("etcd-certfile", certificate));
            found.push(("etcd-keyfile", key));
        }
    }
    found.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

/// The modes of the user that kubeadm knows, or its own.
fn authorization_mode(requested: Option<&UserFlag>) -> String {
    let known: Vec<&str> = requested
        .into_iter()
        .filter(|flag| !flag.is_merged())
        .flat_map(|flag| flag.value.split(','))
        .filter(|m| AUTHORIZATION_MODES.contains(m))
        .collect();
    if known.is_empty() { "Node,RBAC".to_owned() } else { known.join(",") }
}

pub(super) fn controller_manager(settings: &ClusterSettings<'_>, host: &HostFacts) -> StaticPod {
    const KUBECONFIG: &str = "/etc/kubernetes/controller-manager.conf";
    let user = flags::read(settings.at(&["controllerManager", "extraArgs"]));
    let mut volumes = certificate_volumes(settings, host);
    volumes.add_same("kubeconfig", KUBECONFIG, true, FILE_OR_CREATE);
    if settings.release.mounts_flexvolumes() {
        let folder = flags::last(&user, "flex-volume-plugin-dir")
            .map_or(FLEXVOLUME_FOLDER, |flag| flag.value.as_str());
        volumes.add_same("flexvolume-dir", folder, false, DIRECTORY_OR_CREATE);
    }
    let own = controller_manager_flags(settings, host, KUBECONFIG);
    pod(settings, host, CONTROLLER_MANAGER, "controllerManager", own, &user, volumes)
}

fn controller_manager_flags(settings: &ClusterSettings<'_>, host: &HostFacts, kubeconfig: &str) -> Flags {
    let file = |name: &str| settings.certificate(name);
    // Empty paths keep the signing controller from starting, as kubeadm wants it with an external
    // authority.
    let signing = |name: &str| if host.external_ca { String::new() } else { settings.certificate(name) };
    let text = |text: &str| text.to_owned();
    let mut found = vec![
        ("bind-address", text("127.0.0.1")),
        ("leader-elect", text("true")),
        ("kubeconfig", text(kubeconfig)),
        ("authentication-kubeconfig", text(kubeconfig)),
        ("authorization-kubeconfig", text(kubeconfig)),
        ("client-ca-file", file("ca.crt")),
        ("requestheader-client-ca-file", file("front-proxy-ca.crt")),
        ("root-ca-file", file("ca.crt")),
        ("service-account-private-key-file", file("sa.key")),
        ("cluster-signing-cert-file", signing("ca.crt")),
        ("cluster-signing-key-file", signing("ca.key")),
        ("use-service-account-credentials", text("true")),
        ("controllers", text("*,bootstrapsigner,tokencleaner")),
        ("cluster-name", text(settings.cluster_name())),
    ];
    // kubeadm gives the range of Services only together with that of pods.
    if let Some(pods) = settings.text(&["networking", "podSubnet"]) {
        found.push(("allocate-node-cidrs", text("true")));
        found.push(("cluster-cidr", text(pods)));
        found.push(("service-cluster-ip-range", text(settings.service_subnet())));
    }
    found.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

pub(super) fn scheduler(settings: &ClusterSettings<'_>, host: &HostFacts) -> StaticPod {
    const KUBECONFIG: &str = "/etc/kubernetes/scheduler.conf";
    let own = [
        ("bind-address", "127.0.0.1"),
        ("leader-elect", "true"),
        ("kubeconfig", KUBECONFIG),
        ("authentication-kubeconfig", KUBECONFIG),
        ("authorization-kubeconfig", KUBECONFIG),
    ];
    let own = own.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
    let user = flags::read(settings.at(&["scheduler", "extraArgs"]));
    let mut volumes = Volumes::default();
    volumes.add_same("kubeconfig", KUBECONFIG, true, FILE_OR_CREATE);
    pod(settings, host, SCHEDULER, "scheduler", own, &user, volumes)
}

fn pod(
    settings: &ClusterSettings<'_>,
    host: &HostFacts,
    component: &str,
    field: &str,
    own: Flags,
    user: &[UserFlag],
    mut volumes: Volumes,
) -> StaticPod {
    volumes.add_user(settings.at(&[field, "extraVolumes"]));
    let (volumes, volume_mounts) = volumes.into_lists();
    StaticPod {
        command: flags::command(settings.release, component, own, user),
        image: settings.kubernetes_image(component),
        env: static_pod::environment(settings, host, settings.at(&[field, "extraEnvs"]), true),
        volumes,
        volume_mounts,
    }
}

/// kubeadm's own certificates, and the host's certificate authorities.
fn certificate_volumes(settings: &ClusterSettings<'_>, host: &HostFacts) -> Volumes {
    let mut volumes = Volumes::default();
    volumes.add_same("k8s-certs", settings.certificates_dir(), true, DIRECTORY_OR_CREATE);
    volumes.add_same(CA_VOLUME.0, CA_VOLUME.1, true, DIRECTORY_OR_CREATE);
    let known: &[&str] =
        if settings.release.mounts_pki_whole() { &CA_FOLDERS_BEFORE_31 } else { &CA_FOLDERS };
    // Links in /etc/ssl/certs lead into these folders: kubeadm mounts those that the host has.
    for folder in known.iter().filter(|folder| host.ca_folders.iter().any(|there| there == *folder)) {
        volumes.add_same(&folder[1..].replace('/', "-"), folder, true, DIRECTORY_OR_CREATE);
    }
    volumes
}

/// The folders of the files for an external etcd, without those that are mounted anyway or stand within another.
fn external_etcd_folders(settings: &ClusterSettings<'_>) -> Vec<String> {
    let known: &[&str] =
        if settings.release.mounts_pki_whole() { &CA_FOLDERS_BEFORE_31 } else { &CA_FOLDERS };
    let mut folders: BTreeSet<String> = BTreeSet::new();
    let files = ["caFile", "certFile", "keyFile"];
    for file in files.iter().filter_map(|name| settings.text(&["etcd", "external", name])) {
        let folder = file.rsplit_once('/').map_or("", |(folder, _)| folder);
        let folder = flags::join_path(if folder.is_empty() { "/" } else { folder }, "");
        let mounted = known.iter().any(|known| folder.starts_with(known))
            || folder.starts_with(CA_VOLUME.1)
            || folder.starts_with(settings.certificates_dir());
        // Upstream compares texts, not paths: `/etc/a` holds `/etc/ab`.
        let below =
            folders.iter().any(|other| folder.starts_with(other.as_str()) && !other.starts_with(&folder));
        if mounted {
            continue;
        }
        folders.retain(|other| !other.starts_with(&folder));
        if !below {
            folders.insert(folder);
        }
    }
    folders.into_iter().collect()
}

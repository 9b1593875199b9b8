//! The manifest of etcd.
//!
//! Source: kubeadm `phases/etcd/local.go`, `images/images.go`.

use super::flags::{self, Flags};
use super::static_pod::{self, DIRECTORY_OR_CREATE, Volumes};
use super::{ClusterSettings, ETCD, HostFacts, StaticPod};
use crate::network::join_host_port;

pub(super) fn pod(settings: &ClusterSettings<'_>, host: &HostFacts) -> StaticPod {
    let data = settings.text(&["etcd", "local", "dataDir"]).unwrap_or("/var/lib/etcd");
    let repository =
        settings.text(&["etcd", "local", "imageRepository"]).unwrap_or_else(|| settings.image_repository());
    let tag = tag(settings, host);
    let mut volumes = Volumes::default();
    volumes.add_same("etcd-data", data, false, DIRECTORY_OR_CREATE);
    volumes.add_same(
        "etcd-certs",
        &format!("{}/etcd", settings.certificates_dir()),
        false,
        DIRECTORY_OR_CREATE,
    );
    let (volumes, mut volume_mounts) = volumes.into_lists();
    // kubeadm writes the data folder first.
    volume_mounts.reverse();
    let user = flags::read(settings.at(&["etcd", "local", "extraArgs"]));
    StaticPod {
        command: flags::command(settings.release, ETCD, own_flags(settings, host, data, &tag), &user),
        image: format!("{repository}/etcd:{tag}"),
        // kubeadm gives no proxy variables to etcd.
        env: static_pod::environment(settings, host, settings.at(&["etcd", "local", "extraEnvs"]), false),
        volumes,
        volume_mounts,
    }
}

fn tag(settings: &ClusterSettings<'_>, host: &HostFacts) -> String {
    let running = host.etcd_tag.as_deref().filter(|_| settings.keeps.etcd);
    let own = || running.unwrap_or_else(|| settings.release.etcd_tag(settings.kubernetes_minor));
    settings.text(&["etcd", "local", "imageTag"]).unwrap_or_else(own).to_owned()
}

fn own_flags(settings: &ClusterSettings<'_>, host: &HostFacts, data: &str, tag: &str) -> Flags {
    let file = |name: &str| settings.certificate(&format!("etcd/{name}"));
    let url = |address: &str, port: &str| format!("https://{}", join_host_port(address, port));
    let text = |text: &str| text.to_owned();
    let (client, peer) = (url(&host.address, "2379"), url(&host.address, "2380"));
    let mut found = vec![
        ("name", host.name.clone()),
        ("listen-client-urls", format!("{},{client}", url(host.loopback(), "2379"))),
        ("advertise-client-urls", client),
        ("listen-peer-urls", peer.clone()),
        ("initial-advertise-peer-urls", peer.clone()),
        ("data-dir", text(data)),
        ("cert-file", file("server.crt")),
        ("key-file", file("server.key")),
        ("trusted-ca-file", file("ca.crt")),
        ("client-cert-auth", text("true")),
        ("peer-cert-file", file("peer.crt")),
        ("peer-key-file", file("peer.key")),
        ("peer-trusted-ca-file", file("ca.crt")),
        ("peer-client-cert-auth", text("true")),
        ("snapshot-count", text("10000")),
        // The probes of a kubelet have no client certificate, which etcd demands at its other
        // ports.
        ("listen-metrics-urls", format!("http://{}", join_host_port(host.loopback(), "2381"))),
    ];
    if has_renamed_flags(settings, tag) {
        found.push(("feature-gates", text("InitialCorruptCheck=true")));
        found.push(("watch-progress-notify-interval", text("5s")));
    } else {
        found.push(("experimental-initial-corrupt-check", text("true")));
        found.push(("experimental-watch-progress-notify-interval", text("5s")));
    }
    if host.joined_members.is_empty() {
        found.push(("initial-cluster", format!("{}={peer}", host.name)));
    } else {
        found.push(("initial-cluster", host.joined_members.join(",")));
        found.push(("initial-cluster-state", text("existing")));
    }
    found.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

/// etcd 3.6 renamed its experimental flags; kubeadm 1.34 and 1.35 look at the tag, later ones know no older etcd.
fn has_renamed_flags(settings: &ClusterSettings<'_>, tag: &str) -> bool {
    match settings.release.minor {
        ..34 => false,
        34 | 35 => {
            let tag = tag.strip_prefix('v').unwrap_or(tag);
            // A tag with a suffix, such as 3.6.0-0, counts as a pre-release and comes before 3.6.0.
            semver::Version::parse(tag).is_ok_and(|version| version >= semver::Version::new(3, 6, 0))
        }
        _ => true,
    }
}

//! The kubeadm documents that a machine boots with, in the form its own version of kubeadm reads.
//! Owns the conversion from the embedded types; must not know where the text ends up.
//! Source: cluster-api `bootstrap/kubeadm/types/{utils.go,upstreamv1beta3,upstreamv1beta4}`, v1.14.2.

use serde_json::{Map, Value, json};

use capi_types::cluster::Cluster;
use capi_types::kubeadm::{ClusterConfiguration, InitConfiguration, JoinConfiguration};
use capstan_base::go_duration::GoDuration;
use k8s_machinery::version;

/// A form of the kubeadm configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// Flags are maps; read up to Kubernetes 1.30.
    V1Beta3,
    /// Flags are lists; read from Kubernetes 1.31 on.
    V1Beta4,
}

impl Form {
    /// The form that kubeadm of this Kubernetes version reads.
    ///
    /// # Errors
    /// A sentence, when no form fits.
    pub fn of(version: &str) -> Result<Self, String> {
        let parsed =
            version::parse(version).ok_or_else(|| format!("{version:?} is not a Kubernetes version"))?;
        match (parsed.major, parsed.minor) {
            (1, 31..) => Ok(Self::V1Beta4),
            (1, 22..=30) => Ok(Self::V1Beta3),
            _ => Err(format!("Kubernetes {version} is too old: its kubeadm reads no known configuration")),
        }
    }

    fn api_version(self) -> &'static str {
        match self {
            Self::V1Beta3 => "kubeadm.k8s.io/v1beta3",
            Self::V1Beta4 => "kubeadm.k8s.io/v1beta4",
        }
    }
}

/// ClusterConfiguration, with what the Cluster and the version fill in.
pub fn cluster_configuration(
    form: Form,
    config: &ClusterConfiguration,
    timeouts: Option<i32>,
    cluster: &Cluster,
    version: &str,
) -> Value {
    let mut document = embedded(form, "ClusterConfiguration", config);
    rename_days(&mut document, "caCertificateValidityPeriodDays", "caCertificateValidityPeriod");
    rename_days(&mut document, "certificateValidityPeriodDays", "certificateValidityPeriod");
    if form == Form::V1Beta3 {
        for newer in ["caCertificateValidityPeriod", "certificateValidityPeriod", "encryptionAlgorithm"] {
            document.remove(newer);
        }
        if let Some(seconds) = timeouts {
            let server = document.entry("apiServer").or_insert_with(|| json!({}));
            server["timeoutForControlPlane"] = json!(duration(i64::from(seconds)));
        }
    }
    let default = |document: &mut Map<String, Value>, key: &str, value: Option<String>| {
        if let Some(value) = value.filter(|_| !document.contains_key(key)) {
            document.insert(key.to_owned(), json!(value));
        }
    };
    // Without a name kubeadm would call every cluster `kubernetes`.
    default(&mut document, "clusterName", cluster.metadata.name.clone());
    default(&mut document, "controlPlaneEndpoint", endpoint(cluster));
    default(&mut document, "kubernetesVersion", Some(version.to_owned()));
    // The embedded type has no such section: networks are the Cluster's.
    document.insert("networking".to_owned(), networking(cluster));
    Value::Object(document)
}

/// `host:port` of the Cluster's API server.
pub fn endpoint(cluster: &Cluster) -> Option<String> {
    let endpoint = cluster.spec.control_plane_endpoint.as_ref()?;
    Some(format!("{}:{}", endpoint.host.as_deref()?, endpoint.port?))
}

fn networking(cluster: &Cluster) -> Value {
    let network = cluster.spec.cluster_network.clone().unwrap_or_default();
    let blocks = |ranges: Option<capi_types::cluster::NetworkRanges>| ranges.map(|r| r.cidr_blocks.join(","));
    let mut networking = Map::new();
    for (key, value) in [
        ("dnsDomain", network.service_domain),
        ("serviceSubnet", blocks(network.services)),
        ("podSubnet", blocks(network.pods)),
    ] {
        if let Some(value) = value.filter(|v| !v.is_empty()) {
            networking.insert(key.to_owned(), json!(value));
        }
    }
    Value::Object(networking)
}

/// For `kubeadm init`, in the spelling of `form`.
pub fn init_configuration(form: Form, config: &InitConfiguration) -> Value {
    let mut document = embedded(form, "InitConfiguration", config);
    for token in document.get_mut("bootstrapTokens").and_then(Value::as_array_mut).into_iter().flatten() {
        if let Some(seconds) =
            token.as_object_mut().and_then(|t| t.remove("ttlSeconds")).and_then(|v| v.as_i64())
        {
            token["ttl"] = json!(duration(seconds));
        }
    }
    timeouts(form, &mut document);
    node_registration(form, &mut document);
    Value::Object(document)
}

/// For `kubeadm join`, in the spelling of `form`.
pub fn join_configuration(form: Form, config: &JoinConfiguration) -> Value {
    let mut document = embedded(form, "JoinConfiguration", config);
    // What v1beta3 calls the timeout of discovery covers the TLS bootstrap as well.
    let bootstrap_s = config.timeouts.as_ref().and_then(|t| t.tls_bootstrap_seconds);
    timeouts(form, &mut document);
    node_registration(form, &mut document);
    if let Some(discovery) = document.get_mut("discovery").and_then(Value::as_object_mut) {
        // kubeadm reads the file; what it contains is written there by cloud-init.
        if let Some(file) = discovery.get_mut("file").and_then(Value::as_object_mut) {
            file.remove("kubeConfig");
        }
        if let (Form::V1Beta3, Some(seconds)) = (form, bootstrap_s) {
            discovery.insert("timeout".to_owned(), json!(duration(i64::from(seconds))));
        }
    }
    Value::Object(document)
}

fn embedded(form: Form, kind: &str, config: &impl serde::Serialize) -> Map<String, Value> {
    let value = serde_json::to_value(config).unwrap_or_default();
    let mut document = value.as_object().cloned().unwrap_or_default();
    if form == Form::V1Beta3 {
        document.values_mut().for_each(older_arguments);
    }
    document.insert("apiVersion".to_owned(), json!(form.api_version()));
    document.insert("kind".to_owned(), json!(kind));
    document
}

/// v1beta3 has maps of arguments and no environment variables.
fn older_arguments(value: &mut Value) {
    let Some(map) = value.as_object_mut() else { return };
    map.remove("extraEnvs");
    for (key, value) in map.iter_mut() {
        if matches!(key.as_str(), "extraArgs" | "kubeletExtraArgs") {
            let pairs = value.as_array().into_iter().flatten();
            *value = pairs
                .filter_map(|arg| Some((arg["name"].as_str()?.to_owned(), arg["value"].clone())))
                .collect::<Map<_, _>>()
                .into();
        } else {
            older_arguments(value);
        }
    }
}

fn node_registration(form: Form, document: &mut Map<String, Value>) {
    let Some(registration) = document.get_mut("nodeRegistration").and_then(Value::as_object_mut) else {
        return;
    };
    if form == Form::V1Beta3 {
        registration.remove("imagePullSerial");
    }
}

/// Seconds become durations; v1beta3 has no such section.
fn timeouts(form: Form, document: &mut Map<String, Value>) {
    let Some(Value::Object(seconds)) = document.remove("timeouts") else { return };
    if form == Form::V1Beta3 {
        return;
    }
    let renamed = seconds.into_iter().filter_map(|(key, value)| {
        let name = key.strip_suffix("Seconds")?.to_owned();
        Some((name, json!(duration(value.as_i64()?))))
    });
    document.insert("timeouts".to_owned(), Value::Object(renamed.collect()));
}

fn rename_days(document: &mut Map<String, Value>, days: &str, duration_key: &str) {
    if let Some(days) = document.remove(days).and_then(|v| v.as_i64()) {
        document.insert(duration_key.to_owned(), json!(GoDuration::from_days(days).to_string()));
    }
}

fn duration(seconds: i64) -> String {
    GoDuration::from_seconds(seconds).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object<T: serde::de::DeserializeOwned>(value: Value) -> T {
        serde_json::from_value(value).expect("an object")
    }

    #[test]
    fn the_form_follows_the_version() {
        assert_eq!(Form::of("v1.30.9"), Ok(Form::V1Beta3));
        assert_eq!(Form::of("v1.31.0"), Ok(Form::V1Beta4));
        assert!(Form::of("v1.21.0").is_err());
        assert!(Form::of("latest").is_err());
    }

    #[test]
    fn cluster_values_fill_the_gaps() {
        let cluster: Cluster = object(json!({"metadata": {"name": "c"}, "spec": {
            "controlPlaneEndpoint": {"host": "10.0.0.1", "port": 6443},
            "clusterNetwork": {"pods": {"cidrBlocks": ["10.1.0.0/16", "fd00::/64"]}, "serviceDomain": "x.local"}}}));
        let config: ClusterConfiguration = object(json!({
            "certificateValidityPeriodDays": 365,
            "apiServer": {"extraArgs": [{"name": "v", "value": "4"}]}}));
        let newer = cluster_configuration(Form::V1Beta4, &config, Some(240), &cluster, "v1.34.1");
        assert_eq!(newer["controlPlaneEndpoint"], "10.0.0.1:6443");
        assert_eq!(newer["certificateValidityPeriod"], "8760h0m0s");
        assert_eq!(
            newer["networking"],
            json!({"dnsDomain": "x.local", "podSubnet": "10.1.0.0/16,fd00::/64"})
        );
        assert_eq!(newer["apiServer"]["extraArgs"], json!([{"name": "v", "value": "4"}]));
        let older = cluster_configuration(Form::V1Beta3, &config, Some(240), &cluster, "v1.30.1");
        assert_eq!(older["apiServer"], json!({"extraArgs": {"v": "4"}, "timeoutForControlPlane": "4m0s"}));
        assert!(older.get("certificateValidityPeriod").is_none());
    }

    #[test]
    fn seconds_become_durations() {
        let join: JoinConfiguration = object(json!({
            "timeouts": {"discoverySeconds": 300},
            "nodeRegistration": {"kubeletExtraArgs": [{"name": "a", "value": "b"}], "imagePullSerial": true}}));
        let newer = join_configuration(Form::V1Beta4, &join);
        assert_eq!(newer["timeouts"], json!({"discovery": "5m0s"}));
        let older = join_configuration(Form::V1Beta3, &join);
        assert_eq!(older["nodeRegistration"], json!({"kubeletExtraArgs": {"a": "b"}}));
        assert!(older.get("timeouts").is_none());
    }

    #[test]
    fn the_older_form_took_its_discovery_timeout_from_the_wrong_field() {
        let join: JoinConfiguration = object(json!({
            "timeouts": {"discoverySeconds": 300, "tlsBootstrapSeconds": 90},
            "discovery": {"bootstrapToken": {"token": "abcdef.0123456789abcdef"}}}));
        let older = join_configuration(Form::V1Beta3, &join);
        assert_eq!(older["discovery"]["timeout"], "1m30s");
        let newer = join_configuration(Form::V1Beta4, &join);
        assert_eq!(newer["timeouts"], json!({"discovery": "5m0s", "tlsBootstrap": "1m30s"}));
        assert!(newer["discovery"].get("timeout").is_none());
    }
}

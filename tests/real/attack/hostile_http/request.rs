//! One request in parts that can be drawn by chance and taken away again, and how it is written. A part may break
//! every rule of HTTP; must not know what is done with the answer.

use capstan_base::rng::Rng;

const METHODS: &[&str] = &[
    "GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS", "TRACE", "CONNECT", "FROB", "get", "G\0T",
    "PRI", "",
];
const TARGETS: &[&str] = &[
    "/",
    "//",
    "*",
    "/api",
    "/api/v1",
    "/apis",
    "/readyz",
    "/metrics",
    "/version",
    "/openapi/v2",
    "/openapi/v3/apis/cluster.x-k8s.io/v1beta2",
    "/api/v1/namespaces",
    "/api/v1/namespaces/default",
    "/api/v1/namespaces/default/configmaps",
    "/api/v1/namespaces/default/configmaps/kube-root-ca.crt",
    "/api/v1/namespaces/default/configmaps/fuzz",
    "/api/v1/namespaces/default/configmaps/fuzz/status",
    "/api/v1/namespaces/default/configmaps/fuzz/scale",
    "/api/v1/namespaces/default/configmaps/fuzz/status/more",
    "/api/v1/namespaces/%2e%2e/configmaps",
    "/api/v1/namespaces/default/configmaps/%00",
    "/api/v1/namespaces/default/configmaps/%zz",
    "/api/v1/namespaces/default/configmaps/../../../../etc/passwd",
    "/api/v1/watch/namespaces/default/configmaps",
    "/api/v1/namespaces/default/secrets",
    "/api/v1/namespaces/default/events",
    "/apis/cluster.x-k8s.io/v1beta2/namespaces/default/clusters",
    "/apis/cluster.x-k8s.io/v1beta2/namespaces/default/clusters/fuzz",
    "/apis/cluster.x-k8s.io/v1beta2/namespaces/default/machines/fuzz/status",
    "/apis/cluster.x-k8s.io/v1beta2/machinedeployments",
    "/apis/cluster.x-k8s.io/v1beta2/namespaces/default/machinedeployments/fuzz/scale",
    "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
    "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/fuzz.example.com",
    "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
    "/apis/coordination.k8s.io/v1/namespaces/default/leases",
    "http://elsewhere.example/api",
    "/api/v1/namespaces/default/configmaps/name with spaces",
    "/\u{202e}\u{fffd}",
];
const QUERIES: &[&str] = &[
    "watch=true&timeoutSeconds=1",
    "watch=true&resourceVersion=-1",
    "watch=true&resourceVersion=99999999999999999999",
    "watch=true&resourceVersion=abc",
    "watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&timeoutSeconds=1",
    "limit=-1",
    "limit=0",
    "limit=99999999999999999999",
    "limit=1&continue=AAAA",
    "continue=%ff%fe",
    "labelSelector=a%20in%20(",
    "labelSelector=!!!",
    "fieldSelector=metadata.name%3D%3D%3Dx,,,",
    "resourceVersion=0&resourceVersionMatch=Exact",
    "resourceVersionMatch=What",
    "timeoutSeconds=-5",
    "dryRun=All",
    "dryRun=Some&dryRun=All",
    "fieldManager=",
    "fieldManager=a&force=maybe",
    "fieldValidation=Strict",
    "propagationPolicy=Sideways&gracePeriodSeconds=-1",
    "pretty=true&pretty=false",
    "%%%",
    "&&&===&",
];
const HEADERS: &[(&str, &str)] = &[
    ("Accept", "application/json;as=Table;v=v1;g=meta.k8s.io"),
    ("Accept", "application/vnd.kubernetes.protobuf"),
    ("Accept", "application/yaml, */*;q=banana"),
    ("Accept", "text/html"),
    ("Accept-Encoding", "gzip, br;q=9"),
    ("Content-Type", "application/json"),
    ("Content-Type", "application/yaml"),
    ("Content-Type", "application/vnd.kubernetes.protobuf"),
    ("Content-Type", "application/merge-patch+json"),
    ("Content-Type", "application/json-patch+json"),
    ("Content-Type", "application/strategic-merge-patch+json"),
    ("Content-Type", "application/apply-patch+yaml"),
    ("Content-Type", "text/plain; charset=\"\u{7f}\""),
    ("Content-Encoding", "gzip"),
    ("Content-Encoding", "what"),
    ("Transfer-Encoding", "chunked"),
    ("Transfer-Encoding", "gzip, chunked, chunked"),
    ("Content-Length", "-1"),
    ("Content-Length", "18446744073709551616"),
    ("Expect", "100-continue"),
    ("Upgrade", "websocket"),
    ("Upgrade", "h2c"),
    ("Connection", "upgrade, keep-alive, close"),
    ("Impersonate-User", "somebody"),
    ("Impersonate-Group", "system:masters"),
    ("Impersonate-Extra-a", "x"),
    ("Authorization", "Bearer "),
    ("Authorization", "Basic YTpi"),
    ("Range", "bytes=0-"),
    ("If-Match", "*"),
    ("Host", "\u{e4}\u{f6}"),
    ("X Bad Name", "x"),
    ("X-Folded", "a\r\n b"),
    ("", "nameless"),
];
const BODIES: &[&str] = &[
    "",
    "null",
    "[]",
    "{}",
    "{\"apiVersion\":\"v1\",\"kind\":\"ConfigMap\",\"metadata\":{\"name\":\"fuzz\"},\"data\":{\"a\":\"b\"}}",
    "{\"apiVersion\":\"v1\",\"kind\":\"ConfigMap\",\"metadata\":{\"name\":\"fuzz\",\"resourceVersion\":\"1\",\"uid\":7},\"data\":[]}",
    "{\"apiVersion\":\"cluster.x-k8s.io/v1beta2\",\"kind\":\"Cluster\",\"metadata\":{\"name\":\"fuzz\"},\"spec\":{\"paused\":\"yes\"}}",
    "{\"apiVersion\":\"cluster.x-k8s.io/v1beta2\",\"kind\":\"Cluster\",\"metadata\":{\"name\":\"fuzz\"},\"spec\":{\"topology\":{\"classRef\":{\"name\":\"x\"},\"version\":\"v1.x\"}}}",
    "[{\"op\":\"add\",\"path\":\"/metadata/labels/a~1b\",\"value\":\"c\"},{\"op\":\"move\",\"from\":\"/data\",\"path\":\"/data/a\"}]",
    "[{\"op\":\"test\",\"path\":\"\",\"value\":null},{\"op\":\"remove\",\"path\":\"/metadata\"}]",
    "{\"metadata\":{\"finalizers\":[\"a\",\"$patch\"],\"$setElementOrder/finalizers\":[\"b\"],\"$retainKeys\":[1]}}",
    "apiVersion: v1\nkind: ConfigMap\nmetadata: &a {name: fuzz, labels: *a}\n",
    "k8s\0\x0a\x10\x0a\x02v1\x12\x09ConfigMap\x12\x04\x0a\x02\x0a\x7f",
    "{\"apiVersion\":\"apiextensions.k8s.io/v1\",\"kind\":\"CustomResourceDefinition\",\"metadata\":{\"name\":\"fuzz.example.com\"},\"spec\":{\"group\":\"example.com\",\"scope\":\"Namespaced\",\"names\":{\"plural\":\"fuzz\",\"kind\":\"Fuzz\"},\"versions\":[{\"name\":\"v1\",\"served\":true,\"storage\":true,\"schema\":{\"openAPIV3Schema\":{\"type\":\"object\",\"properties\":{\"spec\":{\"type\":\"object\",\"x-kubernetes-validations\":[{\"rule\":\"self.x.all(y, \"}]}}}}}]}}",
];
/// Most random changes to a body.
const CHANGES_MAX: u64 = 4;
const HEADERS_MAX: u64 = 5;

/// How the body's length is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Framing {
    Length,
    TellsHalf,
    TellsNone,
    Chunked,
    BrokenChunks,
    None,
}

const FRAMINGS: &[Framing] = &[
    Framing::Length,
    Framing::Length,
    Framing::Length,
    Framing::Length,
    Framing::TellsNone,
    Framing::TellsHalf,
    Framing::Chunked,
    Framing::BrokenChunks,
    Framing::None,
];

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    pub method: String,
    /// Path and query.
    pub target: String,
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
    pub framing: Framing,
}

fn one_of<'a, T>(rng: &Rng, all: &'a [T]) -> &'a T {
    &all[index(rng, all.len())]
}

fn index(rng: &Rng, length: usize) -> usize {
    usize::try_from(rng.below(length as u64)).expect("small")
}

/// A body with some bytes changed, cut or doubled.
fn mutated(rng: &Rng, mut body: Vec<u8>) -> Vec<u8> {
    for _ in 0..rng.below(CHANGES_MAX) {
        if body.is_empty() {
            break;
        }
        let at = index(rng, body.len());
        match rng.below(4) {
            0 => body[at] = u8::try_from(rng.below(256)).expect("a byte"),
            1 => body.truncate(at),
            2 => {
                let tail = body[at..].to_vec();
                body.extend(tail);
            }
            _ => body.insert(at, *one_of(rng, b"{}[]\":,\\\0\xff")),
        }
    }
    body
}

impl Request {
    /// An ordinary one.
    pub fn new(method: &str, target: &str, content_type: &str, body: Vec<u8>) -> Self {
        let headers = vec![("Content-Type".to_owned(), content_type.to_owned())];
        Self { method: method.to_owned(), target: target.to_owned(), headers, body, framing: Framing::Length }
    }

    /// One by chance: mostly right in most parts, so that it gets somewhere.
    pub fn draw(rng: &Rng) -> Self {
        let usual = ["GET", "POST", "PUT", "PATCH", "DELETE"];
        let method = if rng.below(4) > 0 { one_of(rng, &usual) } else { one_of(rng, METHODS) };
        let mut target = (*one_of(rng, TARGETS)).to_owned();
        if rng.below(2) == 0 {
            target = format!("{target}?{}", one_of(rng, QUERIES));
        }
        let headers = (0..rng.below(HEADERS_MAX)).map(|_| *one_of(rng, HEADERS));
        let headers = headers.map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
        let body = mutated(rng, one_of(rng, BODIES).as_bytes().to_vec());
        Self { method: (*method).to_owned(), target, headers, body, framing: *one_of(rng, FRAMINGS) }
    }

    /// As it goes over the wire.
    pub fn bytes(&self, token: &str) -> Vec<u8> {
        let mut head =
            format!("{} {} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n", self.method, self.target);
        if !self.headers.iter().any(|(name, _)| name == "Authorization") {
            head.push_str(&format!("Authorization: Bearer {token}\r\n"));
        }
        for (name, value) in &self.headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        let length = self.body.len();
        let (told, body) = match self.framing {
            Framing::Length => (format!("Content-Length: {length}\r\n"), self.body.clone()),
            Framing::TellsHalf => (format!("Content-Length: {}\r\n", length / 2), self.body.clone()),
            Framing::TellsNone => ("Content-Length: 0\r\n".to_owned(), self.body.clone()),
            Framing::Chunked => {
                let mut body = format!("{length:x}\r\n").into_bytes();
                body.extend_from_slice(&self.body);
                body.extend_from_slice(if length == 0 { b"\r\n" } else { b"\r\n0\r\n\r\n" });
                ("Transfer-Encoding: chunked\r\n".to_owned(), body)
            }
            Framing::BrokenChunks => {
                ("Transfer-Encoding: chunked\r\n".to_owned(), b"zz\r\n-1\r\nfffffffffffffffff\r\n".to_vec())
            }
            Framing::None => (String::new(), self.body.clone()),
        };
        [head.as_bytes(), told.as_bytes(), b"\r\n", &body].concat()
    }

    /// To be read by people.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.bytes("TOKEN")).escape_debug().to_string()
    }

    /// The same with something less.
    pub fn smaller(&self) -> Vec<Self> {
        let mut all = Vec::new();
        for at in 0..self.headers.len() {
            let mut less = self.clone();
            less.headers.remove(at);
            all.push(less);
        }
        if let Some((path, _)) = self.target.split_once('?') {
            all.push(Self { target: path.to_owned(), ..self.clone() });
        }
        if self.framing != Framing::Length {
            all.push(Self { framing: Framing::Length, ..self.clone() });
        }
        let half = self.body.len() / 2;
        if half > 0 {
            all.push(Self { body: self.body[..half].to_vec(), ..self.clone() });
            all.push(Self { body: self.body[half..].to_vec(), ..self.clone() });
            all.push(Self { body: self.body[..self.body.len() - 1].to_vec(), ..self.clone() });
        } else if !self.body.is_empty() {
            all.push(Self { body: Vec::new(), ..self.clone() });
        }
        all
    }
}

//! Kubeconfigs of every form, given to kubectl and to capstan: both reach the server, or neither does. Skips, saying so, where
//! kubectl is not installed.

use std::ffi::OsString;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use base64::Engine as _;
use serde_json::{Value, json};

use crate::standalone::{BINARY, Standalone};

/// Fields of a kubeconfig, each of which may be missing, null, empty, or of another type.
const FIELDS: [&str; 33] = [
    "/apiVersion",
    "/kind",
    "/preferences",
    "/extensions",
    "/clusters",
    "/users",
    "/contexts",
    "/current-context",
    "/clusters/0/name",
    "/clusters/0/cluster",
    "/clusters/0/cluster/server",
    "/clusters/0/cluster/certificate-authority-data",
    "/clusters/0/cluster/certificate-authority",
    "/clusters/0/cluster/insecure-skip-tls-verify",
    "/clusters/0/cluster/tls-server-name",
    "/clusters/0/cluster/proxy-url",
    "/clusters/0/cluster/disable-compression",
    "/users/0/name",
    "/users/0/user",
    "/users/0/user/token",
    "/users/0/user/tokenFile",
    "/users/0/user/username",
    "/users/0/user/password",
    "/users/0/user/client-certificate",
    "/users/0/user/client-certificate-data",
    "/users/0/user/client-key",
    "/users/0/user/client-key-data",
    "/users/0/user/as",
    "/contexts/0/name",
    "/contexts/0/context",
    "/contexts/0/context/cluster",
    "/contexts/0/context/user",
    "/contexts/0/context/namespace",
];

/// What both programs are given.
#[derive(Clone)]
struct Case {
    name: String,
    files: Vec<(String, String)>,
    /// `$KUBECONFIG`, with names of files in the folder.
    list: String,
    /// `--context`.
    context: Option<&'static str>,
}

impl Case {
    fn of(name: impl Into<String>, config: &Value) -> Self {
        Self::text(name, config.to_string())
    }

    fn text(name: impl Into<String>, text: impl Into<String>) -> Self {
        let files = vec![("config".to_owned(), text.into())];
        Self { name: name.into(), files, list: "config".to_owned(), context: None }
    }

    fn several(name: &str, list: &str, files: &[(&str, &Value)]) -> Self {
        let files = files.iter().map(|(name, value)| ((*name).to_owned(), value.to_string())).collect();
        Self { name: name.to_owned(), files, list: list.to_owned(), context: None }
    }
}

/// The kubeconfig that the server wrote, with its names.
struct Parts {
    server: String,
    authority: String,
    token: String,
}

impl Parts {
    fn config(&self) -> Value {
        json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "x",
            "clusters": [{"name": "c", "cluster": {
                "server": self.server, "certificate-authority-data": self.authority}}],
            "users": [{"name": "u", "user": {"token": self.token}}],
            "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        })
    }

    fn with(&self, change: impl FnOnce(&mut Value)) -> Value {
        let mut config = self.config();
        change(&mut config);
        config
    }

    fn cluster(&self, change: impl FnOnce(&mut Value)) -> Value {
        self.with(|config| change(&mut config["clusters"][0]["cluster"]))
    }

    fn user(&self, user: Value) -> Value {
        self.with(|config| config["users"][0]["user"] = user)
    }
}

/// Every field in every odd form.
fn odd_fields(parts: &Parts) -> Vec<Case> {
    let forms = [None, Some(json!(null)), Some(json!("")), Some(json!(7)), Some(json!([])), Some(json!({}))];
    let mut cases = Vec::new();
    for field in FIELDS {
        for form in &forms {
            let config = parts.with(|config| set(config, field, form.clone()));
            let form = form.as_ref().map_or("missing".to_owned(), ToString::to_string);
            cases.push(Case::of(format!("{field} {form}"), &config));
        }
    }
    cases
}

fn set(config: &mut Value, field: &str, form: Option<Value>) {
    let (parent, name) = field.rsplit_once('/').expect("a pointer");
    let parent = config.pointer_mut(parent).and_then(Value::as_object_mut).expect("its parent");
    match form {
        Some(form) => parent.insert(name.to_owned(), form),
        None => parent.remove(name),
    };
}

/// How a server is named and trusted.
fn servers(parts: &Parts) -> Vec<Case> {
    let address = parts.server.trim_start_matches("https://").to_owned();
    let server = |server: String| parts.cluster(|cluster| cluster["server"] = json!(server));
    let without_authority = |change: &dyn Fn(&mut Value)| {
        parts.cluster(|cluster| {
            cluster.as_object_mut().expect("a map").remove("certificate-authority-data");
            change(cluster);
        })
    };
    vec![
        Case::of("no scheme", &server(address.clone())),
        Case::of("no scheme, a slash", &server(format!("{address}/"))),
        Case::of("no scheme, a path", &server(format!("{address}/a"))),
        Case::of("a slash", &server(format!("{}/", parts.server))),
        Case::of("http to a TLS port", &server(format!("http://{address}"))),
        Case::of("another scheme", &server(format!("ftp://{address}"))),
        Case::of("not an address", &server("https://a b".to_owned())),
        Case::of("no scheme, no authority", &without_authority(&|c| c["server"] = json!(address))),
        Case::of("no authority", &without_authority(&|_| {})),
        Case::of("insecure", &without_authority(&|c| c["insecure-skip-tls-verify"] = json!(true))),
        Case::of(
            "insecure and an authority",
            &parts.cluster(|c| c["insecure-skip-tls-verify"] = json!(true)),
        ),
        Case::of(
            "insecure without a scheme",
            &without_authority(&|c| {
                c["insecure-skip-tls-verify"] = json!(true);
                c["server"] = json!(address);
            }),
        ),
        Case::of("authority twice", &parts.cluster(|c| c["certificate-authority"] = json!("ca.crt"))),
        Case::of(
            "authority in a file",
            &without_authority(&|c| c["certificate-authority"] = json!("ca.crt")),
        ),
        Case::of(
            "authority in a file below",
            &without_authority(&|c| c["certificate-authority"] = json!("./below/../ca.crt")),
        ),
        Case::of(
            "authority in a file that is not there",
            &without_authority(&|c| c["certificate-authority"] = json!("none")),
        ),
        Case::of(
            "authority in lines",
            &parts.cluster(|c| {
                let text = parts
                    .authority
                    .as_bytes()
                    .chunks(64)
                    .map(|line| String::from_utf8_lossy(line).into_owned());
                c["certificate-authority-data"] = json!(text.collect::<Vec<_>>().join("\n"));
            }),
        ),
        Case::of(
            "authority with a blank",
            &parts.cluster(|c| c["certificate-authority-data"] = json!(format!(" {}", parts.authority))),
        ),
        Case::of(
            "authority that is not base64",
            &parts.cluster(|c| c["certificate-authority-data"] = json!("%%%")),
        ),
        Case::of("another name", &parts.cluster(|c| c["tls-server-name"] = json!("localhost"))),
        Case::of("a wrong name", &parts.cluster(|c| c["tls-server-name"] = json!("elsewhere.example"))),
        Case::of("a proxy without scheme", &parts.cluster(|c| c["proxy-url"] = json!("127.0.0.1:1"))),
        Case::of("a proxy of another kind", &parts.cluster(|c| c["proxy-url"] = json!("ftp://127.0.0.1:1"))),
        Case::of(
            "a proxy that is not there",
            &parts.cluster(|c| c["proxy-url"] = json!("http://127.0.0.1:1")),
        ),
    ]
}

/// Who somebody is.
fn users(parts: &Parts) -> Vec<Case> {
    let token = &parts.token;
    let exec = |exec: Value| parts.user(json!({ "exec": exec }));
    let v1 = "client.authentication.k8s.io/v1";
    let beta = "client.authentication.k8s.io/v1beta1";
    let plugin =
        |version: &str| json!({"apiVersion": version, "command": "./plugin", "interactiveMode": "Never"});
    let with = |field: &str, value: Value| {
        let mut plugin = plugin(v1);
        plugin[field] = value;
        exec(plugin)
    };
    vec![
        Case::of("a token in a file", &parts.user(json!({"tokenFile": "token"}))),
        Case::of("a token in a file with a line's end", &parts.user(json!({"tokenFile": "token-line"}))),
        Case::of("a token in a file with blanks", &parts.user(json!({"tokenFile": "token-blanks"}))),
        Case::of("a token in no file", &parts.user(json!({"tokenFile": "none"}))),
        Case::of("an empty token file", &parts.user(json!({"tokenFile": "empty"}))),
        Case::of("a wrong token and a file", &parts.user(json!({"token": "wrong", "tokenFile": "token"}))),
        Case::of("a token and a wrong file", &parts.user(json!({"token": token, "tokenFile": "wrong-token"}))),
        Case::of("a token and no file", &parts.user(json!({"token": token, "tokenFile": "none"}))),
        Case::of("a token with a line's end", &parts.user(json!({"token": format!("{token}\n")}))),
        Case::of("a wrong token", &parts.user(json!({"token": "wrong"}))),
        Case::of("a token and a password", &parts.user(json!({"token": token, "username": "a", "password": "b"}))),
        Case::of("a name without a password", &parts.user(json!({"username": "a"}))),
        Case::of("a certificate without a key", &parts.user(json!({"token": token, "client-certificate": "ca.crt"}))),
        Case::of("a key without a certificate", &parts.user(json!({"token": token, "client-key": "none"}))),
        Case::of("a certificate that is not there", &parts.user(json!({"token": token, "client-certificate": "none", "client-key": "none"}))),
        Case::of("a certificate twice", &parts.user(json!({"token": token, "client-certificate": "ca.crt", "client-certificate-data": "YQ==", "client-key-data": "YQ=="}))),
        Case::of("a key that is not base64", &parts.user(json!({"token": token, "client-key-data": "%"}))),
        Case::of("groups of nobody", &parts.user(json!({"token": token, "as-groups": ["a"]}))),
        Case::of("a uid of nobody", &parts.user(json!({"token": token, "as-uid": "a"}))),
        Case::of("no groups of nobody", &parts.user(json!({"token": token, "as-groups": [], "as-user-extra": {}}))),
        Case::of("a plugin", &exec(plugin(v1))),
        Case::of("a plugin of v1beta1", &exec(plugin(beta))),
        Case::of("a plugin without a mode", &exec(json!({"apiVersion": v1, "command": "./plugin"}))),
        Case::of("a plugin of v1beta1 without a mode", &exec(json!({"apiVersion": beta, "command": "./plugin"}))),
        Case::of("a plugin without a command", &exec(json!({"apiVersion": v1, "interactiveMode": "Never"}))),
        Case::of("a plugin without a version", &exec(json!({"command": "./plugin", "interactiveMode": "Never"}))),
        Case::of("a plugin that is not there", &with("command", json!("./none"))),
        Case::of("a plugin with nulls", &with("args", json!(null))),
        Case::of("a plugin with no variables", &with("env", json!(null))),
        Case::of("a plugin with a variable", &with("env", json!([{"name": "A", "value": "b"}]))),
        Case::of("a plugin with a variable without a name", &with("env", json!([{"value": "b"}]))),
        Case::of("a plugin that fails", &with("command", json!("./failing"))),
        Case::of("a plugin and a provider", &parts.user(json!({"exec": plugin(v1), "auth-provider": {"name": "oidc"}}))),
        Case::of("a token and a plugin that fails", &parts.user(json!({
            "token": token, "exec": {"apiVersion": v1, "command": "./failing", "interactiveMode": "Never"}}))),
        Case::of("an unknown field", &parts.user(json!({"token": token, "colour": "red"}))),
    ]
}

/// What stands beside the entries that are used.
fn beside(parts: &Parts) -> Vec<Case> {
    let more = |list: &str, entry: Value| {
        parts.with(|config| config[list].as_array_mut().expect("a list").push(entry))
    };
    let yaml = serde_saphyr::to_string(&parts.config()).expect("YAML");
    let mut cases = vec![
        Case::of("a user twice", &more("users", json!({"name": "u", "user": {"token": "wrong"}}))),
        Case::of("a cluster twice", &more("clusters", json!({"name": "c"}))),
        Case::of("a context twice", &more("contexts", json!({"name": "x"}))),
        Case::of(
            "a context without a cluster",
            &more("contexts", json!({"name": "y", "context": {"user": "u"}})),
        ),
        Case::of("a context without anything", &more("contexts", json!({"name": "y"}))),
        Case::of("a user without a name", &more("users", json!({"user": {"token": "a"}}))),
        Case::of("a null among the users", &more("users", json!(null))),
        Case::of(
            "a provider without a name",
            &more("users", json!({"name": "v", "user": {"auth-provider": {"config": null}}})),
        ),
        Case::of("a plugin without anything", &more("users", json!({"name": "v", "user": {"exec": {}}}))),
        Case::of(
            "a plugin with nulls beside",
            &more("users", json!({"name": "v", "user": {"exec": {"env": null, "args": null}}})),
        ),
        Case::of("a text among the clusters", &more("clusters", json!("c"))),
        Case::of("bad bytes beside", &more("users", json!({"name": "v", "user": {"client-key-data": "%"}}))),
        Case::of("a number as a token beside", &more("users", json!({"name": "v", "user": {"token": 7}}))),
        Case::of(
            "extensions",
            &parts.with(|config| {
                config["contexts"][0]["context"]["extensions"] =
                    json!([{"name": "a", "extension": {"b": 1}}]);
            }),
        ),
        Case::of("preferences", &parts.with(|config| config["preferences"] = json!({"colors": true}))),
        Case::of("an unknown field at the top", &parts.with(|config| config["colour"] = json!("red"))),
        Case::of(
            "a user that is not there",
            &parts.with(|config| config["contexts"][0]["context"]["user"] = json!("v")),
        ),
        Case::of(
            "a cluster that is not there",
            &parts.with(|config| config["contexts"][0]["context"]["cluster"] = json!("d")),
        ),
        Case::of("a context that is not there", &parts.with(|config| config["current-context"] = json!("y"))),
        Case::of("another version", &parts.with(|config| config["apiVersion"] = json!("v2"))),
        Case::of("another kind", &parts.with(|config| config["kind"] = json!("List"))),
        Case::text("YAML", yaml.clone()),
        Case::text("a mark at the beginning", format!("\u{feff}{yaml}")),
        Case::text("ends of lines of Windows", yaml.replace('\n', "\r\n")),
        Case::text("a comment at the end", format!("{yaml}# the end\n")),
        Case::text("a document mark", format!("---\n{yaml}")),
        Case::text("a second document", format!("{yaml}---\ncurrent-context: y\n")),
        Case::text("nothing", ""),
        Case::text("a comment", "# nothing\n"),
        Case::text("not YAML", "contexts: {not: [a list"),
        Case::text("a list", "[]"),
        Case::text("a field twice", format!("{yaml}current-context: x\n")),
        Case::text("a tab", format!("\t{yaml}")),
    ];
    let mut named = Case::of(
        "another context by name",
        &more("contexts", json!({"name": "a/b:c d", "context": {"cluster": "c", "user": "u"}})),
    );
    named.context = Some("a/b:c d");
    let mut unknown = Case::of("an unknown context by name", &parts.config());
    unknown.context = Some("y");
    cases.extend([named, unknown]);
    cases
}

/// Several files.
fn lists(parts: &Parts) -> Vec<Case> {
    let whole = parts.config();
    let part = |fields: &[&str]| {
        let mut part = json!({});
        fields.iter().for_each(|field| part[*field] = whole[*field].clone());
        part
    };
    let (current, rest) = (json!({"current-context": "x"}), part(&["clusters", "users", "contexts"]));
    let wrong_user = json!({"users": [{"name": "u", "user": {"token": "wrong"}}]});
    let empty_current = json!({"current-context": "", "users": whole["users"]});
    let other = json!({"current-context": "y"});
    vec![
        Case::several("the current context in the second", "a:b", &[("a", &rest), ("b", &current)]),
        Case::several("the current context in the first", "a:b", &[("a", &current), ("b", &rest)]),
        Case::several(
            "an empty current context in the first",
            "a:b",
            &[("a", &empty_current), ("b", &whole)],
        ),
        Case::several("another current context in the first", "a:b", &[("a", &other), ("b", &whole)]),
        Case::several("another current context in the second", "a:b", &[("a", &whole), ("b", &other)]),
        Case::several("a wrong user in the second", "a:b", &[("a", &whole), ("b", &wrong_user)]),
        Case::several("a wrong user in the first", "a:b", &[("a", &wrong_user), ("b", &whole)]),
        Case::several("a file that is not there", "a:none", &[("a", &whole)]),
        Case::several("a file that is not there first", "none:a", &[("a", &whole)]),
        Case::several("empty names", ":a::", &[("a", &whole)]),
        Case::several("one file twice", "a:a", &[("a", &whole)]),
        Case::several("no file is there", "none:nowhere", &[]),
        Case::several(
            "a part in each",
            "a:b:c:d",
            &[
                ("a", &part(&["clusters"])),
                ("b", &part(&["users"])),
                ("c", &part(&["contexts"])),
                ("d", &current),
            ],
        ),
        Case::several("a broken file", "a:b", &[("a", &whole), ("b", &json!({"users": "x"}))]),
        Case::several("an empty document", "a:b", &[("a", &json!({})), ("b", &whole)]),
        Case::several("a folder", "a:.", &[("a", &whole)]),
    ]
}

fn write(folder: &Path, parts: &Parts) {
    let file = |name: &str, text: &str| std::fs::write(folder.join(name), text).expect("written");
    file("token", &parts.token);
    file("token-line", &format!("{}\n", parts.token));
    file("token-blanks", &format!("  {}\r\n\n", parts.token));
    file("wrong-token", "wrong");
    file("empty", "");
    std::fs::create_dir_all(folder.join("below")).expect("a folder");
    let credential =
        json!({"apiVersion": "APIVERSION", "kind": "ExecCredential", "status": {"token": parts.token}});
    let body = credential.to_string();
    let script = |text: &str, name: &str| {
        file(name, text);
        std::fs::set_permissions(folder.join(name), PermissionsExt::from_mode(0o755)).expect("executable");
    };
    let version = "case \"$KUBERNETES_EXEC_INFO\" in *v1beta1*) v=client.authentication.k8s.io/v1beta1;; \
        *) v=client.authentication.k8s.io/v1;; esac";
    script(&format!("#!/bin/sh\n{version}\nprintf '%s' '{body}' | sed \"s#APIVERSION#$v#\"\n"), "plugin");
    script("#!/bin/sh\necho no >&2\nexit 3\n", "failing");
}

/// Does the program reach the server?
fn reaches(mut command: Command, folder: &Path, case: &Case) -> bool {
    let list: Vec<PathBuf> = case
        .list
        .split(':')
        .map(|name| if name.is_empty() { PathBuf::new() } else { folder.join(name) })
        .collect();
    let list: OsString = std::env::join_paths(list).expect("a list");
    for name in ["HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy", "KUBERNETES_SERVICE_HOST"] {
        command.env_remove(name);
    }
    command.env("KUBECONFIG", list).env("HOME", folder).current_dir(folder);
    if let Some(context) = case.context {
        command.args(["--context", context]);
    }
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().expect("it runs").success()
}

#[test]
fn what_kubectl_connects_with_connects_and_nothing_else_does() {
    if Command::new("kubectl").arg("version").arg("--client").stdout(Stdio::null()).status().is_err() {
        println!("skipped: kubectl is not installed");
        return;
    }
    let home = tempfile::tempdir().expect("a folder");
    let server = Standalone::start(home.path(), &["--store", "memory", "--no-engine"]);
    let text = std::fs::read_to_string(server.kubeconfig()).expect("a kubeconfig");
    let config: Value = serde_saphyr::from_str(&text).expect("a document");
    let cluster = &config["clusters"][0]["cluster"];
    let word = |value: &Value| value.as_str().expect("a text").to_owned();
    let parts = Parts {
        server: word(&cluster["server"]),
        authority: word(&cluster["certificate-authority-data"]),
        token: word(&config["users"][0]["user"]["token"]),
    };
    let cases = [odd_fields(&parts), servers(&parts), users(&parts), beside(&parts), lists(&parts)].concat();
    assert!(cases.len() >= 150, "{}", cases.len());
    let (mut wrong, mut connecting) = (Vec::new(), 0);
    for case in &cases {
        let folder = tempfile::tempdir().expect("a folder");
        write(folder.path(), &parts);
        let authority = base64::engine::general_purpose::STANDARD.decode(&parts.authority).expect("base64");
        std::fs::write(folder.path().join("ca.crt"), authority).expect("written");
        for (name, text) in &case.files {
            std::fs::write(folder.path().join(name), text).expect("written");
        }
        let [oracle, own] = std::thread::scope(|scope| {
            let kubectl = scope.spawn(|| {
                let mut command = Command::new("kubectl");
                command.args(["get", "--raw", "/api/v1/namespaces", "--request-timeout=5s"]);
                reaches(command, folder.path(), case)
            });
            let mut command = Command::new(BINARY);
            command.args(["get", "clusters"]);
            let own = reaches(command, folder.path(), case);
            [kubectl.join().expect("kubectl"), own]
        });
        connecting += usize::from(oracle && own);
        if oracle != own {
            let done = |it: bool| if it { "connects" } else { "refuses" };
            wrong.push(format!("{}: kubectl {}, capstan {}", case.name, done(oracle), done(own)));
        }
    }
    println!("{} of {} as kubectl", cases.len() - wrong.len(), cases.len());
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!((50..=cases.len() - 50).contains(&connecting), "{connecting} of {} connect", cases.len());
}

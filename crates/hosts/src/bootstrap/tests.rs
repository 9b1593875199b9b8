//! Data that is read, and data that is refused by the name of its key.

use super::*;

fn read_it(text: &str) -> Result<BootstrapData, String> {
    let instance = Instance { instance_id: "uid-1".to_owned(), local_hostname: "h1".to_owned() };
    read(text, &instance).map_err(|refusal| refusal.to_string())
}

fn of(yaml: &str) -> Result<BootstrapData, String> {
    read_it(&format!("#cloud-config\n{yaml}"))
}

#[test]
fn files_are_read_with_cloud_inits_defaults() {
    let gzip = "H4sIAAAAAAAAA8tIzcnJBwCGphA2BQAAAA==";
    let data = of(&format!(
        "write_files:
- {{path: /a}}
- {{path: /b, content: aGk=, encoding: b64, permissions: '0600', owner: 'etcd:etcd', append: true}}
- {{path: /c, content: hi, permissions: 0755, owner: ops, defer: true}}
- {{path: /d, content: '{gzip}', encoding: gz+b64, permissions: 420}}
"
    ));
    let data = data.expect("data");
    let shown: Vec<_> = data
        .files
        .iter()
        .map(|f| (f.path.as_str(), f.content.as_slice(), f.owner.as_str(), f.mode, f.append, f.is_deferred))
        .collect();
    let expected: [(&str, &[u8], &str, u32, bool, bool); 4] = [
        ("/a", b"", "root:root", 0o644, false, false),
        ("/b", b"hi", "etcd:etcd", 0o600, true, false),
        ("/c", b"hi", "ops:root", 0o755, false, true),
        ("/d", b"hello", "root:root", 0o644, false, false),
    ];
    assert_eq!(shown, expected);
}

#[test]
fn what_is_not_carried_out_is_refused_by_its_key() {
    for (yaml, expected) in [
        ("packages: [vim]", "packages: capstan does not carry this out"),
        (
            "write_files: [{path: /a, source: {uri: 'http://x'}}]",
            "write_files[0].source.uri: capstan does not",
        ),
        ("write_files: [{path: /a}, {path: b}]", "write_files[1].path: expected an absolute path"),
        ("write_files: [{path: /a/../etc/x}]", "write_files[0].path: expected"),
        ("write_files: [{path: \"/a\\nb\"}]", "write_files[0].path: expected"),
        ("write_files: [{path: /a, encoding: rot13}]", "write_files[0].encoding: expected"),
        ("write_files: [{path: /a, encoding: b64, content: '%'}]", "write_files[0].content: expected base64"),
        ("write_files: [{path: /a, encoding: gz, content: x}]", "write_files[0].content: expected gzip"),
        ("write_files: [{path: /a, permissions: '0888'}]", "write_files[0].permissions: expected an octal"),
        ("write_files: [{path: /a, owner: '-x:y'}]", "write_files[0].owner: expected"),
        ("write_files: [{path: /a, append: 'yes'}]", "write_files[0].append: expected true or false"),
        ("write_files: [{path: /a, mode: 1}]", "write_files[0].mode: capstan does not"),
        ("write_files: 3", "write_files: expected a list"),
        ("runcmd: [{a: b}]", "runcmd[0]: expected a text or a list"),
        ("runcmd: [[[a]]]", "runcmd[0][0]: expected a text"),
        ("users: [default]", "users[0]: capstan does not carry this out"),
        ("users: [{name: -x}]", "users[0].name: expected the name of a user"),
        ("users: [{name: x, uid: 3}]", "users[0].uid: capstan does not"),
        ("users: [{name: x, sudo: \"ALL\\nroot ALL\"}]", "users[0].sudo: expected one line"),
        ("users: [{name: x, passwd: 'a:b'}]", "users[0].passwd: expected a hashed password"),
        ("users: [{name: x, groups: 'a b'}]", "users[0].groups: a b: expected the name of a group"),
        ("mounts: [[sdb]]", "mounts[0]: expected at least"),
        ("mounts: [[ephemeral0, /x]]", "mounts[0][0]: capstan does not"),
        ("ntp: {servers: ['-x']}", "ntp.servers: expected names"),
        ("ntp: {ntp_client: chrony}", "ntp.ntp_client: capstan does not"),
        ("disk_setup: {/dev/sdb: {layout: true}}", "disk_setup: capstan does not"),
        ("fs_setup: [{device: /dev/sdb}]", "fs_setup: capstan does not"),
        ("write_files: [", "is not YAML"),
        ("[a]", "expected a map"),
    ] {
        let error = of(yaml).expect_err(yaml);
        assert!(error.contains(expected), "{yaml}: {error}");
    }
}

#[test]
fn other_documents_are_refused_by_their_kind() {
    for (text, expected) in [
        ("", "unknown"),
        ("#!/bin/sh\n", "a script"),
        ("Content-Type: multipart/mixed", "a MIME archive"),
        ("{\"ignition\": {}}", "JSON, such as Ignition's"),
        ("#include\nhttp://x", "a list of addresses"),
        ("## template: basic\n#cloud-config\n", "a template of another kind"),
        ("## template: jinja\n#!/bin/sh\n", "a script"),
        ("#cloud-config-archive\n[]", "another document of cloud-init"),
    ] {
        let error = read_it(text).expect_err(text);
        assert!(error.contains(expected), "{text}: {error}");
    }
    assert!(read_it(&" ".repeat(3_000_000)).expect_err("much").contains("at most 2097152"));
}

#[test]
fn mounts_become_lines_of_fstab() {
    let data = of(
        "mounts: [[sdb, /data], ['LABEL=etcd disk', /var/lib/etcd, ext4, defaults, 0, 0], [/swap, none, swap, sw]]",
    );
    let lines: Vec<String> = data.expect("data").mounts.iter().map(|mount| mount.line.clone()).collect();
    let expected = [
        "/dev/sdb\t/data\tauto\tdefaults,nofail,_netdev,comment=capstan\t0\t2",
        "LABEL=etcd\\040disk\t/var/lib/etcd\text4\tdefaults,comment=capstan\t0\t0",
        "/swap\tnone\tswap\tsw,comment=capstan\t0\t2",
    ];
    assert_eq!(lines, expected);
}

#[test]
fn folders_of_mounts_are_named_as_the_kernel_names_them() {
    for (folder, expected) in [
        ("/data", "/data"),
        ("/data/", "/data"),
        ("//data//deep/./er/", "/data/deep/er"),
        ("/with a blank/", "/with a blank"),
        ("/", "/"),
    ] {
        let data = of(&format!("mounts: [[sdb, '{folder}']]")).expect("data");
        assert_eq!(data.mounts[0].folder.as_deref(), Some(expected), "{folder}");
        let line = format!("/dev/sdb\t{}\tauto", expected.replace(' ', "\\040"));
        assert!(data.mounts[0].line.starts_with(&line), "{}", data.mounts[0].line);
    }
}

#[test]
fn nothing_of_the_data_is_shown() {
    let secret = "c2VjcmV0-plan";
    let data =
        of(&format!("write_files: [{{path: /a, content: {secret}}}]\nruncmd: [{secret}]")).expect("data");
    assert!(!format!("{data:?}").contains(secret));
    for yaml in
        [format!("write_files: [{{path: /a, encoding: b64, content: '{secret}%'}}]"), format!("a: [{secret}")]
    {
        assert!(!of(&yaml).expect_err("wrong").contains(secret), "{yaml}");
    }
}

proptest::proptest! {
    #[test]
    fn no_text_is_too_strange(text in "(## template: jinja\n)?(#cloud-config\n)?(\\PC{0,30}\n){0,8}") {
        if let Err(error) = read_it(&text) {
            proptest::prop_assert!(error.chars().all(|c| !c.is_control()), "{}", error);
        }
    }

    #[test]
    fn no_yaml_of_known_keys_is_too_strange(
        key in "(write_files|bootcmd|runcmd|ntp|users|mounts)",
        value in "(\\[|\\{|- |path: |name: |content: |[a-z0-9/'\" ,:\n]){0,24}",
    ) {
        let _ = of(&format!("{key}: {value}"));
    }
}

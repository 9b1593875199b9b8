#!/usr/bin/env python3
"""Whether each host runs with what a change asked for: one line for each rule and value, and exit code 1 when one does not.

shows.py PATCH SSH-CONFIG KUBECONFIG HOST...   (hosts are named as their Nodes are)
"""
import json
import os
import pathlib
import re
import subprocess
import sys
import tomllib

COMPONENTS = {
    ("apiServer",): "kube-apiserver",
    ("controllerManager",): "kube-controller-manager",
    ("scheduler",): "kube-scheduler",
    ("etcd", "local"): "etcd",
}
NAMES = {
    ("apiServer", "certSANs"): (6443, "/etc/kubernetes/pki/apiserver.crt"),
    ("etcd", "local", "serverCertSANs"): (None, "/etc/kubernetes/pki/etcd/server.crt"),
    ("etcd", "local", "peerCertSANs"): (None, "/etc/kubernetes/pki/etcd/peer.crt"),
}
# Not shown by a running host: they count for certificates that are made later.
LATER = {("certificateValidityPeriod",), ("caCertificateValidityPeriod",), ("encryptionAlgorithm",)}


class Cluster:
    def __init__(self, ssh_config, kubeconfig):
        self.ssh_config, self.kubeconfig = ssh_config, kubeconfig

    def on(self, host, script):
        command = ["ssh", "-F", self.ssh_config, host, script]
        return subprocess.run(command, capture_output=True, text=True, check=False).stdout

    def process(self, host, program, file):
        """A file of /proc of the program's oldest process, with one item in each line."""
        find = f"tr '\\0' '\\n' </proc/$(pgrep -of '^([^ ]*/)?{program} ')/{file}"
        return self.on(host, find).splitlines()

    def sees(self, host, program, path):
        return self.on(host, f"ls -d /proc/$(pgrep -of '^([^ ]*/)?{program} ')/root{path}").strip() != ""

    def kubelet(self, host):
        path = f"/api/v1/nodes/{host}/proxy/configz"
        command = ["kubectl", "--kubeconfig", self.kubeconfig, "get", "--raw", path]
        answer = subprocess.run(command, capture_output=True, text=True, check=False)
        return json.loads(answer.stdout)["kubeletconfig"] if answer.returncode == 0 else {}

    def names(self, host, port, file):
        shown = "openssl x509 -noout -ext subjectAltName"
        if port is None:
            return self.on(host, f"{shown} -in {file}")
        return self.on(host, f"openssl s_client -connect 127.0.0.1:{port} </dev/null 2>/dev/null | {shown}")


def leaves(value, path=()):
    if isinstance(value, dict):
        for key, below in value.items():
            yield from leaves(below, path + (key,))
    else:
        yield path, value


def at(value, path):
    for key in path:
        value = value.get(key) if isinstance(value, dict) else None
    return value


def of_component(cluster, host, program, field, items):
    for item in items:
        if field == "extraArgs":
            wanted = f"--{item['name']}={item['value']}"
            yield f"{field}[NAME].value", wanted, wanted in cluster.process(host, program, "cmdline")
        elif field == "extraEnvs":
            wanted = f"{item['name']}={item['value']}"
            yield f"{field}[NAME].value", wanted, wanted in cluster.process(host, program, "environ")
        elif field == "extraVolumes":
            yield f"{field}[NAME].mountPath", item["mountPath"], cluster.sees(host, program, item["mountPath"])


def since():
    """The minor version that is the first to read a field of the kubelet, where the table of the rules names one."""
    table = pathlib.Path(__file__).parents[2] / "crates/kubeadm-change/src/schema.toml"
    fields = tomllib.loads(table.read_text(encoding="utf-8"))["KubeletConfiguration"]
    marks = {field: re.search(r" since 1\.(\d+)", type_) for field, type_ in fields.items()}
    return {field: int(mark[1]) for field, mark in marks.items() if mark}


def of_kubelet(cluster, host, patch):
    effective, minor, first = cluster.kubelet(host), int(os.environ["KUBERNETES"].split(".")[1]), since()
    for path, wanted in leaves(patch):
        if path[0] not in ("apiVersion", "kind"):
            found = at(effective, path)
            if first.get(path[0], 0) > minor:
                yield ".".join(path), f"{wanted}: 1.{minor} ignores it (has {found})", found is None
                continue
            yield ".".join(path), f"{wanted} (has {found})" if found != wanted else str(wanted), found == wanted


def of_cluster(cluster, host, patch):
    for path, wanted in leaves(patch):
        if path in NAMES:
            served = cluster.names(host, *NAMES[path])
            for name in wanted:
                yield ".".join(path), name, name in served
        elif path[:-1] in COMPONENTS:
            for rule, what, is_shown in of_component(cluster, host, COMPONENTS[path[:-1]], path[-1], wanted):
                yield ".".join(path[:-1]) + "." + rule, what, is_shown
        elif path == ("clusterName",):
            flag = f"--cluster-name={wanted}"
            yield "clusterName", flag, flag in cluster.process(host, "kube-controller-manager", "cmdline")
        elif path in LATER:
            yield ".".join(path), f"{wanted}: for certificates that are made later", True
        else:
            yield ".".join(path), f"{wanted}: nothing here knows how a host shows it", False


def main(patch_file, ssh_config, kubeconfig, *hosts):
    with open(patch_file, encoding="utf-8") as text:
        patch = json.load(text)
    cluster, failed = Cluster(ssh_config, kubeconfig), False
    check = of_kubelet if patch.get("kind") == "KubeletConfiguration" else of_cluster
    if check is of_cluster:
        hosts = [host for host in hosts if "kube-apiserver" in cluster.on(host, "ls /etc/kubernetes/manifests")]
    for host in hosts:
        for rule, what, is_shown in check(cluster, host, patch):
            failed |= not is_shown
            print(f"{rule}\t{host}\t{'shows' if is_shown else 'LACKS'}\t{what}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))

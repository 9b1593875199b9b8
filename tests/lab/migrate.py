#!/usr/bin/env python3
"""A leader migration as `capstan leader-migration` prints it, pasted: what is done on a host is done on it, nothing else.

migrate.py VERB WAY SSH-CONFIG KUBECONFIG CAPSTAN HOST...
  VERB  next or back: whose edits are made, until kube-controller-manager has, or does not have, the flag
  WAY   manifest: the fields of the static pod, into the manifest of each host; kubeadm: the patch, by `capstan change apply`

Prints what runs afterwards and who renews the lock; exit code 1 where a host does not run as the edits say.
"""
import json
import subprocess
import sys
import tempfile
import time

VERB, WAY, SSH_CONFIG, KUBECONFIG, CAPSTAN = sys.argv[1:6]
HOSTS = sys.argv[6:]
FILE = "/etc/kubernetes/leader-migration.yaml"
MANIFEST = "/etc/kubernetes/manifests/kube-controller-manager.yaml"
LEASE = "cloud-provider-extraction-migration"
ROUNDS, PAUSE_S = 40, 6


def run(command, text=None):
    return subprocess.run(command, input=text, capture_output=True, text=True, check=False)


def on(host, script, text=None):
    return run(["ssh", "-F", SSH_CONFIG, host, script], text)


def kubectl(*arguments, text=None):
    return run(["kubectl", "--kubeconfig", KUBECONFIG, *arguments], text)


def walkthrough():
    said = run([CAPSTAN, "leader-migration", VERB, "--kubeconfig", KUBECONFIG, "-o", "json"])
    document = json.loads(said.stdout)
    steps = document.get("steps") or document.get("stages") or [document]
    return next((step for step in steps if step["state"] not in ("done", "later")), None)


def as_json(yaml):
    return json.loads(kubectl("create", "-f", "-", "--dry-run=client", "--validate=false", "-o", "json", text=yaml).stdout)


def paste(host, edit):
    """Each field of the edit, whole, in place of what it is; a container is the one of its name."""
    wanted = as_json("apiVersion: v1\nkind: Pod\nmetadata: {name: pasted}\n" + edit)["spec"]
    pod = as_json(on(host, f"cat {MANIFEST}").stdout)
    for container in wanted.pop("containers", []):
        there = next(one for one in pod["spec"]["containers"] if one["name"] == container["name"])
        there.update({key: container[key] for key in ("command", "volumeMounts") if key in container})
    pod["spec"].update({key: value for key, value in wanted.items() if key == "volumes"})
    # The kubelet reads every file of the folder, so that the new one is made outside.
    on(host, f"cat >/etc/kubernetes/kcm.new && mv /etc/kubernetes/kcm.new {MANIFEST}", json.dumps(pod))


def make(edit):
    title, text = edit["title"], edit["text"]
    if title.startswith(FILE):
        for host in HOSTS:
            on(host, f"cat >{FILE}", text)
    elif "kubectl apply" in title:
        kubectl("apply", "-f", "-", text=text)
    elif "static pod" in title and WAY == "manifest":
        for host in HOSTS:
            if host in title:
                paste(host, text)
    elif "ClusterConfiguration" in title and WAY == "kubeadm":
        with tempfile.NamedTemporaryFile("w", suffix=".yaml") as patch:
            patch.write(text)
            patch.flush()
            ssh = SSH_CONFIG.replace("ssh_config", "ssh")
            done = run([CAPSTAN, "change", "apply", "--kubeconfig", KUBECONFIG, "--patch-type", "merge", "-f", patch.name,
                        "--yes", "--acknowledge", "--executor", "ssh", "--ssh-program", ssh, "--timeout", "10m"])
            if done.returncode != 0:
                print(f"   change apply ended with {done.returncode}: {done.stderr.strip()[-300:]}")


def flags(host):
    find = "tr '\\0' '\\n' </proc/$(pgrep -of '^([^ ]*/)?kube-controller-manager ')/cmdline"
    return [line for line in on(host, find).stdout.splitlines() if "migration" in line]


def lock():
    spec = json.loads(kubectl("-n", "kube-system", "get", "lease", LEASE, "-o", "json").stdout or "{}").get("spec", {})
    return spec.get("holderIdentity", ""), spec.get("renewTime", "")


def is_there(wanted):
    return all(bool(flags(host)) == wanted for host in HOSTS)


def is_renewed():
    first = lock()
    for _ in range(5):
        time.sleep(3)
        if lock() != first:
            return True
    return False


def main():
    wanted = VERB == "next"
    for _ in range(ROUNDS):
        if is_there(wanted):
            break
        step = walkthrough()
        for edit in (step or {}).get("edits") or []:
            make(edit)
        time.sleep(PAUSE_S)
    for _ in range(ROUNDS):
        if is_there(wanted) and is_renewed() == wanted:
            break
    is_right = is_there(wanted) and is_renewed() == wanted
    holder = lock()[0].split("_")[0] if wanted else "nobody"
    for host in HOSTS:
        print(f"   {'✓' if is_right else '✗'} {VERB} by {WAY}: {host} runs with {' '.join(flags(host)) or 'no flag of it'}, the lock is renewed by {holder}")
    sys.exit(0 if is_right else 1)


main()

#!/usr/bin/env python3
"""An image archive (one layer, as `ctr images import` reads it) from files of this machine.

image.py ARCHIVE NAME:TAG ENTRYPOINT SOURCE=TARGET...   (ENTRYPOINT may be empty)
"""
import hashlib
import io
import json
import sys
import tarfile


def entry(name, size=0, folder=False):
    info = tarfile.TarInfo(name)
    info.mode, info.size = 0o755, size
    info.type = tarfile.DIRTYPE if folder else tarfile.REGTYPE
    return info


def layer(files):
    """The files, each with the folders above it, and those that programs expect in any root."""
    raw, folders = io.BytesIO(), set()
    with tarfile.open(fileobj=raw, mode="w") as tar:
        for source, target in files:
            parts = target.strip("/").split("/")
            for depth in range(1, len(parts)):
                folders.add("/".join(parts[:depth]))
        for folder in sorted(folders | {"etc", "tmp", "var"}):
            tar.addfile(entry(folder, folder=True))
        for source, target in files:
            with open(source, "rb") as content:
                data = content.read()
            tar.addfile(entry(target.strip("/"), len(data)), io.BytesIO(data))
    return raw.getvalue()


def main(archive, name, entrypoint, *pairs):
    content = layer([pair.split("=", 1) for pair in pairs])
    digest = hashlib.sha256(content).hexdigest()
    config = {
        "architecture": "amd64",
        "os": "linux",
        "config": {"Env": ["PATH=/usr/local/bin:/usr/bin:/bin"], "Entrypoint": entrypoint.split()},
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{digest}"]},
    }
    described = json.dumps(config).encode()
    config_name = hashlib.sha256(described).hexdigest() + ".json"
    manifest = [{"Config": config_name, "RepoTags": [name], "Layers": [f"{digest}/layer.tar"]}]
    parts = {config_name: described, f"{digest}/layer.tar": content, "manifest.json": json.dumps(manifest).encode()}
    with tarfile.open(archive, "w") as tar:
        for part, data in parts.items():
            tar.addfile(entry(part, len(data)), io.BytesIO(data))


if __name__ == "__main__":
    main(*sys.argv[1:])

#!/usr/bin/env python3
"""Whether the tables of flags and feature gates say what the programs of a release say: one line for each component, and exit
code 1 when something differs.

accepted.py FOLDER-OF-PROGRAMS RELEASE   (RELEASE: v1.28.15)
"""
import pathlib
import re
import subprocess
import sys

TABLES = pathlib.Path(__file__).parents[2] / "crates/kubeadm-change/src/accepted"
# pflag's words for types, beside those of the table; what is not here has one word in both.
WORDS = {"": "bool", "strings": "stringSlice", "int": "int64", "float": "float64", "cidrs": "value", "version": "value",
         "pattern": "pattern=N,...", "ints": "int32Slice"}


def releases(text):
    spans = (span.split("-") for span in text.split(",") if span != "-")
    return {minor for first, last in spans for minor in range(int(first), int(last) + 1)}


def rows(file, owner):
    lines = (TABLES / file).read_text(encoding="utf-8").splitlines()
    return [words[1:] for words in map(str.split, lines) if words and words[0] == owner]


def known_flags(component, minor):
    return {row[0]: row[1] for row in rows("flags.txt", component) if minor in releases(row[2])}


def known_gates(minor):
    found = {}
    for name, having, *rest in rows("gates.txt", "kubernetes"):
        if minor in releases(having):
            found[name] = bool(rest) and minor in releases(rest[0])
    return found


def said(program, *arguments):
    done = subprocess.run([program, *arguments], capture_output=True, text=True, check=False, timeout=60)
    return done.stdout + done.stderr


def differences(program, component, minor):
    text, known = said(program, "--help"), known_flags(component, minor)
    flags = dict(re.findall(r"^ +(?:-\w, )?--([a-z0-9-]+)(?: ([\w<>=,.]+))?", text, re.MULTILINE))
    for name in sorted(flags.keys() - known.keys()):
        yield f"--{name} is not in the table"
    # Deprecated ones are not shown, but taken: whoever does not know a flag says so before anything else.
    for name in sorted(known.keys() - flags.keys()):
        if "unknown flag" in said(program, f"--{name}=1"):
            yield f"--{name} is in the table, and not known"
    for name in sorted(known.keys() & flags.keys()):
        word = flags[name]
        alike = {word, WORDS.get(word, word)}
        if known[name] not in alike and not known[name][0].isupper() and word not in ("string", "int32", "mapStringBool"):
            yield f"--{name} takes {word or 'bool'}, and {known[name]} in the table"
    gates = known_gates(minor)
    for name, default in re.findall(r"([A-Z]\w+)=true\|false \([A-Z]+ - default=(true|false)\)", text):
        if gates.get(name) != (default == "true"):
            yield f"gate {name}: by itself {default}, and {gates.get(name)} in the table"


def main(folder, release):
    failed, minor = False, int(release.split(".")[1])
    for component in ("kube-apiserver", "kube-controller-manager", "kube-scheduler"):
        found = list(differences(f"{folder}/{component}", component, minor))
        failed |= bool(found)
        print(f"   {component}: {len(found)} differences of {len(known_flags(component, minor))} flags")
        for line in found:
            print(f"      {line}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))

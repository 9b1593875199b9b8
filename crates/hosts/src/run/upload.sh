# upload.sh INSTALLATION HOST MACHINE CLUSTER GENERATION RUN DIGEST, an archive on standard input: the folder of a run.
lock_owned "$1" "$2" "$3" "$4" "$5"
run=$base/runs/$6
if [ "$(cat "$run/ready" 2>/dev/null)" = "$7" ]; then finish already; fi
# What is remembered of the machine belongs to the steps that are there: a reset gives it back first.
if [ -d "$run/before" ]; then finish differs; fi
part=$base/runs/.$6
rm -rf "$part" && mkdir "$part" || failed "cannot make $part"
# A connection that is gone may stay open here for hours, and the lock with it.
reason=$(timeout -k 10 120 tar -xf - -C "$part" 2>&1) || { rm -rf "$part"; failed "the files cannot be unpacked: $reason"; }
cd "$part" || failed "cannot enter $part"
[ "$(sha256sum <manifest | cut -c 1-64)" = "$7" ] || failed "the list of the files is not the one that was sent"
sha256sum -c manifest >/dev/null 2>&1 || failed "a file is not the one that was sent"
printf '%s\n' "$expected" >owner && chmod 0600 owner && mkdir -p "$run" || failed "cannot make $run"
rm -rf "$run/ready" "$run/files" && mv files script manifest kubeadm owner "$run/" || failed "cannot write below $run"
cd / && rm -rf "$part"
# What an attempt with other data printed says nothing of this data.
if [ -s "$run/log" ]; then mv -f "$run/log" "$run/log.before" || failed "cannot write below $run"; fi
: >>"$run/log"
flush_all "$run"
printf '%s\n' "$7" >"$run/ready.part" && flush "$run/ready.part" && mv "$run/ready.part" "$run/ready" || failed "cannot write below $run"
flush "$run"
finish completed

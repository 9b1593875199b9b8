# Whose this machine is, and one job at a time. Where CAPSTAN_ROOT is set, everything is below it (for tests).
umask 077
LC_ALL=C
PATH=${CAPSTAN_PATH:-/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin}
export LC_ALL PATH
root=${CAPSTAN_ROOT:-}
base=$root/var/lib/capstan
# Links that networks of Kubernetes make. tunl0 is not among them: the kernel makes it, and no program can delete it.
links="cni0 flannel.1 vxlan.calico kube-ipvs0 cilium_host cilium_net cilium_vxlan antrea-gw0 weave nodelocaldns"
say() { printf '%s=%s\n' "$1" "$(printf '%s' "$2" | tr '\n' ' ' | cut -c 1-500)"; }
finish() {
  say answer "$1"
  say end yes
  exit 0
}
failed() {
  say reason "$1"
  finish failed
}
# To the disk: the file, or where `sync` takes no names everything.
flush() { sync "$1" 2>/dev/null || sync; }
flush_all() { sync -f "$1" 2>/dev/null || sync; }
owner_text() { printf 'format=1\ninstallation=%s\nhost=%s\nmachine=%s\ncluster=%s\ngeneration=%s\n' "$@"; }
say_owner() { sed -n 's/^\([a-z]*\)=/owner_\1=/p' "$base/owner" | cut -c 1-300 | head -n 8; }
# An owner of no words owns nothing: a file that is not there has no words either.
is_owned() { [ -n "$1" ] && [ "$(sed '/^since=/d' "$base/owner" 2>/dev/null)" = "$1" ]; }
# The folders of mounts that this pattern of sed matches, as /proc/mounts names them.
mounted_below() { sed -n "s|^[^ ]* \\($1/[^ ]*\\) .*|\\1|p" "$root/proc/mounts" 2>/dev/null; }
# A path of /proc/mounts as it is: `\040` in it stands for a blank.
unescaped() { printf '%b' "$(printf '%s' "$1" | sed 's/\\\([0-7][0-7][0-7]\)/\\0\1/g')"; }
# Those of lines of /etc/fstab that a run wrote.
mounted_by_capstan() {
  awk 'FILENAME == ARGV[1] { if (/comment=capstan/) own[$2]; next } $2 in own { print $2 }' "$root/etc/fstab" "$root/proc/mounts" 2>/dev/null
}
# Calico gives tunl0 an address, and other tunnels have some too.
tunnel_addresses() {
  if [ -e "$root/sys/class/net/tunl0" ]; then ip -o addr show dev tunl0 2>/dev/null | awk '$3 ~ /^inet/ { print $4 }'; fi
}
# A job holds the lock for as long as it runs.
lock() {
  mkdir -p "$base/runs" || failed "cannot make $base"
  exec 9>>"$base/lock" || failed "cannot write $base/lock"
  tries=0
  until flock -n 9; do
    tries=$((tries + 1))
    [ "$tries" -lt 4 ] || finish busy
    sleep 1
  done
}
# For the owner in five words only; anybody else is answered with whose the machine is.
lock_owned() {
  lock
  expected=$(owner_text "$@")
  if [ ! -e "$base/owner" ]; then finish free; fi
  is_owned "$expected" || { say_owner; finish other; }
}

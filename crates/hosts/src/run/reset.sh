# Takes back what a run did, and what kubeadm leaves.
# SECONDS COMMAND...: a program that does not answer does not hold the reset up.
limited() { timeout -k 10 "$@"; }
reset_kubeadm() { # [SOCKET]
  if ! command -v kubeadm >/dev/null 2>&1; then
    note "kubeadm is not installed"
    return 0
  fi
  if [ -n "$1" ]; then set -- --cri-socket "$1"; else set --; fi
  timeout -k 30 600 kubeadm reset -f "$@"
}
unmount() { # FOLDER, as /proc/mounts names it
  set -- "$(unescaped "$1")"
  limited 60 umount "$1" || limited 60 umount -l "$1"
}
stop_kubelet() {
  systemctl stop kubelet 2>/dev/null
  for folder in $(mounted_below /var/lib/kubelet | sort -r); do unmount "$folder"; done
}
# Pods that kubeadm did not find, as their manifests were gone.
remove_pods() { # [SOCKET]
  if command -v crictl >/dev/null 2>&1; then
    set -- ${1:+--runtime-endpoint "$1"}
    limited 60 crictl "$@" pods -q | while read -r pod; do
      limited 120 crictl "$@" stopp "$pod"
      limited 120 crictl "$@" rmp -f "$pod"
    done
  elif command -v ctr >/dev/null 2>&1; then
    limited 60 ctr -n k8s.io tasks ls -q | while read -r task; do limited 60 ctr -n k8s.io tasks kill -s 9 "$task"; done
    limited 60 ctr -n k8s.io tasks ls -q | while read -r task; do limited 60 ctr -n k8s.io tasks rm -f "$task"; done
    limited 60 ctr -n k8s.io containers ls -q | while read -r container; do limited 60 ctr -n k8s.io containers rm "$container"; done
  fi
}
# From the rules as they are saved: what takes the chains KUBE-* and CNI-* away with the rules that lead into them, and nothing else.
# A chain that is named anew is emptied, so that the order of the chains does not matter; a comment in quotes leads nowhere.
without_chains() {
  awk '
    /^\*/ { print; gone = "" }
    /^:(KUBE|CNI)-/ { print $1 " - [0:0]"; gone = gone "-X " substr($1, 2) "\n" }
    /^-A / && !/^-A (KUBE|CNI)-/ {
      bare = $0
      gsub(/"([^"\\]|\\.)*"/, "", bare)
      if (bare ~ / -[jg] (KUBE|CNI)-/) { sub(/^-A/, "-D"); print }
    }
    /^COMMIT/ { printf "%s", gone; print }'
}
clean_rules() {
  for family in iptables ip6tables; do
    command -v "$family-save" >/dev/null 2>&1 || continue
    rules=$("$family-save" 2>/dev/null) || continue
    case $rules in *KUBE-* | *CNI-*) printf '%s\n' "$rules" | without_chains | "$family-restore" --noflush || note "cannot remove rules of $family" ;; esac
  done
  if command -v nft >/dev/null 2>&1; then
    for family in ip ip6; do nft delete table "$family" kube-proxy 2>/dev/null || true; done
  fi
}
# kubeadm names these itself as what it leaves: network configuration, and rules of iptables, nftables and IPVS.
clean_network() { # RUN
  undone=$base/runs/$1
  if [ -e "$undone/before/cni" ]; then
    for file in "$root"/etc/cni/net.d/*; do
      [ -e "$file" ] || continue
      grep -qxF "${file##*/}" "$undone/before/cni" || rm -f "$file"
    done
  fi
  # Without this link no kube-proxy made services of IPVS, and those that are there are somebody else's. Before the links go, so that a
  # reset that was cut off here does it again.
  if [ -e "$root/sys/class/net/kube-ipvs0" ] && command -v ipvsadm >/dev/null 2>&1; then ipvsadm --clear || true; fi
  for link in $links; do
    [ -e "$root/sys/class/net/$link" ] || continue
    ip link delete "$link" || note "cannot delete $link"
  done
  clean_tunnel "$undone/tunl0"
  clean_rules
}
# NOTED: the addresses of tunl0 that were there before the run. A run that noted none added none.
clean_tunnel() {
  if [ ! -e "$root/sys/class/net/tunl0" ] || [ ! -e "$1" ]; then return 0; fi
  for address in $(tunnel_addresses); do
    grep -qxF "$address" "$1" || ip addr del "$address" dev tunl0 || note "cannot delete the address $address of tunl0"
  done
  if [ -z "$(tunnel_addresses)" ]; then ip link set tunl0 down || note "cannot take tunl0 down"; fi
}
# What kubeadm made and does not take away itself when it died half way.
remove_node_files() {
  for name in manifests tmp pki admin.conf super-admin.conf kubelet.conf bootstrap-kubelet.conf controller-manager.conf scheduler.conf; do
    rm -rf "$root/etc/kubernetes/$name"
  done
  rm -rf "$root"/var/lib/etcd/* "$root/run/cluster-api/bootstrap-success.complete"
  rm -f "$root/var/lib/kubelet/config.yaml" "$root/var/lib/kubelet/kubeadm-flags.env" "$root/var/lib/kubelet/instance-config.yaml"
}
give_back() { # RECORD: the path that stands in it becomes what it was
  path=$(cat "$1.path") || return 1
  folder=${path%/*}/
  # There was nothing, and there is nothing.
  if [ ! -e "$1.copy" ] && [ ! -e "$folder" ] && [ ! -h "${folder%/}" ]; then return 0; fi
  (enter_noted "$1" "$path" && put_back "$1" "./${path##*/}")
}
put_back() { # RECORD NAME: in the folder where this is
  part=$(part_of "$2")
  if [ ! -e "$1.copy" ]; then
    rm -f "$2" "$part"
    return
  fi
  rm -f "$part" && cp -p "$1.copy" "$part" && flush "$part" && mv -f "$part" "$2" && return 0
  rm -f "$part"
  return 1
}
remove_user() { # NAME
  if ! id "$1" >/dev/null 2>&1; then return 0; fi
  userdel -r "$1" 2>/dev/null || userdel "$1"
}
# FILE NAME: the file has `NAME:HASH`. A text that is shorter than any hash, such as `!`, is not secret, and newer versions of chpasswd
# refuse it (shadow, lib/chkhash.c). A hash never stands in the list of processes.
give_password_back() {
  if ! id "$2" >/dev/null 2>&1; then return 0; fi
  hash=$(cut -d : -f 2 "$1")
  case $hash in
  *'$'* | ?????????????*) chpasswd -e <"$1" ;;
  *) usermod -p "$hash" "$2" ;;
  esac
}
# BEFORE: swap that was off before the run.
switch_swap_off() {
  if [ ! -e "$1/swaps" ]; then return 0; fi
  is_off=yes
  for swap in $(swaps); do
    grep -qxF "$swap" "$1/swaps" || limited 600 swapoff "$swap" || is_off=no
  done
  [ "$is_off" = yes ]
}
# RUN: its steps backwards, each path as it was before it. What cannot be given back now stays in its folder, and the rest goes on.
restore_files() {
  undone=$base/runs/$1/before
  kept=
  keep() {
    note "cannot give back $1"
    kept=yes
  }
  # By its lines in /etc/fstab the next reset knows what is mounted still.
  mounts=
  for folder in $(mounted_by_capstan | sort -r); do
    if ! unmount "$folder"; then
      keep "$folder"
      mounts=$(resolved "$root/etc/fstab")
    fi
  done
  switch_swap_off "$undone" || keep "the swap"
  for file in $(ls -1 "$undone" 2>/dev/null | sed -n 's/\.path$//p' | sort -r); do
    if [ "$(cat "$undone/$file.path")" = "$mounts" ]; then continue; fi
    give_back "$undone/$file" || keep "$path"
  done
  # Only those that are empty go.
  sort -r -u "$undone/folders" 2>/dev/null | while read -r folder; do rmdir "$folder" 2>/dev/null; done
  for file in $(ls -1 "$undone" 2>/dev/null | grep '\.user$'); do
    name=$(cat "$undone/$file")
    remove_user "$name" || keep "user $name"
  done
  for file in $(ls -1 "$undone" 2>/dev/null | grep '\.hash$'); do
    give_password_back "$undone/$file" "${file%.hash}" || keep "the password of ${file%.hash}"
  done
  systemctl daemon-reload
  # Under another name first: half of what is remembered would have the next reset remove what was given back.
  [ -z "$kept" ] || return 1
  rm -rf "$undone.gone"
  if [ -d "$undone" ]; then mv "$undone" "$undone.gone" && rm -rf "$undone.gone"; fi
}
# RUN: it counts as undone, and may begin again.
count_as_undone() {
  undone=$base/runs/$1
  last=$(ls -1 "$undone/steps" 2>/dev/null | sort -n | tail -n 1)
  [ -n "$last" ] || return 0
  mark "$undone/steps/$last/reset" "$(date +%s)" && rm -rf "$undone/finished"
}

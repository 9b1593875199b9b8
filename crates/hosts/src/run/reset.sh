# Takes back what a run did, and what kubeadm leaves.
reset_kubeadm() { # [SOCKET]
  if ! command -v kubeadm >/dev/null 2>&1; then
    note "kubeadm is not installed"
    return 0
  fi
  if [ -n "$1" ]; then set -- --cri-socket "$1"; else set --; fi
  timeout -k 30 600 kubeadm reset -f "$@"
}
stop_kubelet() {
  systemctl stop kubelet 2>/dev/null
  for folder in $(sed -n 's/^[^ ]* \(\/var\/lib\/kubelet\/[^ ]*\) .*/\1/p' /proc/mounts | sort -r); do umount "$folder" || umount -l "$folder"; done
}
# Pods that kubeadm did not find, as their manifests were gone.
remove_pods() { # [SOCKET]
  if command -v crictl >/dev/null 2>&1; then
    set -- ${1:+--runtime-endpoint "$1"}
    crictl "$@" pods -q | while read -r pod; do crictl "$@" stopp "$pod"; crictl "$@" rmp -f "$pod"; done
  elif command -v ctr >/dev/null 2>&1; then
    ctr -n k8s.io tasks ls -q | while read -r task; do ctr -n k8s.io tasks kill -s 9 "$task"; done
    ctr -n k8s.io tasks ls -q | while read -r task; do ctr -n k8s.io tasks rm -f "$task"; done
    ctr -n k8s.io containers ls -q | while read -r container; do ctr -n k8s.io containers rm "$container"; done
  fi
}
# kubeadm names these itself as what it leaves: network configuration, and rules of iptables, nftables and IPVS.
clean_network() { # RUN [ADDRESS]
  undone=$base/runs/$1
  if [ -e "$undone/before/cni" ]; then
    for file in /etc/cni/net.d/*; do
      [ -e "$file" ] || continue
      grep -qxF "${file##*/}" "$undone/before/cni" || rm -f "$file"
    done
  fi
  for link in cni0 flannel.1 vxlan.calico tunl0 kube-ipvs0 cilium_host cilium_net cilium_vxlan antrea-gw0 weave nodelocaldns; do
    [ -e "/sys/class/net/$link" ] || continue
    ip link delete "$link" || note "cannot delete $link"
  done
  for family in iptables ip6tables; do
    command -v "$family-save" >/dev/null 2>&1 || continue
    rules=$("$family-save" 2>/dev/null) || continue
    case $rules in *KUBE-* | *CNI-*) printf '%s\n' "$rules" | grep -v -e KUBE- -e CNI- | "$family-restore" ;; esac
  done
  if command -v nft >/dev/null 2>&1; then
    for family in ip ip6; do nft delete table "$family" kube-proxy 2>/dev/null || true; done
  fi
  if command -v ipvsadm >/dev/null 2>&1; then ipvsadm --clear || true; fi
  if [ -n "$2" ]; then
    ip -o addr show | awk -v address="$2" '{ split($4, part, "/"); if (part[1] == address) print $2, $4 }' |
      while read -r link place; do ip addr del "$place" dev "$link"; done
  fi
}
# What kubeadm made and does not take away itself when it died half way.
remove_node_files() {
  for name in manifests tmp pki admin.conf super-admin.conf kubelet.conf bootstrap-kubelet.conf controller-manager.conf scheduler.conf; do
    rm -rf "${CAPSTAN_ROOT:-}/etc/kubernetes/$name"
  done
  rm -rf "${CAPSTAN_ROOT:-}"/var/lib/etcd/* "${CAPSTAN_ROOT:-}/run/cluster-api/bootstrap-success.complete"
  rm -f "${CAPSTAN_ROOT:-}/var/lib/kubelet/config.yaml" "${CAPSTAN_ROOT:-}/var/lib/kubelet/kubeadm-flags.env" "${CAPSTAN_ROOT:-}/var/lib/kubelet/instance-config.yaml"
}
# RUN: its steps backwards, each path as it was before it.
restore_files() {
  undone=$base/runs/$1
  awk '/comment=capstan/ { print $2 }' "${CAPSTAN_ROOT:-}/etc/fstab" 2>/dev/null | sort -r | while read -r folder; do umount "$folder" || umount -l "$folder"; done
  for file in $(ls -1 "$undone/before" 2>/dev/null | sed -n 's/\.path$//p' | sort -r); do
    path=$(cat "$undone/before/$file.path")
    if [ -e "$undone/before/$file.copy" ]; then
      cp -p "$undone/before/$file.copy" "$path.capstan" && mv -f "$path.capstan" "$path" || return 1
    else
      rm -f "$path"
    fi
    rm -f "$path.capstan"
  done
  # Only those that are empty go.
  sort -r -u "$undone/before/folders" 2>/dev/null | while read -r folder; do rmdir "$folder" 2>/dev/null; done
  for file in $(ls -1 "$undone/before" 2>/dev/null | grep '\.user$'); do
    name=$(cat "$undone/before/$file")
    if id "$name" >/dev/null 2>&1; then userdel -r "$name" 2>/dev/null || userdel "$name" || return 1; fi
  done
  systemctl daemon-reload
}
# RUN: it counts as undone, and may begin again.
count_as_undone() {
  undone=$base/runs/$1
  last=$(ls -1 "$undone/steps" 2>/dev/null | sort -n | tail -n 1)
  [ -n "$last" ] || return 0
  mark "$undone/steps/$last/reset" "$(date +%s)" && rm -rf "$undone/before" "$undone/finished"
}

# clean.sh [ADDRESS]: what of a node is left on this machine. It changes nothing.
root=${CAPSTAN_ROOT:-}
left() { say left "$1 $2"; }
for file in "$root"/etc/kubernetes/manifests/* "$root"/etc/kubernetes/*.conf; do
  if [ -e "$file" ]; then left file "${file#"$root"}"; fi
done
for file in "$root"/etc/kubernetes/pki/*; do
  if [ -e "$file" ]; then left file "${file#"$root"}"; fi
done
for file in "$root"/var/lib/etcd/member "$root"/var/lib/kubelet/config.yaml "$root"/var/lib/kubelet/kubeadm-flags.env; do
  if [ -e "$file" ]; then left file "${file#"$root"}"; fi
done
for name in k3s rke2 k0s microk8s; do
  if command -v "$name" >/dev/null 2>&1 || [ -e "$root/var/lib/rancher/$name" ] || [ -e "$root/var/lib/$name" ]; then left distribution "$name"; fi
done
case $(systemctl is-active kubelet 2>/dev/null) in
active)
  # Without a configuration it ends and is started again, as it was before kubeadm came.
  if [ -e "$root/var/lib/kubelet/config.yaml" ] || [ -e "$root/etc/kubernetes/kubelet.conf" ]; then left unit kubelet; fi
  ;;
esac
for unit in $(systemctl list-units --plain --no-legend --state=active 'capstan-*.service' 2>/dev/null | cut -d ' ' -f 1); do left unit "$unit"; done
if [ -r /proc/net/tcp ]; then
  cat /proc/net/tcp /proc/net/tcp6 2>/dev/null | awk '$4 == "0A" { n = split($2, part, ":"); print part[n] }' | sort -u |
    while read -r port; do
      case $port in 192B) left port 6443 ;; 280A) left port 10250 ;; 094B) left port 2379 ;; 094C) left port 2380 ;; 2811) left port 10257 ;; 2813) left port 10259 ;; esac
    done
else
  say unread "the open ports, in /proc/net/tcp"
fi
sed -n 's/^[^ ]* \(\/var\/lib\/kubelet\/[^ ]*\) .*/\1/p' /proc/mounts | while read -r folder; do left mount "$folder"; done
for link in cni0 flannel.1 vxlan.calico kube-ipvs0 cilium_host cilium_vxlan antrea-gw0; do
  if [ -e "/sys/class/net/$link" ]; then left link "$link"; fi
done
if [ -n "$1" ] && command -v ip >/dev/null 2>&1 && ip -o addr show | awk '{ print $4 }' | grep -q "^$1/"; then left address "$1"; fi
if command -v iptables-save >/dev/null 2>&1; then
  count=$(iptables-save 2>/dev/null | grep -c -e '^-A KUBE-' -e '^-A CNI-')
  if [ "$count" -gt 0 ]; then left rules "$count"; fi
fi
if command -v crictl >/dev/null 2>&1; then
  if pods=$(timeout 20 crictl pods -q 2>/dev/null); then
    for pod in $pods; do left pod "$pod"; done
  else
    say unread "the pods: the container runtime does not answer crictl"
  fi
elif command -v ctr >/dev/null 2>&1; then
  if tasks=$(timeout 20 ctr -n k8s.io tasks ls -q 2>/dev/null); then
    for task in $tasks; do left pod "$task"; done
  else
    say unread "the pods: containerd does not answer ctr"
  fi
fi
say end yes

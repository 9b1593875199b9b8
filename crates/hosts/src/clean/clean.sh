# clean.sh: what of a node is left on this machine. It changes nothing.
left() { say left "$1 $2"; }
for file in "$root"/etc/kubernetes/manifests/* "$root"/etc/kubernetes/*.conf; do
  if [ -e "$file" ]; then left file "${file#"$root"}"; fi
done
for file in "$root"/etc/kubernetes/pki/*; do
  if [ -e "$file" ]; then left file "${file#"$root"}"; fi
done
# The sign of success among them: in the same boot it would make a success of the next kubeadm that dies.
for file in "$root"/var/lib/etcd/member "$root"/var/lib/kubelet/config.yaml "$root"/var/lib/kubelet/kubeadm-flags.env \
  "$root"/run/cluster-api/bootstrap-success.complete; do
  if [ -e "$file" ]; then left file "${file#"$root"}"; fi
done
# What stood at a path before a run, and was not given back yet.
for folder in "$base"/runs/*/before; do
  if [ -n "$(ls -A "$folder" 2>/dev/null)" ]; then left originals "${folder#"$root"}"; fi
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
if [ -r "$root/proc/net/tcp" ]; then
  cat "$root/proc/net/tcp" "$root/proc/net/tcp6" 2>/dev/null | awk '$4 == "0A" { n = split($2, part, ":"); print part[n] }' | sort -u |
    while read -r port; do
      case $port in 192B) left port 6443 ;; 280A) left port 10250 ;; 094B) left port 2379 ;; 094C) left port 2380 ;; 2811) left port 10257 ;; 2813) left port 10259 ;; esac
    done
else
  say unread "the open ports, in /proc/net/tcp"
fi
{ mounted_below /var/lib/kubelet; mounted_by_capstan; } | while read -r folder; do left mount "$folder"; done
for link in $links; do
  if [ -e "$root/sys/class/net/$link" ]; then left link "$link"; fi
done
# Addresses that were there before a run are not the node's.
for address in $(tunnel_addresses); do
  cat "$base"/runs/*/tunl0 2>/dev/null | grep -qxF "$address" || { left link tunl0; break; }
done
rules=0
for family in iptables ip6tables; do
  command -v "$family-save" >/dev/null 2>&1 || continue
  rules=$((rules + $("$family-save" 2>/dev/null | grep -c -e '^-A KUBE-' -e '^-A CNI-')))
done
if [ "$rules" -gt 0 ]; then left rules "$rules"; fi
if command -v nft >/dev/null 2>&1; then
  for family in ip ip6; do
    if nft list table "$family" kube-proxy >/dev/null 2>&1; then left table "$family kube-proxy"; fi
  done
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

# What this machine is: one `name=value` on a line, a name more than once where there are several. Any POSIX shell runs it; it
# changes nothing. The last line says that nothing was cut off.
LC_ALL=C
PATH=$PATH:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
export LC_ALL PATH
newline='
'
# Few values need another process to become one short line.
say() {
  value=$2
  case $value in *"$newline"*) value=$(printf '%s' "$value" | tr '\n' ' ') ;; esac
  if [ "${#value}" -gt 500 ]; then value=$(printf '%s' "$value" | cut -c 1-500); fi
  printf '%s=%s\n' "$1" "$value"
}
has() { command -v "$1" >/dev/null 2>&1; }
say_if() { if [ -n "$2" ]; then say "$1" "$2"; fi; }
first() { # FILE: its first line
  line=
  if [ -r "$1" ]; then read -r line <"$1"; fi
  printf '%s' "$line"
}

if [ "$(id -u)" = 0 ]; then
  root= && say root yes
elif has sudo && sudo -n true 2>/dev/null; then
  root='sudo -n' && say root sudo
else
  root= && say root no
fi
say now "$(date +%s)"
say_if os "$(sed -n 's/^PRETTY_NAME=//p' /etc/os-release 2>/dev/null | tr -d '"')"
say kernel "$(uname -r)"
say system "$(uname -s)"
say arch "$(uname -m)"
say_if cpus "$(nproc 2>/dev/null || grep -c '^processor' /proc/cpuinfo 2>/dev/null)"
say_if memory_kib "$(sed -n 's/^MemTotal: *\([0-9]*\) kB/\1/p' /proc/meminfo 2>/dev/null)"
df -Pk /var/lib 2>/dev/null | awk 'NR == 2 { print "disk_kib=" $2; print "disk_free_kib=" $4 }'
say_if init "$(first /proc/1/comm)"
# The root of version 2 has this file; where both versions are mounted, version 1 has its own folders there.
if [ -e /sys/fs/cgroup/cgroup.controllers ]; then
  say cgroup 2
  for name in $(cat /sys/fs/cgroup/cgroup.controllers); do say controller "$name"; done
elif [ -r /proc/cgroups ]; then
  say cgroup 1
  awk '!/^#/ && $4 == 1 { print "controller=" $1 }' /proc/cgroups
fi
if [ -r /proc/swaps ]; then sed -n '2,$s/[[:space:]].*//p' /proc/swaps | while read -r swap; do say swap "$swap"; done; fi
if [ -r /proc/net/tcp ]; then
  say ports_read yes
  cat /proc/net/tcp /proc/net/tcp6 2>/dev/null | awk '$4 == "0A" { n = split($2, part, ":"); print "listens=" part[n] }' | sort -u
fi
for file in /etc/kubernetes/manifests/kube-apiserver.yaml /etc/kubernetes/manifests/kube-controller-manager.yaml \
  /etc/kubernetes/manifests/kube-scheduler.yaml /etc/kubernetes/manifests/etcd.yaml /etc/kubernetes/kubelet.conf \
  /etc/kubernetes/bootstrap-kubelet.conf /etc/kubernetes/admin.conf /etc/kubernetes/pki/ca.crt; do
  if $root test -e "$file"; then say file "$file"; fi
done
if [ ! -e /var/lib/etcd ]; then
  say etcd_entries 0
elif entries=$($root ls -A /var/lib/etcd 2>/dev/null); then
  say etcd_entries "$(printf '%s' "$entries" | grep -c .)"
fi
for name in k3s rke2 k0s microk8s; do
  if has "$name" || [ -e "/var/lib/rancher/$name" ] || [ -e "/var/lib/$name" ]; then say distribution "$name"; fi
done
for name in losetup mount cp conntrack crictl; do if has "$name"; then say command "$name"; fi; done
for socket in /var/run/containerd/containerd.sock /var/run/crio/crio.sock /var/run/cri-dockerd.sock; do
  if $root test -S "$socket"; then say socket "$socket"; fi
done
if has kubeadm; then say kubeadm "$(kubeadm version -o short 2>/dev/null)"; fi
if has kubelet; then say kubelet "$(kubelet --version 2>/dev/null)"; fi
if has containerd; then say containerd "$(containerd --version 2>/dev/null)"; fi
if has crio; then say crio "$(crio --version 2>/dev/null | head -n 1)"; fi
if has systemctl; then
  say_if kubelet_unit "$(systemctl is-enabled kubelet 2>/dev/null)"
  say_if firewalld "$(systemctl is-active firewalld 2>/dev/null)"
fi
say_if ip_forward "$(first /proc/sys/net/ipv4/ip_forward)"
name=$(hostname 2>/dev/null || first /proc/sys/kernel/hostname)
say hostname "$name"
if has getent; then
  say names_read yes
  # Not `hosts`, which asks a name server for an IPv6 address before it takes the one of a file; a dead server is not waited for long.
  RES_OPTIONS='timeout:2 attempts:1' getent ahosts "$name" 2>/dev/null | awk '!seen[$1]++ { print "name_address=" $1 }'
fi
say_if machine_id "$(first /etc/machine-id)"
say_if product_uuid "$($root cat /sys/class/dmi/id/product_uuid 2>/dev/null)"
say_if boot_id "$(first /proc/sys/kernel/random/boot_id)"
for file in /etc/ssh/ssh_host_*_key.pub; do
  if [ -r "$file" ] && has ssh-keygen; then say_if host_key "$(ssh-keygen -lf "$file" 2>/dev/null | cut -d ' ' -f 2)"; fi
done
if has ip; then ip -o addr show scope global 2>/dev/null | awk '{ print "address=" $4 }'; fi
if has getenforce; then say selinux "$(getenforce 2>/dev/null)"; fi
say end yes

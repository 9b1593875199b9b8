# CONTENT SERVERS: the content is for chrony, the servers are for systemd-timesyncd; which of them is there decides.
set_time_servers() {
  if command -v chronyd >/dev/null 2>&1; then
    if [ -d "$root/etc/chrony/sources.d" ]; then
      put_file "$1" /etc/chrony/sources.d/capstan.sources 0644 root:root
    elif [ -e "$root/etc/chrony/chrony.conf" ]; then
      append_file "$1" /etc/chrony/chrony.conf 0644 root:root
    else
      append_file "$1" /etc/chrony.conf 0644 root:root
    fi || return 1
    systemctl restart chronyd || systemctl restart chrony
  elif [ -x "$root/lib/systemd/systemd-timesyncd" ] || [ -x "$root/usr/lib/systemd/systemd-timesyncd" ]; then
    printf '[Time]\nNTP=%s\n' "$2" >"$run/files/timesyncd.conf" &&
      put_file timesyncd.conf /etc/systemd/timesyncd.conf.d/capstan.conf 0644 root:root && systemctl restart systemd-timesyncd
  else
    leave 1 "neither chronyd nor systemd-timesyncd is installed: no clock can be set by ntp"
  fi
}
# CONTENT FOLDERS...: lines of /etc/fstab.
add_mounts() {
  lines=$1
  shift
  for place in "$@"; do make_folders "$root${place%/}/" root:root || return 1; done
  append_file "$lines" /etc/fstab 0644 root:root || return 1
  systemctl daemon-reload
  if grep -q '[[:space:]]swap[[:space:]]' "$run/files/$lines"; then
    [ -e "$before/swaps" ] || mark "$before/swaps" "$(swaps)" || return 1
    swapon -a || return 1
  fi
  mount -a
}
# PROVIDER-ID: what the kubelet says of its Node. The folder of drop-ins is read in the order of names, and this is the last.
set_provider_id() {
  extra=
  for file in "$root/etc/default/kubelet" "$root/etc/sysconfig/kubelet"; do
    if [ -r "$file" ]; then extra=$(sed -n 's/^KUBELET_EXTRA_ARGS=//p' "$file" | tail -n 1 | sed "s/^[\"']//; s/[\"']\$//"); fi
  done
  printf 'KUBELET_EXTRA_ARGS="%s"\n' "${extra:+$extra }--provider-id=$1" >"$run/files/kubelet.env" &&
    printf '[Service]\nEnvironmentFile=/etc/capstan/kubelet.env\n' >"$run/files/kubelet.conf" || return 1
  first_number=$number
  number=$first_number.1 put_file kubelet.env /etc/capstan/kubelet.env 0644 root:root &&
    number=$first_number.2 put_file kubelet.conf /etc/systemd/system/kubelet.service.d/90-capstan.conf 0644 root:root || return 1
  systemctl daemon-reload
}
# What other programs had made there before, so that a reset leaves it alone. The proof after it needs the addresses still.
note_network() {
  if [ -e "$before/cni" ]; then return 0; fi
  mark "$run/tunl0" "$(tunnel_addresses)" && mark "$before/cni" "$(ls -1 "$root/etc/cni/net.d" 2>/dev/null)"
}

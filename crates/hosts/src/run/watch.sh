# watch.sh RUN OFFSET BYTES: how far a run is, and a part of its log behind the end of the answer. The offset `end` is where the last
# part begins, with a whole line.
run=$base/runs/$1
last=
say boot_id "$(cat /proc/sys/kernel/random/boot_id)"
state=$(systemctl is-active "capstan-$1.service" 2>/dev/null)
say unit "${state:-unknown}"
say_if() { if [ -e "$root$2" ]; then say trace "$1"; fi; }
say_if kubelet.conf /etc/kubernetes/kubelet.conf
say_if kube-apiserver.yaml /etc/kubernetes/manifests/kube-apiserver.yaml
say_if success /run/cluster-api/bootstrap-success.complete
if [ -e "$run/ready" ]; then
  say ready "$(cat "$run/ready")"
  if [ -e "$run/kubeadm" ]; then say kubeadm "$(cat "$run/kubeadm")"; fi
  last=$(ls -1 "$run/steps" 2>/dev/null | sort -n | tail -n 1)
  resets=0
  for attempt in "$run/steps"/*; do if [ -e "$attempt/reset" ]; then resets=$((resets + 1)); fi; done
  say resets "$resets"
  if [ -n "$last" ]; then
    say attempt "$last"
    say begin "$(cat "$run/steps/$last/begin" 2>/dev/null)"
    if [ -e "$run/steps/$last/reset" ]; then say was_reset yes; fi
    for file in "$run/steps/$last"/*.started; do
      [ -e "$file" ] || continue
      number=${file%.started}
      say step "${number##*/} $(cat "$file") $(cat "$number.rc" 2>/dev/null)"
    done
  fi
  if [ -e "$run/finished" ]; then say finished yes; fi
fi
# The last complaints of the two since the attempt began, until the run has come to a good end.
since=$(sed -n 3p "$run/steps/$last/begin" 2>/dev/null)
if [ -n "$since" ] && [ ! -e "$run/finished" ] && command -v journalctl >/dev/null 2>&1; then
  for unit in kubelet containerd; do
    journalctl --quiet --no-pager --output=cat --since="@$since" --lines=400 --unit="$unit" 2>/dev/null |
      grep -e '^[EF][0-9][0-9][0-9][0-9] ' -e 'level=error' -e 'level=fatal' -e 'err="' | tail -n 8 |
      while read -r line; do say component "$unit: $line"; done
  done
fi
bytes=$(wc -c 2>/dev/null <"$run/log") || bytes=0
from=$2
if [ "$from" = end ]; then
  from=0
  if [ "$bytes" -gt "$3" ]; then
    # Half a line may be half of a secret, which would not be known as one. With the byte before it a line is known to be whole.
    from=$((bytes - $3 - 1))
    from=$((from + $(tail -c "+$((from + 1))" "$run/log" | head -n 1 | wc -c)))
    if [ "$from" -gt "$bytes" ]; then from=$bytes; fi
  fi
fi
if [ "$from" -gt "$bytes" ]; then from=0; fi
length=$((bytes - from))
if [ "$length" -gt "$3" ]; then length=$3; fi
part() { tail -c "+$((from + 1))" "$run/log" | head -c "$length"; }
# Whole lines: half of a secret would not be known as one. A line longer than a part is cut all the same.
case $state in active | activating) is_ended=no ;; *) is_ended=yes ;; esac
if [ "$length" -gt 0 ] && [ "$(part | tail -c 1 | wc -l)" -eq 0 ] && { [ "$is_ended" = no ] || [ "$((from + length))" -lt "$bytes" ]; }; then
  begun=$(part | tail -n 1 | wc -c)
  if [ "$begun" -lt "$3" ]; then length=$((length - begun)); fi
fi
say log_bytes "$((bytes))"
say log_next "$((from + length))"
say end yes
if [ "$length" -gt 0 ]; then part; fi

# start.sh INSTALLATION HOST MACHINE CLUSTER GENERATION RUN ATTEMPT FIRST-STEP: runs the script as a unit of systemd. The lock is held
# until systemd has the unit, so that of two only one sees that no unit runs; the script waits for the lock.
lock_owned "$1" "$2" "$3" "$4" "$5"
run=$base/runs/$6
[ -e "$run/ready" ] || finish missing
attempt=$run/steps/$7
if [ -e "$attempt" ]; then finish already; fi
# Without the contents, which go when a run has ended, only its last mark can be made.
[ -e "$run/files" ] || [ "$8" -gt 1 ] || finish missing
case $(systemctl is-active "capstan-$6.service" 2>/dev/null) in active | activating | deactivating) finish already ;; esac
# Whoever would begin kubeadm once more without a reset between has seen an older journal.
has_begun() { # STEP
  begun=no
  for number in $(ls -1 "$run/steps" 2>/dev/null | sort -n); do
    if [ -e "$run/steps/$number/$1.started" ]; then begun=yes; fi
    if [ -e "$run/steps/$number/reset" ]; then begun=no; fi
  done
  [ "$begun" = yes ]
}
if [ -e "$run/kubeadm" ] && read -r step _ <"$run/kubeadm" && [ "$step" != none ] && [ "$8" -le "${step#"${step%%[1-9]*}"}" ] && has_begun "$step"; then finish already; fi
# An attempt is there as a whole or not at all.
part=$run/steps/.$7
mkdir -p "$run/steps" && rm -rf "$part" && mkdir "$part" || failed "cannot write below $run"
{ cat /proc/sys/kernel/random/boot_id && printf '%s\n' "$8" && date +%s; } >"$part/begin" || failed "cannot write below $run"
flush "$part/begin"
mv "$part" "$attempt" || failed "cannot write below $run"
flush "$run/steps"
reason=$(systemd-run --quiet --collect --unit="capstan-$6" --description="capstan: run $6" --property=KillMode=control-group \
  --property=Type=exec /bin/sh "$run/script" "$7" "$8" 2>&1 9>&-) || {
  rm -rf "$attempt"
  flush "$run/steps"
  failed "systemd does not start it: $reason"
}
finish completed

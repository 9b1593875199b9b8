# start.sh INSTALLATION HOST MACHINE CLUSTER GENERATION RUN ATTEMPT FIRST-STEP: runs the script as a unit of systemd.
lock_owned "$1" "$2" "$3" "$4" "$5"
run=$base/runs/$6
[ -e "$run/ready" ] || finish missing
case $(systemctl is-active "capstan-$6.service" 2>/dev/null) in active | activating | deactivating) finish already ;; esac
mkdir -p "$run/steps" || failed "cannot write below $run"
# Only one makes a folder.
mkdir "$run/steps/$7" 2>/dev/null || { [ -d "$run/steps/$7" ] && finish already; failed "cannot write below $run"; }
{ cat /proc/sys/kernel/random/boot_id && printf '%s\n' "$8" && date +%s; } >"$run/steps/$7/begin" || failed "cannot write below $run"
flush "$run/steps/$7/begin"
flush "$run/steps"
exec 9>&-
reason=$(systemd-run --quiet --collect --unit="capstan-$6" --description="capstan: run $6" --property=KillMode=control-group \
  --property=Type=exec /bin/sh "$run/script" "$7" "$8" 2>&1) || failed "systemd does not start it: $reason"
finish completed

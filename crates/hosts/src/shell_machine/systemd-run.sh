# Stands in for systemd-run: the command in a session of its own, under the shell that is tried.
for word in "$@"; do
  case $word in
  --unit=*) unit=${word#--unit=} ;;
  /bin/sh) break ;;
  esac
  shift
done
shift
# Whoever waits for the job waits for this.
exec 8>"$MACHINE/running"
flock 8
# shellcheck disable=SC2086
MACHINE_JOB=job setsid $MACHINE_SHELL "$@" </dev/null >/dev/null 2>&1 9>&- &
echo $! >"$MACHINE/unit-$unit"

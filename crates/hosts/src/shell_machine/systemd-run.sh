# Stands in for systemd-run: the command in a session of its own, under the shell that is tried.
for word in "$@"; do
  case $word in
  --unit=*) unit=${word#--unit=} ;;
  /bin/sh) break ;;
  esac
  shift
done
shift
# shellcheck disable=SC2086
MACHINE_JOB=job setsid $MACHINE_SHELL "$@" </dev/null >/dev/null 2>&1 9>&- &
echo $! >"$MACHINE/unit-$unit"

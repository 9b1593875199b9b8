# Stands in for systemctl: units are processes whose number stands in a file.
case $1 in
is-active)
  unit=$2
  pid=$(/bin/cat "$MACHINE/unit-${unit%.service}" 2>/dev/null) && grep -q '^State:[[:space:]]*[^ZX[:space:]]' "/proc/$pid/status" 2>/dev/null && echo active && exit 0
  echo inactive
  exit 3
  ;;
stop)
  pid=$(/bin/cat "$MACHINE/unit-${2%.service}" 2>/dev/null) && kill -s KILL -- "-$pid"
  ;;
esac
exit 0

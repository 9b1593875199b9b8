# Counts itself, and ends everything of its group at the number that is asked for: before its work, or after. Jobs and requests are
# counted apart.
kind=${MACHINE_JOB:-ask}
# A job has a session of its own, in which `timeout` makes another group.
end_all() {
  if [ "$kind" = job ]; then kill -s KILL -- "-$(/usr/bin/cut -d ' ' -f 6 /proc/$$/stat)"; fi
  kill -9 0
}
printf . >>"$MACHINE/count-$kind"
if [ -e "$MACHINE/kill" ]; then read -r of at side <"$MACHINE/kill"; fi
is_due=no
if [ "$of" = "$kind" ] && [ "$(/usr/bin/wc -c <"$MACHINE/count-$kind")" -ge "$at" ] && /bin/rm "$MACHINE/kill" 2>/dev/null; then is_due=yes; fi
if [ "$is_due" = yes ] && [ "$side" = before ]; then end_all; fi
for folder in /usr/bin /bin /usr/sbin /sbin; do if [ -x "$folder/NAME" ]; then program=$folder/NAME; break; fi; done
"$program" "$@"
code=$?
if [ "$is_due" = yes ]; then end_all; fi
exit "$code"

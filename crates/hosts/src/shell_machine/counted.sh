# Counts itself, and ends everything of its group at the number that is asked for: before its work, or after. Jobs and requests are
# counted apart.
kind=${MACHINE_JOB:-ask}
printf . >>"$MACHINE/count-$kind"
if [ -e "$MACHINE/kill" ]; then read -r of at side <"$MACHINE/kill"; fi
is_due=no
if [ "$of" = "$kind" ] && [ "$(/usr/bin/wc -c <"$MACHINE/count-$kind")" -ge "$at" ] && /bin/rm "$MACHINE/kill" 2>/dev/null; then is_due=yes; fi
if [ "$is_due" = yes ] && [ "$side" = before ]; then kill -9 0; fi
for folder in /usr/bin /bin /usr/sbin /sbin; do if [ -x "$folder/NAME" ]; then program=$folder/NAME; break; fi; done
"$program" "$@"
code=$?
if [ "$is_due" = yes ]; then kill -9 0; fi
exit "$code"

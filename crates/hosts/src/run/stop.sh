# stop.sh INSTALLATION HOST MACHINE CLUSTER GENERATION RUN: ends a run where it is.
expected=$(owner_text "$1" "$2" "$3" "$4" "$5")
is_owned "$expected" || { [ -e "$base/owner" ] || finish free; say_owner; finish other; }
# The job holds the lock, so this is the one change that does not wait for it.
case $(systemctl is-active "capstan-$6.service" 2>/dev/null) in active | activating | deactivating) ;; *) finish already ;; esac
reason=$(systemctl stop "capstan-$6.service" 2>&1) || failed "systemd does not stop it: $reason"
finish completed

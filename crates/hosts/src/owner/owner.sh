# owner.sh VERB INSTALLATION HOST MACHINE CLUSTER GENERATION [the five of the owner before]: who owns this machine.
verb=$1
shift
if [ "$verb" = look ]; then
  if [ -e "$base/owner" ]; then say_owner; finish found; fi
  finish free
fi
lock
expected=$(owner_text "$1" "$2" "$3" "$4" "$5")
# `ln` makes a name only where there is none; the file is whole before it has that name.
make_owner() { # FORCE: `mv` instead, over the owner before
  new=$base/owner.$$
  { printf '%s\n' "$expected" && say since "$(date +%s)"; } >"$new" || failed "cannot write $new"
  flush "$new"
  if [ "$1" = force ]; then mv -f "$new" "$base/owner"; else ln "$new" "$base/owner" 2>/dev/null; fi
  made=$?
  rm -f "$new"
  flush "$base"
  return "$made"
}
case $verb in
claim)
  if [ ! -e "$base/owner" ] && make_owner gently; then say_owner; finish made; fi
  ;;
take)
  shift 5
  if is_owned "$(owner_text "$1" "$2" "$3" "$4" "$5")" && make_owner force; then say_owner; finish made; fi
  ;;
release)
  if [ ! -e "$base/owner" ]; then finish free; fi
  if is_owned "$expected"; then
    rm -rf "$base/runs" && rm -f "$base/owner" || failed "cannot remove $base/owner"
    flush "$base"
    finish free
  fi
  ;;
esac
say_owner
if is_owned "$expected"; then finish kept; fi
finish other

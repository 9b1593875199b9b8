make_group() { # NAME
  getent group "$1" >/dev/null || groupadd "$1"
}
# NAME OPTIONS...: a user who is there already stays as he is.
make_user() {
  if id "$1" >/dev/null 2>&1; then
    note "user $1 is there already"
    return 0
  fi
  mark "$before/$number.user" "$1" || return 1
  name=$1
  shift
  useradd "$@" -m "$name"
}
# NAME: the password of a user who was there before this run, once.
remember_password() {
  if [ -e "$before/$1.hash" ] || grep -qxF "$1" "$before"/*.user 2>/dev/null; then return 0; fi
  line=$(getent shadow "$1") && mark "$before/$1.hash" "$(printf '%s' "$line" | cut -d : -f 1,2)"
}
set_password() { # CONTENT: `NAME:HASH`
  remember_password "$(cut -d : -f 1 "$run/files/$1")" && chpasswd -e <"$run/files/$1"
}
lock_password() { # NAME
  remember_password "$1" && passwd -l "$1" >/dev/null
}
unlock_password() { # NAME
  remember_password "$1" && passwd -u "$1" >/dev/null
}
# CONTENT PATH: a wrong rule would take sudo away from everybody.
put_sudo_rules() {
  if command -v visudo >/dev/null 2>&1; then visudo -c -q -f "$run/files/$1" || return 1; fi
  put_file "$1" "$2" 0440 root:root
}
# CONTENT NAME: root follows no link here, as the user can have made it, and puts the file together where the user cannot.
authorize_keys() {
  home=$(getent passwd "$2" | cut -d : -f 6)
  group=$(id -gn "$2") || return 1
  [ -n "$home" ] || return 1
  for place in "$home/.ssh" "$home/.ssh/authorized_keys"; do
    [ ! -h "$place" ] || leave 1 "$place is a link: put a folder or a file there"
  done
  if [ ! -d "$home/.ssh" ]; then
    printf '%s\n' "$home/.ssh" >>"$before/folders" && mkdir -m 0700 "$home/.ssh" && chown -h "$2:$group" "$home/.ssh" || return 1
  fi
  remember "$home/.ssh/authorized_keys" "$(cd "$home/" && pwd -P)/.ssh" || leave 1 "cannot read $home/.ssh/authorized_keys, or it became a link"
  part=$(mktemp "$before/keys.XXXXXX") || return 1
  { cat "$before/$number.copy" 2>/dev/null; cat "$run/files/$1"; } | awk 'NF && !seen[$0]++' >"$part"
  replace "$part" "$home/.ssh/authorized_keys" 0600 "$2:$group"
}

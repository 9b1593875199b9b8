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
set_password() { # CONTENT: `NAME:HASH`
  chpasswd -e <"$run/files/$1"
}
lock_password() { # NAME
  passwd -l "$1" >/dev/null
}
unlock_password() { # NAME
  passwd -u "$1" >/dev/null
}
# CONTENT PATH: a wrong rule would take sudo away from everybody.
put_sudo_rules() {
  if command -v visudo >/dev/null 2>&1; then visudo -c -q -f "$run/files/$1" || return 1; fi
  put_file "$1" "$2" 0440 root:root
}
authorize_keys() { # CONTENT NAME
  home=$(getent passwd "$2" | cut -d : -f 6)
  group=$(id -gn "$2") || return 1
  [ -n "$home" ] || return 1
  [ -d "$home/.ssh" ] || { mkdir -m 0700 "$home/.ssh" && chown "$2:$group" "$home/.ssh"; } || return 1
  remember "$home/.ssh/authorized_keys" || return 1
  { cat "$before/$number.copy" 2>/dev/null; cat "$run/files/$1"; } | awk 'NF && !seen[$0]++' >"$home/.ssh/authorized_keys.capstan"
  replace "$home/.ssh/authorized_keys.capstan" "$home/.ssh/authorized_keys" 0600 "$2:$group"
}

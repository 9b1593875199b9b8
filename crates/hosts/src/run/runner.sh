# Carries out the steps that stand below, as: script ATTEMPT FIRST-STEP. Each step leaves a mark before it begins and its exit
# code after it, on the disk before anything else is done, so that whoever comes later knows how far it came.
run=${0%/*}
attempt=$1
first=$2
steps=$run/steps/$attempt
before=$run/before
exec </dev/null >>"$run/log" 2>&1
note() { printf 'capstan: %s\n' "$*"; }
leave() {
  note "$2"
  exit "$1"
}
# FILE TEXT: a file that is whole or not there.
mark() {
  printf '%s\n' "$2" >"$1.part" && flush "$1.part" && mv -f "$1.part" "$1" && flush "${1%/*}"
}
exec 9>>"$base/lock"
timeout 60 flock 9 || leave 75 "another job holds the lock"
[ -e "$steps/begin" ] || leave 74 "attempt $attempt was taken back before it began"
mkdir -p "$before" || leave 74 "cannot make $before"
is_owned "$(cat "$run/owner")" || leave 73 "the machine has another owner"
note "attempt $attempt begins with step $first"

# NUMBER WORDS...: the words are one of the functions below with its arguments.
step() {
  number=$1
  shift
  [ "$number" -ge "$first" ] || return 0
  mark "$steps/$number.started" "$(date +%s)" || leave 74 "cannot write below $run"
  note "step $number: $1"
  ("$@") 9>&-
  code=$?
  mark "$steps/$number.rc" "$code $(date +%s)" || leave 74 "cannot write below $run"
  if [ "$code" = 0 ]; then return 0; fi
  note "step $number ended with $code"
  if [ "$go_on" = yes ]; then return 0; fi
  # It is not tried again with these contents, which hold keys and tokens.
  rm -rf "$run/files"
  exit "$code"
}
completed() {
  rm -rf "$run/files" && mark "$run/finished" "$attempt"
  note "finished"
}

# PATH [FOLDER]: what was at a path before this run, once for each step: its folder, without links, and a copy, or that there was nothing.
# Where a FOLDER is given, the path has to be in that one.
remember() {
  if [ -e "$before/$number.path" ]; then return 0; fi
  noted=$(cd "${1%/*}/" && pwd -P) && [ "$noted" = "${2:-$noted}" ] && mark "$before/$number.folder" "$noted" || return 1
  (enter_noted "$before/$number" "$1" && copy "./${1##*/}") && mark "$before/$number.path" "$1"
}
copy() { # NAME: of a file in this folder; a link that has just come is not followed
  if [ ! -e "$1" ]; then return 0; fi
  cp -pP "$1" "$before/$number.part" && [ ! -h "$before/$number.part" ] && flush "$before/$number.part" && mv -f "$before/$number.part" "$before/$number.copy"
}
# RECORD PATH: into the folder of the path, if it is the folder that was there when the record was made. A user who owns a folder above
# it can put a link in its place at any time; a program that has entered the folder, and uses names without folders, follows none.
# The record of a run that began before this rule has no folder: there the path itself says where it is.
enter_noted() {
  noted=$(cat "$1.folder" 2>/dev/null || printf '%s' "${2%/*}")
  cd "${2%/*}/" && [ "$(pwd -P)" = "${noted:-/}" ] && [ ! -h "./${2##*/}" ] && [ ! -d "./${2##*/}" ]
}
# A link is followed, as cloud-init does; a path that is not there yet stands for itself.
resolved() { if [ -h "$1" ]; then readlink -f "$1"; else printf '%s' "$1"; fi; }
# PATH OWNER: the folders above it that are missing, as their file's owner has them.
make_folders() {
  [ ! -d "${1%/*}/" ] || return 0
  make_folders "${1%/*}" "$2" || return 1
  folder=${1%/*}
  # Written down first: one that was made and is not in the list would stay after a reset.
  printf '%s\n' "$folder" >>"$before/folders" && mkdir -m 0755 "$folder" && chown -h "$2" "$folder"
}
# PATH: where its new content is put together. In a folder of another user that is root's own, as he could make a link of it.
part_of() { if [ -O "${1%/*}/" ]; then printf '%s' "$1.capstan"; else printf '%s' "$before/part"; fi; }
# PART PATH MODE OWNER: the part takes the place of the path at once.
replace() {
  chown -h "$4" "$1" && chmod "$3" "$1" && flush "$1" && (enter_noted "$before/$number" "$2" && mv -f "$1" "./${2##*/}") || return 1
  if command -v restorecon >/dev/null 2>&1; then restorecon "$2" || true; fi
  flush "${2%/*}"
}
below_root() { resolved "$root$1"; }
# What swaps now.
swaps() { sed -n '2,$s/[[:space:]].*//p' "$root/proc/swaps" 2>/dev/null; }
put_file() { # CONTENT PATH MODE OWNER
  path=$(below_root "$2")
  [ ! -d "$path" ] || leave 1 "$2 is a folder"
  make_folders "$path" "$4" && remember "$path" && part=$(part_of "$path") || return 1
  rm -f "$part" && cp "$run/files/$1" "$part" && replace "$part" "$path" "$3" "$4"
}
append_file() { # CONTENT PATH MODE OWNER
  path=$(below_root "$2")
  [ ! -d "$path" ] || leave 1 "$2 is a folder"
  make_folders "$path" "$4" && remember "$path" && part=$(part_of "$path") && rm -f "$part" || return 1
  { if [ -e "$before/$number.copy" ]; then cat "$before/$number.copy"; fi && cat "$run/files/$1"; } >"$part" || return 1
  replace "$part" "$path" "$3" "$4"
}
remove_file() { # PATH
  rm -f "$(below_root "$1")"
}
# CONTENT: a program for the shell; what it leaves running ends with this job.
run_command() {
  cd / && umask 022 || return 1
  exec timeout -k 30 "$limit_s" sh "$run/files/$1"
}
run_boot_command() { # CONTENT INSTANCE
  INSTANCE_ID=$2
  export INSTANCE_ID
  run_command "$1"
}

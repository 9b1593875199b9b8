# Stands in for NAME: notes its words and its input, says what the test had it say, and fails where the test wants that.
printf '%s\n' "NAME${1:+ $*}" >>"$MACHINE/calls"
case NAME in *-restore | chpasswd) /bin/cat >>"$MACHINE/NAME.read" ;; esac
if [ -e "$MACHINE/NAME.says" ]; then /bin/cat "$MACHINE/NAME.says"; fi
[ ! -e "$MACHINE/NAME.fails" ]

#!/bin/sh
# Runs before the package is removed or upgraded. $1 says which: deb "remove" or
# "upgrade", rpm 0 or 1; apk runs it for removals only, without an argument that
# says so. The depot and the account stay.
set -e
case "${1:-}" in
upgrade | 1) exit 0 ;;
esac
if [ -d /run/systemd/system ]; then
	systemctl disable --now symdepot.service symdepot.socket
elif command -v rc-service >/dev/null 2>&1; then
	rc-service --ifstarted symdepot stop
	rc-update -q del symdepot 2>/dev/null || true
fi

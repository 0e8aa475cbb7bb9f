#!/bin/sh
# Runs after an installation or an upgrade of the deb, rpm or apk package. It makes
# the account and the folders, and restarts a server that runs. It starts none, and says
# after the first installation how to start one.
set -e
if command -v systemd-sysusers >/dev/null 2>&1; then
	systemd-sysusers symdepot.conf
elif ! grep -q '^symdepot:' /etc/passwd 2>/dev/null; then
	if command -v useradd >/dev/null 2>&1; then
		useradd --system --user-group --home-dir /var/lib/symdepot --no-create-home --shell /usr/sbin/nologin symdepot
	elif command -v adduser >/dev/null 2>&1; then # BusyBox
		addgroup -S symdepot
		adduser -S -D -H -G symdepot -h /var/lib/symdepot -s /sbin/nologin symdepot
	else
		echo "symdepot: no program makes the account symdepot; make it before you start the service" >&2
	fi
fi
if command -v systemd-tmpfiles >/dev/null 2>&1; then
	systemd-tmpfiles --create symdepot.conf
elif grep -q '^symdepot:' /etc/passwd 2>/dev/null; then
	while read -r type path mode user group _; do
		[ "$type" != d ] || install -d -m "$mode" -o "$user" -g "$group" "$path"
	done </usr/lib/tmpfiles.d/symdepot.conf
fi
if [ -d /run/systemd/system ]; then
	systemctl daemon-reload
	# Not waited for, and no fault of the installation: a first start with a newer version may
	# rewrite the index, which takes as long as it takes.
	systemctl --no-block try-restart symdepot.service || true
elif command -v rc-service >/dev/null 2>&1; then
	rc-service --ifstarted symdepot restart || true
fi
# An upgrade has the old version in $2 (deb, apk), or 2 in $1 (rpm).
if [ -z "${2:-}" ] && [ "${1:-}" != 2 ]; then
	start="symdepot serve, as the account symdepot"
	if command -v systemctl >/dev/null 2>&1; then
		start="systemctl enable --now symdepot"
	elif command -v rc-update >/dev/null 2>&1; then
		start="rc-update add symdepot && rc-service symdepot start"
	fi
	echo "symdepot: the configuration is /etc/symdepot/symdepot.yaml"
	echo "symdepot: to start the server: $start"
	echo "symdepot: then open http://127.0.0.1:8080 on this machine"
fi

#!/bin/sh
# Runs after the package is removed or purged. It removes the links that "systemctl
# enable" made and that point to nothing now: without a running systemd, nothing has
# removed them before. After an upgrade they point to the unit.
set -e
for link in /etc/systemd/system/*.wants/symdepot.service /etc/systemd/system/*.wants/symdepot.socket; do
	if [ -L "$link" ] && [ ! -e "$link" ]; then
		rm -f "$link"
	fi
done

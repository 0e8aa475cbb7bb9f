//go:build linux || netbsd || openbsd

package keyring

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	ss "github.com/zalando/go-keyring/secret_service"
)

// lockedProperty says whether a collection is locked (Secret Service API, version 0.2).
const lockedProperty = "org.freedesktop.Secret.Collection.Locked"

// available checks that this session has a Secret Service with a collection, which is not
// locked unless the person may be asked.
func available(mayAsk bool) error {
	if !hasBus() {
		return fmt.Errorf("%w: this session has no D-Bus", ErrAbsent)
	}
	isLocked, err := collectionLocked()
	switch {
	case err != nil: // which may be fs.ErrNotExist, as no secret is
		return fmt.Errorf("%w: the session has no Secret Service with a collection: %s", ErrAbsent, err.Error())
	case isLocked && !mayAsk:
		return locked()
	}
	return nil
}

// isLocked reports whether the collection is known to be locked.
func isLocked() bool {
	yes, err := collectionLocked()
	return err == nil && yes
}

// collectionLocked asks whether the collection is locked that secrets are kept in.
func collectionLocked() (bool, error) {
	service, err := ss.NewSecretService()
	if err != nil {
		return false, err
	}
	v, err := service.GetLoginCollection().GetProperty(lockedProperty)
	if err != nil {
		return false, err
	}
	yes, ok := v.Value().(bool)
	if !ok {
		return false, fmt.Errorf("%s is no truth value", lockedProperty)
	}
	return yes, nil
}

// hasBus reports whether the session has a bus. Where it has none, the module would start one,
// and leave it running.
func hasBus() bool {
	if a := os.Getenv("DBUS_SESSION_BUS_ADDRESS"); a != "" && a != "autolaunch:" {
		return true
	}
	for _, name := range []string{"bus", "dbus-session"} {
		if _, err := os.Stat(filepath.Join("/run/user", strconv.Itoa(os.Getuid()), name)); err == nil {
			return true
		}
	}
	return false
}

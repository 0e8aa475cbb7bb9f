//go:build !kerberos

package auth

import (
	"errors"
	"log/slog"
)

// openKeytab is for builds without Kerberos.
func openKeytab(*Config, *slog.Logger) (negotiator, error) {
	return nil, errors.New("this build has no Kerberos; a keytab cannot be used")
}

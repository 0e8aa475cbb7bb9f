package config

import (
	"errors"
	"strings"

	"github.com/symdepot/symdepot/internal/base/term"
)

// errAdminFiles says what admin_files may be.
var errAdminFiles = errors.New(`want true, false or a UNC path of a server and a share, such as \\server\symbols or //server/symbols`)

// Records returns which records of a symbol store are answered about files of the
// depot. Refs is also true if those of stores are served.
func (c *Config) Records() (refs bool, share string, err error) {
	on, isTruth := truths[strings.ToLower(c.AdminFiles)]
	if isTruth || c.AdminFiles == "" {
		return on, "", nil
	}
	share = strings.TrimRight(strings.ReplaceAll(c.AdminFiles, "/", `\`), `\`)
	rest, unc := strings.CutPrefix(share, `\\`)
	server, below, _ := strings.Cut(rest, `\`)
	if !unc || server == "" || below == "" || strings.Contains(rest, `\\`) || strings.ContainsAny(rest, `<>:"|?*`) ||
		term.Printable(share) != share {
		return false, "", errAdminFiles
	}
	return true, share, nil
}

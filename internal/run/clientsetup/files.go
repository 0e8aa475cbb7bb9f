package clientsetup

import (
	"context"
	"errors"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"github.com/symdepot/symdepot/internal/base/term"
)

// gitHelper makes symdepot git's credential helper for the server's address, and for no other
// path of that host.
func gitHelper(_ context.Context, s *Setup) (f Finding, err error) {
	m := &s.Machine
	if _, err := m.Look("git"); err != nil {
		f.Reason = "git is not installed"
		return f, nil //nolint:nilerr // Reason says it
	}
	path := filepath.Join(m.Home, ".gitconfig")
	if _, err := os.Stat(path); err != nil {
		if other := filepath.Join(m.Config, "git", "config"); m.System != "windows" && isFile(other) {
			path = other
		}
	}
	// The helper is a line of a shell: on Windows that of git, which takes slashes.
	program := filepath.ToSlash(m.Program)
	e, err := s.blockEdit(path, block{comment: "#", lines: []string{
		`[credential "` + s.Server + `"]`, "\tuseHttpPath = true", "\thelper = \"!'" + program + "' credential\"",
	}})
	f.Edits = []Edit{e}
	return f, err
}

func isFile(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}

// netrcBlock is the entry of a server in .netrc. It stands at the beginning: of several entries
// that fit, programs take the first, and one called default fits always.
func netrcBlock(server, token string) (block, error) {
	u, err := url.Parse(server)
	if err != nil {
		return block{}, err
	}
	return block{comment: "#", front: true, lines: []string{"machine " + u.Hostname() + " login symdepot password " + token}}, nil
}

// netrc sets up .netrc, if it has nothing for the host and only the user can read it.
func netrc(_ context.Context, s *Setup) (f Finding, err error) {
	name := ".netrc"
	if s.Machine.System == "windows" {
		name = "_netrc"
	}
	path := filepath.Join(s.Machine.Home, name)
	info, err := os.Stat(path)
	switch {
	case err == nil && s.Machine.System != "windows" && info.Mode().Perm()&0o077 != 0:
		f.Reason = "other users can read " + path + ": first run chmod 600 " + term.ShellWord(path)
		return f, nil
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return f, err
	}
	b, err := netrcBlock(s.Server, s.Token)
	if err != nil {
		return f, err
	}
	e, err := s.blockEdit(path, b)
	if err != nil {
		return f, err
	}
	rest, _, err := withoutBlocks(e.Before, s.Server)
	if err != nil {
		return f, err
	}
	host := strings.Fields(b.lines[0])[1]
	words := strings.Fields(string(rest))
	for i, w := range words {
		if w == "machine" && i+1 < len(words) && strings.EqualFold(words[i+1], host) {
			f.Reason = path + " has an entry for " + host + " already, which other programs may need"
			return f, nil
		}
	}
	e.private, e.form = true, formNetrc
	f.Edits = []Edit{e}
	f.Edits[0].Target = "netrc"
	service, then, err := s.service()
	f.Edits, f.Then = append(f.Edits, service...), then
	f.Notes = append(f.Notes, s.unrefreshed(service)...)
	return f, err
}

package clientsetup

import (
	"bytes"
	"context"
	"encoding/xml"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/symdepot/symdepot/internal/base/durable"
)

// What is known of credential providers is what Microsoft documents ("Programming custom
// credential providers", of the documentation of Windows drivers). The files below were tried
// with a program that follows that page, never with a genuine debugger.
const (
	providerDLL    = "DbgCredentialProvider.dll"
	providerConfig = "DbgCredentialProvider.config.xml"
	// usualFolder is what the file of Microsoft names, beside itself.
	usualFolder = "CredentialProviders"
	storeName   = "WinDbgX.exe"
)

// debuggerFolders are the folders of debuggers that load a credential provider: below Debuggers
// of the Windows Kits, one for each architecture.
func (m *Machine) debuggerFolders() (found, old []string) {
	kits := slices.Clone(m.Kits)
	for _, v := range []string{"ProgramFiles(x86)", "ProgramFiles"} {
		if dir := m.Getenv(v); dir != "" {
			kits = append(kits, filepath.Join(dir, "Windows Kits", "10"), filepath.Join(dir, "Windows Kits", "11"))
		}
	}
	for _, kit := range kits {
		for _, arch := range []string{"x64", "x86", "arm64", "arm"} {
			dir := filepath.Join(kit, "Debuggers", arch)
			switch {
			case slices.Contains(found, dir) || slices.Contains(old, dir) || !isFolder(dir):
			case isFile(filepath.Join(dir, providerDLL)) || isFile(filepath.Join(dir, providerConfig)):
				found = append(found, dir)
			default:
				old = append(old, dir)
			}
		}
	}
	return found, old
}

func isFolder(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

// windowsDebuggers sets up the debuggers of Windows.
func windowsDebuggers(_ context.Context, s *Setup) (f Finding, err error) {
	m := &s.Machine
	if m.System != "windows" {
		f.Reason = "they run on Windows only"
		return f, nil
	}
	found, old := m.debuggerFolders()
	for _, dir := range old {
		f.Notes = append(f.Notes, dir+" has no "+providerDLL+": these debuggers are older than credential providers; "+
			"update them, or run symdepot proxy "+s.Server)
	}
	if m.hasStoreWinDbg() {
		f.Notes = append(f.Notes, "WinDbg of the Store: its folder belongs to Windows, and nobody can add a file there; "+
			"run symdepot proxy "+s.Server)
	}
	done := map[string]bool{}
	for _, dir := range found {
		folders, err := m.providerFolders(dir)
		if err != nil {
			f.Notes = append(f.Notes, err.Error())
			continue
		}
		to, why := m.choose(folders)
		if why != "" {
			f.Notes = append(f.Notes, why)
			continue
		}
		if done[to] {
			continue
		}
		done[to] = true
		edits, err := s.provider(to)
		if err != nil {
			return f, err
		}
		f.Edits = append(f.Edits, edits...)
	}
	if len(f.Edits) == 0 {
		f.Reason = "no debugger was found that can be set up"
	}
	return f, nil
}

// hasStoreWinDbg reports whether the Store has installed WinDbg for the user: then it has an alias
// in the user's profile. The folder of the package cannot be listed.
func (m *Machine) hasStoreWinDbg() bool {
	local := m.Getenv("LOCALAPPDATA")
	if local == "" {
		return false
	}
	_, err := os.Lstat(filepath.Join(local, "Microsoft", "WindowsApps", storeName))
	return err == nil
}

// providerFolders are the folders that a debugger reads providers from, in its order.
func (m *Machine) providerFolders(debugger string) ([]string, error) {
	var config struct {
		Folders []string `xml:"Folders>Folder"`
	}
	text, err := os.ReadFile(filepath.Join(debugger, providerConfig))
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return nil, err
	default:
		// The element Settings is the outermost one, whatever its name space is.
		if err := xml.NewDecoder(bytes.NewReader(text)).Decode(&config); err != nil {
			return nil, &fs.PathError{Op: "read", Path: filepath.Join(debugger, providerConfig), Err: err}
		}
	}
	if len(config.Folders) == 0 {
		config.Folders = []string{usualFolder}
	}
	var out []string
	for _, dir := range config.Folders {
		dir = strings.TrimSpace(dir)
		switch {
		case dir == "" || strings.Contains(dir, "%"): // whether variables are replaced is not documented
		case filepath.IsAbs(dir):
			out = append(out, filepath.Clean(dir))
		default:
			out = append(out, filepath.Join(debugger, filepath.FromSlash(strings.ReplaceAll(dir, `\`, "/"))))
		}
	}
	return out, nil
}

// choose returns the folder in which a file changes least: one of the user alone, if the debugger
// reads one; else the first. why says why none can be used.
func (m *Machine) choose(folders []string) (folder, why string) {
	if i := slices.IndexFunc(folders, func(dir string) bool { return isBelow(dir, m.Home) }); i >= 0 {
		return folders[i], ""
	}
	if len(folders) == 0 {
		return "", "no folder of " + providerConfig + " can be used"
	}
	// Every user of the machine runs what is named in such a folder: so it must be a program that
	// only administrators can replace.
	if !m.isProtected(m.Program) {
		return "", folders[0] + " is for all users of this machine, but other programs of yours can replace " + m.Program +
			": install symdepot below Program Files (its MSI does), and run this command of it"
	}
	if parent := nearestFolder(folders[0]); !durable.MayWrite(parent) || !mayMake(parent) {
		return "", "you may not write to " + folders[0] + ": run this command as administrator"
	}
	return folders[0], ""
}

// isProtected reports whether a program is below the folders that only administrators can write.
func (m *Machine) isProtected(program string) bool {
	return slices.ContainsFunc([]string{"ProgramFiles", "ProgramFiles(x86)", "ProgramW6432"}, func(v string) bool {
		dir := m.Getenv(v)
		return dir != "" && isBelow(program, dir)
	})
}

// isBelow reports whether a path is below a folder, in any letter case.
func isBelow(path, dir string) bool {
	rel, err := filepath.Rel(strings.ToLower(dir), strings.ToLower(path))
	return err == nil && filepath.IsLocal(rel)
}

// nearestFolder is the folder, or the nearest one above it, that exists.
func nearestFolder(dir string) string {
	for !isFolder(dir) && filepath.Dir(dir) != dir {
		dir = filepath.Dir(dir)
	}
	return dir
}

// mayMake reports whether this user can make a file in a folder, by a try: Windows has no other
// answer that is short.
func mayMake(dir string) bool {
	f, err := os.CreateTemp(dir, "symdepot-*.tmp")
	if err != nil {
		return false
	}
	return errors.Join(f.Close(), os.Remove(f.Name())) == nil
}

// provider returns the files of the provider: its XML, and the wrapper that the XML names. A
// provider gets one argument, and symdepot needs the word credential before it.
func (s *Setup) provider(folder string) ([]Edit, error) {
	const eol = "\r\n"
	list, err := wholeFile(filepath.Join(folder, "symdepot.xml"), `<?xml version="1.0" encoding="utf-8"?>`+eol+
		"<CredentialProviders>"+eol+
		`  <CredentialProvider ApiVersion="2.0.0">symdepot\symdepot.cmd</CredentialProvider>`+eol+
		"</CredentialProviders>"+eol)
	if err != nil {
		return nil, err
	}
	// In a batch file, a percent sign stands for itself if it is doubled.
	wrapper, err := wholeFile(filepath.Join(folder, "symdepot", "symdepot.cmd"),
		`@"`+strings.ReplaceAll(s.Machine.Program, "%", "%%")+`" credential %1`+eol)
	return []Edit{wrapper, list}, err
}

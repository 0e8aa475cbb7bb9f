package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"time"
)

// upgradeCode says of all installers that they are for the same program. It never
// changes.
const upgradeCode = "6F0B7C9E-2D2B-5C53-9A55-3A8E8C5E9B41"

// addPath is what wixl cannot write: the program's folder at the end of PATH, for
// as long as it is installed.
var addPath = []string{
	"CREATE TABLE `Environment` (`Environment` CHAR(72) NOT NULL, `Name` CHAR(255) NOT NULL LOCALIZABLE, `Value` " +
		"CHAR(255) LOCALIZABLE, `Component_` CHAR(72) NOT NULL PRIMARY KEY `Environment`)",
	"INSERT INTO `Environment` (`Environment`, `Name`, `Value`, `Component_`) VALUES ('Path', '=-*PATH', '[~];[INSTALLDIR]', 'Program')",
	"INSERT INTO `InstallExecuteSequence` (`Action`, `Sequence`) VALUES ('WriteEnvironmentStrings', 5200)",
	"INSERT INTO `InstallExecuteSequence` (`Action`, `Sequence`) VALUES ('RemoveEnvironmentStrings', 3300)",
}

// packageCode is the code of an installer in its summary, which wixl chooses at random.
var packageCode = regexp.MustCompile(`Revision number \(UUID\): \{([0-9A-F-]{36})\}`)

// installer makes the installer for Windows, with msitools. They know amd64 only.
func (r *release) installer(p platform) error {
	if p.arch != "amd64" {
		return nil
	}
	for _, name := range []string{"wixl", "msibuild", "msiinfo"} {
		if !installed(name) {
			fmt.Printf("no installer for Windows is made: %s is not installed (Debian packages wixl and msitools)\n", name)
			return nil
		}
	}
	dir, err := r.installerFiles(p)
	if err != nil {
		return err
	}
	// The same version has the same codes on every machine.
	product, pack := guidOf("product "+r.version.full+" "+p.String()), guidOf("package "+r.version.full+" "+p.String())
	to := r.file("-windows-" + p.arch + ".msi")
	began := time.Now()
	utc := []string{"TZ=UTC"} // the times of files in cabinets are local ones
	err = r.commandIn(dir, utc, "wixl", "--arch", "x64", "-D", "Version="+r.version.numbers, "-D", "Product="+product, "-D",
		"Upgrade="+upgradeCode, "-o", to, "symdepot.wxs", bookSource)
	if err != nil {
		return err
	}
	if err := r.commandIn(dir, utc, "msibuild", append([]string{to, "-q"}, addPath...)...); err != nil {
		return err
	}
	summary, err := exec.CommandContext(r.ctx, "msiinfo", "suminfo", to).Output()
	if err != nil {
		return err
	}
	random := packageCode.FindSubmatch(summary)
	b, err := os.ReadFile(to)
	if err != nil {
		return err
	}
	if random == nil || bytes.Count(b, random[1]) != 1 {
		return fmt.Errorf("the installer has no package code that can be replaced:\n%s", summary)
	}
	b = bytes.Replace(b, random[1], []byte(pack), 1)
	return os.WriteFile(to, replaceTimes(b, began, time.Now(), r.at), 0o644)
}

func installed(program string) bool {
	_, err := exec.LookPath(program)
	return err == nil
}

// installerFiles fills a folder with the files of the installer, and returns it.
func (r *release) installerFiles(p platform) (string, error) {
	dir := filepath.Join(r.temp, "msi-"+p.arch)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	for name, from := range map[string]string{
		"symdepot.exe":             filepath.Join(r.staged(p), "symdepot.exe"),
		"THIRD-PARTY-LICENSES.txt": filepath.Join(r.staged(p), "THIRD-PARTY-LICENSES.txt"),
		"LICENSE":                  "LICENSE",
		"symdepot.wxs":             filepath.Join("packaging", "windows", "symdepot.wxs"),
	} {
		b, err := os.ReadFile(from)
		if err != nil {
			return "", err
		}
		if err := os.WriteFile(filepath.Join(dir, name), b, 0o644); err != nil {
			return "", err
		}
	}
	if err := os.CopyFS(filepath.Join(dir, "book"), os.DirFS(r.book())); err != nil {
		return "", err
	}
	list, err := filesBelow(r.book(), "")
	if err != nil {
		return "", err
	}
	source, err := installedBook(list)
	if err != nil {
		return "", err
	}
	if err := os.WriteFile(filepath.Join(dir, bookSource), source, 0o644); err != nil {
		return "", err
	}
	return dir, r.normalize(dir)
}

// replaceTimes replaces the times at which an installer was made, in its summary, by
// another one. They are the only values of the type FILETIME between from and to.
func replaceTimes(b []byte, from, to, by time.Time) []byte {
	typed := []byte{0x40, 0, 0, 0} // VT_FILETIME
	for i := 0; ; {
		n := bytes.Index(b[i:], typed)
		if n < 0 || len(b) < i+n+12 {
			return b
		}
		i += n + len(typed)
		// wixl rounds to seconds.
		if v := binary.LittleEndian.Uint64(b[i:]); v >= fileTime(from.Add(-2*time.Second)) && v <= fileTime(to.Add(2*time.Second)) {
			binary.LittleEndian.PutUint64(b[i:], fileTime(by))
		}
	}
}

// fileTime returns a time as Windows counts it: in 100 ns since 1601.
func fileTime(t time.Time) uint64 {
	const from1601 = 11644473600
	return uint64(t.Unix()+from1601)*1e7 + uint64(t.Nanosecond()/100)
}

// guidOf returns the GUID that a text has (RFC 9562, version 8).
func guidOf(text string) string {
	h := sha256.Sum256([]byte(text))
	h[6], h[8] = h[6]&0x0f|0x80, h[8]&0x3f|0x80
	return strings.ToUpper(fmt.Sprintf("%x-%x-%x-%x-%x", h[:4], h[4:6], h[6:8], h[8:10], h[10:16]))
}

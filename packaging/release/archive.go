package main

import (
	"archive/tar"
	"archive/zip"
	"compress/flate"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// entry is a file of an archive.
type entry struct {
	name string // in the archive, with slashes
	path string // on disk
	mode fs.FileMode
}

func byName(a, b entry) int { return strings.Compare(a.name, b.name) }

// service lists the files for running a server, by system.
var service = map[string][]string{
	"linux": {
		"packaging/linux/symdepot.service", "packaging/linux/symdepot.socket", "packaging/linux/sysusers.conf",
		"packaging/linux/tmpfiles.conf", "packaging/linux/symdepot.yaml",
	},
	"darwin": {"packaging/macos/org.symdepot.symdepot.plist", "packaging/macos/newsyslog.conf", "packaging/macos/symdepot.yaml"},
}

// archive writes the archive of a platform: tar.gz, and zip for Windows.
func (r *release) archive(p platform) error {
	top := "symdepot-" + r.version.short + "-" + p.os + "-" + p.arch
	list, err := filesBelow(r.staged(p), top)
	if err != nil {
		return err
	}
	texts, err := filesBelow(r.book(), top)
	if err != nil {
		return err
	}
	list = append(append(list, texts...), entry{top + "/LICENSE", "LICENSE", 0o644})
	for _, name := range service[p.os] {
		list = append(list, entry{top + "/service/" + path.Base(name), filepath.FromSlash(name), 0o644})
	}
	slices.SortFunc(list, byName)
	if p.os == "windows" {
		return writeFile(r.file("-"+p.os+"-"+p.arch+".zip"), func(w io.Writer) error { return writeZip(w, list, r.at, r.level) })
	}
	return writeFile(r.file("-"+p.os+"-"+p.arch+".tar.gz"), func(w io.Writer) error { return writeTarGz(w, list, r.at, r.level) })
}

// filesBelow lists the files of a folder, as members of the folder top, or of none if top
// is empty. The program is the only one that can be run.
func filesBelow(dir, top string) ([]entry, error) {
	var list []entry
	err := filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		rel, err := filepath.Rel(dir, name)
		if err != nil {
			return err
		}
		mode := fs.FileMode(0o644)
		if rel == "symdepot" || rel == "symdepot.exe" {
			mode = 0o755
		}
		list = append(list, entry{path.Join(top, filepath.ToSlash(rel)), name, mode})
		return nil
	})
	return list, err
}

// writeFile writes a file with a function.
func writeFile(name string, write func(io.Writer) error) error {
	f, err := os.Create(name)
	if err != nil {
		return err
	}
	if err := write(f); err != nil {
		_ = f.Close()
		return err
	}
	return f.Close()
}

// writeTarGz writes files as a tar archive, compressed with gzip. Owner and times
// are the same on every machine.
func writeTarGz(w io.Writer, list []entry, at time.Time, level int) error {
	z, err := gzip.NewWriterLevel(w, level)
	if err != nil {
		return err
	}
	tw := tar.NewWriter(z)
	for _, e := range list {
		b, err := os.ReadFile(e.path)
		if err != nil {
			return err
		}
		h := &tar.Header{
			Typeflag: tar.TypeReg, Name: e.name, Size: int64(len(b)), Mode: int64(e.mode), ModTime: at, Uname: "root",
			Gname: "root", Format: tar.FormatPAX,
		}
		if err := tw.WriteHeader(h); err != nil {
			return err
		}
		if _, err := tw.Write(b); err != nil {
			return err
		}
	}
	if err := tw.Close(); err != nil {
		return err
	}
	return z.Close()
}

// writeZip writes files as a zip archive.
func writeZip(w io.Writer, list []entry, at time.Time, level int) error {
	zw := zip.NewWriter(w)
	zw.RegisterCompressor(zip.Deflate, func(w io.Writer) (io.WriteCloser, error) {
		return flate.NewWriter(w, level)
	})
	for _, e := range list {
		h := &zip.FileHeader{Name: e.name, Method: zip.Deflate, Modified: at}
		h.SetMode(e.mode)
		to, err := zw.CreateHeader(h)
		if err != nil {
			return err
		}
		b, err := os.ReadFile(e.path)
		if err != nil {
			return err
		}
		if _, err := to.Write(b); err != nil {
			return err
		}
	}
	return zw.Close()
}

// checksums writes SHA256SUMS, which sha256sum -c reads.
func (r *release) checksums() error {
	entries, err := os.ReadDir(r.out)
	if err != nil {
		return err
	}
	var b strings.Builder
	for _, e := range entries {
		if e.IsDir() {
			continue
		}
		sum, err := sha256Of(filepath.Join(r.out, e.Name()))
		if err != nil {
			return err
		}
		fmt.Fprintf(&b, "%s  %s\n", sum, e.Name())
	}
	return os.WriteFile(filepath.Join(r.out, "SHA256SUMS"), []byte(b.String()), 0o644)
}

func sha256Of(name string) (string, error) {
	f, err := os.Open(name)
	if err != nil {
		return "", err
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

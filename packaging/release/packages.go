package main

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
)

// description is that of packages in the configuration of nfpm; its first line is a group.
var description = regexp.MustCompile(`(?m)^description: \|\n  (.*)\n(?:(?:  .*)?\n)*`)

// packages makes the deb, rpm and apk packages of a platform, with nfpm.
func (r *release) packages(p platform) error {
	// nfpm copies the times and modes of some files into packages.
	dir := filepath.Join(r.temp, "packages-"+p.arch)
	linux := filepath.Join("packaging", "linux")
	if err := os.CopyFS(filepath.Join(dir, linux), os.DirFS(linux)); err != nil {
		return err
	}
	license, err := os.ReadFile("LICENSE")
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, "LICENSE"), license, 0o644); err != nil {
		return err
	}
	if err := os.CopyFS(filepath.Join(dir, "book"), os.DirFS(r.book())); err != nil {
		return err
	}
	// nfpm expands no variables in the settings of compression.
	conf := filepath.Join(dir, linux, "nfpm.yaml")
	text, err := os.ReadFile(conf)
	if err != nil {
		return err
	}
	text = bytes.ReplaceAll(text, []byte("${LEVEL}"), []byte(strconv.Itoa(r.level)))
	for _, d := range []string{dir, filepath.Join(r.staged(p), "man")} {
		if err := r.normalize(d); err != nil {
			return err
		}
	}
	env := []string{"VERSION=" + r.version.short, "ARCH=" + p.arch, "STAGE=" + r.staged(p)}
	for _, format := range []string{"deb", "rpm", "apk"} {
		if format == "apk" {
			text = description.ReplaceAll(text, []byte("description: $1\n"))
		}
		if err := os.WriteFile(conf, text, 0o644); err != nil {
			return err
		}
		to := r.file("-" + p.arch + "." + format)
		if err := r.tool(dir, env, nfpm, "package", "--config", filepath.Join(linux, "nfpm.yaml"), "--packager", format,
			"--target", to); err != nil {
			return err
		}
	}
	return nil
}

// normalize gives all files and folders below a folder the time of the commit and
// the usual modes.
func (r *release) normalize(dir string) error {
	return filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		mode := fs.FileMode(0o644)
		if d.IsDir() {
			mode = 0o755
		}
		if err := os.Chmod(name, mode); err != nil {
			return err
		}
		return os.Chtimes(name, r.at, r.at)
	})
}

// sbom writes the list of the modules in a platform's program, in CycloneDX's format.
func (r *release) sbom(p platform) error {
	return r.tool("", nil, cyclonedx, "bin", "-json", "-std", "-noserial", "-notimestamp", "-version", r.version.full,
		"-output", r.file("-"+p.os+"-"+p.arch+".cdx.json"), filepath.Join(r.staged(p), program(p)))
}

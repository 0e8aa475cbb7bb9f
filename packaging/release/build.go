package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
)

// goBuild builds the program for a platform. Neither folder nor time nor the state
// of the version control get into it, but for the version.
func (r *release) goBuild(p platform, to string) error {
	env := []string{"GOOS=" + p.os, "GOARCH=" + p.arch}
	return r.command(env, "go", "build", "-trimpath", "-buildvcs=false", "-pgo="+r.profile,
		"-ldflags=-s -w -buildid= -X main.version="+r.version.full, "-o", to, "./cmd/symdepot")
}

// manual writes man pages and completions, which the program prints itself.
func (r *release) manual(dir string) error {
	here := platform{runtime.GOOS, runtime.GOARCH}
	exe := filepath.Join(r.temp, "here", program(here))
	if err := r.goBuild(here, exe); err != nil {
		return err
	}
	if err := r.command(nil, exe, "man", filepath.Join(dir, "man")); err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Join(dir, "completions"), 0o755); err != nil {
		return err
	}
	for shell, name := range map[string]string{
		"bash": "symdepot.bash", "zsh": "_symdepot", "fish": "symdepot.fish", "powershell": "symdepot.ps1",
	} {
		out, err := exec.CommandContext(r.ctx, exe, "completion", shell).Output()
		if err != nil {
			return fmt.Errorf("completion %s: %w", shell, err)
		}
		if err := os.WriteFile(filepath.Join(dir, "completions", name), out, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// program is the file name of the program on a platform.
func program(p platform) string {
	if p.os == "windows" {
		return "symdepot.exe"
	}
	return "symdepot"
}

// stage fills the folder of a platform: what its archive holds, but for what all
// have in common.
func (r *release) stage(p platform, docs string) error {
	dir := r.staged(p)
	here := platform{runtime.GOOS, runtime.GOARCH}
	exe := filepath.Join(dir, program(p))
	err := os.MkdirAll(dir, 0o755)
	if err == nil && p == here {
		err = os.Rename(filepath.Join(r.temp, "here", program(p)), exe)
	} else if err == nil {
		err = r.goBuild(p, exe)
	}
	if err != nil {
		return err
	}
	for _, sub := range []string{"man", "completions"} {
		if err := os.CopyFS(filepath.Join(dir, sub), os.DirFS(filepath.Join(docs, sub))); err != nil {
			return err
		}
	}
	text, err := r.licenses(p)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "THIRD-PARTY-LICENSES.txt"), text, 0o644)
}

// licenses returns the licences of Go and of all modules in the program.
func (r *release) licenses(p platform) ([]byte, error) {
	type module struct{ Path, Version, Dir string }
	cmd := exec.CommandContext(r.ctx, "go", "list", "-deps", "-json=Module", "./cmd/symdepot")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS="+p.os, "GOARCH="+p.arch)
	list, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go list: %w", err)
	}
	all := map[string]module{"go": {Path: "The Go programming language", Version: runtime.Version(), Dir: goRoot(r)}}
	for dec := json.NewDecoder(bytes.NewReader(list)); ; {
		var one struct {
			Module *struct {
				Path, Version, Dir string
				Main               bool
			}
		}
		if err := dec.Decode(&one); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return nil, err
		}
		if m := one.Module; m != nil && !m.Main {
			all[m.Path] = module{m.Path, m.Version, m.Dir}
		}
	}
	var paths []string
	for path := range all {
		paths = append(paths, path)
	}
	slices.Sort(paths)
	var b bytes.Buffer
	b.WriteString("symdepot contains these works of others, each under its own licence.\n")
	for _, path := range paths {
		m := all[path]
		fmt.Fprintf(&b, "\n%s\n%s %s\n%[1]s\n", strings.Repeat("=", 80), m.Path, m.Version)
		texts, err := licenseFiles(m.Dir)
		if err != nil {
			return nil, fmt.Errorf("%s %s: %w", m.Path, m.Version, err)
		}
		for _, name := range texts {
			text, err := os.ReadFile(filepath.Join(m.Dir, name))
			if err != nil {
				return nil, err
			}
			fmt.Fprintf(&b, "\n--- %s\n\n%s\n", name, bytes.TrimSpace(bytes.ReplaceAll(text, []byte("\r\n"), []byte("\n"))))
		}
	}
	return b.Bytes(), nil
}

// licenseFiles returns the names of the licence texts in a folder, and an error if
// there are none.
func licenseFiles(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, e := range entries {
		name := strings.ToUpper(e.Name())
		for _, begin := range []string{"LICENSE", "LICENCE", "COPYING", "NOTICE", "PATENTS"} {
			if strings.HasPrefix(name, begin) && e.Type().IsRegular() && !strings.HasSuffix(name, ".GO") {
				names = append(names, e.Name())
			}
		}
	}
	if len(names) == 0 {
		return nil, errors.New("no file with a licence")
	}
	return names, nil
}

// goRoot is the folder of the Go distribution.
func goRoot(r *release) string {
	out, err := exec.CommandContext(r.ctx, "go", "env", "GOROOT").Output()
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(out))
}

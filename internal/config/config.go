// Package config reads and checks the configuration file of symdepot, and
// converts it into the options of the packages that it configures.
package config

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"strings"

	"github.com/symdepot/symdepot/layout"
)

// Default returns the configuration without a file.
func Default() *Config {
	c := &Config{getenv: os.Getenv, FilePath: "name"}
	eachScalar(reflect.ValueOf(c).Elem(), "", func(_ string, v reflect.Value, f reflect.StructField) {
		if d := f.Tag.Get("default"); d != "" {
			// A test checks that every default can be read.
			_ = setScalar(v, d, f)
		}
	})
	return c
}

// FileName is the name of the configuration file in the folders that Find
// searches.
const FileName = "symdepot.yaml"

// systemFile is used if the user has no configuration file.
const systemFile = "/etc/symdepot/" + FileName

// Find returns the path of the configuration file: the named one, that of
// SYMDEPOT_CONFIG, config.yaml or symdepot.yaml in the folder symdepot of
// os.UserConfigDir, or /etc/symdepot/symdepot.yaml. It is empty if none exists.
// The current folder is never searched: a file that someone else puts there
// could make the program run commands or send files away.
func Find(named string, getenv func(string) string) string {
	if named != "" {
		return named
	}
	if p := getenv("SYMDEPOT_CONFIG"); p != "" {
		return p
	}
	var list []string
	if dir, err := os.UserConfigDir(); err == nil {
		list = append(list, filepath.Join(dir, "symdepot", "config.yaml"), filepath.Join(dir, "symdepot", FileName))
	}
	if runtime.GOOS != "windows" {
		list = append(list, systemFile)
	}
	for _, p := range list {
		if isFile(p) {
			return p
		}
	}
	return ""
}

// IgnoredHere returns a message about a symdepot.yaml in the current folder,
// which older releases read. It is empty if there is none, or if used is that
// file.
func IgnoredHere(used string) string {
	here, err := os.Stat(FileName)
	if err != nil || !here.Mode().IsRegular() {
		return ""
	}
	if used != "" {
		if u, err := os.Stat(used); err == nil && os.SameFile(u, here) {
			return ""
		}
	}
	return "symdepot.yaml in the current folder is ignored; to use it, add --config symdepot.yaml or set SYMDEPOT_CONFIG"
}

// maxFile is the largest configuration file, in bytes.
const maxFile = 1 << 20

// Load reads the configuration: the defaults, then the file unless path is
// empty, then SYMDEPOT_* of the environment. It reports all faults together;
// errors.As finds an *Error among them.
func Load(path string, getenv func(string) string) (*Config, error) {
	c := Default()
	c.file, c.getenv = path, getenv
	return c, c.load(path)
}

// LoadForCheck is Load for a configuration that is only checked: a missing file
// with a secret is a warning.
func LoadForCheck(path string, getenv func(string) string) (*Config, error) {
	c := Default()
	c.file, c.getenv, c.lenient = path, getenv, true
	return c, c.load(path)
}

func (c *Config) load(path string) error {
	var faults []error
	if path != "" {
		text, err := readSmall(path, maxFile)
		if err != nil {
			return fmt.Errorf("read the configuration: %w", err)
		}
		c.sum = sha256.Sum256(text)
		faults = append(faults, c.decode(path, text))
	}
	faults = append(faults, c.environment())
	if err := errors.Join(faults...); err != nil {
		return err // check would report unreadable values as missing
	}
	return c.check()
}

// warn adds a warning once.
func (c *Config) warn(text string) {
	if !slices.Contains(c.warnings, text) {
		c.warnings = append(c.warnings, text)
	}
}

// Getenv returns a variable of the environment that the configuration was read with.
func (c *Config) Getenv(name string) string { return c.getenv(name) }

// File returns the path of the configuration file, or "" if none was read.
func (c *Config) File() string { return c.file }

// Changed reports whether the file has changed since it was read. It returns an
// error if a server would not start with it now.
func (c *Config) Changed() (bool, error) {
	now, err := Load(c.file, c.getenv)
	if err != nil {
		return false, err
	}
	return now.sum != c.sum, nil
}

// decode reads the text of a file into c.
func (c *Config) decode(file string, text []byte) error {
	root, err := parse(file, bytes.NewReader(text))
	if err != nil || root == nil {
		return err
	}
	d := decoder{file: file}
	d.value(root, reflect.ValueOf(c).Elem(), "", reflect.StructField{})
	return errors.Join(d.errs...)
}

// readSmall reads a regular file of limited size.
func readSmall(path string, limit int64) ([]byte, error) {
	info, err := os.Stat(path)
	if err == nil && !info.Mode().IsRegular() {
		err = &fs.PathError{Op: "read", Path: path, Err: errors.New("not a regular file")}
	}
	if err == nil && info.Size() > limit {
		err = &fs.PathError{Op: "read", Path: path, Err: fmt.Errorf("the file has %d bytes; at most %d are expected", info.Size(), limit)}
	}
	if err != nil {
		return nil, err
	}
	return os.ReadFile(path)
}

// environment applies the variables SYMDEPOT_*.
func (c *Config) environment() error {
	var errs []error
	fail := func(name string, err error) {
		errs = append(errs, &Error{File: "environment", Key: name, What: err.Error()})
	}
	if dir := c.getenv("SYMDEPOT_DEPOT"); dir != "" {
		c.Depot.Dir = dir
	}
	eachScalar(reflect.ValueOf(c).Elem(), "", func(path string, v reflect.Value, f reflect.StructField) {
		name := envName(path)
		if text := c.getenv(name); text != "" {
			if err := setScalar(v, text, f); err != nil {
				fail(name, fmt.Errorf("%w, not %q", err, text))
			}
		}
	})
	for text := range strings.FieldsSeq(c.getenv("SYMDEPOT_UPSTREAMS")) {
		if err := c.AddUpstream(text); err != nil {
			fail("SYMDEPOT_UPSTREAMS", err)
		}
	}
	return errors.Join(errs...)
}

// AddUpstream adds an upstream in the syntax of --upstream: PRESET or
// URL[,layout=L][,rank=N].
func (c *Config) AddUpstream(text string) error {
	var u Upstream
	if err := u.fromText(text); err != nil {
		return err
	}
	c.Upstreams = append(c.Upstreams, u)
	return nil
}

// AddStore adds a store in the syntax of --store: DIR[,layout=L].
func (c *Config) AddStore(text string) error {
	var s Store
	if err := s.fromText(text); err != nil {
		return err
	}
	c.Stores = append(c.Stores, s)
	return nil
}

// AddWatch adds a watched folder in the syntax of --watch: DIR[=PRODUCT[/VERSION]]. It
// must exist when OpenWatched is called: a person has just typed the name.
func (c *Config) AddWatch(text string) error {
	w := Watch{Typed: true}
	if err := w.fromText(text); err != nil {
		return err
	}
	c.Watch = append(c.Watch, w)
	return nil
}

// splitStore splits DIR[,layout=L]. If the whole text is the path of a folder,
// it is not split.
func splitStore(text string) (dir, name string, err error) {
	i := strings.LastIndex(text, ",layout=")
	if i < 0 || isDir(text) {
		return text, "", nil
	}
	dir, name = text[:i], text[i+len(",layout="):]
	_, err = layout.ParseFolder(name)
	return dir, name, err
}

// fault returns an error for a key.
func (c *Config) fault(line int, key, format string, args ...any) error {
	file := c.file
	if file == "" {
		file = "configuration"
	}
	return &Error{file, line, key, fmt.Sprintf(format, args...)}
}

func isDir(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

func isFile(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}

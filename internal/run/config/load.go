package config

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"strings"
)

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
		faults = append(faults, c.decode(path, text))
	}
	faults = append(faults, c.environment())
	if err := errors.Join(faults...); err != nil {
		return err // check would report unreadable values as missing
	}
	c.demand = c.Auth.Demand
	rest := *c
	rest.useRights(new(Auth))
	// Values of all keys can be written as JSON.
	b, err := json.Marshal(&rest)
	c.sum = sha256.Sum256(b)
	return errors.Join(err, c.check())
}

// File returns the path of the configuration file, or "" if none was read.
func (c *Config) File() string { return c.file }

// Reload reads the file again. It returns a copy of the configuration that has the rights of the
// file (the keys of auth that say who may do what), which a running server takes, and whether
// other keys have changed, for which it must be started again. It returns an error if the file
// cannot be read.
func (c *Config) Reload() (next *Config, restart bool, err error) {
	now, err := Load(c.file, c.getenv)
	if err != nil {
		return nil, false, err
	}
	byFlag := c.Auth.Demand && !c.demand
	copied := *c
	next = &copied
	next.demand = now.demand
	next.useRights(&now.Auth)
	next.Auth.Demand = next.Auth.Demand || byFlag
	return next, now.sum != c.sum, nil
}

// useRights takes the keys of auth that say who may do what.
func (c *Config) useRights(from *Auth) {
	a := &c.Auth
	a.Demand, a.Anonymous, a.Public = from.Demand, from.Anonymous, from.Public
	a.Admit, a.Groups, a.Grants = from.Admit, from.Groups, from.Grants
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

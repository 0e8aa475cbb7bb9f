// Package config reads and checks the configuration file of symdepot, and
// converts it into the options of the packages that it configures.
package config

import (
	"os"
	"reflect"
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

// Getenv returns a variable of the environment that the configuration was read with.
func (c *Config) Getenv(name string) string { return c.getenv(name) }

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

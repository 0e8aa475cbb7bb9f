package config

import (
	"fmt"
	"slices"
)

// fail reports a fault of a key.
type fail func(key, format string, args ...any)

// fault returns an error for a key.
func (c *Config) fault(line int, key, format string, args ...any) error {
	file := c.file
	if file == "" {
		file = "configuration"
	}
	return &Error{file, line, key, fmt.Sprintf(format, args...)}
}

// warn adds a warning once.
func (c *Config) warn(text string) {
	if !slices.Contains(c.warnings, text) {
		c.warnings = append(c.warnings, text)
	}
}

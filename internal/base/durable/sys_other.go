//go:build !linux

package durable

import (
	"errors"
	"os"
)

// startWriteBehind does nothing: this system has no call for it.
func startWriteBehind(*os.File, int64, int64) {}

// bulk cannot flush a whole file system: this system has no call that waits for
// the end.
type bulk struct{}

func openBulk(*os.Root) *bulk { return nil }

func (*bulk) sync() error { return errors.ErrUnsupported }

func (*bulk) close() {}

//go:build !linux

package durable

import (
	"errors"
	"os"
)

// startWriteBehind does nothing: there is no such call here.
func startWriteBehind(*os.File, int64, int64) {}

// bulk would flush a whole file system; here there is no call that waits for it.
type bulk struct{}

func openBulk(*os.Root) *bulk { return nil }

func (*bulk) sync() error { return errors.ErrUnsupported }

func (*bulk) close() {}

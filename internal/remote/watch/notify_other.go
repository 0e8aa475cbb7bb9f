//go:build !linux

package watch

import "errors"

func (l *local) notify(*dirtyFolders) (notifier, error) {
	return nil, errors.New("this system reports no changes to us")
}

package symstore

import (
	"github.com/symdepot/symdepot/internal/base/durable"
)

// retried renames; on Windows again and again while readers hold the target.
func retried(rename func() error) error { return durable.RetryRename(rename) }

// processGone means that a process has ended.
func processGone(pid int) bool { return !durable.Alive(pid) }

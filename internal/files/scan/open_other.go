//go:build !unix

package scan

import (
	"os"

	"github.com/symdepot/symdepot/internal/base/durable"
)

// openFile opens for reading. A build may replace or remove the file meanwhile.
func openFile(path string) (*os.File, error) { return durable.OpenShared(path) }

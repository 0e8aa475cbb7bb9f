package blob

import (
	"errors"

	"golang.org/x/sys/windows"
)

// deviceError reports whether err means a damaged medium.
func deviceError(err error) bool {
	return errors.Is(err, windows.ERROR_CRC) || errors.Is(err, windows.ERROR_FILE_CORRUPT) || errors.Is(err, windows.ERROR_DISK_CORRUPT)
}

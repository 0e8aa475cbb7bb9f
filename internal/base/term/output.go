package term

import (
	"fmt"
	"io"
)

// Output is standard output. Its errors are of the type OutputError.
type Output struct{ io.Writer }

// OutputError is an error of standard output.
type OutputError struct{ Err error }

// Error implements error.
func (e OutputError) Error() string { return fmt.Sprintf("cannot write to standard output: %v", e.Err) }

// Unwrap returns the error of the file or the pipe.
func (e OutputError) Unwrap() error { return e.Err }

// Write implements io.Writer.
func (o Output) Write(p []byte) (int, error) {
	n, err := o.Writer.Write(p)
	if err != nil {
		err = OutputError{err}
	}
	return n, err
}

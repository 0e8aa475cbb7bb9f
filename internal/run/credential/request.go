package credential

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// The limits of a request. What debuggers and git send is far smaller.
const (
	maxInput = 64 << 10 // bytes in all
	maxLine  = 4 << 10  // bytes of a line, without its end
	maxLines = 256
)

// request is what a debugger or git asks. Nothing in it is checked but its form.
type request struct {
	debugger bool // the answer has Microsoft's form
	silent   bool // nobody may be asked
	retry    bool // the server has refused the kept token
	window   int64

	scheme, host, path string
	username, password string // of git; password: a token, also as a credential
	authtype           bool   // git understands credentials with a type
}

// readRequest reads a request up to an empty line or the end. What was read before an error
// still says whose request it is. Errors never contain a value, which may be a secret.
func readRequest(r io.Reader, operation string) (q request, err error) {
	q.debugger = operation != strings.ToLower(operation)
	seen := map[string]bool{}
	err = readLines(r, func(n int, line string) error {
		name, value, ok := strings.Cut(line, "=")
		if !ok || name == "" {
			return fmt.Errorf("line %d of the request is not key=value", n)
		}
		key := strings.ToLower(name)
		known, err := q.set(key, value)
		if !known {
			return nil
		}
		if key != name || debuggerKey(key) {
			q.debugger = true
		}
		if seen[key] && !strings.HasSuffix(key, "[]") {
			return fmt.Errorf("line %d of the request gives %s again", n, key)
		}
		seen[key] = true
		if err != nil {
			return fmt.Errorf("line %d of the request: %s: %w", n, key, err)
		}
		return nil
	})
	return q, err
}

// debuggerKey reports whether only debuggers send a key.
func debuggerKey(key string) bool {
	switch key {
	case "interactive", "issilent", "isretry", "parenthwnd", "resourcekind":
		return true
	}
	return false
}

// set notes the value of a key, and reports whether the key is known. A debugger sends
// interactive or issilent, by its version; of both, the one that forbids to ask wins.
func (q *request) set(key, value string) (known bool, err error) {
	var yes bool
	switch key {
	case "protocol":
		q.scheme = strings.ToLower(value)
	case "host":
		q.host = value
	case "path":
		q.path = value
	case "username":
		q.username = value
	case "password", "credential":
		q.password = value
	case "capability[]":
		q.authtype = value != "" && (q.authtype || value == "authtype")
	case "interactive":
		yes, err = flag(value, true)
		q.silent = q.silent || !yes
	case "issilent":
		yes, err = flag(value, false)
		q.silent = q.silent || yes
	case "isretry":
		q.retry, err = flag(value, false)
	case "parenthwnd":
		if value != "" {
			if q.window, err = strconv.ParseInt(value, 10, 64); err != nil {
				err = errors.New("a number is expected")
			}
		}
	case "resourcekind":
	default:
		return false, nil
	}
	return true, err
}

// flag reads 0, 1, true or false in any letter case; an empty value is the default.
func flag(value string, empty bool) (bool, error) {
	switch strings.ToLower(value) {
	case "":
		return empty, nil
	case "1", "true":
		return true, nil
	case "0", "false":
		return false, nil
	}
	return false, errors.New("0, 1, true or false is expected")
}

// readLines calls each for the lines before the first empty one, with their numbers from 1. It
// reads no further, because the other side may keep the input open.
//
// Either all lines end with LF or all with CR LF. Any other CR is refused: a program that takes
// it for the end of a line reads another host than the one that the credential goes to.
func readLines(r io.Reader, each func(n int, line string) error) error {
	in := bufio.NewReaderSize(r, maxLine+len("\r\n"))
	total, crlf := 0, false
	for n := 1; ; n++ {
		line, err := in.ReadSlice('\n')
		total += len(line)
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			return fmt.Errorf("line %d of the request is longer than %d bytes", n, maxLine)
		case err != nil && err != io.EOF:
			return fmt.Errorf("the request cannot be read: %w", err)
		case total > maxInput:
			return fmt.Errorf("the request is longer than %d bytes", maxInput)
		}
		ended := err == nil
		line = bytes.TrimSuffix(line, []byte("\n"))
		bare, cr := bytes.CutSuffix(line, []byte("\r"))
		if n == 1 {
			crlf = ended && cr
		}
		if ended && crlf {
			line = bare
		}
		switch {
		case ended && cr != crlf || bytes.IndexByte(line, '\r') >= 0:
			return fmt.Errorf("line %d of the request has a CR that does not end it as the other lines end", n)
		case bytes.IndexByte(line, 0) >= 0:
			return fmt.Errorf("line %d of the request has a NUL byte", n)
		case len(line) > maxLine:
			return fmt.Errorf("line %d of the request is longer than %d bytes", n, maxLine)
		case len(line) == 0:
			return nil
		case n > maxLines:
			return fmt.Errorf("the request has more than %d lines", maxLines)
		}
		if err := each(n, string(line)); err != nil || !ended {
			return err
		}
	}
}

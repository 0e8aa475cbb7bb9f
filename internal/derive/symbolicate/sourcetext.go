package symbolicate

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"strings"
)

// Texts opens the source files that modules name.
type Texts interface {
	// Text returns the source that the debug information of a module calls file. Not
	// found is fs.ErrNotExist.
	Text(ctx context.Context, q ModuleQuery, file string) ([]byte, error)
}

// SourceRequest is a request of samply's /source/v1: the text of a file that
// symbolicating an address of a module names.
type SourceRequest struct {
	Module ModuleQuery
	Offset uint64
	File   string
}

// SourceAnswer is the answer to a SourceRequest.
type SourceAnswer struct {
	SymbolsLastModified any    `json:"symbolsLastModified"` // unknown: null
	SourceLastModified  any    `json:"sourceLastModified"`
	Source              string `json:"source"`
}

// ParseSource reads the body of a request of /source/v1. The error is a RequestError.
func ParseSource(body []byte) (q SourceRequest, err error) {
	var v struct {
		DebugName    string          `json:"debugName"`
		DebugID      string          `json:"debugId"`
		Name         string          `json:"name"`
		CodeID       string          `json:"codeId"`
		ModuleOffset json.RawMessage `json:"moduleOffset"`
		File         string          `json:"file"`
	}
	if err := json.Unmarshal(body, &v); err != nil {
		return q, badRequest("Payload is not valid JSON, or a field has the wrong type")
	}
	if v.DebugName == "" || v.DebugID == "" || v.File == "" {
		return q, badRequest("debugName, debugId and file are required")
	}
	text := strings.Trim(string(v.ModuleOffset), `"`)
	if q.Offset, err = strconv.ParseUint(text, 0, 64); err != nil {
		return q, badRequest("moduleOffset must be a number, or a text such as \"0x1f\"")
	}
	q.Module = ModuleQuery{DebugFile: v.DebugName, DebugID: v.DebugID, CodeFile: v.Name, CodeID: v.CodeID}
	q.File = v.File
	return q, nil
}

// SourceText answers a SourceRequest. A file that the address does not name, and one
// whose text is not known, is fs.ErrNotExist.
func SourceText(ctx context.Context, src Source, texts Texts, q SourceRequest) (a SourceAnswer, err error) {
	m, err := src.Module(ctx, q.Module)
	if err != nil {
		return a, err
	}
	found, ok := m.Lookup(q.Offset)
	if m.Done != nil {
		m.Done()
	}
	named := false
	if ok {
		for _, l := range found.Frames {
			named = named || l.File == q.File
		}
	}
	if !named {
		return a, fmt.Errorf("the debug information does not name this file at this address: %w", fs.ErrNotExist)
	}
	text, err := texts.Text(ctx, q.Module, q.File)
	if err != nil {
		return a, err
	}
	a.Source = strings.ToValidUTF8(string(text), "\ufffd")
	return a, nil
}

// Limits of the source lines in the answer to one request.
const (
	contextLines = 5        // before and after the line of a frame
	contextLine  = 1 << 10  // bytes of one line
	contextFiles = 500      // files that are read
	contextBytes = 32 << 20 // of these files, in memory at once
	contextMost  = 1 << 20  // lines of a file
)

// sourceLines adds source lines to the frames of one request.
type sourceLines struct {
	texts Texts
	files map[sourceKey][][]byte
	bytes int
}

type sourceKey struct {
	module int
	file   string
}

// add sets the source lines of a frame.
func (s *sourceLines) add(ctx context.Context, module int, q ModuleQuery, f *NativeFrame) error {
	if f.AbsPath == "" || f.Lineno == 0 {
		return nil
	}
	lines, err := s.lines(ctx, sourceKey{module, f.AbsPath}, q)
	n := int(f.Lineno) - 1
	if err != nil || n >= len(lines) {
		return err
	}
	f.ContextLine = shownLine(lines[n])
	for _, l := range lines[max(0, n-contextLines):n] {
		f.PreContext = append(f.PreContext, shownLine(l))
	}
	for _, l := range lines[n+1 : min(len(lines), n+1+contextLines)] {
		f.PostContext = append(f.PostContext, shownLine(l))
	}
	return nil
}

// lines returns the lines of a file, none if its text is not known.
func (s *sourceLines) lines(ctx context.Context, k sourceKey, q ModuleQuery) ([][]byte, error) {
	if lines, ok := s.files[k]; ok {
		return lines, nil
	}
	if len(s.files) >= contextFiles || s.bytes >= contextBytes {
		return nil, nil
	}
	text, err := s.texts.Text(ctx, q, k.file)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	s.bytes += len(text)
	var lines [][]byte
	if len(text) > 0 && bytes.Count(text, []byte("\n")) <= contextMost { // each needs more memory than an empty line has
		lines = bytes.Split(bytes.TrimSuffix(text, []byte("\n")), []byte("\n"))
	}
	s.files[k] = lines
	return lines, nil
}

// shownLine returns a line for JSON.
func shownLine(line []byte) string {
	line = bytes.TrimSuffix(line, []byte("\r"))
	return strings.ToValidUTF8(string(line[:min(len(line), contextLine)]), "\ufffd")
}

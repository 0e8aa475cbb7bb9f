package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/symdepot/symdepot/dump"
	"github.com/symdepot/symdepot/internal/base/wire"
	"github.com/symdepot/symdepot/internal/depot/display"
	"github.com/symdepot/symdepot/internal/files/scan"
	"github.com/symdepot/symdepot/internal/files/sparse"
	"github.com/symdepot/symdepot/objfile"
)

// identifyTime is how long an answer may take: a server examines few files at once.
const identifyTime = 5 * time.Minute

// MayIdentify refuses files that are neither symbol files nor dumps: nothing of them is sent
// to a server. The error wraps objfile.ErrNotSymbolFile.
func MayIdentify(head []byte, name string) error {
	if dump.Detect(head) != "" {
		return nil
	}
	return objfile.Detect(head, name)
}

// Identify asks the server what a file is and what its depot has of it, and discards the
// file. An error of the file, or that it is of no kind that has symbols, is a
// report.FileError.
func (p *Pusher) Identify(ctx context.Context, f *scan.File) (*display.FileAnswer, error) {
	content, err := f.Open(ctx)
	if err != nil {
		return nil, &display.FileError{Err: err}
	}
	defer f.Discard()
	defer content.Close()
	var answer display.FileAnswer
	if err := p.identify(ctx, f.Name, content, content.Size(), &answer); ProblemWord(err) == "not-symbol" {
		return nil, &display.FileError{Err: fmt.Errorf("%w: %s", objfile.ErrNotSymbolFile, ProblemText(err))}
	} else if err != nil {
		return nil, err
	}
	return &answer, nil
}

// identify sends the beginning of a file, and then the ranges that the server asks for. The
// answer is decoded into into.
func (p *Pusher) identify(ctx context.Context, name string, file io.ReaderAt, size int64, into any) error {
	h := sparse.Header{Name: name, Size: size, Slices: []sparse.Range{}}
	if size > 0 {
		h.Slices = append(h.Slices, sparse.Range{At: 0, Len: min(size, sparse.Head)})
	}
	for h.Round = 1; h.Round <= sparse.MaxRounds; h.Round++ {
		body, n, err := sparse.Message(h, file)
		if err != nil {
			return err
		}
		var answer json.RawMessage
		status, err := p.do(ctx, exchange{
			method: http.MethodPost, base: wire.IdentifyPath, header: http.Header{"Content-Type": {sparse.MediaType}},
			body: body, size: n, timeout: identifyTime, into: &answer,
		})
		if err != nil {
			return err
		}
		if status != http.StatusAccepted {
			return json.Unmarshal(answer, into)
		}
		var more sparse.Need
		if err := json.Unmarshal(answer, &more); err != nil {
			return err
		}
		if len(more.Need) == 0 || !more.Within(size) {
			return errors.New("the server asks for parts that the file does not have")
		}
		h.Slices = append(h.Slices, more.Need...)
	}
	return fmt.Errorf("%w in %d rounds", sparse.ErrLimit, sparse.MaxRounds)
}

package depot

import (
	"context"
	"io"
	"io/fs"

	"github.com/symdepot/symdepot/internal/depot/answer"
	"github.com/symdepot/symdepot/internal/depot/search"
	"github.com/symdepot/symdepot/internal/derive/symbolicate"
	"github.com/symdepot/symdepot/internal/files/sources"
	"github.com/symdepot/symdepot/layout"
	"github.com/symdepot/symdepot/symfile"
)

// Texts implements the symbolication of a client with sources: see symbolicate.Texts.
func (s *Symbols) Texts(ask SymbolsAsk) symbolicate.Texts { return sourceTexts{s.places, ask} }

type sourceTexts struct {
	places *search.Places
	ask    SymbolsAsk
}

// Text implements symbolicate.Texts.
func (t sourceTexts) Text(ctx context.Context, q symbolicate.ModuleQuery, file string) ([]byte, error) {
	scope := answer.Scope{Products: t.ask.Products}
	var req layout.Request
	for _, id := range []string{q.DebugID, q.CodeID} {
		if id != "" {
			req.Lookups = append(req.Lookups, symfile.Lookup{ID: symfile.Fold(id), Role: symfile.Debug | symfile.Executable})
		}
	}
	req.Form, req.Part = layout.FormSource, file
	f, err := t.places.Open(ctx, scope, req, false, nil)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if f.Size < 0 || f.Size > sources.MaxFile {
		return nil, fs.ErrNotExist
	}
	text := make([]byte, f.Size)
	if n, err := f.ReadAt(text, 0); err != nil && (err != io.EOF || n < len(text)) {
		return nil, err
	}
	return text, nil
}

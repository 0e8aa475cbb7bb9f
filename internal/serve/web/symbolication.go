package web

import (
	"context"
	"errors"
	"io/fs"
	"strconv"
	"strings"
	"unicode"

	"github.com/symdepot/symdepot/internal/depot"
	"github.com/symdepot/symdepot/internal/depot/answer"
	"github.com/symdepot/symdepot/internal/depot/catalog"
	"github.com/symdepot/symdepot/internal/depot/stacks"
	"github.com/symdepot/symdepot/internal/derive/stacktext"
	"github.com/symdepot/symdepot/internal/derive/symbolicate"
	"github.com/symdepot/symdepot/internal/store/blob"
	"github.com/symdepot/symdepot/symfile"
)

// Symbolication looks addresses and functions up for clients of pages and of the API.
type Symbolication struct {
	catalog *catalog.Catalog
	symbols *depot.Symbols
}

// Off reports whether the server reads no functions.
func (s *Symbolication) Off() bool { return s.symbols == nil || !s.symbols.Makes() }

// errOff is the problem of a server that reads no functions.
var errOff = &Problem{Word: "not-found", Detail: "this server reads no functions of files (symbols.make is off)"}

// begin waits for the turn of a request at symbolication. The caller calls end.
func (s *Symbolication) begin(r *Request) (ask depot.SymbolsAsk, end func(), err error) {
	switch {
	case s.Off():
		return ask, nil, errOff
	case r.Symbols != nil:
		return r.Symbols(r.Context())
	}
	ask = depot.SymbolsAsk{
		Products: r.Scope().Products,
		Hold:     func(ctx context.Context, wait func(context.Context) error) (bool, error) { return false, wait(ctx) },
	}
	return ask, func() {}, nil
}

// Fill fills a text in. chosen are contents by the names of modules.
func (s *Symbolication) Fill(r *Request, text stacktext.Stack, chosen map[string]blob.Ref) (stacks.Answer, error) {
	ask, end, err := s.begin(r)
	if err != nil {
		return stacks.Answer{}, err
	}
	defer end()
	f := stacks.Filler{Catalog: s.catalog, Scope: r.Scope(), Source: s.symbols.Source(ask), Texts: s.symbols.Texts(ask)}
	a, err := f.Fill(r.Context(), text, chosen)
	if bad, ok := errors.AsType[symbolicate.RequestError](err); ok {
		err = &Problem{Word: "too-large", Detail: bad.Title}
	}
	return a, err
}

// ReadStack reads a pasted text or, without one, addresses in the file with a name and an id,
// as symdepot symbolicate takes them. The error is a Problem for people.
func ReadStack(text, name, id, addresses string) (stacktext.Stack, error) {
	if strings.TrimSpace(text) != "" {
		s, err := stacktext.Parse(text)
		if err != nil {
			err = &Problem{Word: "too-large", Detail: err.Error()}
		}
		return s, err
	}
	s := stacktext.Stack{Modules: []stacktext.Module{{Name: symfile.BaseName(name), ID: strings.TrimSpace(id)}}}
	for _, a := range strings.FieldsFunc(addresses, func(r rune) bool { return unicode.IsSpace(r) || r == ',' }) {
		offset, err := symbolicate.ParseAddress(a)
		if err != nil {
			return s, &Problem{Word: "query", Detail: err.Error()}
		}
		s.Lines = append(s.Lines, stacktext.Line{Text: a, Address: &stacktext.Address{Offset: offset}})
	}
	switch {
	case len(s.Lines) == 0:
		return s, &Problem{Word: "query", Detail: "paste a stack, or give a file and addresses in it"}
	case len(s.Lines) > stacktext.MaxAddresses:
		return s, &Problem{Word: "too-large", Detail: "these are more than " + strconv.Itoa(stacktext.MaxAddresses) + " addresses"}
	case name == "":
		return s, &Problem{Word: "query", Detail: "give the name of the file that has these addresses"}
	}
	return s, nil
}

// Function is a function of a file.
type Function struct {
	Name    string `json:"name"`
	Address string `json:"address"` // from the start of the module
	Size    int64  `json:"size,omitempty"`
	File    string `json:"file,omitempty"`
	Line    int    `json:"line,omitempty"`
}

// Functions returns the functions of a file whose names contain a text: at most limit of those
// from the place after on, and the place behind them. What symbolication has read of the
// module answers, which is made if it is not there: as long as that lasts, the problem is busy.
func (s *Symbolication) Functions(r *Request, content, text string, limit int, after string) (list []Function, next string, err error) {
	from := 0
	if after != "" {
		if from, err = strconv.Atoi(after); err != nil || from <= 0 {
			return nil, "", &Problem{Word: "cursor"}
		}
	}
	ref, err := catalog.ParseContent(content)
	if err != nil {
		return nil, "", NoContent(content)
	}
	e, err := s.catalog.Entry(r.Context(), r.Scope(), ref)
	if errors.Is(err, fs.ErrNotExist) || err == nil && len(e.Objects) == 0 {
		return nil, "", NoContent(content)
	}
	if err != nil {
		return nil, "", err
	}
	ask, end, err := s.begin(r)
	if err != nil {
		return nil, "", err
	}
	defer end()
	m, err := s.symbols.Source(ask).Module(r.Context(), stacks.QueryOf(e.Objects[0].Object))
	if err != nil {
		return nil, "", s.noFunctions(r.Context(), err)
	}
	defer m.Done()
	found, n, err := m.Functions(r.Context(), text, from, limit)
	if err != nil {
		return nil, "", s.noFunctions(r.Context(), err)
	}
	for _, f := range found {
		list = append(list, Function{f.Name, "0x" + strconv.FormatUint(f.Start, 16), int64(f.Size), f.File, int(f.Line)})
	}
	if n > 0 {
		next = strconv.Itoa(n)
	}
	return list, next, nil
}

// noFunctions returns the problem of a file whose functions cannot be listed.
func (s *Symbolication) noFunctions(ctx context.Context, err error) error {
	switch {
	case errors.As(err, new(symbolicate.PendingError)):
		wait := max(1, int(s.symbols.Retry(ctx).Seconds()))
		return &Problem{Word: "busy", Detail: "the functions of the file are being read; ask again in " + strconv.Itoa(wait) + " s"}
	case errors.Is(err, symbolicate.ErrBusy):
		return &Problem{Word: "busy", Detail: "the functions of many other files are being read; ask again later"}
	case errors.Is(err, symbolicate.ErrNoFunctions), errors.As(err, new(symbolicate.PortableError)):
		return &Problem{Word: "not-found", Detail: "the file has no functions with addresses"}
	case errors.Is(err, fs.ErrNotExist) && err != fs.ErrNotExist: // a bare one says nothing
		return &Problem{Word: "not-found", Detail: "the functions of the file cannot be read: " + err.Error()}
	case errors.Is(err, fs.ErrNotExist):
		return &Problem{Word: "not-found", Detail: "the file has no functions"}
	}
	return err
}

// OpenSource opens the source file that the debug information of a file calls path, as it
// would be sent to a debugger of the client. Not found is fs.ErrNotExist.
func OpenSource(r *Request, o symfile.Object, path string) (*answer.File, error) {
	req, ok := stacks.SourceRequest(o, path)
	if !ok || r.Find == nil {
		return nil, fs.ErrNotExist
	}
	return r.Find(r.Context(), req)
}

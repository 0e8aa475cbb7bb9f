package publicform

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/symdepot/symdepot/internal/derive/jobs"
	"github.com/symdepot/symdepot/internal/index/record"
	"github.com/symdepot/symdepot/public"
)

// failing is a file of which a part cannot be read.
type failing struct{ io.ReaderAt }

var errDisk = errors.New("the disk does not answer")

func (f failing) ReadAt(p []byte, off int64) (int, error) {
	if len(p) > 4 { // more than what tells its kind
		return 0, errDisk
	}
	return f.ReaderAt.ReadAt(p, off)
}

// TestBlame: only what a file will have again is remembered of it: not that the machine could not
// read or write, nor that the server stops.
func TestBlame(t *testing.T) {
	t.Parallel()
	sym := "MODULE Linux x86_64 0123456789ABCDEF0123456789ABCDEF1 app\nFUNC 1000 10 0 main\n"
	stopped, stop := context.WithCancel(t.Context())
	stop()
	full := errors.New("no space is left")
	for _, c := range []struct {
		name  string
		ctx   context.Context
		in    io.ReaderAt
		wrote error
		class string // of a failure that is remembered
		err   error
	}{
		{name: "a text", in: strings.NewReader("these are no symbols at all"), class: classPrivate},
		{name: "a damaged file", in: strings.NewReader("\x7fELF\x02\x01\x01" + strings.Repeat("\xff", 200)), class: classBad},
		{name: "the disk", in: failing{strings.NewReader(sym)}, err: errDisk},
		{name: "no space", in: strings.NewReader(sym), wrote: full, err: full},
		{name: "the server stops", ctx: stopped, in: strings.NewReader(sym), err: context.Canceled},
		{name: "all is well", in: strings.NewReader(sym)},
	} {
		t.Run(c.name, func(t *testing.T) {
			ctx := c.ctx
			if ctx == nil {
				ctx = t.Context()
			}
			r := &input{ReaderAt: c.in, ctx: ctx}
			size := int64(len(sym))
			if s, ok := c.in.(*strings.Reader); ok {
				size = s.Size()
			}
			var b bytes.Buffer
			_, err := public.Write(&b, r, size, public.Options{})
			err = r.blame(errors.Join(err, c.wrote), c.wrote)
			fail, remembered := errors.AsType[fileError](err)
			if remembered != (c.class != "") || fail.class != c.class || !remembered && !errors.Is(err, c.err) {
				t.Errorf("%v, remembered as %q; want %v, %q", err, fail.class, c.err, c.class)
			}
			if remembered && (kind{}).Rule(fail.class).ByContent == 0 {
				t.Errorf("the class %s is not remembered", fail.class)
			}
		})
	}
}

// placed is a file in a watched folder.
type placed struct {
	*strings.Reader
	tag     string
	changed bool
}

func (placed) Close() error    { return nil }
func (p placed) Tag() string   { return p.tag }
func (p placed) Changed() bool { return p.changed }

// TestPlacedChanges: of a file in a watched folder that is replaced before its form is made, or changes
// while it is read, nothing is stored, and nothing is remembered.
func TestPlacedChanges(t *testing.T) {
	t.Parallel()
	body := strings.NewReader("MODULE Linux x86_64 0123456789ABCDEF0123456789ABCDEF1 app\nFUNC 1000 10 0 main\n")
	for what, f := range map[string]placed{"replaced": {body, "other", false}, "changed": {body, "own", true}} {
		s := &Service{parts: Parts{
			OpenPlaced: func(context.Context, Placed) (PlacedFile, error) { return f, nil }, Scratch: t.TempDir(),
		}} // without a store: keep would panic
		source := Source{Content: record.Content{Size: body.Size()}, Name: "app.sym", Placed: &Placed{Tag: "own"}}
		_, _, err := s.write(t.Context(), source)
		fail, ok := errors.AsType[fileError](err)
		if !ok || fail.class != classAbsent {
			t.Errorf("%s: %v; want the failure of a file that is absent", what, err)
		}
	}
}

// TestNoWorkers: machines without the depot get no private files for public forms.
func TestNoWorkers(t *testing.T) {
	t.Parallel()
	if a, err := (kind{}).CheckAbility(jobs.Ability{Kind: Kind}); !errors.Is(err, jobs.ErrBadWorker) {
		t.Errorf("a worker offers %+v: %v, want ErrBadWorker", a, err)
	}
	if _, err := (kind{}).Open(t.Context(), jobs.Job{}); err == nil {
		t.Error("a worker may open the private file")
	}
}

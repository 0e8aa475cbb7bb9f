package answer

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"testing"
)

// places says what each place has, and notes which were asked.
type places struct {
	have  map[Places]*File
	fail  map[Places]error
	asked []Places
}

func (p *places) Look(_ context.Context, at Places) (*File, error) {
	p.asked = append(p.asked, at)
	return p.have[at], p.fail[at]
}

// TestSearch: the places are asked in one order, whichever of them are asked, until one has
// the file or cannot answer.
func TestSearch(t *testing.T) {
	t.Parallel()
	all := []Places{Added, Watched, Cached, Served, Upstreams, Renamed, Made}
	reason := fmt.Errorf("it is being downloaded: %w", fs.ErrNotExist)
	broken := errors.New("the index does not answer")
	file := &File{Path: "/app.pdb"}
	for _, c := range []struct {
		name  string
		among Places
		have  Places
		fail  map[Places]error
		asked []Places
		err   error
	}{
		{name: "nobody has it", among: Everywhere, asked: all, err: fs.ErrNotExist},
		{name: "a tree has it", among: Everywhere, have: Served, asked: all[:4]},
		{name: "a watched folder comes before cached files", among: Here, have: Watched, asked: all[:2]},
		{name: "in place", among: InPlace, asked: []Places{Watched, Served}, err: fs.ErrNotExist},
		{name: "elsewhere", among: Elsewhere, asked: all[4:], err: fs.ErrNotExist},
		{name: "the last reason counts", among: Everywhere, fail: map[Places]error{Added: fs.ErrNotExist, Upstreams: reason}, asked: all, err: reason},
		{name: "a reason hides no place", among: Everywhere, have: Made, fail: map[Places]error{Upstreams: reason}, asked: all},
		{name: "a failure ends it", among: Everywhere, have: Made, fail: map[Places]error{Served: broken}, asked: all[:4], err: broken},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := &places{have: map[Places]*File{c.have: file}, fail: c.fail}
			f, err := Search(t.Context(), c.among, p)
			if err != c.err || (err == nil) != (f == file) {
				t.Errorf("search: %v, %v; want %v", f, err, c.err)
			}
			if !slices.Equal(p.asked, c.asked) {
				t.Errorf("asked %v, want %v", p.asked, c.asked)
			}
		})
	}
}

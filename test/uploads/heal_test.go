package uploads

import (
	"bytes"
	"net/http"
	"net/url"
	"os"
	"runtime"
	"slices"
	"testing"

	"github.com/symdepot/symdepot/internal/base/symtest"
	"github.com/symdepot/symdepot/internal/depot/depottest"
)

// worldSite is the server of a depot whose contents are in a state.
func worldSite(t *testing.T, w *depottest.World) *site {
	t.Helper()
	s := &site{dir: t.TempDir(), depot: w.Where}
	if p := w.Peer; p != nil {
		s.env = []string{
			"SYMDEPOT_DEPOT_BLOBS=s3://" + p.Bucket + "/depot?endpoint=" + url.QueryEscape(p.Endpoint), "SYMDEPOT_DEPOT_LOCAL=" + t.TempDir(),
			"AWS_ACCESS_KEY_ID=" + p.User, "AWS_SECRET_ACCESS_KEY=" + p.Secret, "AWS_REGION=us-east-1",
		}
	}
	return newSiteOf(t, s)
}

// healing is one file, and the way in which it comes in again.
type healing struct {
	*way
	format depottest.Format
}

// healings are the ways that bring files into each state of a content: those of uploaders of
// other tools, and with SYMDEPOT_TORTURE also their real clients and the commands of symdepot.
// The package depot brings in files as these commands do, in its short form too.
func healings(t *testing.T) (list []healing) {
	for i := range ways {
		w := &ways[i]
		if (w.own || w.tool != "") && os.Getenv("SYMDEPOT_TORTURE") == "" {
			continue
		}
		if w.tool != "" && symtest.Judge(t, w.tool) == "" {
			continue
		}
		for _, format := range []depottest.Format{depottest.Breakpad, depottest.ELF} {
			f := format(t, 0, 0)
			if w.takes == nil || w.takes(&file{name: f.Name, body: f.Body}) == "" {
				list = append(list, healing{w, format})
				break
			}
		}
	}
	return list
}

// healStates are the states into which files are uploaded: those that have their turn today. The
// short list has no cold contents in a bucket and no servers of one database: there, the package
// depot brings files in.
func healStates(t *testing.T) []depottest.State {
	t.Helper()
	list := depottest.All()
	if os.Getenv("SYMDEPOT_TORTURE") == "" {
		list = slices.DeleteFunc(list, func(s depottest.State) bool {
			return !s.Home.OnDisk() && (s.Home != depottest.Bucket || s.Holder != depottest.Added)
		})
	}
	return depottest.Today(t, list)
}

// TestUploadsHeal uploads files into a depot that has them already, in every way and for the
// states of their stored bytes that have their turn today. The client is told that the file is stored, the server answers
// with it, and verify finds no fault.
func TestUploadsHeal(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skip("the program is built on Linux only")
	}
	list := healings(t)
	var formats []depottest.Format
	for _, h := range list {
		formats = append(formats, h.format)
	}
	for _, s := range healStates(t) {
		t.Run(s.String(), func(t *testing.T) {
			w := depottest.New(t, s, formats...)
			site := worldSite(t, w)
			for range s.Rounds() {
				w.Spoil(t)
				for i, h := range list {
					h.heal(t, site, &w.Files[i], s)
				}
				w.CheckHealed(t)
			}
		})
	}
}

// heal uploads a file and requests it.
func (h *healing) heal(t *testing.T, s *site, f *depottest.File, state depottest.State) {
	t.Helper()
	r := &run{site: s, ctx: t.Context(), product: depottest.Product, dir: t.TempDir()}
	files := []file{{name: f.Name, body: f.Body}}
	if h.prepare != nil {
		files = h.prepare(files)
	}
	answers, err := h.send(r, files)
	if err != nil || r.fault != nil || len(answers) != 1 {
		t.Errorf("%s: %s: the client cannot go on: %v, %v, %d answers; want one", h.name, f.Name, err, r.fault, len(answers))
		return
	}
	// Pyroscope's clients are told that there is a file of the build-id, and send none.
	there := state.Harm == depottest.Intact && answers[0].fate == leftOut
	if answers[0].fate != accepted && !there {
		t.Errorf("%s: the answer about %s is %d %q, want that it is stored", h.name, f.Name, answers[0].fate, answers[0].why)
	}
	status, body, _, err := r.do(http.MethodGet, "/"+escaped(f.Path), nil)
	if err != nil || status != http.StatusOK || !bytes.Equal(body, f.Body) {
		t.Errorf("%s: GET /%s: %d, %d bytes, %v; want the %d that were sent", h.name, f.Path, status, len(body), err, len(f.Body))
	}
}

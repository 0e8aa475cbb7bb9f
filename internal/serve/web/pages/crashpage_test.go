package pages

import (
	"context"
	"fmt"
	"html"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/symdepot/symdepot/dump"
	"github.com/symdepot/symdepot/internal/base/wire"
	"github.com/symdepot/symdepot/internal/depot"
	"github.com/symdepot/symdepot/internal/files/sparse"
	"github.com/symdepot/symdepot/internal/serve/web"
	"github.com/symdepot/symdepot/internal/serve/web/webtest"
)

// walked answers dumps with stacks, and counts how often what they lack was noted.
type walked struct {
	stacks *wire.Stacks
	err    error
	noted  int
	size   int64
	at     int64 // what is read
}

func (w *walked) dump(_ context.Context, d io.ReaderAt, size int64) (*wire.Stacks, web.NoteDump, error) {
	w.size = size
	if _, err := d.ReadAt(make([]byte, 4), w.at); err != nil && err != io.EOF {
		return nil, nil, err
	}
	return w.stacks, func(context.Context, string) { w.noted++ }, w.err
}

// sendDump posts a form with dumps to the page of crashes.
func sendDump(t *testing.T, d *depot.Depot, who *web.Principal, w *walked, kind string, files ...string) (int, string) {
	t.Helper()
	form, body := formOf(t, kind, files...)
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "http://sym.example/-/crashes", body)
	r.Header.Set("Content-Type", form)
	answer := httptest.NewRecorder()
	_ = New(webtest.ActsOf(d)).Serve(answer, &web.Request{
		Request: r, Segments: []string{"-", "crashes"}, Principal: *who, Body: r.Body, Allow: func(time.Duration) {}, Leave: func() {},
		Challenges: []string{"Bearer"}, Dump: w.dump, BaseURL: "http://sym.example",
	})
	return answer.Code, answer.Body.String()
}

// helloStacks are stacks in the program of testdata/pdb/hello-x64.pdb.
func helloStacks() *wire.Stacks {
	return &wire.Stacks{
		Kind: "minidump", Requesting: 1, Key: "0123456789abcdef", KeyFrames: []string{"sum", "entry"},
		Crash: &wire.StackCrash{Reason: "EXCEPTION_<b>", Address: "0x10", Meaning: "It failed.", Assertion: "a <i> b"},
		Threads: []wire.StackThread{
			{ID: 4, Name: "idle\u202e", Frames: []wire.StackFrame{{Address: "0x10", Trust: "scan", Status: "unknown_image"}}},
			{ID: 7, Crashed: true, Registers: map[string]string{"r10": "0x1", "rax": "0x2", "r8": "0x3"}, Frames: []wire.StackFrame{
				{
					Address: "0x140001004", Trust: "context", Module: "hello-x64.exe", Offset: "0x1004", Status: "symbolicated", Function: "sum<Pair>", FunctionOffset: "0x4",
					File: `C:\src\hello.c`, Line: 12, Inlines: []wire.StackInline{{Function: "<script>", File: `C:\src\hello.h`, Line: 3}},
					Source: "  *p = '<';", SourceBefore: []string{"one", "two"}, SourceAfter: []string{"four"},
				},
				{Address: "0x1", Trust: "cfi", Module: "other.dll", Offset: "0x20", Status: "missing", Problem: "no rules"},
			}},
		},
		Modules: []wire.StackModule{
			{Name: "hello-x64.exe", Address: "0x140000000", Size: 4096, DebugFile: "hello-x64.pdb", DebugID: "F9EFE0B6AE7500394C4C44205044422E1", Debug: "found", Unwind: "missing", Help: "add the program"},
			{Name: "other.dll", Address: "0x1", DebugFile: "other.pdb", DebugID: "000102030405060708090A0B0C0D0E0F1", Debug: "missing", Unwind: "missing", Help: "add other.pdb"},
		},
		Annotations: []wire.StackAnnotation{{Name: "channel", Value: "beta"}},
		Problems:    []string{"a stream is cut off"},
	}
}

// TestCrashPage: the crashed thread comes first, with its functions, lines and sources, then what it lacks and
// the other threads.
func TestCrashPage(t *testing.T) {
	t.Parallel()
	d := webtest.FilesDepot(t, "pdb/hello-x64.pdb")
	w := &walked{stacks: helloStacks()}
	status, page := sendDump(t, d, &webtest.Insider, w, "application/octet-stream", "<b>.dmp", "MDMPxxxx")
	text := html.UnescapeString(regexp.MustCompile(`<[^>]*>`).ReplaceAllString(page, ""))
	at := -1
	for _, want := range []string{
		"Stack of <b>.dmp", "EXCEPTION_<b> at 0x10", "It failed.", "a <i> b", "minidump", "2 threads", "0123456789abcdef", "sum < entry", "a stream is cut off",
		"Thread 1 (7), crashed", "0 <script> inlined", "*p = '<';", `C:\src\hello.h:3`, "hello-x64.exe", "context",
		"sum<Pair> + 0x4", `C:\src\hello.c:12`, "1 other.dll + 0x20 no symbols", "cfi no rules",
		"hello-x64.exe: add the program", "other.dll: add other.pdb why is it missing?", "symdepot push --server http://sym.example",
		"Thread 0 (4, idleU+202E): 1 frame 0x10", "0 0x10 in no module", "scan", "Found by context: the registers of the thread; cfi: unwind rules; scan: a search of the stack",
		"r80x3", "r100x1", "rax0x2", "1 annotation", "channel", "beta", "Crash:    EXCEPTION_<b> at 0x10\n",
	} {
		next := strings.Index(text[max(at, 0):], want)
		if next < 0 {
			t.Fatalf("status %d: the page lacks %q behind the place of the one before:\n%s", status, want, text)
		}
		at = max(at, 0) + next
	}
	for _, want := range []string{
		`<a href="/-/file/66a2935d4d44e9456f509ace413c6f8374d69beccaa590db54d60f50bf9bf38e">`, "/source?path=C%3A%5Csrc%5Chello.h#L3", "/source?path=C%3A%5Csrc%5Chello.c#L12",
		`href="/-/trace?id=000102030405060708090A0B0C0D0E0F1&amp;name=other.pdb"`,
		"<span><i>1</i> <bdi>one</bdi>\n</span><span><i>2</i> <bdi>two</bdi>\n</span><mark><i>3</i> <bdi>  *p = &#39;&lt;&#39;;</bdi>\n</mark><span><i>4</i> <bdi>four</bdi>",
	} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	if strings.Contains(page, "<script>") || strings.ContainsRune(page, '\u202e') || w.noted != 1 || strings.Contains(page, `href="/-/publish"`) {
		t.Errorf("noted %d times; want once, no element of the dump, and no link to a page that the reader may not open:\n%s", w.noted, page)
	}
	hidden := web.Principal{Name: "other", Rights: webtest.Insider.Rights}
	hidden.Rights.Products = []string{"none"}
	if _, page := sendDump(t, d, &hidden, &walked{stacks: helloStacks()}, "", "a.dmp", "MDMPxxxx"); strings.Contains(page, "/-/file/") {
		t.Error("a reader of another product has a link to the file")
	}
}

// TestCrashPageForms: what is not a form with one dump, and dumps that cannot be walked.
func TestCrashPageForms(t *testing.T) {
	t.Parallel()
	d := webtest.FilesDepot(t, "pdb/hello-x64.pdb")
	open, _, err := sparse.Message(sparse.Header{Name: "x.dmp", Size: 1 << 30, Slices: []sparse.Range{{At: 0, Len: 4}}}, strings.NewReader("MDMP"))
	if err != nil {
		t.Fatal(err)
	}
	message, err := io.ReadAll(open())
	if err != nil {
		t.Fatal(err)
	}
	for what, c := range map[string]struct {
		who    *web.Principal
		err    error
		kind   string
		files  []string
		status int
		want   string
		size   int64
		noted  int
		at     int64
	}{
		"parts":         {&webtest.Insider, nil, sparse.MediaType, []string{"x.dmp", string(message)}, 200, "Stack of <bdi>x.dmp</bdi>", 1 << 30, 1, 0},
		"parts lacking": {&webtest.Insider, nil, sparse.MediaType, []string{"x.dmp", string(message)}, 422, "parts of the file are missing", 1 << 30, 0, 1 << 20},
		"a bad message": {&webtest.Insider, nil, sparse.MediaType, []string{"x.dmp", "none"}, 400, "no line with a header", 0, 0, 0},
		"no dump":       {&webtest.Insider, fmt.Errorf("%w: text", dump.ErrNotDump), "", []string{"x.dmp", "text"}, 422, "a supported dump", 4, 0, 0},
		"no file":       {&webtest.Insider, nil, "", nil, 400, "no file was chosen", 0, 0, 0},
		"two files":     {&webtest.Insider, nil, "", []string{"a", "b", "c", "d"}, 400, "more than one file", 0, 0, 0},
		"nobody":        {&webtest.NoOne, nil, "", []string{"a", "b"}, 401, "signed in", 0, 0, 0},
	} {
		w := &walked{stacks: &wire.Stacks{Kind: "minidump"}, err: c.err, at: c.at}
		status, page := sendDump(t, d, c.who, w, c.kind, c.files...)
		if status != c.status || !strings.Contains(page, c.want) || w.size != c.size || w.noted != c.noted {
			t.Errorf("%s: status %d, a dump of %d bytes, noted %d times; want %d, %q, %d, %d\n%s", what, status, w.size, w.noted, c.status, c.want, c.size, c.noted, page)
		}
	}
}

// TestCrashPageLimits: the page of a dump with very many threads, frames, modules and long names stays a page.
func TestCrashPageLimits(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 100_000)
	s := &wire.Stacks{Kind: "minidump", Requesting: 0, Crash: &wire.StackCrash{Reason: "R", Address: "0x1", Assertion: long}}
	for i := range 1000 {
		th := wire.StackThread{ID: int64(i), Name: long[:3000]}
		for k := range 100 {
			th.Frames = append(th.Frames, wire.StackFrame{
				Address: "0x1", Trust: "cfi", Status: "symbolicated", Function: long[:5000], Line: 100 + k, File: "a.c", Source: long[:1000],
				SourceBefore: []string{long[:1000], long[:1000]},
			})
		}
		s.Threads = append(s.Threads, th)
		s.Modules = append(s.Modules, wire.StackModule{Name: fmt.Sprint("m", i), Address: "0x1", Debug: "missing", Help: long[:9000]})
		s.Annotations = append(s.Annotations, wire.StackAnnotation{Name: "n", Value: long[:9000]})
	}
	status, page := sendDump(t, webtest.FilesDepot(t, "pdb/hello-x64.pdb"), &webtest.Insider, &walked{stacks: s}, "", "x.dmp", "MDMP")
	if status != http.StatusOK || len(page) > 16<<20 {
		t.Errorf("status %d, %d bytes; want 200 and 16 MiB at most", status, len(page))
	}
	for _, want := range []string{"And 700 threads more", "And 700 modules more", "And 100 frames more", "Thread 0 ("} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	if n := strings.Count(page, `class="no"`); n != shownRows {
		t.Errorf("%d functions are shown, want %d", n, shownRows)
	}
}

package browser

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"math/rand/v2"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
)

// nightlies writes Breakpad files of several builds of a module, of which each differs
// from the one before in a few functions, and returns their names and bodies.
func nightlies(t *testing.T, builds int) (names []string, bodies [][]byte) {
	t.Helper()
	rng := rand.New(rand.NewPCG(15, 1))
	sizes := make([]int, 9000)
	for i := range sizes {
		sizes[i] = 16 + rng.IntN(4000)
	}
	for no := range builds {
		sizes[rng.IntN(len(sizes))] += 16
		var b bytes.Buffer
		fmt.Fprintf(&b, "MODULE Linux x86_64 00112233445566778899AABBCCDDEE%02X1 game\n", no)
		at := 0x1000
		for i, size := range sizes {
			fmt.Fprintf(&b, "FUNC %x %x 0 ns::Class%d::method_%d(int, std::string const&)\n", at, size, i%97, i)
			at += size
		}
		name := filepath.Join(t.TempDir(), "game.sym")
		if err := os.WriteFile(name, b.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
		names, bodies = append(names, name), append(bodies, b.Bytes())
	}
	return names, bodies
}

// TestColdPages: the pages say what is cold and what it takes, look as the others, and the
// file that they lead to is the one that was added.
func TestColdPages(t *testing.T) {
	t.Parallel()
	needChrome(t)
	names, bodies := nightlies(t, 4)
	s := newSite(t, func(s *site) {
		for i, name := range names[:3] {
			s.run("add", "--product", "Game", "--version", fmt.Sprintf("1.%d-nightly", i), name)
		}
		s.run("cool", "--after", "0s", "--now")
		s.run("add", "--product", "Game", "--version", "1.3-nightly", names[3])
		s.run("cool", "--after", "0s") // the base becomes a key, whose plain bytes stay for an hour
	})
	p := newTab(t)
	path := func(i int) string {
		return fmt.Sprintf("/game/00112233445566778899AABBCCDDEE%02X1/game.sym", i)
	}
	sha := func(i int) string { return fmt.Sprintf("%x", sha256.Sum256(bodies[i])) }
	object := func(i int) string { return s.url + "/-/file/" + sha(i) }
	base := sha(2)
	for word, c := range map[string]struct {
		at   string
		says []string
		not  string
	}{
		"disk":  {s.url + "/-/disk", []string{"Cold files", "3 contents", "1 key", "2 deltas"}, "0 keys"},
		"delta": {object(0), []string{"Kept cold", "differences from", base[:8]}, "Made from it"},
		"key":   {object(2), []string{"Kept cold", "a key: compressed alone", "plain bytes are still there"}, "differences from"},
		"plain": {object(3), []string{"Has"}, "Kept cold"},
		"why":   {s.url + "/-/trace?path=" + url.QueryEscape(path(0)), []string{"The file is cold", "differences from " + base, "zstd: is not made here"}, "can be made"},
		"about": {s.url + "/-/about", []string{"cold.after is not set", "3 contents"}, "under way"},
	} {
		p.open(c.at)
		text := value(p, chromedp.Text(chromedp.CSS("main")))
		for _, want := range c.says {
			if !strings.Contains(text, want) && !strings.Contains(strings.ToLower(text), strings.ToLower(want)) {
				t.Errorf("%s: the page says %.1500q, want %q in it", word, text, want)
			}
		}
		if strings.Contains(text, c.not) {
			t.Errorf("%s: the page says %q", word, c.not)
		}
		p.quiet(word)
		for _, scheme := range []string{"light", "dark"} {
			p.scheme(scheme)
			p.accessible("cold " + word + " " + scheme)
			p.screen("cold-" + word + "-" + scheme)
		}
		p.fits("cold " + word)
		p.narrow()
		p.screen("cold-" + word + "-phone")
		p.wide()
	}
	p.open(object(0))
	if p.click(`a[href$="` + base + `"]`); p.at() != object(2) {
		t.Errorf("the link to the base leads to %s, want %s", p.at(), object(2))
	}
	for i, body := range bodies {
		if status, _, got := s.get(path(i)); status != 200 || !bytes.Equal(got, body) {
			t.Errorf("build %d: status %d with %d bytes, want the %d that were added", i, status, len(got), len(body))
		}
	}
}

package browser

import (
	"fmt"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// TestTrace: "why not?" without a script, of a hit, a wrong age, a file that is made,
// an unknown one, another build and a bad path: the status is that of the real request.
func TestTrace(t *testing.T) {
	t.Parallel()
	s := newSite(t, full)
	p := newTab(t, true)
	for _, c := range []struct{ path, says string }{
		{pdbPath, "Found, 200: hello-x64.pdb"},
		{strings.Replace(pdbPath, pdbID, pdbID[:32]+"2", 1), "you ask for age 2, the depot holds age 1"},
		{strings.TrimSuffix(pdbPath, "pdb") + "sym", "the file is made when it is asked for"},
		{"/none.pdb/" + pdbID[:30] + "AAA/none.pdb", "nothing of the name none.pdb"},
		{strings.Replace(pdbPath, pdbID, "00000000000000000000000000000ABC1", 1), "of other builds, none with this id"},
		{"/a/b/c", "this is not the path of a symbol file"},
	} {
		p.open(s.url + "/-/trace")
		p.do(chromedp.SendKeys(chromedp.CSS(`main input[name=path]`), c.path+kb.Enter), chromedp.WaitVisible(chromedp.CSS("#result")))
		text := value(p, chromedp.Text(chromedp.CSS("main")))
		status, _, _ := s.get(c.path)
		if !strings.Contains(text, c.says) || !strings.Contains(text, fmt.Sprintf(", %d", status)) {
			t.Errorf("%s: the page says %.300q, want %q and the status %d", c.path, text, c.says, status)
		}
	}
	p.open(s.url + "/-/trace")
	log := "SYMSRV:  HTTPGET: " + pdbPath + "\nSYMSRV:  HTTPGET: /none.pdb/00000000000000000000000000000ABC1/none.pdb\n"
	p.do(chromedp.SendKeys(chromedp.CSS("#log"), log), chromedp.Click(chromedp.CSS("form.stack button")), chromedp.WaitVisible(chromedp.CSS("#log-result")))
	if text := value(p, chromedp.Text(chromedp.CSS("main"))); !strings.Contains(text, "2 requests in the log, 1 not found") || strings.Index(text, "none.pdb") > strings.Index(text, "hello-x64.pdb") {
		t.Errorf("a log: the page says %q, want both requests, the one that fails first", text)
	}
}

package display

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/symdepot/symdepot/internal/base/term"
	"github.com/symdepot/symdepot/internal/depot/coldstore"
)

// CooledContent is a content that became cold, or would, in JSON.
type CooledContent struct {
	SHA256 string `json:"sha256"`
	coldstore.Cooled
	Base string `json:"base_sha256,omitempty"` // missing: it is a key
}

// NewCooledContent describes a content that became cold, or would.
func NewCooledContent(c coldstore.Cooled) CooledContent {
	l := CooledContent{SHA256: c.Ref.String(), Cooled: c}
	if c.Base != (coldstore.Cooled{}).Base {
		l.Base = c.Base.String()
	}
	return l
}

// Cooled is the result of symdepot cool, or of its dry run, in JSON.
type Cooled struct {
	DryRun bool `json:"dry_run,omitempty"` // nothing was done; After is an estimate
	coldstore.CoolSum
	// Stripped is of how many contents the plain bytes were deleted.
	Stripped int `json:"plain_deleted"`

	ask     coldstore.CoolOptions
	outlook coldstore.CoolOutlook
	rows    []cooledRow
	read    int64 // of the content that is under way
}

// Read counts n bytes that were read of the content that is under way, and returns the
// bytes that are done so far: each content is read twice.
func (l *Cooled) Read(n int) int64 {
	l.read += int64(n)
	return l.Before + l.read/2
}

// NewCooled is the result before anything was done.
func NewCooled(ask coldstore.CoolOptions, outlook coldstore.CoolOutlook) *Cooled {
	return &Cooled{DryRun: ask.DryRun, ask: ask, outlook: outlook}
}

// why says why nothing was due.
func (l *Cooled) why() string {
	o := l.outlook
	if o == (coldstore.CoolOutlook{}) && len(l.ask.Products) > 0 {
		return "no file of " + term.Printable(strings.Join(l.ask.Products, ", ")) + " can become cold: symdepot disk lists the products"
	}
	return fmt.Sprintf("the newest build of a file: %d; added or read within %s (--after sets the time): %d; cold already: %d",
		o.Newest, term.Duration(l.ask.After), o.Used, o.Cold)
}

// cooledRow are the contents of a name in a product.
type cooledRow struct {
	product, name string
	coldstore.CoolSum
	reason string // why the last one that was skipped stays as it is
}

// Count adds a content to the lines that Print prints, and returns the bytes that were
// read so far.
func (l *Cooled) Count(c coldstore.Cooled) int64 {
	l.read = 0
	n := len(l.rows)
	if n == 0 || l.rows[n-1].product != c.Product || l.rows[n-1].name != c.Name {
		l.rows = append(l.rows, cooledRow{product: c.Product, name: c.Name})
		n++
	}
	r := &l.rows[n-1]
	if c.Skipped != "" {
		r.Skipped, r.reason = r.Skipped+1, c.Skipped
		return l.Before
	}
	r.Contents, r.Before, r.After = r.Contents+1, r.Before+c.Size, r.After+c.File
	l.Before += c.Size
	return l.Before
}

// Print prints the result for people: a line for each name, and the sums.
func (l *Cooled) Print(w io.Writer, now bool) error {
	if len(l.rows) > 0 {
		t := term.NewTable(w, "PRODUCT", "NAME", "CONTENTS", "BEFORE", "AFTER", "")
		for _, r := range l.rows {
			remark := ""
			if r.Skipped > 0 {
				remark = fmt.Sprintf("%s stay: %s", term.Count(r.Skipped, "content"), r.reason)
			}
			t.Row(r.product, r.name, fmt.Sprint(r.Contents), term.Size(r.Before), term.Size(r.After), remark)
		}
		if err := t.Flush(); err != nil {
			return err
		}
	}
	what, about := "became cold", ""
	if l.DryRun {
		what, about = "would become cold", "about "
	}
	fmt.Fprintf(w, "%s %s", term.Count(l.Contents, "content"), what)
	if l.Contents > 0 {
		fmt.Fprintf(w, ": %s before, %s%s after (%s)", term.Size(l.Before), about, term.Size(l.After), percent(l.After, l.Before))
	}
	fmt.Fprintln(w)
	if l.outlook.Due == 0 {
		fmt.Fprintln(w, l.why())
	}
	if l.Stripped > 0 {
		fmt.Fprintf(w, "the plain bytes of %s were deleted\n", term.Count(int64(l.Stripped), "cold content"))
	}
	if !l.DryRun && !now && l.Contents > 0 {
		fmt.Fprintln(w, "the plain bytes are deleted in an hour, by a server or by the next symdepot cool; "+
			"symdepot cool --now deletes them at once")
	}
	return nil
}

// ColdFile says how a cold content is stored, in JSON.
type ColdFile struct {
	Bytes  int64  `json:"bytes"`                 // of the cold file
	SHA256 string `json:"sha256"`                // of the cold file
	Base   string `json:"base_sha256,omitempty"` // of the content that it is restored with; missing: none, or not in scope
	// PlainToo says that its plain bytes are still stored too.
	PlainToo bool `json:"plain_too,omitempty"`
	// Delta says that there is a base, although the caller may not see which.
	Delta bool `json:"-"`
}

// NewColdFile describes how a content is stored; nil if it is not cold.
func NewColdFile(c *coldstore.ColdContent) *ColdFile {
	if c == nil {
		return nil
	}
	l := &ColdFile{Bytes: c.File.Size, SHA256: c.File.Ref.String(), PlainToo: !c.PlainSince.IsZero()}
	if c.Base != nil {
		l.Delta = true
		if hidden := (coldstore.ColdContent{}).Ref; c.Base.Ref != hidden {
			l.Base = c.Base.Ref.String()
		}
	}
	return l
}

// Text describes it in a few words.
func (c *ColdFile) Text() string {
	text := "cold: key"
	switch {
	case c.Base != "":
		text = "cold: delta of " + c.Base[:12]
	case c.Delta:
		text = "cold: delta of another content"
	}
	text += ", " + term.Size(c.Bytes) + " stored"
	if c.PlainToo {
		text += ", plain too"
	}
	return text
}

// ColdText describes the sums of cold contents in one line.
func ColdText(s coldstore.ColdStats) string {
	text := fmt.Sprintf("%s, %s kept in %s (%s): %s (%s), %s", term.Count(s.Contents, "content"), term.Size(s.Plain),
		term.Size(s.Bytes), percent(s.Bytes, s.Plain),
		term.Count(s.Keys, "key"), term.Size(s.KeyBytes), term.Count(s.Deltas, "delta"))
	if s.Pinned > 0 {
		text += fmt.Sprintf("; %s only for deltas: %s", term.Count(s.Pinned, "base"), term.Size(s.PinnedBytes))
	}
	if s.Both > 0 {
		text += fmt.Sprintf("; %d still plain too: %s", s.Both, term.Size(s.BothBytes))
	}
	return text
}

// BucketPrice is the usual price of a bucket, in USD per GB and month.
const BucketPrice = 0.023

// Cost is an estimate of what the contents in a bucket cost, in JSON.
type Cost struct {
	Bytes int64   `json:"bytes"`
	Price float64 `json:"price"`     // USD per GB and month
	Month float64 `json:"per_month"` // USD
}

// At sets the price.
func (c *Cost) At(price float64) { c.Price, c.Month = price, float64(c.Bytes)/1e9*price }

// Text describes the cost in one line.
func (c *Cost) Text() string {
	return fmt.Sprintf("in a bucket: %s cost about %.2f USD per month, at %g USD per GB (an estimate, without requests and transfers)",
		term.Size(c.Bytes), c.Month, c.Price)
}

// percent is a part of a whole for people.
func percent(part, whole int64) string {
	if whole == 0 {
		return "0 %"
	}
	return fmt.Sprintf("%.1f %%", 100*float64(part)/float64(whole))
}

// WarmedText says what symdepot warm did.
func WarmedText(s coldstore.Warmed) string {
	text := fmt.Sprintf("%s made plain: %s", term.Count(s.Contents, "content"), term.Size(s.Bytes))
	switch {
	case s.Failed > 0:
		stay := "stay"
		if s.Failed == 1 {
			stay = "stays"
		}
		text += fmt.Sprintf("; %s cannot be restored and %s cold", term.Count(s.Failed, "content"), stay)
	case s.Again > 0:
		text += fmt.Sprintf("; servers have made %s cold meanwhile: run symdepot cool --pause first", term.Count(s.Again, "content"))
	}
	return text
}

// ColdAbout says in a sentence how many files are cold, and how far the background has
// come. after is how long files must not have been used; zero: none becomes cold.
func ColdAbout(s coldstore.ColdStatus, after time.Duration) string {
	text := "none becomes cold, because cold.after is not set"
	if after > 0 {
		text = "files that were not used for " + term.Duration(after).String() + " become cold"
	}
	if s.Sums.Contents > 0 {
		text += "; " + ColdText(s.Sums)
	}
	if p := CoolingText(s.Work); p != "" {
		text += "; " + p
	}
	return text
}

// CoolingText says in one line, for people, how far the background has come; empty if
// it has done nothing.
func CoolingText(st coldstore.Cooling) string {
	day := func(t time.Time) string { return t.Local().Format("2006-01-02 15:04") }
	text := ""
	sums := fmt.Sprintf("%s became cold, %s before, %s after", term.Count(st.Contents, "content"), term.Size(st.Before), term.Size(st.After))
	switch {
	case !st.Started.IsZero():
		text = fmt.Sprintf("under way since %s: %s", day(st.Started), sums)
	case !st.Finished.IsZero():
		text = fmt.Sprintf("last pass ended %s: %s", day(st.Finished), sums)
	}
	if st.Paused {
		if text != "" {
			text = "; " + text
		}
		text = "paused until symdepot cool --resume" + text
	}
	return text
}

package sharedtext

import (
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
)

// wide returns a text in UTF-16.
func wide(text string) string {
	var b strings.Builder
	for _, c := range []byte(text) {
		b.Write([]byte{c, 0})
	}
	return b.String()
}

func write(t *testing.T, w io.Writer, text string) {
	t.Helper()
	if _, err := io.WriteString(w, text); err != nil {
		t.Fatal(err)
	}
}

func TestSearch(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		public, private string
		want            []Text
	}{
		"none":         {"\x00\x01short\x00seven_7\x00", "short seven_7", nil},
		"eight":        {"\x01eight__8\x02", "\x03eight__8", []Text{{"eight__8", 3, 1}}},
		"part":         {"xx/home/user/a.cyy", "zz/home/user/a.cww", []Text{{"/home/user/a.c", 3, 2}}},
		"two":          {"\x00abcdefgh\x00ijklmnop", "ijklmnop\x01abcdefgh", []Text{{"abcdefgh", 3, 1}, {"ijklmnop", 3, 10}}},
		"once":         {"abcdefgh\x00abcdefgh", "abcdefgh", []Text{{"abcdefgh", 3, 0}}},
		"wide":         {"\x01" + wide("C:\\build") + "\x02\x02", "C:\\build", []Text{{"C:\\build", 3, 1}}},
		"wide, even":   {wide("C:\\build\\x"), "\x01\x01\x01" + wide("C:\\build\\y"), []Text{{"C:\\build\\", 3, 0}}},
		"break":        {"abcd" + Break + "efgh\x00" + wide("abcd") + Break + wide("efgh"), "abcdefgh" + wide("abcdefgh"), nil},
		"only one has": {"abcdefgh", "ijklmnop", nil},
	} {
		var s Search
		write(t, s.Suspects(3), c.public)
		write(t, s.Compare(), c.private)
		if got, err := s.Texts(); err != nil || !slices.Equal(got, c.want) {
			t.Errorf("%s: %+v, %v, want %+v", name, got, err, c.want)
		}
	}
}

// TestLimit: too much text is an error, unless something was found.
func TestLimit(t *testing.T) {
	t.Parallel()
	s := Search{limit: 1000}
	write(t, s.Suspects(0), strings.Repeat("abcdefgh", 200))
	if _, err := s.Texts(); !errors.Is(err, ErrLimit) {
		t.Errorf("error %v, want ErrLimit", err)
	}
	write(t, s.Compare(), "bcdefgha")
	if got, err := s.Texts(); err != nil || len(got) != 1 {
		t.Errorf("%d texts and %v, want one", len(got), err)
	}
}

package sharedtext

import (
	"errors"
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

func TestSearch(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		public, private string
		want            []Text
	}{
		"none":         {"\x00\x01short\x00seven_7\x00", "short seven_7", nil},
		"eight":        {"\x01eight__8\x02", "\x03eight__8", []Text{{"eight__8", 1}}},
		"part":         {"xx/home/user/a.cyy", "zz/home/user/a.cww", []Text{{"/home/user/a.c", 2}}},
		"two":          {"\x00abcdefgh\x00ijklmnop", "ijklmnop\x01abcdefgh", []Text{{"abcdefgh", 1}, {"ijklmnop", 10}}},
		"once":         {"abcdefgh\x00abcdefgh", "abcdefgh", []Text{{"abcdefgh", 0}}},
		"wide":         {"\x01" + wide("C:\\build") + "\x02\x02", "C:\\build", []Text{{"C:\\build", 1}}},
		"wide, even":   {wide("C:\\build\\x"), "\x01\x01\x01" + wide("C:\\build\\y"), []Text{{"C:\\build\\", 0}}},
		"only one has": {"abcdefgh", "ijklmnop", nil},
	} {
		var s Search
		if err := errors.Join(s.Suspect(strings.NewReader(c.public), 0), s.Compare(strings.NewReader(c.private))); err != nil {
			t.Fatal(err)
		}
		if got, err := s.Texts(); err != nil || !slices.Equal(got, c.want) {
			t.Errorf("%s: %+v, %v, want %+v", name, got, err, c.want)
		}
	}
}

// TestLimit: too much text is an error, unless something was found.
func TestLimit(t *testing.T) {
	t.Parallel()
	s := Search{limit: 1000}
	if err := s.Suspect(strings.NewReader(strings.Repeat("abcdefgh", 200)), 0); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Texts(); !errors.Is(err, ErrLimit) {
		t.Errorf("error %v, want ErrLimit", err)
	}
	if err := s.Compare(strings.NewReader("bcdefgha")); err != nil {
		t.Fatal(err)
	}
	if got, err := s.Texts(); err != nil || len(got) != 1 {
		t.Errorf("%d texts and %v, want one", len(got), err)
	}
}

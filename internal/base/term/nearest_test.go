package term

import "testing"

func TestNearest(t *testing.T) {
	t.Parallel()
	known := []string{"watch", "depot", "upstreams", "cold", "min_age"}
	for word, want := range map[string]string{"wach": "watch", "upstream": "upstreams", "min_ag": "min_age", "depot": "depot", "xyzzy": "", "": "", "listenaddress": ""} {
		if got := Nearest(word, known); got != want {
			t.Errorf("Nearest(%q) = %q, want %q", word, got, want)
		}
	}
	for _, tt := range []struct {
		a, b        string
		limit, want int
	}{{"kitten", "sitting", 9, 3}, {"", "abc", 9, 3}, {"abc", "", 9, 3}, {"same", "same", 9, 0}, {"kitten", "sitting", 2, 2}, {"a", "abcdef", 3, 3}} {
		if got := Distance(tt.a, tt.b, tt.limit); got != tt.want {
			t.Errorf("Distance(%q, %q, %d) = %d, want %d", tt.a, tt.b, tt.limit, got, tt.want)
		}
	}
}

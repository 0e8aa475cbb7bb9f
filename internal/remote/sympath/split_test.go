package sympath

import (
	"slices"
	"testing"
)

func TestSplit(t *testing.T) {
	for _, tt := range []struct {
		path   string
		want   []Part // without Text
		quoted bool
	}{
		{"", []Part{{}}, false},
		{`C:\a; srv*c*https://x/y `, []Part{{Bare: `C:\a`, Stores: []string{`C:\a`}}, {Bare: "srv*c*https://x/y", Word: "srv", Stores: []string{"c", "https://x/y"}}}, false},
		{`SRV**s;CACHE*`, []Part{{Bare: "SRV**s", Word: "srv", Stores: []string{"", "s"}}, {Bare: "CACHE*", Word: "cache", Stores: []string{""}}}, false},
		{`"a;b";c`, []Part{{Bare: "a;b", Stores: []string{"a;b"}}, {Bare: "c", Stores: []string{"c"}}}, false},
		{`"a;b"`, []Part{{Bare: "a", Stores: []string{"a"}}, {Bare: "b", Stores: []string{"b"}}}, true},
		{`symsrv*x.dll*s`, []Part{{Bare: "symsrv*x.dll*s", Word: "symsrv", Stores: []string{"x.dll", "s"}}}, false},
	} {
		got, quoted := Split(tt.path)
		equal := func(a, b Part) bool {
			return a.Bare == b.Bare && a.Word == b.Word && slices.Equal(a.Stores, b.Stores)
		}
		if !slices.EqualFunc(got, tt.want, equal) || quoted != tt.quoted {
			t.Errorf("Split(%q) = %+v, %t; want %+v, %t", tt.path, got, quoted, tt.want, tt.quoted)
		}
	}
}

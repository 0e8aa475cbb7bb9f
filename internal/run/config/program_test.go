package config

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/symdepot/symdepot/internal/derive/transcode"
)

func TestParseProgram(t *testing.T) {
	for v, want := range map[string]transcode.Program{
		"a=prog {pdb}": {Name: "a", Command: []string{"prog", "{pdb}"}},
		`wpt="C:\Program Files\wpt\symcachegen.exe" -pdb {pdb}`: {Name: "wpt", Command: []string{`C:\Program Files\wpt\symcachegen.exe`, "-pdb", "{pdb}"}},
		`w,wine,version=3.1.0,memory=8GiB,time=20m=wine64 /opt/w.exe -x '' "a b"'c d' o={out} {pdb}`: {Name: "w", Wine: true, Version: "3.1.0",
			Limits:  transcode.ProgramLimits{Memory: 8 << 30, Time: 20 * time.Minute},
			Command: []string{"wine64", "/opt/w.exe", "-x", "", "a bc d", "o={out}", "{pdb}"}},
		"a,age=any,output=1G,dir=/x,prefix=/y=p $(rm);{pdb}": {Name: "a", AnyAge: true, Dir: "/x", WinePrefix: "/y", Limits: transcode.ProgramLimits{Output: 1 << 30}, Command: []string{"p", "$(rm);{pdb}"}},
	} {
		if got, err := ParseProgram(v); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: ParseProgram: %+v, error %v; want %v", v, got, err, want)
		}
	}
	for v, want := range map[string]string{
		"": "the name or the command", "a": "the name or the command", "=x {pdb}": "the name or the command", "a=": "the name or the command", "a=x": "{pdb}", "a={pdb}": "{pdb}", "a,wine": "the command is missing",
		"a,foo=1=x {pdb}": `unknown option "foo"`, "a,time=x=p {pdb}": "duration", "a,time=-1s=p {pdb}": "a duration is expected", "a,memory=x=p {pdb}": "a size is expected", "a,memory=99999999999T=p {pdb}": "a size is expected",
		"a,version=3=p {pdb}": "version", `a="p {pdb}`: "not closed", "a,age=x=p {pdb}": "age", "a,time,x=p {pdb}": "needs a value", "a,time=3s": "the command is missing", "a=p\x00 {pdb}": "NUL",
		`a=/bin/sh -c "run {pdb}"`: `{pdb} must be an argument of its own or the end of one, not a part of "run {pdb}"`, "a=p {pdb};x": "not a part of",
	} {
		if _, err := ParseProgram(v); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", v, err, want)
		}
	}
}

func FuzzParseProgram(f *testing.F) {
	f.Add(`w,wine,version=3.1.0,memory=8GiB=wine64 "x y" {pdb}`)
	f.Add("a,,==")
	f.Fuzz(func(t *testing.T, v string) {
		if p, err := ParseProgram(v); err == nil && (p.Name == "" || len(p.Command) < 2 || p.Limits.Memory < 0 || p.Limits.Time < 0) {
			t.Errorf("ParseProgram(%q): %+v, want a name, a command with {pdb}, and no negative limit", v, p)
		}
	})
}

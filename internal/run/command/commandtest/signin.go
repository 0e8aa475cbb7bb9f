package commandtest

import (
	"context"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/bcrypt"
)

// Person is somebody with a browser.
type Person struct {
	t *testing.T
	http.Client
}

// NewPerson returns somebody who has no sign-in yet.
func NewPerson(t *testing.T) *Person {
	t.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	return &Person{t, http.Client{Jar: jar}}
}

// Open opens a page and follows where it leads; a form is sent.
func (p *Person) Open(address string, form url.Values) (status int, where *url.URL, text string) {
	p.t.Helper()
	method, body := http.MethodGet, io.Reader(nil)
	if form != nil {
		method, body = http.MethodPost, strings.NewReader(form.Encode())
	}
	ctx, cancel := context.WithTimeout(p.t.Context(), time.Minute)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, method, address, body)
	if err != nil {
		p.t.Fatal(err)
	}
	r.Header.Set("Accept", "text/html")
	if form != nil {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	resp, err := p.Do(r)
	if err != nil {
		p.t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		p.t.Fatal(err)
	}
	return resp.StatusCode, resp.Request.URL, string(b)
}

// WriteUsers writes a file of users with the password secret.
func WriteUsers(t *testing.T, dir string, names ...string) string {
	t.Helper()
	text := ""
	for _, name := range names {
		hash, err := bcrypt.GenerateFromPassword([]byte("secret"), bcrypt.MinCost)
		if err != nil {
			t.Fatal(err)
		}
		text += name + ":" + string(hash) + "\n"
	}
	file := filepath.Join(dir, "users")
	Write(t, file, text)
	return file
}

package doctor

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/bcrypt"

	"github.com/symdepot/symdepot/internal/depot"
	"github.com/symdepot/symdepot/internal/serve/auth"
)

// TestTokens: tokens whose makers are gone are a warning, those whose makers may do less
// are named.
func TestTokens(t *testing.T) {
	t.Parallel()
	dir := newDepot(t)
	d, err := depot.Open(t.Context(), dir, depot.Options{})
	if err != nil {
		t.Fatal(err)
	}
	ids := map[string]string{}
	for _, maker := range []string{"basic:gone", "basic:less", "basic:same", "operator"} {
		_, row, err := auth.MakeToken(auth.TokenSpec{Name: "x", Products: []string{"a", "b"}, CreatedBy: maker}, time.Now())
		if err == nil {
			err = d.Tokens.Put(t.Context(), depot.Token(row))
		}
		if err != nil {
			t.Fatal(err)
		}
		ids[maker] = row.ID
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	hash, err := bcrypt.GenerateFromPassword([]byte("secret"), bcrypt.MinCost)
	if err != nil {
		t.Fatal(err)
	}
	users := filepath.Join(t.TempDir(), "users")
	if err := os.WriteFile(users, []byte("less:"+string(hash)+"\nsame:"+string(hash)+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	config := nobody + "depot: " + dir + "\nauth:\n  users_file: " + users + "\n  grants:\n    - {who: [gone, same], read: [a, b]}\n    - {who: [less], read: [a]}\n"
	list := examine(t, config)
	expect(t, list, "tokens", Warning, "1 token is refused, because no grant and no file names the maker any more: "+ids["basic:gone"]+" (x, made by basic:gone)")
	expect(t, list, "tokens", OK, "1 token is limited to what the maker may still do: "+ids["basic:less"])
	if slices.ContainsFunc(list, func(f Finding) bool {
		return strings.Contains(f.Text, ids["basic:same"]) || strings.Contains(f.Text, ids["operator"])
	}) {
		t.Errorf("%+v: want the tokens of others left out", list)
	}
	if err := os.Remove(users); err != nil {
		t.Fatal(err)
	}
	expect(t, examine(t, config), "tokens", Warning, "what their makers may do is not known")
}

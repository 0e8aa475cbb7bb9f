package api

import (
	"cmp"
	"log/slog"
	"net/http"
	"strings"

	"github.com/symdepot/symdepot/internal/base/wire"
	"github.com/symdepot/symdepot/internal/serve/auth"
	"github.com/symdepot/symdepot/internal/serve/web"
)

// tokenAPI answers requests about tokens.
type tokenAPI struct {
	*web.Accounts
	gate *auth.Gate
	log  *slog.Logger
}

func (s tokenAPI) routes() []route {
	return []route{
		bare(on(http.MethodPost, "v1/token", s.exchangeToken)),
		on(http.MethodGet, "v1/tokens", s.listTokens),
		bare(on(http.MethodPost, "v1/tokens", s.makeToken)),
		bare(on(http.MethodGet, "v1/tokens/*", s.showToken)),
		bare(on(http.MethodDelete, "v1/tokens/*", s.revokeToken)),
	}
}

// Unauthenticated reports whether a request for the API brings credentials that the
// API itself checks: the exchange of an id token does.
func Unauthenticated(method string, segs []string) bool {
	return method == http.MethodPost && len(segs) == 4 && web.IsAPI(segs) && segs[2] == "v1" && segs[3] == "token"
}

// exchangeToken answers POST token: the id token of a CI job, as a bearer token, is
// exchanged for a token of this server.
func (s tokenAPI) exchangeToken(w http.ResponseWriter, r *web.Request, _ []string) error {
	scheme, idToken, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if !strings.EqualFold(scheme, wire.Bearer) || strings.TrimSpace(idToken) == "" || len(r.Header.Values("Authorization")) != 1 {
		return &web.Problem{
			Word:   "credentials",
			Detail: "the id token of a CI job is expected as a bearer token. Jobs of pull requests from forks have none",
		}
	}
	secret, row, c := s.gate.Exchange(r.Context(), strings.TrimSpace(idToken))
	if c != nil {
		s.log.Info("an id token was not exchanged", "request", r.ID, "reason", c.Reason)
		word := map[int]string{
			http.StatusNotFound: "not-found", http.StatusForbidden: "forbidden", http.StatusTooManyRequests: "rate",
			http.StatusServiceUnavailable: "busy",
		}[c.Status]
		return &web.Problem{Word: cmp.Or(word, "credentials"), Detail: c.Text}
	}
	web.Finish(w, r)
	return web.WriteJSON(w, http.StatusCreated, wire.Exchanged{
		Token: secret, Expires: row.Expires.UTC(), Name: row.Name, Products: row.Products,
	})
}

// listTokens answers GET tokens: those that the client may manage, oldest first.
func (s tokenAPI) listTokens(w http.ResponseWriter, r *web.Request, _ []string) error {
	if err := web.OnlyParameters(r, "limit", "cursor"); err != nil {
		return err
	}
	list, next, err := web.PageOfTokens(w, r, "tokens", func() ([]auth.TokenRow, error) { return s.Tokens(r) })
	if err != nil {
		return err
	}
	out := wire.TokenList{Items: []wire.TokenInfo{}, Next: next}
	for i := range list {
		out.Items = append(out.Items, s.TokenOf(&list[i]))
	}
	return web.WriteJSON(w, http.StatusOK, out)
}

// showToken answers GET tokens/ID.
func (s tokenAPI) showToken(w http.ResponseWriter, r *web.Request, args []string) error {
	row, err := s.Token(r, args[0])
	if err != nil {
		return err
	}
	return web.WriteJSON(w, http.StatusOK, s.TokenOf(&row))
}

// makeToken answers POST tokens. The secret is part of this answer only.
func (s tokenAPI) makeToken(w http.ResponseWriter, r *web.Request, _ []string) error {
	if err := s.MayMakeTokens(r); err != nil {
		return err
	}
	var q wire.TokenSpec
	if err := web.ReadJSON(r, web.MaxTokenBody, &q); err != nil {
		return err
	}
	secret, row, err := s.NewToken(r, &q)
	if err != nil {
		return err
	}
	out := s.TokenOf(&row)
	out.Token = secret
	w.Header().Set("Location", strings.TrimSuffix(r.URL.EscapedPath(), "/")+"/"+row.ID)
	return web.WriteJSON(w, http.StatusCreated, out)
}

// revokeToken answers DELETE tokens/ID.
func (s tokenAPI) revokeToken(w http.ResponseWriter, r *web.Request, args []string) error {
	if err := s.Revoke(r, args[0]); err != nil {
		return err
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

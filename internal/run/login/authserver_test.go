package login

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"

	"github.com/symdepot/symdepot/internal/base/wire"
)

// authServer is the authorization server of the contract, for one person who allows at once what
// a browser asks for. It keeps its logins in memory.
type authServer struct {
	URL, base string // with the base path

	mu       sync.Mutex
	codes    map[string]url.Values // the requests that they allow
	families map[string]string     // login: its refresh token now
	used     map[string]string     // refresh token that was rotated away: its login
	access   map[string]string     // access token: its login
	requests map[string]int        // by the last segment of the path, and the grant
	last     url.Values            // the last form
	agents   map[string]bool
	serial   int

	// What the server does instead of what it should.
	expiresIn int                               // seconds of access tokens; 0: 3600
	meta      func(m map[string]any)            // changes the metadata
	decide    func(q url.Values) (error string) // of the authorize page and the device page: an error, or none
	redirect  func(q url.Values)                // changes the answer to the browser
	token     func(m map[string]any)            // changes the answer with tokens
	status    int                               // of each answer to a request for tokens; 0: what is right
	offline   bool                              // every request is answered with 502
}

// newAuthServer starts a server with a base path.
func newAuthServer(t *testing.T) *authServer {
	t.Helper()
	s := &authServer{
		base: "/corp", codes: map[string]url.Values{}, families: map[string]string{}, used: map[string]string{},
		access: map[string]string{}, requests: map[string]int{}, agents: map[string]bool{},
	}
	srv := httptest.NewServer(s)
	t.Cleanup(srv.Close)
	s.URL = srv.URL + s.base
	return s
}

// lock runs fn alone.
func (s *authServer) lock(fn func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	fn()
}

// count returns how many requests of a kind there were.
func (s *authServer) count(kind string) (n int) {
	s.lock(func() { n = s.requests[kind] })
	return n
}

// logins is how many logins are valid.
func (s *authServer) logins() (n int) {
	s.lock(func() { n = len(s.families) })
	return n
}

// of returns the login of an access token; "": none.
func (s *authServer) of(access string) (login string) {
	s.lock(func() { login = s.access[access] })
	return login
}

func (s *authServer) next(prefix string) string {
	s.serial++
	return fmt.Sprintf("%s%d-secret", prefix, s.serial)
}

func answerJSON(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v)
}

func refuse(w http.ResponseWriter, word string) {
	answerJSON(w, http.StatusBadRequest, map[string]string{"error": word, "error_description": "because " + word})
}

func (s *authServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	_ = r.ParseForm()
	path, ok := strings.CutPrefix(r.URL.Path, s.base)
	s.last = r.Form
	kind := path[strings.LastIndex(path, "/")+1:]
	if grant := r.Form.Get("grant_type"); grant != "" {
		kind += " " + grant
	}
	s.requests[kind]++
	s.agents[r.Header.Get("User-Agent")] = true
	if s.offline {
		http.Error(w, "away", http.StatusBadGateway)
		return
	}
	switch {
	case !ok:
		http.NotFound(w, r)
	case path == wire.LoginPath+wire.LoginDiscovery:
		issuer := s.URL + "/-/oauth"
		m := map[string]any{
			"issuer": issuer, "authorization_endpoint": issuer + "/authorize", "token_endpoint": issuer + "/token",
			"device_authorization_endpoint": issuer + "/device_authorization", "revocation_endpoint": issuer + "/revoke",
			"authorization_response_iss_parameter_supported": true,
		}
		if s.meta != nil {
			s.meta(m)
		}
		answerJSON(w, http.StatusOK, m)
	case path == wire.MePath:
		token := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
		if login, known := s.access[token]; known {
			answerJSON(w, http.StatusOK, wire.Me{Name: "of " + login, Method: "token"})
			return
		}
		http.Error(w, "who", http.StatusUnauthorized)
	case path == "/-/oauth/authorize":
		s.authorize(w, r)
	case path == "/-/oauth/device_authorization":
		code := s.next("device")
		s.codes[code] = r.Form
		answerJSON(w, http.StatusOK, map[string]any{
			"device_code": code, "user_code": "BCDF-GHJK", "verification_uri": s.URL + "/-/device", "expires_in": 600, "interval": 1,
		})
	case path == "/-/oauth/token" && s.status != 0:
		http.Error(w, "not now", s.status)
	case path == "/-/oauth/token":
		s.tokens(w, r.Form)
	case path == "/-/oauth/revoke":
		for login, token := range s.families {
			if token == r.Form.Get("token") {
				s.end(login)
			}
		}
	default:
		http.NotFound(w, r)
	}
}

// authorize is the page that the person allows at once.
func (s *authServer) authorize(w http.ResponseWriter, r *http.Request) {
	q := r.Form
	back, err := url.Parse(q.Get("redirect_uri"))
	if err != nil || back.Scheme != "http" || back.Hostname() != "127.0.0.1" || q.Get("client_id") != "symdepot" ||
		q.Get("response_type") != "code" || q.Get("code_challenge_method") != "S256" {
		http.Error(w, "this request is not that of the contract", http.StatusBadRequest)
		return
	}
	answer := url.Values{"state": {q.Get("state")}, "iss": {s.URL + "/-/oauth"}}
	word := ""
	if s.decide != nil {
		word = s.decide(q)
	}
	if word != "" {
		answer.Set("error", word)
	} else {
		code := s.next("code")
		s.codes[code] = q
		answer.Set("code", code)
	}
	if s.redirect != nil {
		s.redirect(answer)
	}
	back.RawQuery = answer.Encode()
	http.Redirect(w, r, back.String(), http.StatusSeeOther)
}

// tokens answers the three grants.
func (s *authServer) tokens(w http.ResponseWriter, q url.Values) {
	switch q.Get("grant_type") {
	case "authorization_code":
		asked, known := s.codes[q.Get("code")]
		delete(s.codes, q.Get("code"))
		sum := sha256.Sum256([]byte(q.Get("code_verifier")))
		if !known || asked.Get("redirect_uri") != q.Get("redirect_uri") ||
			asked.Get("code_challenge") != base64.RawURLEncoding.EncodeToString(sum[:]) {
			refuse(w, "invalid_grant")
			return
		}
		s.grant(w, strings.TrimSuffix(s.next("login"), "-secret"))
	case "urn:ietf:params:oauth:grant-type:device_code":
		asked, known := s.codes[q.Get("device_code")]
		if !known {
			refuse(w, "invalid_grant")
			return
		}
		if s.decide != nil {
			if word := s.decide(asked); word != "" {
				refuse(w, word)
				return
			}
		}
		delete(s.codes, q.Get("device_code"))
		s.grant(w, strings.TrimSuffix(s.next("login"), "-secret"))
	case "refresh_token":
		given := q.Get("refresh_token")
		for login, token := range s.families {
			if token == given {
				s.used[given] = login
				s.grant(w, login)
				return
			}
		}
		if login := s.used[given]; login != "" { // it was stolen
			s.end(login)
		}
		refuse(w, "invalid_grant")
	default:
		refuse(w, "unsupported_grant_type")
	}
}

func (s *authServer) end(login string) {
	delete(s.families, login)
	for token, of := range s.access {
		if of == login {
			delete(s.access, token)
		}
	}
}

// grant answers with new tokens of a login.
func (s *authServer) grant(w http.ResponseWriter, login string) {
	access, refresh := s.next("sd_"), s.next("sr_")
	s.families[login], s.access[access] = refresh, login
	expires := 3600
	if s.expiresIn != 0 {
		expires = s.expiresIn
	}
	m := map[string]any{
		"access_token": access, "token_type": "Bearer", "expires_in": expires, "refresh_token": refresh,
		"name": "alice", "login_id": login, "refresh_expires_in": 30 * 24 * 3600,
	}
	if s.token != nil {
		s.token(m)
	}
	answerJSON(w, http.StatusOK, m)
}

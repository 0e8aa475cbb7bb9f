package api

import (
	"net/http"
	"strings"

	"github.com/symdepot/symdepot/internal/serve/web"
)

// answerFunc answers a request; args are the segments in place of "*".
type answerFunc func(w http.ResponseWriter, r *web.Request, args []string) error

// route is one method of one address.
type route struct {
	method string
	path   []string // below /-/api; "*" is any segment
	answer answerFunc
}

func on(method, path string, answer answerFunc) route {
	return route{method, strings.Split(path, "/"), answer}
}

// bare refuses all parameters in the query of a route.
func bare(rt route) route {
	answer := rt.answer
	rt.answer = func(w http.ResponseWriter, r *web.Request, args []string) error {
		if err := web.OnlyParameters(r); err != nil {
			return err
		}
		return answer(w, r, args)
	}
	return rt
}

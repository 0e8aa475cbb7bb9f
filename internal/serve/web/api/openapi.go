package api

import (
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"sync"

	"github.com/symdepot/symdepot/internal/serve/web"

	"go.yaml.in/yaml/v3"
)

//go:embed openapi.yaml
var openAPI []byte

// Description returns the OpenAPI 3.1 description of the API in JSON.
var Description = sync.OnceValues(func() (json.RawMessage, error) {
	var v any
	if err := yaml.Unmarshal(openAPI, &v); err != nil {
		return nil, fmt.Errorf("openapi.yaml: %w", err)
	}
	return json.Marshal(v)
})

// describe answers GET openapi.json.
func describe(w http.ResponseWriter, r *web.Request, _ []string) error {
	if err := errors.Join(web.OnlyParameters(r), r.MayRead()); err != nil {
		return err
	}
	d, err := Description()
	if err != nil {
		return err
	}
	return web.WriteJSON(w, http.StatusOK, d)
}

package pages

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"mime"
	"net/http"
	"path"
	"strings"

	"github.com/symdepot/symdepot/internal/serve/web"
)

//go:embed assets
var assetFiles embed.FS

// assetType is the media type of an asset or an image by its extension.
var assetType = map[string]string{
	".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".png": "image/png", ".svg": "image/svg+xml",
}

// assetHash is a part of the addresses of the assets: it changes when one of them does.
var assets, assetHash = func() (map[string][]byte, string) {
	files, sum := map[string][]byte{}, sha256.New()
	entries, err := assetFiles.ReadDir("assets")
	if err != nil {
		panic(err)
	}
	for _, e := range entries {
		b, err := assetFiles.ReadFile("assets/" + e.Name())
		if err != nil {
			panic(err)
		}
		if _, ok := assetType[path.Ext(e.Name())]; !ok {
			panic("asset of unknown type: " + e.Name() + mime.TypeByExtension(path.Ext(e.Name())))
		}
		files[e.Name()] = b
		sum.Write(b)
	}
	return files, hex.EncodeToString(sum.Sum(nil))[:16]
}()

// Asset is the address of an asset.
func (f *frame) Asset(name string) string {
	return link(f.Base, "assets", []string{assetHash, name}, nil)
}

// asset answers GET assets/HASH/NAME. Browsers keep it for ever.
func (p *Pages) asset(w http.ResponseWriter, r *web.Request) error {
	segs := r.Segments
	b, ok := []byte(nil), false
	if len(segs) == 4 {
		b, ok = assets[segs[3]]
	}
	h := w.Header()
	switch {
	case r.Method != http.MethodGet && r.Method != http.MethodHead:
		return p.Refuse(w, r, &web.Problem{Word: "method", Allow: "GET, HEAD"})
	case !ok:
		return p.Refuse(w, r, &web.Problem{Word: "not-found"})
	case segs[2] == assetHash:
		h.Set("Cache-Control", "public, max-age=31536000, immutable")
	default:
		h.Set("Cache-Control", "no-cache") // of another version of the program
	}
	web.Finish(w, r)
	h.Set("Content-Type", assetType[path.Ext(segs[3])])
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	return send(w, r.Request, http.StatusOK, b, !strings.HasSuffix(segs[3], ".svg"))
}

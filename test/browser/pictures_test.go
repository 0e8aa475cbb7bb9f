package browser

import (
	"bytes"
	"cmp"
	"image"
	"image/color"
	"image/draw"
	"image/png"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/chromedp/chromedp"
)

// TestPictures keeps the pictures of README and of the documentation, as those who clone the
// repository see the pages.
func TestPictures(t *testing.T) {
	if os.Getenv("SYMDEPOT_SCREENS") == "" {
		t.Skip("needs SYMDEPOT_SCREENS, the folder for the screenshots; make screens sets it")
	}
	needChrome(t)
	s := busy(t)
	p := newTab(t)
	p.do(chromedp.EmulateViewport(1200, 800))
	p.scheme("light")
	for name, address := range map[string]string{"page-file": s.file("hello-x64.pdb"), "page-trace": shown(s)["trace"]} {
		p.open(address)
		eval[bool](p, `(() => { for (const w = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT); w.nextNode();)
			w.currentNode.data = w.currentNode.data.replaceAll(location.host, "symbols.example.com"); return true })()`)
		shot, err := png.Decode(bytes.NewReader(value(p, chromedp.CaptureScreenshot())))
		if err != nil {
			t.Fatal(err)
		}
		var b bytes.Buffer
		if err := (&png.Encoder{CompressionLevel: png.BestCompression}).Encode(&b, fewColors(shot)); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join("../../docs/images", name+".png"), b.Bytes(), 0o644); err != nil { //nolint:gosec // a file of the repository
			t.Fatal(err)
		}
	}
}

// fewColors returns a picture with its 256 most frequent colors, a third of the bytes.
func fewColors(from image.Image) image.Image {
	count := map[color.Color]int{}
	for y := range from.Bounds().Dy() {
		for x := range from.Bounds().Dx() {
			count[from.At(x, y)]++
		}
	}
	var all []color.Color
	for c := range count {
		all = append(all, c)
	}
	slices.SortFunc(all, func(a, b color.Color) int { return cmp.Compare(count[b], count[a]) })
	to := image.NewPaletted(from.Bounds(), color.Palette(all[:min(len(all), 256)]))
	draw.Draw(to, to.Bounds(), from, image.Point{}, draw.Src)
	return to
}

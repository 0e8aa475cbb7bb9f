package setup

import (
	"io"
	"log/slog"

	"github.com/symdepot/symdepot/internal/base/term"
)

// Logger returns a logger that writes to w. The format is text, json or auto, which is text
// if terminal is one.
func Logger(format string, terminal, w io.Writer) *slog.Logger {
	opt := &slog.HandlerOptions{Level: slog.LevelInfo}
	if format == "json" || format == "auto" && !term.IsTerminal(terminal) {
		return slog.New(slog.NewJSONHandler(w, opt))
	}
	return slog.New(slog.NewTextHandler(w, opt))
}

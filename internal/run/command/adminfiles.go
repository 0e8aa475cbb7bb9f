package command

import (
	"fmt"

	"github.com/alecthomas/kong"
)

// adminFiles is a flag that means true without a value: see config.Config.Records.
type adminFiles string

// IsBool implements kong.BoolMapperValue: the flag needs no value.
func (adminFiles) IsBool() bool { return true }

// Decode implements kong.MapperValue.
func (f *adminFiles) Decode(ctx *kong.DecodeContext) error {
	*f = "true"
	if ctx.Scan.Peek().Type == kong.FlagValueToken {
		*f = adminFiles(fmt.Sprint(ctx.Scan.Pop().Value))
	}
	return nil
}

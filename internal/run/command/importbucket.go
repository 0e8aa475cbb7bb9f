package command

import (
	"errors"

	"github.com/symdepot/symdepot/internal/base/address"
	"github.com/symdepot/symdepot/internal/base/term"
	"github.com/symdepot/symdepot/internal/depot/importexport"
	"github.com/symdepot/symdepot/internal/run/setup"
	"github.com/symdepot/symdepot/internal/store/bucket"
)

// prepare prepares the import of the folder or bucket.
func (c importCmd) prepare(a *session, opt importexport.ImportOptions) (im *importexport.Import, done func(), err error) {
	if !address.IsBucket(c.Tree) {
		im, err = importexport.NewImport(a.Ctx, c.Tree, opt)
		return im, func() {}, err
	}
	if len(opt.PointerRoots) > 0 {
		return nil, nil, term.UsageError("--pointer-root is for folders: the pointers of a bucket cannot be followed")
	}
	conf, err := a.config("")
	if err != nil {
		return nil, nil, err
	}
	b, err := setup.OpenBucket(conf, c.Tree)
	if errors.Is(err, bucket.ErrNotBucket) {
		return nil, nil, term.UsageError(c.Tree + ": " + err.Error())
	}
	if err != nil {
		return nil, nil, err
	}
	if im, err = importexport.NewBucketImport(a.Ctx, b, opt); err != nil {
		_ = b.Close()
		return nil, nil, err
	}
	return im, func() { _ = b.Close() }, nil
}

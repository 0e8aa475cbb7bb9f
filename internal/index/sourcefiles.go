package index

import (
	"context"
	"strconv"
	"strings"

	"github.com/symdepot/symdepot/internal/index/engine"
	"github.com/symdepot/symdepot/internal/index/record"
	"github.com/symdepot/symdepot/internal/store/blob"
)

// SourceFile is a source file in a transaction.
type SourceFile struct {
	record.Stored
	Transaction int64
}

// Sources finds source files in transactions. It is part of a DB.
type Sources struct{ db *engine.Database }

// Filed is a transaction with what it is filed under.
type Filed struct {
	Number           int64
	Product, Version string
}

// maxFiled limits the transactions in which source files are looked for: the newest
// ones.
const maxFiled = 64

// Holding returns the transactions in the scope that hold a content, newest first,
// at most 64.
func (s Sources) Holding(ctx context.Context, scope record.Scope, ref blob.Ref) ([]Filed, error) {
	where, args := scope.Where("t.product_id", []any{ref[:]})
	return s.filed(ctx, `SELECT DISTINCT t.id, p.name, t.version FROM content c JOIN object o ON o.content_id = c.id
		JOIN tx_file f ON f.object_id = o.id AND f.tx_id > 0 JOIN tx t ON t.id = f.tx_id JOIN product p ON p.id = t.product_id
		WHERE `+record.IsC+where+" ORDER BY t.id DESC LIMIT "+strconv.Itoa(maxFiled), args)
}

// FiledAs returns the transactions in the scope of a product and a version that have
// not been removed, newest first, at most 64.
func (s Sources) FiledAs(ctx context.Context, scope record.Scope, product, version string) ([]Filed, error) {
	where, args := scope.Where("t.product_id", []any{engine.Text(product), engine.Text(version)})
	return s.filed(ctx, `SELECT t.id, p.name, t.version FROM product p JOIN tx t ON t.product_id = p.id
		WHERE p.name = $1 AND t.version = $2 AND t.deleted_at IS NULL
		AND t.id > 0`+where+" ORDER BY t.id DESC LIMIT "+strconv.Itoa(maxFiled), args)
}

func (s Sources) filed(ctx context.Context, query string, args []any) (list []Filed, err error) {
	err = s.db.Points.Each(ctx, false, query, args, func(scan engine.Scan) (bool, error) {
		var f Filed
		err := scan(&f.Number, &f.Product, &f.Version)
		list = append(list, f)
		return err == nil, err
	})
	return list, s.db.Fail("look up builds", err)
}

// At returns the source files of a transaction that were added under one of a few
// paths.
func (s Sources) At(ctx context.Context, tx int64, paths ...string) ([]SourceFile, error) {
	args := []any{tx}
	marks := make([]string, len(paths))
	for i, p := range paths {
		args = append(args, engine.Text(p))
		marks[i] = "$" + strconv.Itoa(len(args))
	}
	return s.files(ctx, "f.path IN ("+strings.Join(marks, ", ")+")", args)
}

// Named returns the source files of a transaction whose folded name is name.
func (s Sources) Named(ctx context.Context, tx int64, name string) ([]SourceFile, error) {
	return s.files(ctx, "o.name_fold = $2", []any{tx, engine.Text(name)})
}

func (s Sources) files(ctx context.Context, cond string, args []any) (list []SourceFile, err error) {
	query := "SELECT " + record.ObjectColumns + ", " + record.FileColumns + ` FROM tx_file f
		JOIN object o ON o.id = f.object_id JOIN content c ON c.id = o.content_id JOIN tx t ON t.id = f.tx_id
		WHERE f.by_path = 2 AND f.tx_id = $1 AND ` + cond + " ORDER BY f.path"
	err = s.db.Points.Each(ctx, false, query, args, func(scan engine.Scan) (bool, error) {
		var f SourceFile
		err := record.ScanStored(scan, &f.Stored)
		f.Transaction = f.Number
		list = append(list, f)
		return err == nil, err
	})
	return list, s.db.Fail("look up source files", err)
}
